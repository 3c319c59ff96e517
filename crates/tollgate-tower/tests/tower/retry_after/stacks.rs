//! Tests stacks of layers in which requests wait below the gate: none of them is sent during a pause.

use std::sync::atomic::Ordering::{self, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures::future::{join_all, try_join_all};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate::fair::FairQueue;
use tollgate::{Quota, RateLimiter, Semaphore, Throttle, all};
use tollgate_tower::{RateLimitHeaders, ThrottleLayer};
use tower::BoxError;
use tower::util::BoxCloneService;

use super::*;
use crate::server;

type AnyClient<B, R> = BoxCloneService<Request<B>, Response<R>, BoxError>;

/// Adds a layer for a throttle around the existing layers.
fn behind<B, R>(
    throttle: impl Throttle<Enter: Send, Permit: Send> + Send + Sync + 'static,
    client: AnyClient<B, R>,
) -> AnyClient<B, R>
where
    B: Send + 'static,
    R: 'static,
{
    BoxCloneService::new(ThrottleLayer::new(throttle).errors().layer(client))
}

/// An event at the server. Events are in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Sent(Duration),
    Refused(Duration),
}

/// Returns a client of a server that answers after 350 ms. The server refuses the fifth and the thirtieth
/// request for ten seconds.
fn refused_twice() -> (Arc<Mutex<Vec<Event>>>, AnyClient<Body, Body>) {
    let events = Arc::<Mutex<Vec<_>>>::default();
    let (seen, begun) = (Arc::clone(&events), Instant::now());
    let count = Arc::new(AtomicUsize::new(0));
    let client = tower::service_fn(move |_: Request<Body>| {
        let number = count.fetch_add(1, SeqCst);
        let seen = Arc::clone(&seen);
        seen.lock().unwrap().push(Event::Sent(begun.elapsed()));
        async move {
            tokio::time::sleep(Duration::from_millis(350)).await;
            if ![4, 29].contains(&number) {
                return Ok(Response::default());
            }
            seen.lock().unwrap().push(Event::Refused(begun.elapsed()));
            Ok(refusal("10"))
        }
    });
    (events, BoxCloneService::new(client))
}

fn limiter(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// Returns the times of the requests that were sent during a pause.
fn sent_in_pauses(events: &[Event]) -> Vec<Duration> {
    let mut until = Duration::ZERO;
    let sent = events.iter().filter_map(|event| match *event {
        Event::Sent(at) => Some(at).filter(|at| *at < until),
        Event::Refused(at) => {
            until = until.max(at + 10 * SECOND);
            None
        }
    });
    sent.collect()
}

#[tokio::test(start_paused = true)]
async fn innermost_sends_no_request_in_a_pause() {
    type Inside = fn(AnyClient<Body, Body>) -> AnyClient<Body, Body>;
    let insides: [(&str, Inside); 6] = [
        ("nothing", |client| client),
        ("a rate", |client| {
            behind(limiter(Quota::per_second(10)), client)
        }),
        ("a rate with a burst", |client| {
            behind(limiter(Quota::per_second(10).burst(5)), client)
        }),
        ("a semaphore", |client| {
            behind(Arc::new(Semaphore::new(2)), client)
        }),
        ("a fair queue", |client| {
            let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
            behind(queue.class("a"), client)
        }),
        ("slots and a rate", |client| {
            let slots = Arc::new(Semaphore::new(4));
            behind(all((slots, limiter(Quota::per_second(20)))), client)
        }),
    ];
    for (what, inside) in insides {
        for slots in [1, 4, 64] {
            let (events, client) = refused_twice();
            let retry = exact();
            let client = BoxCloneService::new(retry.innermost().layer(client));
            let client = BoxCloneService::new(retry.layer(inside(client)));
            let client = behind(Arc::new(Semaphore::new(slots)), client);
            let jobs = (0..100).map(|_| client.clone().oneshot(Request::new(Body::default())));
            for answer in try_join_all(jobs).await.unwrap() {
                assert_eq!(answer.status(), 200, "{what}, {slots} slots");
            }
            let events = std::mem::take(&mut *events.lock().unwrap());
            assert_eq!(events.len(), 102 + 2, "{what}, {slots} slots");
            assert_eq!(sent_in_pauses(&events), [], "{what}, {slots} slots");
        }
    }
}

/// The first request is refused while the others wait for their turn.
#[tokio::test(start_paused = true)]
async fn pausing_sends_requests_one_by_one_after_the_pause() {
    for slots in [1, 4, 64] {
        let server = Server::new([refusal("10")]);
        let rate = limiter(Quota::per_second(10));
        let retry = exact().pausing(Arc::clone(&rate));
        let client = retry.innermost().layer(server.clone());
        let client = behind(rate, client.map_err(BoxError::from).boxed_clone());
        let client = BoxCloneService::new(retry.layer(client));
        let client = behind(Arc::new(Semaphore::new(slots)), client);
        let jobs = (0..20).map(|_| client.clone().oneshot(Request::new(Body::default())));
        for answer in join_all(jobs).await {
            assert_eq!(answer.unwrap().status(), 200);
        }
        let after = (0..20).map(|nth| 10.0 + f64::from(nth) / 10.0);
        let expected: Vec<_> = std::iter::once(0.0).chain(after).collect();
        assert_eq!(server.times(), expected, "{slots} slots");
    }
}

/// The limiter knows the length of the pause before the outer layer sees the answer.
#[tokio::test(start_paused = true)]
async fn innermost_and_outer_layer_draw_one_jitter() {
    for _ in 0..64 {
        let clock = Clock::manual();
        let rate = Arc::new(RateLimiter::new(Quota::per_second(10)).clock(&clock));
        let retry = RetryAfterLayer::copying(|body: &Body| Some(body.clone())).clock(&clock);
        let retry = retry.retries(0).pausing(Arc::clone(&rate));
        let inner = retry.innermost().layer(Server::new([refusal("10")]));
        let paused_until = || rate.paused_until().expect("a pause");
        let seen = Arc::new(Mutex::new(None));
        let between = {
            let (seen, rate) = (Arc::clone(&seen), Arc::clone(&rate));
            inner.map_response(move |answer| {
                *seen.lock().unwrap() = rate.paused_until();
                answer
            })
        };
        let answer = retry.layer(between).oneshot(Request::new(Body::default()));
        assert_eq!(answer.await.unwrap().status(), 429);
        assert_eq!(*seen.lock().unwrap(), Some(paused_until()));
    }
}

#[tokio::test(start_paused = true)]
async fn pausing_holds_the_limiter_as_long_as_the_gate() {
    for (asked, expected) in [("0", 0), ("3", 3), ("60", 5)] {
        let rate = limiter(Quota::per_second(10));
        let layer = exact().max_wait(5 * SECOND).retries(0);
        let (_, client) = setup(&layer.pausing(Arc::clone(&rate)), [refusal(asked)]);
        super::get(&client).await;
        let wait = rate.peek().retry_after.unwrap();
        assert_eq!(wait.as_secs(), expected, "{asked}");
    }
}

/// A server that holds the first requests until `held` of them have arrived. It refuses one of them for five
/// seconds, and answers the others when the client has received that answer.
struct Holding {
    at_once: Barrier,
    held: usize,
    arrived: AtomicUsize,
}

impl Holding {
    async fn answer(&self, is_paused: &AtomicBool) -> Response<axum::body::Body> {
        let mut answer = Response::builder();
        if self.arrived.fetch_add(1, SeqCst) < self.held {
            if self.at_once.wait().await.is_leader() {
                answer = answer.status(429).header("retry-after", "5");
            } else {
                server::until(|| is_paused.load(SeqCst)).await;
            }
        }
        answer.body(axum::body::Body::empty()).unwrap()
    }
}

/// All requests in flight at the start of the pause have arrived before it, and the test itself ends the
/// pause, so this works on a machine of any speed.
async fn sends_nothing_on_a_socket_in_a_pause(slots: usize, burst: Option<u64>) {
    let held = burst.map_or(slots, |burst| slots.min(usize::try_from(burst).unwrap()));
    let holding = Arc::new(Holding {
        at_once: Barrier::new(held),
        held,
        arrived: AtomicUsize::new(0),
    });
    let is_paused = Arc::new(AtomicBool::new(false));
    let page = {
        let (holding, is_paused) = (Arc::clone(&holding), Arc::clone(&is_paused));
        async move || holding.answer(&is_paused).await
    };
    let server = server::Server::on_loopback(Router::new().route("/", get(page))).await;

    // The client of hyper, with a count of its requests during the pause.
    let in_pause = Arc::new(AtomicUsize::new(0));
    let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let client = {
        let (before, after) = (Arc::clone(&is_paused), Arc::clone(&is_paused));
        let in_pause = Arc::clone(&in_pause);
        let client = client.map_request(move |request| {
            in_pause.fetch_add(usize::from(before.load(SeqCst)), SeqCst);
            request
        });
        client.map_response(move |answer: Response<_>| {
            if answer.status() == 429 {
                after.store(true, SeqCst);
            }
            answer
        })
    };
    let client = BoxCloneService::new(client.map_err(BoxError::from));

    let clock = Clock::manual();
    let retry = RetryAfterLayer::new().jitter_percent(0).clock(&clock);
    let mut client: AnyClient<_, _> = BoxCloneService::new(retry.innermost().layer(client));
    if let Some(burst) = burst {
        let quota = Quota::per_second(10).burst(burst);
        client = behind(Arc::new(RateLimiter::new(quota).clock(&clock)), client);
    }
    let client = BoxCloneService::new(retry.layer(client));
    let client = behind(Arc::new(Semaphore::new(slots)), client);
    let requests = slots + 8;
    let mut jobs = JoinSet::new();
    for _ in 0..requests {
        let mut request = server::root();
        *request.uri_mut() = format!("http://{}/", server.address).parse().unwrap();
        let answer = client.clone().oneshot(request);
        jobs.spawn(async move { answer.await.unwrap().status() });
    }

    server::until(|| is_paused.load(SeqCst)).await;
    for _ in 0..49 {
        for _ in 0..20 {
            crate::support::yield_now().await;
        }
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(holding.arrived.load(SeqCst), held);
    is_paused.store(false, SeqCst);
    let mut statuses = Vec::new();
    server::until(|| {
        clock.advance(Duration::from_millis(100));
        statuses.extend(std::iter::from_fn(|| jobs.try_join_next()));
        statuses.len() == requests
    })
    .await;
    for status in statuses {
        assert_eq!(status.unwrap(), 200);
    }
    assert_eq!(in_pause.load(SeqCst), 0);
    assert_eq!(holding.arrived.load(SeqCst), requests + 1);
    server.stop().await;
}

#[tokio::test]
async fn innermost_of_a_client_on_a_socket_sends_no_request_in_a_pause() {
    for slots in [1, 4, 64] {
        for burst in [None, Some(1), Some(3)] {
            sends_nothing_on_a_socket_in_a_pause(slots, burst).await;
        }
    }
}

// Tests other layers in combination: a limiter inside, and services that are not always ready.

/// When the gate opens, its waiters pass the client's own limiter one by one.
#[tokio::test(start_paused = true)]
async fn call_released_by_the_gate_passes_the_limiter_inside() {
    let server = Server::new([answer(200, &[("ratelimit", r#""a";r=0;t=10"#)])]);
    let limiter = RateLimiter::new(Quota::per_second(2)).clock(Clock::tokio());
    let limited = ThrottleLayer::new(Arc::new(limiter)).layer(server.clone());
    let client = exact().rate_limit_of_any_status(true).layer(limited);
    let get = || {
        let request = Request::get("http://a.test/").body(Body::default());
        client.clone().oneshot(request.unwrap())
    };
    get().await.unwrap();
    for answer in join_all((0..5).map(|_| get())).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!(server.times(), [0.0, 10.0, 10.5, 11.0, 11.5, 12.0]);
}

/// A service that acquires a permit to become ready, as tower's concurrency limit does.
struct Reserving {
    permits: Arc<Semaphore>,
    reserved: Option<tollgate::semaphore::OwnedPermit>,
    server: Server,
}

impl Clone for Reserving {
    fn clone(&self) -> Self {
        Self {
            permits: Arc::clone(&self.permits),
            reserved: None,
            server: self.server.clone(),
        }
    }
}

impl Service<Request<Body>> for Reserving {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.reserved.is_none() {
            let permit = Arc::clone(&self.permits).try_acquire_owned();
            self.reserved = Some(permit.expect("nobody else has it"));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(self.reserved.take().expect("it was made ready"));
        self.server.call(request)
    }
}

/// While requests to one server wait, they hold nothing that requests to another one need.
#[tokio::test(start_paused = true)]
async fn call_that_waits_holds_no_ready_service() {
    let server = Server::new([refusal("5")]);
    let inner = Reserving {
        permits: Arc::new(Semaphore::new(1)),
        reserved: None,
        server: server.clone(),
    };
    let permits = Arc::clone(&inner.permits);
    let client = exact().layer(inner);
    let after = async |delay, uri| {
        tokio::time::sleep(delay * SECOND).await;
        assert_eq!(permits.available_permits(), 1);
        send(&client, "GET", uri).await
    };
    // One request is refused, one waits from its beginning, and one goes to another server.
    let requests = tokio::join!(
        after(0, "http://a.test/"),
        after(1, "http://a.test/"),
        after(2, "http://b.test/"),
    );
    let waited = [requests.0, requests.1, requests.2].map(|(_, waited)| waited);
    assert_eq!(waited, [5 * SECOND, 4 * SECOND, Duration::ZERO]);
    assert_eq!(server.times(), [0.0, 2.0, 5.0, 5.0]);
    assert_eq!(permits.available_permits(), 1);
}

/// A service that fails when it is made ready for the second time.
#[derive(Clone)]
struct Failing(Arc<Mutex<u32>>);

impl Service<Request<Body>> for Failing {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let calls = *self.0.lock().unwrap();
        Poll::Ready(if calls == 0 { Ok(()) } else { Err("gone") })
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        *self.0.lock().unwrap() += 1;
        ready(Ok(refusal("1")))
    }
}

#[tokio::test(start_paused = true)]
async fn call_hands_on_errors_of_the_inner_service() {
    let client = exact().layer(Failing(Arc::default()));
    let request = Request::get("http://a.test/").body(Body::default());
    let error = client.oneshot(request.unwrap()).await.unwrap_err();
    assert_eq!(error, "gone");
}

// Tests real servers: one of ours, whose fields the client reads, and one on a socket, with hyper's client.

/// A server that reports an exhausted quota in each answer refuses nothing.
#[tokio::test(start_paused = true)]
async fn call_heeds_the_fields_of_a_throttle_layer() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(2)).clock(Clock::tokio());
    let fields = RateLimitHeaders::Draft11;
    let behind = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(fields);
    let client = RetryAfterLayer::new()
        .jitter_percent(0)
        .clock(Clock::tokio())
        .retries(0)
        .rate_limit_of_any_status(true)
        .layer(Router::new().route("/", get("a page")).layer(behind));
    let begun = Instant::now();
    let jobs = (0..6).map(|_| async {
        let answer = client.clone().oneshot(server::root()).await.unwrap();
        (answer.status().as_u16(), begun.elapsed().as_secs())
    });
    let answers = join_all(jobs).await;
    assert_eq!(
        answers,
        [(200, 0), (200, 0), (200, 1), (200, 2), (200, 3), (200, 4)]
    );
}

#[tokio::test]
async fn call_over_a_socket_is_made_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let page = async move || match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Err((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "5")])),
        _ => Ok("a page"),
    };
    let server = server::Server::on_loopback(Router::new().route("/", get(page))).await;
    let clock = Clock::manual();
    let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let client = RetryAfterLayer::new().clock(&clock).layer(client);
    let mut request = server::root();
    *request.uri_mut() = format!("http://{}/", server.address).parse().unwrap();
    let answer = tokio::spawn(client.oneshot(request));
    // The time of the refusal is unknown, so the clock advances until the answer is finished.
    server::until(|| {
        clock.advance(SECOND);
        answer.is_finished()
    })
    .await;
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    let body = http_body_util::BodyExt::collect(answer.into_body()).await;
    assert_eq!(body.unwrap().to_bytes(), "a page");
    server.stop().await;
}
