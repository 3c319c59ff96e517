//! What a detector promises, on a clock that is moved by hand.

mod support;

mod detector {
    mod accuracy;
    mod gates;
    mod losses;
    mod naive;
    mod passes;
    mod penalties;
    mod run;
    mod threads;
}
