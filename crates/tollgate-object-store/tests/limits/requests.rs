//! Tests the requests that object_store makes, and the permits and charges of each.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::HttpErrorKind;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, Result, RetryConfig};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::Instant;
use tollgate::{ErrorKind, Quota};
use tollgate_object_store::{Throttled, ThrottledConnector, cause, wait_too_long};

use crate::support::{
    self, Counted, FakeS3, SECOND, Script, delete_listed, frames, kind, memory, path, status,
};

/// Returns a store whose requests a script answers.
fn store(counted: &Counted, script: Script) -> AmazonS3 {
    let connector = ThrottledConnector::new(script, counted.throttle());
    support::store("http://fake", connector, RetryConfig::default())
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
    // The answer arrives at once, so the call waits for its time again.
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
        .with_bucket_name(support::BUCKET)
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

/// The log has the times at which the server received requests, in milliseconds.
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
    let requests = support::rate(Quota::per_second(10).burst(3));
    let connector = ThrottledConnector::new(script, requests);
    let store = support::store("http://fake", connector, RetryConfig::default());
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

// Tests calls of a store that take a permit for each page: lists, and deletions in bulk.

/// Returns paths that arrive when they are sent.
fn open_paths() -> (
    UnboundedSender<Result<Path>>,
    BoxStream<'static, Result<Path>>,
) {
    let (sender, mut receiver) = unbounded_channel();
    let paths = stream::poll_fn(move |context| receiver.poll_recv(context));
    (sender, paths.boxed())
}

#[tokio::test(start_paused = true)]
async fn list_takes_a_permit_for_each_page_and_holds_none_between() {
    let counted = Counted::new(1);
    let names = (0..2_500).map(|n| format!("{n:04}"));
    let store = Throttled::new(memory(names).await, counted.throttle());
    let mut list = store.list(None);
    let mut number = 0_u64;
    while let Some(object) = list.try_next().await.expect("an object") {
        assert_eq!(object.location, path(&format!("{number:04}")));
        number += 1;
        assert_eq!(
            (counted.entered(), counted.cap.available_permits()),
            (number.div_ceil(1_000), 1)
        );
    }
    assert_eq!(number, 2_500);
}

#[tokio::test(start_paused = true)]
async fn list_that_is_half_read_holds_no_permit() {
    let counted = Counted::new(1);
    let names = (0..2_500).map(|n| format!("{n:04}"));
    let store = Throttled::new(memory(names).await, counted.throttle());
    let mut half = store.list_with_offset(None, &path("0499"));
    half.next().await.expect("an object").expect("an object");
    assert_eq!(store.list(None).count().await, 2_500);
    store
        .put(&path("new"), "data".into())
        .await
        .expect("an object");
    assert_eq!(half.count().await, 1_999);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_a_long_list_at_a_cap_of_1_finishes() {
    let counted = Counted::new(1);
    let names = (0..1_500).map(|n| format!("{n:04}"));
    let store = Throttled::new(memory(names).await, counted.throttle());
    assert_eq!((delete_listed(&store).await, counted.entered()), (1_500, 4));
    assert_eq!(store.list(None).count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_a_list_at_a_cap_of_1_with_puts_between_the_items_finishes() {
    let counted = Counted::new(1);
    let names = (0..1_500).map(|n| format!("{n:04}"));
    let store = Throttled::new(memory(names).await, counted.throttle());
    let paths = store.list(None).map_ok(|object| object.location).boxed();
    let mut deleted = store.delete_stream(paths);
    let mut count = 0;
    while let Some(deleted) = deleted.next().await {
        deleted.expect("a path");
        store
            .put(&path("new"), "data".into())
            .await
            .expect("an object");
        count += 1;
    }
    assert_eq!((count, counted.cap.available_permits()), (1_500, 1));
}

#[tokio::test(start_paused = true)]
async fn delete_stream_yields_a_failed_path_after_those_before_it() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory([]).await, counted.throttle());
    let failure = object_store::Error::NotImplemented {
        operation: "a".into(),
        implementer: "b".into(),
    };
    let paths = [Ok(path("a")), Err(failure), Ok(path("b"))];
    let deleted = store.delete_stream(stream::iter(paths).boxed());
    let deleted: Vec<_> = deleted.map(|deleted| deleted.ok()).collect().await;
    assert_eq!(deleted, [Some(path("a")), None, Some(path("b"))]);
    assert_eq!(counted.entered(), 2);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_nothing_does_not_enter() {
    let counted = Counted::new(0);
    let store = Throttled::new(memory([]).await, counted.throttle());
    assert_eq!(
        store.delete_stream(stream::empty().boxed()).count().await,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn list_and_delete_stream_with_a_closed_throttle_yield_one_error() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory(["a".to_owned()]).await, counted.throttle());
    counted.cap.close();
    let paths = stream::iter([Ok(path("a"))]).boxed();
    let list = store.list(None).map_ok(|object| object.location);
    for stream in [list.boxed(), store.delete_stream(paths)] {
        let yielded: Vec<_> = stream.collect().await;
        assert_eq!(yielded.len(), 1);
        let error = yielded[0].as_ref().expect_err("a refusal");
        assert_eq!(kind(error), Some(ErrorKind::Closed));
        assert_eq!(
            error.to_string(),
            "Generic Throttled error: the throttle is closed (part 0)"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn delete_stream_that_is_refused_yields_the_failed_path_too() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory([]).await, counted.throttle());
    counted.cap.close();
    let failure = object_store::Error::NotImplemented {
        operation: "a".into(),
        implementer: "b".into(),
    };
    let paths = [Ok(path("a")), Err(failure), Ok(path("b"))];
    let deleted = store.delete_stream(stream::iter(paths).boxed());
    let deleted: Vec<_> = deleted.map(|deleted| deleted.unwrap_err()).collect().await;
    assert_eq!(deleted.len(), 2);
    assert!(cause(&deleted[0]).is_some());
    assert!(matches!(
        deleted[1],
        object_store::Error::NotImplemented { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_paths_that_stay_open_deletes_those_that_have_come() {
    let counted = Counted::new(1);
    let names = (0..5).map(|n| n.to_string());
    let store = Throttled::new(memory(names).await, counted.throttle());
    let (paths, open) = open_paths();
    let mut deleted = store.delete_stream(open);
    assert!(deleted.next().now_or_never().is_none());
    assert_eq!(counted.entered(), 0);
    for (entered, page) in [(1, &["0", "1", "2"][..]), (2, &["3", "4"][..])] {
        for name in page {
            paths.send(Ok(path(name))).expect("a reader");
        }
        for name in page {
            let deleted = deleted.next().await.expect("a path");
            assert_eq!(deleted.expect("a path"), path(name));
            assert_eq!(
                (counted.entered(), counted.cap.available_permits()),
                (entered, 1)
            );
        }
        assert!(deleted.next().now_or_never().is_none());
    }
    assert_eq!(store.list(None).count().await, 0);
    drop(paths);
    assert_eq!(deleted.count().await, 0);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_that_waits_for_its_permit_gathers_paths_meanwhile() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory([]).await, counted.throttle());
    let (paths, open) = open_paths();
    let mut deleted = store.delete_stream(open);
    let held = counted.cap.try_acquire().expect("a permit");
    for name in ["a", "b"] {
        paths.send(Ok(path(name))).expect("a reader");
        assert!(deleted.next().now_or_never().is_none());
    }
    assert_eq!(counted.cap.snapshot().waiting, 1);
    drop(held);
    for name in ["a", "b"] {
        let deleted = deleted.next().await.expect("a path");
        assert_eq!(deleted.expect("a path"), path(name));
    }
    assert_eq!(counted.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_paths_from_calls_at_a_cap_of_1_finishes() {
    for number in [20, 1_500] {
        let counted = Counted::new(1);
        let names = (0..number).map(|n| format!("{n:04}"));
        let store = Throttled::new(memory(names.clone()).await, counted.throttle());
        let store = Arc::new(store);
        let calls = Arc::clone(&store);
        let paths = stream::iter(names).map(move |name| {
            let store = Arc::clone(&calls);
            async move {
                let got = store.get(&path(&name)).await?;
                // The others wait for the permit that the open body holds.
                yield_now().await;
                Ok(got.meta.location)
            }
        });
        let deleted = store.delete_stream(paths.buffered(4).boxed());
        let deleted: Vec<_> = deleted.try_collect().await.expect("paths");
        assert_eq!(deleted.len(), number);
        assert_eq!(store.list(None).count().await, 0);
    }
}

/// Deletes interleaved paths of a list and another stream, at a cap with `permits` permits. The list is in the
/// queue before the first page to delete, and gets its permit when that page is full.
async fn delete_beside_a_list(permits: u32) -> (Vec<Result<Path>>, Counted) {
    let counted = Counted::new(permits as usize);
    let store = Throttled::new(memory(["a".to_owned()]).await, counted.throttle());
    let store = store.max_wait(SECOND);
    let names = (0..1_500).map(|n| Ok(path(&format!("{n:04}"))));
    let list = store.list(None).map_ok(|object| object.location);
    let mut deleted = store.delete_stream(stream::select(list, stream::iter(names)).boxed());
    let held = counted
        .cap
        .try_acquire_many(permits.into())
        .expect("permits");
    assert!(deleted.next().now_or_never().is_none());
    drop(held);
    (deleted.collect().await, counted)
}

#[tokio::test(start_paused = true)]
async fn delete_stream_of_a_full_page_whose_list_holds_the_permit_says_so() {
    let start = Instant::now();
    let (deleted, counted) = delete_beside_a_list(1).await;
    assert_eq!((deleted.len(), start.elapsed()), (1, SECOND));
    let error = deleted[0].as_ref().expect_err("a refusal");
    assert!(wait_too_long(error).is_some());
    assert_eq!(kind(error), Some(ErrorKind::TimedOut));
    assert_eq!(
        error.source().expect("a source").to_string(),
        "1000 paths could not be deleted: not admitted by the throttle within 1s; 1 other request holds a permit or \
         waits for one: if nothing polls it during this request, spawn it, or make this one after it; no more paths are \
         read while a full page waits, so a call of this store that yields paths may hold the permit: \
         delete what one list yields at a time, or allow more permits than calls that yield paths"
    );
    assert_eq!(counted.cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn delete_stream_with_more_permits_than_lists_that_yield_its_paths_finishes() {
    let (deleted, counted) = delete_beside_a_list(2).await;
    assert!(deleted.iter().all(Result::is_ok));
    assert_eq!((deleted.len(), counted.entered()), (1_501, 3));
}
