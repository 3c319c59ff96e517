//! The state that the handles of a gate share: one word, and the queue of waiters.
//!
//! 1. The word is the tick at which the gate opens, or 0 while it is open. All accesses are
//!    relaxed, because only the word itself is published. A check reads only the word; it reads the
//!    clock only if the gate is blocked.
//! 2. Blocking only moves the tick later, so the longest block wins. Only [`open`](State::open)
//!    undoes it.
//! 3. A caller that finds that the block has expired opens the gate without the lock: it exchanges
//!    the tick that it saw. If the gate has been blocked again meanwhile, the tick differs, and the
//!    gate stays blocked. The deadline, which is due at the same tick, grants the waiters, unless
//!    the gate has been blocked again before.
//! 4. A waiter joins under the lock, after it has seen there that the gate is blocked. `open`
//!    changes the word under the lock, and then grants all waiters. So `open` misses no waiter.
//! 5. While there are waiters, the [deadline](Deadline) is armed for the tick that the first one
//!    saw, or earlier. Blocking for longer does not change it: when it expires, it is armed again.
//! 6. A gate of a key is closed with its map. This is a flag under the lock of the queue: `close` releases
//!    all waiters, and each of them, and each that joins later, finds the flag and is refused.
//! 7. Wakers are called and dropped, and the deadline is armed, after the lock is released.

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use crate::error::{AcquireError, Cause, ErrorKind};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::time::{Clock, Deadline, Tick, wait_for};
use crate::wait::{Polled, remaining_timeout, report_clock};
use crate::wait_queue::{WaitQueue, WaiterId, lock_if_served, serve_and_wake};

/// The value of a new gate.
pub(super) const OPEN: u64 = 0;

#[derive(Default)]
pub(super) struct State {
    pub(super) word: AtomicU64,
    pub(super) clock: Clock,
    /// Created by the first waiter.
    slow: OnceLock<Box<Slow>>,
}

struct Slow {
    waiters: Mutex<Waiters>,
    deadline: Deadline,
    /// Wakes the queue at its deadline.
    on_deadline: Waker,
}

struct Waiters {
    queue: WaitQueue<()>,
    closed: bool,
}

/// Grants the waiters of a gate at its deadline.
struct OnDeadline(Weak<State>);

impl Wake for OnDeadline {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            // Disarmed first, so that a waiter that joins from now on arms it again.
            state.slow().deadline.disarm();
            state.settle(state.lock());
        }
    }
}

/// The word.
impl State {
    /// Returns whether the word is open; also `false` if the block has expired and no caller has
    /// noticed yet.
    #[inline(always)]
    pub(super) fn is_open_by_word(&self) -> bool {
        self.word.load(Ordering::Relaxed) == OPEN
    }

    #[cold]
    pub(super) fn check_blocked(&self) -> Result<(), AcquireError> {
        match self.blocked() {
            None => Ok(()),
            Some((_, left)) => Err(AcquireError::limited(left).because(Cause::Gate)),
        }
    }

    /// Returns until when the gate is blocked, and for how long. Opens it if the block has expired.
    pub(super) fn blocked(&self) -> Option<(Tick, Duration)> {
        let (word, relaxed) = (&self.word, Ordering::Relaxed);
        loop {
            let seen = word.load(relaxed);
            if seen == OPEN {
                return None;
            }
            let (until, now) = (Tick::from_nanos(seen), self.clock.now());
            if now < until || until.is_never() {
                return Some((until, wait_for(until, now)));
            }
            if word.compare_exchange(seen, OPEN, relaxed, relaxed).is_ok() {
                return None;
            }
        }
    }
}

/// Waiting.
impl State {
    fn slow(self: &Arc<Self>) -> &Slow {
        self.slow.get_or_init(|| {
            Box::new(Slow {
                waiters: Mutex::new(Waiters {
                    queue: WaitQueue::new(),
                    closed: false,
                }),
                deadline: Deadline::new(),
                on_deadline: Waker::from(Arc::new(OnDeadline(Arc::downgrade(self)))),
            })
        })
    }

    fn lock(self: &Arc<Self>) -> MutexGuard<'_, Waiters> {
        lock(&self.slow().waiters)
    }

    pub(super) fn waiting(&self) -> usize {
        let slow = self.slow.get();
        slow.map_or(0, |slow| lock(&slow.waiters).queue.len())
    }

    /// Opens the gate now, and releases all waiters.
    pub(super) fn open(self: &Arc<Self>) {
        let waiters = self.lock();
        // A read-modify-write like the others, so it does not undo a later one.
        self.word.swap(OPEN, Ordering::Relaxed);
        self.settle(waiters);
    }

    /// Refuses all waiters, and all that join later.
    pub(super) fn close(self: &Arc<Self>) {
        let mut waiters = self.lock();
        waiters.closed = true;
        self.settle(waiters);
    }

    /// Passes, is rejected, or joins the queue.
    #[inline(never)]
    pub(super) fn join(self: &Arc<Self>, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // The waker is cloned before and dropped after the lock, under which no foreign code runs.
        let waker = waker.clone();
        let mut waiters = self.lock();
        if waiters.closed {
            return Poll::Ready(Err(AcquireError::new(ErrorKind::Closed)));
        }
        let Some((until, left)) = self.blocked() else {
            return Poll::Ready(Ok(()));
        };
        if remaining_timeout().is_some_and(|timeout| left > timeout) {
            return Poll::Ready(Err(AcquireError::would_take(left).because(Cause::Gate)));
        }
        // Stored first: if the deadline cannot be armed, dropping the future must find its place.
        *id = Some(waiters.queue.push((), waker));
        drop(waiters);
        // Every waiter arms it: another one may have failed to do so.
        self.arm(until);
        report_clock(&self.clock);
        Poll::Pending
    }

    /// Polls a waiter again.
    #[inline(never)]
    pub(super) fn look(self: &Arc<Self>, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // The block may have expired, and the deadline be late.
        self.settle(self.lock());
        let waiters = &self.slow().waiters;
        if let Some((waiters, _)) = lock_if_served(waiters, |it| &mut it.queue, id, waker) {
            if waiters.closed {
                return Poll::Ready(Err(AcquireError::new(ErrorKind::Closed)));
            }
            return Poll::Ready(Ok(()));
        }
        report_clock(&self.clock);
        Poll::Pending
    }

    /// Removes a waiter from the queue.
    pub(super) fn leave(self: &Arc<Self>, id: &WaiterId) {
        // The lock was a temporary, so the waker is dropped after it.
        let waker = self.lock().queue.withdraw(id);
        drop(waker);
    }

    /// Arms the deadline. Do not call it under the lock.
    fn arm(self: &Arc<Self>, until: Tick) {
        if !until.is_never() {
            let slow = self.slow();
            let on_deadline = slow.on_deadline.clone();
            slow.deadline.arm(&self.clock, until, on_deadline);
        }
    }

    /// Grants all waiters if the gate is open or closed for good, then unlocks and wakes them; otherwise
    /// arms the deadline.
    fn settle<'a>(self: &'a Arc<Self>, waiters: MutexGuard<'a, Waiters>) {
        let mut blocked = None;
        serve_and_wake(&self.slow().waiters, waiters, |waiters, batch| {
            let Waiters { queue, closed } = waiters;
            let waits = !*closed && !queue.is_empty();
            blocked = waits.then(|| self.blocked()).flatten();
            while blocked.is_none() && !queue.is_empty() && !batch.is_full() {
                batch.push(queue.grant_head());
            }
        });
        if let Some((until, _)) = blocked {
            self.arm(until);
        }
    }
}
