//! One request behind its limits.

use std::error::Error;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::client::{HttpErrorKind, HttpResponseBody};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::adaptive::AdaptiveRate;
use tollgate::fair::{Class, FairQueue};
use tollgate::{AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle};
use tollgate_object_store::{Hold, ThrottledConnector, WaitTooLong, cause, wait_too_long};

use crate::support::{Script, client, failure, frames, get, put, status};

fn cap(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

fn rate(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota))
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn body_read_to_its_end_frees_the_permit_with_the_end() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    for _ in 0..2 {
        assert!(matches!(body.frame().await, Some(Ok(_))));
        assert_eq!(cap.available_permits(), 0);
    }
    assert!(body.frame().await.is_none());
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_dropped_half_read_frees_the_permit() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    assert!(matches!(body.frame().await, Some(Ok(_))));
    assert_eq!(cap.available_permits(), 0);
    drop(body);
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_that_fails_frees_the_permit_in_the_same_poll() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Err(HttpErrorKind::Request)])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    assert!(matches!(body.frame().await, Some(Ok(_))));
    assert_eq!(cap.available_permits(), 0);
    assert!(matches!(body.frame().await, Some(Err(_))));
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_that_is_empty_holds_nothing() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let _answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn hold_head_frees_the_permit_at_the_head() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a")])));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap)).hold(Hold::Head);
    let answer = client(&connector).execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "a");
}

#[tokio::test(start_paused = true)]
async fn refusal_is_read_and_holds_nothing() {
    let cap = cap(1);
    let script = Script::ready(|_| status(503, frames([Ok("slow "), Ok("down")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
    assert_eq!(answer.status(), 503);
    assert_eq!(
        answer.into_body().bytes().await.expect("a body"),
        "slow down"
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_is_cut_at_64_kib() {
    let script = Script::ready(|_| status(503, vec![b'a'; 70_000]));
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!(body.len(), 64 << 10);
}

#[tokio::test(start_paused = true)]
async fn refusal_that_breaks_keeps_its_status_and_fails_after_what_was_read() {
    let cap = cap(1);
    let script = Script::ready(|_| status(503, frames([Ok("slow"), Err(HttpErrorKind::Request)])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(
        (answer.status(), cap.available_permits()),
        (503.try_into().unwrap(), 1)
    );
    let mut body = answer.into_body();
    let frame = body.frame().await.expect("a frame").expect("data");
    assert_eq!(frame.into_data().expect("data"), "slow");
    let error = body.frame().await.expect("a frame").expect_err("a failure");
    assert_eq!(error.kind(), HttpErrorKind::Request);
}

#[tokio::test(start_paused = true)]
async fn call_keeps_the_extensions_of_the_response() {
    let script = Script::ready(|_| {
        let mut answer = status(200, "a".to_owned())?;
        answer.extensions_mut().insert(7_u8);
        Ok(answer)
    });
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(answer.extensions().get(), Some(&7_u8));
}

#[tokio::test(start_paused = true)]
async fn merge_of_8_bodies_under_a_cap_of_4_finishes_with_head() {
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let connector = ThrottledConnector::new(script, cap(4)).hold(Hold::Head);
    let client = client(&connector);
    let mut bodies = Vec::new();
    for _ in 0..8 {
        bodies.push(client.execute(get()).await.expect("an answer").into_body());
    }
    for body in bodies {
        assert_eq!(body.bytes().await.expect("a body"), "ab");
    }
}

#[tokio::test(start_paused = true)]
async fn merge_of_8_bodies_under_a_cap_of_4_is_wait_too_long_that_names_4_bodies() {
    let cap = cap(4);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answers = join_all((0..8).map(|_| client.execute(get()))).await;
    let (open, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((open.len(), refused.len()), (4, 4));
    for refused in refused {
        let error = refused.expect_err("a refusal");
        assert_eq!(error.kind(), HttpErrorKind::Unknown, "it is not repeated");
        let source = error
            .source()
            .and_then(|source| source.downcast_ref::<WaitTooLong>());
        let source = source.expect("a wait that was too long");
        assert_eq!(
            (source.bodies(), source.max_wait()),
            (4, Duration::from_secs(120))
        );
        assert_eq!(
            source.to_string(),
            "not admitted within 120s; 4 response bodies that have not been read to their end hold a \
             permit each: if they wait for this request, read or drop them first, or use Hold::Head"
        );
        assert_eq!(
            cause(&error).map(AcquireError::kind),
            Some(ErrorKind::TimedOut)
        );
    }
    drop(open);
    assert_eq!((cap.available_permits(), cap.waiting()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn wait_too_long_without_a_body_names_none() {
    let connector = ThrottledConnector::new(Script::new(|_| pending()), cap(0)).max_wait(SECOND);
    let start = Instant::now();
    let error = client(&connector)
        .execute(get())
        .await
        .expect_err("a refusal");
    assert_eq!(start.elapsed(), SECOND);
    let source = error.source().expect("a source");
    assert_eq!(source.to_string(), "not admitted within 1s");
}

#[tokio::test(start_paused = true)]
async fn max_wait_without_end_waits_for_days() {
    let cap = cap(0);
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap)).max_wait(Duration::MAX);
    let client = client(&connector);
    let call = tokio::spawn(async move { client.execute(get()).await });
    tokio::time::sleep(Duration::from_secs(864_000)).await;
    assert!(!call.is_finished());
    cap.add_permits(1);
    assert!(call.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn max_wait_holds_for_all_waits_together() {
    let cap = cap(0);
    let bytes = rate(Quota::per_second(1).burst(1));
    bytes.charge(1);
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&bytes))
        .max_wait(2 * SECOND);
    let client = client(&connector);
    let start = Instant::now();
    let call = tokio::spawn(async move { client.execute(put(3)).await });
    tokio::time::sleep(SECOND / 2).await;
    cap.add_permits(1);
    assert!(call.await.expect("no panic").is_err());
    // The first byte comes after 1 s. The limiter then knows that the third comes after 3 s.
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!((cap.available_permits(), bytes.waiting()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn closed_throttle_is_an_error_with_its_cause() {
    let cap = cap(1);
    cap.close();
    let client = client(&ThrottledConnector::new(Script::new(|_| pending()), cap));
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(error.kind(), HttpErrorKind::Unknown);
    assert_eq!(
        cause(&error).map(AcquireError::kind),
        Some(ErrorKind::Closed)
    );
}

#[tokio::test(start_paused = true)]
async fn boxed_throttle_makes_a_body_that_holds_its_permit() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, "a".to_owned()));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap).boxed()));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 0);
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "a");
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn call_dropped_in_the_request_frees_the_permit_and_keeps_the_charge() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    let connector = ThrottledConnector::new(Script::new(|_| pending()), Arc::clone(&cap));
    let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
    let call = client.execute(put(4)).now_or_never();
    assert!(call.is_none());
    assert_eq!((cap.available_permits(), bytes.available()), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn call_dropped_in_a_wait_gives_everything_back() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    let requests = rate(Quota::per_second(5).burst(5));
    let throttle = tollgate::all((Arc::clone(&cap), Arc::clone(&requests)));
    let connector = ThrottledConnector::new(Script::new(|_| pending()), throttle);
    let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
    // The second step waits.
    let call = client.execute(put(14));
    assert!(tokio::time::timeout(SECOND / 10, call).await.is_err());
    assert_eq!((cap.available_permits(), requests.available()), (1, 5));
    assert_eq!((bytes.available(), bytes.waiting()), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn bytes_are_charged_before_the_request_is_made() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let seen = Arc::clone(&bytes);
    let script = Script::ready(move |_| {
        assert_eq!(seen.available(), 3);
        status(200, Vec::new())
    });
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    client.execute(put(7)).await.expect("an answer");
    assert_eq!(bytes.available(), 3);
}

#[tokio::test(start_paused = true)]
async fn bytes_above_the_burst_are_charged_in_steps() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    let start = Instant::now();
    client.execute(put(35)).await.expect("an answer");
    assert_eq!(start.elapsed(), SECOND * 5 / 2);
    assert_eq!(bytes.available(), 0);
}

#[tokio::test(start_paused = true)]
async fn bytes_with_a_quota_that_shrinks_are_charged_in_smaller_steps() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(10);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(Arc::clone(&bytes)));
    let call = tokio::spawn(async move { client.execute(put(10)).await });
    tokio::task::yield_now().await;
    assert_eq!(bytes.waiting(), 1);
    let start = Instant::now();
    bytes.set_quota(Quota::per_second(10).burst(3));
    call.await.expect("no panic").expect("an answer");
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!(bytes.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_request_without_a_body_are_none_and_do_not_wait() {
    let bytes = rate(Quota::per_second(10).burst(10));
    bytes.charge(1_000);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(bytes));
    let start = Instant::now();
    client.execute(get()).await.expect("an answer");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_refunded_if_there_was_no_connection() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    for (kind, left) in [(HttpErrorKind::Connect, 10), (HttpErrorKind::Request, 0)] {
        let script = Script::ready(move |_| Err(failure(kind)));
        let connector = ThrottledConnector::new(script, Arc::clone(&cap));
        let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
        let error = client.execute(put(35)).await.expect_err("a failure");
        assert_eq!(error.kind(), kind);
        assert_eq!((bytes.available(), cap.available_permits()), (left, 1));
    }
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
        (start.elapsed(), bytes.available()),
        (Duration::ZERO, 1_000)
    );
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!((body.len(), start.elapsed()), (3_500, SECOND * 5 / 2));
    assert_eq!((bytes.available(), cap.available_permits()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn bytes_received_by_a_body_that_is_dropped_in_a_wait_are_those_that_were_read() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1_000).burst(1_000)));
    bytes.charge(1_000);
    let script = Script::ready(|_| status(200, vec![0; 3_500]));
    let connector =
        ThrottledConnector::new(script, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let answer = client(&connector).execute(get()).await.expect("an answer");
    let mut body = answer.into_body();
    assert!(body.frame().now_or_never().is_none());
    assert_eq!((bytes.waiting(), cap.available_permits()), (1, 0));
    drop(body);
    assert_eq!((bytes.waiting(), cap.available_permits()), (0, 1));
    tokio::time::advance(SECOND).await;
    assert_eq!(bytes.available(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn bytes_received_by_a_closed_limiter_fail_the_body_and_the_next_request() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(1_000).burst(1_000)));
    let script = Script::ready(|_| status(200, vec![0; 3_500]));
    let connector =
        ThrottledConnector::new(script, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let client = client(&connector);
    let answer = client.execute(get()).await.expect("an answer");
    bytes.close();
    let error = answer.into_body().bytes().await.expect_err("a refusal");
    assert_eq!(error.kind(), HttpErrorKind::Unknown);
    assert_eq!(
        cause(&error).map(AcquireError::kind),
        Some(ErrorKind::Closed)
    );
    assert_eq!(cap.available_permits(), 1);
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(
        cause(&error).map(AcquireError::kind),
        Some(ErrorKind::Closed)
    );
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancel_on_ends_waits_and_no_requests() {
    let (cap, bytes) = (cap(2), rate(Quota::per_second(1).burst(1)));
    let token = CancellationToken::new();
    let script = Script::new(|_| async {
        tokio::time::sleep(SECOND).await;
        status(200, Vec::new())
    });
    let connector = ThrottledConnector::new(script, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&bytes))
        .cancel_on(token.clone());
    let client = client(&connector);
    let call = |length| {
        let client = client.clone();
        tokio::spawn(async move { client.execute(put(length)).await })
    };
    // The first is made, the second waits for bytes, and the third for a permit.
    let calls = [call(1), call(10), call(0)];
    tokio::time::sleep(SECOND / 2).await;
    let start = Instant::now();
    token.cancel();
    let [first, second, third] = calls;
    for refused in [second, third] {
        let error = refused.await.expect("no panic").expect_err("a refusal");
        assert_eq!(
            cause(&error).map(AcquireError::kind),
            Some(ErrorKind::Cancelled)
        );
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    first.await.expect("no panic").expect("an answer");
    assert_eq!((cap.available_permits(), bytes.waiting()), (2, 0));
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(
        cause(&error).map(AcquireError::kind),
        Some(ErrorKind::Cancelled)
    );
}

#[tokio::test(start_paused = true)]
async fn adaptive_slow_down_cuts_the_rate() {
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| status(503, "SlowDown".to_owned()));
    let client = client(&ThrottledConnector::new(script, cap(1)).adaptive(Arc::clone(&rate)));
    client.execute(get()).await.expect("an answer");
    assert_eq!((rate.rate(), rate.snapshot().refusals), (8.5, 1));
}

#[tokio::test(start_paused = true)]
async fn adaptive_retry_after_pauses_the_next_request() {
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| {
        let mut answer = status(429, Vec::new())?;
        answer.headers_mut().insert("retry-after", 3.into());
        Ok(answer)
    });
    let client = client(&ThrottledConnector::new(script, cap(1)).adaptive(rate));
    let start = Instant::now();
    client.execute(get()).await.expect("an answer");
    client.execute(get()).await.expect("an answer");
    assert_eq!(start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn adaptive_counts_answers_and_no_others() {
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
async fn clones_share_the_limits() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a")])));
    let connector = ThrottledConnector::new(script, cap).max_wait(SECOND);
    let _open = client(&connector).execute(get()).await.expect("an answer");
    let error = client(&connector.clone()).execute(get()).await;
    let error = error.expect_err("a refusal");
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<WaitTooLong>());
    assert_eq!(source.map(WaitTooLong::bodies), Some(1));
}

/// The seconds after which the server gets each of these bodies, sent together.
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
async fn bytes_of_bodies_above_the_burst_are_charged_one_body_after_the_other() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let connector = |script| {
        let connector = ThrottledConnector::new(script, cap(16)).bytes_sent(bytes);
        connector.max_wait(Duration::MAX)
    };
    let times = sent_after(connector, [100; 16]).await;
    let expected: Vec<_> = (1..=16).map(|number| number * 10 - 1).collect();
    assert_eq!(times, expected);
}

#[tokio::test(start_paused = true)]
async fn bytes_of_bodies_that_do_not_fit_in_max_wait_fail_alone() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(16)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector);
    let answers = join_all((0..16).map(|_| client.execute(put(100)))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 12);
    for error in answers.into_iter().filter_map(Result::err) {
        // Nobody holds a permit by a body, and bytes are not waited for because of bodies.
        assert_eq!(wait_too_long(&error).map(WaitTooLong::bodies), Some(0));
    }
    // A body that can never be sent charges nothing, and does not wait.
    let start = Instant::now();
    tokio::time::advance(10 * SECOND).await;
    client.execute(put(10_000)).await.expect_err("a refusal");
    assert_eq!((start.elapsed(), bytes.available()), (10 * SECOND, 10));
}

#[tokio::test(start_paused = true)]
async fn bytes_with_a_burst_of_one_make_few_charges() {
    let bytes = rate(Quota::per_second(10_000_000));
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, cap(1)).bytes_sent(bytes));
    let start = Instant::now();
    client.execute(put(8 << 20)).await.expect("an answer");
    // The timer of tokio counts milliseconds.
    assert_eq!(start.elapsed(), Duration::from_millis(839));
}

#[tokio::test(start_paused = true)]
async fn adaptive_retry_after_pauses_requests_that_wait_for_bytes() {
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
        let mut answer = status(503, Vec::new())?;
        answer.headers_mut().insert("retry-after", 60.into());
        Ok(answer)
    });
    let connector = ThrottledConnector::new(script, cap(8)).bytes_sent(bytes);
    let client = client(&connector.adaptive(Arc::clone(&rate)));
    for call in join_all((0..4).map(|_| client.execute(put(20)))).await {
        call.expect("an answer");
    }
    // The second has its bytes when the pause ends, and the others wait for theirs.
    let times = log.lock().expect("no panic").clone();
    assert_eq!(times, [1, 61, 62, 64]);
    assert_eq!(rate.snapshot().refusals, 1);
}

#[tokio::test(start_paused = true)]
async fn adaptive_is_not_charged_for_a_request_that_is_dropped_in_a_wait_for_bytes() {
    let (bytes, rate) = (
        rate(Quota::per_second(10).burst(10)),
        Arc::new(AdaptiveRate::new()),
    );
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, cap(1)).bytes_sent(bytes);
    let client = client(&connector.adaptive(Arc::clone(&rate)));
    assert!(client.execute(put(100)).now_or_never().is_none());
    assert_eq!(rate.snapshot().succeeded, 0);
}

#[tokio::test(start_paused = true)]
async fn call_dropped_in_the_wait_for_the_adaptive_rate_refunds_its_bytes() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let rate = Arc::new(AdaptiveRate::new());
    let script = Script::ready(|_| {
        let mut answer = status(503, Vec::new())?;
        answer.headers_mut().insert("retry-after", 60.into());
        Ok(answer)
    });
    let connector = ThrottledConnector::new(script, cap(2)).bytes_sent(Arc::clone(&bytes));
    let client = client(&connector.adaptive(rate));
    client.execute(get()).await.expect("an answer");
    assert!(client.execute(put(10)).now_or_never().is_none());
    assert_eq!(bytes.available(), 10);
}

#[tokio::test(start_paused = true)]
async fn refusal_whose_body_stalls_holds_its_permit_for_a_second() {
    let cap = cap(1);
    let script = Script::ready(|_| {
        let data = stream::iter([Ok(Frame::data(Bytes::from_static(b"slow")))]);
        status(
            503,
            HttpResponseBody::new(StreamBody::new(data.chain(stream::pending()))),
        )
    });
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let start = Instant::now();
    let call = client.execute(get());
    let mut call = std::pin::pin!(call);
    assert!(futures_util::poll!(&mut call).is_pending());
    assert_eq!(cap.available_permits(), 0);
    let answer = call.await.expect("an answer");
    assert_eq!((start.elapsed(), cap.available_permits()), (SECOND, 1));
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "slow");
}

#[tokio::test(start_paused = true)]
async fn refusal_does_not_wait_for_received_bytes() {
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

#[tokio::test(start_paused = true)]
async fn refusal_is_not_cut_inside_a_character() {
    let script = Script::ready(|_| status(404, format!("aa{}", "\u{20ac}".repeat(30_000))));
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    let body = answer.into_body().bytes().await.expect("a body");
    let text = String::from_utf8(body.into()).expect("text");
    // Two bytes of the next character would have room.
    assert_eq!(text.len(), (64 << 10) - 2);
}

#[tokio::test(start_paused = true)]
async fn timeout_of_the_throttle_itself_is_no_wait_too_long() {
    let cap = cap(0);
    let queue = FairQueue::new(Arc::clone(&cap)).classes(|_| Class::new().max_queue_time(SECOND));
    let throttle = queue.clock(Clock::tokio()).class(1);
    let client = client(&ThrottledConnector::new(
        Script::new(|_| pending()),
        throttle,
    ));
    let release = async {
        tokio::time::sleep(5 * SECOND).await;
        cap.add_permits(1);
    };
    let (answer, ()) = tokio::join!(client.execute(get()), release);
    let error = answer.expect_err("a refusal");
    assert_eq!(
        cause(&error).map(AcquireError::kind),
        Some(ErrorKind::TimedOut)
    );
    assert_eq!(wait_too_long(&error), None);
}
