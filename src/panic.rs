//! Calling code that is not ours: wakers.
//!
//! They are called inside `Drop` of permits and futures and on the timer thread, where a panic that
//! goes on would abort the process, strand the rest of a line or end all timers.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code, and lets a panic of it go no further.
pub(crate) fn catch_waker_panic(foreign: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
        // Not dropped: that is foreign code too, and could panic again.
        std::mem::forget(payload);
    }
}
