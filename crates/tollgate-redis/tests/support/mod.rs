//! The code that the test files share: a real server on loopback, which the test starts and stops.

pub(crate) mod clock_shim;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod scripted;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::error::Error;
use std::time::Duration;

use proptest::test_runner::{Config, contextualize_config};
pub(crate) use redis_on_loopback::{self as server, proxy};
use tollgate::{AcquireError, Algorithm, ErrorKind, Quota};
use tollgate_redis::StoreError;

/// Creates a runtime of two threads, in real time, because a server has no other time.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Creates a runtime that uses only this thread.
pub(crate) fn one_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Starts a server, and runs a test on it.
pub(crate) fn on_server(test: impl AsyncFnOnce(&mut server::Server)) {
    let mut server = server::Server::start();
    runtime().block_on(test(&mut server));
}

/// Sends a command, and returns the reply of the server.
pub(crate) fn ask<T: redis::FromRedisValue>(server: &server::Server, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
        .query(&mut server.connection())
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Returns an algorithm of each kind; each accepts a quota with a count of 3 or more.
pub(crate) fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().iter().map(|algorithm| match algorithm {
        Algorithm::SubInterval { .. } => Algorithm::SubInterval { parts: 2 },
        other => *other,
    })
}

/// A deadline for calls that must succeed even on a very slow machine.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// Returns a quota so slow that no unit is paid off while a test runs.
pub(crate) fn slow(burst: u64) -> Quota {
    Quota::per_day(burst).burst(burst)
}

/// Polls a condition until it is true; the test fails after half a minute.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(std::time::Instant::now() < end, "it does not come about");
        // Without this pause, the pollers would take the processor from the tasks that they wait for.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Polls a future once, and returns whether it is pending.
pub(crate) async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        let poll = std::pin::Pin::new(&mut *future).poll(context);
        std::task::Poll::Ready(poll.is_pending())
    })
    .await
}

/// Returns the failure of the store. Panics if the error has another kind.
pub(crate) fn failure(error: &AcquireError) -> StoreError {
    assert_eq!(error.kind(), ErrorKind::Store, "{error:?}");
    let source = error.source().expect("an error of a store has a source");
    *source.downcast_ref().expect("it is a StoreError")
}

/// Polls a future to completion on this thread, outside of every runtime.
pub(crate) fn outside<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    assert!(tokio::runtime::Handle::try_current().is_err());
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Returns a configuration with this number of random cases, or with that of the environment
/// variable `PROPTEST_CASES`, if it is set; this holds also without the macro. No file is written
/// when a case fails, because the message contains the case.
pub(crate) fn cases(cases: u32) -> Config {
    contextualize_config(Config {
        cases,
        failure_persistence: None,
        // Allows as many rejects as the number of cases may need.
        max_global_rejects: u32::MAX,
        max_local_rejects: u32::MAX,
        ..Config::default()
    })
}
