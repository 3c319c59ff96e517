//! [`Schedule`]: the waiters of all classes, and who goes next. It calls neither the throttle nor a
//! waker, and everything in it happens under the lock of the queue.
//!
//! 1. A class with waiters has a [`Rank`] in `eligible`, unless it holds its maximum of permits. The
//!    least rank goes next. Ranks change when the oldest waiter, the held permits or the level of a
//!    class change, so a choice takes a logarithm of the number of classes.
//! 2. The level of a class is its priority; first-in first-out, one higher for each period of aging
//!    that its oldest waiter has waited, at most 255. `promotions` has the tick at which each level
//!    changes; as time moves, so do the classes that are due.
//! 3. Classes share by start-time fair queueing (Goyal, Vin and Cheng, 1996). A class that becomes
//!    eligible starts at S = max(V, F). A grant sets F = S + cost / weight, which is the next S, and
//!    V = S. Each priority has its own V, since V says how much its classes were served, and others are
//!    served meanwhile. Ranks compare the priorities before the starts, so starts of two priorities are
//!    never compared.
//! 4. By concurrency a class that holds a permit is being served, also while it waits for more and V
//!    moves on. So a permit that returns sets S = max(V, S): a long call earns no credit.
//! 5. A waiter is in the map of its class, under a number that no other waiter gets, until it leaves or is
//!    served. What it was given is in `given` until it collects that. The maps are B-trees: no call moves or
//!    frees more than a few waiters, however many wait.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::class::{Class, Share};
use super::table::{ClassState, Entry, Table};
use super::tournament::Tournament;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{AtomicUsize, Ordering};
use crate::throttle::Throttle;
use crate::time::Tick;
use crate::wait::Waiting;
use crate::wait_queue::WakeList;

/// The bits of a fraction in virtual time.
const FRACTION: u32 = 32;

/// The classes and their waiters, and the options of a queue.
pub(super) struct Schedule<T: Throttle, K> {
    pub(super) share: Share,
    pub(super) max_classes: usize,
    pub(super) max_waiters: usize,
    pub(super) aging: Option<Duration>,
    pub(super) table: Table<T, K>,
    /// The number of waiters.
    pub(super) waiting: usize,
    /// The number of waiters that were given something.
    pub(super) served: u64,
    eligible: Tournament<Rank>,
    promotions: Tournament<Tick>,
    /// How much the classes of each priority were served.
    virtual_times: Box<[u128; 256]>,
    given: BTreeMap<u64, Given<T::Permit>>,
    now: Tick,
    joined: u64,
    /// Whether the order of a class depends on the time.
    adapts: bool,
    /// Whether a waiter can be served, for a newcomer without the lock.
    contended: Arc<AtomicUsize>,
}

/// The order of classes: the least one goes first. It is the level, the priority, the held permits per
/// weight or the virtual start time, the virtual start time, and the number of the oldest waiter.
type Rank = (Reverse<u8>, u8, u128, u128, u64);

/// What a waiter was given.
pub(super) type Given<P> = Result<P, AcquireError>;

/// What a caller asks for, and how the throttle is entered for it.
pub(super) struct Request<T: Throttle> {
    pub(super) cost: u64,
    /// Enters for a cost, as of a tick of the throttle or as of now.
    pub(super) enter: fn(&T, u64, Option<Tick>) -> Waiting<T::Enter>,
    /// Enters for a cost if that needs no wait.
    pub(super) enter_now: fn(&T, u64) -> Option<T::Permit>,
}

impl<T: Throttle> Clone for Request<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Throttle> Copy for Request<T> {}

/// A waiter that was not served.
pub(super) struct Waiter<T: Throttle> {
    pub(super) request: Request<T>,
    /// The tick of the throttle at which it joined, if the throttle has ticks.
    pub(super) joined: Tick,
    /// The tick of the queue at which it joined.
    pub(super) since: Tick,
    waker: Option<Waker>,
}

/// The index of the class of a waiter, and the number of the waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct WaiterId {
    index: usize,
    number: u64,
}

impl<T: Throttle, K: Eq> Schedule<T, K> {
    /// Creates a schedule that keeps `contended` up to date.
    pub(super) fn new(contended: Arc<AtomicUsize>) -> Self {
        Self {
            share: Share::ByConcurrency,
            max_classes: 10_000,
            max_waiters: usize::MAX,
            aging: None,
            table: Table::new(),
            waiting: 0,
            served: 0,
            eligible: Tournament::new(),
            promotions: Tournament::new(),
            virtual_times: Box::new([0; 256]),
            given: BTreeMap::new(),
            now: Tick::default(),
            joined: 0,
            adapts: false,
            contended,
        }
    }

    /// Returns whether it depends on the time who goes next.
    pub(super) fn is_timed(&self) -> bool {
        self.adapts || self.aging.is_some()
    }

    /// Moves the time of the schedule forward, and the classes to the levels that they have then.
    pub(super) fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
        while let Some((due, index)) = self.promotions.first() {
            if due > self.now {
                return;
            }
            self.rank(index);
        }
    }

    /// Replaces an entry by the one that has its key in the table, or adds it there. Returns the one that
    /// was forgotten for it, to be dropped after the lock.
    pub(super) fn attach(
        &mut self,
        entry: &mut Arc<Entry<K>>,
    ) -> Result<Option<Arc<Entry<K>>>, AcquireError> {
        if entry.index().is_some() {
            return Ok(None);
        }
        if let Some(attached) = self.table.find(entry.hash, &entry.key) {
            return Ok(Some(std::mem::replace(entry, Arc::clone(attached))));
        }
        self.adapts |= entry.class.adaptive_lifo.is_some();
        let (virtual_times, max_classes) = (&self.virtual_times, self.max_classes);
        let ahead = |class: &ClassState<T, K>| {
            let priority = usize::from(class.entry.class.priority);
            class.finish.saturating_sub(virtual_times[priority])
        };
        self.table.add(entry, max_classes, ahead)
    }
}

/// Waiters.
impl<T: Throttle, K: Eq> Schedule<T, K> {
    /// Adds a waiter to a class of the table. If there is no room, it is refused, or the oldest waiter of
    /// the class if that serves the newest first.
    pub(super) fn join(
        &mut self,
        entry: &Entry<K>,
        request: Request<T>,
        [joined, since]: [Tick; 2],
        wakes: &mut WakeList,
    ) -> Result<WaiterId, AcquireError> {
        let full = AcquireError::new(ErrorKind::QueueFull);
        let index = entry.index().ok_or(full.clone())?;
        let id = |number| WaiterId { index, number };
        let class = &self.table.classes[index];
        let in_class = class.waiters.len();
        if in_class >= entry.class.max_waiters || self.waiting >= self.max_waiters {
            let oldest = class.oldest().filter(|_| self.is_lifo(class));
            let (number, _) = oldest.ok_or(full.clone())?;
            wakes.push(self.serve(id(number), Err(full)));
        }
        self.joined += 1;
        self.waiting += 1;
        let waiter = Waiter {
            request,
            joined,
            since,
            waker: None,
        };
        let class = &mut self.table.classes[index];
        class.waiters.insert(self.joined, waiter);
        if class.waiters.len() == 1 {
            class.entry.set_notice(true);
            self.rank(index);
        }
        Ok(id(self.joined))
    }

    /// Returns a waiter, unless it was served.
    pub(super) fn waiter(&self, id: WaiterId) -> Option<&Waiter<T>> {
        self.table.classes.get(id.index)?.waiters.get(&id.number)
    }

    /// Takes what a waiter was given, or stores its waker and returns the old one.
    pub(super) fn look(
        &mut self,
        id: WaiterId,
        waker: Waker,
    ) -> Result<Given<T::Permit>, Option<Waker>> {
        if let Some(given) = self.collect(id) {
            return Ok(given);
        }
        let waiter = self.waiter_mut(id);
        Err(waiter.and_then(|waiter| waiter.waker.replace(waker)))
    }

    /// Takes the waker of the waiter that goes next.
    pub(super) fn take_next_waker(&mut self) -> Option<Waker> {
        let (id, _) = self.next()?;
        self.waiter_mut(id)?.waker.take()
    }

    fn waiter_mut(&mut self, id: WaiterId) -> Option<&mut Waiter<T>> {
        let class = self.table.classes.get_mut(id.index)?;
        class.waiters.get_mut(&id.number)
    }

    /// Removes a waiter that was not served, and returns its waker.
    pub(super) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        let waiter = self.remove(id)?;
        self.rank(id.index);
        waiter.waker
    }

    /// Gives something to a waiter, and returns its waker.
    pub(super) fn serve(&mut self, id: WaiterId, given: Given<T::Permit>) -> Option<Waker> {
        let waiter = self.remove(id)?;
        if given.is_ok() {
            self.charge(id.index, waiter.request.cost);
        }
        self.given.insert(id.number, given);
        self.served += 1;
        self.rank(id.index);
        waiter.waker
    }

    /// Takes what a waiter was given, if it was served.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<Given<T::Permit>> {
        self.given.remove(&id.number)
    }

    fn remove(&mut self, id: WaiterId) -> Option<Waiter<T>> {
        let waiters = &mut self.table.classes.get_mut(id.index)?.waiters;
        let waiter = waiters.remove(&id.number)?;
        if waiters.is_empty() {
            // It keeps no memory for waiters that it does not have.
            *waiters = BTreeMap::new();
        }
        self.waiting -= 1;
        Some(waiter)
    }
}

/// The choice.
impl<T: Throttle, K: Eq> Schedule<T, K> {
    /// Returns the waiter that goes next.
    pub(super) fn next(&self) -> Option<(WaiterId, &Waiter<T>)> {
        let (_, index) = self.eligible.first()?;
        let class = &self.table.classes[index];
        let (number, waiter) = match self.is_lifo(class) {
            true => class.newest()?,
            false => class.oldest()?,
        };
        Some((WaiterId { index, number }, waiter))
    }

    /// Returns the cost of the waiter that goes next.
    pub(super) fn next_cost(&self) -> Option<u64> {
        self.next().map(|(_, waiter)| waiter.request.cost)
    }

    /// Handles the return of a permit of a class.
    pub(super) fn released(&mut self, entry: &Entry<K>) {
        if let Some(index) = entry.index() {
            if self.share == Share::ByConcurrency {
                let virtual_time = self.virtual_times[usize::from(entry.class.priority)];
                let start = &mut self.table.classes[index].start;
                *start = virtual_time.max(*start);
            }
            self.rank(index);
        }
    }

    /// Charges a class for a permit that one of its waiters is given.
    fn charge(&mut self, index: usize, cost: u64) {
        let class = &mut self.table.classes[index];
        class.entry.hold();
        let cost = match self.share {
            Share::ByConcurrency => 1,
            Share::ByCost => cost,
        };
        let settings = &class.entry.class;
        let virtual_time = &mut self.virtual_times[usize::from(settings.priority)];
        *virtual_time = class.start.max(*virtual_time);
        // A weight is below 2^32, so a cost is never free.
        let cost = (u128::from(cost) << FRACTION) / u128::from(settings.weight);
        class.finish = class.start.saturating_add(cost);
        class.start = class.finish;
    }

    fn is_lifo(&self, class: &ClassState<T, K>) -> bool {
        let limit_and_oldest = class.entry.class.adaptive_lifo.zip(class.oldest());
        limit_and_oldest
            .is_some_and(|(limit, (_, oldest))| self.now.saturating_since(oldest.since) > limit)
    }

    /// Computes the rank of a class from its state, after any change of it.
    fn rank(&mut self, index: usize) {
        let class = &mut self.table.classes[index];
        let settings = &class.entry.class;
        let (mut rank, mut promotion) = (None, None);
        if let Some((number, oldest)) = class.oldest() {
            let waited = self.now.saturating_since(oldest.since);
            let (level, next) = level(settings, self.aging, waited);
            let promoted = next.map(|next| oldest.since.saturating_add(next));
            promotion = promoted.filter(|due| !due.is_never());
            let held = class.entry.held();
            if held < settings.max_concurrency.into() {
                if !self.eligible.contains(index) {
                    let virtual_time = self.virtual_times[usize::from(settings.priority)];
                    class.start = virtual_time.max(class.finish);
                }
                let share = match self.share {
                    // Two different fractions differ by at least 2^-64.
                    Share::ByConcurrency => (u128::from(held) << 64) / u128::from(settings.weight),
                    Share::ByCost => class.start,
                };
                rank = Some((
                    Reverse(level),
                    settings.priority,
                    share,
                    class.start,
                    number,
                ));
            }
        } else {
            class.entry.set_notice(false);
        }
        self.eligible.set(index, rank);
        self.promotions.set(index, promotion);
        let contended = usize::from(self.eligible.first().is_some());
        // Relaxed: a newcomer that misses a change meets the throttle's own queue.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }
}

/// Returns the level of a class whose oldest waiter has waited for so long, and how long that waiter
/// has to wait for the next level.
#[inline]
fn level(class: &Class, aging: Option<Duration>, waited: Duration) -> (u8, Option<Duration>) {
    // Served newest first, the oldest would raise the level for ever, and not go.
    let Some(period) = aging.filter(|_| class.adaptive_lifo.is_none()) else {
        return (class.priority, None);
    };
    let periods = (waited.as_nanos() / period.as_nanos().max(1)).min(255) as u8;
    let level = class.priority.saturating_add(periods);
    // The highest level does not change any more.
    let next = (level < u8::MAX).then(|| period.saturating_mul(u32::from(periods) + 1));
    (level, next)
}
