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

impl Queue {
    const fn new() -> Self {
        Self {
            alarms: BTreeMap::new(),
            next: 0,
            running: false,
        }
    }

    /// Takes out what is due, the earliest first.
    fn take_due(&mut self, now: Tick, wakers: &mut Vec<Waker>) {
        while let Some(first) = self.alarms.first_entry() {
            if first.key().due > now {
                return;
            }
            wakers.push(first.remove());
        }
    }
}

impl Timer {
    const fn new() -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
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
        self.put(queue, alarm, waker);
        alarm
    }

    /// Sees to it that an alarm calls `waker`; sets it anew if it has gone off.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    pub(super) fn set_waker(&'static self, alarm: Alarm, waker: &Waker) {
        let queue = self.lock();
        let current = queue.alarms.get(&alarm);
        if current.is_some_and(|current| current.will_wake(waker)) {
            return;
        }
        drop(queue);
        // Cloned without the lock; if the alarm goes off in between, it is set anew.
        let waker = waker.clone();
        self.put(self.lock(), alarm, waker);
    }

    /// Takes an alarm back. Harmless if it has gone off.
    pub(super) fn unset(&self, alarm: Alarm) {
        let waker = self.lock().alarms.remove(&alarm);
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }

    /// Puts an alarm into the queue, and sees to it that the thread runs and knows.
    fn put(&'static self, mut queue: MutexGuard<'static, Queue>, alarm: Alarm, waker: Waker) {
        let old = queue.alarms.insert(alarm, waker);
        let first = queue.alarms.first_key_value().map(|(first, _)| *first);
        if first == Some(alarm) {
            self.earlier.notify_one();
        }
        let running = std::mem::replace(&mut queue.running, true);
        drop(queue);
        drop(old);
        if !running {
            self.start(alarm);
        }
    }

    #[cold]
    fn start(&'static self, alarm: Alarm) {
        let thread = thread::Builder::new().name("tollgate-timer".into());
        if let Err(error) = thread.spawn(|| self.run(Clock::system())) {
            let mut queue = self.lock();
            queue.running = false;
            let mut stranded = std::mem::take(&mut queue.alarms);
            drop(queue);
            stranded.remove(&alarm);
            // Whoever relied on this thread meanwhile is woken to try for itself.
            for waker in stranded.into_values() {
                contain(|| waker.wake());
            }
            panic!("cannot start the timer thread: {error}");
        }
    }

    fn run(&self, clock: Clock) {
        let mut due = Vec::new();
        let mut queue = self.lock();
        loop {
            let now = clock.now();
            queue.take_due(now, &mut due);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    /// Says its name when it is woken, and then panics if it is to.
    struct Named {
        name: u32,
        panics: bool,
        woken: Sender<u32>,
    }

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.woken.send(self.name).unwrap();
            assert!(!self.panics, "a waker that panics");
        }
    }

    fn in_millis(millis: u64) -> Tick {
        Clock::system()
            .now()
            .saturating_add(Duration::from_millis(millis))
    }

    fn waker(name: u32, panics: bool, woken: &Sender<u32>) -> Waker {
        let woken = woken.clone();
        Waker::from(Arc::new(Named {
            name,
            panics,
            woken,
        }))
    }

    #[test]
    fn what_is_due_is_taken_in_the_order_of_its_ticks() {
        let (sender, woken) = channel();
        let mut queue = Queue::new();
        for (name, millis) in [(3, 15), (1, 5), (4, 16), (2, 10)] {
            let due = Tick::after_epoch(Duration::from_millis(millis));
            let number = u64::from(name);
            let alarm = Alarm { due, number };
            queue.alarms.insert(alarm, waker(name, false, &sender));
        }
        let mut due = Vec::new();
        queue.take_due(Tick::after_epoch(Duration::from_millis(15)), &mut due);
        due.into_iter().for_each(Waker::wake);
        assert_eq!(woken.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(queue.alarms.len(), 1);
    }

    #[test]
    fn an_alarm_before_the_one_that_is_slept_for_goes_off_in_time() {
        let (sender, woken) = channel();
        let far = TIMER.set(in_millis(3_600_000), waker(1, false, &sender));
        let near = in_millis(1);
        TIMER.set(near, waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
        assert!(Clock::system().now() >= near);
        TIMER.unset(far);
    }

    #[test]
    fn a_waker_that_panics_does_not_end_the_thread() {
        let (sender, woken) = channel();
        TIMER.set(in_millis(0), waker(1, true, &sender));
        assert_eq!(woken.recv(), Ok(1));
        TIMER.set(in_millis(1), waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }

    #[test]
    fn an_alarm_that_was_unset_keeps_no_waker() {
        let (sender, woken) = channel();
        let never = Tick::after_epoch(Duration::MAX);
        let alarm = TIMER.set(never, waker(1, false, &sender));
        TIMER.set_waker(alarm, &waker(2, false, &sender));
        TIMER.unset(alarm);
        TIMER.unset(alarm);
        drop(sender);
        assert!(woken.recv().is_err());
    }

    #[test]
    fn an_alarm_that_went_off_can_be_set_anew() {
        let (sender, woken) = channel();
        let alarm = TIMER.set(in_millis(0), waker(1, false, &sender));
        assert_eq!(woken.recv(), Ok(1));
        TIMER.set_waker(alarm, &waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }
}
