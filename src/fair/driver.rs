//! [`Shared`]: the throttle and the schedule of a queue. [`drive`](Shared::drive) enters the
//! throttle for the waiters.
//!
//! All waiters are in the [`Schedule`]; one [`Entrant`] of the queue waits in the throttle's own
//! queue. The queue itself is the waker of its entrant, so a thread that wakes it polls it.
//!
//! 1. While somebody can be served, the entrant is in the throttle's queue, for the cost of the
//!    waiter that goes next; or a thread is in `drive`, or is about to call it; or `poll_wanted` is
//!    set, and a waiter was woken that will call it.
//! 2. One thread at a time is in `drive`, and has taken the entrant out. Another call sets
//!    `woken_again`, and the first thread then looks again before it leaves. It also looks again if
//!    the cost of the waiter that goes next has changed. So a throttle may wake inside its own
//!    poll, and threads may wake at once. `drive` begins and ends under the lock, so the caller acts
//!    on the outcome without locking again.
//! 3. The throttle is entered, polled and left, permits are rolled back, and wakers are called,
//!    cloned and dropped outside the lock. A panic of the throttle is caught: the entrant is
//!    dropped, and the waiter that goes next gets `Closed`, if it asks for the cost of the call
//!    that panicked.
//! 4. A permit goes to the waiter that is chosen when the permit arrives, and waits for that waiter
//!    in the schedule; a waiter that leaves without collecting the permit passes it on in the same
//!    way. If nobody takes it, or the cost of the next waiter differs, it is rolled back. An error
//!    goes to the next waiter of that cost.
//! 5. While there are waiters, one entry follows the other. Each is as of the tick of the previous
//!    charge, or of the first entry: a rate that admits late makes up for that, in the same way
//!    as for its own waiters. The same holds if the entrant leaves and enters again, for another
//!    cost. But an entry is as of a tick only if its waiter, or an earlier one that still waits,
//!    had joined at that tick. The ticks go [beside the throttle](crate::wait), as hints, so they reach
//!    the rates in every composition. A queue behind this one is told, and reports, in the same way: the
//!    entrant of this one joins it as of its tick. Only that join reads the tick. Other code inside the poll of
//!    an entrant, such as a wake or the drop of a permit, may drive a queue too, which then enters as of now.
//! 6. Some throttles wake under a lock of theirs, and polling them there would deadlock. Unless a
//!    throttle declares that it does not ([`Throttle::polling`]), the next waiter is
//!    woken, and drives when it is polled, unless another call of the queue does so first. The
//!    queue does the same if a throttle wakes inside each poll, which would make a task yield.
//! 7. While the entrant is the only waiter in the queue of an `Arc<Semaphore>`, a returned permit
//!    goes to the chosen waiter under the lock of the queue, and the entrant stays where it is. The
//!    outcome is the same: the semaphore would grant the permit to the entrant, and the entrant
//!    would enter again for the next waiter. The lock of the semaphore is taken inside that of the
//!    queue; no foreign code runs under it. If others wait there too, if the semaphore is closed or
//!    has more permits out than its limit, or if the costs differ, the permit is dropped.
//! 8. A throttle on tokio's time has a state for each runtime, and no state admits a waiter of another
//!    one. So the entrant enters, and is polled, only in the runtime in which the next waiter was last
//!    polled: a thread elsewhere enters the context of that runtime. If it cannot, because the runtime
//!    has ended, the waiter is outside of all runtimes or the thread is ending, it
//!    wakes that waiter, whose poll does it. A permit of one runtime is not handed to a waiter of
//!    another. The queue tells nobody that the runtime of the entrant has ended.
//! 9. One call of `drive` serves [`SERVED_AT_ONCE`] waiters at most. Refused ones count too. Then
//!    it wakes the next one, like in 6: the first waiter that is polled or leaves continues the
//!    work, even if it was already served.

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

use super::class::Class;
use super::entry::Entry;
use super::schedule::{Enter, EntryRequest, Schedule, WaiterId};
use super::{ClassKey, Queueable};
use crate::Throttle;
use crate::concurrency::{OwnedPermit, Semaphore};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, SERVED_AT_ONCE, lock};
use crate::throttle::Polling;
use crate::time::{Clock, RuntimeId, Tick, current_home, within};
use crate::wait::{Arrival, Polled, Waiting, arrival_on, is_entrant, poll_entrant, report_arrival};
use crate::wait_queue::WakeList;

/// The number of times that a throttle may wake inside its poll before a task has to yield for it.
const POLLS: u32 = 32;

/// The state that all handles of a queue share.
pub(super) struct Shared<T: Throttle, K> {
    pub(super) throttle: T,
    polling: Polling,
    /// The function that maps keys to classes.
    pub(super) class_map: Box<dyn Fn(&K) -> Class + Send + Sync>,
    pub(super) clock: Clock,
    /// Whether the clock was chosen explicitly; if so, timeouts run on it too.
    pub(super) has_own_clock: bool,
    pub(super) hasher: foldhash::fast::RandomState,
    /// The clock of the rates behind the throttle, once an entrant has met one.
    rates: OnceLock<Clock>,
    /// Enters the throttle for a cost, once a caller has asked for one other than 1.
    pub(super) enter_many: OnceLock<Enter<T>>,
    /// It is not 0 while a waiter can be served; newcomers then do not enter before it.
    pub(super) contended: Arc<AtomicUsize>,
    pub(super) locked: Mutex<Locked<T, K>>,
}

/// The state under the lock.
pub(super) struct Locked<T: Throttle, K> {
    pub(super) schedule: Schedule<T, K>,
    /// The entrant, unless a thread polls it.
    entrant: Option<Pin<Box<Entrant<T>>>>,
    woken_again: bool,
    /// The tick of the last charge, for a queue in front of this one.
    charged: Option<Tick>,
    /// Whether the entrant was woken, and the next polled waiter drives.
    pub(super) poll_wanted: bool,
    /// The runtime of the thread that has locked the queue, if the throttle has a state for each.
    pub(super) current_runtime: Option<RuntimeId>,
}

impl<T: Throttle, K: Eq> Locked<T, K> {
    /// Returns whether the caller must call `drive` after the lock, because the waiter that goes
    /// next has changed, or a poll is wanted. A thread in `drive` notices this itself.
    #[inline]
    pub(super) fn needs_drive(&self) -> bool {
        let Some(entrant) = &self.entrant else {
            return false;
        };
        let Some((id, next)) = self.schedule.next() else {
            return self.poll_wanted || entrant.request.is_some();
        };
        let leaves = entrant.request.is_some_and(|request| request != next);
        let polls = self.poll_wanted || entrant.request.is_none();
        // A waiter elsewhere polls, once it was woken.
        leaves || polls && (next.runtime == self.current_runtime || self.schedule.is_parked(id))
    }

    /// Continues after the charge of the queue whose entrant the caller is, unless somebody of this queue was
    /// charged since there are waiters. The caller has just joined, as of this tick.
    pub(super) fn continue_from(&mut self, arrived: Tick) {
        let runtime = self.current_runtime;
        let entrant = self.entrant.as_mut().filter(|it| it.request.is_none());
        if let Some(entrant) = entrant {
            entrant.as_mut().forget_other_runtime(runtime);
            entrant.as_mut().project().charged.get_or_insert(arrived);
        }
    }

    /// Records that a waiter that was not served is polled here.
    pub(super) fn record_poll(&mut self, id: WaiterId, runtime: &mut Option<RuntimeId>) {
        if *runtime != self.current_runtime && self.schedule.waiter(id).is_some() {
            *runtime = self.current_runtime;
            self.schedule.move_to(id, *runtime);
        }
    }
}

pin_project! {
    /// The future in the throttle's queue. Its memory is reused.
    struct Entrant<T: Throttle> {
        #[pin]
        enter: Option<Waiting<T::Enter>>,
        // What it waits for.
        request: Option<EntryRequest>,
        // The runtime of the last entry.
        runtime: Option<RuntimeId>,
        // The tick of the last charge, or of the entry for the first waiter, on the clock of the rates. It
        // is forgotten when no waiter is left that could have entered earlier.
        charged: Option<Tick>,
        // The chosen waiter that joined first, while it waits, and the tick at which it joined.
        earliest: Option<(WaiterId, Tick)>,
    }
}

impl<T: Throttle> Entrant<T> {
    fn new() -> Self {
        Self {
            enter: None,
            request: None,
            runtime: None,
            charged: None,
            earliest: None,
        }
    }

    /// Leaves the throttle's queue.
    fn leave(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.request = None;
        contain_panic(|| this.enter.set(None));
    }

    /// Forgets the ticks of another runtime.
    fn forget_other_runtime(self: Pin<&mut Self>, runtime: Option<RuntimeId>) {
        let this = self.project();
        if std::mem::replace(this.runtime, runtime) != runtime {
            (*this.charged, *this.earliest) = (None, None);
        }
    }

    /// Returns whether the semaphore would grant a permit that returns now to this entrant, and
    /// nobody waits behind it.
    fn is_only_waiter(&self, permit: &T::Permit) -> bool
    where
        T: Queueable,
    {
        let enter = self.enter.as_ref();
        let enter = enter.and_then(|enter| (&**enter as &dyn Any).downcast_ref());
        let permit: Option<&OwnedPermit> = (permit as &dyn Any).downcast_ref();
        matches!((permit, enter), (Some(permit), Some(enter)) if permit.is_for_only(enter))
    }

    /// Returns the tick at which the chosen waiter joined, or that of the earliest one
    /// that was chosen before and still waits.
    fn joined<K: Eq>(self: Pin<&mut Self>, schedule: &mut Schedule<T, K>, next: WaiterId) -> Tick {
        let next = (next, schedule.joined(next));
        let mut waits = |id| schedule.waiter(id).is_some();
        let earliest = self.project().earliest;
        let earlier = earliest.filter(|(id, tick)| *tick < next.1 && waits(*id));
        let (_, joined) = *earliest.insert(earlier.unwrap_or(next));
        joined
    }
}

impl<T: Queueable, K: ClassKey> Shared<T, K> {
    pub(super) fn new(throttle: T) -> Self {
        let contended = Arc::new(AtomicUsize::new(0));
        let locked = Locked {
            schedule: Schedule::new(Arc::clone(&contended)),
            entrant: Some(Box::pin(Entrant::new())),
            woken_again: false,
            charged: None,
            poll_wanted: false,
            current_runtime: None,
        };
        Self {
            polling: throttle.polling(),
            throttle,
            class_map: Box::new(|_| Class::new()),
            clock: Clock::default(),
            has_own_clock: false,
            hasher: foldhash::fast::RandomState::default(),
            rates: OnceLock::new(),
            enter_many: OnceLock::new(),
            contended,
            locked: Mutex::new(locked),
        }
    }

    /// Locks the queue. It reads the clock only if somebody's turn depends on it.
    #[inline(always)]
    pub(super) fn lock(&self) -> MutexGuard<'_, Locked<T, K>> {
        let depends_on_runtime = self.polling.depends_on_runtime;
        let runtime = depends_on_runtime.then(current_runtime).flatten();
        let mut locked = lock(&self.locked);
        locked.current_runtime = runtime;
        if locked.schedule.is_timed() {
            locked.schedule.set_now(self.clock.now());
        }
        locked
    }

    /// Polls the entrant and hands over its permits and errors, until it has to wait, or no waiter
    /// is left. The lock is released meanwhile, and held when this returns; the caller then
    /// unlocks and wakes.
    pub(super) fn drive<'a>(
        self: &'a Arc<Self>,
        mut locked: MutexGuard<'a, Locked<T, K>>,
        wakes: &mut WakeList,
    ) -> MutexGuard<'a, Locked<T, K>> {
        let Some(mut entrant) = locked.entrant.take() else {
            locked.woken_again = true;
            return locked;
        };
        locked.poll_wanted = false;
        let (mut polls, mut served) = (0, 0);
        loop {
            locked.woken_again = false;
            let next = locked.schedule.next();
            if entrant.request.is_some() && entrant.request != next.map(|(_, request)| request) {
                drop(locked);
                wakes.wake_all();
                entrant.as_mut().leave();
                locked = self.lock();
                continue;
            }
            let Some((id, request)) = next else {
                *entrant.as_mut().project().charged = None;
                break;
            };
            let is_here = request.runtime == locked.current_runtime;
            if served == SERVED_AT_ONCE {
                locked.poll_wanted = true;
                break;
            }
            entrant.as_mut().forget_other_runtime(request.runtime);
            let joined = entrant.as_mut().joined(&mut locked.schedule, id);
            drop(locked);
            wakes.wake_all();
            let knew_clock = self.has_rates();
            let mut poll = || self.poll(entrant.as_mut(), request, joined);
            let polled = if is_here {
                Some(poll())
            } else {
                within(request.runtime, poll)
            };
            locked = self.lock();
            locked.charged = entrant.charged;
            if !knew_clock && self.has_rates() {
                locked.schedule.set_clock_known();
            }
            let is_polled = polled.is_some();
            match polled.unwrap_or(Poll::Pending) {
                // The runtime of the entrant has ended, and the throttle is open.
                Poll::Ready(Err(error))
                    if error.kind() == ErrorKind::RuntimeEnded
                        && request.runtime != locked.current_runtime => {}
                Poll::Ready(result) => {
                    polls = 0;
                    served += 1;
                    if let Some(unused) = locked.schedule.hand_over(request, result, wakes) {
                        drop(locked);
                        contain_panic(|| self.throttle.rollback(unused));
                        locked = self.lock();
                    }
                }
                // In the meantime it has become the turn of another cost, or of nobody.
                Poll::Pending
                    if locked
                        .schedule
                        .next()
                        .is_none_or(|(_, next)| next != request) => {}
                Poll::Pending if locked.woken_again && polls < POLLS => polls += 1,
                Poll::Pending => {
                    // In a runtime that cannot be entered, the waiter itself polls.
                    locked.poll_wanted = locked.woken_again || !is_polled;
                    break;
                }
            }
        }
        locked.entrant = Some(entrant);
        if locked.poll_wanted {
            wakes.push(locked.schedule.take_next_waker());
        }
        locked
    }

    /// Polls the entrant, and leaves the throttle's queue when it is ready. If the entrant does not
    /// wait yet, it enters as of the previous charge, but not as of a tick before `joined`.
    fn poll(
        self: &Arc<Self>,
        mut entrant: Pin<&mut Entrant<T>>,
        request: EntryRequest,
        joined: Tick,
    ) -> Polled<T::Permit> {
        let mut this = entrant.as_mut().project();
        *this.request = Some(request);
        let is_new = this.enter.is_none();
        let known = self.rates.get().map(Clock::id);
        let arrived = known.filter(|_| is_new).zip(*this.charged);
        let arrived = arrived.map(|(clock, charged)| Arrival {
            clock,
            tick: charged.max(joined),
        });
        let mut polled = Poll::Ready(Err(AcquireError::new(ErrorKind::Closed)));
        let poll = || {
            if is_new {
                let enter = match request.cost {
                    1 => self.throttle.enter(),
                    n => self.enter_many.get().expect("it was asked for")(&self.throttle, n),
                };
                this.enter.set(Some(enter));
            }
            let waker = Waker::from(Arc::clone(self));
            let enter = this.enter.as_mut().as_pin_mut();
            let enter = enter.expect("it has entered");
            polled = enter.poll(&mut Context::from_waker(&waker));
        };
        let (_, reported) = poll_entrant(arrived, &self.rates, || contain_panic(poll));
        if let Some(Arrival { clock, tick }) = reported {
            let known = known.or_else(|| self.rates.get().map(Clock::id));
            *this.charged = (known == Some(clock)).then_some(tick);
        } else if !is_new && polled.is_ready() {
            // It has waited for something else since its charge, for example for a slot: that is no lateness.
            *this.charged = None;
        }
        if polled.is_ready() {
            entrant.leave();
        }
        polled
    }

    /// Returns the tick as of which the caller has arrived at the rates behind the throttle, if it is the
    /// entrant of another queue.
    #[inline(always)]
    pub(super) fn arrival(&self) -> Option<Tick> {
        if !is_entrant() {
            return None;
        }
        arrival_on(self.rates.get()?)
    }

    /// Returns the current tick of the rates behind the throttle. `now` is the current tick of the queue's own
    /// clock.
    pub(super) fn tick_of_rates(&self, now: Tick) -> Tick {
        match self.rates.get() {
            Some(clock) if clock.id() != self.clock.id() => clock.now(),
            _ => now,
        }
    }

    /// Returns whether the throttle has rates, as far as it is known.
    #[inline(always)]
    pub(super) fn has_rates(&self) -> bool {
        self.rates.get().is_some()
    }

    /// Reports the last charge to the queue whose entrant the caller is.
    pub(super) fn report_charge(&self) {
        let charged = lock(&self.locked).charged;
        if let (Some(clock), Some(tick)) = (self.rates.get(), charged) {
            report_arrival(clock, tick);
        }
    }

    /// Returns whether permits are handed on. Only a semaphore of this crate allows it, because it
    /// counts no entries. A wrapper may count them.
    pub(super) fn hands_on(&self) -> bool {
        (&self.throttle as &dyn Any).is::<Arc<Semaphore>>()
    }

    /// Handles the return of a permit by a class. The class already counts one less, and has
    /// waiters if `notice` is set. Returns the permit unless it was handed on.
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
            (Some(permit), Some(entrant)) if self.hands_on() && entrant.is_only_waiter(&permit) => {
                match entrant.request {
                    Some(request) => locked.schedule.hand_over(request, Ok(permit), &mut wakes),
                    None => Some(permit),
                }
            }
            (permit, _) => permit,
        };
        self.unlock(locked, &mut wakes);
        kept
    }

    /// Drives if the waiter that goes next has changed. Unlocks, and wakes.
    pub(super) fn unlock<'a>(
        self: &'a Arc<Self>,
        mut locked: MutexGuard<'a, Locked<T, K>>,
        wakes: &mut WakeList,
    ) {
        if locked.needs_drive() {
            locked = self.drive(locked, wakes);
        }
        drop(locked);
        wakes.wake_all();
    }
}

impl<T: Queueable, K: ClassKey> Wake for Shared<T, K> {
    fn wake(self: Arc<Self>) {
        let (mut locked, mut wakes) = (self.lock(), WakeList::new());
        if self.polling.is_by_wakers() {
            locked = self.drive(locked, &mut wakes);
        } else {
            locked.woken_again = true;
            if locked.entrant.is_some() {
                locked.poll_wanted = true;
                wakes.push(locked.schedule.take_next_waker());
            }
        }
        drop(locked);
        wakes.wake_all();
    }
}

/// Returns the current runtime, unless it has ended.
#[cold]
fn current_runtime() -> Option<RuntimeId> {
    current_home().map(|home| home.id)
}
