//! Tests requests to a server that does not answer, in paused time.

use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};

use async_trait::async_trait;
use clap::Parser;
use futures_util::{Stream, StreamExt, stream};
use hyper::body::{Body, Bytes, Frame};
use hyper::{Method, Response};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tempfile::TempDir;
use tokio::time::timeout;
use tollgate::Semaphore;
use tollgate::throttle::BoxThrottle;

use super::*;
use crate::args::Args;
use crate::arrivals::Waits;
use crate::gauge::{ClientCounts, Seen};
use crate::measure::Found;
use crate::progress::Progress;
use crate::source::{self, Listing, SourceFile};
use crate::store::{Limits, Stores};
use crate::upload::{Job, Outcome, Stop, verify};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits for a request that is answered after `after`.
async fn answer(grace: &Grace, removes_parts: bool, after: Duration) -> (bool, Duration) {
    let start = Instant::now();
    let request = async {
        sleep(after).await;
        Ok::<_, HttpError>(())
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
    // All requests share the five seconds.
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

/// The behaviour of a server.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// It opens multipart uploads and answers nothing else.
    Opens,
    /// It answers every request with a head, but the body never arrives.
    Stalls,
}

#[async_trait]
impl HttpService for Server {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if let Server::Stalls = self {
            return Ok(head(HttpResponseBody::new(Pieces::after([]))));
        }
        if request.method() != Method::POST {
            pending::<()>().await;
        }
        let opened =
            "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>";
        Ok(head(HttpResponseBody::from(opened.to_owned())))
    }
}

impl HttpConnector for Server {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(*self))
    }
}

/// Returns an answer with the head that an object's answer has.
fn head(body: HttpResponseBody) -> HttpResponse {
    let answer = Response::builder()
        .header("content-length", "5")
        .header("etag", "1")
        .header("last-modified", "Mon, 23 Nov 2026 12:00:00 GMT");
    answer.body(body).unwrap()
}

/// A body whose pieces arrive after a delay each, and whose end never arrives.
struct Pieces(Pin<Box<dyn Stream<Item = Bytes> + Send + Sync>>);

impl Pieces {
    fn after<const N: usize>(waits: [Duration; N]) -> Pieces {
        let pieces = stream::iter(waits).then(|wait| async move {
            sleep(wait).await;
            Bytes::from_static(b"piece")
        });
        Pieces(Box::pin(pieces.chain(stream::pending())))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let piece = self.0.as_mut().poll_next(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[tokio::test(start_paused = true)]
async fn body_after_a_cancel_has_the_whole_grace_for_each_piece() {
    let token = CancellationToken::new();
    let grace = Grace::after(&token);
    token.cancel();
    let start = Instant::now();
    let pieces = HttpResponseBody::new(Pieces::after([9 * SECOND; 3]));
    let pieces = grace.body(false, pieces).bytes_stream();
    let pieces = pieces.map(|piece| (piece.is_ok(), start.elapsed()));
    let pieces: Vec<_> = pieces.take(4).collect().await;
    let came = [9, 18, 27].map(|seconds| (true, seconds * SECOND));
    assert_eq!(pieces[..3], came);
    assert_eq!(pieces[3], (false, 37 * SECOND));
    assert!(grace.silent().is_cancelled());
}

/// Returns two files, one of which is sent in two parts.
fn files() -> (TempDir, Listing) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small"), "small").unwrap();
    let large = std::fs::File::create(directory.path().join("large")).unwrap();
    large.set_len(6 << 20).unwrap();
    let listing = source::directory(directory.path()).unwrap();
    (directory, listing)
}

/// Returns a job that uploads these files to the server.
fn job(
    server: Server,
    listing: &Listing,
    token: &CancellationToken,
) -> (Arc<Job>, Arc<ClientCounts>) {
    let args = Args::parse_from(["uploads", "--part-size", "5"]);
    let counts = Arc::new(ClientCounts {
        seen: Seen::new(false),
        waits: Waits::default(),
        throttled: AtomicU64::new(0),
        found: Found::default(),
        pauses: None,
        grace: Grace::after(token),
    });
    let limits = Limits::new(BoxThrottle::new(Arc::new(Semaphore::new(8))), &args);
    let builder = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_access_key_id("id")
        .with_secret_access_key("key");
    let connector = Arc::new(server);
    let stores = Stores::build(&builder, connector, &limits, Arc::clone(&counts), token).unwrap();
    let job = Job {
        stores,
        turns: Semaphore::new(8),
        token: token.clone(),
        part_bytes: args.part_bytes(),
        progress: Arc::new(Progress::new(listing, false)),
    };
    (Arc::new(job), counts)
}

/// Returns the keys of the files, each with its failure message, "cancelled" or "uploaded".
fn messages(outcomes: &[(SourceFile, Outcome)]) -> Vec<(&str, &str)> {
    let message = |outcome| match outcome {
        &Err(Stop::Failed(ref failure)) => failure.message.as_str(),
        &Err(Stop::Cancelled) => "cancelled",
        Ok(()) => "uploaded",
    };
    let messages = outcomes.iter();
    messages
        .map(|(file, outcome)| (file.key.as_ref(), message(outcome)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn run_after_a_cancel_ends_in_15_s_beside_a_server_that_answers_nothing() {
    let (_directory, listing) = files();
    let token = CancellationToken::new();
    let (job, counts) = job(Server::Opens, &listing, &token);
    let mut cancelled = None;
    let cancel = async {
        let requests = &counts.seen.requests;
        requests.wait_for(|requests| requests.in_flight == 3).await;
        token.cancel();
        cancelled = Some(Instant::now());
    };
    let (mut outcomes, ()) = tokio::join!(Arc::clone(&job).run(listing.files), cancel);
    let (reading, grace) = (&job.stores.reading, &counts.grace);
    verify(reading, &mut outcomes, 8, &token, grace, &job.progress).await;
    assert_eq!(cancelled.unwrap().elapsed(), 15 * SECOND);
    let answer = "after Ctrl-C, the server did not answer within 10 s";
    let removal = "after Ctrl-C, the server did not remove the parts within 5 s";
    let both = format!("{answer}; its parts could not be removed either: {removal}");
    let expected = [("large", both.as_str()), ("small", answer)];
    assert_eq!(messages(&outcomes), expected);
}

#[tokio::test(start_paused = true)]
async fn run_after_a_cancel_gives_an_answer_up_that_stops_after_its_head() {
    let (_directory, listing) = files();
    let token = CancellationToken::new();
    let (job, counts) = job(Server::Stalls, &listing, &token);
    let cancel = async {
        let requests = &counts.seen.requests;
        // The upload of the small file needs only the head.
        let opens = requests.wait_for(|requests| (requests.begun, requests.in_flight) == (2, 1));
        opens.await;
        token.cancel();
        Instant::now()
    };
    let run = timeout(HOUR, Arc::clone(&job).run(listing.files));
    let (outcomes, cancelled) = tokio::join!(run, cancel);
    assert_eq!(cancelled.elapsed(), 10 * SECOND);
    let answer = "after Ctrl-C, the server did not answer within 10 s";
    let expected = [("large", answer), ("small", "uploaded")];
    assert_eq!(messages(&outcomes.unwrap()), expected);
}

#[tokio::test(start_paused = true)]
async fn verify_after_a_cancel_gives_an_object_up_that_stops_after_its_head() {
    let (_directory, listing) = files();
    let token = CancellationToken::new();
    let (job, counts) = job(Server::Stalls, &listing, &token);
    token.cancel();
    let uploaded = listing.files.into_iter().map(|file| (file, Ok(())));
    let mut outcomes: Vec<_> = uploaded.collect();
    let start = Instant::now();
    let (reading, grace) = (&job.stores.reading, &counts.grace);
    let verify = verify(reading, &mut outcomes, 1, &token, grace, &job.progress);
    timeout(HOUR, verify).await.unwrap();
    assert_eq!(start.elapsed(), 10 * SECOND);
    let large =
        "the object cannot be read back: after Ctrl-C, the server did not answer within 10 s";
    let expected = [("large", large), ("small", "cancelled")];
    assert_eq!(messages(&outcomes), expected);
}
