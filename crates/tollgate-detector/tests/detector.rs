//! What a detector promises, on a clock that is moved by hand.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod detector {
    mod accuracy;
    mod gates;
    mod passes;
}
