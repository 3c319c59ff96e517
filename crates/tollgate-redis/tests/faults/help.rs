//! The functions that the tests of faults share.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{AcquireError, ErrorKind};
use tollgate_redis::{Charge, RateLimiter, Source, Store, StoreError};

use crate::support::proxy::Proxy;
use crate::support::server::Server;
pub(super) use crate::support::{PATIENT, failure, slow, until, waits};

/// The deadline of a call in the tests that make a server fail. Tests in which the deadline must
/// not be missed have a longer one.
pub(super) const DEADLINE: Duration = Duration::from_millis(250);

/// Longer than any call that ends by a deadline; a call that takes this long hangs.
const HANGS: Duration = Duration::from_secs(8);

/// A limit of this store, after its first decision.
pub(super) async fn limiter(store: &Store, burst: u64) -> RateLimiter {
    let limiter = RateLimiter::new(store, "k", slow(burst));
    recovers(&limiter).await;
    limiter
}

/// A store that can be cut off, and a limit of it, after its first decision.
pub(super) async fn behind_proxy(server: &Server, burst: u64) -> (Proxy, Store, RateLimiter) {
    let proxy = Proxy::start(server.port()).await;
    let store = proxy.store().deadline(DEADLINE);
    let limiter = limiter(&store, burst).await;
    (proxy, store, limiter)
}

/// Polls a future until its call is sent, and stops the server, so that the call stays in flight.
pub(super) async fn begin<F: Future>(server: &Server, store: &Store, future: F) -> Pin<Box<F>> {
    let calls = store.calls();
    server.stop();
    let mut begun = Box::pin(future);
    assert!(waits(&mut begun).await);
    until(async || store.calls() > calls).await;
    begun
}

pub(super) async fn ends<T>(call: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(HANGS, call).await;
    ended.expect("a call waits past its deadline")
}

/// The outcomes of calls.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) charges: Vec<Charge>,
    pub(super) limited: u64,
    pub(super) errors: Vec<StoreError>,
}

impl Tally {
    pub(super) fn add(&mut self, answer: Result<Charge, AcquireError>) {
        match answer {
            Ok(charge) => self.charges.push(charge),
            Err(error) if error.kind() == ErrorKind::RateLimited => self.limited += 1,
            Err(error) => self.errors.push(failure(&error)),
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.charges.iter().map(Charge::cost).sum()
    }

    pub(super) fn perhaps_charged(&self) -> u64 {
        let perhaps = self
            .errors
            .iter()
            .filter(|error| error.is_perhaps_charged());
        perhaps.count() as u64
    }

    pub(super) fn is_all_from(&self, source: Source) -> bool {
        self.charges.iter().all(|charge| charge.source() == source)
    }
}

/// Runs this number of callers at once; each of them must end.
pub(super) async fn crowd(limiter: &RateLimiter, callers: usize) -> Tally {
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let limiter = limiter.clone();
        tasks.spawn(async move { ends(limiter.try_acquire()).await });
    }
    let mut tally = Tally::default();
    while let Some(answer) = tasks.join_next().await {
        tally.add(answer.unwrap());
    }
    tally
}

/// Polls the server until it decides again.
pub(super) async fn recovers(limiter: &RateLimiter) {
    until(async || limiter.peek(0).await.is_ok()).await;
}

/// Returns the charged part of the burst, according to the server.
pub(super) async fn charged(limiter: &RateLimiter) -> u64 {
    let decision = limiter.peek(0).await.unwrap();
    decision.limit - decision.remaining
}
