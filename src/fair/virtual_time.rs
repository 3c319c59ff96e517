//! [`VirtualTimes`]: start-time fair queueing (Goyal, Vin and Cheng, 1996) of the classes of each
//! priority.
//!
//! 1. A class that becomes eligible starts at S = max(V, F). A grant sets F = S + cost / weight,
//!    which is the next S, and V = S. Each priority has its own V, since V says how much its classes
//!    were served, and others are served meanwhile.
//! 2. A refund lowers F and S, but S not below V. A class that becomes eligible after a charge starts
//!    at the V that the charge has moved, so it had no advantage from it, and a refund would put it
//!    back: refunds count only for the last grant of a class, and for those made after any class of
//!    the priority became eligible.
//! 3. By concurrency a class that holds a permit is being served, also while it waits for more and V
//!    moves on. So a permit that returns sets S = max(V, S): a long call earns no credit.

use std::num::NonZeroU64;

use super::class::Class;

/// The bits of a fraction in virtual time.
const FRACTION: u32 = 32;

/// The virtual times of all priorities.
pub(super) struct VirtualTimes {
    granted: u64,
    of: Box<[VirtualTime; 256]>,
}

/// How much the classes of a priority were served.
#[derive(Clone, Copy, Default)]
struct VirtualTime {
    time: u128,
    /// The number of grants before a class last became eligible.
    joined_after: u64,
}

/// The tags of a class.
#[derive(Clone, Copy, Default)]
pub(super) struct Tags {
    pub(super) start: u128,
    finish: u128,
    /// The number of its last grant.
    last: u64,
}

/// What a class was charged for a permit.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) cost: NonZeroU64,
    /// The number of the grant.
    number: u64,
}

impl VirtualTimes {
    pub(super) fn new() -> Self {
        Self {
            granted: 0,
            of: Box::new([VirtualTime::default(); 256]),
        }
    }

    /// Returns how far a class is ahead of its priority.
    pub(super) fn ahead(&self, tags: Tags, class: &Class) -> u128 {
        tags.finish
            .saturating_sub(self.of[usize::from(class.priority)].time)
    }

    /// Sets the start of a class that becomes eligible.
    pub(super) fn start(&mut self, tags: &mut Tags, class: &Class) {
        let virtual_time = &mut self.of[usize::from(class.priority)];
        virtual_time.joined_after = self.granted;
        tags.start = virtual_time.time.max(tags.finish);
    }

    /// Moves the start of a class that was served meanwhile by what it holds, up to its priority.
    pub(super) fn catch_up(&self, tags: &mut Tags, class: &Class) {
        let virtual_time = self.of[usize::from(class.priority)];
        tags.start = tags.start.max(virtual_time.time);
    }

    /// Charges a class for a grant. A cost of 0 is no charge.
    pub(super) fn charge(&mut self, tags: &mut Tags, class: &Class, cost: u64) -> Option<Charge> {
        let virtual_time = &mut self.of[usize::from(class.priority)];
        virtual_time.time = virtual_time.time.max(tags.start);
        tags.finish = tags.start.saturating_add(virtual_cost(cost, class));
        tags.start = tags.finish;
        self.granted += 1;
        tags.last = self.granted;
        let number = self.granted;
        NonZeroU64::new(cost).map(|cost| Charge { cost, number })
    }

    /// Charges a class another cost than it was charged.
    pub(super) fn recharge(&self, tags: &mut Tags, class: &Class, charged: Charge, cost: u64) {
        let virtual_time = self.of[usize::from(class.priority)];
        let charged_before = charged.number <= virtual_time.joined_after;
        if cost < charged.cost.get() && charged_before && charged.number != tags.last {
            return;
        }
        let less = virtual_cost(charged.cost.get(), class);
        let less = tags.finish.saturating_sub(less);
        tags.finish = less.saturating_add(virtual_cost(cost, class));
        // A refund raises no start.
        tags.start = tags.start.min(virtual_time.time).max(tags.finish);
    }
}

/// Returns a cost per weight in virtual time. A weight is below 2^32, so a cost is never free.
fn virtual_cost(cost: u64, class: &Class) -> u128 {
    (u128::from(cost) << FRACTION) / u128::from(class.weight)
}
