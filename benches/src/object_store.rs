//! Calls of a store in memory, and HTTP requests that are answered at once, without and behind a limit
//! that is never reached.

use std::hint::black_box;
use std::sync::Arc;

use ::object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService,
};
use ::object_store::limit::LimitStore;
use ::object_store::memory::InMemory;
use ::object_store::path::Path;
use ::object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use async_trait::async_trait;
use axum::body::Bytes;
use futures::StreamExt;
use futures::executor::block_on;
use tollgate::Semaphore;
use tollgate_object_store::{Throttled, ThrottledConnector};

/// More permits than anybody takes.
const PERMITS: usize = 64;

/// How many objects are listed.
const LISTED: usize = 100;

/// A store with one object of 64 KiB, or with those that are listed.
fn memory(objects: usize) -> InMemory {
    let store = InMemory::new();
    block_on(async {
        for n in 0..objects {
            let data = PutPayload::from(vec![7; 64 << 10]);
            let put = store.put(&Path::from(format!("{n:03}")), data).await;
            put.expect("memory takes it");
        }
    });
    store
}

/// A store behind `Throttled`.
fn throttled(store: InMemory) -> Throttled<InMemory, Arc<Semaphore>> {
    Throttled::new(store, Arc::new(Semaphore::new(PERMITS)))
}

fn puts(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let (path, data) = (Path::from("000"), PutPayload::from(vec![7; 1 << 10]));
    move |times| {
        block_on(async {
            for _ in 0..times {
                let put = store.put(&path, data.clone()).await;
                black_box(put).expect("memory takes it");
            }
        });
    }
}

/// Puts of 1 KiB.
pub fn bare_puts() -> impl FnMut(u64) + 'static {
    puts(memory(0))
}

/// Puts through `Throttled`.
pub fn throttled_puts() -> impl FnMut(u64) + 'static {
    puts(throttled(memory(0)))
}

/// Puts through object_store's `LimitStore`.
pub fn limit_store_puts() -> impl FnMut(u64) + 'static {
    puts(LimitStore::new(memory(0), PERMITS))
}

fn gets(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let path = Path::from("000");
    move |times| {
        block_on(async {
            for _ in 0..times {
                let got = store.get(&path).await.expect("it is there");
                black_box(got.bytes().await).expect("it is in memory");
            }
        });
    }
}

/// Gets of 64 KiB.
pub fn bare_gets() -> impl FnMut(u64) + 'static {
    gets(memory(1))
}

/// Gets through `Throttled`.
pub fn throttled_gets() -> impl FnMut(u64) + 'static {
    gets(throttled(memory(1)))
}

/// Gets through object_store's `LimitStore`.
pub fn limit_store_gets() -> impl FnMut(u64) + 'static {
    gets(LimitStore::new(memory(1), PERMITS))
}

fn lists(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                assert_eq!(store.list(None).count().await, LISTED);
            }
        });
    }
}

/// Lists of 100 objects.
pub fn bare_lists() -> impl FnMut(u64) + 'static {
    lists(memory(LISTED))
}

/// Lists through `Throttled`.
pub fn throttled_lists() -> impl FnMut(u64) + 'static {
    lists(throttled(memory(LISTED)))
}

/// Lists through object_store's `LimitStore`.
pub fn limit_store_lists() -> impl FnMut(u64) + 'static {
    lists(LimitStore::new(memory(LISTED), PERMITS))
}

/// Answers at once, with 64 KiB.
#[derive(Clone, Debug)]
struct Answers(Bytes);

#[async_trait]
impl HttpService for Answers {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        drop(black_box(request));
        Ok(HttpResponse::new(self.0.clone().into()))
    }
}

impl HttpConnector for Answers {
    fn connect(&self, _: &ClientOptions) -> ::object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn requests(connector: impl HttpConnector) -> impl FnMut(u64) + 'static {
    let client = connector.connect(&ClientOptions::new());
    let client = client.expect("it needs nothing");
    move |times| {
        block_on(async {
            for _ in 0..times {
                let request = HttpRequest::new(HttpRequestBody::empty());
                let answer = client.execute(request).await.expect("it is answered");
                black_box(answer.into_body().bytes().await).expect("it is in memory");
            }
        });
    }
}

/// Requests without a limit.
pub fn bare_requests() -> impl FnMut(u64) + 'static {
    requests(Answers(vec![7; 64 << 10].into()))
}

/// Requests through `ThrottledConnector`.
pub fn throttled_requests() -> impl FnMut(u64) + 'static {
    let answers = Answers(vec![7; 64 << 10].into());
    let throttle = Arc::new(Semaphore::new(PERMITS));
    requests(ThrottledConnector::new(answers, throttle))
}
