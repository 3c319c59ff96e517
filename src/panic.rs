//! Calls of foreign code: wakers, destructors, checks, rollbacks.
//!
//! They run inside `Drop` of permits and futures and on the timer thread. There an uncaught panic
//! would abort the process, strand the rest of a queue or end all timers.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code, and catches its panic. Returns `None` after a panic.
pub(crate) fn contain_panic<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    let called = catch_unwind(AssertUnwindSafe(foreign));
    // The payload is not dropped: its destructor is foreign code too, and could panic again.
    called.map_err(std::mem::forget).ok()
}
