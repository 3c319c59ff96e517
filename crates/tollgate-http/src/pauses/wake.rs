//! [`wake_all`]: calls wakers, which are foreign code.
//!
//! A waker may drop its call at once, which wakes the next one inside of that call. Such calls would nest as deep as the
//! queue is long. So the outermost call on a thread calls all wakers, and the others leave theirs to it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

thread_local! {
    /// The wakers that the outermost call still has to call. `None` if there is no such call.
    static LATER: RefCell<Option<VecDeque<Waker>>> = const { RefCell::new(None) };
}

/// Calls wakers in their order, or leaves them to the outermost call on this thread. Call it without a lock.
pub(super) fn wake_all(woken: Vec<Waker>) {
    if woken.is_empty() {
        return;
    }
    let mut woken = VecDeque::from(woken);
    let is_nested = LATER.try_with(|later| {
        let mut later = later.borrow_mut();
        let is_nested = later.is_some();
        later.get_or_insert_default().append(&mut woken);
        is_nested
    });
    // In a destructor of the thread that runs after that of `LATER`, no waker is deferred.
    if is_nested == Ok(true) {
        return;
    }
    while let Some(waker) = woken.pop_front().or_else(next_later) {
        // A waker that panics keeps no other from being woken.
        contain_panic(|| waker.wake());
    }
}

/// Calls foreign code, and catches its panic. The payload is not dropped, because that may panic again.
pub(super) fn contain_panic(foreign: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(foreign)).map_err(mem::forget);
}

/// Takes the next waker, or ends the outermost call if there is none.
fn next_later() -> Option<Waker> {
    let next = LATER.try_with(|later| {
        let mut later = later.borrow_mut();
        let next = later.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *later = None;
        }
        next
    });
    next.ok().flatten()
}
