//! [`Ranks`]: the order in which classes are served, and in which they lose waiters.
//!
//! 1. A class with waiters has a [`Rank`] in `eligible`, unless it holds its maximum of permits. The
//!    least rank goes next. Ranks change when the oldest waiter, the held permits or the level of a
//!    class change, so a choice takes a logarithm of the number of classes. If the queue is bounded,
//!    `backlogged` has all classes with waiters by level and newest waiter, so that a full queue
//!    finds whom to displace.
//! 2. The level of a class is its priority; first-in first-out, one higher for each period of aging
//!    that its oldest waiter has waited, at most 255. `promotions` has the tick at which each level
//!    changes; as time moves, so do the classes that are due.
//! 3. Ranks compare the priorities before the start times of [`VirtualTimes`], so starts of two
//!    priorities are never compared.

use std::cmp::Reverse;
use std::time::Duration;

use super::class::{Class, Order, Share};
use super::heap::Heap;
use super::table::ClassState;
use super::virtual_time::VirtualTimes;
use crate::time::Tick;

/// The bits of a rank that are below the level and the priority.
const SHARE: u32 = u128::BITS - u16::BITS;

/// The settings of a queue.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) share: Share,
    pub(super) max_classes: usize,
    pub(super) max_waiters: usize,
    pub(super) aging: Option<Duration>,
}

pub(super) struct Ranks {
    pub(super) rules: Rules,
    pub(super) eligible: Heap<Rank>,
    /// The lowest level first, and in it the class of the newest waiter.
    pub(super) backlogged: Heap<(u8, Reverse<u64>)>,
    pub(super) promotions: Heap<Tick>,
    pub(super) virtual_times: VirtualTimes,
}

/// The order of classes: the least one goes first. It is the level, highest first, the priority,
/// lowest first, and the held permits per weight or the virtual start time, in one number; the
/// virtual start time; and the number of the oldest waiter.
type Rank = (u128, u128, u64);

impl Ranks {
    pub(super) fn new() -> Self {
        Self {
            rules: Rules {
                share: Share::ByConcurrency,
                max_classes: 10_000,
                max_waiters: usize::MAX,
                aging: None,
            },
            eligible: Heap::new(),
            backlogged: Heap::new(),
            promotions: Heap::new(),
            virtual_times: VirtualTimes::new(),
        }
    }

    /// Returns whether a waiter of one class can displace a waiter of another.
    pub(super) fn is_bounded(&self) -> bool {
        self.rules.max_waiters != usize::MAX
    }

    /// Computes the ranks of a class with these numbers and ticks of its oldest and newest waiter.
    pub(super) fn update<K>(
        &mut self,
        index: usize,
        class: &mut ClassState<K>,
        ends: [Option<(u64, Tick)>; 2],
        now: Tick,
    ) {
        let settings = &class.entry.class;
        let [Some((oldest, since)), Some((newest, _))] = ends else {
            class.entry.set_notice(false);
            self.eligible.set(index, None);
            self.backlogged.set(index, None);
            self.promotions.set(index, None);
            return;
        };
        let waited = now.saturating_since(since);
        let (level, next) = level(settings, self.rules.aging, waited);
        let held = class.entry.held();
        let is_eligible = held < settings.max_concurrency.into();
        if is_eligible && !self.eligible.contains(index) {
            self.virtual_times.start(&mut class.tags, settings);
        }
        let share = match self.rules.share {
            // Two different fractions differ by at least 2^-64.
            Share::ByConcurrency => (u128::from(held) << 64) / u128::from(settings.weight),
            Share::ByCost => class.tags.start,
        };
        let levels = u128::from(u16::from_be_bytes([!level, settings.priority]));
        let rank = levels << SHARE | share.min(u128::MAX >> (u128::BITS - SHARE));
        let rank = is_eligible.then_some((rank, class.tags.start, oldest));
        let backlog = self.is_bounded().then_some((level, Reverse(newest)));
        let promotion = next.map(|next| since.saturating_add(next));
        self.eligible.set(index, rank);
        self.backlogged.set(index, backlog);
        self.promotions
            .set(index, promotion.filter(|due| !due.is_never()));
    }
}

/// Returns the level of a class whose oldest waiter has waited for so long, and how long that waiter
/// has to wait for the next level.
#[inline]
fn level(class: &Class, aging: Option<Duration>, waited: Duration) -> (u8, Option<Duration>) {
    // Newest first, the oldest would raise the level for ever, and not go.
    let Some(period) = aging.filter(|_| class.order == Order::Fifo) else {
        return (class.priority, None);
    };
    let periods = (waited.as_nanos() / period.as_nanos().max(1)).min(255) as u8;
    let level = class.priority.saturating_add(periods);
    // The highest level does not change any more.
    let next = (level < u8::MAX).then(|| period.saturating_mul(u32::from(periods) + 1));
    (level, next)
}
