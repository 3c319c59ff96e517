//! [`Tournament`]: a tree of classes by rank, the least rank first. The rank of any class can be
//! changed.
//!
//! The classes are the leaves of a binary tree, and each inner node has the class of the least rank
//! below it. A grant and a release each change one rank, and look again at the nodes above it. A
//! `BTreeSet` has to remove one rank and insert the other; with it, a hand-off among 100 classes
//! takes half as many instructions again.

/// Ranks of type `R` by index of the class.
pub(super) struct Tournament<R> {
    /// Its length is a power of two.
    ranks: Vec<Option<R>>,
    /// The first of the classes below each node. Node 1 is on top, the nodes below `node` are
    /// `2 * node` and `2 * node + 1`, and the leaves are the classes in their order.
    winners: Vec<usize>,
}

impl<R: Ord + Copy> Tournament<R> {
    pub(super) const fn new() -> Self {
        Self {
            ranks: Vec::new(),
            winners: Vec::new(),
        }
    }

    /// Returns the least rank and its class.
    pub(super) fn first(&self) -> Option<(&R, usize)> {
        let winner = *self.winners.get(1)?;
        let rank = self.ranks[winner].as_ref()?;
        Some((rank, winner))
    }

    pub(super) fn contains(&self, class: usize) -> bool {
        self.ranks.get(class).is_some_and(Option::is_some)
    }

    /// Sets the rank of a class; `None` removes it.
    pub(super) fn set(&mut self, class: usize, rank: Option<R>) {
        if class >= self.ranks.len() {
            let count = (class + 1).next_power_of_two();
            self.ranks.resize(count, None);
            let leaves = 0..count;
            self.winners = vec![0; count].into_iter().chain(leaves).collect();
            for node in (1..count).rev() {
                self.winners[node] =
                    self.winner(self.winners[2 * node], self.winners[2 * node + 1]);
            }
        }
        self.ranks[class] = rank;
        let (mut node, mut winner) = (self.ranks.len() + class, class);
        while node > 1 {
            winner = self.winner(winner, self.winners[node ^ 1]);
            node /= 2;
            if self.winners[node] != winner {
                self.winners[node] = winner;
            } else if winner != class {
                break;
            }
        }
    }

    /// Returns the one of two classes that goes first.
    #[inline]
    fn winner(&self, one: usize, other: usize) -> usize {
        match (&self.ranks[one], &self.ranks[other]) {
            (Some(rank), Some(others)) if others < rank => other,
            (None, Some(_)) => other,
            _ => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_least_of_all_after_any_changes(
            changes in prop::collection::vec((0..20_usize, prop::option::of(0..50_u32)), 0..200),
        ) {
            let (mut tournament, mut naive) = (Tournament::new(), [None; 20]);
            for (class, rank) in changes {
                // No two ranks are equal.
                let rank = rank.map(|rank| (rank, class));
                tournament.set(class, rank);
                naive[class] = rank;
                let least = naive.iter().flatten().min().copied();
                prop_assert_eq!(tournament.first(), least.as_ref().map(|rank| (rank, rank.1)));
                prop_assert_eq!(tournament.contains(class), rank.is_some());
            }
        }
    }
}
