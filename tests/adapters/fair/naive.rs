//! A fair queue in front of a semaphore, written in the most obvious way: one list of waiters,
//! which is searched for each grant.

use std::cmp::Reverse;
use std::time::Duration;

use tollgate::ErrorKind;
use tollgate::fair::Share;

/// The settings of a class, and its state.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) priority: u8,
    pub(crate) weight: u64,
    pub(crate) most: u64,
    pub(crate) max_waiters: usize,
    pub(crate) adaptive_lifo: Option<Duration>,
    pub(crate) held: u64,
    pub(crate) start: u64,
    pub(crate) finish: u64,
    pub(crate) was_eligible: bool,
    /// The largest cost so far, which it has paid once in advance.
    pub(crate) deposit: u64,
}

/// The scale of costs per weight, for whole numbers.
const SCALE: u64 = 1 << 32;

/// The default class has no bound.
impl Default for Class {
    fn default() -> Self {
        Self {
            priority: 0,
            weight: 1,
            most: u32::MAX.into(),
            max_waiters: usize::MAX,
            adaptive_lifo: None,
            held: 0,
            start: 0,
            finish: 0,
            was_eligible: false,
            deposit: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) id: usize,
    class: usize,
    number: u64,
    since: Duration,
    cost: u64,
}

/// The outcome of a caller: its cost, or the reason of its refusal.
pub(crate) type Outcome = Result<u64, ErrorKind>;

pub(crate) struct Model {
    pub(crate) share: Share,
    pub(crate) aging: Option<Duration>,
    pub(crate) max_waiters: usize,
    pub(crate) classes: Vec<Class>,
    pub(crate) waiting: Vec<Waiter>,
    pub(crate) limit: u64,
    /// Negative while more are held than the limit allows.
    pub(crate) free: i64,
    pub(crate) closed: bool,
    pub(crate) now: Duration,
    /// The virtual time of each priority.
    pub(crate) virtual_times: [u64; 256],
    pub(crate) joined: u64,
    /// Grants that callers have not collected.
    pub(crate) served: Vec<(usize, Outcome)>,
}

impl Model {
    /// Creates a queue without bounds.
    pub(crate) fn new(share: Share, classes: Vec<Class>, limit: u64) -> Self {
        Self {
            share,
            aging: None,
            max_waiters: usize::MAX,
            classes,
            waiting: Vec::new(),
            limit,
            free: limit.cast_signed(),
            closed: false,
            now: Duration::ZERO,
            virtual_times: [0; 256],
            joined: 0,
            served: Vec::new(),
        }
    }

    fn of(&self, class: usize) -> Vec<Waiter> {
        let waiting = self.waiting.iter().copied();
        waiting.filter(|waiter| waiter.class == class).collect()
    }

    pub(crate) fn waiting_in(&self, class: usize) -> usize {
        self.of(class).len()
    }

    fn level(&self, class: usize) -> u8 {
        if self.classes[class].adaptive_lifo.is_some() {
            return self.classes[class].priority;
        }
        let oldest = self
            .of(class)
            .first()
            .map_or(self.now, |waiter| waiter.since);
        let periods = self
            .aging
            .map_or(0, |aging| (self.now - oldest).as_nanos() / aging.as_nanos());
        let level = u128::from(self.classes[class].priority) + periods;
        u8::try_from(level.min(255)).unwrap()
    }

    /// Computes the consequences of a change.
    pub(crate) fn update(&mut self) {
        for index in 0..self.classes.len() {
            let waits = self.waiting_in(index) > 0;
            let class = &mut self.classes[index];
            let is_eligible = waits && class.held < class.most;
            if is_eligible && !class.was_eligible {
                let virtual_time = self.virtual_times[usize::from(class.priority)];
                class.start = virtual_time.max(class.finish);
            }
            class.was_eligible = is_eligible;
        }
    }

    fn eligible(&self) -> Vec<usize> {
        let all = 0..self.classes.len();
        all.filter(|class| self.classes[*class].was_eligible)
            .collect()
    }

    fn is_lifo(&self, class: usize) -> bool {
        let oldest = self.of(class).first().copied();
        let limit = self.classes[class].adaptive_lifo;
        limit
            .zip(oldest)
            .is_some_and(|(limit, oldest)| self.now - oldest.since > limit)
    }

    /// Returns the waiter of a class that goes next.
    fn next_of(&self, class: usize) -> Option<Waiter> {
        let of_class = self.of(class);
        if self.is_lifo(class) {
            of_class.last().copied()
        } else {
            of_class.first().copied()
        }
    }

    /// Returns the cost of a waiter that counts.
    fn counted(&self, waiter: Waiter) -> u64 {
        match self.share {
            Share::ByConcurrency => 1,
            _ => waiter.cost,
        }
    }

    /// Returns the virtual time at which a class is served. It first raises its deposit.
    fn start(&self, class: usize) -> u64 {
        let cost = self.next_of(class).map_or(0, |next| self.counted(next));
        let class = &self.classes[class];
        class.start + cost.saturating_sub(class.deposit) * SCALE / class.weight
    }

    fn choose(&mut self) -> Option<Waiter> {
        self.update();
        let best = self.eligible().into_iter().min_by(|a, b| {
            let level = |class: usize| Reverse(self.level(class));
            let (of_a, of_b) = (&self.classes[*a], &self.classes[*b]);
            let share = match self.share {
                // a/b is less than c/d if a*d is less than c*b.
                Share::ByConcurrency => (of_a.held * of_b.weight).cmp(&(of_b.held * of_a.weight)),
                _ => self.start(*a).cmp(&self.start(*b)),
            };
            let oldest = |class: usize| self.of(class)[0].number;
            let by_level = level(*a).cmp(&level(*b));
            let by_level = by_level.then(of_a.priority.cmp(&of_b.priority));
            let by_start = self.start(*a).cmp(&self.start(*b));
            by_level
                .then(share)
                .then(by_start)
                .then(oldest(*a).cmp(&oldest(*b)))
        })?;
        self.next_of(best)
    }

    fn remove(&mut self, id: usize) -> Option<Waiter> {
        let index = self.waiting.iter().position(|waiter| waiter.id == id)?;
        Some(self.waiting.remove(index))
    }

    fn grant(&mut self, waiter: Waiter) {
        self.remove(waiter.id);
        let cost = self.counted(waiter);
        let class = &mut self.classes[waiter.class];
        class.held += 1;
        let mut served = class.start;
        class.start += cost.saturating_sub(class.deposit) * SCALE / class.weight;
        class.deposit = class.deposit.max(cost);
        if self.aging.is_none() {
            served = class.start;
        }
        let virtual_time = &mut self.virtual_times[usize::from(class.priority)];
        *virtual_time = served.max(*virtual_time);
        class.finish = class.start + cost * SCALE / class.weight;
        class.start = class.finish;
        self.served.push((waiter.id, Ok(waiter.cost)));
    }

    /// Grants all possible grants.
    pub(crate) fn settle(&mut self) {
        while let Some(next) = self.choose() {
            if self.closed {
                self.refuse(next.id, ErrorKind::Closed);
            } else if self.limit > 0 && next.cost > self.limit {
                self.refuse(next.id, ErrorKind::ExceedsCapacity);
            } else if next.cost.cast_signed() > self.free {
                break;
            } else {
                self.free -= next.cost.cast_signed();
                self.grant(next);
            }
        }
        self.update();
    }

    fn refuse(&mut self, id: usize, kind: ErrorKind) {
        self.remove(id);
        self.served.push((id, Err(kind)));
    }

    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.free += limit.cast_signed() - self.limit.cast_signed();
        self.limit = limit;
        self.settle();
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.settle();
    }

    /// Returns whether an entrant of the queue waits at the semaphore.
    pub(crate) fn stands_in_line(&self) -> bool {
        !self.eligible().is_empty()
    }

    /// Returns when the oldest waiter of a class joined.
    pub(crate) fn oldest(&self, class: usize) -> Option<Duration> {
        self.of(class).first().map(|waiter| waiter.since)
    }

    /// Takes permits if no wait is needed.
    pub(crate) fn try_enter(&mut self, index: usize, cost: u64) -> bool {
        self.update();
        let waits = self.waiting_in(index) > 0;
        let class = &self.classes[index];
        let room = class.held < class.most && cost.cast_signed() <= self.free;
        let can = room && !waits && !self.closed && self.eligible().is_empty();
        if can {
            self.free -= cost.cast_signed();
            self.classes[index].held += 1;
        }
        can
    }

    /// Enters, or joins the queue.
    pub(crate) fn enter(&mut self, id: usize, class: usize, cost: u64) {
        if self.try_enter(class, cost) {
            return self.served.push((id, Ok(cost)));
        }
        let of_class = self.of(class);
        let oldest = of_class.first().filter(|_| self.is_lifo(class));
        let most = self.classes[class].max_waiters;
        if of_class.len() >= most || self.waiting.len() >= self.max_waiters {
            self.refuse(oldest.map_or(id, |oldest| oldest.id), ErrorKind::QueueFull);
            if oldest.is_none() {
                return;
            }
        }
        self.joined += 1;
        let waiter = Waiter {
            id,
            class,
            number: self.joined,
            since: self.now,
            cost,
        };
        self.update();
        self.waiting.push(waiter);
        self.settle();
    }

    /// Returns the grant of a caller.
    pub(crate) fn collect(&mut self, id: usize) -> Option<Outcome> {
        let index = self.served.iter().position(|(served, _)| *served == id)?;
        Some(self.served.remove(index).1)
    }

    /// Removes a waiter, and passes its grant on.
    pub(crate) fn leave(&mut self, id: usize, class: usize) {
        match self.collect(id) {
            None => drop(self.remove(id)),
            Some(Err(_)) => {}
            Some(Ok(cost)) => {
                self.returned(class);
                match self.choose() {
                    Some(next) if next.cost == cost => self.grant(next),
                    _ => self.free += cost.cast_signed(),
                }
            }
        }
        self.settle();
    }

    /// Counts one less for a class. While the class held it, it was served.
    fn returned(&mut self, class: usize) {
        let class = &mut self.classes[class];
        class.held -= 1;
        if self.share == Share::ByConcurrency {
            let virtual_time = self.virtual_times[usize::from(class.priority)];
            class.start = class.start.max(virtual_time);
        }
    }

    /// Returns a permit.
    pub(crate) fn release(&mut self, class: usize, cost: u64) {
        self.update();
        self.returned(class);
        self.settle();
        self.free += cost.cast_signed();
        self.settle();
    }
}
