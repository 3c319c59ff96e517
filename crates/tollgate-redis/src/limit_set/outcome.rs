//! [`Outcome`]: the decision about the limits of a set; and [`Charges`]: the charges of that decision.

use std::time::{Duration, SystemTime};

use tollgate::{Decision, rate};

use crate::queue::Origin;
use crate::refunds::Refund;

/// The decision of a [`LimitSet`](crate::LimitSet): whether all limits were charged, and the state of each.
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

/// The charges of a [`LimitSet`](crate::LimitSet) for a call. They are plain data, like a [`Charge`](crate::Charge):
/// dropping them keeps the charges; [`refund`](crate::LimitSet::refund) refunds them.
#[derive(Debug)]
pub struct Charges {
    pub(super) cost: u64,
    /// What a refund is for the server.
    pub(super) work: u64,
    /// The position of each charge, the key's identity, and the microsecond of the server's clock. Empty if the
    /// fallback has admitted the call.
    pub(super) tickets: Vec<[u64; 3]>,
    /// The charges of the local shares.
    pub(super) local: Vec<rate::Charge>,
    pub(super) origin: Origin,
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
            .filter(|(_, decision)| decision.retry_after != Some(Duration::ZERO))
            .map(|(index, _)| index)
    }

    /// Returns the state of each limit after the charge, if there was one, in the order in which
    /// the limits were added, for the headers of a response.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the time after which the limit that lacks most may have enough. Before that, the call is
    /// denied again; after it, it may be denied if other calls were faster.
    ///
    /// It is zero if all limits were charged, and `None` if a limit can never admit the cost. It is exact to the
    /// microsecond of the server's clock, without the [jitter](crate::LimitSet::jitter).
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.decisions.iter().map(|decision| decision.retry_after);
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Returns the charges, if all limits were charged.
    pub fn into_charges(self) -> Option<Charges> {
        self.charges
    }
}

/// In the order of the first limit.
impl Refund for Charges {
    /// A key that is created later has a greater number.
    type Order = Option<(u64, u64)>;

    fn order(&self) -> Self::Order {
        self.tickets
            .first()
            .map(|[position, made, _]| (*made, *position))
    }

    fn limits(&self) -> usize {
        self.tickets.len()
    }

    fn arguments(&self, index: usize) -> [u64; 4] {
        let [position, made, at] = self.tickets[index];
        [self.cost, position, made, at]
    }

    fn units(&self) -> u64 {
        self.cost
    }

    fn work(&self) -> u64 {
        self.work
    }
}

impl Charges {
    /// Creates the charges of a call that the fallback has admitted.
    pub(super) fn local(cost: u64, local: Vec<rate::Charge>) -> Self {
        Self {
            cost,
            work: 0,
            tickets: Vec::new(),
            local,
            origin: Origin::Fallback,
        }
    }

    /// Returns the cost that was charged to each limit.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the time at which the limit that was added at this index was charged, by the server's clock, to
    /// the microsecond. Returns `None` if the call was admitted by the [fallback](crate::LimitSet::fallback), or there
    /// are fewer limits.
    pub fn at(&self, index: usize) -> Option<SystemTime> {
        let [_, _, at] = self.tickets.get(index)?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_micros(*at))
    }
}
