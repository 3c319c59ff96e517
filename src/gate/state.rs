//! The state that the handles of a gate share: one word, and the queue of waiters.
//!
//! 1. The word is the tick at which the gate opens, or 0 while it is open. All accesses are
//!    relaxed, because only the word itself is published. A check reads only the word; it reads the
//!    clock only if the gate is blocked.
//! 2. Blocking only moves the tick later, so the longest block wins. Only [`open`](Gate::open)
//!    undoes it.
//! 3. A caller that finds that the block has expired opens the gate without the lock: it exchanges
//!    the tick that it saw. If the gate has been blocked again meanwhile, the tick differs, and the
//!    gate stays blocked. The deadline, which is due at the same tick, grants the waiters, unless
//!    the gate has been blocked again before.
//! 4. A waiter joins under the lock, after it has seen there that the gate is blocked. `open`
//!    changes the word under the lock, and then grants all waiters. So `open` misses no waiter.
//! 5. While there are waiters, the [deadline](Deadline) is armed for the tick that the first one
//!    saw, or earlier. Blocking for longer does not change it: when it expires, it is armed again.
//! 6. Wakers are called and dropped, and the deadline is armed, after the lock is released.

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use super::Gate;
use super::acquire::Stage;
use crate::decision::wait_for;
use crate::error::AcquireError;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::time::{Clock, Deadline, Tick};
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaitQueue, WaiterId, WaiterStatus, WakeList};

const OPEN: u64 = 0;

pub(super) struct State {
    word: AtomicU64,
    pub(super) clock: Clock,
    /// Created by the first waiter.
    slow: OnceLock<Box<Slow>>,
}

struct Slow {
    queue: Mutex<WaitQueue<()>>,
    deadline: Deadline,
    /// Wakes the queue at its deadline.
    on_deadline: Waker,
}

/// Grants the waiters of a gate at its deadline.
struct OnDeadline(Weak<State>);

impl Wake for OnDeadline {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            let gate = Gate(state);
            // Disarmed first, so that a waiter that joins from now on arms it again.
            gate.slow().deadline.disarm();
            gate.settle(gate.lock());
        }
    }
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            word: AtomicU64::new(OPEN),
            clock,
            slow: OnceLock::new(),
        }
    }
}

/// The word.
impl Gate {
    /// Returns whether the word is open; also `false` if the block has expired and no caller has
    /// noticed yet.
    #[inline(always)]
    pub(super) fn is_open_by_word(&self) -> bool {
        self.0.word.load(Ordering::Relaxed) == OPEN
    }

    /// Returns whether the gate is open after everything that came before, on any thread.
    pub(super) fn is_open_at_last(&self) -> bool {
        // A read-modify-write reads the newest value.
        self.0.word.fetch_max(OPEN, Ordering::Relaxed) == OPEN || self.blocked().is_none()
    }

    #[cold]
    pub(super) fn check_blocked(&self) -> Result<(), AcquireError> {
        match self.blocked() {
            None => Ok(()),
            Some((_, left)) => Err(AcquireError::limited(left)),
        }
    }

    /// Returns until when the gate is blocked, and for how long. Opens it if the block has expired.
    pub(super) fn blocked(&self) -> Option<(Tick, Duration)> {
        let (word, relaxed) = (&self.0.word, Ordering::Relaxed);
        loop {
            let seen = word.load(relaxed);
            if seen == OPEN {
                return None;
            }
            let (until, now) = (Tick::from_nanos(seen), self.0.clock.now());
            if now < until || until.is_never() {
                return Some((until, wait_for(until, now)));
            }
            if word.compare_exchange(seen, OPEN, relaxed, relaxed).is_ok() {
                return None;
            }
        }
    }

    pub(super) fn block_until(&self, until: Tick) {
        self.0.word.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }
}

/// Waiting.
impl Gate {
    fn slow(&self) -> &Slow {
        self.0.slow.get_or_init(|| {
            Box::new(Slow {
                queue: Mutex::new(WaitQueue::new()),
                deadline: Deadline::new(),
                on_deadline: Waker::from(Arc::new(OnDeadline(Arc::downgrade(&self.0)))),
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue<()>> {
        lock(&self.slow().queue)
    }

    pub(super) fn queue_len(&self) -> usize {
        let slow = self.0.slow.get();
        slow.map_or(0, |slow| lock(&slow.queue).len())
    }

    pub(super) fn open_and_release(&self) {
        let queue = self.lock();
        // A read-modify-write like the others, so it does not undo a later one.
        self.0.word.swap(OPEN, Ordering::Relaxed);
        self.settle(queue);
    }

    /// Passes, is rejected, or joins the queue.
    #[inline(never)]
    pub(super) fn join(&self, stage: &mut Stage, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        // The waker is cloned before and dropped after the lock, under which no foreign code runs.
        let waker = waker.clone();
        let mut queue = self.lock();
        let Some((until, left)) = self.blocked() else {
            return Poll::Ready(Ok(()));
        };
        if remaining_timeout().is_some_and(|timeout| left > timeout) {
            return Poll::Ready(Err(AcquireError::would_take(left)));
        }
        if queue.is_full() {
            return Poll::Ready(Err(AcquireError::queue_full(left)));
        }
        // Stored first: if the deadline cannot be armed, dropping the future must find its place.
        *stage = Stage::Waiting(queue.push((), waker));
        drop(queue);
        // Every waiter arms it: another one may have failed to do so.
        self.arm(until);
        report_clock(&self.0.clock);
        Poll::Pending
    }

    /// Polls a waiter again.
    #[inline(never)]
    pub(super) fn poll_waiter(
        &self,
        id: &WaiterId,
        waker: &Waker,
    ) -> Poll<Result<(), AcquireError>> {
        let status = self.lock().look(id, waker);
        if status == WaiterStatus::StaleWaker {
            let fresh = waker.clone();
            let unused = self.lock().set_waker(id, fresh);
            drop(unused);
        }
        if status != WaiterStatus::Served {
            // The block may have expired, and the deadline be late. Also, the waiter may have been
            // released before its waker was replaced, and the old waker called.
            self.settle(self.lock());
            if self.lock().look(id, waker) != WaiterStatus::Served {
                report_clock(&self.0.clock);
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Removes a waiter from the queue.
    pub(super) fn leave(&self, id: &WaiterId) {
        // The lock was a temporary, so the waker is dropped after it.
        let waker = self.lock().withdraw(id);
        drop(waker);
    }

    /// Arms the deadline. Do not call it under the lock.
    fn arm(&self, until: Tick) {
        if !until.is_never() {
            let slow = self.slow();
            let on_deadline = slow.on_deadline.clone();
            slow.deadline.arm(&self.0.clock, until, on_deadline);
        }
    }

    /// Grants all waiters if the gate is open, then unlocks and wakes them; otherwise arms the
    /// deadline.
    fn settle<'a>(&'a self, mut queue: MutexGuard<'a, WaitQueue<()>>) {
        let mut batch = WakeList::new();
        while !queue.is_empty() {
            if let Some((until, _)) = self.blocked() {
                drop(queue);
                return self.arm(until);
            }
            while !queue.is_empty() && !batch.is_full() {
                batch.push(queue.grant_head());
            }
            drop(queue);
            batch.wake_all();
            queue = self.lock();
        }
    }
}
