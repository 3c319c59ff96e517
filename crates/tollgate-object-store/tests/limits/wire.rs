//! With sockets: object_store's own client, and a server that counts.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tollgate::Semaphore;
use tollgate_object_store::ThrottledConnector;

use crate::fake_s3::{self, FakeS3};

const CAP: usize = 4;

/// How many requests the server has, from their heads to the last frames of its answers.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

/// A request that the gauge counts.
struct Counted(Gauge);

impl Gauge {
    fn enter(&self) -> Counted {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        Counted(self.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body in frames of 1 KiB. The request ends before the last one is given out, since the client may be
/// done with the answer right after.
struct Answer {
    left: Bytes,
    counted: Option<Counted>,
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

/// Connects without a proxy that the environment may name.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// The longest time from a request to the end of its response.
    pub(crate) timeout: Option<Duration>,
}

impl HttpConnector for Direct {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // An error means that it was installed before.
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
    let store = Arc::new(fake_s3::store(&endpoint, connector, RetryConfig::default()));
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
