//! How a property is tried.

use proptest::test_runner::{Config, contextualize_config};

/// With so many random cases; the environment variable `PROPTEST_CASES` is heeded instead, if it is
/// set, also by who runs them without the macro. Writes no file when a case fails: the case is in
/// the message.
pub(crate) fn cases(cases: u32) -> Config {
    contextualize_config(Config {
        cases,
        failure_persistence: None,
        // As many as the variable may ask for.
        max_global_rejects: u32::MAX,
        max_local_rejects: u32::MAX,
        ..Config::default()
    })
}
