//! One model, two engines: the scripts beside the limiters of tollgate, step by step, on the same
//! random cases, by a clock that the test sets.

mod support;

mod scripts {
    mod agree;
    mod engine;
    mod exact;
    mod quick;
}
