//! Two hundred waiters of one rate limiter, which can be cancelled and return.
//!
//! 1. The list is in the order of the limiter's queue: a new waiter is the last of both.
//! 2. Only `load` refills, so that no two refills join the queue in another order than the list.
//! 3. The lock is held only for changes of the list, not while a waiter is polled or cancelled.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;
use tollgate::{Clock, Quota, RateLimiter};

use crate::meter::Meter;
use crate::settings::{Setting, Settings};

const WAITERS: usize = 200;

/// One of this many waiters is kept.
const KEEP_ONE_OF: usize = 5;

/// How long the queue stays empty before all return.
const PAUSE: Duration = Duration::from_secs(2);

// The states of a waiter, as the page reads them.
const WAITING: u8 = b'w';
const ADMITTED: u8 = b'a';
const CANCELLED: u8 = b'c';

pub(crate) struct Panel {
    settings: Arc<Settings>,
    limiter: Arc<RateLimiter>,
    admitted: Arc<Meter>,
    waiters: Mutex<Vec<Arc<Waiter>>>,
    refill: Notify,
}

struct Waiter {
    state: AtomicU8,
    cancel: CancellationToken,
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// The numbers of waiting, admitted and cancelled waiters, as far as their tasks have run: 200
    /// together. The limiter may be ahead of a task that has not run yet.
    waiting: usize,
    admitted: usize,
    cancelled: usize,
    /// By the ticks of the charges.
    per_second: usize,
    /// Per second, as the limiter reports it.
    quota: u64,
    /// The delay of a call that joined now, as the last one, in seconds, as the limiter reports it.
    last_waits_s: f64,
    /// The state of each waiter, in the order of the queue.
    waiters: String,
}

impl Waiter {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(WAITING),
            cancel: CancellationToken::new(),
        })
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    /// Leaves the queue as admitted or as cancelled, whichever comes first.
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
        Self {
            settings,
            limiter: Arc::new(limiter),
            admitted: Arc::new(Meter::new(&clock)),
            waiters: Mutex::default(),
            refill: Notify::new(),
        }
    }

    /// Lets all waiters join, and return when `refill` says so or the queue has been empty for a
    /// while, until it is dropped. The first ones have joined when this returns.
    pub(crate) fn load(self: Arc<Self>) -> impl Future<Output = Infallible> {
        self.join();
        async move {
            let mut ticker = interval(Duration::from_millis(100));
            let mut empty_since = None;
            loop {
                tokio::select! {
                    // In this order, because tests expect the same of each run.
                    biased;
                    () = self.refill.notified() => self.join(),
                    _ = ticker.tick() => {}
                }
                if self.limiter.snapshot().waiting > 0 {
                    empty_since = None;
                } else if empty_since.get_or_insert_with(Instant::now).elapsed() >= PAUSE {
                    self.join();
                }
            }
        }
    }

    /// Cancels four out of five waiters.
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

    /// Lets a new waiter join for each that was admitted or cancelled.
    pub(crate) fn refill(&self) {
        self.refill.notify_one();
    }

    /// Removes the waiters that have left from the list, and appends new ones to the queue.
    fn join(&self) {
        let new = {
            let mut waiters = self.waiters.lock().expect("no code panics under the lock");
            waiters.retain(|waiter| waiter.state() == WAITING);
            let waiting = waiters.len();
            waiters.resize_with(WAITERS, Waiter::new);
            waiters[waiting..].to_vec()
        };
        for waiter in new {
            let (wait, admitted) = (self.limiter.clone().acquire_owned(), self.admitted.clone());
            let mut wait = Box::pin(async move {
                match wait.cancel_on(&waiter.cancel).await {
                    Ok(charge) => {
                        admitted.count_at(charge.at());
                        waiter.leave(ADMITTED);
                    }
                    Err(_) => waiter.leave(CANCELLED),
                }
            });
            // It joins the queue now, and not at its task's first poll.
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

    /// Notifies the limiter of the new quota.
    pub(crate) fn apply(&self) {
        self.limiter.set_quota(quota(&self.settings));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let waiters = self.waiters();
        let states: String = waiters.iter().map(|it| char::from(it.state())).collect();
        let wait = self.limiter.peek().retry_after;
        let count = |state: u8| states.matches(char::from(state)).count();
        Snapshot {
            waiting: count(WAITING),
            admitted: count(ADMITTED),
            cancelled: count(CANCELLED),
            per_second: self.admitted.per_second(),
            quota: self.limiter.quota().count(),
            last_waits_s: wait.unwrap_or_default().as_secs_f64(),
            waiters: states,
        }
    }
}

fn quota(settings: &Settings) -> Quota {
    Quota::per_second(settings.get(Setting::QueueQuota))
}

/// Polls a future once, and returns whether it has to be polled again.
fn is_pending(future: Pin<&mut impl Future<Output = ()>>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}
