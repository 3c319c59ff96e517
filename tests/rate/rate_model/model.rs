//! What a model knows of a limiter for which nobody waits.

use tollgate::{Algorithm, Quota, QuotaChange};

use super::amounts::Scale;
use super::kept::Kept;
use super::owed::Owed;

/// A charge, as far as a model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booked {
    /// Under which of the quotas it was made.
    pub(crate) epoch: usize,
    /// Which of the charges it is.
    pub(crate) number: usize,
    pub(crate) at: u64,
    /// As much of it as there was time for.
    pub(crate) cost: u64,
    /// What could be had just after it, and when nothing was owed then.
    pub(crate) left: u64,
    pub(crate) reset: Option<u64>,
}

/// The time to come again that a call behind a queue is given, if it would be admitted at some tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// That tick.
    Exact,
    /// That tick or an earlier one, though none before the head of the queue is due.
    Early,
}

/// What is owed by some algorithm under one quota after the other, and what may go when.
///
/// A tick of `None` never comes. More than what goes at once goes when nothing is owed.
pub(crate) trait Model {
    fn algorithm(&self) -> Algorithm;

    fn scale(&self) -> Scale;

    /// How many quotas there were before this one.
    fn epoch(&self) -> usize;

    /// What could be had at a tick.
    fn available(&self, now: u64) -> u64;

    /// The first tick from `now` on at which nothing is owed.
    fn reset(&self, now: u64) -> Option<u64>;

    /// The first tick from `now` on at which so much is admitted, if nobody comes but those who are
    /// `ahead`, and each of them goes when it is due.
    fn due(&self, now: u64, ahead: &[u64], cost: u64) -> Option<u64>;

    /// How exact the time is that a call for so much behind such a queue gets.
    fn hint(&self, queue: &[u64], cost: u64) -> Hint;

    /// Charges what is due at `now`, and may have been since some earlier tick.
    fn admit(&mut self, now: u64, since: u64, cost: u64) -> Booked;

    /// Charges without asking.
    fn charge(&mut self, now: u64, cost: u64) -> Booked;

    /// Gives back so much of a charge of this epoch.
    fn refund(&mut self, now: u64, charge: Booked, cost: u64);

    /// Begins another epoch, unless it is the same in other words.
    fn set_quota(&mut self, now: u64, quota: Quota, carry: QuotaChange);

    /// Checks the promise of the algorithm by all that was kept under each quota.
    fn assert_promise(&self);
}

/// The model of an algorithm; if it `delays`, late waiters are charged when they go.
pub(crate) fn model(algorithm: Algorithm, quota: Quota, delays: bool) -> Box<dyn Model> {
    match algorithm.keeps_a_word() {
        false => Box::new(Kept::new(algorithm, quota)),
        true => Box::new(Owed::new(algorithm, quota, delays)),
    }
}
