//! Tokio's time and timer, inside or outside a runtime.
//!
//! 1. Inside a runtime, time is the runtime's, which may be paused. Outside, it is the machine's,
//!    and entries belong to the timer of the process.
//! 2. An entry is a task of the runtime in which it was set. The waiter does not poll that task, so
//!    the entry expires as long as the runtime is driven. If the runtime is dropped before that,
//!    the entry expires at once, on the timer of the process: a waiter in another runtime or thread
//!    may depend on it.
//! 3. The times of two runtimes need not agree, so the records of a limiter belong to one [`Home`]: a
//!    runtime, or the outside of all. [`ByRuntime`] has a state for each, whose clock is bound to the home
//!    and reads its time from anywhere.
//! 4. A home ends with its runtime, since a task of the runtime holds it. States of homes that have ended are
//!    dropped when another state is created, so there is never more than one state beyond the largest number
//!    of runtimes that were in use at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::atomics::lock;
use super::clock::TimerEntry;
use super::entries::Key;
use super::system;
use super::tick::Tick;
use super::timer::TIMER;

/// Tokio's ticks count from [`BEFORE`] this instant, because a runtime may have been paused before
/// the epoch was first read.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An entry that is a task of the runtime. Dropping it ends the task.
pub(super) struct Task {
    handle: AbortHandle,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        // Dropped at the end, under no lock.
        let _waker = lock(&self.waker).take();
        self.handle.abort();
    }
}

/// Wakes the waker of an entry whose runtime is dropped.
struct WakeOnDrop {
    /// None once the entry has expired, or was cancelled.
    waker: Arc<Mutex<Option<Waker>>>,
    home: Option<Arc<Home>>,
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        let waker = lock(&self.waker).take();
        let Some(waker) = waker else {
            return;
        };
        // The home ends before the waker runs and asks for it: the task that ends the home may be dropped
        // later.
        if let Some(home) = &self.home {
            home.end();
        }
        TIMER.insert(Key::new(system::now()), waker);
    }
}

/// Returns the current runtime.
pub(super) fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// A runtime, or the outside of all runtimes.
pub(crate) struct Home {
    /// Counted from 1.
    number: u64,
    /// `None` outside.
    id: Option<Id>,
    /// The handle of the runtime, until the runtime ends: a handle keeps the memory of its runtime.
    handle: Mutex<Option<Handle>>,
    /// The last tick, when it has ended.
    ended: OnceLock<Tick>,
}

/// Returns the number of the home of the current code.
pub(super) fn number() -> u64 {
    Home::current().number
}

/// Returns the home with this number, unless it has ended or is the outside.
pub(crate) fn running(number: u64) -> Option<Arc<Home>> {
    let homes = lock(&HOMES);
    homes.iter().find(|home| home.number == number).cloned()
}

/// The homes of the runtimes in use.
static HOMES: Mutex<Vec<Arc<Home>>> = Mutex::new(Vec::new());

/// Ends a home when the runtime drops its tasks.
struct EndsHome(Arc<Home>);

impl Drop for EndsHome {
    fn drop(&mut self) {
        self.0.end();
        lock(&HOMES).retain(|home| !Arc::ptr_eq(home, &self.0));
    }
}

impl Home {
    /// Returns the home of the current code. While a runtime drops its tasks, they are outside.
    fn current() -> Arc<Self> {
        let runtime = Handle::try_current()
            .ok()
            .map(Self::of)
            .filter(|home| !home.has_ended());
        runtime.unwrap_or_else(Self::outside)
    }

    fn outside() -> Arc<Self> {
        static OUTSIDE: LazyLock<Arc<Home>> = LazyLock::new(|| Arc::new(Home::new(None)));
        Arc::clone(&OUTSIDE)
    }

    fn new(runtime: Option<Handle>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            number: 1 + LAST.fetch_add(1, Ordering::Relaxed),
            id: runtime.as_ref().map(Handle::id),
            handle: Mutex::new(runtime),
            ended: OnceLock::new(),
        }
    }

    fn of(runtime: Handle) -> Arc<Self> {
        let mut homes = lock(&HOMES);
        let id = Some(runtime.id());
        if let Some(home) = homes.iter().find(|home| home.id == id) {
            return Arc::clone(home);
        }
        let home = Arc::new(Self::new(Some(runtime.clone())));
        homes.push(Arc::clone(&home));
        drop(homes);
        // A runtime that is being dropped drops the task at once.
        let ends = EndsHome(Arc::clone(&home));
        runtime.spawn(async move {
            let _ends = ends;
            std::future::pending::<()>().await;
        });
        home
    }

    fn end(&self) {
        let last = self.within(|runtime| runtime.map(|_| tokio_now()));
        // At the end of a thread there is no clock to read, and no entry is due any more.
        self.ended.get_or_init(|| last.unwrap_or_default());
        // The lock was a temporary, so the handle is dropped after it.
        let handle = lock(&self.handle).take();
        drop(handle);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns whether this is the home of that runtime, or the outside for `None`, and has not ended.
    fn is(&self, runtime: Option<Id>) -> bool {
        self.id == runtime && !self.has_ended()
    }

    /// Calls `run` in the context of the runtime. There is no context outside of runtimes, or when the
    /// runtime has ended.
    pub(crate) fn within<R>(&self, run: impl FnOnce(Option<&Handle>) -> R) -> R {
        let runtime = match Handle::try_current() {
            Ok(here) if self.id == Some(here.id()) => return run(Some(&here)),
            // At the end of a thread no context can be entered.
            Err(error) if error.is_thread_local_destroyed() => None,
            Ok(_) | Err(_) => lock(&self.handle).clone(),
        };
        let _context = runtime.as_ref().map(Handle::enter);
        run(runtime.as_ref())
    }

    /// Returns the tick of this home. After its end that is its last tick, so that nothing else becomes due:
    /// the time of the machine may be ahead of paused time.
    pub(super) fn now(&self) -> Tick {
        self.within(|runtime| match (self.ended.get(), runtime) {
            (Some(last), _) => *last,
            (None, Some(_)) => tokio_now(),
            (None, None) => tick_at(Instant::now()),
        })
    }

    /// Wakes `waker` at `due`, or at once when the runtime has ended.
    ///
    /// # Panics
    ///
    /// Panics if the runtime has no timer, unless the entry is due and the current code runs elsewhere.
    pub(super) fn start_timer(self: &Arc<Self>, due: Tick, waker: Waker) -> TimerEntry {
        let away = due.saturating_since(self.now());
        // An entry that code elsewhere sets and that is already due, for example for the rest of a closed
        // queue, does not wait until the runtime is driven.
        if away.is_zero() && current() != self.id {
            return system_timer(away, waker);
        }
        self.within(|runtime| match runtime {
            Some(runtime) => spawn_timer(runtime, away, waker, Some(Arc::clone(self))),
            None if self.has_ended() => system_timer(Duration::ZERO, waker),
            None => system_timer(away, waker),
        })
    }
}

/// The states of a limiter on tokio's time, one for each home in which it is used, and what is
/// common to them.
pub(crate) struct ByRuntime<C, T>(Mutex<(C, States<T>)>);

type States<T> = Vec<(Arc<Home>, Arc<T>)>;

impl<C: Copy, T> ByRuntime<C, T> {
    pub(super) fn new(common: C) -> Option<Self> {
        // For the outside, and one runtime.
        Some(Self(Mutex::new((common, Vec::with_capacity(2)))))
    }

    /// Returns the state of the current home. Creates it with `new`, and then drops the states of
    /// runtimes that have ended.
    pub(crate) fn here(&self, new: impl FnOnce(Arc<Home>, C) -> Arc<T>) -> Arc<T> {
        let runtime = current();
        if let Some((_, here)) = lock(&self.0).1.iter().find(|(home, _)| home.is(runtime)) {
            return Arc::clone(here);
        }
        // Runs without the lock, because it spawns a task.
        self.of(Home::current(), new)
    }

    /// Returns the state of the outside of all runtimes.
    pub(crate) fn outside(&self, new: impl FnOnce(Arc<Home>, C) -> Arc<T>) -> Arc<T> {
        self.of(Home::outside(), new)
    }

    fn of(&self, home: Arc<Home>, new: impl FnOnce(Arc<Home>, C) -> Arc<T>) -> Arc<T> {
        let mut locked = lock(&self.0);
        let (common, states) = &mut *locked;
        // Another thread has created the state, or this is the outside of a runtime that is being dropped.
        if let Some((_, here)) = states.iter().find(|(of, _)| Arc::ptr_eq(of, &home)) {
            return Arc::clone(here);
        }
        let ended: Vec<_> = states.extract_if(.., |(of, _)| of.has_ended()).collect();
        let state = new(Arc::clone(&home), *common);
        states.push((home, Arc::clone(&state)));
        drop(locked);
        drop(ended);
        state
    }

    /// Returns what is common to all states.
    pub(crate) fn common(&self) -> C {
        lock(&self.0).0
    }

    /// Returns all states.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.change(|_| ())
    }

    /// Changes what is common to all states, and returns the states that have taken over the former.
    pub(crate) fn change(&self, change: impl FnOnce(&mut C)) -> Vec<Arc<T>> {
        let mut locked = lock(&self.0);
        change(&mut locked.0);
        locked
            .1
            .iter()
            .map(|(_, state)| Arc::clone(state))
            .collect()
    }
}

/// Returns the tick of the current runtime.
#[cold]
pub(super) fn now() -> Tick {
    match Handle::try_current() {
        // In a destructor at the end of a thread there is no runtime, and tokio would panic if any was ever
        // paused.
        Err(error) if error.is_thread_local_destroyed() => tick_at(Instant::now()),
        Ok(_) | Err(_) => tokio_now(),
    }
}

fn tokio_now() -> Tick {
    tick_at(tokio::time::Instant::now().into_std())
}

fn tick_at(now: Instant) -> Tick {
    let epoch = *EPOCH.get_or_init(Instant::now);
    let after = now.saturating_duration_since(epoch);
    let before = epoch.saturating_duration_since(now);
    Tick::after_epoch((BEFORE + after).saturating_sub(before))
}

/// Wakes `waker` at `due`.
///
/// # Panics
///
/// Panics if the runtime has no timer.
pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    let away = due.saturating_since(now());
    match Handle::try_current() {
        Ok(runtime) => spawn_timer(&runtime, away, waker, None),
        Err(_) => system_timer(away, waker),
    }
}

/// Wakes `waker` after a time of the machine.
fn system_timer(away: Duration, waker: Waker) -> TimerEntry {
    let key = Key::new(system::now().saturating_add(away));
    TimerEntry::System(TIMER.start(key, waker))
}

/// Wakes `waker` after a time of the runtime, whose context has been entered.
fn spawn_timer(
    runtime: &Handle,
    away: Duration,
    waker: Waker,
    home: Option<Arc<Home>>,
) -> TimerEntry {
    // The sleep is created here, where its panic reaches the waiter, and not in the task.
    let sleep = tokio::time::sleep(away);
    let waker = Arc::new(Mutex::new(Some(waker)));
    let guard = WakeOnDrop {
        waker: Arc::clone(&waker),
        home,
    };
    let task = runtime.spawn(async move {
        // An entry that is due does not wait for the next millisecond of the timer.
        if !away.is_zero() {
            sleep.await;
        }
        let waker = lock(&guard.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    let handle = task.abort_handle();
    TimerEntry::Task(Task { handle, waker })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn here_drops_the_states_of_runtimes_that_have_ended() {
        let states = ByRuntime::new(1).unwrap();
        let made = AtomicU32::new(0);
        let here = || *states.here(|_, one| Arc::new(one + made.fetch_add(1, Ordering::Relaxed)));
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.build().unwrap()
        };
        let stays = runtime();
        let first = stays.block_on(async { here() });
        for number in 2..1000 {
            assert_eq!(
                runtime().block_on(async { (here(), here()) }),
                (number, number)
            );
            assert!(states.all().len() <= 2);
        }
        assert_eq!(stays.block_on(async { here() }), first);
        // Outside.
        assert_eq!((here(), here()), (1000, 1000));
        assert_eq!(states.all().len(), 2);
        let ids: Vec<_> = lock(&HOMES).iter().map(|home| home.id).collect();
        assert!(ids.contains(&Some(stays.handle().id())));
    }

    /// Otherwise a waiter that leaves its queue outside would release the next one too early.
    #[test]
    fn now_of_a_runtime_that_has_ended_is_that_of_its_end() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (home, last) = runtime.block_on(async {
            tokio::time::advance(BEFORE).await;
            (Home::current(), now())
        });
        let handle = runtime.handle().clone();
        drop(runtime);
        assert!(home.has_ended());
        assert_eq!(home.now(), last);
        let _context = handle.enter();
        assert_eq!(home.now(), last);
    }

    /// The task that ends the home may be dropped after that of a timer.
    #[test]
    fn timer_that_a_runtime_drops_ends_its_home() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let home = runtime.block_on(async { Home::current() });
        assert!(!home.has_ended());
        drop(WakeOnDrop {
            waker: Arc::new(Mutex::new(Some(Waker::noop().clone()))),
            home: Some(Arc::clone(&home)),
        });
        assert!(home.has_ended());
    }

    #[test]
    fn home_of_a_runtime_that_drops_its_tasks_is_the_outside() {
        struct Looks(std::sync::mpsc::Sender<bool>);
        impl Drop for Looks {
            fn drop(&mut self) {
                let home = Home::current();
                self.0.send(home.id.is_none()).unwrap();
            }
        }
        let (sender, outside) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let looks = Looks(sender);
        runtime.spawn(async move {
            let _looks = looks;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        assert_eq!(outside.recv(), Ok(true));
    }
}
