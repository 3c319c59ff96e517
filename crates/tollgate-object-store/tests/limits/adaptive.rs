//! The adaptive rate: which responses change it, and what it pauses.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, poll};
use object_store::client::{HttpErrorKind, HttpRequest};
use tokio::time::Instant;
use tollgate::adaptive::AdaptiveRate;
use tollgate::{Clock, Quota};
use tollgate_object_store::ThrottledConnector;

use crate::support::{SECOND, Script, cap, client, failure, get, put, rate, retry_after, status};

#[tokio::test(start_paused = true)]
async fn adaptive_after_slow_down_cuts_the_rate() {
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| status(503, "SlowDown".to_owned()));
    let client = client(&ThrottledConnector::new(script, cap(1)).adaptive(Arc::clone(&rate)));
    client.execute(get()).await.expect("an answer");
    assert_eq!((rate.rate(), rate.snapshot().refusals), (8.5, 1));
}

#[tokio::test(start_paused = true)]
async fn adaptive_after_retry_after_pauses_the_next_request() {
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| retry_after(429, 3));
    let client = client(&ThrottledConnector::new(script, cap(1)).adaptive(rate));
    let start = Instant::now();
    client.execute(get()).await.expect("an answer");
    client.execute(get()).await.expect("an answer");
    assert_eq!(start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn adaptive_after_retry_after_pauses_requests_that_wait_for_bytes() {
    let (bytes, rate) = (
        rate(Quota::per_second(10).burst(10)),
        Arc::new(AdaptiveRate::new()),
    );
    let (log, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let times = Arc::clone(&log);
    let script = Script::ready(move |_| {
        let mut times = times.lock().expect("no panic");
        times.push(start.elapsed().as_secs());
        if times.len() > 1 {
            return status(200, Vec::new());
        }
        retry_after(503, 60)
    });
    let connector = ThrottledConnector::new(script, cap(8)).bytes_sent(bytes);
    let client = client(&connector.adaptive(Arc::clone(&rate)));
    for call in join_all((0..4).map(|_| client.execute(put(400)))).await {
        call.expect("an answer");
    }
    // The second has its bytes when the pause ends, and the others wait longer for theirs.
    let times = log.lock().expect("no panic").clone();
    assert_eq!(times, [0, 60, 80, 120]);
    assert_eq!(rate.snapshot().refusals, 1);
}

#[tokio::test(start_paused = true)]
async fn adaptive_without_an_answer_counts_nothing() {
    let rate = Arc::new(AdaptiveRate::new());
    let counted = |script: Script| {
        let connector = ThrottledConnector::new(script, cap(1)).adaptive(Arc::clone(&rate));
        (client(&connector), Arc::clone(&rate))
    };
    let counts = |rate: &AdaptiveRate| (rate.snapshot().succeeded, rate.snapshot().refusals);

    let (client, rate) = counted(Script::ready(|_| status(404, Vec::new())));
    client.execute(get()).await.expect("an answer");
    assert_eq!(counts(&rate), (1, 0));

    let (client, rate) = counted(Script::ready(|_| Err(failure(HttpErrorKind::Timeout))));
    client.execute(get()).await.expect_err("a failure");
    assert_eq!(counts(&rate), (1, 0));

    let (client, rate) = counted(Script::new(|_| pending()));
    let call = client.execute(get());
    assert!(tokio::time::timeout(SECOND, call).await.is_err());
    assert_eq!(counts(&rate), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn adaptive_with_requests_in_a_wait_for_bytes_or_dropped_there_admits_the_next_at_once() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(100);
    let rate = Arc::new(AdaptiveRate::new().burst(2).clock(Clock::manual()));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(100)).bytes_sent(bytes);
    let client = client(&connector.adaptive(rate));
    let mut waits = join_all((0..50).map(|_| client.execute(put(1))));
    assert!(poll!(&mut waits).is_pending());
    let next = client.execute(get()).now_or_never();
    assert!(matches!(next, Some(Ok(_))));
    drop(waits);
    let next = client.execute(get()).now_or_never();
    assert!(matches!(next, Some(Ok(_))));
}

#[tokio::test(start_paused = true)]
async fn adaptive_behind_bytes_that_do_not_wait_serves_gets_and_puts_alike() {
    let bytes = rate(Quota::bytes_per_second(1_000_000));
    let adaptive = Arc::new(AdaptiveRate::new().limits(20.0..=20.0));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(16)).bytes_sent(bytes);
    let client = client(&connector.adaptive(adaptive));
    let end = Instant::now() + 60 * SECOND;
    let count = async |request: fn() -> HttpRequest| {
        let mut count = 0;
        while Instant::now() < end {
            client.execute(request()).await.expect("an answer");
            count += 1;
        }
        count
    };
    let gets = join_all((0..8).map(|_| count(get)));
    let puts = join_all((0..8).map(|_| count(|| put(1_000))));
    let (gets, puts) = tokio::join!(gets, puts);
    let sum = |counts: Vec<u32>| counts.into_iter().sum::<u32>();
    assert_eq!((sum(gets), sum(puts)), (609, 607));
}

#[tokio::test(start_paused = true)]
async fn adaptive_with_a_request_dropped_in_its_wait_refunds_bytes() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| retry_after(503, 60));
    let connector = ThrottledConnector::new(script, cap(2)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector.adaptive(rate));
    client.execute(get()).await.expect("an answer");
    // Both charges are refunded: that of a burst, and that of the rest.
    assert!(client.execute(put(35)).now_or_never().is_none());
    assert_eq!(bytes.snapshot().available, 10);
}

#[tokio::test(start_paused = true)]
async fn adaptive_that_waits_after_bytes_came_at_once_charges_them_once() {
    let bytes = rate(Quota::per_hour(10).burst(10));
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector.adaptive(rate));
    let start = Instant::now();
    client.execute(put(4)).await.expect("an answer");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::ZERO, 6)
    );
    client.execute(put(4)).await.expect("an answer");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (SECOND / 10, 2)
    );
}
