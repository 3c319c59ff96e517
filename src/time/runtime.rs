//! Tokio's time and timer, inside or outside a runtime.
//!
//! 1. Inside a runtime, time is the runtime's, which may be paused. Outside, it is the machine's,
//!    and entries belong to the timer of the process.
//! 2. The times of two runtimes need not agree. So a clock can be bound to the [`Home`] of one runtime, or
//!    to the outside of all, which has no home, and it reads that time from anywhere.
//! 3. A home keeps the entries that were set in its runtime, and each has a task there, which wakes it. The
//!    waiter does not poll that task, so the entry expires as long as the runtime is driven.
//! 4. A home ends when its runtime drops the task that holds it. Then its time stands still, and all entries
//!    expire at once, on the timer of the process: a waiter in another runtime or thread may depend on them.
//!    From then on, code in that runtime is outside; what it still sets on a clock that is not bound expires at once,
//!    because its time may be ahead of the machine's.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
pub(crate) use tokio::runtime::Id;
use tokio::task::AbortHandle;

use super::atomics::lock;
use super::clock::TimerEntry;
use super::entries::{Key, Queue};
use super::system;
use super::tick::Tick;
use super::timer::TIMER;

/// Tokio's ticks count from [`BEFORE`] this instant, because a runtime may have been paused before
/// the epoch was first read.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The homes of the runtimes in use.
static HOMES: Mutex<Vec<Arc<Home>>> = Mutex::new(Vec::new());

/// A runtime.
pub(crate) struct Home {
    /// Tokio promises only that no two runtimes have one id at a time; it counts them and reuses none.
    pub(crate) id: Id,
    /// The handle, which keeps the memory of the runtime, and the entries, until the runtime ends.
    running: Mutex<Option<(Handle, Queue)>>,
    /// The last tick, when it has ended.
    pub(super) ended: OnceLock<Tick>,
}

/// Ends a home when the runtime drops its tasks.
struct EndsHome(Arc<Home>);

impl Drop for EndsHome {
    fn drop(&mut self) {
        let Self(home) = self;
        // At the end of a thread there is no clock to read, and no entry is due any more.
        let last = home
            .handle()
            .map(|_| now_in(Some(home)))
            .unwrap_or_default();
        let mut homes = lock(&HOMES);
        homes.retain(|other| !Arc::ptr_eq(other, home));
        home.ended.get_or_init(|| last);
        drop(homes);
        // The lock was a temporary, so the handle is dropped after it.
        let running = lock(&home.running).take();
        let entries = running.into_iter().flat_map(|(_, entries)| entries);
        entries.for_each(|(_, waker)| TIMER.insert(Key::new(system::now()), waker));
    }
}

impl Home {
    /// Returns the handle of the runtime, unless it has ended. At the end of a thread, no context can be
    /// entered.
    fn handle(&self) -> Option<Handle> {
        match Handle::try_current() {
            Err(error) if error.is_thread_local_destroyed() => None,
            _ => Some(lock(&self.running).as_ref()?.0.clone()),
        }
    }
}

/// An entry of a home. Dropping it cancels it, which does nothing if it has expired.
pub(super) struct Entry {
    home: Arc<Home>,
    key: Key,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
        drop(take(&self.home, self.key));
    }
}

/// Takes an entry out of its home, unless it has expired. The lock is released.
fn take(home: &Home, key: Key) -> Option<Waker> {
    lock(&home.running).as_mut()?.1.remove(&key)
}

/// Returns the home of the current runtime. While a runtime drops its tasks, they are outside.
pub(crate) fn current_home() -> Option<Arc<Home>> {
    entered_home().filter(|home| home.ended.get().is_none())
}

/// Returns the home of the current runtime, also if that has ended.
pub(super) fn entered_home() -> Option<Arc<Home>> {
    let runtime = Handle::try_current().ok()?;
    let mut homes = lock(&HOMES);
    if let Some(home) = homes.iter().find(|home| home.id == runtime.id()) {
        return Some(Arc::clone(home));
    }
    let home = Arc::new(Home {
        id: runtime.id(),
        running: Mutex::new(Some((runtime.clone(), Queue::new()))),
        ended: OnceLock::new(),
    });
    homes.push(Arc::clone(&home));
    drop(homes);
    // A runtime that is being dropped drops the task at once.
    let ends = EndsHome(Arc::clone(&home));
    runtime.spawn(async move {
        let _ends = ends;
        std::future::pending::<()>().await;
    });
    Some(home)
}

/// Returns the current runtime.
pub(crate) fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// Calls `run` in the context of a runtime, unless that has ended or cannot be entered.
pub(crate) fn within<R>(runtime: Option<Id>, run: impl FnOnce() -> R) -> Option<R> {
    let is_it = |home: &&Arc<Home>| Some(home.id) == runtime;
    let home = lock(&HOMES).iter().find(is_it).cloned();
    let handle = home?.handle()?;
    let _context = handle.enter();
    Some(run())
}

/// Returns the tick of the current runtime, or of the outside.
#[cold]
pub(super) fn now() -> Tick {
    match Handle::try_current() {
        Ok(_) => tick_at(tokio::time::Instant::now().into_std()),
        // Tokio would panic in a destructor at the end of a thread if any runtime was ever paused.
        Err(_) => tick_at(Instant::now()),
    }
}

/// Returns the tick of a home, or of the outside. After the end of a home that is its last tick, so that
/// nothing else becomes due: the time of the machine may be ahead of paused time.
pub(super) fn now_in(home: Option<&Arc<Home>>) -> Tick {
    let Some(home) = home else {
        return tick_at(Instant::now());
    };
    let is_here = current() == Some(home.id);
    let elsewhere = (!is_here).then(|| home.handle()).flatten();
    let _context = elsewhere.as_ref().map(Handle::enter);
    home.ended.get().copied().unwrap_or_else(now)
}

fn tick_at(now: Instant) -> Tick {
    Tick::after_epoch((now + BEFORE).saturating_duration_since(*EPOCH))
}

/// Wakes `waker` at `due`, or at once when the runtime has ended.
///
/// # Panics
///
/// Panics if the runtime has no timer, unless the entry is due and the current code runs elsewhere.
pub(super) fn start_timer(home: Option<Arc<Home>>, due: Tick, waker: Waker) -> TimerEntry {
    let away = due.saturating_since(now_in(home.as_ref()));
    let Some(home) = home else {
        return start_system_timer(away, waker);
    };
    // An entry that code elsewhere sets and that is already due, for example for the rest of a closed
    // queue, does not wait until the runtime is driven.
    let runs = !away.is_zero() || current() == Some(home.id);
    let Some(handle) = home.handle().filter(|_| runs) else {
        return start_system_timer(Duration::ZERO, waker);
    };
    let _context = handle.enter();
    // The sleep is created here, where its panic reaches the waiter, and not in the task.
    let sleep = tokio::time::sleep(away);
    let key = Key::new(due);
    match &mut *lock(&home.running) {
        Some((_, entries)) => entries.insert(key, waker),
        None => return start_system_timer(Duration::ZERO, waker),
    };
    let own = Arc::clone(&home);
    let task = handle.spawn(async move {
        // An entry that is due does not wait for the next millisecond of the timer.
        if !away.is_zero() {
            sleep.await;
        }
        take(&own, key).into_iter().for_each(Waker::wake);
    });
    let task = task.abort_handle();
    TimerEntry::Home(Entry { home, key, task })
}

/// Wakes `waker` after a time of the machine.
fn start_system_timer(away: Duration, waker: Waker) -> TimerEntry {
    let key = Key::new(system::now().saturating_add(away));
    TimerEntry::System(TIMER.start(key, waker))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    use tokio::runtime::{Builder, Runtime};

    use super::super::clock::Clock;
    use super::*;

    fn paused() -> Runtime {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    }

    /// Otherwise a waiter that leaves its queue outside would release the next one too early.
    #[test]
    fn now_of_a_runtime_that_has_ended_is_that_of_its_end() {
        let runtime = paused();
        let (home, last) = runtime.block_on(async {
            tokio::time::advance(BEFORE).await;
            (current_home().unwrap(), now())
        });
        let handle = runtime.handle().clone();
        drop(runtime);
        assert!(home.ended.get().is_some());
        assert_eq!(now_in(Some(&home)), last);
        let _context = handle.enter();
        assert_eq!(now_in(Some(&home)), last);
    }

    #[test]
    fn home_of_a_runtime_that_has_ended_is_forgotten() {
        let runtime = paused();
        let home = runtime.block_on(async { current_home().unwrap() });
        let is_known = || lock(&HOMES).iter().any(|known| Arc::ptr_eq(known, &home));
        assert!(is_known());
        drop(runtime);
        assert!(!is_known());
    }

    /// Sends whether the home has ended.
    struct Looks(Arc<Home>, Sender<bool>);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0.ended.get().is_some()).unwrap();
        }
    }

    /// Sets an entry that the runtime does not wake in time.
    fn set(runtime: &Runtime, ended: &Sender<bool>) -> (Arc<Home>, TimerEntry) {
        runtime.block_on(async {
            let home = current_home().unwrap();
            let waker = Arc::new(Looks(Arc::clone(&home), ended.clone()));
            let due = now_in(Some(&home)).saturating_add(BEFORE);
            let entry = start_timer(Some(Arc::clone(&home)), due, waker.into());
            (home, entry)
        })
    }

    /// The waker asks for its home. Its task may be dropped before the one that ends the home.
    #[test]
    fn timer_of_a_runtime_that_ends_wakes_after_its_home_has_ended() {
        let (sender, ended) = channel();
        let runtime = paused();
        let (home, _entry) = set(&runtime, &sender);
        let (_, cancelled) = set(&runtime, &sender);
        drop(cancelled);
        drop(runtime);
        assert_eq!(ended.recv(), Ok(true));
        // It wakes those at once that are set from then on, and has dropped the wakers of the others.
        let waker = Arc::new(Looks(Arc::clone(&home), sender));
        let due = now_in(Some(&home)).saturating_add(BEFORE);
        let _late = start_timer(Some(home), due, waker.into());
        assert_eq!(ended.recv(), Ok(true));
        assert!(ended.recv().is_err());
    }

    /// Its time is ahead of the machine's by a year.
    #[test]
    fn timer_of_an_unbound_clock_in_a_runtime_that_has_ended_wakes_at_once() {
        let (sender, woken) = channel();
        let runtime = paused();
        let home = runtime.block_on(async {
            tokio::time::advance(BEFORE).await;
            current_home().unwrap()
        });
        let handle = runtime.handle().clone();
        drop(runtime);
        let _context = handle.enter();
        let (clock, waker) = (Clock::tokio(), Arc::new(Looks(home, sender)));
        let key = Key::new(clock.now().saturating_add(BEFORE));
        let _entry = clock.start_timer(key, waker.into());
        assert_eq!(woken.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn home_of_a_runtime_that_drops_its_tasks_is_the_outside() {
        struct Looks(Sender<bool>);
        impl Drop for Looks {
            fn drop(&mut self) {
                self.0.send(current_home().is_none()).unwrap();
            }
        }
        let (sender, outside) = channel();
        let runtime = Builder::new_current_thread().build().unwrap();
        let looks = Looks(sender);
        runtime.spawn(async move {
            let _looks = looks;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        assert_eq!(outside.recv(), Ok(true));
    }
}
