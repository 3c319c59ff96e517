//! [`Outcome`]: the decision about several limits, and [`Charges`]: the charges of that decision.

use std::time::Duration;

use tollgate::Decision;

/// The decision of a [`LimitSet`](super::LimitSet): whether all limits were charged, and the state
/// of each.
///
/// Dropping it keeps the charges.
///
/// # Examples
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{LimitSet, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Store::new("redis://127.0.0.1/")?;
/// let limits = LimitSet::new(&store).limit("{acme}:all", Quota::per_minute(1000));
/// let outcome = limits.try_acquire().await?;
/// let least = outcome.decisions().iter().map(|decision| decision.remaining).min();
/// if outcome.is_admitted() {
///     println!("{least:?} are left");
/// } else {
///     println!("again in {:?}", outcome.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "it says whether the call is admitted"]
#[derive(Debug)]
pub struct Outcome {
    /// `None` if the call was denied.
    pub(super) charges: Option<Charges>,
    pub(super) decisions: Vec<Decision>,
}

/// The charges of a [`LimitSet`](super::LimitSet) for a call. They are plain data, like a
/// [`Charge`](crate::Charge): dropping them keeps the charges; [`refund`](super::LimitSet::refund)
/// refunds them.
#[derive(Debug)]
pub struct Charges {
    pub(super) cost: u64,
    pub(super) tickets: Vec<[u64; 2]>,
}

impl Outcome {
    /// Returns whether all limits were charged; otherwise none was.
    pub fn is_admitted(&self) -> bool {
        self.charges.is_some()
    }

    /// Returns the indices of the limits that denied the call, in the order in which they were
    /// added.
    pub fn violated(&self) -> impl Iterator<Item = usize> {
        let decisions = self.decisions.iter().enumerate();
        decisions
            .filter(|(_, decision)| !decision.retry_after.is_zero())
            .map(|(index, _)| index)
    }

    /// Returns the state of each limit after the charge, if there was one, in the order in which
    /// the limits were added, for the headers of a response.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the time after which the limit that lacks most may have enough. Before that the call
    /// is denied again, and later too if other calls were faster.
    ///
    /// It is zero if all limits were charged, and [`Duration::MAX`] if a limit can never admit the
    /// cost. It is exact to the microsecond of the server's clock, without the
    /// [jitter](super::LimitSet::jitter).
    pub fn retry_after(&self) -> Duration {
        let waits = self.decisions.iter().map(|decision| decision.retry_after);
        waits.max().unwrap_or_default()
    }

    /// Returns the charges, if all limits were charged.
    pub fn into_charges(self) -> Option<Charges> {
        self.charges
    }
}

impl Charges {
    /// Returns the cost that was charged to each limit.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}
