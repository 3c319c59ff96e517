//! Tests the waits of a request before it is sent: their length, and the events that end them.

use std::error::Error;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, poll};
use object_store::client::HttpErrorKind;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, ErrorKind, Quota, Throttle};
use tollgate_adaptive::AdaptiveRate;
use tollgate_object_store::{LimitKind, ThrottledConnector, WaitTooLong, wait_too_long};

use crate::support::{
    self, FakeS3, SECOND, Script, cap, client, frames, get, kind, path, put, rate, retry_after,
    status,
};

#[tokio::test(start_paused = true)]
async fn max_wait_without_open_bodies_counts_none() {
    let connector = ThrottledConnector::new(Script::new(|_| pending()), cap(0)).max_wait(SECOND);
    let start = Instant::now();
    let error = client(&connector)
        .execute(get())
        .await
        .expect_err("a refusal");
    assert_eq!(start.elapsed(), SECOND);
    let source = error.source().expect("a source");
    assert_eq!(source.to_string(), "not admitted by the throttle within 1s");
}

#[tokio::test(start_paused = true)]
async fn max_wait_beside_requests_that_nobody_polls_counts_them() {
    let (fake, cap) = (FakeS3::default(), cap(1));
    let script = Script::new(move |request| {
        let fake = fake.clone();
        async move {
            tokio::time::sleep(SECOND).await;
            Ok(fake.call(request).await)
        }
    });
    let connector = ThrottledConnector::new(script, Arc::clone(&cap));
    let store = support::store("http://fake", connector, RetryConfig::default());
    let paths = (0..6_000).map(|n| Ok(Path::from(n.to_string())));
    let mut deleted = store.delete_stream(stream::iter(paths).boxed());
    deleted
        .next()
        .await
        .expect("an item")
        .expect("it is deleted");
    // Only `next` polls the requests of the stream, and one of them has been granted the permit.
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (0, 4));
    let error = store.head(&path("a")).await.expect_err("a refusal");
    let wait = wait_too_long(&error).expect("a wait that was too long");
    assert_eq!((wait.bodies(), wait.requests()), (0, 5));
    assert_eq!(
        wait.to_string(),
        "not admitted by the throttle within 120s; 5 other requests hold a permit or wait for one: if nothing polls \
         them during this request, spawn them, or make this one after them"
    );
    drop(deleted);
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn max_wait_beside_an_admitted_request_that_nobody_polls_counts_it() {
    let connector = ThrottledConnector::new(Script::new(|_| pending()), cap(1)).max_wait(SECOND);
    let client = client(&connector);
    let mut unpolled = pin!(client.execute(get()));
    assert!(poll!(&mut unpolled).is_pending());
    let error = client.execute(get()).await.expect_err("a refusal");
    let wait = wait_too_long(&error).expect("a wait that was too long");
    assert_eq!((wait.bodies(), wait.requests()), (0, 1));
    assert_eq!(
        wait.to_string(),
        "not admitted by the throttle within 1s; 1 other request holds a permit or waits for one: if nothing polls \
         it during this request, spawn it, or make this one after it"
    );
}

#[tokio::test(start_paused = true)]
async fn max_wait_of_duration_max_waits_for_days() {
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
async fn max_wait_over_two_limits_is_one_deadline() {
    let cap = cap(0);
    let bytes = rate(Quota::per_second(4).burst(4));
    bytes.charge(9);
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&bytes))
        .max_wait(2 * SECOND);
    let client = client(&connector);
    let start = Instant::now();
    let call = tokio::spawn(async move { client.execute(put(4)).await });
    tokio::time::sleep(SECOND / 2).await;
    cap.add_permits(1);
    assert!(call.await.expect("no panic").is_err());
    // The limiter knows that the bytes come after 2.25 s: within 2 s of this wait, but not of the first one.
    assert_eq!(start.elapsed(), SECOND / 2);
    assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn max_wait_with_a_timeout_of_the_throttle_is_not_wait_too_long() {
    let throttle = Impatient(cap(0));
    let script = Script::new(|_| pending());
    let client = client(&ThrottledConnector::new(script, throttle));
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::TimedOut));
    assert_eq!(wait_too_long(&error), None);
}

/// A throttle whose waits end after a second.
#[derive(Clone)]
struct Impatient<T>(T);

impl<T> Throttle for Impatient<T>
where
    T: Throttle<Enter: Send + 'static>,
{
    type Permit = T::Permit;
    type Enter = BoxFuture<'static, Result<T::Permit, AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(Box::pin(self.0.enter().timeout(SECOND)))
    }
}

#[tokio::test(start_paused = true)]
async fn max_wait_with_a_shorter_timeout_of_the_throttle_is_wait_too_long_if_it_would_be_too() {
    let requests = rate(Quota::per_minute(1));
    let script = Script::ready(|_| status(200, Vec::new()));
    let connector = ThrottledConnector::new(script, Impatient(requests));
    client(&connector).execute(get()).await.expect("an answer");
    // The limiter reports that the next request is possible in a minute.
    for (max_wait, is_too_long) in [(61 * SECOND, false), (59 * SECOND, true)] {
        let client = client(&connector.clone().max_wait(max_wait));
        let error = client.execute(get()).await.expect_err("a refusal");
        assert_eq!(kind(&error), Some(ErrorKind::TimedOut));
        assert_eq!(wait_too_long(&error).is_some(), is_too_long);
    }
}

#[tokio::test(start_paused = true)]
async fn execute_with_a_closed_throttle_returns_closed() {
    let cap = cap(1);
    cap.close();
    let client = client(&ThrottledConnector::new(Script::new(|_| pending()), cap));
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(error.kind(), HttpErrorKind::Unknown);
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn execute_dropped_in_the_request_returns_the_permit_and_keeps_the_charge() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    let connector = ThrottledConnector::new(Script::new(|_| pending()), Arc::clone(&cap));
    let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
    let call = client.execute(put(4)).now_or_never();
    assert!(call.is_none());
    assert_eq!(
        (cap.available_permits(), bytes.snapshot().available),
        (1, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn execute_dropped_in_a_wait_returns_everything() {
    let (cap, bytes) = (cap(1), rate(Quota::per_second(10).burst(10)));
    let requests = rate(Quota::per_second(5).burst(5));
    let throttle = tollgate::all((Arc::clone(&cap), Arc::clone(&requests)));
    let connector = ThrottledConnector::new(Script::new(|_| pending()), throttle);
    let client = client(&connector.bytes_sent(Arc::clone(&bytes)));
    bytes.charge(3);
    let call = client.execute(put(14));
    assert!(tokio::time::timeout(SECOND / 10, call).await.is_err());
    assert_eq!(
        (cap.available_permits(), requests.snapshot().available),
        (1, 5)
    );
    assert_eq!(
        (bytes.snapshot().available, bytes.snapshot().waiting),
        (8, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn cancel_on_a_cancelled_token_ends_waits_and_no_requests() {
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
    // The first is sent, the second waits for bytes, and the third for a permit.
    let calls = [call(1), call(10), call(0)];
    tokio::time::sleep(SECOND / 2).await;
    let start = Instant::now();
    token.cancel();
    let [first, second, third] = calls;
    for refused in [second, third] {
        let error = refused.await.expect("no panic").expect_err("a refusal");
        assert_eq!(kind(&error), Some(ErrorKind::Cancelled));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    first.await.expect("no panic").expect("an answer");
    assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (2, 0));
    let error = client.execute(get()).await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn clone_shares_the_limits() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a")])));
    let connector = ThrottledConnector::new(script, cap).max_wait(SECOND);
    let _open = client(&connector).execute(get()).await.expect("an answer");
    let error = client(&connector.clone()).execute(get()).await;
    let error = error.expect_err("a refusal");
    let source = wait_too_long(&error);
    assert_eq!(source.map(WaitTooLong::bodies), Some(1));
}

#[tokio::test(start_paused = true)]
async fn max_wait_names_the_limit_and_counts_open_bodies_for_the_throttle_alone() {
    let (cap, bytes) = (cap(2), rate(Quota::per_second(1).burst(1)));
    let calls = AtomicUsize::new(0);
    let script = Script::ready(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => status(200, frames([Ok("a")])),
        _ => retry_after(503, 3_600),
    });
    let connector = ThrottledConnector::new(script, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&bytes))
        .adaptive(Arc::new(AdaptiveRate::new().clock(Clock::tokio())))
        .max_wait(SECOND);
    let client = client(&connector);
    let _open = client.execute(get()).await.expect("an answer");
    let counted = async |request| {
        let error = client.execute(request).await.expect_err("a refusal");
        let wait = wait_too_long(&error).expect("a wait that was too long");
        (wait.limit(), wait.bodies(), wait.requests())
    };
    let held = cap.try_acquire().expect("a permit");
    assert_eq!(counted(get()).await, (LimitKind::Throttle, 1, 0));
    drop(held);
    bytes.charge(100);
    assert_eq!(counted(put(1)).await, (LimitKind::BytesSent, 0, 0));
    client.execute(get()).await.expect("an answer");
    assert_eq!(counted(get()).await, (LimitKind::AdaptiveRate, 0, 0));
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn execute_with_a_limit_closed_in_its_wait_returns_closed() {
    let (cap, bytes) = (cap(2), rate(Quota::per_second(1).burst(1)));
    bytes.charge(10);
    let adaptive = Arc::new(AdaptiveRate::new().clock(Clock::tokio()));
    let script = Script::ready(|_| retry_after(503, 60));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&bytes))
        .adaptive(Arc::clone(&adaptive));
    let client = client(&connector);
    client.execute(get()).await.expect("an answer");
    let call = |length| {
        let client = client.clone();
        tokio::spawn(async move { client.execute(put(length)).await })
    };
    // One waits for the adaptive rate, one for bytes, and one for a permit.
    let calls = [call(0), call(10), call(0)];
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        (
            adaptive.snapshot().waiting,
            bytes.snapshot().waiting,
            cap.snapshot().waiting
        ),
        (1, 1, 1)
    );
    let start = Instant::now();
    cap.close();
    bytes.close();
    adaptive.close();
    for call in calls {
        let error = call.await.expect("no panic").expect_err("a refusal");
        assert_eq!(kind(&error), Some(ErrorKind::Closed));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (2, 0));
}
