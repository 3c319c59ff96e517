//! The timer of the process: wakers that are called when they are due.
//!
//! One thread, started when the first alarm is set, and never ended. It depends on no runtime:
//! whoever waits is woken, whether or not any executor is being polled at that moment.
//!
//! Invariants:
//!
//! 1. The queue is under one lock, which is never held while a waker is called, cloned or dropped.
//! 2. The thread sleeps relatively, for as long as the earliest alarm is away by the clock, and
//!    looks at the clock again when it wakes: waking early, late or for nothing does no harm.
//! 3. An alarm that becomes the earliest notifies the thread under the lock, so the thread cannot
//!    miss it between looking and sleeping. With nothing due it sleeps until then.
//! 4. A waker that panics does not end the thread.
//!
//! The lock is a plain monitor, with nothing beside it that could be observed without it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;

use super::clock::Clock;
use super::tick::Tick;
use crate::foreign::contain;

/// The timer of the process.
pub(super) static TIMER: Timer = Timer::new();

/// Alarms, and the thread that fires them.
pub(super) struct Timer {
    queue: Mutex<Queue>,
    earlier: Condvar,
}

struct Queue {
    alarms: BTreeMap<Alarm, Waker>,
    next: u64,
    running: bool,
}

/// An alarm that was set: when it is due, and a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    due: Tick,
    number: u64,
}

impl Timer {
    const fn new() -> Self {
        Self {
            queue: Mutex::new(Queue {
                alarms: BTreeMap::new(),
                next: 0,
                running: false,
            }),
            earlier: Condvar::new(),
        }
    }

    /// Sets an alarm.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    pub(super) fn set(&'static self, due: Tick, waker: Waker) -> Alarm {
        let mut queue = self.lock();
        let number = queue.next;
        queue.next += 1;
        let alarm = Alarm { due, number };
        let start = !std::mem::replace(&mut queue.running, true);
        self.insert(&mut queue, alarm, waker);
        drop(queue);
        if start {
            self.start(alarm);
        }
        alarm
    }

    /// Sees to it that an alarm calls `waker`; sets it anew if it has gone off.
    pub(super) fn set_waker(&self, alarm: Alarm, waker: &Waker) {
        let waker = waker.clone();
        let mut queue = self.lock();
        let old = self.insert(&mut queue, alarm, waker);
        drop(queue);
        drop(old);
    }

    /// Takes an alarm back. Harmless if it has gone off.
    pub(super) fn unset(&self, alarm: Alarm) {
        let waker = self.lock().alarms.remove(&alarm);
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }

    fn insert(&self, queue: &mut Queue, alarm: Alarm, waker: Waker) -> Option<Waker> {
        let old = queue.alarms.insert(alarm, waker);
        if queue.alarms.first_key_value().map(|(first, _)| first) == Some(&alarm) {
            self.earlier.notify_one();
        }
        old
    }

    #[cold]
    fn start(&'static self, alarm: Alarm) {
        let thread = thread::Builder::new().name("tollgate-timer".into());
        if let Err(error) = thread.spawn(|| self.run(Clock::system())) {
            self.lock().running = false;
            self.unset(alarm);
            panic!("cannot start the timer thread: {error}");
        }
    }

    fn run(&self, clock: Clock) {
        let mut due = Vec::new();
        let mut queue = self.lock();
        loop {
            let now = clock.now();
            while let Some(first) = queue
                .alarms
                .first_entry()
                .filter(|first| first.key().due <= now)
            {
                due.push(first.remove());
            }
            if !due.is_empty() {
                drop(queue);
                for waker in due.drain(..) {
                    // The panic hook reports it; there is nobody else to tell.
                    contain(|| waker.wake());
                }
                queue = self.lock();
                continue;
            }
            let next = queue.alarms.first_key_value().map(|(alarm, _)| alarm.due);
            queue = match next {
                None => self
                    .earlier
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let wait = self.earlier.wait_timeout(queue, due.saturating_since(now));
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
