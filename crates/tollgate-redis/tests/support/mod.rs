//! What the test files share: a real server on loopback, started and stopped by the test.

use std::time::Duration;

use tollgate::Quota;

pub(crate) mod cases;
pub(crate) mod clock_shim;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;

pub(crate) use redis_on_loopback::{self as server, proxy};

/// A runtime of two threads, in real time: a server has no other.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Starts a server, and runs a test on it.
pub(crate) fn on_server(test: impl AsyncFnOnce(&mut server::Server)) {
    let mut server = server::Server::start();
    runtime().block_on(test(&mut server));
}

/// For calls that are to succeed however slow the machine is.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// So slow that nothing comes back while a test runs.
pub(crate) fn slow(burst: u64) -> Quota {
    Quota::per_day(burst).burst(burst)
}

/// Looks again and again, until it is so; the test fails after half a minute.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so().await {
        assert!(std::time::Instant::now() < end, "it does not come about");
        tokio::task::yield_now().await;
    }
}

/// Polls a future to its end on this thread, in no runtime at all.
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
