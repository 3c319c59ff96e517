//! [`StoreTime`]: the time by which the limits of a store wait: that of the machine; or, of a store
//! [in memory](super::Store::in_memory), that of a clock that tests move.
//!
//! Moments are those of [`Instant`] in both cases. On a clock they count from the creation of the store, so that nothing
//! else knows which time it is.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock};

/// `None` for the time of the machine.
#[derive(Clone, Default)]
pub(crate) struct StoreTime(Option<Arc<OfClock>>);

struct OfClock {
    clock: Clock,
    /// Tokio's clock is that of the current runtime, and calls come from others, too.
    runtime: Handle,
    /// When the store was created, by the machine and by the clock.
    begin: (Instant, Tick),
}

impl StoreTime {
    /// Returns the time of a clock, in this runtime if it is tokio's. It begins now.
    pub(super) fn on(clock: Clock, runtime: Handle) -> Self {
        let _entered = runtime.enter();
        let begin = (Instant::now(), clock.now());
        drop(_entered);
        Self(Some(Arc::new(OfClock {
            clock,
            runtime,
            begin,
        })))
    }

    pub(crate) fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(of) => of.begin.0 + of.passed(),
        }
    }

    /// Returns the time since the store was created, if a clock tells it.
    pub(crate) fn passed(&self) -> Option<Duration> {
        self.0.as_ref().map(|of| of.passed())
    }

    /// Returns the clock for times that are compared with each other only.
    pub(crate) fn clock(&self) -> StoreClock {
        match &self.0 {
            None => Clock::system().into(),
            Some(of) => StoreClock {
                clock: of.clock.clone(),
                runtime: Some(of.runtime.clone()),
            },
        }
    }

    /// Lets a timeout around the limit that is being polled run on the clock, if there is one.
    pub(crate) fn report(&self) {
        if let Some(of) = &self.0 {
            Waiting::report_clock(&of.clock);
        }
    }

    /// Waits for a future until a time at most. Returns `None` if that has passed.
    pub(crate) async fn timeout_at<F: Future>(
        &self,
        until: Instant,
        future: F,
    ) -> Option<F::Output> {
        match &self.0 {
            None => tokio::time::timeout_at(until.into(), future).await.ok(),
            Some(of) => {
                let left = until.saturating_duration_since(self.now());
                Box::pin(of.timeout(left, future)).await
            }
        }
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        match &self.0 {
            None => tokio::time::sleep(time).await,
            Some(of) => drop(of.timeout(time, std::future::pending::<()>()).await),
        }
    }
}

/// The clock of a store, which tells the same time in each runtime.
pub(crate) struct StoreClock {
    clock: Clock,
    /// The runtime of the time, if the clock may be tokio's.
    runtime: Option<Handle>,
}

impl StoreClock {
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        let _entered = self.runtime.as_ref().map(Handle::enter);
        self.clock.now()
    }
}

impl From<Clock> for StoreClock {
    fn from(clock: Clock) -> Self {
        Self {
            clock,
            runtime: None,
        }
    }
}

impl OfClock {
    fn passed(&self) -> Duration {
        let _entered = self.runtime.enter();
        self.clock.now().saturating_since(self.begin.1)
    }

    async fn timeout<F: Future>(&self, time: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let waits = poll_fn(|context| {
            Waiting::report_clock(&self.clock);
            future.as_mut().poll(context).map(Ok::<_, AcquireError>)
        });
        Waiting::new(waits).timeout(time).await.ok()
    }
}
