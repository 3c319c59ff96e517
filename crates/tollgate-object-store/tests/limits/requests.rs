//! Which requests object_store makes, and what each of them takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::HttpErrorKind;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::time::Instant;
use tollgate::{ErrorKind, Quota, RateLimiter};
use tollgate_object_store::ThrottledConnector;

use crate::fake_s3::{self, FakeS3};
use crate::support::{Counted, Script, delete_listed, frames, kind, status};

/// A store whose requests are answered by a script.
fn store(counted: &Counted, script: Script) -> AmazonS3 {
    let connector = ThrottledConnector::new(script, counted.throttle());
    fake_s3::store("http://fake", connector, RetryConfig::default())
}

#[tokio::test(start_paused = true)]
async fn put_multipart_takes_a_permit_for_each_request() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    let store = store(&counted, fake.script());
    let mut upload = store.put_multipart(&"a".into()).await.expect("an upload");
    assert_eq!((counted.entered(), counted.cap.available_permits()), (1, 1));
    let parts = [
        upload.put_part("one ".into()),
        upload.put_part("two".into()),
    ];
    futures_util::future::try_join_all(parts)
        .await
        .expect("parts");
    upload.complete().await.expect("an object");
    assert_eq!((counted.entered(), counted.cap.available_permits()), (4, 1));
    let got = store.get(&"a".into()).await.expect("an object");
    assert_eq!(got.bytes().await.expect("data"), "one two");
    assert_eq!(fake.take_log().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn list_of_three_pages_takes_three_permits_and_holds_none_between() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    for key in ["a", "b", "c", "d", "e"] {
        fake.put(key, "");
    }
    let store = store(&counted, fake.script());
    let mut list = store.list(None);
    let mut entered = Vec::new();
    while let Some(object) = list.next().await {
        object.expect("an object");
        entered.push(counted.entered());
        assert_eq!(counted.cap.available_permits(), 1);
    }
    assert_eq!(entered, [1, 1, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_a_list_at_a_cap_of_1_finishes() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    for key in ["a", "b", "c", "d", "e"] {
        fake.put(key, "");
    }
    let store = store(&counted, fake.script());
    assert_eq!((delete_listed(&store).await, counted.entered()), (5, 4));
    assert_eq!(store.list(None).count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn head_that_is_repeated_takes_two_permits_and_none_during_backoff() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    fake.put("a", "data");
    let calls = Arc::new(AtomicUsize::new(0));
    let (cap, seen) = (Arc::clone(&counted.cap), Arc::clone(&calls));
    let script = Script::new(move |request| {
        let (fake, call) = (fake.clone(), seen.fetch_add(1, Ordering::Relaxed));
        let free = cap.available_permits();
        async move {
            assert_eq!(free, 0);
            match call {
                0 => status(503, frames([Ok("slow "), Ok("down")])),
                _ => Ok(fake.call(request).await),
            }
        }
    });
    let store = store(&counted, script);
    let path = "a".into();
    let mut head = std::pin::pin!(store.head(&path));
    // The answer comes at once, so the call waits for its time to come again.
    assert!(futures_util::poll!(&mut head).is_pending());
    assert_eq!((calls.load(Ordering::Relaxed), counted.entered()), (1, 1));
    assert_eq!(counted.cap.available_permits(), 1);
    head.await.expect("an object");
    assert_eq!((calls.load(Ordering::Relaxed), counted.entered()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn get_whose_body_fails_returns_the_permit_before_the_rest_is_requested() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    fake.put("a", "1234");
    let script = Script::new(move |request| {
        let fake = fake.clone();
        async move {
            let range = request.headers().get("range").cloned();
            let mut answer = fake.call(request).await;
            *answer.body_mut() = match range {
                None => frames([Ok("12"), Err(HttpErrorKind::Interrupted)]),
                Some(range) => {
                    assert_eq!(range, "bytes=2-3");
                    *answer.status_mut() = 206.try_into().expect("a status");
                    let range = "bytes 2-3/4".try_into().expect("a header");
                    answer.headers_mut().insert("content-range", range);
                    frames([Ok("34")])
                }
            };
            Ok(answer)
        }
    });
    let got = store(&counted, script)
        .get(&"a".into())
        .await
        .expect("an object");
    assert_eq!(counted.cap.available_permits(), 0);
    assert_eq!(got.bytes().await.expect("data"), Bytes::from("1234"));
    assert_eq!((counted.entered(), counted.cap.available_permits()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn get_holds_its_permit_to_the_end_and_head_does_not() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    fake.put("a", "data");
    let store = store(&counted, fake.script());
    store.head(&"a".into()).await.expect("an object");
    assert_eq!(counted.cap.available_permits(), 1);
    let got = store.get(&"a".into()).await.expect("an object");
    assert_eq!(counted.cap.available_permits(), 0);
    assert_eq!(got.bytes().await.expect("data"), "data");
    assert_eq!(counted.cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn head_after_wait_too_long_is_not_repeated() {
    let (counted, fake) = (Counted::new(0), FakeS3::default());
    let start = Instant::now();
    let error = store(&counted, fake.script()).head(&"a".into()).await;
    assert_eq!(start.elapsed(), Duration::from_secs(120));
    let error = error.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::TimedOut));
    assert!(
        error
            .to_string()
            .contains("not admitted by the throttle within 120s"),
        "{error}"
    );
    assert_eq!(
        (fake.take_log().len(), counted.cap.snapshot().waiting),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn put_with_a_closed_throttle_is_not_repeated() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    counted.cap.close();
    let start = Instant::now();
    let error = store(&counted, fake.script())
        .put(&"a".into(), "data".into())
        .await;
    let error = error.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
    assert_eq!(
        (start.elapsed(), fake.take_log().len()),
        (Duration::ZERO, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn head_with_a_request_for_a_token_takes_two_permits() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    fake.put("a", "data");
    let token = r#"{"AccessKeyId":"a","SecretAccessKey":"b","Token":"c","Expiration":"2099-01-01T00:00:00Z"}"#;
    let script = Script::new(move |request| {
        let fake = fake.clone();
        async move {
            match request.uri().path() {
                "/token" => status(200, token.to_owned()),
                _ => Ok(fake.call(request).await),
            }
        }
    });
    let store = AmazonS3Builder::new()
        .with_bucket_name(fake_s3::BUCKET)
        .with_endpoint("http://fake")
        .with_allow_http(true)
        .with_config(AmazonS3ConfigKey::ContainerCredentialsRelativeUri, "/token")
        .with_http_connector(ThrottledConnector::new(script, counted.throttle()))
        .build()
        .expect("a store");
    store.head(&"a".into()).await.expect("an object");
    assert_eq!((counted.entered(), counted.cap.available_permits()), (2, 1));
    store.head(&"a".into()).await.expect("an object");
    assert_eq!(counted.entered(), 3);
}

/// The times at which the server got requests, in milliseconds.
#[tokio::test(start_paused = true)]
async fn put_at_a_rate_with_a_burst_is_spaced_in_the_log_of_the_server() {
    let (fake, start) = (FakeS3::default(), Instant::now());
    let log = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&log);
    let script = Script::new(move |request| {
        times
            .lock()
            .expect("no panic")
            .push(start.elapsed().as_millis());
        let fake = fake.clone();
        async move { Ok(fake.call(request).await) }
    });
    let requests = Arc::new(RateLimiter::new(Quota::per_second(10).burst(3)));
    let connector = ThrottledConnector::new(script, requests);
    let store = fake_s3::store("http://fake", connector, RetryConfig::default());
    let puts = (0..8).map(|n| {
        let (store, path) = (&store, object_store::path::Path::from(n.to_string()));
        async move { store.put(&path, "data".into()).await }
    });
    futures_util::future::try_join_all(puts)
        .await
        .expect("objects");
    let times = log.lock().expect("no panic").clone();
    assert_eq!(times, [0, 0, 0, 100, 200, 300, 400, 500]);
}
