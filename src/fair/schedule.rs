//! [`Schedule`]: the classes and their waiters, and who goes next. It knows neither the throttle nor
//! wakers' tasks, and everything in it happens under the lock of the queue.
//!
//! 1. A class with waiters has a [`Rank`] in `eligible`, unless it holds its maximum of permits. The
//!    least rank goes next. Ranks change when the oldest waiter, the held permits or the level of a
//!    class change, so a choice takes a logarithm of the number of classes. If the queue is bounded,
//!    `backlogged` has all classes with waiters by level and newest waiter, so that a full queue
//!    finds whom to displace.
//! 2. The level of a class is its priority; first-in first-out, one higher for each period of aging
//!    that its oldest waiter has waited, at most 255. `promotions` has the tick at which each level changes; as time
//!    moves, so do the classes that are due.
//! 3. Start-time fair queueing (Goyal, Vin and Cheng, 1996): a class that becomes eligible starts at
//!    S = max(V, F). A grant sets F = S + cost / weight, which is the next S, and V = S. Each priority
//!    has its own V, since V says how much its classes were served, and others are served meanwhile.
//!    Ranks compare the priorities before the starts, so starts of two V are never compared.
//!    A refund lowers F and S, but S not below V. A class that becomes eligible after a charge starts
//!    at the V that the charge has moved, so it had no advantage from it, and a refund would put it
//!    back: refunds count only for the last grant of a class, and for those made after any class of
//!    the priority became eligible.
//! 4. A class in use is in the table. Others are forgotten only to make room for a new one, which
//!    looks at [`LOOKS`] classes for that. A class that leaves keeps F; of the classes looked at, the
//!    one is forgotten that loses least by it: at most one cost per weight, since V is the S of a
//!    grant at least as late as its last one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashTable;

use super::class::{Order, Share};
use super::entry::Entry;
use super::heap::Heap;
use super::waiters::{List, Request, Waiter, WaiterId, Waiters};
use crate::error::{AcquireError, ErrorKind};
use crate::time::Tick;
use crate::wait_queue::WakeList;

/// The number of classes that are looked at to make room for a new one.
const LOOKS: usize = 64;
/// The bits of a fraction in virtual time.
const FRACTION: u32 = 32;
/// The bits of a rank that are below the level and the priority.
const SHARE: u32 = u128::BITS - u16::BITS;

/// What a class was charged for a permit by cost.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) cost: NonZeroU64,
    /// The number of the grant.
    number: u64,
}

/// What a waiter was given.
pub(super) enum Served<P> {
    Admitted(P, Option<Charge>),
    Refused(AcquireError),
    /// The throttle panicked with this when it was polled.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// The settings of a queue.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) share: Share,
    pub(super) max_classes: usize,
    pub(super) max_waiters: usize,
    pub(super) aging: Option<Duration>,
}

/// The classes and their waiters.
pub(super) struct Schedule<K, E, P> {
    pub(super) rules: Rules,
    /// Indices into `classes`, by key.
    table: HashTable<usize>,
    classes: Vec<Option<ClassState<K>>>,
    /// The indices of `classes` that are `None`.
    free: Vec<usize>,
    /// The class that is looked at next, to make room or to refuse all waiters.
    hand: usize,
    waiters: Waiters<E, Served<P>>,
    waiting: usize,
    joined: u64,
    eligible: Heap<Rank>,
    /// The lowest level first, and in it the class of the newest waiter.
    backlogged: BTreeSet<(Backlog, usize)>,
    promotions: BTreeSet<(Tick, usize)>,
    granted: u64,
    virtual_times: Box<[VirtualTime; 256]>,
    now: Tick,
}

/// A class in the table.
pub(super) struct ClassState<K> {
    pub(super) entry: Arc<Entry<K>>,
    list: List,
    /// The key in `backlogged`.
    backlog: Option<Backlog>,
    /// The tick in `promotions`.
    promotion: Option<Tick>,
    start: u128,
    finish: u128,
    /// The number of its last grant.
    last: u64,
}

/// How much the classes of a priority were served.
#[derive(Clone, Copy, Default)]
struct VirtualTime {
    time: u128,
    /// The number of grants before a class last became eligible.
    joined_after: u64,
}

/// The order of classes: the least one goes first. It is the level, highest first, the priority,
/// lowest first, and the held permits per weight or the virtual start time, in one number; and the
/// number of the oldest waiter.
type Rank = (u128, u64);

/// The order in which classes lose waiters: by level, and by the number of the newest waiter.
type Backlog = (u8, Reverse<u64>);

/// The waiter that goes next.
#[derive(Clone, Copy)]
pub(super) struct Chosen<E> {
    pub(super) id: WaiterId,
    pub(super) request: Request<E>,
}

/// What the table made of an entry.
pub(super) struct Attached<K> {
    /// The entry that has its key, if that is another one.
    pub(super) other: Option<Arc<Entry<K>>>,
    /// The entry that was forgotten for it, to be dropped after the lock.
    pub(super) forgotten: Option<Arc<Entry<K>>>,
}

/// What a waiter that leaves leaves behind.
pub(super) enum Left<P> {
    Waited(Option<Waker>),
    Served(Served<P>),
}

impl<K: Eq, E: Copy, P> Schedule<K, E, P> {
    pub(super) fn new() -> Self {
        Self {
            rules: Rules {
                share: Share::ByConcurrency,
                max_classes: 10_000,
                max_waiters: usize::MAX,
                aging: None,
            },
            table: HashTable::new(),
            classes: Vec::new(),
            free: Vec::new(),
            hand: 0,
            waiters: Waiters::new(),
            waiting: 0,
            joined: 0,
            eligible: Heap::new(),
            backlogged: BTreeSet::new(),
            promotions: BTreeSet::new(),
            granted: 0,
            virtual_times: Box::new([VirtualTime::default(); 256]),
            now: Tick::default(),
        }
    }

    /// Moves the time of the schedule forward, and the classes to the levels that they have then.
    pub(super) fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
        while let Some((due, index)) = self.promotions.first().copied() {
            if due > self.now {
                return;
            }
            self.reindex(index);
        }
    }

    /// Returns whether a waiter can be served.
    pub(super) fn is_contended(&self) -> bool {
        !self.eligible.is_empty()
    }

    /// Returns whether a waiter of one class can displace a waiter of another.
    fn is_bounded(&self) -> bool {
        self.rules.max_waiters != usize::MAX
    }

    /// Returns the number of waiters.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The table of classes.
impl<K: Eq, E: Copy, P> Schedule<K, E, P> {
    /// Returns the class of a key, if it is in the table.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<&Arc<Entry<K>>> {
        let is = |index: &usize| {
            let entry = self.class(*index).map(|class| &class.entry);
            entry.is_some_and(|entry| entry.hash == hash && entry.key == *key)
        };
        let index = self.table.find(hash, is)?;
        Some(&self.class(*index)?.entry)
    }

    /// Adds an entry to the table, unless it or another one with its key is there.
    pub(super) fn attach(&mut self, entry: &Arc<Entry<K>>) -> Result<Attached<K>, AcquireError> {
        let mut attached = Attached {
            other: None,
            forgotten: None,
        };
        if entry.index().is_some() {
            return Ok(attached);
        }
        if let Some(other) = self.find(entry.hash, &entry.key) {
            attached.other = Some(Arc::clone(other));
            return Ok(attached);
        }
        if self.table.len() >= self.rules.max_classes {
            attached.forgotten = self.forget();
            if attached.forgotten.is_none() {
                return Err(AcquireError::new(ErrorKind::QueueFull));
            }
        }
        let state = ClassState {
            entry: Arc::clone(entry),
            list: List::new(),
            backlog: None,
            promotion: None,
            start: 0,
            finish: 0,
            last: 0,
        };
        let index = self.free.pop().unwrap_or(self.classes.len());
        match self.classes.get_mut(index) {
            Some(free) => *free = Some(state),
            None => self.classes.push(Some(state)),
        }
        let classes = &self.classes;
        let hash = |index: &usize| classes[*index].as_ref().map_or(0, |class| class.entry.hash);
        self.table.insert_unique(entry.hash, index, hash);
        entry.attach(index);
        Ok(attached)
    }

    /// Forgets a class that is not in use; by cost, the one whose finish time is least ahead.
    fn forget(&mut self) -> Option<Arc<Entry<K>>> {
        let mut least: Option<(u128, usize)> = None;
        for _ in 0..LOOKS.min(self.classes.len()) {
            let index = self.hand;
            self.hand = (index + 1) % self.classes.len();
            let Some(class) = &self.classes[index] else {
                continue;
            };
            let ahead = match self.rules.share {
                Share::ByConcurrency => 0,
                Share::ByCost => class
                    .finish
                    .saturating_sub(self.virtual_time_of(class).time),
            };
            if least.is_some_and(|least| least.0 <= ahead) || !class.entry.try_detach() {
                continue;
            }
            if let Some((_, kept)) = least.replace((ahead, index)) {
                self.class(kept)?.entry.attach(kept);
            }
            if ahead == 0 {
                break;
            }
        }
        let (_, index) = least?;
        let hash = self.class(index)?.entry.hash;
        let found = self.table.find_entry(hash, |other| *other == index);
        if let Ok(found) = found {
            found.remove();
        }
        self.free.push(index);
        Some(self.classes[index].take()?.entry)
    }

    fn virtual_time_of(&self, class: &ClassState<K>) -> VirtualTime {
        self.virtual_times[usize::from(class.entry.class.priority)]
    }

    fn class(&self, index: usize) -> Option<&ClassState<K>> {
        self.classes.get(index)?.as_ref()
    }

    /// Returns the classes, and for each the number of its waiters and how long the oldest one has
    /// waited.
    pub(super) fn classes(
        &self,
    ) -> impl Iterator<Item = (&Arc<Entry<K>>, usize, Option<Duration>)> {
        self.classes.iter().flatten().map(|class| {
            let oldest = class.list.oldest().and_then(|id| self.waiters.get(id));
            let oldest = oldest.map(|waiter| self.now.saturating_since(waiter.since));
            (&class.entry, class.list.len(), oldest)
        })
    }
}

/// Waiters.
impl<K: Eq, E: Copy, P> Schedule<K, E, P> {
    /// Adds a waiter to a class of the table. If there is no room, it or another one is refused.
    pub(super) fn join(
        &mut self,
        entry: &Entry<K>,
        request: Request<E>,
        wakes: &mut WakeList,
    ) -> Result<WaiterId, AcquireError> {
        let full = AcquireError::new(ErrorKind::QueueFull);
        let Some(index) = entry.index() else {
            return Err(full);
        };
        if let Some(refused) = self.refused_for(index)? {
            self.serve(refused, Served::Refused(full), wakes);
        }
        let Some(Some(class)) = self.classes.get_mut(index) else {
            return Err(AcquireError::new(ErrorKind::QueueFull));
        };
        self.joined += 1;
        let waiter = Waiter::new(self.joined, self.now, request, index);
        let id = self.waiters.push(&mut class.list, waiter);
        self.waiting += 1;
        if class.list.len() == 1 {
            class.entry.set_notice(true);
        }
        if class.list.len() == 1 || self.is_bounded() {
            self.reindex(index);
        }
        Ok(id)
    }

    /// Returns the waiter that makes room for a newcomer to a class, if one has to.
    fn refused_for(&self, index: usize) -> Result<Option<WaiterId>, AcquireError> {
        let full = || AcquireError::new(ErrorKind::QueueFull);
        let class = self.class(index).ok_or_else(full)?;
        let settings = &class.entry.class;
        let oldest = || class.list.oldest().ok_or_else(full).map(Some);
        let is_lifo = self.is_lifo(class);
        if class.list.len() >= settings.max_waiters {
            return if is_lifo { oldest() } else { Err(full()) };
        }
        if self.waiting < self.rules.max_waiters && !self.waiters.is_full() {
            return Ok(None);
        }
        match self.backlogged.first() {
            Some(((level, _), lowest)) if *level < settings.priority => {
                Ok(self.class(*lowest).and_then(|class| class.list.newest()))
            }
            _ if is_lifo => oldest(),
            _ => Err(full()),
        }
    }

    /// Removes a waiter, whether or not it was served.
    pub(super) fn leave(&mut self, id: WaiterId) -> Option<Left<P>> {
        let Some(waiter) = self.waiters.get(id) else {
            return self.waiters.collect(id).map(Left::Served);
        };
        let index = waiter.class;
        let class = self.classes.get_mut(index)?.as_mut()?;
        let was_oldest = class.list.oldest() == Some(id);
        let waiter = self.waiters.leave(&mut class.list, id)?;
        self.waiting -= 1;
        if was_oldest || self.is_bounded() {
            self.reindex(index);
        }
        Some(Left::Waited(waiter.waker))
    }

    /// Takes what a waiter was given, if it was served.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<Served<P>> {
        self.waiters.collect(id)
    }

    /// Returns whether the stored waker of a waiter wakes the same task.
    pub(super) fn is_woken_by(&self, id: WaiterId, waker: &Waker) -> bool {
        let stored = self
            .waiters
            .get(id)
            .and_then(|waiter| waiter.waker.as_ref());
        stored.is_some_and(|stored| stored.will_wake(waker))
    }

    /// Stores the waker of a waiter, and returns the waker that is not needed.
    pub(super) fn set_waker(&mut self, id: WaiterId, waker: Waker) -> Option<Waker> {
        match self.waiters.get_mut(id) {
            Some(waiter) => waiter.waker.replace(waker),
            None => Some(waker),
        }
    }

    /// Takes the waker of the waiter that would go next, without refusing anybody.
    pub(super) fn take_next_waker(&mut self) -> Option<Waker> {
        let id = self.first()?;
        self.waiters.get_mut(id)?.waker.take()
    }

    /// Gives something to a waiter.
    pub(super) fn serve(&mut self, id: WaiterId, given: Served<P>, wakes: &mut WakeList) {
        let Some(index) = self.waiters.get(id).map(|waiter| waiter.class) else {
            return;
        };
        let Some(Some(class)) = self.classes.get_mut(index) else {
            return;
        };
        if let Some(waiter) = self.waiters.serve(&mut class.list, id, given) {
            self.waiting -= 1;
            wakes.push(waiter.waker);
        }
        self.reindex(index);
    }

    /// Gives a permit to the chosen waiter, and charges its class.
    pub(super) fn grant(&mut self, chosen: Chosen<E>, permit: P, wakes: &mut WakeList) {
        let index = self.waiters.get(chosen.id).map(|waiter| waiter.class);
        let mut charge = None;
        if let Some(Some(class)) = index.and_then(|index| self.classes.get_mut(index)) {
            class.entry.hold();
            let virtual_time = &mut self.virtual_times[usize::from(class.entry.class.priority)];
            virtual_time.time = class.start.max(virtual_time.time);
            let cost = virtual_cost(chosen.request.cost, class.entry.class.weight);
            class.finish = class.start.saturating_add(cost);
            class.start = class.finish;
            self.granted += 1;
            class.last = self.granted;
            let by_cost = self.rules.share == Share::ByCost;
            let charged = NonZeroU64::new(chosen.request.cost).filter(|_| by_cost);
            let number = self.granted;
            charge = charged.map(|cost| Charge { cost, number });
        }
        self.serve(chosen.id, Served::Admitted(permit, charge), wakes);
    }

    /// Charges a class another cost than it was charged.
    pub(super) fn recharge(&mut self, entry: &Entry<K>, charged: Charge, cost: u64) {
        let Some(index) = entry.index() else {
            return;
        };
        let Some(Some(class)) = self.classes.get_mut(index) else {
            return;
        };
        let virtual_time = self.virtual_times[usize::from(entry.class.priority)];
        let charged_before = charged.number <= virtual_time.joined_after;
        if cost < charged.cost.get() && charged_before && charged.number != class.last {
            return;
        }
        let weight = entry.class.weight;
        let (less, more) = (
            virtual_cost(charged.cost.get(), weight),
            virtual_cost(cost, weight),
        );
        class.finish = class.finish.saturating_sub(less).saturating_add(more);
        // A refund does not lead back before the virtual time, and raises no start.
        class.start = class.start.min(virtual_time.time).max(class.finish);
        self.reindex(index);
    }

    /// Handles a change of the held permits of a class.
    pub(super) fn released(&mut self, entry: &Entry<K>) {
        if let Some(index) = entry.index() {
            self.reindex(index);
        }
    }

    /// Refuses a waiter of any class. Returns whether there was one.
    pub(super) fn refuse_any(&mut self, error: &AcquireError, wakes: &mut WakeList) -> bool {
        if self.waiting == 0 {
            return false;
        }
        // The hand stays at a class until all its waiters are refused.
        for _ in 0..self.classes.len() {
            let class = self.class(self.hand);
            if let Some(id) = class.and_then(|class| class.list.oldest()) {
                self.serve(id, Served::Refused(error.clone()), wakes);
                return true;
            }
            self.hand = (self.hand + 1) % self.classes.len();
        }
        false
    }
}

/// The choice.
impl<K: Eq, E: Copy, P> Schedule<K, E, P> {
    /// Returns the waiter that goes next. Waiters before it that have waited too long are refused;
    /// if they fill the list of wakers, there is no result yet.
    pub(super) fn choose(&mut self, wakes: &mut WakeList) -> Option<Chosen<E>> {
        while !wakes.is_full() {
            let id = self.first()?;
            let waiter = self.waiters.get(id)?;
            let limit = self.class(waiter.class)?.entry.class.max_queue_time;
            let waited = self.now.saturating_since(waiter.since);
            if limit.is_some_and(|limit| waited >= limit) {
                let late = AcquireError::new(ErrorKind::TimedOut);
                self.serve(id, Served::Refused(late), wakes);
                continue;
            }
            let request = waiter.request;
            return Some(Chosen { id, request });
        }
        None
    }

    /// Returns the cost of the waiter that would go next, without refusing anybody.
    pub(super) fn next_cost(&self) -> Option<u64> {
        let waiter = self.waiters.get(self.first()?)?;
        Some(waiter.request.cost)
    }

    fn first(&self) -> Option<WaiterId> {
        let class = self.class(self.eligible.first()?)?;
        match self.is_lifo(class) {
            true => class.list.newest(),
            false => class.list.oldest(),
        }
    }

    fn is_lifo(&self, class: &ClassState<K>) -> bool {
        match class.entry.class.order {
            Order::Fifo => false,
            Order::Lifo => true,
            Order::AdaptiveLifo(limit) => {
                let oldest = class.list.oldest().and_then(|id| self.waiters.get(id));
                oldest.is_some_and(|oldest| self.now.saturating_since(oldest.since) > limit)
            }
        }
    }

    /// Computes the rank of a class from its state, after any change of it.
    fn reindex(&mut self, index: usize) {
        let Some(Some(class)) = self.classes.get_mut(index) else {
            return;
        };
        let settings = &class.entry.class;
        let Some(oldest) = class.list.oldest().and_then(|id| self.waiters.get(id)) else {
            class.entry.set_notice(false);
            self.eligible.set(index, None);
            self.set_level(index, None, None);
            return;
        };
        let newest = class.list.newest().and_then(|id| self.waiters.get(id));
        let (mut level, mut promotion) = (settings.priority, None);
        // Newest first, the oldest would raise the level for ever, and not go.
        let ages = settings.order == Order::Fifo;
        if let Some(period) = self.rules.aging.filter(|_| ages) {
            let waited = self.now.saturating_since(oldest.since).as_nanos();
            let periods = (waited / period.as_nanos().max(1)).min(255) as u8;
            level = level.saturating_add(periods);
            // The highest level does not change any more.
            let until = period.saturating_mul(u32::from(periods) + 1);
            let due = oldest.since.saturating_add(until);
            promotion = Some(due).filter(|due| level < u8::MAX && !due.is_never());
        }
        let held = class.entry.held();
        let is_eligible = held < settings.max_concurrency.into();
        if is_eligible && !self.eligible.contains(index) {
            let virtual_time = &mut self.virtual_times[usize::from(settings.priority)];
            virtual_time.joined_after = self.granted;
            class.start = virtual_time.time.max(class.finish);
        }
        let share = match self.rules.share {
            // Two different fractions differ by at least 2^-64.
            Share::ByConcurrency => (u128::from(held) << 64) / u128::from(settings.weight),
            Share::ByCost => class.start,
        };
        let levels = u128::from(u16::from_be_bytes([!level, settings.priority]));
        let rank = levels << SHARE | share.min(u128::MAX >> (u128::BITS - SHARE));
        let rank = is_eligible.then_some((rank, oldest.number));
        let backlog = newest.map(|newest| (level, Reverse(newest.number)));
        self.eligible.set(index, rank);
        self.set_level(index, backlog, promotion);
    }

    /// Sets the level of a class and its newest waiter, and when the level changes.
    fn set_level(&mut self, index: usize, backlog: Option<Backlog>, promotion: Option<Tick>) {
        let backlog = backlog.filter(|_| self.is_bounded());
        let Some(Some(class)) = self.classes.get_mut(index) else {
            return;
        };
        if class.backlog != backlog {
            if let Some(old) = class.backlog {
                self.backlogged.remove(&(old, index));
            }
            class.backlog = backlog;
            self.backlogged.extend(backlog.map(|new| (new, index)));
        }
        if class.promotion != promotion {
            if let Some(due) = class.promotion {
                self.promotions.remove(&(due, index));
            }
            class.promotion = promotion;
            self.promotions.extend(promotion.map(|due| (due, index)));
        }
    }
}

/// Returns a cost per weight in virtual time. It is rounded up, so that a cost is never free.
fn virtual_cost(cost: u64, weight: u32) -> u128 {
    (u128::from(cost) << FRACTION).div_ceil(weight.into())
}
