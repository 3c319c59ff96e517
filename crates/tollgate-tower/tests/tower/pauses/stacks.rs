//! Tests stacks in which requests wait behind the gate: none of them is sent during a pause, wherever it has waited.

use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures::future::{join_all, try_join_all};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate::fair::FairQueue;
use tollgate::throttle::BoxThrottle;
use tollgate::{AcquireError, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_http::ResponseClass;
use tollgate_http::server_limits::{ServerLimits, Unit};
use tollgate_tower::{ApiLimit, ApiLimits, RateLimitHeaders, ThrottleLayer, Usage};
use tower::util::BoxCloneService;

use super::*;
use crate::server;

type AnyClient<B, R> = BoxCloneService<Request<B>, Response<R>, BoxError>;

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

/// Pauses whose callers wait for as long as it takes.
fn patient() -> Pauses {
    exact().max_wait(Duration::MAX)
}

#[tokio::test(start_paused = true)]
async fn behind_any_throttle_sends_no_request_in_a_pause() {
    type New = fn() -> BoxThrottle;
    let throttles: [(&str, New); 6] = [
        ("nothing", || BoxThrottle::new(None::<Arc<Semaphore>>)),
        ("a rate", || {
            BoxThrottle::new(limiter(Quota::per_second(10)))
        }),
        ("a rate with a burst", || {
            BoxThrottle::new(limiter(Quota::per_second(10).burst(5)))
        }),
        ("a semaphore", || {
            BoxThrottle::new(Arc::new(Semaphore::new(2)))
        }),
        ("a fair queue", || {
            let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
            BoxThrottle::new(queue.class("a"))
        }),
        ("slots and a rate", || {
            let slots = Arc::new(Semaphore::new(4));
            BoxThrottle::new(all((slots, limiter(Quota::per_second(20)))))
        }),
    ];
    for (what, throttle) in throttles {
        for slots in [1, 4, 64] {
            let (events, client) = refused_twice();
            let slots = Arc::new(Semaphore::new(slots));
            let stack = all((Arc::clone(&slots), throttle()));
            let client = layer(&patient()).behind(stack).layer(client);
            let jobs = (0..100).map(|_| client.clone().oneshot(Request::new(Body::default())));
            for answer in try_join_all(jobs).await.unwrap() {
                assert_eq!(answer.status(), 200, "{what}, {slots:?}");
            }
            let events = std::mem::take(&mut *events.lock().unwrap());
            assert_eq!(events.len(), 102 + 2, "{what}, {slots:?}");
            assert_eq!(sent_in_pauses(&events), [], "{what}, {slots:?}");
        }
    }
}

/// The first request is refused while the others wait for their turn.
#[tokio::test(start_paused = true)]
async fn behind_a_rate_sends_requests_one_by_one_after_the_pause() {
    for slots in [1, 4, 64] {
        let server = Server::new([refusal("10")]);
        let slots = Arc::new(Semaphore::new(slots));
        let stack = all((Arc::clone(&slots), limiter(Quota::per_second(10))));
        let client = layer(&exact()).behind(stack).layer(server.clone());
        let jobs = (0..20).map(|_| client.clone().oneshot(Request::new(Body::default())));
        for answer in join_all(jobs).await {
            assert_eq!(answer.unwrap().status(), 200);
        }
        let after = (0..20).map(|nth| 10.0 + f64::from(nth) / 10.0);
        let expected: Vec<_> = std::iter::once(0.0).chain(after).collect();
        assert_eq!(server.times(), expected, "{slots:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_stopped_at_the_last_look_gives_back_its_slot_and_its_charge() {
    let pauses = exact();
    let (slots, rate) = (
        Arc::new(Semaphore::new(1)),
        limiter(Quota::per_hour(2).burst(2)),
    );
    let throttle = all((Arc::clone(&slots), Arc::clone(&rate)));
    let server = Server::new([]);
    let inner = Reserving::new(&server);
    let permits = Arc::clone(&inner.permits);
    let client = layer(&pauses).behind(throttle).layer(inner);
    let held = slots.try_acquire().unwrap();
    let stopped = tokio::spawn(client.clone().oneshot(request("GET", "http://a.test/")));
    // It has passed the gate, and waits for the slot.
    while slots.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    pauses.pause(ORIGIN, 5 * SECOND);
    drop(held);
    while pauses.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(slots.available_permits(), 1);
    assert_eq!(rate.snapshot().available, 2);
    // It holds nothing of the inner service either.
    assert_eq!(permits.available_permits(), 1);
    let other = send(&client, "GET", "http://b.test/").await;
    assert_eq!(other, (200, Duration::ZERO));
    assert!(stopped.await.unwrap().is_ok());
    assert_eq!(server.times(), [0.0, 5.0]);
}

/// Limits of 98 requests, and of 98 units that are held: ten for each request.
fn api_limits() -> ApiLimits<Request<Body>> {
    let limit = |unit| ApiLimit::new(unit, 100, 60 * SECOND).clock(Clock::tokio());
    let tokens = limit(Unit::Tokens).hold(|_: &Request<_>| 10);
    ApiLimits::new([limit(Unit::Requests), tokens])
}

fn left(limits: &ApiLimits<Request<Body>>) -> Vec<u64> {
    let limiters = limits.limiters();
    limiters.map(|it| it.snapshot().available).collect()
}

#[tokio::test(start_paused = true)]
async fn limits_are_entered_after_the_throttle_and_given_back_at_the_last_look() {
    let (pauses, limits) = (exact(), api_limits());
    let slots = Arc::new(Semaphore::new(1));
    let server = Server::new([]);
    let stack = layer(&pauses).behind(Arc::clone(&slots));
    let client = stack.limits(limits.clone()).layer(server.clone());
    // It has its slot, and waits for the limits.
    let used = limits.limiters().next().unwrap();
    let used = (used, used.try_acquire_many(98).unwrap());
    let stopped = tokio::spawn(client.clone().oneshot(request("GET", "http://a.test/")));
    while slots.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(left(&limits), [0, 98]);
    pauses.pause(ORIGIN, 5 * SECOND);
    used.0.refund(used.1);
    while pauses.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (left(&limits), slots.available_permits()),
        (vec![98, 98], 1)
    );
    assert!(stopped.await.unwrap().is_ok());
    assert_eq!(server.times(), [5.0]);
}

#[tokio::test(start_paused = true)]
async fn limits_charge_no_refusal_and_hold_until_the_usage_is_known() {
    let limits = api_limits();
    let server = Server::new([refusal("5")]);
    let client = layer(&exact()).limits(limits.clone()).layer(server.clone());
    let answer = client.clone().oneshot(request("GET", "http://a.test/"));
    let answer = answer.await.unwrap();
    assert_eq!(server.times(), [0.0, 5.0]);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(left(&limits), [98, 88]);
    let usage = answer.extensions().get::<Usage>().unwrap().clone();
    drop(answer);
    assert_eq!(left(&limits), [98, 88]);
    usage.settle(Unit::Tokens, 3);
    assert_eq!(left(&limits), [98, 98]);
}

/// What the pauses take for a refusal, is one to the limits.
#[tokio::test(start_paused = true)]
async fn limits_charge_nothing_for_a_class_that_refuses() {
    let limits = api_limits();
    let refused = |status: StatusCode, _: &_, class| match status.as_u16() {
        420 => ResponseClass::Refused(None),
        _ => class,
    };
    let pauses = exact().max_wait(Duration::ZERO).classify(refused);
    let client = layer(&pauses)
        .limits(limits.clone())
        .layer(Server::new([answer(420, &[])]));
    assert_eq!(send(&client, "GET", "http://a.test/").await.0, 420);
    assert_eq!(left(&limits), [98, 98]);
}

#[tokio::test(start_paused = true)]
async fn limits_follow_the_server() {
    let limits = api_limits();
    let fields = [("x-ratelimit-remaining-requests", "40")];
    let server = Server::new([answer(200, &fields)]);
    let client = layer(&exact()).limits(limits.clone()).layer(server.clone());
    assert_eq!(send(&client, "GET", "http://a.test/").await.0, 200);
    assert_eq!(left(&limits)[0], 38);
}

#[tokio::test(start_paused = true)]
async fn limits_refuse_what_they_never_have_room_for() {
    let limits = api_limits();
    limits
        .limiters()
        .nth(1)
        .unwrap()
        .set_quota(Quota::per_minute(9));
    let slots = Arc::new(Semaphore::new(1));
    let stack = layer(&exact()).behind(Arc::clone(&slots));
    let client = stack.limits(limits.clone()).layer(Server::new([]));
    let refused = client.oneshot(request("GET", "http://a.test/")).await;
    let error = refused.unwrap_err();
    let error = error.downcast_ref::<AcquireError>().unwrap();
    assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!((left(&limits)[0], slots.available_permits()), (98, 1));
}

/// A request that is dropped before it is sent costs nothing.
#[tokio::test(start_paused = true)]
async fn call_dropped_while_the_service_becomes_ready_gives_back_its_charge() {
    #[derive(Clone)]
    struct Never;

    impl Service<Request<Body>> for Never {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            panic!("it is never ready")
        }
    }
    let rate = limiter(Quota::per_hour(1));
    let client = layer(&exact()).behind(Arc::clone(&rate)).layer(Never);
    assert!(
        timeout(SECOND, send(&client, "GET", "http://a.test/"))
            .await
            .is_err()
    );
    assert_eq!(rate.snapshot().available, 1);
}

/// A server of several hosts that answers after a tenth of a second. It refuses the first request to `a.test` for a
/// minute.
#[tokio::test(start_paused = true)]
async fn call_to_a_paused_host_takes_nothing_from_others() {
    for is_paused in [false, true] {
        let begun = Instant::now();
        let server = tower::service_fn(move |request: Request<Body>| async move {
            let at = begun.elapsed();
            sleep(SECOND / 10).await;
            let is_refused = is_paused && request.uri().host() == Some("a.test");
            if is_refused && at < 60 * SECOND {
                assert_eq!(at, Duration::ZERO, "a request in the pause");
                return Ok::<_, Infallible>(refusal("60"));
            }
            Ok(Response::default())
        });
        // One request at once to a host, and 64 in all.
        let hosts = Arc::new(Keyed::semaphores(1));
        let total = Arc::new(Semaphore::new(64));
        let layer = layer(&patient()).behind_by(move |request| {
            let host = request.uri().host().unwrap().to_owned();
            all((Arc::clone(&hosts).key_owned(host), Arc::clone(&total)))
        });
        let client = layer.layer(server);
        let paused = (0..1000).map(|_| {
            let client = client.clone();
            async move { send(&client, "GET", "http://a.test/").await.0 }
        });
        let paused = JoinSet::from_iter(paused);
        let others = (0..640).map(|number| {
            let client = client.clone();
            let uri = format!("http://{}.test/", number % 64);
            async move { send(&client, "GET", &uri).await }
        });
        let others = JoinSet::from_iter(others).join_all().await;
        assert!(others.iter().all(|(status, _)| *status == 200));
        // 64 hosts and `a.test` have 64 slots: without a pause each waits once for one of them.
        let took = begun.elapsed();
        let expected = SECOND
            + if is_paused {
                Duration::ZERO
            } else {
                SECOND / 10
            };
        assert!(took <= expected + SECOND / 10, "{is_paused}: {took:?}");
        for status in paused.join_all().await {
            assert_eq!(status, 200);
        }
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

    let clock = Clock::manual();
    let pauses = patient().clock(&clock);
    let rate = burst.map(|burst| {
        let quota = Quota::per_second(10).burst(burst);
        Arc::new(RateLimiter::new(quota).clock(&clock))
    });
    let throttle = all((Arc::new(Semaphore::new(slots)), rate));
    let client = PausesLayer::new(pauses).behind(throttle).layer(client);
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
async fn behind_of_a_client_on_a_socket_sends_no_request_in_a_pause() {
    for slots in [1, 4, 64] {
        for burst in [None, Some(1), Some(3)] {
            sends_nothing_on_a_socket_in_a_pause(slots, burst).await;
        }
    }
}

/// A service that acquires a permit to become ready, as tower's concurrency limit does.
struct Reserving {
    permits: Arc<Semaphore>,
    reserved: Option<tollgate::semaphore::OwnedPermit>,
    server: Server,
}

impl Reserving {
    fn new(server: &Server) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(1)),
            reserved: None,
            server: server.clone(),
        }
    }
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
    let inner = Reserving::new(&server);
    let permits = Arc::clone(&inner.permits);
    let client = layer(&exact()).layer(inner);
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
    let client = layer(&exact()).layer(Failing(Arc::default()));
    let error = client.oneshot(request("GET", "http://a.test/")).await;
    assert_eq!(error.unwrap_err().to_string(), "gone");
}

#[tokio::test(start_paused = true)]
async fn call_hands_on_errors_of_the_throttle() {
    let closed = Arc::new(Semaphore::new(1));
    closed.close();
    let server = Server::new([]);
    let client = layer(&exact()).behind(closed).layer(server.clone());
    let error = client.oneshot(request("GET", "http://a.test/")).await;
    let error = error.unwrap_err();
    let error: &AcquireError = error.downcast_ref().unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(server.came(), []);
}

/// The future that has failed may be kept.
#[tokio::test(start_paused = true)]
async fn call_that_fails_after_a_pause_lets_the_next_go() {
    let pauses = exact();
    pauses.pause(ORIGIN, SECOND);
    let failing = tower::service_fn(|_: Request<Body>| ready(Err::<Response<Body>, _>("gone")));
    let mut failing = layer(&pauses).layer(failing);
    let mut failed = failing.call(request("GET", "http://a.test/"));
    assert!((&mut failed).await.is_err());
    let (server, client) = setup!(&pauses, []);
    assert_eq!(
        send(&client, "GET", "http://a.test/").await,
        (200, Duration::ZERO)
    );
    assert_eq!(server.times(), [0.0]);
    drop(failed);
}

// Tests real servers: one of ours, whose fields the client reads, and one on a socket, with hyper's client.

/// A server that reports an exhausted quota in each answer refuses nothing, if a client takes that for a refusal.
#[tokio::test(start_paused = true)]
async fn call_heeds_the_fields_of_a_throttle_layer() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(2)).clock(Clock::tokio());
    let behind = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(RateLimitHeaders::Draft11);
    let pauses = exact().retries(0).classify(|_, headers, class| {
        let limits = ServerLimits::of(headers, SystemTime::now());
        let used_up = limits.tightest(Unit::Requests);
        let used_up = used_up.and_then(|window| window.exhausted_for());
        used_up.map_or(class, |wait| ResponseClass::Refused(Some(wait)))
    });
    let client =
        PausesLayer::new(pauses).layer(Router::new().route("/", get("a page")).layer(behind));
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
    let page = async move || match counted.fetch_add(1, SeqCst) {
        0 => Err((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "5")])),
        _ => Ok("a page"),
    };
    let server = server::Server::on_loopback(Router::new().route("/", get(page))).await;
    let clock = Clock::manual();
    let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let client = PausesLayer::new(patient().clock(&clock)).layer(client);
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
    assert_eq!(requests.load(SeqCst), 2);
    let body = http_body_util::BodyExt::collect(answer.into_body()).await;
    assert_eq!(body.unwrap().to_bytes(), "a page");
    server.stop().await;
}
