//! Tests with sockets: object_store's own client, and a server that counts.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::aws::AmazonS3;
use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::integration::*;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tollgate::Semaphore;
use tollgate_object_store::{Throttled, ThrottledConnector};

use crate::support::{self, Counted, FakeS3, Script};

const CAP: usize = 4;

/// The number of requests on the server, from their heads to the last frames of its answers.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

/// A request that the gauge counts.
struct Inside(Gauge);

impl Gauge {
    fn enter(&self) -> Inside {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        Inside(self.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body in frames of 1 KiB. The request ends before the last frame is yielded, since the client may have
/// the whole answer right after.
struct Answer {
    left: Bytes,
    counted: Option<Inside>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.left.len().min(1 << 10);
        let data = self.left.split_to(length);
        if self.left.is_empty() {
            self.counted = None;
        }
        Poll::Ready((!data.is_empty()).then(|| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// Serves a fake on the loopback interface, until the runtime ends.
async fn serve(fake: FakeS3, gauge: Gauge) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let (barrier, requests) = (Arc::new(Barrier::new(CAP)), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let (fake, gauge) = (fake.clone(), gauge.clone());
            let (barrier, requests) = (Arc::clone(&barrier), Arc::clone(&requests));
            let service = service_fn(move |request: Request<Incoming>| {
                let (fake, barrier) = (fake.clone(), Arc::clone(&barrier));
                let (counted, number) = (gauge.enter(), requests.fetch_add(1, Ordering::SeqCst));
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    // The first answers wait for each other, so that the cap is reached.
                    if number < CAP {
                        barrier.wait().await;
                    }
                    let answer = fake.answer(&parts, body).map(|left| Answer {
                        counted: (!left.is_empty()).then_some(counted),
                        left,
                    });
                    Ok::<Response<Answer>, hyper::Error>(answer)
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// Connects without a proxy from the environment.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// The longest time from a request to the end of its response.
    pub(crate) timeout: Option<Duration>,
}

impl HttpConnector for Direct {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // An error means that it was already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = reqwest::Client::builder().no_proxy();
        if let Some(timeout) = self.timeout {
            client = client.timeout(timeout);
        }
        Ok(HttpClient::new(client.build().expect("a client")))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn put_list_get_multipart_with_256_tasks_never_exceed_the_cap() {
    let (fake, gauge, cap) = (
        FakeS3::default(),
        Gauge::default(),
        Arc::new(Semaphore::new(CAP)),
    );
    let address = serve(fake.clone(), gauge.clone()).await;
    let connector = ThrottledConnector::new(Direct::default(), Arc::clone(&cap));
    let endpoint = format!("http://{address}");
    let store = Arc::new(support::store(&endpoint, connector, RetryConfig::default()));
    let tasks = (0..=255).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let path = object_store::path::Path::from(format!("{n:03}"));
            match n % 4 {
                0 => drop(store.put(&path, vec![0; 5_000].into()).await?),
                1 => {
                    let mut upload = store.put_multipart(&path).await?;
                    let parts = [(); 2].map(|()| upload.put_part(vec![0; 5_000].into()));
                    futures_util::future::try_join_all(parts).await?;
                    upload.complete().await?;
                }
                2 => {
                    store.put(&path, vec![n; 5_000].into()).await?;
                    let got = store.get(&path).await?.bytes().await?;
                    assert_eq!(got, vec![n; 5_000]);
                }
                _ => drop(store.list(None).take(5).try_collect::<Vec<_>>().await?),
            }
            Ok::<_, object_store::Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic").expect("no error");
    }
    assert_eq!(gauge.peak.load(Ordering::SeqCst), CAP);
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (CAP, 0));
    assert!(fake.take_log().len() > 500);
}

// Runs the tests that object_store has for its own stores, through both limits.

/// Runs the tests that every store passes.
async fn common(store: &dyn ObjectStore) {
    put_get_delete_list(store).await;
    list_with_offset_exclusivity(store).await;
    get_opts(store).await;
    list_uses_directories_correctly(store).await;
    list_with_delimiter(store).await;
    rename_and_copy(store).await;
    copy_if_not_exists(store).await;
    copy_rename_nonexistent_object(store).await;
    stream_get(store).await;
    assert!(get_nonexistent_object(store, None).await.is_err());
}

#[tokio::test]
async fn in_memory_behind_a_throttle_passes() {
    for permits in [1, 10] {
        let counted = Counted::new(permits);
        let store = Throttled::new(InMemory::new(), counted.throttle());
        common(&store).await;
        put_opts(&store, true).await;
        put_get_attributes(&store).await;
        multipart(&store, &store).await;
        multipart_with_opts(&store, &store).await;
        multipart_put_part_out_of_order(&store, &store).await;
        multipart_out_of_order(&store).await;
        multipart_race_condition(&store, true).await;
        assert_eq!(counted.cap.available_permits(), permits);
        assert!(counted.entered() > 100);
    }
}

#[tokio::test]
async fn files_behind_a_throttle_pass() {
    for permits in [1, 10] {
        let counted = Counted::new(permits);
        let directory = tempfile::tempdir().expect("a directory");
        let store = LocalFileSystem::new_with_prefix(directory.path()).expect("a store");
        let store = Throttled::new(store, counted.throttle());
        common(&store).await;
        put_opts(&store, false).await;
        assert_eq!(counted.cap.available_permits(), permits);
        assert!(counted.entered() > 100);
    }
}

/// Returns a third-party server over a directory, called without a socket.
async fn s3s(directory: &TempDir) -> Script {
    tokio::fs::create_dir(directory.path().join(support::BUCKET))
        .await
        .expect("a bucket");
    let files = s3s_fs::FileSystem::new(directory.path()).expect("a server");
    let mut server = S3ServiceBuilder::new(files);
    server.set_auth(SimpleAuth::from_single("key", "secret"));
    let server = server.build();
    Script::new(move |request| {
        let server = server.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            let body = BodyExt::collect(body).await.expect("a body").to_bytes();
            // A client also sets these fields.
            parts.headers.insert(HOST, HeaderValue::from_static("s3"));
            parts.headers.insert(CONTENT_LENGTH, body.len().into());
            let request = http::Request::from_parts(parts, body.into());
            let answer = server.call(request).await;
            let answer = answer.expect("an answer");
            let (parts, body) = answer.into_parts();
            let body = BodyExt::collect(body).await.expect("a body").to_bytes();
            Ok(http::Response::from_parts(parts, body.into()))
        }
    })
}

/// Runs the tests that this server passes without a limit. The others fail without one: it supports no
/// conditions (`get_opts`, `put_opts`, `copy_if_not_exists`), and it answers 500 for the name of a
/// directory (`put_get_delete_list`) and for a copy of nothing (`copy_rename_nonexistent_object`).
async fn with_s3(store: &AmazonS3) {
    list_with_offset_exclusivity(store).await;
    list_uses_directories_correctly(store).await;
    list_with_delimiter(store).await;
    rename_and_copy(store).await;
    stream_get(store).await;
    put_get_attributes(store).await;
    multipart(store, store).await;
    multipart_with_opts(store, store).await;
    multipart_put_part_out_of_order(store, store).await;
    multipart_out_of_order(store).await;
    multipart_race_condition(store, true).await;
    list_paginated(store, store).await;
    assert!(get_nonexistent_object(store, None).await.is_err());
}

#[tokio::test]
async fn s3_behind_a_throttled_connector_passes() {
    let counted = Counted::new(1);
    let directory = tempfile::tempdir().expect("a directory");
    let connector = ThrottledConnector::new(s3s(&directory).await, counted.throttle());
    with_s3(&support::store(
        "http://s3",
        connector,
        RetryConfig::default(),
    ))
    .await;
    assert_eq!(counted.cap.available_permits(), 1);
    assert!(counted.entered() > 100);
}

#[tokio::test]
async fn s3_without_a_limit_fails_the_tests_that_are_left_out() {
    type Test = fn(AmazonS3) -> BoxFuture<'static, ()>;
    let tests: [(&str, Test); 5] = [
        ("put_get_delete_list", |store| {
            Box::pin(async move { put_get_delete_list(&store).await })
        }),
        ("get_opts", |store| {
            Box::pin(async move { get_opts(&store).await })
        }),
        ("put_opts", |store| {
            Box::pin(async move { put_opts(&store, true).await })
        }),
        ("copy_if_not_exists", |store| {
            Box::pin(async move { copy_if_not_exists(&store).await })
        }),
        ("copy_rename_nonexistent_object", |store| {
            Box::pin(async move { copy_rename_nonexistent_object(&store).await })
        }),
    ];
    for (name, test) in tests {
        let directory = tempfile::tempdir().expect("a directory");
        let server = s3s(&directory).await;
        let store = support::store("http://s3", server, RetryConfig::default());
        let failed = tokio::spawn(test(store)).await;
        assert!(failed.is_err(), "it passes: move {name} to `with_s3`");
    }
}
