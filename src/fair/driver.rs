//! [`Shared`]: the throttle and the schedule of a queue, and [`drive`](Shared::drive), which enters the
//! throttle for the waiters.
//!
//! All waiters stand in the [`Schedule`]; one [`Entrant`] of the queue waits in the throttle's own
//! queue. The queue itself is the waker of its entrant, so a thread that wakes it polls it.
//!
//! 1. While somebody can be served, the entrant is in the throttle's queue, for the cost of the waiter
//!    that goes next; or a thread is in `drive`, or is about to call it; or `poll_wanted` is set, and
//!    a waiter was woken that calls it.
//! 2. One thread at a time is in `drive`, and has taken the entrant out. Another call sets
//!    `woken_again`, and the thread that is there looks again before it leaves, as it does if the cost of
//!    the waiter that goes next has changed. So a throttle may wake inside its own poll, and threads may
//!    wake at once.
//! 3. The throttle is entered, polled and left, permits are rolled back, and wakers are called, cloned and
//!    dropped outside of the lock. A panic of the throttle is caught: the entrant is dropped, and the
//!    waiter that goes next gets `Closed`, if it asks for the cost of the call that panicked.
//! 4. A permit goes to the waiter that is chosen when it comes, and waits for that waiter in the
//!    schedule; a waiter that leaves without it passes it on in the same way. If nobody takes it, or the
//!    cost of the next one differs, it is rolled back. An error goes to the next waiter of that cost.
//! 5. While there are waiters, one entry follows the other, as of the tick of the charge before, or
//!    at which the first one entered: a throttle that admits late makes up for that as it does for
//!    waiters of its own. So it does if the entrant leaves and enters again, for another cost. But
//!    no entry is as of a tick at which neither the waiter for which it is made had joined, nor an
//!    earlier one that still waits.
//! 6. Some throttles wake under a lock of theirs, and polling them there would not end. Unless a
//!    throttle says that it does not ([`Throttle::wakes_outside_locks`]), the next waiter is woken, and
//!    drives when it is polled, unless another call of the queue does so first. So it is with a throttle that wakes inside each poll, which makes a
//!    task yield.
//! 7. While the entrant is the only one in the queue of an `Arc<Semaphore>`, a permit that returns goes to
//!    the chosen waiter under the lock of the queue, and the entrant stays where it is: the semaphore would
//!    grant the permit to it, and let it enter again for the next waiter. The lock of the semaphore, under
//!    which no foreign code runs, is taken inside of that of the queue. If others wait there too, if the
//!    semaphore is closed or has more permits out than its limit, or if the costs differ, the permit is
//!    dropped.
//! 8. One call of `drive` serves [`SERVED_AT_ONCE`] waiters at most. Refused ones count too. Then it
//!    wakes the next one, as in 6: whichever waiter is polled or leaves first goes on, also one of those
//!    that were served.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::class::Class;
use super::entry::Entry;
use super::schedule::{Enter, Given, Schedule, WaiterId};
use super::{ClassKey, Queueable};
use crate::concurrency::{OwnedPermit, Semaphore};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, SERVED_AT_ONCE, lock};
use crate::throttle::Throttle;
use crate::time::{Clock, Tick};
use crate::wait::{Polled, Waiting};
use crate::wait_queue::WakeList;

/// How often a throttle may wake inside its poll, before a task has to yield for it.
const POLLS: u32 = 32;

/// What all handles of a queue share.
pub(super) struct Shared<T: Throttle, K> {
    pub(super) throttle: T,
    /// The function that maps keys to classes.
    pub(super) class_map: Box<dyn Fn(&K) -> Class + Send + Sync>,
    pub(super) clock: Clock,
    /// Whether the clock was chosen explicitly; then timeouts run on it too.
    pub(super) has_own_clock: bool,
    pub(super) hasher: foldhash::fast::RandomState,
    /// Not 0 while a waiter can be served; then newcomers do not enter before it.
    pub(super) contended: Arc<AtomicUsize>,
    pub(super) locked: Mutex<Locked<T, K>>,
}

/// What is under the lock.
pub(super) struct Locked<T: Throttle, K> {
    pub(super) schedule: Schedule<T, K>,
    /// The entrant, unless a thread polls it.
    entrant: Option<Entrant<T>>,
    woken_again: bool,
    /// The entrant was woken, and the next waiter that is polled drives.
    poll_wanted: bool,
}

impl<T: Throttle, K: Eq> Locked<T, K> {
    /// Returns whether the caller must call `drive` after the lock, since the waiter that goes next
    /// has changed, or a poll is wanted. A thread that is in `drive` finds out itself.
    pub(super) fn needs_drive(&self) -> bool {
        self.entrant
            .as_ref()
            .is_some_and(|entrant| self.poll_wanted || entrant.cost != self.schedule.next_cost())
    }

    /// Takes what a waiter was given, if it was served and no poll is wanted. Whoever served it has found
    /// out who goes next.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<Given<T>> {
        if self.poll_wanted {
            return None;
        }
        self.schedule.collect(id)
    }
}

/// The future in the throttle's queue. Its memory is reused.
struct Entrant<T: Throttle> {
    enter: Pin<Box<Option<Waiting<T::Enter>>>>,
    /// The cost for which it waits.
    cost: Option<u64>,
    /// The tick of the last charge, or at which the first waiter was entered for. Forgotten when
    /// there is nobody left who could have entered earlier.
    charged: Option<Tick>,
    /// A waiter that was chosen early, and the tick at which it joined.
    witness: Option<(WaiterId, Tick)>,
}

impl<T: Throttle> Entrant<T> {
    /// Leaves the throttle's queue.
    fn leave(&mut self) {
        self.cost = None;
        contain_panic(|| self.enter.set(None));
    }

    /// Returns whether a permit of a semaphore that returned now would be granted to this entrant, and
    /// nobody waits behind it.
    fn is_alone(&self, permit: &T::Permit) -> bool
    where
        T: Queueable,
    {
        let enter = self.enter.as_ref().as_pin_ref().map(Pin::get_ref);
        let enter = enter.and_then(|enter| (&**enter as &dyn Any).downcast_ref());
        let permit: Option<&OwnedPermit> = (permit as &dyn Any).downcast_ref();
        matches!((permit, enter), (Some(permit), Some(enter)) if permit.is_for_only(enter))
    }

    /// Returns the tick at which the chosen waiter joined, or the witness, if it was earlier and still
    /// waits.
    fn joined<K: Eq>(&mut self, schedule: &mut Schedule<T, K>, next: (WaiterId, Tick)) -> Tick {
        let mut waits = |id| schedule.waiter(id).is_some();
        let earlier = self
            .witness
            .filter(|(id, tick)| *tick < next.1 && waits(*id));
        let (_, joined) = *self.witness.insert(earlier.unwrap_or(next));
        joined
    }
}

impl<T: Queueable, K: ClassKey> Shared<T, K> {
    pub(super) fn new(throttle: T) -> Self {
        let contended = Arc::new(AtomicUsize::new(0));
        let locked = Locked {
            schedule: Schedule::new(Arc::clone(&contended)),
            entrant: Some(Entrant {
                enter: Box::pin(None),
                cost: None,
                charged: None,
                witness: None,
            }),
            woken_again: false,
            poll_wanted: false,
        };
        Self {
            throttle,
            class_map: Box::new(|_| Class::new()),
            clock: Clock::default(),
            has_own_clock: false,
            hasher: foldhash::fast::RandomState::default(),
            contended,
            locked: Mutex::new(locked),
        }
    }

    /// Locks the queue. The clock is read only if somebody's turn depends on it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Locked<T, K>> {
        let mut locked = lock(&self.locked);
        if locked.schedule.is_timed() {
            locked.schedule.set_now(self.clock.now());
        }
        locked
    }

    /// Polls the entrant and hands over what it gets, until it has to wait, or nobody waits for it.
    pub(super) fn drive(self: &Arc<Self>) {
        let mut locked = self.lock();
        let Some(mut entrant) = locked.entrant.take() else {
            locked.woken_again = true;
            return;
        };
        locked.poll_wanted = false;
        let (mut wakes, mut polls, mut served) = (WakeList::new(), 0, 0);
        loop {
            locked.woken_again = false;
            let next = locked.schedule.next();
            let next = next.map(|(id, waiter)| (id, waiter.cost, waiter.enter, waiter.joined));
            if entrant.cost.is_some() && entrant.cost != next.map(|(_, cost, ..)| cost) {
                drop(locked);
                entrant.leave();
                locked = self.lock();
                continue;
            }
            let Some((id, cost, enter, joined)) = next else {
                entrant.charged = None;
                break;
            };
            if served == SERVED_AT_ONCE {
                locked.poll_wanted = true;
                break;
            }
            let joined = entrant.joined(&mut locked.schedule, (id, joined));
            drop(locked);
            wakes.wake_all();
            let polled = self.poll(&mut entrant, cost, enter, joined);
            locked = self.lock();
            match polled {
                Poll::Ready(given) => {
                    polls = 0;
                    served += 1;
                    if let Some(unused) = locked.schedule.hand_over(cost, given, &mut wakes) {
                        drop(locked);
                        contain_panic(|| self.throttle.rollback(unused));
                        locked = self.lock();
                    }
                }
                // Meanwhile it is the turn of another cost, or of nobody.
                Poll::Pending if locked.schedule.next_cost() != Some(cost) => {}
                Poll::Pending if locked.woken_again && polls < POLLS => polls += 1,
                Poll::Pending => {
                    locked.poll_wanted = locked.woken_again;
                    break;
                }
            }
        }
        locked.entrant = Some(entrant);
        if locked.poll_wanted {
            wakes.push(locked.schedule.take_next_waker());
        }
        drop(locked);
        wakes.wake_all();
    }

    /// Polls the entrant, and leaves the throttle's queue when it is ready. If it does not wait yet it
    /// enters as of the charge before it, but not of a tick before `joined`.
    fn poll(
        self: &Arc<Self>,
        entrant: &mut Entrant<T>,
        cost: u64,
        enter: Enter<T>,
        joined: Tick,
    ) -> Polled<T::Permit> {
        entrant.cost = Some(cost);
        let polled = contain_panic(|| {
            if entrant.enter.is_none() {
                let as_of = entrant.charged.map(|charged| charged.max(joined));
                if as_of.is_none() {
                    entrant.charged = self.throttle.tick(None);
                }
                let enter = enter(&self.throttle, cost, as_of);
                entrant.enter.set(Some(enter));
            }
            let waker = Waker::from(Arc::clone(self));
            let enter = entrant.enter.as_mut().as_pin_mut();
            let polled = enter
                .expect("it has entered")
                .poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(Ok(permit)) = &polled {
                entrant.charged = self.throttle.tick(Some(permit));
            }
            polled
        });
        let closed = || Poll::Ready(Err(AcquireError::new(ErrorKind::Closed)));
        let polled = polled.unwrap_or_else(closed);
        if polled.is_ready() {
            entrant.leave();
        }
        polled
    }

    /// Returns whether permits are handed on: only those of a semaphore of this crate, which counts no
    /// entries. A wrapper may.
    pub(super) fn hands_on(&self) -> bool {
        (&self.throttle as &dyn Any).is::<Arc<Semaphore>>()
    }

    /// Handles the return of a permit by a class, which counts one less already, and has waiters if
    /// `notice` is set. Returns the permit unless it was handed on.
    pub(super) fn released(
        self: &Arc<Self>,
        entry: &Entry<K>,
        notice: bool,
        permit: Option<T::Permit>,
    ) -> Option<T::Permit> {
        let (mut locked, mut wakes) = (self.lock(), WakeList::new());
        if notice {
            locked.schedule.released(entry);
        }
        let kept = match (permit, &locked.entrant) {
            (Some(permit), Some(entrant)) if self.hands_on() && entrant.is_alone(&permit) => {
                let cost = entrant.cost.unwrap_or_default();
                locked.schedule.hand_over(cost, Ok(permit), &mut wakes)
            }
            (permit, _) => permit,
        };
        self.unlock(locked, wakes);
        kept
    }

    /// Unlocks and wakes, and drives if the waiter that goes next has changed.
    pub(super) fn unlock(
        self: &Arc<Self>,
        locked: MutexGuard<'_, Locked<T, K>>,
        mut wakes: WakeList,
    ) {
        let drive = locked.needs_drive();
        drop(locked);
        wakes.wake_all();
        if drive {
            self.drive();
        }
    }
}

impl<T: Queueable, K: ClassKey> Wake for Shared<T, K> {
    fn wake(self: Arc<Self>) {
        if self.throttle.wakes_outside_locks() {
            return self.drive();
        }
        let mut wakes = WakeList::new();
        let mut locked = self.lock();
        locked.woken_again = true;
        if locked.entrant.is_some() {
            locked.poll_wanted = true;
            wakes.push(locked.schedule.take_next_waker());
        }
        drop(locked);
        wakes.wake_all();
    }
}
