//! What the test files share: a real server on loopback, started and stopped by the test.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part"
)]

pub(crate) mod cases;
pub(crate) mod clock_shim;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;

#[allow(unused_imports, reason = "as above")]
pub(crate) use redis_on_loopback::{self as server, proxy};

/// A runtime of two threads, in real time: a server has no other.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
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
