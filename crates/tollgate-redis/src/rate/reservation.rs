//! [`Reservation`]: a charge that becomes due later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::AcquireError;

use super::charge::Charge;
use super::state::Shared;
use crate::queue::Limit;

/// A charge that has been made, and becomes due after a [delay](Self::delay). Created by
/// [`reserve`](super::RateLimiter::reserve).
///
/// [`ready`](Self::ready) waits for the delay. It does not call the server again, so neither a
/// refund nor a change of the quota moves the time.
///
/// # Cancel safety
///
/// A reservation that is dropped before `ready` has returned is refunded, as far as it is not paid
/// off.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    pub(super) shared: Arc<Shared>,
    pub(super) charge: Option<Charge>,
    pub(super) due: Instant,
}

impl Reservation {
    /// Returns the remaining time until the charge is due.
    pub fn delay(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Returns the cost that was charged.
    pub fn cost(&self) -> u64 {
        self.charge.as_ref().map_or(0, Charge::cost)
    }

    /// Waits for the delay, and returns the charge.
    ///
    /// # Errors
    ///
    /// `Store` if the runtime of the store is gone.
    pub async fn ready(mut self) -> Result<Charge, AcquireError> {
        self.shared.store.sleep(self.delay()).await?;
        Ok(self.charge.take().expect("it is taken once"))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            Limit::give_back(&self.shared, vec![charge]);
        }
    }
}
