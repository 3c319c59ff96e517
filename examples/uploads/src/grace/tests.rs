//! Requests to a server that says nothing, in paused time.

use std::future::pending;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use clap::Parser;
use hyper::{Method, Response};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tempfile::TempDir;
use tollgate::{Semaphore, Throttle};

use super::*;
use crate::args::Args;
use crate::counted::{Counts, Seen};
use crate::found::Found;
use crate::progress::Progress;
use crate::rates::Limits;
use crate::source::{self, Listing};
use crate::store::Stores;
use crate::upload::{Job, Stop};
use crate::verify::verify;
use crate::waits::Waits;

const SECOND: Duration = Duration::from_secs(1);

/// Waits for a request that is answered after so long.
async fn answer(grace: &Grace, removes_parts: bool, after: Duration) -> (bool, Duration) {
    let start = Instant::now();
    let request = async {
        sleep(after).await;
        Ok(())
    };
    let answer = grace.answer(removes_parts, request).await;
    (answer.is_ok(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn answer_before_a_cancel_is_waited_for() {
    let grace = Grace::after(&CancellationToken::new());
    let year = 365 * 24 * 3600 * SECOND;
    assert_eq!(answer(&grace, false, year).await, (true, year));
}

#[tokio::test(start_paused = true)]
async fn answer_after_a_cancel_is_given_up_after_the_grace() {
    let token = CancellationToken::new();
    let grace = Grace::after(&token);
    let cancel = async {
        sleep(3 * SECOND).await;
        token.cancel();
    };
    let (late, early, ()) = tokio::join!(
        answer(&grace, false, 14 * SECOND),
        answer(&grace, false, 12 * SECOND),
        cancel
    );
    assert_eq!(early, (true, 12 * SECOND));
    assert!(grace.silent().is_cancelled());
    assert_eq!(late, (false, 13 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn answer_that_begins_after_the_cancel_has_the_whole_grace() {
    let token = CancellationToken::new();
    let grace = Grace::after(&token);
    token.cancel();
    for _ in 0..3 {
        assert_eq!(answer(&grace, false, 9 * SECOND).await, (true, 9 * SECOND));
    }
    assert_eq!(
        answer(&grace, false, 11 * SECOND).await,
        (false, 10 * SECOND)
    );
}

#[tokio::test(start_paused = true)]
async fn answer_after_one_was_given_up_is_waited_for_only_to_remove_parts() {
    let token = CancellationToken::new();
    let grace = Grace::after(&token);
    token.cancel();
    answer(&grace, false, 60 * SECOND).await;
    assert_eq!(answer(&grace, false, SECOND).await, (false, Duration::ZERO));
    assert_eq!(answer(&grace, true, 3 * SECOND).await, (true, 3 * SECOND));
    // The five seconds are those of all.
    assert_eq!(answer(&grace, true, 3 * SECOND).await, (false, 2 * SECOND));
    assert_eq!(answer(&grace, true, SECOND).await, (false, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_given_up_names_the_time_that_it_had() {
    let message = async |grace: &Grace, removes_parts| {
        let request = pending::<Result<(), HttpError>>();
        let error = grace.answer(removes_parts, request).await.unwrap_err();
        error.source().unwrap().to_string()
    };
    let token = CancellationToken::new();
    let grace = Grace::after(&token);
    token.cancel();
    let removal = "after Ctrl-C, the server did not remove the parts within 10 s";
    assert_eq!(message(&grace, true).await, removal);
    let removal = "after Ctrl-C, the server did not remove the parts within 5 s";
    assert_eq!(message(&grace, true).await, removal);
    let answer = "after Ctrl-C, the server did not answer within 10 s";
    assert_eq!(message(&grace, false).await, answer);
}

/// A server that opens multipart uploads and answers nothing else.
#[derive(Debug)]
struct OpensOnly;

#[async_trait]
impl HttpService for OpensOnly {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method() != Method::POST {
            pending::<()>().await;
        }
        let opened =
            "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>";
        Ok(Response::new(HttpResponseBody::from(opened.to_owned())))
    }
}

impl HttpConnector for OpensOnly {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(OpensOnly))
    }
}

/// Two files, of which one goes in two parts.
fn files() -> (TempDir, Listing) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small"), "small").unwrap();
    let large = std::fs::File::create(directory.path().join("large")).unwrap();
    large.set_len(6 << 20).unwrap();
    let listing = source::directory(directory.path()).unwrap();
    (directory, listing)
}

#[tokio::test(start_paused = true)]
async fn run_after_a_cancel_ends_in_15_s_beside_a_server_that_answers_nothing() {
    let (_directory, listing) = files();
    let args = Args::parse_from(["uploads", "--part-size", "5"]);
    let token = CancellationToken::new();
    let counts = Arc::new(Counts {
        seen: Seen::new(false),
        waits: Waits::default(),
        throttled: AtomicU64::new(0),
        found: Found::default(),
        pauses: None,
        grace: Grace::after(&token),
    });
    let limits = Limits::new(Arc::new(Semaphore::new(8)).boxed(), &args);
    let builder = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_access_key_id("id")
        .with_secret_access_key("key");
    let connector = Arc::new(OpensOnly);
    let stores = Stores::build(&builder, connector, &limits, Arc::clone(&counts), &token).unwrap();
    let job = Arc::new(Job {
        stores,
        turns: Semaphore::new(8),
        token: token.clone(),
        part_bytes: args.part_bytes(),
        progress: Arc::new(Progress::new(&listing, false)),
    });
    let mut cancelled = None;
    let cancel = async {
        let requests = &counts.seen.requests;
        requests.wait_for(|requests| requests.in_flight == 3).await;
        token.cancel();
        cancelled = Some(Instant::now());
    };
    let (mut outcomes, ()) = tokio::join!(Arc::clone(&job).run(listing.files), cancel);
    let (reading, silent) = (&job.stores.reading, counts.grace.silent());
    verify(reading, &mut outcomes, 8, silent, &job.progress).await;
    assert_eq!(cancelled.unwrap().elapsed(), 15 * SECOND);
    let messages = outcomes.iter().map(|(file, outcome)| match outcome {
        Err(Stop::Failed(failure)) => (file.key.as_ref(), failure.message.as_str()),
        other => panic!("{other:?}"),
    });
    let answer = "after Ctrl-C, the server did not answer within 10 s";
    let removal = "after Ctrl-C, the server did not remove the parts within 5 s";
    let both = format!("{answer}; nor could the parts be removed: {removal}");
    let expected = [("large", both.as_str()), ("small", answer)];
    assert_eq!(messages.collect::<Vec<_>>(), expected);
}
