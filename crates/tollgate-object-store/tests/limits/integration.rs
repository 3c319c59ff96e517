//! The tests that object_store has for its own stores, through both limits.

use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, HOST};
use http_body_util::BodyExt;
use object_store::aws::AmazonS3;
use object_store::integration::*;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, RetryConfig};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tollgate_object_store::{Throttled, ThrottledConnector};

use crate::fake_s3;
use crate::support::{Counted, Script};

/// The tests that every store passes.
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

/// A server that is not ours, over a directory, called without a socket.
async fn s3s(directory: &TempDir) -> Script {
    tokio::fs::create_dir(directory.path().join(fake_s3::BUCKET))
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
            let body = body.collect().await.expect("a body").to_bytes();
            // As a client does.
            parts.headers.insert(HOST, HeaderValue::from_static("s3"));
            parts.headers.insert(CONTENT_LENGTH, body.len().into());
            let request = http::Request::from_parts(parts, body.into());
            let answer = server.call(request).await;
            let answer = answer.expect("an answer");
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            Ok(http::Response::from_parts(parts, body.into()))
        }
    })
}

/// The tests that this server passes without a limit. The others fail without one: it knows no
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
    with_s3(&fake_s3::store(
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
        let store = fake_s3::store("http://s3", server, RetryConfig::default());
        let failed = tokio::spawn(test(store)).await;
        assert!(failed.is_err(), "it passes: move {name} to `with_s3`");
    }
}
