//! Tests a store of any kind behind a throttle.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::StreamExt;
use futures_util::{FutureExt, poll};
use http::Extensions;
use object_store::list::PaginatedListStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::signer::{Method, Signer};
use object_store::{
    CopyOptions, GetOptions, GetResultPayload, ObjectStore, ObjectStoreExt, PutOptions, PutPayload,
    RenameOptions, RetryConfig,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore};
use tollgate_object_store::{Hold, LimitKind, Throttled, WaitTooLong, wait_too_long};

use crate::support::{self, Counted, FakeS3, Script, Watched, cap, kind, memory, path, rate};

/// Returns a limit of bytes at which four bytes have to wait.
fn slow() -> Arc<RateLimiter> {
    rate(Quota::per_second(1).burst(1))
}

#[tokio::test(start_paused = true)]
async fn methods_of_all_traits_enter_once_each() {
    let counted = Counted::new(1);
    let watched = Watched::new(memory([]).await, Arc::clone(&counted.cap));
    let store = Throttled::new(watched, counted.throttle());
    let (a, b) = (&path("a"), &path("b"));
    let mut last = 0;
    let mut entered = |what| {
        assert_eq!(counted.entered(), last + 1, "{what}");
        assert_eq!(counted.cap.available_permits(), 1, "{what}");
        last += 1;
    };
    store.put(a, "data".into()).await.expect("an object");
    entered("put_opts");
    let mut upload = store.put_multipart(a).await.expect("an upload");
    entered("put_multipart_opts");
    upload.put_part("data".into()).await.expect("a part");
    entered("put_part");
    upload.complete().await.expect("an object");
    entered("complete");
    let mut upload = store.put_multipart(a).await.expect("an upload");
    entered("put_multipart_opts");
    upload.abort().await.expect("an end");
    entered("abort");
    let got = store.get(a).await.expect("an object");
    assert_eq!(got.bytes().await.expect("data"), "data");
    entered("get_opts");
    store.head(a).await.expect("an object");
    entered("head");
    store.get_ranges(a, &[0..1, 2..3]).await.expect("data");
    entered("get_ranges");
    assert_eq!(store.list(None).count().await, 1);
    entered("list");
    assert_eq!(store.list_with_offset(None, a).count().await, 0);
    entered("list_with_offset");
    store.list_with_delimiter(None).await.expect("a list");
    entered("list_with_delimiter");
    store
        .copy_opts(a, b, CopyOptions::default())
        .await
        .expect("a copy");
    entered("copy_opts");
    store
        .rename_opts(a, b, RenameOptions::default())
        .await
        .expect("another name");
    entered("rename_opts");
    store.delete(b).await.expect("no object");
    entered("delete_stream");
    let id = store.create_multipart(a).await.expect("an upload");
    entered("create_multipart");
    let part = MultipartStore::put_part(&store, a, &id, 0, "data".into()).await;
    entered("put_part");
    let parts = vec![part.expect("a part")];
    store
        .complete_multipart(a, &id, parts)
        .await
        .expect("an object");
    entered("complete_multipart");
    let id = store
        .create_multipart_opts(a, Default::default())
        .await
        .expect("an upload");
    entered("create_multipart_opts");
    store.abort_multipart(a, &id).await.expect("an end");
    entered("abort_multipart");
}

#[tokio::test(start_paused = true)]
async fn list_paginated_holds_a_permit_and_signed_url_takes_none() {
    let (counted, fake) = (Counted::new(1), FakeS3::default());
    fake.put("a", "data");
    let (server, cap) = (fake.clone(), Arc::clone(&counted.cap));
    let script = Script::new(move |request| {
        assert_eq!(cap.available_permits(), 0, "the permit is held");
        let server = server.clone();
        async move { Ok(server.call(request).await) }
    });
    let store = support::store("http://fake", script, RetryConfig::default());
    let store = Throttled::new(store, counted.throttle());
    let page = store.list_paginated(None, Default::default()).await;
    assert_eq!(page.expect("a page").result.objects.len(), 1);
    assert_eq!((counted.entered(), counted.cap.available_permits()), (1, 1));
    let url = store
        .signed_url(Method::GET, &path("a"), Duration::from_secs(60))
        .await;
    assert_eq!(url.expect("an address").path(), "/bucket/a");
    assert_eq!((counted.entered(), fake.take_log().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn hold_head_with_8_objects_at_a_cap_of_4_finishes() {
    let store = memory((0..8).map(|n| n.to_string())).await;
    let store = Throttled::new(store, Counted::new(4).throttle()).hold(Hold::Head);
    let mut open = Vec::new();
    for n in 0..8 {
        open.push(store.get(&path(&n.to_string())).await.expect("an object"));
    }
    for got in open {
        assert_eq!(got.bytes().await.expect("data"), "data");
    }
}

#[tokio::test(start_paused = true)]
async fn hold_body_with_8_objects_at_a_cap_of_4_is_wait_too_long_that_counts_4() {
    let counted = Counted::new(4);
    let store = memory((0..8).map(|n| n.to_string())).await;
    let store = Throttled::new(store, counted.throttle()).max_wait(Duration::from_secs(5));
    let start = Instant::now();
    let paths: Vec<_> = (0..8).map(|n| path(&n.to_string())).collect();
    let got = join_all(paths.iter().map(|path| store.get(path))).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let (open, refused): (Vec<_>, Vec<_>) = got.into_iter().partition(Result::is_ok);
    assert_eq!((open.len(), refused.len()), (4, 4));
    let error = refused[0].as_ref().expect_err("a refusal");
    let source = wait_too_long(error);
    assert_eq!(source.map(WaitTooLong::bodies), Some(4));
    drop(open);
    assert_eq!(
        (
            counted.cap.available_permits(),
            counted.cap.snapshot().waiting
        ),
        (4, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn get_opts_of_a_head_holds_no_permit() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory(["a".to_owned()]).await, counted.throttle());
    let head = GetOptions::new().with_head(true);
    let _open = store.get_opts(&path("a"), head).await.expect("an object");
    assert_eq!((counted.entered(), counted.cap.available_permits()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn get_of_an_empty_object_holds_no_permit() {
    let counted = Counted::new(1);
    let store = memory([]).await;
    store.put(&path("a"), "".into()).await.expect("an object");
    for bytes in [None, Some(slow())] {
        let store = Throttled::new(store.fork(), counted.throttle()).bytes_received(bytes);
        let open = store.get(&path("a")).await.expect("an object");
        assert_eq!(counted.cap.available_permits(), 1);
        assert_eq!(open.bytes().await.expect("data"), "");
    }
}

#[tokio::test(start_paused = true)]
async fn get_read_to_its_last_byte_holds_no_permit() {
    let counted = Counted::new(1);
    let store = memory(["a".to_owned()]).await;
    for bytes in [None, Some(rate(Quota::UNLIMITED))] {
        let store = Throttled::new(store.fork(), counted.throttle()).bytes_received(bytes);
        let got = store.get(&path("a")).await.expect("an object");
        let mut data = got.into_stream();
        assert_eq!(counted.cap.available_permits(), 0);
        assert_eq!(data.next().await.expect("data").expect("data"), "data");
        assert_eq!(counted.cap.available_permits(), 1);
        assert!(data.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn get_of_a_missing_object_returns_its_permit() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory([]).await, counted.throttle());
    store.get(&path("a")).await.expect_err("no object");
    assert_eq!(counted.cap.available_permits(), 1);
}

#[tokio::test]
async fn get_of_a_file_holds_its_permit_as_a_stream() {
    let counted = Counted::new(1);
    let directory = tempfile::tempdir().expect("a directory");
    let files = || LocalFileSystem::new_with_prefix(directory.path()).expect("a store");
    let store = Throttled::new(files(), counted.throttle());
    store
        .put(&path("a"), "data".into())
        .await
        .expect("an object");
    let got = store.get(&path("a")).await.expect("an object");
    assert!(matches!(got.payload, GetResultPayload::Stream(_)));
    assert_eq!(
        (got.range.clone(), counted.cap.available_permits()),
        (0..4, 0)
    );
    assert_eq!(got.bytes().await.expect("data"), "data");
    assert_eq!(counted.cap.available_permits(), 1);

    let store = Throttled::new(files(), counted.throttle()).hold(Hold::Head);
    let got = store.get(&path("a")).await.expect("an object");
    assert!(matches!(got.payload, GetResultPayload::File(..)));
    assert_eq!(counted.cap.available_permits(), 1);

    let quota = Quota::per_second(1).burst(100);
    let bytes = Arc::new(RateLimiter::new(quota).clock(Clock::manual()));
    let store = store.bytes_received(Arc::clone(&bytes));
    let got = store.get(&path("a")).await.expect("an object");
    assert_eq!(got.bytes().await.expect("data"), "data");
    assert_eq!(bytes.snapshot().available, 96);
}

#[tokio::test(start_paused = true)]
async fn put_part_keeps_its_number_in_any_order_of_admission() {
    let store = Throttled::new(memory([]).await, Counted::new(1).throttle());
    let mut upload = store.put_multipart(&path("a")).await.expect("an upload");
    let parts = ["one ", "two ", "three"].map(|part| upload.put_part(part.into()));
    try_join_all(parts.into_iter().rev()).await.expect("parts");
    upload.complete().await.expect("an object");
    let got = store.get(&path("a")).await.expect("an object");
    assert_eq!(got.bytes().await.expect("data"), "one two three");
}

#[tokio::test(start_paused = true)]
async fn bytes_sent_by_puts_and_parts_are_charged_before_the_call() {
    let bytes = rate(Quota::per_second(100).burst(100));
    let cap = Arc::new(Semaphore::new(2));
    let store = Throttled::new(memory([]).await, Arc::clone(&cap)).bytes_sent(Arc::clone(&bytes));
    let start = Instant::now();
    let data = PutPayload::from(vec![0; 150]);
    store
        .put(&path("a"), data.clone())
        .await
        .expect("an object");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let mut upload = store.put_multipart(&path("b")).await.expect("an upload");
    upload.put_part(data.clone()).await.expect("a part");
    upload.complete().await.expect("an object");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::from_millis(1_500), 0)
    );
    let c = path("c");
    let id = store.create_multipart(&c).await.expect("an upload");
    let part = MultipartStore::put_part(&store, &c, &id, 0, data).await;
    part.expect("a part");
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::from_secs(3), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_received_are_charged_while_they_are_read() {
    let bytes = rate(Quota::per_second(1_000).burst(1_000));
    let cap = Arc::new(Semaphore::new(1));
    let store = memory([]).await;
    store
        .put(&path("a"), vec![0; 3_500].into())
        .await
        .expect("an object");
    let store = Throttled::new(store, Arc::clone(&cap)).bytes_received(Arc::clone(&bytes));
    let start = Instant::now();
    let got = store.get(&path("a")).await.expect("an object");
    assert_eq!(
        (start.elapsed(), cap.available_permits()),
        (Duration::ZERO, 0)
    );
    assert_eq!(got.bytes().await.expect("data").len(), 3_500);
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::from_millis(2_500), 0)
    );
    // The second range ends after the object.
    let got = store
        .get_ranges(&path("a"), &[0..1_000, 3_000..9_000])
        .await
        .expect("data");
    assert_eq!((got[0].len(), got[1].len()), (1_000, 500));
    assert_eq!(
        (start.elapsed(), bytes.snapshot().available),
        (Duration::from_millis(3_500), 0)
    );
    assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (1, 0));
    bytes.close();
    let error = store.get(&path("a")).await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
}

#[tokio::test(start_paused = true)]
async fn get_dropped_in_a_wait_for_bytes_returns_everything() {
    let bytes = rate(Quota::per_second(1_000).burst(1_000));
    let cap = Arc::new(Semaphore::new(1));
    let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap));
    let store = store.bytes_received(Arc::clone(&bytes));
    bytes.charge(1_000);
    let got = store.get(&path("a")).await.expect("an object");
    let mut data = got.into_stream();
    assert!(data.next().now_or_never().is_none());
    assert_eq!((bytes.snapshot().waiting, cap.available_permits()), (1, 0));
    drop(data);
    assert_eq!(
        (
            bytes.snapshot().waiting,
            cap.available_permits(),
            bytes.snapshot().available
        ),
        (0, 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn display_and_debug_name_the_inner_store() {
    let store = Throttled::new(InMemory::new(), Arc::new(Semaphore::new(1)));
    assert_eq!(store.to_string(), "Throttled(InMemory)");
    assert!(format!("{store:?}").starts_with("Throttled { inner: InMemory"));
}

#[tokio::test(start_paused = true)]
async fn get_ranges_whose_bytes_exceed_max_wait_fails_and_returns_the_permit() {
    let second = Duration::from_secs(1);
    let bytes = rate(Quota::per_second(1).burst(1));
    let cap = Arc::new(Semaphore::new(1));
    let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap));
    let store = store.bytes_received(Arc::clone(&bytes)).max_wait(second);
    bytes.charge(2);
    let start = Instant::now();
    let error = store.get_ranges(&path("a"), &[0..2, 2..4]).await;
    let error = error.expect_err("a refusal");
    let wait = wait_too_long(&error).expect("a wait that was too long");
    assert_eq!(
        (wait.limit(), wait.max_wait()),
        (LimitKind::BytesReceived, second)
    );
    assert_eq!(
        wait.to_string(),
        "not admitted by the limit of received bytes within 1s"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (1, 0));
    // The bytes have moved, so they are charged: four in addition to the two that were missing.
    assert_eq!(bytes.peek().retry_after, Some(6 * second));
}

#[tokio::test(start_paused = true)]
async fn get_ranges_dropped_in_its_wait_for_bytes_is_charged_them() {
    let bytes = rate(Quota::per_second(10).burst(10));
    let cap = Arc::new(Semaphore::new(1));
    let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap));
    let store = store.bytes_received(Arc::clone(&bytes));
    bytes.charge(10);
    let a = path("a");
    for _ in 0..100 {
        let mut ranges = Box::pin(store.get_ranges(&a, &[0..2, 2..4]));
        assert!(poll!(&mut ranges).is_pending());
        assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (0, 1));
        drop(ranges);
        assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (1, 0));
    }
    // All of them have moved: 400 bytes must be paid off before the next one.
    let next = Duration::from_millis(40_100);
    assert_eq!(bytes.peek().retry_after, Some(next));
    // Bytes that were granted, but whose wait was not polled again, are charged once.
    let mut ranges = Box::pin(store.get_ranges(&a, &[0..2, 2..4]));
    assert!(poll!(&mut ranges).is_pending());
    tokio::time::sleep(Duration::from_millis(40_400)).await;
    // This call serves the wait, which is due.
    bytes.try_acquire().expect_err("no bytes are left");
    assert_eq!(
        (bytes.snapshot().waiting, bytes.snapshot().available),
        (0, 0)
    );
    drop(ranges);
    assert_eq!(bytes.peek().retry_after, Some(Duration::from_millis(100)));
}

#[tokio::test(start_paused = true)]
async fn get_ranges_in_its_wait_for_bytes_holds_its_permit_as_hold_says() {
    for (hold, permits) in [(Hold::Head, 1), (Hold::Body, 0)] {
        let (cap, bytes) = (cap(1), slow());
        bytes.charge(1);
        let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap));
        let store = store.bytes_received(Arc::clone(&bytes)).hold(hold);
        let a = path("a");
        let mut ranges = pin!(store.get_ranges(&a, &[0..2, 2..4]));
        assert!(poll!(&mut ranges).is_pending());
        assert_eq!(
            (cap.available_permits(), bytes.snapshot().waiting),
            (permits, 1)
        );
        assert_eq!(ranges.await.expect("data").concat(), b"data");
        assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn complete_after_a_part_that_was_refused_or_dropped_fails() {
    let counted = Counted::new(1);
    let store = Throttled::new(memory([]).await, counted.throttle());
    let store = store.max_wait(Duration::from_secs(1));
    for dropped in [true, false] {
        let mut upload = store.put_multipart(&path("a")).await.expect("an upload");
        let part = upload.put_part("data".into());
        if dropped {
            drop(part);
        } else {
            let held = counted.cap.try_acquire().expect("a permit");
            part.await.expect_err("a refusal");
            drop(held);
        }
        upload.put_part("data".into()).await.expect("a part");
        let error = upload.complete().await.expect_err("a part is missing");
        assert_eq!(
            error.to_string(),
            "Generic Throttled error: parts of the upload were refused, dropped or not awaited: 1; \
             one that was refused or dropped cannot be sent again, so that only `abort` is left"
        );
        upload.abort().await.expect("an end");
        store.get(&path("a")).await.expect_err("no object");
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_on_a_cancelled_token_ends_waits_and_no_calls() {
    let (cap, bytes) = (cap(2), slow());
    let token = CancellationToken::new();
    let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap))
        .bytes_received(Arc::clone(&bytes))
        .cancel_on(token.clone());
    let a = path("a");
    let open = store.get(&a).await.expect("an object");
    bytes.charge(10);
    // The first waits for bytes after its call, and the second for a permit.
    let (ranges, mut head) = (store.get_ranges(&a, &[0..2, 2..4]), pin!(store.head(&a)));
    let mut ranges = pin!(ranges);
    assert!(poll!(&mut ranges).is_pending());
    assert!(poll!(&mut head).is_pending());
    assert_eq!((bytes.snapshot().waiting, cap.snapshot().waiting), (1, 1));
    let start = Instant::now();
    token.cancel();
    let error = ranges.await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Cancelled));
    let error = head.await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Cancelled));
    let error = store.head(&a).await.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Cancelled));
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(open.bytes().await.expect("data"), "data");
    assert_eq!((cap.available_permits(), bytes.snapshot().waiting), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_with_a_limit_closed_in_their_wait_return_closed() {
    let (cap, up, down) = (cap(2), slow(), slow());
    up.charge(10);
    down.charge(10);
    let store = Throttled::new(memory(["a".to_owned()]).await, Arc::clone(&cap))
        .bytes_sent(Arc::clone(&up))
        .bytes_received(Arc::clone(&down));
    let (a, b) = (&path("a"), &path("b"));
    let mut ranges = pin!(store.get_ranges(a, &[0..2, 2..4]));
    let mut put = pin!(store.put(b, "data".into()));
    let (mut head, mut list) = (pin!(store.head(a)), store.list(None));
    assert!(poll!(&mut ranges).is_pending());
    assert!(poll!(&mut put).is_pending());
    assert!(poll!(&mut head).is_pending());
    assert!(poll!(list.next()).is_pending());
    assert_eq!(
        (
            down.snapshot().waiting,
            up.snapshot().waiting,
            cap.snapshot().waiting
        ),
        (1, 1, 2)
    );
    let start = Instant::now();
    cap.close();
    up.close();
    down.close();
    let errors = [
        ranges.await.map(drop),
        put.await.map(drop),
        head.await.map(drop),
        list.next().await.expect("an item").map(drop),
    ];
    for error in errors {
        assert_eq!(kind(&error.expect_err("closed")), Some(ErrorKind::Closed));
    }
    assert!(list.next().await.is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn extensions_of_options_and_of_results_are_passed_on() {
    let fake = FakeS3::default();
    let script = Script::new(move |request| {
        let fake = fake.clone();
        async move {
            let sent = request.extensions().get::<u8>().copied();
            let mut answer = fake.call(request).await;
            answer.extensions_mut().insert(sent.map(|sent| sent + 1));
            Ok(answer)
        }
    });
    let store = support::store("http://fake", script, RetryConfig::default());
    // A limit of received bytes rebuilds the result of `get`.
    let store = Throttled::new(store, cap(1)).bytes_received(rate(Quota::UNLIMITED));
    let options = |sent: u8| {
        let mut extensions = Extensions::new();
        extensions.insert(sent);
        extensions
    };
    let answered = |extensions: &Extensions| extensions.get::<Option<u8>>().copied().flatten();
    let put = PutOptions {
        extensions: options(1),
        ..PutOptions::default()
    };
    let put = store.put_opts(&path("a"), "data".into(), put).await;
    assert_eq!(answered(&put.expect("an object").extensions), Some(2));
    let got = GetOptions::new().with_extensions(options(3));
    let got = store.get_opts(&path("a"), got).await.expect("an object");
    assert_eq!(answered(&got.extensions), Some(4));
    assert_eq!(got.bytes().await.expect("data"), "data");
}
