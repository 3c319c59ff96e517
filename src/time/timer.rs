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
//! 5. Sleeps end late. So the thread sleeps somewhat [shorter](super::oversleep), and gives way to
//!    others until it is time.
//!
//! The lock is a plain monitor, with nothing beside it that could be observed without it.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::oversleep::Oversleep;
use super::queue::{Key, Queue};
use super::system;
use super::tick::Tick;
use crate::panic::catch_waker_panic;

/// The timer of the process.
pub(super) static TIMER: Timer = Timer::new();

/// Alarms, and the thread that fires them.
pub(super) struct Timer {
    state: Mutex<State>,
    earlier: Condvar,
}

struct State {
    queue: Queue,
    running: bool,
}

impl Timer {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: Queue::new(),
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
    pub(super) fn set(&'static self, due: Tick, waker: Waker) -> Key {
        let mut state = self.lock();
        let key = state.queue.key(due);
        self.put(state, key, waker);
        key
    }

    /// Sees to it that an alarm calls `waker`; sets it anew if it has gone off.
    ///
    /// # Panics
    ///
    /// If the thread cannot be started.
    pub(super) fn set_waker(&'static self, key: Key, waker: &Waker) {
        let state = self.lock();
        if state.queue.will_wake(key, waker) {
            return;
        }
        drop(state);
        // Cloned without the lock; if the alarm goes off in between, it is set anew.
        let waker = waker.clone();
        self.put(self.lock(), key, waker);
    }

    /// Takes an alarm back. Harmless if it has gone off.
    pub(super) fn unset(&self, key: Key) {
        let waker = self.lock().queue.remove(key);
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }

    /// Puts an alarm into the queue, and sees to it that the thread runs and knows.
    fn put(&'static self, mut state: MutexGuard<'static, State>, key: Key, waker: Waker) {
        let old = state.queue.put(key, waker);
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
            // Whoever relied on this thread meanwhile is woken to try for itself.
            for waker in stranded {
                catch_waker_panic(|| waker.wake());
            }
            panic!("cannot start the timer thread: {error}");
        }
    }

    fn run(&self) {
        let mut due = Vec::new();
        let mut oversleep = Oversleep::new();
        let mut last = Tick::default();
        precise_sleeps();
        let mut state = self.lock();
        loop {
            system::correct();
            let now = system::now();
            while let Some((_, waker)) = state.queue.pop_due(now) {
                due.push(waker);
            }
            if !due.is_empty() {
                last = now;
                drop(state);
                for waker in due.drain(..) {
                    // The panic hook reports it; there is nobody else to tell.
                    catch_waker_panic(|| waker.wake());
                }
                state = self.lock();
                continue;
            }
            let first = state.queue.first();
            state = match first {
                None => self
                    .earlier
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(first) => match oversleep
                    .nap(first.due.saturating_since(now), now.saturating_since(last))
                {
                    Some(nap) => self.sleep(state, now, nap, &mut oversleep),
                    None => {
                        // So near that to sleep would be to oversleep.
                        drop(state);
                        thread::yield_now();
                        self.lock()
                    }
                },
            };
        }
    }

    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        now: Tick,
        nap: Duration,
        oversleep: &mut Oversleep,
    ) -> MutexGuard<'a, State> {
        let wait = self.earlier.wait_timeout(state, nap);
        let (state, wait) = wait.unwrap_or_else(PoisonError::into_inner);
        if wait.timed_out() {
            oversleep.learn(system::now().saturating_since(now.saturating_add(nap)));
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn an_alarm_before_the_one_that_is_slept_for_goes_off_in_time() {
        let (sender, woken) = channel();
        let far = TIMER.set(in_millis(3_600_000), waker(1, false, &sender));
        let near = in_millis(1);
        TIMER.set(near, waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
        assert!(system::now() >= near);
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
