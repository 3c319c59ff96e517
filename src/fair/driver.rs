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
//!    `woken_again`, and the thread that is there looks again before it leaves. So a throttle may
//!    wake inside its own poll, and threads may wake at once.
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
//! 7. One call of `drive` serves [`SERVED_AT_ONCE`] waiters at most. Refused ones count too. Then it
//!    wakes the next one, as in 6: whichever waiter is polled or leaves first goes on, also one of those
//!    that were served.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::class::Class;
use super::schedule::{Given, Request, Schedule, WaiterId};
use super::table::Entry;
use super::{ClassKey, Queueable};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, SERVED_AT_ONCE, lock};
use crate::throttle::Throttle;
use crate::time::{Clock, Tick};
use crate::wait::{Polled, Waiting};
use crate::wait_queue::WakeList;

/// How often a throttle may wake inside its poll, before a task has to yield for it.
const POLLS: u32 = 32;

/// The function that maps keys to classes.
pub(super) type ClassMap<K> = Box<dyn Fn(&K) -> Class + Send + Sync>;

/// What all handles of a queue share.
pub(super) struct Shared<T: Throttle, K> {
    pub(super) throttle: T,
    pub(super) class_map: ClassMap<K>,
    pub(super) clock: Clock,
    /// Whether the clock was chosen explicitly; then timeouts run on it too.
    pub(super) has_own_clock: bool,
    pub(super) hasher: foldhash::fast::RandomState,
    contended: Arc<AtomicUsize>,
    locked: Mutex<Locked<T, K>>,
}

/// What is under the lock.
pub(super) struct Locked<T: Throttle, K> {
    pub(super) schedule: Schedule<T, K>,
    /// The entrant, unless a thread polls it.
    entrant: Option<Entrant<T>>,
    /// The cost for which the entrant waits.
    entrant_cost: Option<u64>,
    woken_again: bool,
    /// The entrant was woken, and the next waiter that is polled drives.
    poll_wanted: bool,
}

impl<T: Throttle, K: Eq> Locked<T, K> {
    /// Returns whether the caller must call `drive` after the lock, since the waiter that goes next
    /// has changed, or a poll is wanted.
    pub(super) fn needs_drive(&mut self) -> bool {
        let changed = self.entrant_cost != self.schedule.next_cost();
        self.woken_again |= changed;
        (changed || self.poll_wanted) && self.entrant.is_some()
    }
}

impl<T: Throttle, K: Eq> Shared<T, K> {
    pub(super) fn new(throttle: T, class_map: ClassMap<K>) -> Self {
        let contended = Arc::new(AtomicUsize::new(0));
        let locked = Locked {
            schedule: Schedule::new(Arc::clone(&contended)),
            entrant: Some(Entrant::new()),
            entrant_cost: None,
            woken_again: false,
            poll_wanted: false,
        };
        Self {
            throttle,
            class_map,
            clock: Clock::default(),
            has_own_clock: false,
            hasher: foldhash::fast::RandomState::default(),
            contended,
            locked: Mutex::new(locked),
        }
    }

    /// Returns whether a waiter can be served; then newcomers do not enter before it.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed) != 0
    }

    /// Locks the queue, at whatever tick.
    pub(super) fn lock_untimed(&self) -> MutexGuard<'_, Locked<T, K>> {
        lock(&self.locked)
    }

    /// Locks the queue. The clock is read only if somebody's turn depends on it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Locked<T, K>> {
        let mut locked = self.lock_untimed();
        if locked.schedule.is_timed() {
            locked.schedule.set_now(self.clock.now());
        }
        locked
    }
}

/// The future in the throttle's queue. Its memory is reused.
struct Entrant<T: Throttle> {
    enter: Pin<Box<Option<Waiting<T::Enter>>>>,
    /// The tick of the last charge, or at which the first waiter was entered for. Forgotten when
    /// there is nobody left who could have entered earlier.
    charged: Option<Tick>,
    /// A waiter that was chosen early, if it still waits.
    witness: Option<WaiterId>,
}

impl<T: Throttle> Entrant<T> {
    fn new() -> Self {
        Self {
            enter: Box::pin(None),
            charged: None,
            witness: None,
        }
    }

    /// Leaves the throttle's queue.
    fn leave(&mut self) {
        contain_panic(|| self.enter.set(None));
    }

    /// Returns the first tick at which the chosen waiter or the witness had joined.
    fn joined<K: Eq>(&mut self, schedule: &Schedule<T, K>, chosen: WaiterId, joined: Tick) -> Tick {
        let witness = self.witness.and_then(|witness| schedule.waiter(witness));
        match witness {
            Some(witness) if witness.joined < joined => witness.joined,
            _ => {
                self.witness = Some(chosen);
                joined
            }
        }
    }

    /// Polls the entrant, and leaves the throttle's queue when it is ready. If it does not wait yet it
    /// enters as of the charge before it, but not of a tick before `joined`.
    fn poll<K: ClassKey>(
        &mut self,
        queue: &Arc<Shared<T, K>>,
        request: Request<T>,
        joined: Tick,
    ) -> Polled<T::Permit>
    where
        T: Queueable,
    {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if self.enter.is_none() {
                let as_of = self.charged.map(|charged| charged.max(joined));
                if as_of.is_none() {
                    self.charged = queue.throttle.tick(None);
                }
                let enter = (request.enter)(&queue.throttle, request.cost, as_of);
                self.enter.set(Some(enter));
            }
            let waker = Waker::from(Arc::clone(queue));
            let enter = self.enter.as_mut().as_pin_mut().expect("it has entered");
            let polled = enter.poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(Ok(permit)) = &polled {
                self.charged = queue.throttle.tick(Some(permit));
            }
            polled
        }));
        let polled = polled.unwrap_or_else(|payload| {
            // Its destructor is foreign code.
            std::mem::forget(payload);
            Poll::Ready(Err(AcquireError::new(ErrorKind::Closed)))
        });
        if polled.is_ready() {
            self.leave();
        }
        polled
    }
}

impl<T: Queueable, K: ClassKey> Shared<T, K> {
    /// Polls the entrant and hands over what it gets, until it has to wait, or nobody waits for it.
    pub(super) fn drive(self: &Arc<Self>) {
        let mut locked = self.lock();
        let Some(mut entrant) = locked.entrant.take() else {
            locked.woken_again = true;
            return;
        };
        locked.poll_wanted = false;
        let until = locked.schedule.served + SERVED_AT_ONCE as u64;
        let (mut wakes, mut polls) = (WakeList::new(), 0);
        loop {
            locked.woken_again = false;
            let next = locked.schedule.next();
            let next = next.map(|(id, waiter)| (id, waiter.request, waiter.joined));
            let cost = next.map(|(_, request, _)| request.cost);
            if locked.entrant_cost.is_some() && locked.entrant_cost != cost {
                locked.entrant_cost = None;
                drop(locked);
                entrant.leave();
                locked = self.lock();
                continue;
            }
            let Some((id, request, joined)) = next else {
                entrant.charged = None;
                break;
            };
            if locked.schedule.served >= until {
                locked.poll_wanted = true;
                break;
            }
            let joined = entrant.joined(&locked.schedule, id, joined);
            locked.entrant_cost = cost;
            drop(locked);
            wakes.wake_all();
            let polled = entrant.poll(self, request, joined);
            locked = self.lock();
            match polled {
                Poll::Ready(given) => {
                    polls = 0;
                    locked.entrant_cost = None;
                    locked = self.hand_over(locked, request.cost, given, &mut wakes);
                }
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

    /// Gives what the throttle gave for a cost to the waiter that goes next, if it asks for that cost.
    /// Otherwise a permit goes back, and the next poll decides about an error.
    pub(super) fn hand_over<'a>(
        &'a self,
        mut locked: MutexGuard<'a, Locked<T, K>>,
        cost: u64,
        given: Given<T::Permit>,
        wakes: &mut WakeList,
    ) -> MutexGuard<'a, Locked<T, K>> {
        let next = locked.schedule.next();
        match (
            next.filter(|(_, waiter)| waiter.request.cost == cost),
            given,
        ) {
            (Some((id, _)), given) => wakes.push(locked.schedule.serve(id, given)),
            (None, Ok(permit)) => {
                drop(locked);
                contain_panic(|| self.throttle.rollback(permit));
                locked = self.lock();
            }
            (None, Err(_)) => {}
        }
        locked
    }

    /// Handles the return of a permit of a class with waiters.
    pub(super) fn released(self: &Arc<Self>, entry: &Entry<K>) {
        let mut locked = self.lock();
        locked.schedule.released(entry);
        self.unlock(locked, WakeList::new());
    }

    /// Unlocks and wakes, and drives if the waiter that goes next has changed.
    pub(super) fn unlock(
        self: &Arc<Self>,
        mut locked: MutexGuard<'_, Locked<T, K>>,
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
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.throttle.wakes_outside_locks() {
            return self.drive();
        }
        let mut locked = self.lock();
        locked.woken_again = true;
        if locked.entrant.is_none() {
            return;
        }
        locked.poll_wanted = true;
        let waker = locked.schedule.take_next_waker();
        drop(locked);
        if let Some(waker) = waker {
            WakeList::from(waker).wake_all();
        }
    }
}
