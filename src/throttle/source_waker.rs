//! [`SourceWaker`]: the waker of a source that was not ready when its turn came. It tells whether the
//! source still has something to report, so that its reader does not join the queue of the limiter
//! again before that.
//!
//! 1. The source has the only strong references. Once all are dropped, for example because the source
//!    keeps the waker of another call in place of this one, nothing is reported any more, and the reader
//!    is not asleep.
//! 2. `called` is set before the task is woken. So a reader that finds it unset is polled again.
//! 3. A reader that has moved to another task is not asleep, because the source would wake the old one.
//!    Wakers that do not say that they wake the same task cost turns, and nothing else.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::{AtomicUsize, Ordering};

pub(super) struct SourceWaker {
    called: AtomicUsize,
    task: Waker,
}

impl SourceWaker {
    /// Calls a source with a waker of this kind. If the source is not ready, `asleep` gets what is left of
    /// the waker.
    pub(super) fn poll<R>(
        context: &Context<'_>,
        call: impl FnOnce(&mut Context<'_>) -> Poll<R>,
        asleep: impl FnOnce(Weak<Self>),
    ) -> Poll<R> {
        let source = Arc::new(Self {
            called: AtomicUsize::new(0),
            task: context.waker().clone(),
        });
        let weak = Arc::downgrade(&source);
        let polled = call(&mut Context::from_waker(&Waker::from(source)));
        if polled.is_pending() {
            asleep(weak);
        }
        polled
    }

    /// Returns whether the source has yet to wake this task.
    pub(super) fn is_awaited(weak: &Weak<Self>, context: &Context<'_>) -> bool {
        // Acquire, and release below: a reader that goes on sees what the source did before it woke.
        weak.upgrade().is_some_and(|source| {
            source.called.load(Ordering::Acquire) == 0 && source.task.will_wake(context.waker())
        })
    }
}

impl Wake for SourceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.called.store(1, Ordering::Release);
        self.task.wake_by_ref();
    }
}
