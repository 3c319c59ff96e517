//! Tests how long a request holds its permit, and the rest of its response after that.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::client::{HttpClient, HttpErrorKind, HttpResponseBody};
use tokio::time::Instant;
use tollgate::throttle::BoxThrottle;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Throttle};
use tollgate_object_store::{Hold, ThrottledConnector, wait_too_long};

use crate::support::{SECOND, Script, cap, client, frames, get, kind, status};

#[tokio::test(start_paused = true)]
async fn body_read_to_its_end_returns_the_permit_with_the_end() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    for _ in 0..2 {
        assert!(matches!(body.frame().await, Some(Ok(_))));
        assert_eq!(cap.available_permits(), 0);
    }
    assert!(body.frame().await.is_none());
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_dropped_half_read_returns_the_permit() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    assert!(matches!(body.frame().await, Some(Ok(_))));
    assert_eq!(cap.available_permits(), 0);
    drop(body);
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_that_fails_returns_the_permit_in_the_same_poll() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Err(HttpErrorKind::Request)])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let mut body = client.execute(get()).await.expect("an answer").into_body();
    assert!(matches!(body.frame().await, Some(Ok(_))));
    assert_eq!(cap.available_permits(), 0);
    assert!(matches!(body.frame().await, Some(Err(_))));
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_that_is_empty_holds_no_permit() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, Vec::new()));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let _answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn body_under_a_boxed_throttle_holds_the_permit() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, "a".to_owned()));
    let client = client(&ThrottledConnector::new(
        script,
        BoxThrottle::new(Arc::clone(&cap)),
    ));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 0);
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "a");
    assert_eq!(cap.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn hold_head_returns_the_permit_at_the_head() {
    let cap = cap(1);
    let script = Script::ready(|_| status(200, frames([Ok("a")])));
    let connector = ThrottledConnector::new(script, Arc::clone(&cap)).hold(Hold::Head);
    let answer = client(&connector).execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "a");
}

#[tokio::test(start_paused = true)]
async fn hold_head_with_8_bodies_at_a_cap_of_4_finishes() {
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let connector = ThrottledConnector::new(script, cap(4)).hold(Hold::Head);
    let client = client(&connector);
    let mut bodies = Vec::new();
    for _ in 0..8 {
        bodies.push(client.execute(get()).await.expect("an answer").into_body());
    }
    for body in bodies {
        assert_eq!(body.bytes().await.expect("a body"), "ab");
    }
}

#[tokio::test(start_paused = true)]
async fn hold_body_with_8_bodies_at_a_cap_of_4_is_wait_too_long_that_counts_4() {
    let cap = cap(4);
    let script = Script::ready(|_| status(200, frames([Ok("a"), Ok("b")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answers = join_all((0..8).map(|_| client.execute(get()))).await;
    let (open, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((open.len(), refused.len()), (4, 4));
    // They fail one after the other, and the others still wait.
    for (refused, waiting) in refused.into_iter().zip([3, 2, 1, 0]) {
        let error = refused.expect_err("a refusal");
        assert_eq!(error.kind(), HttpErrorKind::Unknown, "it is not repeated");
        let source = wait_too_long(&error);
        let source = source.expect("a wait that was too long");
        assert_eq!(
            (source.bodies(), source.requests(), source.max_wait()),
            (4, waiting, Duration::from_secs(120))
        );
        let text = "not admitted by the throttle within 120s; 4 response bodies that have not been read to their end hold a \
             permit each: if they wait for this request, read or drop them first, or use Hold::Head";
        assert!(source.to_string().starts_with(text), "{source}");
        assert_eq!(kind(&error), Some(ErrorKind::TimedOut));
    }
    drop(open);
    assert_eq!((cap.available_permits(), cap.snapshot().waiting), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn refusal_holds_no_permit_and_keeps_its_body() {
    let cap = cap(1);
    let script = Script::ready(|_| status(503, frames([Ok("slow "), Ok("down")])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(cap.available_permits(), 1);
    assert_eq!(answer.status(), 503);
    assert_eq!(
        answer.into_body().bytes().await.expect("a body"),
        "slow down"
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_above_64_kib_is_truncated() {
    let script = Script::ready(|_| status(503, vec![b'a'; 70_000]));
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!(body.len(), 64 << 10);
}

/// The layer does not wait for bytes after the first 64 KiB.
#[tokio::test(start_paused = true)]
async fn refusal_whose_body_stalls_after_64_kib_returns_the_permit_at_once() {
    let cap = cap(1);
    let script = Script::ready(|_| {
        let data = stream::iter([Ok(Frame::data(Bytes::from_static(&[b'a'; 64 << 10])))]);
        status(
            503,
            HttpResponseBody::new(StreamBody::new(data.chain(stream::pending()))),
        )
    });
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answer = client.execute(get()).now_or_never();
    let answer = answer.expect("no wait").expect("an answer");
    assert_eq!(cap.available_permits(), 1);
    let body = answer.into_body().bytes().await.expect("a body");
    assert_eq!(body.len(), 64 << 10);
}

#[tokio::test(start_paused = true)]
async fn refusal_above_64_kib_is_not_truncated_inside_a_character() {
    let script = Script::ready(|_| status(404, format!("aa{}", "\u{20ac}".repeat(30_000))));
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    let body = answer.into_body().bytes().await.expect("a body");
    let text = String::from_utf8(body.into()).expect("text");
    // Two bytes of the next character would still fit.
    assert_eq!(text.len(), (64 << 10) - 2);
}

#[tokio::test(start_paused = true)]
async fn refusal_whose_body_fails_keeps_its_status_and_fails_after_what_was_read() {
    let cap = cap(1);
    let script = Script::ready(|_| status(503, frames([Ok("slow"), Err(HttpErrorKind::Request)])));
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(
        (answer.status(), cap.available_permits()),
        (503.try_into().unwrap(), 1)
    );
    let mut body = answer.into_body();
    let frame = body.frame().await.expect("a frame").expect("data");
    assert_eq!(frame.into_data().expect("data"), "slow");
    let error = body.frame().await.expect("a frame").expect_err("a failure");
    assert_eq!(error.kind(), HttpErrorKind::Request);
}

#[tokio::test(start_paused = true)]
async fn refusal_whose_body_stalls_holds_the_permit_for_a_second() {
    let cap = cap(1);
    let script = Script::ready(|_| {
        let data = stream::iter([Ok(Frame::data(Bytes::from_static(b"slow")))]);
        status(
            503,
            HttpResponseBody::new(StreamBody::new(data.chain(stream::pending()))),
        )
    });
    let client = client(&ThrottledConnector::new(script, Arc::clone(&cap)));
    let start = Instant::now();
    let call = client.execute(get());
    let mut call = std::pin::pin!(call);
    assert!(futures_util::poll!(&mut call).is_pending());
    assert_eq!(cap.available_permits(), 0);
    let answer = call.await.expect("an answer");
    assert_eq!((start.elapsed(), cap.available_permits()), (SECOND, 1));
    assert_eq!(answer.into_body().bytes().await.expect("a body"), "slow");
}

#[tokio::test(start_paused = true)]
async fn execute_with_extensions_in_the_response_keeps_them() {
    let script = Script::ready(|_| {
        let mut answer = status(200, "a".to_owned())?;
        answer.extensions_mut().insert(7_u8);
        Ok(answer)
    });
    let client = client(&ThrottledConnector::new(script, cap(1)));
    let answer = client.execute(get()).await.expect("an answer");
    assert_eq!(answer.extensions().get(), Some(&7_u8));
}

/// A throttle that can be entered once, and calls this closure when its permit is returned.
#[derive(Clone)]
struct Once {
    on_return: Arc<dyn Fn() + Send + Sync>,
    taken: Arc<AtomicBool>,
}

struct OncePermit(Once);

impl Throttle for Once {
    type Permit = OncePermit;
    type Enter = BoxFuture<'static, Result<OncePermit, AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(if self.taken.swap(true, Ordering::Relaxed) {
            Box::pin(pending())
        } else {
            Box::pin(ready(Ok(OncePermit(self.clone()))))
        })
    }
}

impl Drop for OncePermit {
    fn drop(&mut self) {
        (self.0.on_return)();
    }
}

#[tokio::test(start_paused = true)]
async fn body_whose_permit_wakes_a_waiter_is_not_counted_by_it() {
    let client = Arc::new(OnceLock::<HttpClient>::new());
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let (other, counts) = (Arc::clone(&client), Arc::clone(&bodies));
    let on_return = move || {
        let call = other.get().expect("a client").execute(get());
        let refused = call.now_or_never().expect("the wait has no time");
        let error = refused.expect_err("a refusal");
        let wait = wait_too_long(&error).expect("a wait that was too long");
        let counted = (wait.bodies(), wait.requests());
        counts.lock().expect("no panic").push(counted);
    };
    let script = Script::ready(|_| status(200, frames([Ok("a")])));
    let throttle = Once {
        on_return: Arc::new(on_return),
        taken: Arc::default(),
    };
    let connector = ThrottledConnector::new(script, throttle).max_wait(Duration::ZERO);
    let client = client.get_or_init(|| crate::support::client(&connector));
    let answer = client.execute(get()).await.expect("an answer");
    answer.into_body().bytes().await.expect("a body");
    assert_eq!(*bodies.lock().expect("no panic"), [(0, 0)]);
}
