//! What the handles of a gate share: its word, and the queue of waiters.
//!
//! 1. A check reads the word alone, and reads the clock only if the gate is blocked.
//! 2. A waiter joins under the lock, after it has seen there that the gate is blocked. `open` changes
//!    the word under the lock, and then grants all waiters. So the two do not miss each other.
//! 3. While there are waiters, the [deadline](Deadline) is armed for the tick that the first one saw,
//!    or earlier. Blocking for longer leaves it as it is: when it expires, it is armed again.
//! 4. A check that finds the time over opens the gate without the lock. The deadline, which is due at
//!    the same tick, grants the waiters, unless the gate has been blocked again before.
//! 5. Wakers are called and dropped, and the deadline is armed, after the lock is released.

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use super::word::Word;
use crate::error::AcquireError;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::{Clock, Deadline, Tick};
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaitQueue, WaiterId, WaiterStatus, WakeList};

pub(super) struct State {
    word: Word,
    clock: Clock,
    /// Made by the first waiter.
    slow: OnceLock<Box<Slow>>,
}

struct Slow {
    waiting: Mutex<Waiting>,
    deadline: Deadline,
}

/// What the lock guards.
struct Waiting {
    line: WaitQueue<()>,
    /// Wakes the queue at its deadline; made for the first waiter.
    on_deadline: Option<Waker>,
}

/// Grants the waiters of a gate at its deadline.
struct QueueTimer(Weak<State>);

impl Wake for QueueTimer {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            // First, so that a waiter who joins from now on arms it again.
            state.slow().deadline.disarm();
            state.settle(state.lock());
        }
    }
}

/// Until when a gate is blocked, and what time it is.
pub(super) struct Blocked {
    pub(super) until: Tick,
    pub(super) now: Tick,
}

impl Blocked {
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_since(self.now)
    }
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            word: Word::new(),
            clock,
            slow: OnceLock::new(),
        }
    }

    fn slow(&self) -> &Slow {
        self.slow.get_or_init(|| {
            Box::new(Slow {
                waiting: Mutex::new(Waiting {
                    line: WaitQueue::new(),
                    on_deadline: None,
                }),
                deadline: Deadline::new(),
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.slow().waiting)
    }

    #[inline(always)]
    pub(super) fn check(&self) -> Result<(), AcquireError> {
        if self.word.is_open() {
            Ok(())
        } else {
            self.check_blocked()
        }
    }

    #[cold]
    fn check_blocked(&self) -> Result<(), AcquireError> {
        match self.blocked() {
            None => Ok(()),
            Some(blocked) => Err(AcquireError::limited(blocked.left())),
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.word.is_open() || self.blocked().is_none()
    }

    /// Returns whether it is open after everything that came before, on whatever thread.
    pub(super) fn is_open_at_last(&self) -> bool {
        self.word.is_open_at_last() || self.blocked().is_none()
    }

    /// Returns until when it is blocked. Opens it if the time is over.
    pub(super) fn blocked(&self) -> Option<Blocked> {
        loop {
            let until = self.word.blocked_until()?;
            let now = self.clock.now();
            if now < until || until.is_never() {
                return Some(Blocked { until, now });
            }
            if self.word.expire(until) {
                return None;
            }
        }
    }

    pub(super) fn block_for(&self, duration: Duration) {
        if !duration.is_zero() {
            self.word.block(self.clock.now().saturating_add(duration));
        }
    }

    pub(super) fn open(&self) {
        let waiting = self.lock();
        self.word.open();
        self.settle(waiting);
    }

    pub(super) fn waiting(&self) -> usize {
        self.slow.get().map_or(0, |_| self.lock().line.len())
    }
}

/// Waiting.
impl State {
    /// Passes, is rejected, or joins the queue.
    #[inline(never)]
    pub(super) fn join(
        self: &Arc<Self>,
        waker: &Waker,
    ) -> Result<Result<(), AcquireError>, (WaiterId, Tick, Waker)> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        let mut waiting = self.lock();
        let Some(blocked) = self.blocked() else {
            return Ok(Ok(()));
        };
        if remaining_timeout().is_some_and(|left| blocked.left() > left) {
            return Ok(Err(AcquireError::would_take(blocked.left())));
        }
        if waiting.line.is_full() {
            return Ok(Err(AcquireError::queue_full(blocked.left())));
        }
        let ticket = waiting.line.push((), waker);
        // For every waiter: another one may have failed to arm it.
        let on_deadline = self.on_deadline(&mut waiting);
        Err((ticket, blocked.until, on_deadline))
    }

    /// Polls a waiter again.
    #[inline(never)]
    pub(super) fn poll_waiter(
        &self,
        ticket: &WaiterId,
        waker: &Waker,
    ) -> Poll<Result<(), AcquireError>> {
        // Declared before the lock, so dropped after it.
        let mut _unused = None;
        let mut waiting = self.lock();
        if waiting.line.look(ticket, waker) != WaiterStatus::Served {
            // The time may be over, and the deadline late.
            self.settle(waiting);
            waiting = self.lock();
        }
        if waiting.line.look(ticket, waker) == WaiterStatus::StaleWaker {
            drop(waiting);
            let fresh = waker.clone();
            waiting = self.lock();
            _unused = waiting.line.set_waker(ticket, fresh);
        }
        // Still stale, perhaps: a clone need not be known as waking the same.
        match waiting.line.look(ticket, waker) {
            WaiterStatus::Served => Poll::Ready(Ok(())),
            WaiterStatus::Waiting | WaiterStatus::StaleWaker => {
                drop(waiting);
                report_clock(&self.clock);
                Poll::Pending
            }
        }
    }

    /// Takes a waiter out of the queue.
    pub(super) fn leave(&self, ticket: &WaiterId) {
        // The lock was a temporary, so the waker is dropped after it.
        let waker = self.lock().line.withdraw(ticket);
        drop(waker);
    }

    pub(super) fn report_clock(&self) {
        report_clock(&self.clock);
    }

    fn on_deadline(self: &Arc<Self>, waiting: &mut Waiting) -> Waker {
        let timer = || Waker::from(Arc::new(QueueTimer(Arc::downgrade(self))));
        waiting.on_deadline.get_or_insert_with(timer).clone()
    }

    /// Arms the deadline. Not under the lock.
    pub(super) fn arm(&self, until: Tick, on_deadline: Option<Waker>) {
        if let Some(on_deadline) = on_deadline {
            if !until.is_never() {
                self.slow().deadline.arm(&self.clock, until, on_deadline);
            }
        }
    }

    /// Grants all waiters if it is open, then unlocks and wakes them; otherwise arms the deadline.
    fn settle<'a>(&'a self, mut waiting: MutexGuard<'a, Waiting>) {
        let mut batch = WakeList::new();
        while !waiting.line.is_empty() {
            if let Some(blocked) = self.blocked() {
                let on_deadline = waiting.on_deadline.clone();
                drop(waiting);
                return self.arm(blocked.until, on_deadline);
            }
            while !waiting.line.is_empty() && !batch.is_full() {
                batch.push(waiting.line.grant_head());
            }
            drop(waiting);
            batch.wake_all();
            waiting = self.lock();
        }
    }
}
