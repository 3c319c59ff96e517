//! [`Shared`]: the throttle, the schedule under its lock, and the entrant between them.
//!
//! All waiters stand in the [`Schedule`]; one entrant of the queue stands in the throttle's own
//! line. It is polled by whoever calls [`drive`](Shared::drive), and the queue itself is the waker
//! that it is polled with, so whoever wakes it polls it.
//!
//! 1. While somebody can be served, the entrant is in the throttle's line, for the cost of the waiter
//!    that goes next; or a thread is in `drive`, or is about to call it.
//! 2. One thread at a time is in `drive`, between setting and clearing `polling`. Another call sets
//!    `woken_again`, and the thread that is there looks again before it leaves. So a throttle may
//!    wake inside its own poll, and threads may wake at once.
//! 3. The throttle is polled, entered and left, permits are dropped and rolled back, and wakers are
//!    called, cloned and dropped outside of the lock. A panic of the throttle is caught, and resumed
//!    in the waiter that goes next, if that has the cost of the call that panicked.
//! 4. A permit goes to the waiter that is chosen when it comes. It waits in the slot of that waiter;
//!    a waiter that leaves without it passes it on in the same way. If nobody takes it, or the cost
//!    of the next one differs, it is rolled back.
//! 5. Some throttles wake under a lock of theirs, and polling them there would not end. Unless a
//!    throttle says that it does not ([`Throttle::wakes_unlocked`]), the next waiter is woken, and
//!    drives when it is polled. So it is with a throttle that wakes inside each poll, which makes a
//!    task yield.

use std::hash::{BuildHasher, Hash};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::class::{Class, Order};
use super::entry::Entry;
use super::schedule::{Attached, Chosen, Left, Rules, Schedule, Served};
use super::waiters::{Request, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::catch_waker_panic;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::throttle::Throttle;
use crate::time::Clock;
use crate::wait::{Polled, Waiting};
use crate::wait_queue::WakeList;

/// How often a throttle may wake inside its poll, before a task has to yield for it.
const POLLS: u32 = 32;

/// How a throttle is entered for a cost.
pub(super) type EnterFn<T> = fn(&T, u64) -> Waiting<<T as Throttle>::Enter>;

/// How a throttle is entered at once for a cost.
pub(super) type EnterAtOnceFn<T> = fn(&T, u64) -> Option<<T as Throttle>::Permit>;

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
    /// Whether there is a class whose order depends on the time, or aging.
    pub(super) is_timed: AtomicUsize,
    /// Whether a waiter can be served, for a newcomer without the lock.
    contended: AtomicUsize,
    state: Mutex<State<T, K>>,
}

/// What is under the lock.
pub(super) struct State<T: Throttle, K> {
    pub(super) schedule: Schedule<K, EnterFn<T>, T::Permit>,
    /// The entrant, unless a thread polls it.
    entrant: Option<Entrant<T>>,
    /// The cost for which the entrant is in line.
    in_line: Option<u64>,
    polling: bool,
    woken_again: bool,
    /// The entrant was woken, and the next waiter that is polled drives.
    poll_wanted: bool,
}

/// The future in the throttle's line. Its memory is reused.
struct Entrant<T: Throttle> {
    enter: Pin<Box<Option<Waiting<T::Enter>>>>,
    /// The queue. It is kept only while the entrant is in line, since it keeps the queue alive.
    waker: Option<Waker>,
}

impl<T: Throttle> Entrant<T> {
    fn new() -> Self {
        Self {
            enter: Box::pin(None),
            waker: None,
        }
    }

    /// Leaves the throttle's line.
    fn leave(&mut self) {
        catch_waker_panic(|| self.enter.set(None));
    }

    /// Polls the entrant, which enters for a cost if it is not in line.
    fn poll<K>(
        &mut self,
        queue: &Arc<Shared<T, K>>,
        request: Request<EnterFn<T>>,
    ) -> Polled<T::Permit>
    where
        T: Queueable,
        K: ClassKey,
    {
        let waker = self
            .waker
            .get_or_insert_with(|| Waker::from(Arc::clone(queue)));
        if self.enter.is_none() {
            self.enter
                .set(Some((request.enter)(&queue.throttle, request.cost)));
        }
        match self.enter.as_mut().as_pin_mut() {
            Some(enter) => enter.poll(&mut Context::from_waker(waker)),
            None => Poll::Pending,
        }
    }
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
        // Relaxed: a newcomer that misses a change meets the throttle's own line.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }
}

impl<T: Throttle, K: Eq> State<T, K> {
    /// Returns whether a waiter that is polled has to drive.
    fn poll_is_wanted(&self) -> bool {
        self.poll_wanted && !self.polling
    }

    /// Returns whether the caller must call `drive` after the lock, since the waiter that goes next
    /// has changed.
    fn needs_drive(&mut self) -> bool {
        if self.in_line == self.schedule.next_cost() {
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
            in_line: None,
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
        change(&mut locked.schedule.rules);
        let is_timed = locked.schedule.rules.aging.is_some();
        drop(locked);
        self.is_timed.store(is_timed.into(), Ordering::Relaxed);
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
    fn flush<'a>(&'a self, locked: Locked<'a, T, K>, wakes: &mut WakeList) -> Locked<'a, T, K> {
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
        let mut locked = self.lock_now();
        let Attached { other, forgotten } = locked.schedule.attach(entry)?;
        let attached = other.as_ref().unwrap_or(entry);
        let joined = locked.schedule.join(attached, request, &mut wakes);
        let drive = locked.needs_drive() || locked.poll_wanted;
        if let (Ok(id), false) = (&joined, drive) {
            fresh
                .take()
                .map(|fresh| locked.schedule.set_waker(*id, fresh));
        }
        drop(locked);
        drop(forgotten);
        wakes.wake_all();
        if drive {
            self.drive();
        }
        Ok((joined?, other))
    }

    /// Takes what a waiter was given, or ensures that its stored waker is `waker`, of which `fresh`
    /// is a clone.
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
            // The clone of a waker need not look like it.
            let unused = match fresh.take() {
                Some(fresh) => locked.schedule.set_waker(id, fresh),
                None if locked.schedule.is_woken_by(id, waker) => None,
                None => {
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
        match locked.schedule.leave(id) {
            None | Some(Left::Served(Served::Refused(_))) => {}
            Some(Left::Waited(left)) => waker = left,
            Some(Left::Served(Served::Admitted(permit, charge))) => {
                entry.release();
                if let Some(charge) = charge {
                    locked.schedule.recharge(entry, charge, 0);
                }
                locked.schedule.released(entry);
                locked = self.hand_over(locked, cost, Served::Admitted(permit, None), &mut wakes);
            }
            // Its destructor is foreign code.
            Some(Left::Served(Served::Panicked(payload))) => std::mem::forget(payload),
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

/// The entrant.
impl<T: Queueable, K: ClassKey> Shared<T, K> {
    /// Polls the entrant and hands over what it gets, until it has to wait, or nobody waits for it.
    pub(super) fn drive(self: &Arc<Self>) {
        let mut locked = self.relock();
        if locked.polling {
            locked.woken_again = true;
            return;
        }
        locked.polling = true;
        locked.poll_wanted = false;
        let mut entrant = locked.entrant.take().unwrap_or_else(Entrant::new);
        let (mut wakes, mut polls) = (WakeList::new(), 0);
        loop {
            locked.woken_again = false;
            let next = locked.schedule.choose(&mut wakes);
            if wakes.is_full() {
                locked = self.flush(locked, &mut wakes);
                continue;
            }
            let cost = next.map(|next| next.request.cost);
            if locked.in_line.is_some() && locked.in_line != cost {
                locked.in_line = None;
                drop(locked);
                entrant.leave();
                locked = self.relock();
                continue;
            }
            let Some(Chosen { request, .. }) = next else {
                break;
            };
            locked.in_line = cost;
            drop(locked);
            wakes.wake_all();
            let polled = catch_unwind(AssertUnwindSafe(|| entrant.poll(self, request)));
            let served = match polled {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(Ok(permit))) => Some(Served::Admitted(permit, None)),
                Ok(Poll::Ready(Err(error))) => Some(Served::Refused(error)),
                Err(payload) => Some(Served::Panicked(payload)),
            };
            if served.is_some() {
                entrant.leave();
            }
            locked = self.relock();
            match served {
                Some(served) => {
                    polls = 0;
                    locked.in_line = None;
                    locked = self.hand_over(locked, request.cost, served, &mut wakes);
                }
                None if locked.woken_again && polls < POLLS => polls += 1,
                None => {
                    locked.poll_wanted = locked.woken_again;
                    break;
                }
            }
        }
        if locked.in_line.is_none() {
            entrant.waker = None;
        }
        locked.entrant = Some(entrant);
        locked.polling = false;
        if locked.poll_wanted && !wakes.is_full() {
            wakes.push(locked.schedule.take_next_waker());
        }
        drop(locked);
        wakes.wake_all();
    }

    /// Gives a permit, an error or a panic to the waiter that goes next, and adds its waker.
    fn hand_over<'a>(
        &'a self,
        mut locked: Locked<'a, T, K>,
        cost: u64,
        served: Served<T::Permit>,
        wakes: &mut WakeList,
    ) -> Locked<'a, T, K> {
        let closed = match &served {
            Served::Refused(error) => Some(error).filter(|error| error.kind() == ErrorKind::Closed),
            _ => None,
        };
        let next = loop {
            if wakes.is_full() {
                locked = self.flush(locked, wakes);
            }
            match closed {
                Some(error) if locked.schedule.refuse_any(error, wakes) => continue,
                Some(_) => return locked,
                None => {}
            }
            let next = locked.schedule.choose(wakes);
            if !wakes.is_full() {
                break next;
            }
        };
        let mut unused = None;
        let meant = next.filter(|next| next.request.cost == cost);
        match (meant, served) {
            (Some(next), Served::Admitted(permit, _)) => locked.schedule.grant(next, permit, wakes),
            (None, Served::Admitted(permit, _)) => unused = Some(permit),
            // Another cost may be possible.
            (None, Served::Panicked(payload)) => std::mem::forget(payload),
            (None, Served::Refused(error)) if error.kind() == ErrorKind::ExceedsCapacity => {}
            (_, served) => {
                if let Some(next) = next {
                    locked.schedule.serve(next.id, served, wakes);
                }
            }
        }
        if let Some(permit) = unused {
            drop(locked);
            catch_waker_panic(|| self.throttle.rollback(permit));
            locked = self.relock();
        }
        locked
    }
}

impl<T: Queueable, K: ClassKey> Wake for Shared<T, K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.throttle.wakes_unlocked() {
            return self.drive();
        }
        let mut locked = self.lock();
        locked.woken_again = true;
        if locked.polling {
            return;
        }
        locked.poll_wanted = true;
        let waker = locked.schedule.take_next_waker();
        drop(locked);
        if let Some(waker) = waker {
            catch_waker_panic(|| waker.wake());
        }
    }
}
