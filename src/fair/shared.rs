//! [`Shared`]: the throttle, and the schedule and the entrant under one lock.
//!
//! All waiters stand in the [`Schedule`]; one entrant of the queue waits in the throttle's own
//! queue. A thread that calls [`drive`](Shared::drive) polls it, and the queue itself is the waker
//! that it is polled with, so a thread that wakes it polls it.
//!
//! 1. While somebody can be served, the entrant is in the throttle's queue, for the cost of the waiter
//!    that goes next; or a thread is in `drive`, or is about to call it; or `poll_wanted` is set, and
//!    a waiter was woken that calls it.
//! 2. The throttle is used, permits are dropped, and wakers are called, cloned and dropped outside of
//!    the lock.

use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::class::{Class, Order};
use super::entrant::Entrant;
use super::entry::Entry;
use super::ranks::Rules;
use super::schedule::{Schedule, Served};
use super::table::Attached;
use super::waiters::{Request, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::AcquireError;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, SERVED_AT_ONCE, lock};
use crate::throttle::Throttle;
use crate::time::{Clock, Tick};
use crate::wait::Waiting;
use crate::wait_queue::WakeList;

/// How a throttle is entered for a cost, as of a tick of it or as of now.
pub(super) type EnterFn<T> = fn(&T, u64, Option<Tick>) -> Waiting<<T as Throttle>::Enter>;

/// How a throttle is entered for a cost without a wait.
pub(super) type EnterNowFn<T> = fn(&T, u64) -> Option<<T as Throttle>::Permit>;

/// How the throttle is entered for a waiter.
#[derive(Clone, Copy)]
pub(super) struct EnterFor<E> {
    pub(super) enter: E,
    /// The tick of the throttle at which the waiter joined, if the throttle has ticks.
    pub(super) joined: Tick,
}

/// A waiter, and the entry that its class has in the table, if that is another one.
type Joined<K> = (WaiterId, Option<Arc<Entry<K>>>);

/// The function that maps keys to classes.
pub(super) type ClassMap<K> = Box<dyn Fn(&K) -> Class + Send + Sync>;

/// The state of a queue.
pub(super) struct Shared<T: Throttle, K> {
    pub(super) throttle: T,
    pub(super) class_map: ClassMap<K>,
    pub(super) clock: Clock,
    /// Whether the clock was chosen explicitly; then timeouts run on it too.
    pub(super) has_own_clock: bool,
    hasher: foldhash::fast::RandomState,
    /// Whether there was ever a class whose order depends on the time, or aging.
    pub(super) is_timed: AtomicUsize,
    /// Whether a waiter can be served, for a newcomer without the lock.
    contended: AtomicUsize,
    state: Mutex<State<T, K>>,
}

/// What is under the lock.
pub(super) struct State<T: Throttle, K> {
    pub(super) schedule: Schedule<K, EnterFor<EnterFn<T>>, T::Permit>,
    /// The entrant, unless a thread polls it.
    pub(super) entrant: Option<Entrant<T>>,
    /// The cost for which the entrant waits.
    pub(super) entrant_cost: Option<u64>,
    pub(super) polling: bool,
    pub(super) woken_again: bool,
    /// The entrant was woken, and the next waiter that is polled drives.
    pub(super) poll_wanted: bool,
}

/// The lock. When it is released, newcomers see whether a waiter can be served.
pub(super) struct Locked<'a, T: Throttle, K: Eq> {
    state: MutexGuard<'a, State<T, K>>,
    contended: &'a AtomicUsize,
}

impl<T: Throttle, K: Eq> Deref for Locked<'_, T, K> {
    type Target = State<T, K>;

    fn deref(&self) -> &State<T, K> {
        &self.state
    }
}

impl<T: Throttle, K: Eq> DerefMut for Locked<'_, T, K> {
    fn deref_mut(&mut self) -> &mut State<T, K> {
        &mut self.state
    }
}

impl<T: Throttle, K: Eq> Drop for Locked<'_, T, K> {
    fn drop(&mut self) {
        let contended = usize::from(self.state.schedule.is_contended());
        // Relaxed: a newcomer that misses a change meets the throttle's own queue.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }
}

impl<T: Throttle, K: Eq> State<T, K> {
    /// Returns how many waiters will have been served when a call that begins now leaves the others.
    pub(super) fn serves_until(&self) -> u64 {
        self.schedule.served() + SERVED_AT_ONCE as u64
    }

    /// Returns whether a waiter that is polled has to drive.
    fn poll_is_wanted(&self) -> bool {
        self.poll_wanted && !self.polling
    }

    /// Returns whether the caller must call `drive` after the lock, since the waiter that goes next
    /// has changed.
    fn needs_drive(&mut self) -> bool {
        if self.entrant_cost == self.schedule.next_cost() {
            return false;
        }
        self.woken_again = true;
        !self.polling
    }
}

impl<T: Throttle, K: Hash + Eq> Shared<T, K> {
    pub(super) fn new(throttle: T, class_map: ClassMap<K>) -> Self {
        let state = State {
            schedule: Schedule::new(),
            entrant: None,
            entrant_cost: None,
            polling: false,
            woken_again: false,
            poll_wanted: false,
        };
        Self {
            throttle,
            class_map,
            clock: Clock::default(),
            has_own_clock: false,
            hasher: foldhash::fast::RandomState::default(),
            is_timed: AtomicUsize::new(0),
            contended: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    /// Changes the rules of a queue that is not shared yet.
    pub(super) fn change_rules(&mut self, change: impl FnOnce(&mut Rules)) {
        let mut locked = self.lock();
        change(&mut locked.schedule.ranks.rules);
        let ages = locked.schedule.ranks.rules.aging.is_some();
        drop(locked);
        if ages {
            self.is_timed.store(1, Ordering::Relaxed);
        }
    }

    /// Reads the clock from now on, if the order of a class depends on it.
    pub(super) fn note_class(&self, class: &Class) {
        let adapts = matches!(class.order, Order::AdaptiveLifo(_));
        if adapts || class.max_queue_time.is_some() {
            self.is_timed.store(1, Ordering::Relaxed);
        }
    }

    pub(super) fn hash(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns whether a waiter can be served; then newcomers do not enter before it.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed) != 0
    }

    pub(super) fn lock(&self) -> Locked<'_, T, K> {
        Locked {
            state: lock(&self.state),
            contended: &self.contended,
        }
    }

    /// Locks the state, at the current tick. The clock is read before the lock.
    pub(super) fn lock_now(&self) -> Locked<'_, T, K> {
        let now = self.clock.now();
        let mut locked = self.lock();
        locked.schedule.set_now(now);
        locked
    }

    /// Locks the state again. The clock is read only if somebody's turn depends on it.
    pub(super) fn relock(&self) -> Locked<'_, T, K> {
        // Relaxed: a class that depends on it was created before its waiter joined under the lock.
        match self.is_timed.load(Ordering::Relaxed) {
            0 => self.lock(),
            _ => self.lock_now(),
        }
    }

    /// Unlocks, wakes, and locks again.
    pub(super) fn flush<'a>(
        &'a self,
        locked: Locked<'a, T, K>,
        wakes: &mut WakeList,
    ) -> Locked<'a, T, K> {
        drop(locked);
        wakes.wake_all();
        self.relock()
    }
}

/// Waiters.
impl<T: Queueable, K: ClassKey> Shared<T, K> {
    /// Adds a waiter. Unless somebody has to drive, the waiter gets its waker at once.
    pub(super) fn join(
        self: &Arc<Self>,
        entry: &Arc<Entry<K>>,
        request: Request<EnterFn<T>>,
        fresh: &mut Option<Waker>,
    ) -> Result<Joined<K>, AcquireError> {
        let mut wakes = WakeList::new();
        let Request { cost, enter } = request;
        let joined = self.throttle.tick(None).unwrap_or_default();
        let enter = EnterFor { enter, joined };
        let request = Request { cost, enter };
        let mut locked = self.lock_now();
        let Attached { other, forgotten } = locked.schedule.attach(entry)?;
        let attached = other.as_ref().unwrap_or(entry);
        let joined = locked.schedule.join(attached, request, &mut wakes);
        let drive = locked.needs_drive() || locked.poll_wanted;
        if let (Ok(id), false) = (&joined, drive) {
            if let Some(stored) = locked.schedule.waker(*id) {
                *stored = fresh.take();
            }
        }
        drop(locked);
        drop(forgotten);
        wakes.wake_all();
        if drive {
            self.drive();
        }
        Ok((joined?, other))
    }

    /// Takes what a waiter was given, or ensures that its stored waker is `waker`; `fresh` is a
    /// clone of `waker`.
    pub(super) fn look(
        self: &Arc<Self>,
        id: WaiterId,
        waker: &Waker,
        mut fresh: Option<Waker>,
    ) -> Poll<Served<T::Permit>> {
        let mut locked = self.lock();
        if locked.poll_is_wanted() {
            drop(locked);
            self.drive();
            locked = self.lock();
        }
        loop {
            if let Some(served) = locked.schedule.collect(id) {
                return Poll::Ready(served);
            }
            let stored = locked.schedule.waker(id);
            let stored = stored.expect("a waiter is in the queue until it was served");
            // The clone of a waker need not look like it.
            let unused = match (fresh.take(), &stored) {
                (Some(fresh), _) => stored.replace(fresh),
                (None, Some(same)) if same.will_wake(waker) => None,
                (None, _) => {
                    drop(locked);
                    fresh = Some(waker.clone());
                    locked = self.lock();
                    continue;
                }
            };
            let yields = locked.poll_is_wanted();
            drop(locked);
            drop(unused);
            if yields {
                waker.wake_by_ref();
            }
            return Poll::Pending;
        }
    }

    /// Gives up a slot, or passes on what the waiter was given.
    pub(super) fn leave(self: &Arc<Self>, id: WaiterId, entry: &Entry<K>, cost: u64) {
        let mut locked = self.relock();
        let (mut waker, mut wakes) = (None, WakeList::new());
        match locked.schedule.collect(id) {
            None => waker = locked.schedule.leave(id),
            Some(Served::Refused(_)) => {}
            Some(Served::Admitted(permit, charge)) => {
                entry.release();
                if let Some(charge) = charge {
                    locked.schedule.recharge(entry, charge, 0);
                }
                locked.schedule.released(entry);
                let (until, served) = (locked.serves_until(), Served::Admitted(permit, None));
                locked = self.hand_over(locked, cost, served, until, &mut wakes);
            }
            // Its destructor is foreign code.
            Some(Served::Panicked(payload)) => std::mem::forget(payload),
        }
        let drive = locked.needs_drive() || locked.poll_wanted;
        drop(locked);
        drop(waker);
        wakes.wake_all();
        if drive {
            self.drive();
        }
    }

    /// Handles the release of a permit of a class with waiters.
    pub(super) fn released(self: &Arc<Self>, entry: &Entry<K>) {
        let mut locked = self.relock();
        locked.schedule.released(entry);
        let drive = locked.needs_drive();
        drop(locked);
        if drive {
            self.drive();
        }
    }
}
