//! Tests the limits of bytes, sent and received.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, poll};
use http_body_util::BodyExt;
use object_store::client::{HttpErrorKind, HttpRequest};
use tokio::time::Instant;
use tollgate::{Clock, ErrorKind, Quota, Semaphore};
use tollgate_adaptive::AdaptiveRate;
use tollgate_object_store::{ThrottledConnector, WaitTooLong, wait_too_long};

use crate::support::{
    SECOND, Script, cap, client, failure, get, kind, put, rate, retry_after, status,
};

/// Returns the seconds after which the server receives each of these bodies, sent together.
async fn sent_after(
    connector: impl FnOnce(Script) -> ThrottledConnector<Script, Arc<Semaphore>>,
    bodies: impl IntoIterator<Item = usize>,
) -> Vec<u64> {
    let (log, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let times = Arc::clone(&log);
    let script = Script::ready(move |_| {
        let mut times = times.lock().expect("no panic");
        times.push(start.elapsed().as_secs());
        status(200, Vec::new())
    });
    let client = client(&connector(script));
    let calls = bodies.into_iter().map(|length| client.execute(put(length)));
    for call in join_all(calls).await {
        call.expect("an answer");
    }
    log.lock().expect("no panic").clone()
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_are_charged_before_the_request_is_made() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let seen = Arc::clone(&bytes);
    let script = Script::ready(move |_| {
        assert_eq!(seen.snapshot().available, 3);
        status(200, Vec::new())
    });
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    client.execute(put(7)).await.expect("an answer");
    assert_eq!(bytes.snapshot().available, 3);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_above_the_burst_wait_for_a_burst_and_delay_the_next() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    let start = Instant::now();
    client.execute(put(35)).await.expect("an answer");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::ZERO, 0)
    );
    // The next body is sent when its bytes, or a burst, are available.
    client.execute(put(1)).await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 26 / 10);
    client.execute(put(35)).await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 36 / 10);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_with_a_quota_that_shrinks_wait_for_the_smaller_burst() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(10);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    let call = tokio::spawn(async move { client.execute(put(10)).await });
    tokio::task::yield_now().await;
    assert_eq!(bytes.snapshot().waiting, 1);
    let start = Instant::now();
    bytes.set_quota(Quota::per_second(10).burst(3));
    call.await.expect("no panic").expect("an answer");
    // The burst is 3 bytes now, and the other 7 are charged with them.
    assert_eq!(start.elapsed(), SECOND * 3 / 10);
    assert_eq!(
        (bytes.snapshot().waiting, bytes.snapshot().available),
        (0, 0)
    );
    let next = bytes.peek().retry_after.unwrap();
    assert_eq!(next, SECOND * 8 / 10);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_with_a_quota_lowered_and_raised_again_are_sent() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(10);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    let mut call = pin!(client.execute(put(10)));
    assert!(poll!(&mut call).is_pending());
    let start = Instant::now();
    // The wait for 10 bytes is refused by the first change, and is not polled before the second.
    bytes.set_quota(Quota::per_second(10).burst(3));
    bytes.set_quota(Quota::per_second(10).burst(10));
    call.await.expect("an answer");
    let elapsed = start.elapsed();
    assert_eq!(
        (bytes.snapshot().waiting, bytes.snapshot().available),
        (0, 0)
    );
    // All 10 bytes are charged, however many of them the body waited for.
    let next = bytes.peek().retry_after.unwrap();
    assert_eq!(
        (elapsed, elapsed + next),
        (SECOND * 3 / 10, SECOND * 11 / 10)
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_with_a_burst_of_1_make_two_charges() {
    let bytes = rate(Quota::per_second(10_000_000));
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(bytes));
    let start = Instant::now();
    client.execute(put(8 << 20)).await.expect("an answer");
    assert_eq!(start.elapsed(), Duration::ZERO);
    client.execute(put(1)).await.expect("an answer");
    // The timer of tokio counts milliseconds.
    assert_eq!(start.elapsed(), Duration::from_millis(839));
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_without_a_body_do_not_wait() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(1_000);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(2)).bytes_sent(bytes));
    // This body waits.
    let mut body = pin!(client.execute(put(1)));
    assert!(poll!(&mut body).is_pending());
    let start = Instant::now();
    client.execute(get()).await.expect("an answer");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_to_a_refused_connection_are_refunded() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    for (kind, left) in [(HttpErrorKind::Connect, 10), (HttpErrorKind::Request, 0)] {
        let script = Script::ready(move |_| Err(failure(kind)));
        let connector = ThrottledConnector::new(script, Arc::clone(&cap));
        let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
        let error = client.execute(put(35)).await.expect_err("a failure");
        assert_eq!(error.kind(), kind);
        assert_eq!(
            (bytes.snapshot().available, cap.available_permits()),
            (left, 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_by_16_bodies_above_the_burst_follow_each_other() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let connector = |script| {
        let connector = ThrottledConnector::new(script, cap(16)).bytes_sent(bytes);
        connector.max_wait(Duration::MAX)
    };
    let times = sent_after(connector, [100; 16]).await;
    let expected: Vec<_> = (0..16).map(|number| number * 10).collect();
    assert_eq!(times, expected);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_by_bodies_beyond_max_wait_fail_alone() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(16)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector);
    let answers = join_all((0..16).map(|_| client.execute(put(100)))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 13);
    for error in answers.into_iter().filter_map(Result::err) {
        // No body holds a permit, and the waits for bytes are not due to bodies.
        assert_eq!(wait_too_long(&error).map(WaitTooLong::bodies), Some(0));
    }
    // A body of any size is sent when a burst is available.
    let start = Instant::now();
    client.execute(put(10_000)).await.expect("an answer");
    assert_eq!(start.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_by_a_request_that_nobody_polls_delay_others_by_its_first_bytes() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(10);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(100)).bytes_sent(bytes));
    let mut unpolled = pin!(client.execute(put(30)));
    assert!(poll!(&mut unpolled).is_pending());
    let start = Instant::now();
    client.execute(put(1)).await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 11 / 10);
    // It has been granted, and is sent when it is polled.
    unpolled.await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 11 / 10);
    client.execute(put(1)).await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 32 / 10);
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_by_buffered_requests_do_not_hold_up_those_between_their_results() {
    let bytes = rate(Quota::per_second(10_000_000).burst(200_000));
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(100)).bytes_sent(bytes));
    let start = Instant::now();
    let puts = stream::iter((0..16).map(|_| client.execute(put(1_000_000))));
    let mut puts = puts.buffer_unordered(8);
    while let Some(answer) = puts.next().await {
        answer.expect("an answer");
        client.execute(put(1)).await.expect("an answer");
    }
    // The time is that of the bytes of all bodies, minus the burst, in the milliseconds of the timer.
    assert_eq!(start.elapsed(), Duration::from_millis(1_581));
}

#[tokio::test(start_paused = true)]
async fn bytes_received_are_charged_while_they_are_read() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1_000).burst(1_000)));
    let script = Script::ready(|_| status(200, vec![0; 3_500]));
    let connector =
        ThrottledConnector::new(script, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let start = Instant::now();
    let answer = client(&connector).execute(get()).await.expect("an answer");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::ZERO, 1_000)
    );
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!((body.len(), start.elapsed()), (3_500, SECOND * 5 / 2));
    assert_eq!(
        (bytes.snapshot().available, cap.available_permits()),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_received_by_a_body_dropped_in_a_wait_are_those_that_were_read() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1_000).burst(1_000)));
    bytes.charge(1_000);
    let script = Script::ready(|_| status(200, vec![0; 3_500]));
    let connector =
        ThrottledConnector::new(script, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let answer = client(&connector).execute(get()).await.expect("an answer");
    let mut body = answer.into_body();
    assert!(body.frame().now_or_never().is_none());
    assert_eq!((bytes.snapshot().waiting, cap.available_permits()), (1, 0));
    drop(body);
    assert_eq!((bytes.snapshot().waiting, cap.available_permits()), (0, 1));
    tokio::time::advance(SECOND).await;
    assert_eq!(bytes.snapshot().available, 1_000);
}

#[tokio::test(start_paused = true)]
async fn bytes_received_at_a_closed_limiter_fail_the_body_and_the_next_request() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1_000).burst(1_000)));
    let script = Script::ready(|_| status(200, vec![0; 3_500]));
    let connector =
        ThrottledConnector::new(script, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let client = client(&connector);
    let answer = client.execute(get()).await.expect("an answer");
    bytes.close();
    let error = answer.into_body().bytes().await.expect_err("a refusal");
    assert_eq!(error.kind(), HttpErrorKind::Unknown);
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
    assert_eq!(cap.available_permits(), 1);
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn bytes_received_by_a_refusal_are_not_charged() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1).burst(1)));
    bytes.charge(1_000);
    let script = Script::ready(|_| status(503, "slow down".to_owned()));
    let connector = ThrottledConnector::new(script, cap).bytes_received(bytes);
    let start = Instant::now();
    let answer = client(&connector).execute(get()).await.expect("an answer");
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!(
        (&body[..], start.elapsed()),
        (&b"slow down"[..], Duration::ZERO)
    );
}

// Tests the adaptive rate: the responses that change it, and the requests that it pauses.

#[tokio::test(start_paused = true)]
async fn adaptive_after_slow_down_cuts_the_rate() {
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
    let script = Script::ready(|_| status(503, "SlowDown".to_owned()));
    let client = client(&ThrottledConnector::new(script, cap(1)).adaptive(Arc::clone(&rate)));
    client.execute(get()).await.expect("an answer");
    assert_eq!((rate.rate(), rate.snapshot().refusals), (8.5, 1));
}

#[tokio::test(start_paused = true)]
async fn adaptive_after_retry_after_pauses_the_next_request() {
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
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
        Arc::new(AdaptiveRate::new().clock(Clock::tokio())),
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
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
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
    let adaptive = Arc::new(
        AdaptiveRate::new()
            .limits(20.0..=20.0)
            .clock(Clock::tokio()),
    );
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
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
    let script = Script::ready(|_| retry_after(503, 60));
    let connector = ThrottledConnector::new(script, cap(2)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector.adaptive(rate));
    client.execute(get()).await.expect("an answer");
    // Both charges are refunded: the one for a burst, and the one for the rest.
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
