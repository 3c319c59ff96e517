//! The entrant: the waiter of the fair queue in the queue of its throttle, and [`drive`](Shared::drive),
//! which polls it and hands over what it gets.
//!
//! 1. One thread at a time is in `drive`, between setting and clearing `polling`. Another call sets
//!    `woken_again`, and the thread that is there looks again before it leaves. So a throttle may
//!    wake inside its own poll, and threads may wake at once.
//! 2. The throttle is polled, entered and left, and permits are rolled back outside of the lock. A
//!    panic of the throttle is caught, and resumed in the waiter that goes next, if that has the cost
//!    of the call that panicked.
//! 3. A permit goes to the waiter that is chosen when it comes. It waits in the slot of that waiter;
//!    a waiter that leaves without it passes it on in the same way. If nobody takes it, or the cost
//!    of the next one differs, it is rolled back.
//! 4. While there are waiters, one entry follows the other, as of the tick of the charge before, or
//!    at which the first one entered: a throttle that admits late makes up for that as it does for
//!    waiters of its own. So it does if the entrant leaves and enters again, for another cost. But
//!    no entry is as of a tick at which neither the waiter for which it is made had joined, nor an
//!    earlier one that still waits.
//! 5. Some throttles wake under a lock of theirs, and polling them there would not end. Unless a
//!    throttle says that it does not ([`Throttle::wakes_unlocked`]), the next waiter is woken, and
//!    drives when it is polled. So it is with a throttle that wakes inside each poll, which makes a
//!    task yield.
//! 6. One call of `drive` serves at most [`SERVED_AT_ONCE`] waiters, and a few for which it has begun.
//!    Refused ones count too. Then it wakes the next one, as in 5: whichever waiter is polled or
//!    leaves first goes on, also one of those that were served.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::schedule::{Chosen, Served};
use super::shared::{EnterFn, EnterFor, Locked, Shared};
use super::waiters::{Request, WaiterId};
use super::{ClassKey, Queueable};
use crate::error::ErrorKind;
use crate::panic::catch_waker_panic;
use crate::throttle::Throttle;
use crate::time::Tick;
use crate::wait::{Polled, Waiting};
use crate::wait_queue::WakeList;

/// How often a throttle may wake inside its poll, before a task has to yield for it.
const POLLS: u32 = 32;

/// The waiter that goes next, and how the throttle is entered for it.
type ChosenFor<T> = Chosen<EnterFor<EnterFn<T>>>;

/// The future in the throttle's queue. Its memory is reused.
pub(super) struct Entrant<T: Throttle> {
    enter: Pin<Box<Option<Waiting<T::Enter>>>>,
    /// The queue. It is kept only while the entrant waits, since it keeps the queue alive.
    waker: Option<Waker>,
    /// The tick of the last charge, or at which the first waiter was entered for. Forgotten when
    /// there is nobody left who could have entered earlier.
    charged: Option<Tick>,
    /// A waiter that was chosen early, if it still waits; or whoever has its slot by now.
    witness: WaiterId,
}

impl<T: Throttle> Entrant<T> {
    fn new() -> Self {
        Self {
            enter: Box::pin(None),
            waker: None,
            charged: None,
            witness: WaiterId::MAX,
        }
    }

    /// Leaves the throttle's queue.
    fn leave(&mut self) {
        catch_waker_panic(|| self.enter.set(None));
    }

    /// Returns the first tick at which the chosen waiter or the witness had joined.
    fn joined<K: Eq>(&mut self, locked: &Locked<'_, T, K>, chosen: &ChosenFor<T>) -> Tick {
        let joined = chosen.request.enter.joined;
        let witness = locked.schedule.request(self.witness);
        match witness.map(|witness| witness.enter.joined) {
            Some(earlier) if earlier < joined => earlier,
            _ => {
                self.witness = chosen.id;
                joined
            }
        }
    }

    /// Polls the entrant. If it does not wait yet it enters for a cost, as of the charge before it,
    /// but not of a tick before `joined`.
    fn poll<K>(
        &mut self,
        queue: &Arc<Shared<T, K>>,
        request: Request<EnterFor<EnterFn<T>>>,
        joined: Tick,
    ) -> Polled<T::Permit>
    where
        T: Queueable,
        K: ClassKey,
    {
        let waker = self
            .waker
            .get_or_insert_with(|| Waker::from(Arc::clone(queue)));
        if self.enter.is_none() {
            let as_of = self.charged.map(|charged| charged.max(joined));
            if as_of.is_none() {
                self.charged = queue.throttle.tick(None);
            }
            let enter = request.enter.enter;
            self.enter
                .set(Some(enter(&queue.throttle, request.cost, as_of)));
        }
        let Some(enter) = self.enter.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let polled = enter.poll(&mut Context::from_waker(waker));
        if let Poll::Ready(Ok(permit)) = &polled {
            self.charged = queue.throttle.tick(Some(permit));
        }
        polled
    }
}

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
        let until = locked.serves_until();
        loop {
            if locked.schedule.served() >= until && locked.schedule.is_contended() {
                locked.poll_wanted = true;
                locked = self.flush(locked, &mut wakes);
                break;
            }
            locked.woken_again = false;
            let next = locked.schedule.choose(&mut wakes);
            if wakes.is_full() {
                locked = self.flush(locked, &mut wakes);
                continue;
            }
            let cost = next.map(|next| next.request.cost);
            if locked.entrant_cost.is_some() && locked.entrant_cost != cost {
                locked.entrant_cost = None;
                drop(locked);
                entrant.leave();
                locked = self.relock();
                continue;
            }
            let Some(next) = next else {
                entrant.charged = None;
                break;
            };
            let (request, joined) = (next.request, entrant.joined(&locked, &next));
            locked.entrant_cost = cost;
            drop(locked);
            wakes.wake_all();
            let poll = || entrant.poll(self, request, joined);
            let polled = catch_unwind(AssertUnwindSafe(poll));
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
                    locked.entrant_cost = None;
                    locked = self.hand_over(locked, request.cost, served, until, &mut wakes);
                }
                None if locked.woken_again && polls < POLLS => polls += 1,
                None => {
                    locked.poll_wanted = locked.woken_again;
                    break;
                }
            }
        }
        if locked.entrant_cost.is_none() {
            entrant.waker = None;
        }
        locked.entrant = Some(entrant);
        locked.polling = false;
        if locked.poll_wanted {
            wakes.push(locked.schedule.take_next_waker());
        }
        drop(locked);
        wakes.wake_all();
    }

    /// Gives a permit, an error or a panic to the waiter that goes next, and adds its waker. Refuses
    /// others until so many were served.
    pub(super) fn hand_over<'a>(
        &'a self,
        mut locked: Locked<'a, T, K>,
        cost: u64,
        served: Served<T::Permit>,
        until: u64,
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
            let is_spent = locked.schedule.served() >= until;
            match closed {
                Some(error) if !is_spent && locked.schedule.refuse_any(error, wakes) => continue,
                Some(_) => return locked,
                None => {}
            }
            let next = locked.schedule.choose(wakes);
            if !wakes.is_full() || is_spent {
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
            WakeList::from(waker).wake_all();
        }
    }
}
