//! Wakers that misbehave: they call back, panic, or do both when they are dropped.
//!
//! Wakers are the only foreign code that a throttle runs. A callback from here would deadlock if it
//! ran under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A function to call.
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

/// Returns a waker that makes one call when it is woken and another one when its last clone is
/// dropped.
pub(crate) fn calls(
    woken: impl Fn() + Send + Sync + 'static,
    dropped: impl Fn() + Send + Sync + 'static,
) -> Waker {
    Waker::from(Arc::new(Caller {
        woken: Box::new(woken),
        dropped: Box::new(dropped),
    }))
}

/// Returns a waker that calls back when it is woken.
pub(crate) fn calls_when_woken(callback: impl Fn() + Send + Sync + 'static) -> Waker {
    calls(callback, || {})
}

/// Returns a waker that calls back when its last clone is dropped.
pub(crate) fn calls_when_dropped(callback: impl Fn() + Send + Sync + 'static) -> Waker {
    calls(|| {}, callback)
}

/// Returns a waker that panics when it is woken.
pub(crate) fn panics_when_woken() -> Waker {
    calls_when_woken(|| panic!("a waker that panics on purpose"))
}

/// A panic payload that panics once more when it is dropped.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics on purpose");
    }
}

/// Returns a waker that panics when it is woken, with a [`Bomb`].
pub(crate) fn throws_a_bomb_when_woken() -> Waker {
    calls_when_woken(|| std::panic::panic_any(Bomb))
}

/// Runs code that may panic, and returns the panic's message.
pub(crate) fn panic_message<R>(run: impl FnOnce() -> R) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(run)).err()?;
    let text = payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
    Some(text.expect("a panic with a message"))
}
