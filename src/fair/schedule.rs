//! [`Schedule`]: the classes and their waiters, and who goes next. It knows neither the throttle nor
//! wakers' tasks, and everything in it happens under the lock of the queue.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::class::{Order, Share};
use super::entry::Entry;
use super::ranks::Ranks;
use super::table::{Attached, ClassState, Table};
use super::virtual_time::Charge;
use super::waiters::{Request, Waiter, WaiterId, Waiters};
use crate::error::{AcquireError, ErrorKind};
use crate::time::Tick;
use crate::wait_queue::WakeList;

/// What a waiter was given.
pub(super) enum Served<P> {
    Admitted(P, Option<Charge>),
    Refused(AcquireError),
    /// The throttle panicked with this when it was polled.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// The classes and their waiters.
pub(super) struct Schedule<K, E, P> {
    pub(super) ranks: Ranks,
    table: Table<K>,
    waiters: Waiters<E, Served<P>>,
    now: Tick,
    served: u64,
}

/// The waiter that goes next.
#[derive(Clone, Copy)]
pub(super) struct Chosen<E> {
    pub(super) id: WaiterId,
    class: usize,
    pub(super) request: Request<E>,
}

impl<K: Eq, E: Copy, P> Schedule<K, E, P> {
    pub(super) fn new() -> Self {
        Self {
            ranks: Ranks::new(),
            table: Table::new(),
            waiters: Waiters::new(),
            now: Tick::default(),
            served: 0,
        }
    }

    /// Moves the time of the schedule forward, and the classes to the levels that they have then.
    pub(super) fn set_now(&mut self, now: Tick) {
        self.now = self.now.max(now);
        while let Some((due, index)) = self.ranks.promotions.first() {
            if due > self.now {
                return;
            }
            self.reindex(index);
        }
    }

    /// Returns whether a waiter can be served.
    pub(super) fn is_contended(&self) -> bool {
        self.ranks.eligible.first().is_some()
    }

    /// Returns the number of waiters.
    pub(super) fn waiting(&self) -> usize {
        self.waiters.waiting()
    }

    /// Returns the number of waiters that were given something.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Returns whether a class was ever used: from then on the table is never empty.
    pub(super) fn has_classes(&self) -> bool {
        !self.table.classes.is_empty()
    }

    /// Returns the class of a key, if it is in the table.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<&Arc<Entry<K>>> {
        self.table.find(hash, key)
    }

    /// Adds an entry to the table, unless it or another one with its key is there.
    pub(super) fn attach(&mut self, entry: &Arc<Entry<K>>) -> Result<Attached<K>, AcquireError> {
        let virtual_times = &self.ranks.virtual_times;
        let ahead = |class: &ClassState<K>| virtual_times.ahead(class.tags, &class.entry.class);
        self.table
            .attach(entry, self.ranks.rules.max_classes, ahead)
    }

    /// Returns the classes in use, and for each the held permits, the number of its waiters, and how
    /// long the oldest one has waited.
    pub(super) fn in_use(
        &self,
    ) -> impl Iterator<Item = (Arc<Entry<K>>, u64, usize, Option<Duration>)> {
        let classes = self.table.classes.iter().map(|class| {
            let oldest = self.oldest(class);
            let oldest = oldest.map(|waiter| self.now.saturating_since(waiter.since));
            let entry = Arc::clone(&class.entry);
            (entry, class.entry.held(), class.list.len(), oldest)
        });
        classes.filter(|(_, held, waiting, _)| *held > 0 || *waiting > 0)
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
        if self.is_full_for(index) {
            let displaced = self.displaced_for(index).ok_or(full.clone())?;
            self.serve(displaced, Served::Refused(full), wakes);
        }
        let class = &mut self.table.classes[index];
        let list = &mut class.list;
        let id = self.waiters.push(list, index, request, self.now);
        let is_first = class.list.len() == 1;
        if is_first {
            class.entry.set_notice(true);
        }
        if is_first || self.ranks.is_bounded() {
            self.reindex(index);
        }
        Ok(id)
    }

    fn is_full_for(&self, index: usize) -> bool {
        let class = &self.table.classes[index];
        class.list.len() >= class.entry.class.max_waiters
            || self.waiting() >= self.ranks.rules.max_waiters
            || self.waiters.is_full()
    }

    /// Returns the waiter that a newcomer to a class displaces, if there is one.
    fn displaced_for(&self, index: usize) -> Option<WaiterId> {
        let class = &self.table.classes[index];
        let settings = &class.entry.class;
        let lowest = self.ranks.backlogged.first();
        let lower = lowest.filter(|((level, _), _)| *level < settings.priority);
        match lower {
            Some((_, lowest)) if class.list.len() < settings.max_waiters => {
                self.table.classes[lowest].list.newest()
            }
            _ => class.list.oldest().filter(|_| self.is_lifo(class)),
        }
    }

    /// Removes a waiter that was not served, and returns its waker.
    pub(super) fn leave(&mut self, id: WaiterId) -> Option<Waker> {
        let index = self.waiters.get(id)?.class;
        let list = &mut self.table.classes[index].list;
        let was_oldest = list.oldest() == Some(id);
        let waiter = self.waiters.leave(list, id)?;
        if was_oldest || self.ranks.is_bounded() {
            self.reindex(index);
        }
        waiter.waker
    }

    /// Takes what a waiter was given, if it was served.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<Served<P>> {
        self.waiters.collect(id)
    }

    /// Returns what a waiter asks for, unless it was served.
    pub(super) fn request(&self, id: WaiterId) -> Option<Request<E>> {
        self.waiters.get(id).map(|waiter| waiter.request)
    }

    /// Returns where the waker of a waiter is stored, unless it was served.
    pub(super) fn waker(&mut self, id: WaiterId) -> Option<&mut Option<Waker>> {
        self.waiters.get_mut(id).map(|waiter| &mut waiter.waker)
    }

    /// Takes the waker of the waiter that would go next, without refusing anybody.
    pub(super) fn take_next_waker(&mut self) -> Option<Waker> {
        let id = self.first()?;
        self.waker(id)?.take()
    }

    /// Gives something to a waiter.
    pub(super) fn serve(&mut self, id: WaiterId, given: Served<P>, wakes: &mut WakeList) {
        let Some(index) = self.waiters.get(id).map(|waiter| waiter.class) else {
            return;
        };
        let list = &mut self.table.classes[index].list;
        if let Some(waiter) = self.waiters.serve(list, id, given) {
            wakes.push(waiter.waker);
            self.served += 1;
        }
        self.reindex(index);
    }

    /// Gives a permit to the chosen waiter, and charges its class.
    pub(super) fn grant(&mut self, chosen: Chosen<E>, permit: P, wakes: &mut WakeList) {
        let class = &mut self.table.classes[chosen.class];
        class.entry.hold();
        let settings = &class.entry.class;
        let cost = match self.ranks.rules.share {
            Share::ByConcurrency => 1,
            Share::ByCost => chosen.request.cost,
        };
        let charge = self
            .ranks
            .virtual_times
            .charge(&mut class.tags, settings, cost);
        let charge = charge.filter(|_| self.ranks.rules.share == Share::ByCost);
        self.serve(chosen.id, Served::Admitted(permit, charge), wakes);
    }

    /// Charges a class another cost than it was charged.
    pub(super) fn recharge(&mut self, entry: &Entry<K>, charged: Charge, cost: u64) {
        if let Some(index) = entry.index() {
            let tags = &mut self.table.classes[index].tags;
            self.ranks
                .virtual_times
                .recharge(tags, &entry.class, charged, cost);
            self.reindex(index);
        }
    }

    /// Handles a change of the held permits of a class.
    pub(super) fn released(&mut self, entry: &Entry<K>) {
        if let Some(index) = entry.index() {
            if self.ranks.rules.share == Share::ByConcurrency {
                let tags = &mut self.table.classes[index].tags;
                self.ranks.virtual_times.catch_up(tags, &entry.class);
            }
            self.reindex(index);
        }
    }

    /// Refuses a waiter of any class. Returns whether there was one.
    pub(super) fn refuse_any(&mut self, error: &AcquireError, wakes: &mut WakeList) -> bool {
        if self.waiting() == 0 {
            return false;
        }
        let id = self.table.any_waiter();
        if let Some(id) = id {
            self.serve(id, Served::Refused(error.clone()), wakes);
        }
        id.is_some()
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
            let (class, request) = (waiter.class, waiter.request);
            let limit = self.table.classes[class].entry.class.max_queue_time;
            let waited = self.now.saturating_since(waiter.since);
            if limit.is_none_or(|limit| waited < limit) {
                return Some(Chosen { id, class, request });
            }
            let late = AcquireError::new(ErrorKind::TimedOut);
            self.serve(id, Served::Refused(late), wakes);
        }
        None
    }

    /// Returns the cost of the waiter that would go next, without refusing anybody.
    pub(super) fn next_cost(&self) -> Option<u64> {
        let waiter = self.waiters.get(self.first()?)?;
        Some(waiter.request.cost)
    }

    fn first(&self) -> Option<WaiterId> {
        let (_, index) = self.ranks.eligible.first()?;
        let class = &self.table.classes[index];
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
                let oldest = self.oldest(class);
                oldest.is_some_and(|oldest| self.now.saturating_since(oldest.since) > limit)
            }
        }
    }

    fn oldest(&self, class: &ClassState<K>) -> Option<&Waiter<E>> {
        class.list.oldest().and_then(|id| self.waiters.get(id))
    }

    /// Computes the ranks of a class from its state, after any change of it.
    fn reindex(&mut self, index: usize) {
        let class = &mut self.table.classes[index];
        let ends = [class.list.oldest(), class.list.newest()];
        let ends = ends.map(|id| {
            self.waiters
                .get(id?)
                .map(|waiter| (waiter.number, waiter.since))
        });
        self.ranks.update(index, class, ends, self.now);
    }
}
