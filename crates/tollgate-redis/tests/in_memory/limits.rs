//! Rate limits and sets in memory, in the paused time of tokio and on a manual clock.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, advance};
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Quota, Throttle};
use tollgate_redis::{Detector, Keyed, LimitSet, RateLimiter, Source, Store, StoreError};

use crate::support::{algorithms, failure};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn ten(store: &Store) -> RateLimiter {
    RateLimiter::new(store, "calls", Quota::per_second(10))
}

#[tokio::test(start_paused = true)]
async fn acquire_of_a_burst_of_one_waits_for_each_interval() -> Result<(), AcquireError> {
    let (limiter, begin) = (ten(&Store::in_memory()), Instant::now());
    for calls in 0..50 {
        let charge = limiter.acquire().await?;
        assert_eq!(begin.elapsed(), 100 * MILLI * calls);
        assert_eq!(charge.at(), std::time::UNIX_EPOCH + 100 * MILLI * calls);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_each_algorithm_admits_what_it_promises() -> Result<(), AcquireError> {
    let quota = Quota::per_second(6);
    for algorithm in algorithms() {
        let limiter = RateLimiter::new(&Store::in_memory(), "calls", quota).algorithm(algorithm);
        let begin = Instant::now();
        for calls in 1..=18 {
            limiter.acquire().await?;
            let time = begin.elapsed() + Duration::from_nanos(1);
            assert!(
                algorithm.most_in(quota, time) >= calls,
                "{algorithm}: {calls} in {time:?}"
            );
        }
        assert!(
            begin.elapsed() <= 5 * SECOND,
            "{algorithm}: {:?}",
            begin.elapsed()
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_on_clones_shares_and_on_other_stores_does_not() -> Result<(), AcquireError> {
    let store = Store::in_memory();
    let [one, same] = [store.clone(), store].map(|store| ten(&store));
    let other = ten(&Store::in_memory());
    one.try_acquire().await?;
    let refused = same.try_acquire().await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(100 * MILLI));
    other.try_acquire().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_two_processes_shares_the_rate_equally() {
    let store = Store::in_memory();
    let mut counts = Vec::new();
    for _ in 0..2 {
        let limiter = RateLimiter::new(&store, "calls", Quota::per_second(100));
        counts.push(tokio::spawn(async move {
            let (end, mut count) = (Instant::now() + 10 * SECOND, 0_u32);
            while Instant::now() < end && limiter.acquire().await.is_ok() {
                count += 1;
            }
            count
        }));
    }
    let [one, other] = [
        counts.remove(0).await.unwrap(),
        counts.remove(0).await.unwrap(),
    ];
    assert!(one.abs_diff(other) <= 50, "{one} and {other}");
    assert!(
        (1_000..=1_003).contains(&(one + other)),
        "{one} and {other}"
    );
}

#[tokio::test(start_paused = true)]
async fn acquire_that_leaves_gives_its_turn_to_the_next() -> Result<(), AcquireError> {
    let (limiter, begin) = (ten(&Store::in_memory()), Instant::now());
    limiter.acquire().await?;
    let leaves = tokio::time::timeout(50 * MILLI, limiter.acquire()).await;
    assert!(leaves.is_err());
    limiter.acquire().await?;
    assert_eq!(begin.elapsed(), 100 * MILLI);
    Ok(())
}

/// The denial is trusted for one second.
#[tokio::test(start_paused = true)]
async fn acquire_beyond_max_waiters_that_have_turns_is_refused_after_the_denial()
-> Result<(), AcquireError> {
    for (quota, n) in [
        (Quota::per_minute(20), 1),
        (Quota::per_second(1).burst(60), 60),
    ] {
        let limiter = RateLimiter::new(&Store::in_memory(), "calls", quota).max_waiters(1);
        limiter.acquire_many(n).await?;
        let waits = tokio::spawn(limiter.acquire_many(n));
        settled().await;
        advance(2 * SECOND).await;
        let begin = Instant::now();
        for _ in 0..3 {
            let refused = limiter.acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::QueueFull);
        }
        assert_eq!((begin.elapsed(), limiter.waiting()), (Duration::ZERO, 1));
        waits.await.unwrap()?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_beyond_max_waiters_of_a_set_in_several_lines_is_refused_without_a_call()
-> Result<(), AcquireError> {
    let (store, quota) = (Store::in_memory(), Quota::per_minute(20));
    let set = LimitSet::new(&store).limit("a", quota).limit("b", quota);
    let set = set.max_waiters(1);
    set.acquire().await?;
    let waits = tokio::spawn(set.acquire());
    settled().await;
    advance(2 * SECOND).await;
    let (begin, calls) = (Instant::now(), store.calls());
    let refused = set.acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert_eq!((begin.elapsed(), store.calls()), (Duration::ZERO, calls));
    waits.await.unwrap()?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_after_set_quota_beside_a_turn_is_not_refused() -> Result<(), AcquireError> {
    let quota = Quota::per_minute(20);
    let limiter = RateLimiter::new(&Store::in_memory(), "calls", quota).max_waiters(1);
    limiter.acquire().await?;
    let waits = tokio::spawn(limiter.acquire());
    settled().await;
    advance(2 * SECOND).await;
    limiter.set_quota(Quota::per_second(1000).burst(1000));
    limiter.acquire().await?;
    waits.await.unwrap()?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_after_the_only_waiter_has_left_takes_its_turn() -> Result<(), AcquireError> {
    for time in [MILLI, 2 * SECOND] {
        let quota = Quota::per_minute(20);
        let limiter = RateLimiter::new(&Store::in_memory(), "calls", quota).max_waiters(1);
        let begin = Instant::now();
        limiter.acquire().await?;
        let leaves = tokio::time::timeout(time, limiter.acquire()).await;
        assert!(leaves.is_err());
        limiter.acquire().await?;
        assert_eq!(begin.elapsed(), 3 * SECOND);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_with_a_timeout_that_is_too_short_is_refused_at_once() -> Result<(), AcquireError> {
    let (limiter, begin) = (ten(&Store::in_memory()), Instant::now());
    limiter.acquire().await?;
    let refused = limiter.acquire().timeout(99 * MILLI).await.unwrap_err();
    assert_eq!(
        (refused.kind(), begin.elapsed()),
        (ErrorKind::TimedOut, Duration::ZERO)
    );
    limiter.acquire().timeout(101 * MILLI).await?;
    assert_eq!(begin.elapsed(), 100 * MILLI);
    Ok(())
}

#[tokio::test]
async fn acquire_on_a_manual_clock_waits_until_it_is_advanced() -> Result<(), AcquireError> {
    let clock = Clock::manual();
    let limiter = ten(&Store::in_memory_on(&clock));
    limiter.try_acquire().await?;
    assert!(limiter.try_acquire().await.is_err());
    let waits = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire().timeout(SECOND).await.is_ok() }
    });
    settled().await;
    clock.advance(99 * MILLI);
    settled().await;
    assert!(!waits.is_finished());
    clock.advance(MILLI);
    assert!(waits.await.unwrap());
    Ok(())
}

/// Lets all tasks run until they wait for the clock.
async fn settled() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn reserve_and_refund_count_as_on_a_server() -> Result<(), Box<dyn std::error::Error>> {
    let (limiter, begin) = (ten(&Store::in_memory()), Instant::now());
    limiter.try_acquire().await?;
    let first = limiter.reserve(SECOND).await?;
    let second = limiter.reserve(SECOND).await?;
    assert_eq!((first.delay(), second.delay()), (100 * MILLI, 200 * MILLI));
    assert!(limiter.reserve(250 * MILLI).await.is_err());
    // The time of the first one is kept for the next.
    drop(first);
    settled().await;
    let third = limiter.reserve(SECOND).await?;
    assert_eq!(third.delay(), 100 * MILLI);
    third.ready().await?;
    second.ready().await?;
    assert_eq!(begin.elapsed(), 200 * MILLI);
    advance(100 * MILLI).await;
    let charge = limiter.try_acquire().await?;
    limiter.refund(charge).await?;
    assert_eq!(limiter.peek(1).await?.remaining, 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn set_quota_changes_the_wait() -> Result<(), AcquireError> {
    let (limiter, begin) = (ten(&Store::in_memory()), Instant::now());
    limiter.acquire().await?;
    limiter.set_quota(Quota::per_second(2));
    limiter.acquire().await?;
    assert_eq!(begin.elapsed(), 500 * MILLI);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_prefetched_tokens_takes_no_call() -> Result<(), AcquireError> {
    let store = Store::in_memory();
    let quota = Quota::per_second(100).burst(100);
    let limiter = RateLimiter::new(&store, "calls", quota).prefetch(10, SECOND);
    let mut sources = Vec::new();
    for _ in 0..20 {
        sources.push(limiter.acquire().await?.source());
    }
    assert!(sources.contains(&Source::TokenCache));
    assert!(store.calls() < 20);
    limiter.shutdown().await;
    let peek = RateLimiter::new(&store, "calls", quota).peek(1).await?;
    assert_eq!(peek.remaining, 80);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_a_set_waits_for_the_slowest() -> Result<(), Box<dyn std::error::Error>> {
    let (store, begin) = (Store::in_memory(), Instant::now());
    let set = LimitSet::new(&store)
        .limit("{acme}:calls", Quota::per_second(10))
        .limit("{acme}:daily", Quota::per_second(2));
    for calls in 0..4 {
        set.acquire().await?;
        assert_eq!(begin.elapsed(), 500 * MILLI * calls);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_each_key_has_a_limit_of_its_own() -> Result<(), AcquireError> {
    let keyed = Keyed::new(ten(&Store::in_memory()), 100);
    for key in ["a", "b"] {
        keyed.key(key).try_acquire().await?;
        assert!(keyed.key(key).try_acquire().await.is_err());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn pass_of_a_detector_blocks_until_the_burst_is_left()
-> Result<(), Box<dyn std::error::Error>> {
    let detector = Detector::new(
        &Store::in_memory(),
        "abuse",
        Quota::per_second(10).burst(10),
    );
    for _ in 0..15 {
        detector.record("mallory");
    }
    detector.record("alice");
    assert_eq!(detector.pass().await?, 1);
    assert!(detector.check("alice").is_ok());
    let blocked = detector.check("mallory").unwrap_err();
    let wait = blocked.retry_after().unwrap();
    assert!(wait >= 500 * MILLI);
    advance(wait).await;
    assert!(detector.check("mallory").is_ok());
    Ok(())
}

#[tokio::test]
async fn acquire_with_another_kind_of_algorithm_is_a_mistake() -> Result<(), AcquireError> {
    let store = Store::in_memory();
    ten(&store).try_acquire().await?;
    let window = ten(&store).algorithm(Algorithm::SlidingWindow);
    let error = failure(&window.try_acquire().await.unwrap_err());
    assert_eq!(error, StoreError::WrongType);
    assert!(store.last_failure().is_some() && !store.is_broken());
    Ok(())
}

#[tokio::test]
async fn acquire_after_a_mistake_on_a_manual_clock_is_answered() -> Result<(), AcquireError> {
    let clock = Clock::manual();
    let store = Store::in_memory_on(&clock);
    ten(&store).try_acquire().await?;
    let window = ten(&store).algorithm(Algorithm::SlidingWindow);
    for _ in 0..2 {
        let window = window.clone();
        let call = tokio::spawn(async move { window.acquire().await });
        settled().await;
        // The clock stands still.
        assert!(call.is_finished());
        assert_eq!(
            failure(&call.await.unwrap().unwrap_err()),
            StoreError::WrongType
        );
    }
    Ok(())
}

#[test]
fn acquire_in_another_runtime_takes_prefetched_tokens_by_the_time_of_the_store() {
    let [one, other] = [(); 2].map(|()| {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    });
    let limiter = one.block_on(async {
        let quota = Quota::per_second(1000).burst(1000);
        let limiter = RateLimiter::new(&Store::in_memory(), "calls", quota).prefetch(10, SECOND);
        while limiter.acquire().await.unwrap().source() != Source::TokenCache {}
        limiter
    });
    other.block_on(async {
        advance(3_600 * SECOND).await;
        let mut call = pin!(limiter.acquire());
        let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        let Poll::Ready(Ok(charge)) = polled else {
            panic!("the tokens have expired: {polled:?}");
        };
        assert_eq!(charge.source(), Source::TokenCache);
    });
}

#[tokio::test]
async fn refund_of_charges_of_another_set_refunds_nothing() -> Result<(), AcquireError> {
    let (store, quota) = (Store::in_memory(), Quota::per_day(10).burst(10));
    let both = LimitSet::new(&store).limit("a", quota).limit("b", quota);
    let one = LimitSet::new(&store).limit("a", quota);
    for other in [LimitSet::new(&store), one] {
        let charges = both.acquire_many(2).await?;
        assert_eq!(other.refund(charges).await, Err(StoreError::Script));
        other.rollback(both.acquire().await?);
        assert_eq!(other.unrefunded(), 1);
    }
    let decisions = both.peek(0).await?;
    assert!(decisions.iter().all(|decision| decision.remaining == 4));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn statistics_count_calls_and_waits() -> Result<(), AcquireError> {
    let store = Store::in_memory();
    let limiter = ten(&store);
    for _ in 0..3 {
        limiter.acquire().await?;
    }
    assert!(limiter.try_acquire().await.is_err());
    let statistics = limiter.statistics();
    assert_eq!(
        (statistics.admitted, statistics.denied, statistics.failed),
        (3, 1, 0)
    );
    assert_eq!(statistics.waiting, 0);
    Ok(())
}

#[tokio::test]
async fn check_of_a_store_in_memory_has_no_warnings() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    assert_eq!(store.check().await?, []);
    assert!(!store.is_broken());
    let statistics = store.statistics();
    assert_eq!(statistics.succeeded, statistics.calls);
    Ok(())
}
