//! Tests the promises of a detector, on a manual clock.

#[path = "../../../tests/support/mod.rs"]
mod support;

mod detector {
    mod accuracy;
    mod gates;
    mod passes;
}
