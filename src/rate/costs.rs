//! [`CostSums`]: the sum of the costs above any limit, without a walk through the waiters.
//!
//! 1. For each level, the costs are grouped by their digits from that level on; the first level
//!    begins at the lowest digit. Each group has the sum of its costs. So a cost is in one group of
//!    each level at which it has digits.
//! 2. A cost is above a limit if, from the top, the first digit in which it differs is larger.
//!    These costs are at most [`BASE`] groups of each level. So a sum takes a bounded number of
//!    steps, and adding a cost takes a few.
//! 3. The groups are in a tree. Its nodes are allocated and freed when groups come and go; a few
//!    different costs fit into one node, and allocate nothing more. A table would keep its memory,
//!    but it would be copied as a whole when it grows, under the lock of the limiter.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// The bits of a digit.
const BITS: u32 = 12;
const BASE: u64 = 1 << BITS;
const LEVELS: u32 = u64::BITS.div_ceil(BITS);

/// The sum of the costs of each group, by its level and its digits.
#[derive(Default)]
pub(super) struct CostSums(BTreeMap<(u32, u64), u128>);

impl CostSums {
    pub(super) fn add(&mut self, cost: u64) {
        for group in groups(cost) {
            *self.0.entry(group).or_default() += u128::from(cost);
        }
    }

    /// Removes a cost that was added before.
    pub(super) fn remove(&mut self, cost: u64) {
        for group in groups(cost) {
            let left = self.0.get_mut(&group).map(|sum| {
                *sum -= u128::from(cost);
                *sum
            });
            if left == Some(0) {
                self.0.remove(&group);
            }
        }
    }

    /// Returns the sum of all costs above `limit`, which is at least 1.
    pub(super) fn above(&self, limit: u64) -> u128 {
        let levels = (0..LEVELS).map(|level| {
            let digits = limit >> (level * BITS);
            let (own, last) = ((level, digits), (level, digits | (BASE - 1)));
            let larger = self.0.range((Excluded(own), Included(last)));
            larger.map(|(_, sum)| sum).sum::<u128>()
        });
        levels.sum()
    }
}

/// Returns the groups of a cost. A cost of 1, the usual one, needs none: it is above no limit.
fn groups(cost: u64) -> impl Iterator<Item = (u32, u64)> {
    let cost = if cost == 1 { 0 } else { cost };
    let digits = (0..LEVELS).map(move |level| (level, cost >> (level * BITS)));
    digits.take_while(|(_, digits)| *digits > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost() -> impl Strategy<Value = u64> {
        let near = (0..64_u32, 0..3_u64).prop_map(|(shift, less)| (1_u64 << shift) - less.min(1));
        prop_oneof![1..10_u64, 4000..4200_u64, 1..=u64::MAX, near].prop_map(|cost| cost.max(1))
    }

    proptest! {
        #[test]
        fn above_is_the_sum_of_the_larger_costs(
            costs in prop::collection::vec((cost(), any::<bool>()), 0..40),
            limits in prop::collection::vec(cost(), 1..10),
        ) {
            let mut sums = CostSums::default();
            costs.iter().for_each(|(cost, _)| sums.add(*cost));
            let (gone, stay): (Vec<_>, Vec<_>) = costs.into_iter().partition(|(_, leaves)| *leaves);
            gone.iter().for_each(|(cost, _)| sums.remove(*cost));
            let own = stay.iter().map(|(cost, _)| *cost);
            for limit in limits.into_iter().chain(own) {
                let larger = stay.iter().map(|(cost, _)| *cost).filter(|cost| *cost > limit);
                prop_assert_eq!(sums.above(limit), larger.map(u128::from).sum::<u128>());
            }
            stay.iter().for_each(|(cost, _)| sums.remove(*cost));
            prop_assert!(sums.0.is_empty());
        }
    }
}
