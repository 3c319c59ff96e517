//! [`Schedule`]: the waiters of all classes, and the choice of the next one. It calls neither the
//! throttle nor a waker, and all its methods run under the lock of the queue.
//!
//! 1. A class with waiters has a [`Rank`] in `eligible`, unless it holds its maximum of permits. The
//!    least rank goes next. Ranks change when the oldest waiter, the held permits or the level of a
//!    class change, so a choice takes a logarithm of the number of classes.
//! 2. The level of a class is its priority. For a first-in first-out class it is one higher for
//!    each period of aging that its oldest waiter has waited, at most 255. `promotions` has the
//!    tick at which each level changes, or the newest waiter goes first; classes move when these ticks
//!    are reached.
//! 3. Classes share by start-time fair queueing (Goyal, Vin and Cheng, 1996). A class that becomes
//!    eligible starts at S = max(V, S). A grant sets V = max(V, S) and adds cost / weight to S.
//!    Each priority has its own V, since V measures the service of its classes, and other
//!    priorities are served at other times. Ranks compare the priorities before the starts, so
//!    starts of two priorities are never compared.
//! 4. A class pays for its dearest call in advance: while its next waiter costs more than any grant
//!    since it was added to the table, it starts at S + (cost - largest cost) / weight, and that grant
//!    makes this S. Otherwise callers under ever new keys, or with their dearest call last, would never
//!    pay it. So the rank of a class depends on the cost of the waiter that goes next.
//! 5. By concurrency a class that holds a permit is being served, also while it waits for more and
//!    V increases. So a returned permit sets S = max(V, S): a long call earns no credit.
//! 6. A waiter is in the map of its class, under a unique number, until it leaves or is served. Its
//!    permit or error is in `results` until the waiter collects it. The maps are B-trees: no call
//!    moves or frees more than a few waiters, however many wait.
//! 7. A class is forgotten only when another one takes its index: of [`LOOKS`] classes that are not
//!    in use, the one that loses least of its start. Deposits do not count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashTable;

use super::class::{Class, Share};
use super::entry::Entry;
use super::tournament::Tournament;
use crate::Throttle;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{AtomicUsize, Ordering};
use crate::time::{RuntimeId, Tick};
use crate::wait::Waiting;
use crate::wait_queue::WakeList;

/// The number of classes that are checked to make room for a new one.
const LOOKS: usize = 64;

/// The bits of a fraction in virtual time.
const FRACTION: u32 = 32;

/// The classes and their waiters, and the options of a queue.
pub(super) struct Schedule<T: Throttle, K> {
    pub(super) share: Share,
    pub(super) max_classes: usize,
    pub(super) max_waiters: usize,
    pub(super) aging: Option<Duration>,
    /// The table of classes. No class leaves it, but another class may replace it.
    pub(super) classes: Vec<ClassState<K>>,
    /// The memory of the class that had waiters last, without any.
    spare: BTreeMap<u64, Waiter>,
    /// Indices into `classes`.
    by_key: HashTable<usize>,
    /// The class that is checked next, to make room.
    hand: usize,
    /// The number of waiters.
    pub(super) waiting: usize,
    /// The virtual time of each priority: the service that its classes received.
    virtual_times: Box<[u128; 256]>,
    eligible: Tournament<Rank>,
    promotions: Tournament<Tick>,
    /// The uncollected permits and errors: that of the last served waiter, with its number, and
    /// those of the others. The last waiter usually collects its own before the next one is served,
    /// and the map allocates nothing.
    last_result: Option<(u64, EnterResult<T>)>,
    results: BTreeMap<u64, EnterResult<T>>,
    /// The waiters of which a [`Waiter`] does not say all, by number.
    elsewhere: BTreeMap<u64, Elsewhere>,
    /// The number of the last waiter that joined before the clock of the rates was known.
    before_clock: u64,
    now: Tick,
    /// Whether the order of a class depends on the time.
    adapts: bool,
    /// The number of the last waiter.
    last_number: u64,
    /// Tells a newcomer without the lock whether a waiter can be served.
    contended: Arc<AtomicUsize>,
}

/// The order of classes: the least rank goes first. It has the level, the priority and the held
/// permits per weight in one number, then the virtual start time, and then the number of the oldest
/// waiter.
type Rank = (u128, u128, u64);

/// The bits of the held permits per weight in a rank, below the level and the priority. Memory
/// cannot hold enough permits to exceed them.
const SHARE: u32 = 112;

/// A class in the table.
pub(super) struct ClassState<K> {
    pub(super) entry: Arc<Entry<K>>,
    /// Its waiters by number, the oldest first.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    /// The waiter that goes next, while the class has a rank.
    next: NextWaiter,
    /// The virtual start time of the next grant, without what is missing from the deposit.
    start: u128,
    /// The largest cost of its grants since it was added to the table: it has paid for one such grant
    /// in advance.
    deposit: u64,
}

/// What an entry of the throttle is for. A permit goes to a waiter with the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryRequest {
    pub(super) cost: u64,
    /// The runtime in which the waiter is polled, if the throttle has a state for each. `None` is the
    /// outside of all.
    pub(super) runtime: Option<RuntimeId>,
}

/// A waiter that was not served yet. It has 32 bytes, and few waiters need an [`Elsewhere`] beside it.
pub(super) struct Waiter {
    pub(super) cost: u64,
    /// The tick at which it joined, on the clock of the queue.
    pub(super) since: Tick,
    pub(super) waker: Option<Waker>,
}

/// The number of the waiter of a class that goes next, its cost, and the tick at which it joined on the clock of
/// the queue.
#[derive(Clone, Copy, Default)]
struct NextWaiter {
    number: u64,
    cost: u64,
    since: Tick,
}

/// The runtime of a waiter, and the tick at which it joined on the clock of the rates, if there is a runtime or that
/// tick is another one than the queue's.
#[derive(Clone, Copy)]
pub(super) struct Elsewhere {
    pub(super) runtime: Option<RuntimeId>,
    pub(super) joined: Tick,
}

/// Enters a throttle for a cost.
pub(super) type Enter<T> = fn(&T, u64) -> Waiting<<T as Throttle>::Enter>;

/// The permit or error of a waiter that was served.
pub(super) type EnterResult<T> = Result<<T as Throttle>::Permit, AcquireError>;

/// The index of the class of a waiter, and the number of the waiter.
#[derive(Clone, Copy)]
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
            classes: Vec::new(),
            spare: BTreeMap::new(),
            by_key: HashTable::new(),
            hand: 0,
            waiting: 0,
            virtual_times: Box::new([0; 256]),
            eligible: Tournament::new(),
            promotions: Tournament::new(),
            elsewhere: BTreeMap::new(),
            before_clock: 0,
            last_result: None,
            results: BTreeMap::new(),
            now: Tick::default(),
            adapts: false,
            last_number: 0,
            contended,
        }
    }

    /// Returns whether the choice of the next waiter depends on the time.
    pub(super) fn is_timed(&self) -> bool {
        self.adapts || self.aging.is_some()
    }

    /// Moves the time of the schedule forward, and updates the levels of the classes.
    pub(super) fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
        while let Some((due, index)) = self.promotions.first() {
            if *due > self.now {
                return;
            }
            self.rank(index);
        }
    }

    /// Returns the class of a key.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<&Arc<Entry<K>>> {
        let entry = |index: &usize| &self.classes[*index].entry;
        let is = |index: &usize| entry(index).hash == hash && entry(index).key == *key;
        self.by_key.find(hash, is).map(entry)
    }

    /// Adds a class that is not in the table. Returns the class that was forgotten for it; the
    /// caller drops it after unlocking.
    pub(super) fn add(
        &mut self,
        entry: &Arc<Entry<K>>,
    ) -> Result<Option<Arc<Entry<K>>>, AcquireError> {
        let state = ClassState {
            entry: Arc::clone(entry),
            waiters: BTreeMap::new(),
            next: NextWaiter::default(),
            start: 0,
            deposit: 0,
        };
        let (mut index, mut forgotten) = (self.classes.len(), None);
        if index < self.max_classes {
            self.classes.push(state);
        } else {
            let full = AcquireError::new(ErrorKind::QueueFull);
            index = self.forget().ok_or(full)?;
            forgotten = Some(std::mem::replace(&mut self.classes[index], state).entry);
        }
        let hash = |index: &usize| self.classes[*index].entry.hash;
        self.by_key.insert_unique(entry.hash, index, hash);
        entry.attach(index);
        self.adapts |= entry.class.adaptive_lifo.is_some();
        Ok(forgotten)
    }

    /// Detaches a class that is not in use, and returns its index.
    fn forget(&mut self) -> Option<usize> {
        let mut least: Option<(u128, usize)> = None;
        for _ in 0..LOOKS.min(self.classes.len()) {
            let (index, class) = (self.hand, &self.classes[self.hand]);
            self.hand = (index + 1) % self.classes.len();
            let virtual_time = self.virtual_times[usize::from(class.entry.class.priority)];
            let ahead = class.start.saturating_sub(virtual_time);
            if least.is_some_and(|least| least.0 <= ahead) || !class.entry.try_detach() {
                continue;
            }
            if let Some((_, kept)) = least.replace((ahead, index)) {
                self.classes[kept].entry.attach(kept);
            }
            if ahead == 0 {
                break;
            }
        }
        let (_, index) = least?;
        let hash = self.classes[index].entry.hash;
        let found = self.by_key.find_entry(hash, |other| *other == index);
        found.ok()?.remove();
        Some(index)
    }
}

impl<K> ClassState<K> {
    /// Returns the part of a cost that counts for the shares, and the virtual start time of a grant. It is
    /// later if the class has not paid so much in advance.
    fn start_for(&self, cost: u64, share: &Share) -> (u64, u128) {
        let counted = match share {
            Share::ByConcurrency => 1,
            Share::ByCost => cost,
        };
        let missing = u128::from(counted.saturating_sub(self.deposit)) << FRACTION;
        let missing = per_weight(missing, self.entry.class.weight);
        (counted, self.start.saturating_add(missing))
    }
}

/// Waiters.
impl<T: Throttle, K: Eq> Schedule<T, K> {
    /// Records the clock of the rates behind the throttle. Nobody who waits now has joined after a charge.
    pub(super) fn set_clock_known(&mut self) {
        self.before_clock = self.last_number;
    }

    /// Adds a waiter to a class of the table. If there is no room, the waiter is refused and not
    /// created; if the class serves the newest first, its oldest waiter is refused instead.
    pub(super) fn join(
        &mut self,
        entry: &Entry<K>,
        waiter: impl FnOnce() -> Waiter,
        elsewhere: Option<Elsewhere>,
        wakes: &mut WakeList,
    ) -> Result<WaiterId, AcquireError> {
        let index = entry.index();
        let class = &self.classes[index];
        if class.waiters.len() >= entry.class.max_waiters || self.waiting >= self.max_waiters {
            let full = AcquireError::new(ErrorKind::QueueFull);
            let oldest = class.waiters.first_key_value();
            let Some((&number, _)) = oldest.filter(|_| self.is_lifo(class)) else {
                return Err(full);
            };
            self.set_result(number, Err(full));
            wakes.push(self.remove(WaiterId { index, number }));
        }
        self.last_number += 1;
        self.waiting += 1;
        let number = self.last_number;
        let waiters = &mut self.classes[index].waiters;
        let is_first = waiters.is_empty();
        if is_first {
            std::mem::swap(waiters, &mut self.spare);
            entry.set_notice(true);
        }
        waiters.insert(number, waiter());
        elsewhere.map(|it| self.elsewhere.insert(number, it));
        // The newest may be the one that goes next.
        if is_first || entry.class.adaptive_lifo.is_some() {
            self.rank(index);
        }
        Ok(WaiterId { index, number })
    }

    /// Returns a waiter, unless it was already served.
    pub(super) fn waiter(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        self.classes[id.index].waiters.get_mut(&id.number)
    }

    /// Returns whether a waiter was neither served nor woken.
    pub(super) fn is_parked(&self, id: WaiterId) -> bool {
        let waiter = self.classes[id.index].waiters.get(&id.number);
        waiter.is_some_and(|waiter| waiter.waker.is_some())
    }

    /// Changes the runtime of a waiter. A tick of the other runtime says nothing here, so it counts as joined now.
    pub(super) fn move_to(&mut self, id: WaiterId, runtime: Option<RuntimeId>) {
        let joined = Tick::from_nanos(u64::MAX);
        self.elsewhere
            .insert(id.number, Elsewhere { runtime, joined });
    }

    /// Returns what its [`Waiter`] does not say about a waiter.
    #[inline(always)]
    fn elsewhere(&self, number: u64) -> Option<&Elsewhere> {
        if self.elsewhere.is_empty() {
            return None;
        }
        self.elsewhere.get(&number)
    }

    #[inline(always)]
    fn runtime_of(&self, number: u64) -> Option<RuntimeId> {
        self.elsewhere(number)?.runtime
    }

    /// Returns the tick at which the waiter that goes next joined, on the clock of the rates.
    pub(super) fn joined(&self, next: WaiterId) -> Tick {
        if let Some(elsewhere) = self.elsewhere(next.number) {
            return elsewhere.joined;
        }
        let has_clock = next.number > self.before_clock;
        let since = has_clock.then(|| self.classes[next.index].next.since);
        since.unwrap_or_default()
    }

    /// Takes the waker of the waiter that goes next.
    pub(super) fn take_next_waker(&mut self) -> Option<Waker> {
        let (id, _) = self.next()?;
        self.waiter(id)?.waker.take()
    }

    /// Gives the result of an entry to the waiter that goes next, if the entry may be for that
    /// waiter. Returns a permit that nobody takes; the next poll decides about an error.
    pub(super) fn hand_over(
        &mut self,
        entered: EntryRequest,
        result: EnterResult<T>,
        wakes: &mut WakeList,
    ) -> Option<T::Permit> {
        match self.next() {
            Some((id, next)) if next == entered => {
                if result.is_ok() {
                    self.charge(id.index, entered.cost);
                }
                self.set_result(id.number, result);
                wakes.push(self.remove(id));
                None
            }
            _ => result.ok(),
        }
    }

    /// Takes the permit or error of a waiter, if it was served.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<EnterResult<T>> {
        let last = self.last_result.take_if(|(number, _)| *number == id.number);
        last.map_or_else(
            || self.results.remove(&id.number),
            |(_, result)| Some(result),
        )
    }

    fn set_result(&mut self, number: u64, result: EnterResult<T>) {
        if let Some((number, result)) = self.last_result.replace((number, result)) {
            self.results.insert(number, result);
        }
    }

    /// Removes a waiter that has collected nothing, and returns its waker.
    pub(super) fn remove(&mut self, id: WaiterId) -> Option<Waker> {
        let waiters = &mut self.classes[id.index].waiters;
        let oldest = waiters.first_entry();
        let waiter = match oldest.filter(|oldest| *oldest.key() == id.number) {
            Some(oldest) => oldest.remove(),
            None => waiters.remove(&id.number)?,
        };
        if waiters.is_empty() {
            // A class without waiters has no memory for them; the next class that has one takes it over.
            self.spare = std::mem::take(waiters);
        }
        self.waiting -= 1;
        if !self.elsewhere.is_empty() {
            self.elsewhere.remove(&id.number);
        }
        self.rank(id.index);
        waiter.waker
    }
}

/// The choice.
impl<T: Throttle, K: Eq> Schedule<T, K> {
    /// Returns the waiter that goes next, and what the throttle is entered for.
    #[inline]
    pub(super) fn next(&self) -> Option<(WaiterId, EntryRequest)> {
        let (_, index) = self.eligible.first()?;
        let NextWaiter { number, cost, .. } = self.classes[index].next;
        let runtime = self.runtime_of(number);
        Some((WaiterId { index, number }, EntryRequest { cost, runtime }))
    }

    /// Handles the return of a permit of a class.
    pub(super) fn released(&mut self, entry: &Entry<K>) {
        if entry.is_detached() {
            return;
        }
        let index = entry.index();
        if matches!(self.share, Share::ByConcurrency) {
            let virtual_time = self.virtual_times[usize::from(entry.class.priority)];
            let start = &mut self.classes[index].start;
            *start = virtual_time.max(*start);
        }
        self.rank(index);
    }

    /// Charges a class for a permit that one of its waiters receives.
    fn charge(&mut self, index: usize, cost: u64) {
        let class = &mut self.classes[index];
        class.entry.hold();
        let (cost, start) = class.start_for(cost, &self.share);
        let settings = &class.entry.class;
        let virtual_time = &mut self.virtual_times[usize::from(settings.priority)];
        // With aging a class may be served before its start, which says nothing about the others.
        let served = if self.aging.is_none() {
            start
        } else {
            class.start
        };
        *virtual_time = served.max(*virtual_time);
        class.deposit = class.deposit.max(cost);
        // A weight is below 2^32, so a cost is never free.
        let cost = per_weight(u128::from(cost) << FRACTION, settings.weight);
        class.start = start.saturating_add(cost);
    }

    fn is_lifo(&self, class: &ClassState<K>) -> bool {
        let limit = class.entry.class.adaptive_lifo;
        limit.is_some_and(|limit| {
            let oldest = class.waiters.first_key_value();
            oldest.is_some_and(|(_, oldest)| self.now.saturating_since(oldest.since) > limit)
        })
    }

    /// Computes the rank of a class, and the waiter of it that goes next, from its state, after any
    /// change of that state.
    fn rank(&mut self, index: usize) {
        let class = &self.classes[index];
        let (mut rank, mut promotion) = (None, None);
        if let Some((&number, oldest)) = class.waiters.first_key_value() {
            let newest = self.is_lifo(class).then(|| class.waiters.last_key_value());
            let (&number_of_next, waiter) = newest.flatten().unwrap_or((&number, oldest));
            let next = NextWaiter {
                number: number_of_next,
                cost: waiter.cost,
                since: waiter.since,
            };
            let entry = &class.entry;
            let settings = &entry.class;
            let (level, rises) = level(settings, self.aging, oldest.since, self.now);
            promotion = rises;
            let held = entry.held();
            if held < settings.max_concurrency.into() {
                let share = match self.share {
                    // Two different fractions differ by at least 2^-64.
                    Share::ByConcurrency => per_weight(u128::from(held) << 64, settings.weight),
                    Share::ByCost => 0,
                };
                let levels = u128::from(u16::from_be_bytes([!level, settings.priority])) << SHARE;
                let share = share.min((1 << SHARE) - 1);
                let virtual_time = self.virtual_times[usize::from(settings.priority)];
                let class = &mut self.classes[index];
                class.next = next;
                if !self.eligible.contains(index) {
                    class.start = class.start.max(virtual_time);
                }
                let (_, start) = class.start_for(next.cost, &self.share);
                rank = Some((levels | share, start, number));
            }
        } else {
            class.entry.set_notice(false);
        }
        self.eligible.set(index, rank);
        if self.is_timed() {
            self.promotions.set(index, promotion);
        }
        let contended = usize::from(self.eligible.first().is_some());
        // Relaxed: a newcomer that misses a change meets the throttle's own queue.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }
}

/// Divides by a weight. Most weights are 1, and a division of 128 bits takes longer than a choice.
#[inline]
fn per_weight(amount: u128, weight: u32) -> u128 {
    match weight {
        1 => amount,
        _ => amount / u128::from(weight),
    }
}

/// Returns the level of a class whose oldest waiter joined at `since`, and the tick at which it rises, or the newest waiter
/// goes first.
#[inline]
fn level(class: &Class, aging: Option<Duration>, since: Tick, now: Tick) -> (u8, Option<Tick>) {
    // If the newest is served first, the oldest would raise the level for ever, and not go.
    if let Some(limit) = class.adaptive_lifo {
        let goes = since.saturating_add(limit.saturating_add(Duration::from_nanos(1)));
        return (
            class.priority,
            (goes > now && !goes.is_never()).then_some(goes),
        );
    }
    let Some(period) = aging else {
        return (class.priority, None);
    };
    let waited = now.saturating_since(since);
    let periods = (waited.as_nanos() / period.as_nanos()).min(255) as u8;
    let level = class.priority.saturating_add(periods);
    let rises = since.saturating_add(period.saturating_mul(u32::from(periods) + 1));
    // The highest level does not change any more.
    let rises = (level < u8::MAX && !rises.is_never()).then_some(rises);
    (level, rises)
}
