//! [`Refunds`]: the refunds of one limit that wait to be sent in the background.
//!
//! 1. One task of the limit sends them, one call after the other, so no refund overtakes an earlier
//!    one. A refund of a debt is exact in the order of the charges.
//! 2. Refunds that wait for the call in flight are sorted by their charges, and share the next calls.
//! 3. The number of refunds that wait is bounded. What is beyond it, and what waits while a call
//!    fails, is not refunded: it is counted as lost, and time pays it off. So nothing is refunded twice,
//!    and the last refund ends within two deadlines of the last charge.

/// The maximum number of refunds in one call.
const MOST_SENT: usize = 1024;

/// The maximum number of refunds that wait.
const MOST_WAITING: usize = 1 << 16;

pub(crate) trait Refund {
    /// The order of the charges.
    type Order: Ord;

    fn order(&self) -> Self::Order;

    /// Returns how many units are to be refunded.
    fn units(&self) -> u64;

    /// Returns whether both can be sent in one call.
    fn joins(&self, other: &Self) -> bool;
}

pub(crate) struct Refunds<T> {
    waiting: Vec<T>,
    is_sending: bool,
    lost: u64,
}

impl<T> Default for Refunds<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            is_sending: false,
            lost: 0,
        }
    }
}

impl<T: Refund> Refunds<T> {
    /// Adds refunds. Returns whether the caller has to start the task that sends them.
    #[must_use]
    pub(crate) fn add(&mut self, refunds: impl IntoIterator<Item = T>) -> bool {
        for refund in refunds {
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push(refund);
            } else {
                self.lose(&[refund]);
            }
        }
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_sending, true)
    }

    /// Takes the refunds of the next call, for the task. If there are none, the task has to end.
    pub(crate) fn next(&mut self) -> Vec<T> {
        self.waiting.sort_by_key(Refund::order);
        let joins = |refund: &&T| refund.joins(&self.waiting[0]);
        let count = self.waiting.iter().take(MOST_SENT).take_while(joins);
        let count = count.count();
        self.is_sending = count > 0;
        self.waiting.drain(..count).collect()
    }

    /// Counts the refunds of a call that failed as lost, and all that waited for it.
    pub(crate) fn fail(&mut self, sent: &[T]) {
        self.lose(sent);
        let waiting = std::mem::take(&mut self.waiting);
        self.lose(&waiting);
    }

    fn lose(&mut self, refunds: &[T]) {
        let units = refunds.iter().map(Refund::units);
        self.lost = units.fold(self.lost, u64::saturating_add);
    }

    /// Returns the number of units that were not refunded, or not for certain.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind, and the position of a charge of one.
    impl Refund for (u8, u64) {
        type Order = u64;

        fn order(&self) -> u64 {
            self.1
        }

        fn units(&self) -> u64 {
            1
        }

        fn joins(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    #[test]
    fn next_of_many_is_in_the_order_of_the_charges() {
        let mut refunds = Refunds::default();
        assert!(!refunds.add([]));
        assert!(refunds.add([(0, 7), (0, 3), (1, 5)]));
        assert!(!refunds.add([(0, 1)]), "the task is there");
        assert_eq!(refunds.next(), [(0, 1), (0, 3)]);
        assert!(!refunds.add([(0, 4)]));
        assert_eq!(refunds.next(), [(0, 4)]);
        assert_eq!(refunds.next(), [(1, 5)]);
        assert_eq!(refunds.next(), [(0, 7)]);
        assert_eq!(refunds.next(), []);
        assert!(
            refunds.add((0..3000).map(|index| (0, index))),
            "it has ended"
        );
        let calls: Vec<_> = std::iter::repeat_with(|| refunds.next().len())
            .take(4)
            .collect();
        assert_eq!(calls, [1024, 1024, 952, 0]);
        assert_eq!(refunds.lost(), 0);
    }

    #[test]
    fn add_beyond_the_bound_and_fail_count_what_is_lost() {
        let mut refunds = Refunds::default();
        assert!(refunds.add((0..MOST_WAITING as u64 + 9).map(|index| (0, index))));
        assert_eq!(refunds.lost(), 9);
        let sent = refunds.next();
        refunds.fail(&sent);
        assert_eq!(refunds.lost(), 9 + MOST_WAITING as u64);
        assert_eq!(refunds.next(), []);
    }
}
