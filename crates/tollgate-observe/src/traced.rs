//! [`Traced`]: events of the crate [`tracing`].
//!
//! There is no span, because a span that is entered across an `await` would cover all other futures
//! that the thread polls meanwhile. When a wait or a permit ends, an event is emitted in the
//! current span.

use std::sync::Arc;
use std::time::Duration;

use ::tracing::{debug, warn};

use super::{Decision, Observer, Place};
use tollgate::time::Tick;
use tollgate::{AcquireError, Clock};

/// An [`Observer`] that emits an event of the crate [`tracing`](::tracing) for each wait that ends,
/// and a warning for long waits and permits that are held long.
///
/// - `debug`, when a wait ends: `limit`, `place`, `waited`, and `error` if it was refused;
/// - `warn` instead, if the wait took at least [`warn_wait`](Self::warn_wait);
/// - `warn`, when a permit is released that was held for at least [`warn_hold`](Self::warn_hold):
///   `limit`, `place`, `held`. A permit that is never released emits no event;
///   [`Holders`](super::Holders) finds it;
/// - `debug`, for each decision of an [`ObservedController`](super::ObservedController): `limit`, `before` and
///   `after` (the limits), `reason`, `baseline`, `latency`, `samples` and `overloaded`.
///
/// An entry that did not wait emits no event, whether it was admitted or refused. `place` is that of
/// the [entry](super::Observed#places), `waited`, `held`, `baseline` and `latency` are in
/// seconds. The target is
/// `tollgate`.
///
/// # Cost
///
/// An entry that does not wait reads no clock unless `warn_hold` is set.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tollgate::Semaphore;
/// use tollgate_observe::{Observed, Traced};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let traced = Traced::new("uploads")
///     .warn_wait(Duration::from_secs(1))
///     .warn_hold(Duration::from_secs(60));
/// let uploads = Observed::new(Arc::new(Semaphore::new(8)), traced);
/// let permit = uploads.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Traced {
    limit: Arc<str>,
    warn_wait: Duration,
    warn_hold: Option<Duration>,
    clock: Clock,
}

impl Traced {
    /// Creates an observer that emits no warnings, on [`Clock::default`].
    pub fn new(limit: impl Into<String>) -> Self {
        Self {
            limit: limit.into().into(),
            warn_wait: Duration::MAX,
            warn_hold: None,
            clock: Clock::default(),
        }
    }

    /// Warns of waits that took at least this long.
    #[must_use]
    pub fn warn_wait(mut self, at_least: Duration) -> Self {
        self.warn_wait = at_least;
        self
    }

    /// Warns of permits that were held for at least this long, when they are released.
    #[must_use]
    pub fn warn_hold(mut self, at_least: Duration) -> Self {
        self.warn_hold = Some(at_least);
        self
    }

    /// Sets the clock that measures how long permits are held.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Emits the event of a wait that has ended.
    fn wait_ended(&self, place: Place, waited: Duration, error: Option<&AcquireError>, end: &str) {
        let (limit, seconds) = (&*self.limit, waited.as_secs_f64());
        let error = error.map(::tracing::field::display);
        if waited >= self.warn_wait {
            warn!(target: "tollgate", limit, %place, waited = seconds, error, "a long wait {end}");
        } else {
            debug!(target: "tollgate", limit, %place, waited = seconds, error, "a wait {end}");
        }
    }
}

impl Observer for Traced {
    /// `Some` if the permit may need a warning.
    type Held = Option<(Place, Tick)>;

    #[inline]
    fn admitted(&self, place: Place, waited: Option<Duration>) -> Self::Held {
        if let Some(waited) = waited {
            self.wait_ended(place, waited, None, "was admitted");
        }
        self.warn_hold.map(|_| (place, self.clock.now()))
    }

    fn refused(&self, place: Place, error: &AcquireError, waited: Option<Duration>) {
        if let Some(waited) = waited {
            self.wait_ended(place, waited, Some(error), "was refused");
        }
    }

    fn abandoned(&self, place: Place, waited: Duration) {
        self.wait_ended(place, waited, None, "was abandoned");
    }

    fn released(&self, held: Self::Held) {
        let (Some((place, since)), Some(most)) = (held, self.warn_hold) else {
            return;
        };
        let held = self.clock.now().saturating_since(since);
        if held >= most {
            let (limit, seconds) = (&*self.limit, held.as_secs_f64());
            warn!(target: "tollgate", limit, %place, held = seconds, "a permit was held for a long time");
        }
    }

    fn decided(&self, decision: &Decision) {
        let explanation = decision.explanation;
        debug!(
            target: "tollgate",
            limit = &*self.limit,
            before = decision.before,
            after = decision.limit,
            reason = explanation.reason.as_str(),
            baseline = explanation.baseline.map(|latency| latency.as_secs_f64()),
            latency = explanation.latency.map(|latency| latency.as_secs_f64()),
            samples = decision.samples,
            overloaded = decision.overloaded,
            "a limit was decided"
        );
    }
}
