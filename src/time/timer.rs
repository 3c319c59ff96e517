//! The timer of the process: it wakes wakers when they are due.
//!
//! It has one thread, which starts when the first entry is set and never ends. It depends on no runtime:
//! waiters are woken whether or not an executor is being polled.
//!
//! 1. The queue is under one lock, which is never held while a waker is called, cloned or dropped.
//! 2. The thread sleeps relatively, for as long as the earliest entry is away. When it wakes, it compares
//!    its clock with the operating system's before it looks at the queue, because the machine may have
//!    been suspended or its counter set back meanwhile. Waking early, late or for nothing does no harm.
//! 3. An entry that becomes the earliest notifies the thread under the lock, so the thread cannot miss it
//!    between looking and sleeping. With an empty queue it sleeps until it is notified.
//! 4. A waker that panics does not end the thread.
//! 5. Sleeps end late. So the thread sleeps somewhat [shorter](super::wake_latency), and yields its
//!    processor until the deadline.
//!
//! The lock is a plain monitor, with nothing beside it that could be observed without it.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::counter::{CheckedCounter, Source};
use super::queue::{Key, Queue};
use super::system;
use super::tick::Tick;
use super::wake_latency::WakeLatency;
use crate::panic::catch_waker_panic;

/// The timer of the process.
pub(super) static TIMER: Timer = Timer {
    state: Mutex::new(State {
        queue: Queue::new(),
        running: false,
    }),
    earlier: Condvar::new(),
};

/// Entries, and the thread that wakes them.
pub(super) struct Timer {
    state: Mutex<State>,
    earlier: Condvar,
}

struct State {
    queue: Queue,
    running: bool,
}

impl Timer {
    /// Sets an entry that wakes `waker` at `due`.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    pub(super) fn set(&'static self, due: Tick, waker: Waker) -> Key {
        let mut state = self.lock();
        let key = state.queue.key(due);
        self.insert(state, key, waker);
        key
    }

    /// Makes an entry wake `waker`; sets it again if it has expired.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    pub(super) fn set_waker(&'static self, key: Key, waker: &Waker) {
        if self.lock().queue.will_wake(key, waker) {
            return;
        }
        // Cloned without the lock; if the entry expires in between, it is set again.
        let waker = waker.clone();
        self.insert(self.lock(), key, waker);
    }

    /// Cancels an entry. Harmless if it has expired.
    pub(super) fn cancel(&self, key: Key) {
        let waker = self.lock().queue.remove(key);
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }

    /// Inserts an entry, and makes sure that the thread runs and knows.
    fn insert(&'static self, mut state: MutexGuard<'static, State>, key: Key, waker: Waker) {
        let old = state.queue.insert(key, waker);
        if state.queue.first() == Some(key) {
            self.earlier.notify_one();
        }
        let running = std::mem::replace(&mut state.running, true);
        drop(state);
        if !running {
            self.start(key);
        }
        // Foreign code, which may panic.
        drop(old);
    }

    #[cold]
    fn start(&'static self, key: Key) {
        let thread = thread::Builder::new().name("tollgate-timer".into());
        if let Err(error) = thread.spawn(|| self.run()) {
            let mut state = self.lock();
            state.running = false;
            let own = state.queue.remove(key);
            let stranded = state.queue.take_all();
            drop(state);
            drop(own);
            // Waiters that relied on this thread meanwhile are woken to try for themselves.
            for waker in stranded {
                catch_waker_panic(|| waker.wake());
            }
            panic!("cannot start the timer thread: {error}");
        }
    }

    fn run(&self) {
        precise_sleeps();
        let mut schedule = Schedule::new();
        let mut due = Vec::new();
        let mut state = self.lock();
        loop {
            let step = schedule.next_step(&mut state.queue, system::counter(), &mut due);
            state = match step {
                Step::Wake => {
                    drop(state);
                    for waker in due.drain(..) {
                        // The panic hook reports it; there is nobody else to tell.
                        catch_waker_panic(|| waker.wake());
                    }
                    self.lock()
                }
                Step::Wait => self
                    .earlier
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Step::Sleep(duration) => {
                    let slept = self.earlier.wait_timeout(state, duration);
                    let (state, slept) = slept.unwrap_or_else(PoisonError::into_inner);
                    if slept.timed_out() {
                        schedule.slept(duration, system::now());
                    }
                    state
                }
                Step::Yield => {
                    drop(state);
                    thread::yield_now();
                    self.lock()
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread does next. It has no lock and no thread of its own, so it can be tested on any clock.
struct Schedule {
    latency: WakeLatency,
    /// When the thread last looked at the clock.
    now: Tick,
    /// When it last woke an entry.
    last_batch: Tick,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Wake the wakers that are due.
    Wake,
    /// Wait for an entry.
    Wait,
    /// Sleep, or until an earlier entry is set.
    Sleep(Duration),
    /// Stay awake: the deadline is nearer than a sleep is exact.
    Yield,
}

impl Schedule {
    fn new() -> Self {
        Self {
            latency: WakeLatency::new(),
            now: Tick::default(),
            last_batch: Tick::default(),
        }
    }

    /// Reads the clock, and moves the wakers that are due out of the queue.
    fn next_step<S: Source>(
        &mut self,
        queue: &mut Queue,
        counter: &CheckedCounter<S>,
        due: &mut Vec<Waker>,
    ) -> Step {
        self.now = counter.checked_now();
        while let Some((_, waker)) = queue.pop_due(self.now) {
            due.push(waker);
        }
        if !due.is_empty() {
            self.last_batch = self.now;
            return Step::Wake;
        }
        let Some(first) = queue.first() else {
            return Step::Wait;
        };
        let away = first.due.saturating_since(self.now);
        let since = self.now.saturating_since(self.last_batch);
        match self.latency.sleep_for(away, since) {
            Some(duration) => Step::Sleep(duration),
            None => Step::Yield,
        }
    }

    /// Records that a sleep of `duration` has ended.
    fn slept(&mut self, duration: Duration, now: Tick) {
        let planned = self.now.saturating_add(duration);
        self.latency.record(now.saturating_since(planned));
    }
}

/// Asks the system not to let this thread sleep longer than it said, so as to wake it together with
/// others: on Linux that is up to 50 us. Where it cannot be asked, sleeps are as late as they are.
fn precise_sleeps() {
    // The file is there for each thread, but listed only for the first.
    let own = std::fs::read_link("/proc/thread-self").ok();
    if let Some(thread) = own.as_deref().and_then(Path::file_name) {
        let _ = std::fs::write(Path::new("/proc").join(thread).join("timerslack_ns"), "1");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;
    use std::time::Duration;

    use super::super::counter_tests::{Fake, NANO_PER_COUNT, SECOND};
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
        system::now().saturating_add(Duration::from_millis(millis))
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
    fn set_before_the_entry_that_is_slept_for_wakes_first() {
        let (sender, woken) = channel();
        let far = TIMER.set(in_millis(3_600_000), waker(1, false, &sender));
        let near = in_millis(1);
        TIMER.set(near, waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
        assert!(system::now() >= near);
        TIMER.cancel(far);
    }

    #[test]
    fn set_after_a_waker_that_panicked_wakes() {
        let (sender, woken) = channel();
        TIMER.set(in_millis(0), waker(1, true, &sender));
        assert_eq!(woken.recv(), Ok(1));
        TIMER.set(in_millis(1), waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }

    #[test]
    fn cancel_drops_the_waker() {
        let (sender, woken) = channel();
        let never = Tick::after_epoch(Duration::MAX);
        let entry = TIMER.set(never, waker(1, false, &sender));
        TIMER.set_waker(entry, &waker(2, false, &sender));
        TIMER.cancel(entry);
        TIMER.cancel(entry);
        drop(sender);
        assert!(woken.recv().is_err());
    }

    #[test]
    fn set_waker_after_expiry_sets_the_entry_again() {
        let (sender, woken) = channel();
        let entry = TIMER.set(in_millis(0), waker(1, false, &sender));
        assert_eq!(woken.recv(), Ok(1));
        TIMER.set_waker(entry, &waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }

    /// Found as a mutant: a timer that never compares its clock. The machine comes back from a
    /// suspension of an hour with a counter that was set back.
    #[test]
    fn next_step_after_a_suspension_wakes_what_is_due() {
        let fake = Fake::new(NANO_PER_COUNT, 7);
        let counter = fake.counter();
        let (mut queue, mut due) = (Queue::new(), Vec::new());
        let mut schedule = Schedule::new();
        fake.advance(SECOND / 2);
        assert_eq!(
            schedule.next_step(&mut queue, &counter, &mut due),
            Step::Wait
        );
        let hour = Duration::from_secs(3600);
        let key = queue.key(counter.now().saturating_add(hour));
        queue.insert(key, Waker::noop().clone());
        let early = Duration::from_micros(50);
        let step = schedule.next_step(&mut queue, &counter, &mut due);
        assert_eq!(step, Step::Sleep(hour - early));
        fake.suspend(3601 * SECOND);
        fake.set_back(SECOND / 4);
        // By the counter alone it is earlier than before.
        let step = schedule.next_step(&mut queue, &counter, &mut due);
        assert_eq!((step, due.len()), (Step::Wake, 1));
        due.clear();
        assert_eq!(
            schedule.next_step(&mut queue, &counter, &mut due),
            Step::Wait
        );
    }
}
