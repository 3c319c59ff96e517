//! Two hundred waiters of one rate limiter, which can be cancelled and come back.
//!
//! 1. A waiter stands in the limiter's queue when `refill` returns, in the order of its number.
//! 2. The lock is held for changes of the list only, not while a waiter is polled or cancelled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;
use tollgate::observe::Observed;
use tollgate::{Clock, Quota, RateLimiter};

use crate::settings::{Setting, Settings};
use crate::tally::Tally;

const WAITERS: usize = 200;

/// Of so many waiters one is kept.
const KEEP_ONE_OF: usize = 5;

/// How long the queue is empty before all come back.
const PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Panel {
    settings: Arc<Settings>,
    limiter: Observed<Arc<RateLimiter>, Arc<Tally>>,
    waiters: Mutex<Vec<Waiter>>,
}

#[derive(Clone)]
struct Waiter {
    state: State,
    cancel: CancellationToken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Admitted,
    Cancelled,
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    waiting: usize,
    per_second: u64,
    admitted: u64,
    cancelled: u64,
    quota: u64,
    waiters: String,
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let limiter = RateLimiter::new(quota(&settings)).clock(clock.clone());
        let nobody = Waiter {
            state: State::Cancelled,
            cancel: CancellationToken::new(),
        };
        Self {
            settings,
            limiter: Observed::new(Arc::new(limiter), Arc::default()).clock(clock),
            waiters: Mutex::new(vec![nobody; WAITERS]),
        }
    }

    /// Lets all waiters come back whenever the queue has been empty for a while, until it is dropped.
    pub(crate) async fn load(self: Arc<Self>) {
        let mut ticker = interval(Duration::from_millis(100));
        let mut empty_since = None;
        self.refill();
        loop {
            ticker.tick().await;
            if self.limiter.throttle().waiting() > 0 {
                empty_since = None;
            } else if empty_since.get_or_insert_with(Instant::now).elapsed() >= PAUSE {
                self.refill();
            }
        }
    }

    /// Cancels four of five waiters.
    pub(crate) fn cancel(&self) {
        let waiters = self.waiters().clone();
        let waiting = waiters
            .iter()
            .filter(|waiter| waiter.state == State::Waiting);
        for (index, waiter) in waiting.enumerate() {
            if index % KEEP_ONE_OF != 0 {
                waiter.cancel.cancel();
            }
        }
    }

    /// Puts a waiter into the queue for each that was admitted or cancelled.
    pub(crate) fn refill(self: &Arc<Self>) {
        for index in 0..WAITERS {
            let cancel = CancellationToken::new();
            {
                let waiter = &mut self.waiters()[index];
                if waiter.state == State::Waiting {
                    continue;
                }
                *waiter = Waiter {
                    state: State::Waiting,
                    cancel: cancel.clone(),
                };
            }
            let panel = Arc::clone(self);
            let mut waits = Box::pin(async move {
                let outcome = panel.limiter.acquire().cancel_on(&cancel).await;
                let state = if outcome.is_ok() {
                    State::Admitted
                } else {
                    State::Cancelled
                };
                panel.waiters()[index].state = state;
            });
            // Joins the queue now, and not when the task happens to be run.
            if join(waits.as_mut()) {
                tokio::spawn(waits);
            }
        }
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().expect("no code panics under the lock")
    }

    /// Tells the limiter that the quota has changed.
    pub(crate) fn apply(&self) {
        self.limiter.throttle().set_quota(quota(&self.settings));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let tally = self.limiter.observer();
        let letter = |waiter: &Waiter| match waiter.state {
            State::Waiting => 'w',
            State::Admitted => 'a',
            State::Cancelled => 'c',
        };
        Snapshot {
            waiting: self.limiter.throttle().waiting(),
            per_second: tally.admitted.per_second(),
            admitted: tally.admitted.total(),
            cancelled: tally.abandoned.total(),
            quota: self.settings.get(Setting::QueueQuota),
            waiters: self.waiters().iter().map(letter).collect(),
        }
    }
}

fn quota(settings: &Settings) -> Quota {
    Quota::per_second(settings.get(Setting::QueueQuota))
}

/// Polls a future once, and returns whether it waits.
fn join(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}
