//! Waiting by blocking the thread.
//!
//! 1. A wake sets a flag before it unparks, and the flag is consumed before the next poll. So a
//!    wake that comes before the park is not lost, and a stray unpark by other code is not mistaken
//!    for a wake.
//! 2. A thread keeps one waker for all its waits, in a thread-local that is empty while it waits. A
//!    wait inside a wait creates another waker, so that the two cannot consume each other's wakes.
//! 3. With debug assertions, a thread that drives a tokio runtime does not block, but panics, even
//!    if it would not have to wait: otherwise only a busy program shows the mistake.

use std::cell::Cell;
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

// Those of the standard library also under shuttle, whose threads never block in here.
thread_local! {
    static SPARE: Cell<Option<Own>> = const { Cell::new(None) };
    /// Identifies the waker of the innermost wait.
    static CURRENT: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Wakes one thread.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        // Pairs with the swap in `block_on`: the next poll sees everything that was done before the
        // wake.
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// The waker that a thread keeps between its waits.
struct Own {
    unpark: Arc<Unpark>,
    waker: Waker,
}

impl Own {
    fn new() -> Self {
        let unpark = Arc::new(Unpark {
            thread: thread::current(),
            woken: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&unpark));
        Self { unpark, waker }
    }
}

/// Restores the waker of the outer wait, also when a poll panics.
struct Restore(*const ());

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|cell| cell.set(self.0));
    }
}

/// Polls a future to completion, parking the thread between polls.
#[inline(always)]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Thread-locals are gone during the teardown of the thread; in that case a new waker is
    // created.
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    let own = spare.unwrap_or_else(Own::new);
    let outer = CURRENT.try_with(|cell| cell.replace(own.waker.data()));
    let restore = Restore(outer.unwrap_or(ptr::null()));
    let mut context = Context::from_waker(&own.waker);
    let output = loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            break output;
        }
        while !own.unpark.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    };
    drop(restore);
    let _ = SPARE.try_with(|cell| cell.set(Some(own)));
    output
}

/// Panics at the caller's location if the thread drives a tokio runtime, in a task or in
/// `block_on`. Only tokio knows that, and reports it only with this panic. It allows blocking in
/// `spawn_blocking`, in `block_in_place`, and on other threads.
#[cfg(all(feature = "tokio", debug_assertions))]
#[track_caller]
pub(crate) fn assert_may_block() {
    // A thread that drives a runtime has a current one. Without one, tokio is not asked: once the thread-locals
    // of tokio are gone, the next line would panic in a destructor, which aborts the process.
    if tokio::runtime::Handle::try_current().is_ok() {
        drop(tokio::sync::Mutex::const_new(()).blocking_lock());
    }
}

#[cfg(not(all(feature = "tokio", debug_assertions)))]
#[inline(always)]
pub(crate) fn assert_may_block() {}

/// Returns whether a poll comes directly from [`block_on`], and so from a thread that drives no
/// runtime while it waits.
pub(crate) fn is_blocking(waker: &Waker) -> bool {
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    !current.is_null() && waker.data() == current
}
