//! Wakers that misbehave: they call back, panic, or do both when they are dropped.
//!
//! The only foreign code that a throttle runs is in wakers. What is called back from here would
//! lock up if it ran under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Something to call.
type Callback = Box<dyn Fn() + Send + Sync>;

/// Calls back when it is woken and when its last clone is dropped.
struct Caller {
    woken: Callback,
    dropped: Callback,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        (self.woken)();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        (self.woken)();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        (self.dropped)();
    }
}

/// A waker that makes one call when it is woken and another one when its last clone is dropped.
pub(crate) fn calls(
    woken: impl Fn() + Send + Sync + 'static,
    dropped: impl Fn() + Send + Sync + 'static,
) -> Waker {
    Waker::from(Arc::new(Caller {
        woken: Box::new(woken),
        dropped: Box::new(dropped),
    }))
}

/// A waker that calls back when it is woken.
pub(crate) fn calls_when_woken(callback: impl Fn() + Send + Sync + 'static) -> Waker {
    calls(callback, || {})
}

/// A waker that calls back when its last clone is dropped.
pub(crate) fn calls_when_dropped(callback: impl Fn() + Send + Sync + 'static) -> Waker {
    calls(|| {}, callback)
}

/// A waker that panics when it is woken.
pub(crate) fn panics_when_woken() -> Waker {
    calls_when_woken(|| panic!("a waker that panics on purpose"))
}

/// Panics once more when the first panic is cleaned up.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics on purpose");
    }
}

/// A waker that panics when it is woken, with a [`Bomb`].
pub(crate) fn throws_a_bomb_when_woken() -> Waker {
    calls_when_woken(|| std::panic::panic_any(Bomb))
}

/// Runs what may panic, and says with which message it did.
pub(crate) fn panic_message<R>(run: impl FnOnce() -> R) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
    Some(text.expect("a panic with a message"))
}
