//! Whose timer ends a wait.

use std::sync::LazyLock;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};

use crate::support::{Waiter, kind};

/// The runtime that drove the timer is gone, and everyone hangs.
///
/// Seen with limiters in statics across tests.
#[test]
fn runtime_that_drove_the_timer_is_gone() {
    static SHARED: Semaphore = Semaphore::new(0);
    const SHORT: Duration = Duration::from_millis(2);

    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
    };
    for _ in 0..3 {
        // Each is the first to wait, in a runtime of its own that is gone before the next comes.
        let result = runtime().block_on(SHARED.acquire().timeout(SHORT));
        assert_eq!(kind(result), ErrorKind::TimedOut);
        // Leaves a task behind in the queue.
        let driver = runtime();
        let task = driver.spawn(SHARED.acquire().timeout(Duration::from_secs(3600)));
        driver.block_on(async {
            while SHARED.snapshot().waiting == 0 {
                tokio::task::yield_now().await;
            }
        });
        drop(driver);
        assert!(task.is_finished());
        let result = SHARED.acquire().timeout(SHORT).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
    }
    // A wait that began in a runtime that is gone by now ends elsewhere.
    let driver = runtime();
    let mut waiter = {
        let _inside = driver.enter();
        Waiter::parked(SHARED.acquire().timeout(SHORT))
    };
    drop(driver);
    let result = runtime().block_on(std::future::poll_fn(|context| {
        waiter.poll_with(context.waker())
    }));
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(SHARED.snapshot().waiting, 0);

    // The same of several in statics; one of them is tokio's.
    static SLOTS: Semaphore = Semaphore::new(1);
    static TOKIOS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);
    let both = all((&SLOTS, &TOKIOS));
    for _ in 0..3 {
        let result = runtime().block_on(both.acquire().timeout(SHORT));
        assert_eq!(kind(result), ErrorKind::TimedOut);
        let driver = runtime();
        let mut waiter = {
            let _inside = driver.enter();
            Waiter::parked(both.acquire().timeout(SHORT))
        };
        drop(driver);
        let result = runtime().block_on(std::future::poll_fn(|context| {
            waiter.poll_with(context.waker())
        }));
        assert_eq!(kind(result), ErrorKind::TimedOut);
        assert_eq!(
            kind(both.acquire().timeout(SHORT).wait()),
            ErrorKind::TimedOut
        );
        assert_eq!(SLOTS.available_permits(), 1);
    }
    limiter_in_a_static(runtime);
}

/// A limiter on the clock of the system, whose queue began to wait in a runtime that is gone.
fn limiter_in_a_static(runtime: impl Fn() -> tokio::runtime::Runtime) {
    static PACED: LazyLock<RateLimiter> =
        LazyLock::new(|| RateLimiter::new(Quota::per_second(2000)).clock(Clock::system()));
    for _ in 0..3 {
        // Each leaves somebody behind in the queue, who is never looked at again and delays the next by no
        // more than its turn.
        let driver = runtime();
        let mut waiters: Vec<_> = {
            let _inside = driver.enter();
            (0..3).map(|_| Waiter::new(PACED.acquire())).collect()
        };
        for waiter in &mut waiters {
            drop(waiter.poll());
        }
        drop(driver);
        runtime().block_on(PACED.acquire()).unwrap();
        PACED.acquire().wait().unwrap();
        drop(waiters);
    }
    assert_eq!(PACED.snapshot().waiting, 0);
}
