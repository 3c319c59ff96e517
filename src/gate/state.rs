//! What the handles of a gate share: its word, and whoever waits until it opens.
//!
//! 1. A check looks at the word alone, and reads the clock only if the gate is shut.
//! 2. A waiter joins under the lock, after it has seen there that the gate is shut; opening by hand
//!    changes the word under the lock, and then lets everybody go. So the two do not miss each other.
//! 3. While somebody waits, the [alarm](Alarm) is set for the tick that the first one saw, or
//!    earlier. Shutting for longer leaves it as it is: when it goes off, it is set anew.
//! 4. A check that finds the time over opens the gate without the lock. Those who wait are let go by
//!    the alarm, which is due at the same tick, unless the gate has been shut anew before.
//! 5. Wakers are called and dropped, and the alarm is armed, after the lock.

use std::convert::Infallible;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use super::word::Word;
use crate::error::AcquireError;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::{Alarm, Clock, Tick};
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaitQueue, WaiterId, WaiterStatus, WakeList};

/// Whoever keeps the gates of many keys, as seen by one of them. Dropped when nobody has the gate
/// any more.
pub(super) trait Home: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// The gate was shut.
    fn was_shut(&self, gate: &Arc<State>);
}

pub(super) struct State {
    word: Word,
    clock: Clock,
    /// What only those need who wait.
    slow: OnceLock<Box<Slow>>,
    home: Option<Box<dyn Home>>,
}

struct Slow {
    waiting: Mutex<Waiting>,
    alarm: Alarm,
}

/// What the lock guards.
struct Waiting {
    line: WaitQueue<(), Infallible>,
    /// Calls the alarm's attention to the line; made for the first waiter.
    bell: Option<Waker>,
}

/// Rings when a gate is to be looked at.
struct Bell(Weak<State>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(state) = self.0.upgrade() {
            // First, so that what is armed from now on is armed anew.
            state.slow().alarm.take_off();
            state.settle(state.lock());
        }
    }
}

/// Until when a gate is shut, and what time it is.
pub(super) struct Shut {
    pub(super) until: Tick,
    pub(super) now: Tick,
}

impl Shut {
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_since(self.now)
    }
}

impl State {
    pub(super) fn new(clock: Clock, home: Option<Box<dyn Home>>) -> Self {
        Self {
            word: Word::new(),
            clock,
            slow: OnceLock::new(),
            home,
        }
    }

    fn slow(&self) -> &Slow {
        self.slow.get_or_init(|| {
            Box::new(Slow {
                waiting: Mutex::new(Waiting {
                    line: WaitQueue::new(),
                    bell: None,
                }),
                alarm: Alarm::new(),
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
            self.check_shut()
        }
    }

    #[cold]
    fn check_shut(&self) -> Result<(), AcquireError> {
        match self.shut() {
            None => Ok(()),
            Some(shut) => Err(AcquireError::limited(shut.left())),
        }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.word.is_open() || self.shut().is_none()
    }

    /// Whether it is shut. Opens it if the time is over.
    pub(super) fn shut(&self) -> Option<Shut> {
        loop {
            let until = self.word.shut_until()?;
            let now = self.clock.now();
            if now < until || until.is_never() {
                return Some(Shut { until, now });
            }
            if self.word.reopen(until) {
                return None;
            }
        }
    }

    pub(super) fn shut_for(self: &Arc<Self>, penalty: Duration) {
        if !penalty.is_zero() {
            self.word.shut(self.clock.now().saturating_add(penalty));
            if let Some(home) = &self.home {
                home.was_shut(self);
            }
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
    /// Goes through now, is refused, or joins those who wait.
    #[inline(never)]
    pub(super) fn join(
        self: &Arc<Self>,
        waker: &Waker,
    ) -> Result<Result<(), AcquireError>, WaiterId> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        let mut waiting = self.lock();
        let Some(shut) = self.shut() else {
            return Ok(Ok(()));
        };
        if remaining_timeout().is_some_and(|left| shut.left() > left) {
            return Ok(Err(AcquireError::would_take(shut.left())));
        }
        if waiting.line.is_full() {
            return Ok(Err(AcquireError::queue_full(shut.left())));
        }
        let first = waiting.line.is_empty();
        let ticket = waiting.line.push((), waker);
        let bell = first.then(|| self.bell(&mut waiting));
        drop(waiting);
        self.arm(shut.until, bell);
        Err(ticket)
    }

    /// A later poll.
    #[inline(never)]
    pub(super) fn look(&self, ticket: &WaiterId, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        // Declared before the lock, so dropped after it.
        let mut _unused = None;
        let mut waiting = self.lock();
        if waiting.line.look(ticket, waker) != WaiterStatus::Served {
            // The time may be over, and the alarm late.
            self.settle(waiting);
            waiting = self.lock();
        }
        if waiting.line.look(ticket, waker) == WaiterStatus::StaleWaker {
            drop(waiting);
            let fresh = waker.clone();
            waiting = self.lock();
            _unused = Some(waiting.line.set_waker(ticket, fresh));
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

    /// Gives up a place among those who wait.
    pub(super) fn leave(&self, ticket: &WaiterId) {
        // The lock was a temporary, so the waker is dropped after it.
        let waker = self.lock().line.withdraw(ticket);
        drop(waker);
    }

    pub(super) fn report_clock(&self) {
        report_clock(&self.clock);
    }

    fn bell(self: &Arc<Self>, waiting: &mut Waiting) -> Waker {
        let ring = || Waker::from(Arc::new(Bell(Arc::downgrade(self))));
        waiting.bell.get_or_insert_with(ring).clone()
    }

    /// Has it looked at when the time is over. Not under the lock.
    fn arm(&self, until: Tick, bell: Option<Waker>) {
        if let Some(bell) = bell {
            if !until.is_never() {
                self.slow().alarm.arm(&self.clock, until, bell);
            }
        }
    }

    /// Lets everybody go if it is open, then unlocks and wakes them; otherwise sets the alarm.
    fn settle<'a>(&'a self, mut waiting: MutexGuard<'a, Waiting>) {
        let mut batch = WakeList::new();
        while !waiting.line.is_empty() {
            if let Some(shut) = self.shut() {
                let bell = waiting.bell.clone();
                drop(waiting);
                return self.arm(shut.until, bell);
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
