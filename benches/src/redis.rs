//! A decision of a limit on a server, beside redis-rs with the plainest script, on a server of its own each. Here a
//! denial is not remembered, so each decision asks the server.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, cmd};
use redis_on_loopback::{PLAINEST_GCRA, Server};
use tokio::runtime::{Builder, Runtime};
use tollgate::Quota;
use tollgate_redis::RateLimiter;

use crate::harness::{Row, walled};
use ready_paths::quotas::SCARCE;

/// A quota beyond any demand here.
pub fn plenty() -> Quota {
    Quota::per_second(1_000_000_000).burst(1_000_000)
}

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let row = |name: &str, quota: fn() -> Quota, admits: bool| {
        let contenders = [
            walled("tollgate-redis", move || ours(quota(), admits)),
            walled("the plainest script", move || plainest(quota(), admits)),
        ];
        Row::new(name, contenders)
    };
    vec![
        row("redis: decision allowed", plenty, true),
        row("redis: decision denied", || SCARCE, false),
    ]
}

/// Creates a runtime as a server would have it.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

fn ours(quota: Quota, admits: bool) -> impl FnMut(u64) + 'static {
    let (runtime, server) = (runtime(), Server::start());
    let limiter = runtime.block_on(async {
        let limiter = RateLimiter::new(&server.store(), "ours", quota).recheck(Duration::ZERO);
        limiter.acquire().await.expect("the first may go");
        limiter
    });
    move |times| {
        let (limiter, _server) = (limiter.clone(), &server);
        // In a task, as in a real program.
        let decisions = runtime.spawn(async move {
            for _ in 0..times {
                assert_eq!(limiter.try_acquire().await.is_ok(), admits);
            }
        });
        runtime.block_on(decisions).expect("it ran through");
    }
}

fn plainest(quota: Quota, admits: bool) -> impl FnMut(u64) + 'static {
    let (runtime, server) = (runtime(), Server::start());
    let mut limiter = runtime.block_on(Plainest::new(&server, quota));
    assert!(runtime.block_on(limiter.decide()), "the first may go");
    move |times| {
        let (mut limiter, _server) = (limiter.clone(), &server);
        let decisions = runtime.spawn(async move {
            for _ in 0..times {
                assert_eq!(limiter.decide().await, admits);
            }
        });
        runtime.block_on(decisions).expect("it ran through");
    }
}

/// The plainest script on a connection of redis-rs.
#[derive(Clone)]
pub struct Plainest {
    connection: MultiplexedConnection,
    digest: String,
    interval: f64,
    tolerance: f64,
}

impl Plainest {
    /// Connects, and loads the script.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub async fn new(server: &Server, quota: Quota) -> Self {
        let client = Client::open(server.address()).expect("it is an address");
        let connecting = client.get_multiplexed_async_connection().await;
        let mut connection = connecting.expect("the server answers");
        let loaded = cmd("SCRIPT")
            .arg("LOAD")
            .arg(PLAINEST_GCRA)
            .query_async(&mut connection)
            .await;
        let interval = quota.period().as_secs_f64() * 1e6 / quota.count() as f64;
        Self {
            connection,
            digest: loaded.expect("it takes a script"),
            interval,
            tolerance: interval * (quota.max_burst() - 1) as f64,
        }
    }

    /// Asks for one unit.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub async fn decide(&mut self) -> bool {
        let whole = self.interval + self.tolerance;
        let decided = cmd("EVALSHA")
            .arg(&self.digest)
            .arg(1)
            .arg("plainest")
            .arg(self.interval)
            .arg(self.tolerance)
            .arg((whole / 1e3).ceil().max(10_000.0) as u64)
            .query_async(&mut self.connection)
            .await;
        decided.expect("it runs")
    }
}
