//! [`Refunds`]: the refunds of one limit that wait to be sent in the background.
//!
//! 1. One task of the limit sends them, one call after the other, so no refund overtakes an earlier
//!    one. A refund of a debt is exact in the order of the charges.
//! 2. Refunds that wait for the call in flight are sorted by their charges, and share the next calls.
//!    The server does nothing else during a call, so the work of one is bounded.
//! 3. The number of refunds that wait is bounded. Refunds beyond the bound, and those that a call fails to
//!    make, are counted as lost, and time pays the charges off. So no charge is refunded twice.
//! 4. If the store fails, or the task ends for any reason, all waiting refunds are lost. So the task waits
//!    for at most one deadline in vain. But a slow store is not a failure: a full queue takes 64 calls for
//!    each limit of a set, and more calls for logs, and each call may take up to its deadline.

use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::sync::{Mutex, lock};

/// The maximum work of one call, unless a single refund is more.
const MOST_WORK: u64 = 1024;

/// The maximum number of refunds that wait.
const MOST_WAITING: usize = 1 << 16;

pub(crate) trait Refund: Send + Sync + 'static {
    /// The order of the charges.
    type Order: Ord + Send;

    fn order(&self) -> Self::Order;

    /// Returns the number of limits that were charged.
    fn limits(&self) -> usize {
        1
    }

    /// Returns the arguments of the script about the limit with this index: the units, and the ticket.
    fn arguments(&self, index: usize) -> [u64; 4];

    /// Returns the number of units to refund.
    fn units(&self) -> u64;

    /// Returns the work of this refund for the server, which is 1 for a debt.
    fn work(&self) -> u64;
}

pub(crate) struct Refunds<T: Refund>(Mutex<State<T>>);

struct State<T: Refund> {
    /// Refunds with the same order are distinguished by a number.
    waiting: BTreeMap<(T::Order, u64), T>,
    number: u64,
    is_sending: bool,
    lost: u64,
}

impl<T: Refund> Default for Refunds<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            waiting: BTreeMap::new(),
            number: 0,
            is_sending: false,
            lost: 0,
        }))
    }
}

impl<T: Refund> Refunds<T> {
    /// Adds refunds. Returns whether the caller has to start a task that [sends](Self::send) them.
    #[must_use]
    pub(crate) fn add(&self, refunds: impl IntoIterator<Item = T>) -> bool {
        let state = &mut *lock(&self.0);
        for refund in refunds {
            if state.waiting.len() < MOST_WAITING {
                let key = (refund.order(), state.number);
                state.waiting.insert(key, refund);
                state.number += 1;
            } else {
                state.lose(refund.units());
            }
        }
        !state.waiting.is_empty() && !std::mem::replace(&mut state.is_sending, true)
    }

    /// Sends the refunds that wait, in their order, until there are none.
    pub(crate) async fn send<F>(&self, give: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        let mut sending = Sending {
            refunds: self,
            units: Some(0),
        };
        loop {
            let sent = self.next();
            if sent.is_empty() {
                sending.units = None;
                return;
            }
            let units = sum(&sent);
            sending.units = Some(units);
            match give(sent).await {
                Ok(()) => {}
                // The script failed, perhaps because of one of these refunds.
                Err(error) if error.is_mistake() => self.lose(units),
                Err(_) => return,
            }
        }
    }

    /// Takes the refunds of the next call. If there are none, the task has ended.
    fn next(&self) -> Vec<T> {
        let state = &mut *lock(&self.0);
        let (mut sent, mut work) = (Vec::new(), 0_u64);
        while let Some(first) = state.waiting.first_entry() {
            work = work.saturating_add(first.get().work());
            if work > MOST_WORK && !sent.is_empty() {
                break;
            }
            sent.push(first.remove());
        }
        state.is_sending = !sent.is_empty();
        sent
    }

    /// Counts units that cannot be refunded.
    pub(crate) fn lose(&self, units: u64) {
        lock(&self.0).lose(units);
    }

    /// Returns the number of units that were not refunded, or not for certain.
    pub(crate) fn lost(&self) -> u64 {
        lock(&self.0).lost
    }
}

impl<T: Refund> State<T> {
    fn lose(&mut self, units: u64) {
        self.lost = self.lost.saturating_add(units);
    }
}

fn sum<'a, T: Refund + 'a>(refunds: impl IntoIterator<Item = &'a T>) -> u64 {
    let units = refunds.into_iter().map(Refund::units);
    units.fold(0, u64::saturating_add)
}

/// Counts the refunds of the call in flight and all waiting refunds as lost when the task ends early: the
/// store failed, the call panicked, or the runtime is gone. Later refunds start another task.
struct Sending<'a, T: Refund> {
    refunds: &'a Refunds<T>,
    /// The units of the call in flight; `None` if the task has ended.
    units: Option<u64>,
}

impl<T: Refund> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        let Some(units) = self.units else { return };
        let state = &mut *lock(&self.refunds.0);
        let waiting = std::mem::take(&mut state.waiting);
        state.lose(units.saturating_add(sum(waiting.values())));
        state.is_sending = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of a charge, and the work to refund it.
    impl Refund for (u64, u64) {
        type Order = u64;

        fn order(&self) -> u64 {
            self.0
        }

        fn arguments(&self, _index: usize) -> [u64; 4] {
            [1, self.0, 0, 0]
        }

        fn units(&self) -> u64 {
            1
        }

        fn work(&self) -> u64 {
            self.1
        }
    }

    fn run(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future);
    }

    /// Sends the waiting refunds. Returns the calls that were made; the first one ends with this result.
    fn sent(refunds: &Refunds<(u64, u64)>, first: Result<(), StoreError>) -> Vec<Vec<(u64, u64)>> {
        let calls = Mutex::new(Vec::new());
        run(refunds.send(async |call| {
            let mut calls = lock(&calls);
            calls.push(call);
            if calls.len() == 1 { first } else { Ok(()) }
        }));
        calls.into_inner().unwrap()
    }

    #[test]
    fn send_of_many_is_in_the_order_of_the_charges() {
        let refunds = Refunds::default();
        assert!(!refunds.add([]));
        assert!(refunds.add([(7, 1), (3, 1), (5, 1), (3, 1)]));
        assert!(!refunds.add([(1, 1)]), "the task is there");
        let calls = sent(&refunds, Ok(()));
        assert_eq!(calls, [[(1, 1), (3, 1), (3, 1), (5, 1), (7, 1)]]);
        assert!(refunds.add([(4, 1)]), "it has ended");
        assert_eq!(sent(&refunds, Ok(())), [[(4, 1)]]);
        assert_eq!(refunds.lost(), 0);
    }

    #[test]
    fn send_of_much_work_makes_several_calls() {
        for (work, expected) in [(1, 1024), (10, 102), (1024, 1), (5000, 1)] {
            let refunds = Refunds::default();
            assert!(refunds.add((0..1500).map(|index| (index, work))));
            let calls = sent(&refunds, Ok(()));
            assert_eq!(calls.iter().map(Vec::len).max(), Some(expected));
            assert_eq!(calls.concat().len(), 1500);
        }
    }

    #[test]
    fn add_beyond_the_bound_counts_what_is_lost() {
        let refunds = Refunds::default();
        let most = MOST_WAITING as u64;
        assert!(refunds.add((0..most + 9).map(|index| (index, 1))));
        assert_eq!(refunds.lost(), 9);
        assert_eq!(sent(&refunds, Ok(())).len(), 64);
        assert_eq!(refunds.lost(), 9);
    }

    #[test]
    fn send_with_a_failure_of_the_store_loses_all_that_waits() {
        for error in [
            StoreError::Timeout,
            StoreError::BreakerOpen,
            StoreError::Forbidden,
        ] {
            let refunds = Refunds::default();
            assert!(refunds.add((0..3000).map(|index| (index, 1))));
            assert_eq!(sent(&refunds, Err(error)).len(), 1);
            assert_eq!(refunds.lost(), 3000);
            assert!(refunds.add([(0, 1)]), "it has ended");
        }
    }

    #[test]
    fn send_with_a_failure_of_the_script_loses_only_what_was_sent() {
        for error in [StoreError::WrongType, StoreError::Script] {
            let refunds = Refunds::default();
            assert!(refunds.add((0..3000).map(|index| (index, 1))));
            assert_eq!(sent(&refunds, Err(error)).len(), 3);
            assert_eq!(refunds.lost(), 1024);
        }
    }

    #[test]
    fn send_that_panics_loses_all_that_waits_and_later_refunds_are_sent() {
        let refunds = std::sync::Arc::new(Refunds::default());
        assert!(refunds.add((0..3000).map(|index| (index, 1))));
        let this = std::sync::Arc::clone(&refunds);
        run(async move {
            let task = async move { this.send(async |_| panic!("a mistake of the client")).await };
            assert!(tokio::spawn(task).await.unwrap_err().is_panic());
        });
        assert_eq!(refunds.lost(), 3000);
        assert!(refunds.add([(1, 1)]));
        assert_eq!(sent(&refunds, Ok(())), [[(1, 1)]]);
        assert_eq!(refunds.lost(), 3000);
    }
}
