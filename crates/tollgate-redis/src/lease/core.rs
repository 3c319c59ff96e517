//! What the handles of a semaphore share, and what they ask of the server.
//!
//! Lock order: none. One lock is held at a time, and never while one waits or wakes somebody.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::Notify;

use super::keys::Keys;
use super::line::{Asked, Line};
use super::reply::{Granted, free, is_held};
use crate::error::StoreError;
use crate::script::{Arguments, LEASE};
use crate::store::Store;

/// What is chosen when a semaphore is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) ttl: Duration,
    /// The ttl, if none was chosen.
    pub(super) grace: Option<Duration>,
    pub(super) poll: Duration,
    pub(super) max_waiters: usize,
}

/// How often somebody who waits may miss the time to ask before the ticket expires.
const POLLS: u32 = 40;

/// A script counts up to there.
const MOST: u64 = 1 << 52;

pub(super) struct Core {
    pub(super) store: Store,
    pub(super) keys: Keys,
    pub(super) options: Options,
    state: Mutex<State>,
    /// Something has changed that whoever drives the line must look at.
    pub(super) stirred: Notify,
}

pub(super) struct State {
    pub(super) permits: usize,
    pub(super) line: Line,
    /// A task is looking after the line.
    pub(super) driven: bool,
    pub(super) closed: bool,
}

impl State {
    pub(super) fn limit(&self) -> u64 {
        (self.permits as u64).min(MOST)
    }
}

impl Core {
    pub(super) fn new(store: Store, keys: Keys, permits: usize, options: Options) -> Self {
        Self {
            store,
            keys,
            options,
            state: Mutex::new(State {
                permits,
                line: Line::default(),
                driven: false,
                closed: false,
            }),
            stirred: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        what: &'static str,
        rest: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<Value, StoreError> {
        let options = &self.options;
        let grace = options.grace.unwrap_or(options.ttl);
        let times = [options.ttl, grace, self.ticket_lasts()].map(micros);
        let limit = self.state().limit();
        let arguments = Arguments::new(what).number(limit).numbers(times);
        let keys = self.keys.all();
        self.store.call(&LEASE, &keys, &rest(arguments)).await
    }

    pub(super) async fn acquire(&self, asked: &[Asked]) -> Result<Granted, StoreError> {
        let value = self
            .ask("acquire", |arguments| {
                asked.iter().fold(arguments, |arguments, one| {
                    let numbers = [u64::from(one.n), one.ticket, u64::from(one.stays)];
                    arguments.text(one.id.as_str()).numbers(numbers)
                })
            })
            .await?;
        Granted::read(&value, asked.len())
    }

    /// Whether it is still held.
    pub(super) async fn renew(&self, id: &str, n: u32, fencing: u64) -> Result<bool, StoreError> {
        let value = self
            .ask("renew", |arguments| {
                arguments.text(id).numbers([u64::from(n), fencing])
            })
            .await?;
        is_held(&value)
    }

    /// Gives back leases and tickets.
    pub(super) async fn release(&self, all: &[(String, u32)]) -> Result<(), StoreError> {
        self.ask("release", |arguments| {
            all.iter().fold(arguments, |arguments, (id, n)| {
                arguments.text(id.as_str()).number(u64::from(*n))
            })
        })
        .await?;
        self.stir();
        Ok(())
    }

    /// Gives back leases and tickets that are there until a time at most: after that nothing has to
    /// be done any more. What fails for another reason than that the store is away is not tried
    /// again: it would be for every caller.
    pub(super) async fn release_until(&self, all: &[(String, u32)], until: Instant) {
        while let Err(error) = self.release(all).await {
            let now = Instant::now();
            let is_hopeless = error == StoreError::NoRuntime || error.is_half_done();
            if is_hopeless || now >= until {
                return;
            }
            tokio::time::sleep(self.pause().min(until - now)).await;
        }
    }

    pub(super) async fn available(&self) -> Result<u64, StoreError> {
        free(&self.ask("look", |arguments| arguments).await?)
    }

    /// There may be room: ask again for those who wait.
    pub(super) fn stir(&self) {
        self.state().line.stir();
        self.stirred.notify_one();
    }

    /// When to ask again for those who wait: jittered, so that a fleet does not ask all at once.
    pub(super) fn again(&self, now: Instant) -> Instant {
        now + self.options.poll.mul_f64(1.0 + fastrand::f64())
    }

    /// How long a ticket lasts on the server after it was last asked for.
    pub(super) fn ticket_lasts(&self) -> Duration {
        self.options.poll * POLLS
    }

    /// Between two attempts at something that failed.
    pub(super) fn pause(&self) -> Duration {
        let most = (self.options.ttl / 10).min(Duration::from_millis(100));
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(MOST).min(MOST)
}

/// An id that no other lease has: a random number of this process, and one that counts up.
pub(super) fn id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{next:x}", *PROCESS)
}
