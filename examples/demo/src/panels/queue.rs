//! Two hundred waiters of one rate limiter, which can be cancelled and come back.
//!
//! 1. A waiter stands in the limiter's queue when `refill` returns, in the order of its number.
//! 2. A waiter that has left is never used again; its place in the list gets a new one.
//! 3. The lock is held for changes of the list only, not while a waiter is polled or cancelled.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
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

// The states of a waiter, as the page reads them.
const WAITING: u8 = b'w';
const ADMITTED: u8 = b'a';
const CANCELLED: u8 = b'c';

pub(crate) struct Panel {
    settings: Arc<Settings>,
    limiter: Observed<Arc<RateLimiter>, Arc<Tally>>,
    waiters: Mutex<Vec<Arc<Waiter>>>,
}

struct Waiter {
    state: AtomicU8,
    cancel: CancellationToken,
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

impl Waiter {
    fn new(state: u8) -> Arc<Self> {
        let (state, cancel) = (AtomicU8::new(state), CancellationToken::new());
        Arc::new(Self { state, cancel })
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    /// Leaves the queue as admitted or as cancelled, whatever comes first.
    fn leave(&self, state: u8) {
        // The state publishes nothing but itself.
        let relaxed = Ordering::Relaxed;
        let _ = self
            .state
            .compare_exchange(WAITING, state, relaxed, relaxed);
    }
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let limiter = RateLimiter::new(quota(&settings)).clock(clock.clone());
        let nobody = |_| Waiter::new(CANCELLED);
        Self {
            settings,
            limiter: Observed::new(Arc::new(limiter), Arc::default()).clock(clock),
            waiters: Mutex::new((0..WAITERS).map(nobody).collect()),
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
        let waiters = self.waiters();
        let waiting = waiters.iter().filter(|waiter| waiter.state() == WAITING);
        for (index, waiter) in waiting.enumerate() {
            if index % KEEP_ONE_OF != 0 {
                waiter.leave(CANCELLED);
                waiter.cancel.cancel();
            }
        }
    }

    /// Puts a waiter into the queue for each that was admitted or cancelled.
    pub(crate) fn refill(&self) {
        let mut came = Vec::new();
        for place in &mut *self.waiters.lock().expect("no code panics under the lock") {
            if place.state() != WAITING {
                *place = Waiter::new(WAITING);
                came.push(Arc::clone(place));
            }
        }
        for waiter in came {
            let wait = self.limiter.acquire();
            let mut wait = Box::pin(async move {
                let outcome = wait.cancel_on(&waiter.cancel).await;
                waiter.leave(if outcome.is_ok() { ADMITTED } else { CANCELLED });
            });
            // It joins the queue now, and not when its task happens to run first.
            if is_pending(wait.as_mut()) {
                tokio::spawn(wait);
            }
        }
    }

    fn waiters(&self) -> Vec<Arc<Waiter>> {
        self.waiters
            .lock()
            .expect("no code panics under the lock")
            .clone()
    }

    /// Tells the limiter that the quota has changed.
    pub(crate) fn apply(&self) {
        self.limiter.throttle().set_quota(quota(&self.settings));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let tally = self.limiter.observer();
        let waiters = self.waiters();
        Snapshot {
            waiting: self.limiter.throttle().waiting(),
            per_second: tally.admitted.per_second(),
            admitted: tally.admitted.total(),
            cancelled: tally.abandoned.total(),
            quota: self.settings.get(Setting::QueueQuota),
            waiters: waiters
                .iter()
                .map(|waiter| char::from(waiter.state()))
                .collect(),
        }
    }
}

fn quota(settings: &Settings) -> Quota {
    Quota::per_second(settings.get(Setting::QueueQuota))
}

/// Polls a future once, and returns whether it is to be polled again.
fn is_pending(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}
