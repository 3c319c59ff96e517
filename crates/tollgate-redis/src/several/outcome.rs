//! What is decided about several limits, and what they took.

use std::time::Duration;

use tollgate::Decision;

/// What was decided about [`Several`](super::Several) limits: whether all were charged, and how each stands.
///
/// Dropped, what was charged stays charged.
///
/// # Examples
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{Several, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Store::new("redis://127.0.0.1/")?;
/// let limits = Several::new(&store).limit("{acme}:all", Quota::per_minute(1000));
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
#[must_use = "it says whether one is admitted"]
#[derive(Debug)]
pub struct Outcome {
    /// Where charged, the charges.
    pub(super) charges: Option<Charges>,
    pub(super) decisions: Vec<Decision>,
}

/// What [`Several`](super::Several) limits took for a call. Plain data, as a [`Charge`](crate::Charge): dropped, it
/// stays charged; [`refund`](super::Several::refund) gives it back.
#[derive(Debug)]
pub struct Charges {
    pub(super) cost: u64,
    pub(super) tickets: Vec<[u64; 2]>,
}

impl Outcome {
    /// Whether all were charged; otherwise none was.
    pub fn is_admitted(&self) -> bool {
        self.charges.is_some()
    }

    /// The limits that have too little, by their index in the order in which they were given. None
    /// if all were charged.
    pub fn violated(&self) -> impl Iterator<Item = usize> {
        let decisions = self.decisions.iter().enumerate();
        decisions
            .filter(|(_, decision)| !decision.retry_after.is_zero())
            .map(|(index, _)| index)
    }

    /// How each stands, in the order in which they were given, for the headers of an answer: after
    /// the charge, if there was one.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// After what time to ask again: when the one that lacks most may have enough, and not sooner, as
    /// nobody would be admitted; perhaps later, if others take it.
    ///
    /// Zero if all were charged, and [`Duration::MAX`] if one never has as many. By the server's
    /// clock, exact to the microsecond; the [jitter](super::Several::jitter) of who waits is not in it.
    pub fn retry_after(&self) -> Duration {
        let waits = self.decisions.iter().map(|decision| decision.retry_after);
        waits.max().unwrap_or_default()
    }

    /// The charges, if all were charged.
    pub fn into_charges(self) -> Option<Charges> {
        self.charges
    }
}

impl Charges {
    /// How much was charged of each.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}
