//! The timer of the process: it wakes waiters when they are due.
//!
//! It has one thread, which starts before the first entry is set and never ends. It depends on no
//! runtime: waiters are woken whether or not an executor is being polled.
//!
//! 1. The queue is under one lock, which is never held while a waker is called, cloned or dropped.
//! 2. The thread sleeps for a relative time: until the earliest entry, or somewhat
//!    [less](super::schedule). When it wakes, it compares its clock with the operating system's
//!    before it checks the queue, because meanwhile the machine may have been suspended or its
//!    counter set back. Waking early, late or for nothing does no harm.
//! 3. An entry that becomes the earliest notifies the thread under the lock, so the thread cannot
//!    miss it between the check and the sleep. If the queue is empty, the thread sleeps until it is
//!    notified.
//! 4. A waker that panics does not end the thread.
//! 5. The queue has entries only if the thread runs. So if the thread cannot be started, only the
//!    caller that tries to start it must get the error; no other caller depends on it.
//!
//! The lock is a plain monitor: no state outside of it can be observed.

use std::path::Path;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;

use super::atomics::lock;
use super::entries::{Key, Queue};
use super::schedule::{Schedule, Step};
use super::system;
use crate::panic::contain_panic;

/// The timer of the process.
pub(super) static TIMER: Timer = Timer {
    queue: Mutex::new(Queue::new()),
    earlier: Condvar::new(),
    thread: OnceLock::new(),
};

/// Entries, and the thread that wakes them.
pub(super) struct Timer {
    queue: Mutex<Queue>,
    earlier: Condvar,
    thread: OnceLock<()>,
}

impl Timer {
    /// Sets an entry. No other one has this key.
    ///
    /// # Panics
    ///
    /// Panics if the thread cannot be started.
    pub(super) fn start(&'static self, key: Key, waker: Waker) -> Entry {
        self.insert(key, waker);
        Entry(key)
    }

    /// Does the same for an entry that nobody cancels.
    pub(super) fn insert(&'static self, key: Key, waker: Waker) {
        self.thread.get_or_init(|| self.start_thread());
        let mut queue = lock(&self.queue);
        queue.insert(key, waker);
        if queue
            .first_key_value()
            .is_some_and(|(first, _)| *first == key)
        {
            self.earlier.notify_one();
        }
    }

    #[cold]
    fn start_thread(&'static self) {
        let thread = thread::Builder::new().name("tollgate-timer".into());
        if let Err(error) = thread.spawn(|| self.run()) {
            panic!("cannot start the timer thread: {error}");
        }
    }

    fn run(&self) {
        precise_sleeps();
        let mut schedule = Schedule::new();
        let mut due = Vec::new();
        let mut queue = lock(&self.queue);
        loop {
            let step = schedule.next_step(&mut queue, system::counter(), &mut due);
            queue = match step {
                Step::Wake => {
                    drop(queue);
                    for waker in due.drain(..) {
                        // The panic hook reports the panic; no caller can receive it.
                        contain_panic(|| waker.wake());
                    }
                    lock(&self.queue)
                }
                Step::Sleep(duration) => {
                    let slept = self.earlier.wait_timeout(queue, duration);
                    let (queue, slept) = slept.unwrap_or_else(PoisonError::into_inner);
                    if slept.timed_out() {
                        schedule.slept(duration, system::now());
                    }
                    queue
                }
                Step::Yield => {
                    drop(queue);
                    thread::yield_now();
                    lock(&self.queue)
                }
            };
        }
    }
}

/// An entry of the timer of the process. Dropping it cancels it, which does nothing if it has expired.
pub(super) struct Entry(Key);

impl Drop for Entry {
    fn drop(&mut self) {
        let waker = lock(&TIMER.queue).remove(&self.0);
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }
}

/// Asks the system not to extend the sleeps of this thread so that it wakes together with others, which adds
/// up to 50 us on Linux. On systems without such a request, sleeps end later.
fn precise_sleeps() {
    // The file exists for each thread, but is listed only for the first.
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

    use super::super::tick::Tick;
    use super::*;

    /// Sends its name when it is woken, and then panics if it is set to.
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

    fn set(due: Tick, waker: Waker) -> Entry {
        TIMER.start(Key::new(due), waker)
    }

    #[test]
    fn set_before_the_entry_that_is_slept_for_wakes_first() {
        let (sender, woken) = channel();
        let far = set(in_millis(3_600_000), waker(1, false, &sender));
        let near = in_millis(1);
        let _near = set(near, waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
        assert!(system::now() >= near);
        drop(far);
    }

    #[test]
    fn set_after_a_waker_that_panicked_wakes() {
        let (sender, woken) = channel();
        let _first = set(in_millis(0), waker(1, true, &sender));
        assert_eq!(woken.recv(), Ok(1));
        let _second = set(in_millis(1), waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }

    #[test]
    fn cancel_drops_the_waker() {
        let (sender, woken) = channel();
        let never = Tick::after_epoch(Duration::MAX);
        drop(set(never, waker(1, false, &sender)));
        drop(sender);
        assert!(woken.recv().is_err());
    }

    #[test]
    fn set_after_expiry_sets_the_entry_again() {
        let (sender, woken) = channel();
        let entry = set(in_millis(0), waker(1, false, &sender));
        assert_eq!(woken.recv(), Ok(1));
        let key = entry.0;
        drop(entry);
        let _again = TIMER.start(key, waker(2, false, &sender));
        assert_eq!(woken.recv(), Ok(2));
    }
}
