//! The few operations of S3 that the tests use, in memory. A list has two keys on each page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED};
use http::request::Parts;
use http::{Method, Response};
use http_body_util::BodyExt;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpConnector, HttpRequest, HttpResponse};

use crate::support::Script;

const PAGE: usize = 2;
pub(crate) const BUCKET: &str = "bucket";

/// The objects, the parts of uploads, and what was asked.
#[derive(Clone, Default)]
pub(crate) struct FakeS3 {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    parts: Arc<Mutex<BTreeMap<String, Bytes>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl FakeS3 {
    /// Returns the requests so far, as method and path or query, and forgets them.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("no panic"))
    }

    pub(crate) fn put(&self, key: &str, data: impl Into<Bytes>) {
        let mut objects = self.objects.lock().expect("no panic");
        objects.insert(key.to_owned(), data.into());
    }

    /// A client that is answered at once.
    pub(crate) fn script(&self) -> Script {
        let fake = self.clone();
        Script::new(move |request| {
            let fake = fake.clone();
            async move { Ok(fake.call(request).await) }
        })
    }

    pub(crate) async fn call(&self, request: HttpRequest) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        self.answer(&parts, body).map(Into::into)
    }

    pub(crate) fn answer(&self, parts: &Parts, body: Bytes) -> Response<Bytes> {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let asked = if query.is_empty() { path } else { query };
        let mut log = self.log.lock().expect("no panic");
        log.push(format!("{} {asked}", parts.method));
        drop(log);
        let key = path.trim_start_matches('/').trim_start_matches(BUCKET);
        let key = key.trim_start_matches('/').to_owned();
        let mut objects = self.objects.lock().expect("no panic");
        match (&parts.method, query) {
            (&Method::GET, query) if query.contains("list-type=2") => {
                let after = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("continuation-token="));
                list(&objects, after.unwrap_or_default())
            }
            (&Method::GET | &Method::HEAD, _) => match objects.get(&key) {
                Some(data) if parts.method == Method::HEAD => answer(200, data.len(), Bytes::new()),
                Some(data) => answer(200, data.len(), data.clone()),
                None => answer(404, 0, Bytes::new()),
            },
            (&Method::PUT, "") => {
                objects.insert(key, body);
                answer(200, 0, Bytes::new())
            }
            (&Method::PUT, part) => {
                let mut parts = self.parts.lock().expect("no panic");
                parts.insert(format!("{key}?{part}"), body);
                answer(200, 0, Bytes::new())
            }
            (&Method::POST, "uploads" | "uploads=") => xml(
                "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
            ),
            (&Method::POST, "delete") => {
                let body = String::from_utf8(body.to_vec()).expect("XML");
                let mut deleted = String::new();
                for key in body.split("<Key>").skip(1) {
                    let key = key.split('<').next().expect("a key");
                    objects.remove(key);
                    deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
                }
                xml(&format!("<DeleteResult>{deleted}</DeleteResult>"))
            }
            (&Method::POST, _) => {
                let mut parts = self.parts.lock().expect("no panic");
                let prefix = format!("{key}?");
                let of_key = parts.iter().filter(|(name, _)| name.starts_with(&prefix));
                let data: Vec<u8> = of_key.flat_map(|(_, data)| data.to_vec()).collect();
                parts.retain(|name, _| !name.starts_with(&prefix));
                objects.insert(key, data.into());
                xml("<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")
            }
            (&Method::DELETE, _) => answer(204, 0, Bytes::new()),
            (method, _) => panic!("{method} {path}?{query}"),
        }
    }
}

/// A page of the keys after one.
fn list(objects: &BTreeMap<String, Bytes>, after: &str) -> Response<Bytes> {
    let mut page = String::from("<ListBucketResult>");
    let keys: Vec<_> = objects.keys().filter(|key| key.as_str() > after).collect();
    for key in keys.iter().take(PAGE) {
        let (size, time) = (objects[*key].len(), "2026-01-01T00:00:00Z");
        page += &format!(
            "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{time}</LastModified></Contents>"
        );
    }
    if keys.len() > PAGE {
        let token = keys[PAGE - 1];
        page += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    xml(&(page + "</ListBucketResult>"))
}

fn xml(text: &str) -> Response<Bytes> {
    answer(200, text.len(), Bytes::copy_from_slice(text.as_bytes()))
}

fn answer(status: u16, length: usize, body: Bytes) -> Response<Bytes> {
    let answer = Response::builder()
        .status(status)
        .header(CONTENT_LENGTH, length)
        .header(ETAG, "1")
        .header(LAST_MODIFIED, "Thu, 01 Jan 2026 00:00:00 GMT");
    answer.body(body).expect("an answer")
}

/// A store of object_store at this endpoint.
pub(crate) fn store(endpoint: &str, connector: impl HttpConnector, retry: RetryConfig) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name(BUCKET)
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_retry(retry)
        .with_http_connector(connector)
        .build()
        .expect("a store")
}
