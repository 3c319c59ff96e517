//! [`Reservation`]: a charge of a time to come.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::AcquireError;

use super::charge::Charge;
use super::core::Core;

/// A charge that is made already, and will be paid for after a [delay](Self::delay), made by
/// [`reserve`](super::RateLimiter::reserve).
///
/// To await it is to wait out the delay. The server is not asked again, so neither a refund nor a
/// change of the quota makes it any earlier or later.
///
/// # Cancel safety
///
/// Dropped before it was awaited to its end or confirmed, it is given back, as far as it is not
/// paid off.
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    core: Arc<Core>,
    charge: Option<Charge>,
    due: Instant,
}

impl Reservation {
    pub(super) fn new(core: Arc<Core>, charge: Charge, due: Instant) -> Self {
        Self {
            core,
            charge: Some(charge),
            due,
        }
    }

    /// How long it will be until it is paid for.
    pub fn delay(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// How much it is charged.
    pub fn cost(&self) -> u64 {
        self.charge.as_ref().map_or(0, Charge::cost)
    }

    /// Keeps the charge, to come back after the delay by one's own means.
    pub fn confirm(mut self) -> (Charge, Duration) {
        let delay = self.delay();
        let charge = self.charge.take();
        (charge.expect("it is taken once"), delay)
    }

    /// Waits out the delay.
    ///
    /// # Errors
    ///
    /// `Store`, if the runtime of the store is gone.
    pub async fn ready(mut self) -> Result<Charge, AcquireError> {
        self.core.store.sleep(self.delay()).await?;
        Ok(self.charge.take().expect("it is taken once"))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.core.give_later(vec![charge]);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("cost", &self.cost())
            .field("delay", &self.delay())
            .finish_non_exhaustive()
    }
}
