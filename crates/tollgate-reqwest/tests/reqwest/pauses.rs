//! Tests clients that wait for as long as servers ask.

use std::error::Error as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures::future::{join_all, try_join_all};
use reqwest::{ResponseBuilderExt, Url};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use tokio::time::timeout;
use tollgate::fair::FairQueue;
use tollgate::semaphore::Resting;
use tollgate::throttle::BoxThrottle;
use tollgate::{AcquireError, ErrorKind, Keyed, Throttle};
use tollgate_reqwest::server_limits::Unit;
use tollgate_reqwest::{ApiLimit, ApiLimits, Refusals, Usage, origin};

use super::*;

/// Returns the final status of a request, and the time that it took.
async fn send(request: RequestBuilder) -> (u16, Duration) {
    let begun = Instant::now();
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), begun.elapsed())
}

fn client(pauses: &Pauses, server: &Server) -> ClientWithMiddleware {
    let middleware = PausesMiddleware::new(pauses.clone());
    builder().with(middleware).with(server.clone()).build()
}

/// Returns the pause for which a request is refused locally.
async fn refused(request: RequestBuilder) -> Paused {
    let error = request.send().await.expect_err("it is refused");
    assert!(error.is_middleware(), "{error}");
    Paused::in_chain(&error).expect("a pause").clone()
}

#[tokio::test(start_paused = true)]
async fn middleware_sends_a_refused_request_again_after_the_pause() {
    let server = Server::new([refusal(5), refusal(2)]);
    let client = client(&exact(), &server);
    assert_eq!(send(client.get("http://a.test/")).await, (200, 7 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 7.0]);
}

#[tokio::test(start_paused = true)]
async fn middleware_sends_again_what_can_be_cloned_and_was_not_handled() {
    let stream = || reqwest::Body::wrap(reqwest::Body::from("text"));
    for (method, body, refused_with, expected) in [
        ("PUT", Some("text".into()), 429, 200),
        ("PUT", Some("text".into()), 503, 200),
        ("DELETE", None, 503, 200),
        ("PUT", Some(stream()), 429, 429),
        ("POST", None, 429, 200),
        ("POST", Some("text".into()), 429, 200),
        ("POST", Some(stream()), 429, 429),
        ("POST", None, 503, 503),
    ] {
        let refusal = Response::builder().status(refused_with);
        let refusal = refusal.header("retry-after", 5).body("").unwrap();
        let server = Server::new([refusal]);
        let client = client(&exact(), &server);
        let mut request = client.request(method.parse().unwrap(), "http://a.test/");
        if let Some(body) = body {
            request = request.body(body);
        }
        let what = format!("{method}, {refused_with}");
        assert_eq!(send(request).await.0, expected, "{what}");
        // The response has paused the origin in any case.
        send(client.get("http://a.test/")).await;
        assert_eq!(server.times()[..2], [0.0, 5.0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_if_decides_by_the_request_and_the_status() {
    let server = Server::new([refusal(5), refusal(5)]);
    let middleware = PausesMiddleware::new(exact())
        .retry_if(|request, status| request.url().path() == "/safe" && status == 429);
    let client = builder().with(middleware).with(server.clone()).build();
    assert_eq!(send(client.get("http://a.test/")).await.0, 429);
    let safe = send(client.post("http://a.test/safe")).await;
    assert_eq!(safe, (200, 10 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 10.0]);
}

#[tokio::test(start_paused = true)]
async fn gate_by_names_what_a_refusal_pauses() {
    let server = Server::new([refusal_of("http://a.test/search", 5)]);
    let middleware = PausesMiddleware::new(exact().retries(0));
    let middleware = middleware.gate_by(|url| origin(url) + url.path());
    let client = builder().with(middleware).with(server.clone()).build();
    let send = |path| send(client.get(format!("http://a.test/{path}")));
    assert_eq!(send("search").await, (429, Duration::ZERO));
    assert_eq!(send("free").await, (200, Duration::ZERO));
    assert_eq!(send("search").await, (200, 5 * SECOND));
}

/// Limits of 98 requests, and of 98 units that are held: ten for each request.
fn api_limits() -> ApiLimits<Request> {
    let limit = |unit| ApiLimit::new(unit, 100, 60 * SECOND).clock(Clock::tokio());
    let tokens = limit(Unit::Tokens).hold(|_: &Request| 10);
    ApiLimits::new([limit(Unit::Requests), tokens])
}

fn left(limits: &ApiLimits<Request>) -> Vec<u64> {
    let limiters = limits.limiters();
    limiters.map(|it| it.snapshot().available).collect()
}

#[tokio::test(start_paused = true)]
async fn limits_are_entered_after_the_throttle_and_given_back_at_the_last_look() {
    let (pauses, limits) = (exact(), api_limits());
    let (slots, server) = (Arc::new(Semaphore::new(1)), Server::new([]));
    let middleware = PausesMiddleware::new(pauses.clone())
        .behind(Arc::clone(&slots))
        .limits(limits.clone());
    let client = builder().with(middleware).with(server.clone()).build();
    // It has its slot, and waits for the limits.
    let used = limits.limiters().next().unwrap();
    let used = (used, used.try_acquire_many(98).unwrap());
    let stopped = tokio::spawn(client.get("http://a.test/").send());
    while slots.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(left(&limits), [0, 98]);
    pauses.pause("http://a.test:80", 5 * SECOND);
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
    let answer = Response::builder().header("x-ratelimit-remaining-requests", "40");
    let server = Server::new([refusal(5), answer.body("").unwrap()]);
    let middleware = PausesMiddleware::new(exact())
        .behind(Arc::new(Semaphore::new(1)))
        .limits(limits.clone());
    let client = builder().with(middleware).with(server.clone()).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(server.times(), [0.0, 5.0]);
    assert_eq!(left(&limits), [38, 88]);
    let usage = answer.extensions().get::<Usage>().unwrap().clone();
    assert_eq!(answer.text().await.unwrap(), "");
    assert_eq!(left(&limits), [38, 88]);
    usage.settle(Unit::Tokens, 3);
    assert_eq!(left(&limits), [38, 95]);
}

#[tokio::test(start_paused = true)]
async fn limits_charge_no_refusal_that_only_its_body_tells() {
    let limits = api_limits();
    let server = Server::new([Response::new("wait for 5 s")]);
    let told = Refusals::by_body(
        |_, _| true,
        |body| body.starts_with(b"wait").then_some(5 * SECOND),
    );
    let middleware = PausesMiddleware::new(exact())
        .refusals(told)
        .limits(limits.clone());
    let client = builder().with(middleware).with(server.clone()).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(server.times(), [0.0, 5.0]);
    answer
        .extensions()
        .get::<Usage>()
        .unwrap()
        .settle(Unit::Tokens, 3);
    // The second attempt alone, but for what has come back in five seconds.
    assert_eq!(left(&limits), [97, 95]);
}

/// The host rests between its requests, also between one that is refused and its repetition, and the slots of all do not.
#[tokio::test(start_paused = true)]
async fn on_answer_lets_a_host_rest_for_as_long_as_it_took() {
    let mut server = Server::new([refusal(1)]);
    server.latency = 3 * SECOND;
    let (hosts, total) = (Arc::new(Keyed::semaphores(1)), Arc::new(Semaphore::new(1)));
    let slots = Arc::clone(&total);
    let middleware = PausesMiddleware::new(exact())
        .behind_by(move |request| {
            let host = Arc::clone(&hosts).key_owned(origin(request.url()));
            let host = Resting::new(host, 2 * SECOND).clock(Clock::tokio());
            all((host, Arc::clone(&slots)))
        })
        .on_answer(|(host, _total), response, latency| {
            if response.status().is_success() {
                host.set_duration(2 * latency);
            }
        });
    let client = builder().with(middleware).with(server.clone()).build();
    let get = async |url| client.get(url).send().await.unwrap().bytes().await;
    get("http://a.test/").await.unwrap();
    // A refusal at 3 s, with a pause of a second and a rest of two.
    assert_eq!(server.times(), [0.0, 5.0]);
    assert_eq!(total.available_permits(), 1);
    let (slow, other) = tokio::join!(get("http://a.test/"), get("http://b.test/"));
    slow.unwrap();
    other.unwrap();
    assert_eq!(server.times(), [8.0, 14.0]);
}

/// A request that panics after it was sent returns its permit, and one that panics before is not charged.
#[tokio::test(start_paused = true)]
async fn middleware_whose_request_panics_returns_its_permit() {
    #[derive(Default)]
    struct Panics(AtomicUsize);

    impl Clone for Panics {
        fn clone(&self) -> Self {
            assert_eq!(self.0.load(SeqCst), 0, "the copy of a request panics");
            Self::default()
        }
    }

    for (copy_panics, charged) in [(true, 0), (false, 1)] {
        let (slots, rate) = (
            Arc::new(Semaphore::new(1)),
            limiter(Quota::per_hour(1).burst(10)),
        );
        let middleware = PausesMiddleware::new(exact())
            .behind(all((Arc::clone(&slots), Arc::clone(&rate))))
            .on_answer(|_, _, _| panic!("the closure panics"));
        let client = builder().with(middleware).with(Server::new([])).build();
        let extension = Panics(AtomicUsize::new(copy_panics.into()));
        let request = http::Request::get("http://a.test/").extension(extension);
        let request = Request::try_from(request.body("").unwrap()).unwrap();
        let panicked = tokio::spawn(async move { client.execute(request).await }).await;
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(slots.available_permits(), 1);
        assert_eq!(rate.snapshot().available, 10 - charged);
    }
}

#[tokio::test(start_paused = true)]
async fn middleware_refuses_who_would_wait_for_longer() {
    let server = Server::new([refusal(61)]);
    let client = client(&exact(), &server);
    assert_eq!(send(client.get("http://a.test/")).await.0, 429);
    let paused = refused(client.get("http://a.test/")).await;
    assert_eq!(paused.remaining(), Some(61 * SECOND));
    assert_eq!(paused.origin(), "http://a.test:80");
    sleep(SECOND).await;
    assert_eq!(send(client.get("http://a.test/")).await, (200, 60 * SECOND));
    assert_eq!(server.times(), [0.0, 61.0]);
}

/// Callers that go on whether or not they are refused.
#[tokio::test(start_paused = true)]
async fn middleware_sends_no_request_in_a_pause_of_40_minutes() {
    let server = Server::new([refusal(2400)]);
    let client = client(&exact(), &server);
    let callers = (0..64).map(async |caller| {
        sleep(Duration::from_millis(caller)).await;
        while server.begun.elapsed() < 2500 * SECOND {
            let sent = client.post("http://a.test/").send().await;
            assert!(sent.map_or_else(|it| Paused::in_chain(&it).is_some(), |_| true));
            sleep(10 * SECOND).await;
        }
    });
    join_all(callers).await;
    let times = server.times();
    assert!(times[0] == 0.0 && times[1..].iter().all(|at| *at >= 2400.0));
    assert!(times.len() >= 64 * 10, "{}", times.len());
}

/// The error of a pause has another one around it, which `reqwest_middleware::Error` hides.
#[tokio::test(start_paused = true)]
async fn middleware_fails_with_errors_that_can_be_told_apart() {
    let server = Server::new([]);
    let pauses = exact();
    let slots = Arc::new(Semaphore::new(1));
    slots.close();
    let middleware = PausesMiddleware::new(pauses.clone()).behind(slots);
    let client = builder().with(middleware).with(server.clone()).build();
    let error = client.get("http://a.test/").send().await.unwrap_err();
    assert_eq!(Paused::in_chain(&error), None);
    let reqwest_middleware::Error::Middleware(error) = error else {
        panic!("{error}");
    };
    let error: &AcquireError = error.downcast_ref().unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed);

    pauses.pause("http://a.test:80", 100 * SECOND);
    let error = client.get("http://a.test/").send().await.unwrap_err();
    assert_eq!(error.to_string(), "the request was not sent");
    let source = error.source().unwrap();
    assert!(source.to_string().contains("http://a.test:80"), "{source}");
    assert!(Paused::in_chain(&error).is_some());
    assert!(server.times().is_empty());
}

#[tokio::test(start_paused = true)]
async fn middleware_holds_all_requests_to_the_origin_and_no_others() {
    let server = Server::new([refusal(5)]);
    let pauses = exact().retries(0);
    let clients = [client(&pauses, &server), client(&pauses, &server)];
    assert_eq!(send(clients[0].get("http://a.test/")).await.0, 429);
    let urls = [
        ("http://a.test/b?c", 5),
        ("http://u:p@A.TEST:80/", 5),
        ("https://a.test/", 0),
        ("http://a.test:81/", 0),
        ("http://b.test/", 0),
    ];
    let jobs = urls.map(|(url, seconds)| {
        let request = clients[1].get(url);
        async move { assert_eq!(send(request).await, (200, seconds * SECOND), "{url}") }
    });
    join_all(jobs).await;
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 5.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn middleware_of_a_dropped_request_sends_nothing() {
    let server = Server::new([refusal(5)]);
    let client = client(&exact(), &server);
    for _ in 0..2 {
        assert!(
            timeout(SECOND, send(client.get("http://a.test/")))
                .await
                .is_err()
        );
    }
    assert_eq!(send(client.get("http://a.test/")).await, (200, 3 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

/// Puts requests behind slots and a second throttle.
type Behind = fn(Arc<Semaphore>) -> Arc<dyn Middleware>;

fn behind<T>(throttle: T) -> Arc<dyn Middleware>
where
    T: Throttle<Enter: Send, Permit: Send + 'static> + Send + Sync + 'static,
{
    Arc::new(PausesMiddleware::new(patient()).behind(throttle))
}

fn throttles() -> [(&'static str, Behind); 6] {
    [
        ("nothing", |slots| behind(slots)),
        ("a rate", |slots| {
            behind(all((slots, limiter(Quota::per_second(10)))))
        }),
        ("a semaphore", |slots| {
            behind(all((slots, Arc::new(Semaphore::new(2)))))
        }),
        ("a fair queue", |slots| {
            let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
            behind(all((slots, queue.class("a"))))
        }),
        ("a boxed throttle", |slots| behind(BoxThrottle::new(slots))),
        ("slots and a rate", |slots| {
            let four = Arc::new(Semaphore::new(4));
            let rate = limiter(Quota::per_second(20).burst(5));
            behind(all((slots, four, rate)))
        }),
    ]
}

/// The fifth and the thirtieth request are refused for ten seconds.
#[tokio::test(start_paused = true)]
async fn behind_any_throttle_sends_no_request_in_a_pause() {
    for (what, behind) in throttles() {
        for slots in [1, 4, 64] {
            let answers = (0..30).map(|number| match number {
                4 | 29 => refusal(10),
                _ => Response::default(),
            });
            let mut server = Server::new(answers);
            server.latency = Duration::from_millis(350);
            let client = builder()
                .with_arc(behind(Arc::new(Semaphore::new(slots))))
                .with(server.clone())
                .build();
            let jobs = (0..100).map(|_| client.get("http://a.test/").send());
            let jobs = jobs.map(|job| async { job.await.map(|answer| answer.status()) });
            for status in try_join_all(jobs).await.unwrap() {
                assert_eq!(status, 200, "{what}, {slots} slots");
            }
            assert_eq!(server.sent_in_pauses(), [], "{what}, {slots} slots");
            assert_eq!(server.times().len(), 102, "{what}, {slots} slots");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_rate_sends_requests_one_by_one_after_the_pause() {
    let server = Server::new([refusal(10)]);
    let middleware = PausesMiddleware::new(exact()).behind(limiter(Quota::per_second(10)));
    let client = builder().with(middleware).with(server.clone()).build();
    let jobs = (0..20).map(|_| client.get("http://a.test/").send());
    try_join_all(jobs).await.unwrap();
    let after = (0..20).map(|nth| 10.0 + f64::from(nth) / 10.0);
    let expected: Vec<_> = std::iter::once(0.0).chain(after).collect();
    assert_eq!(server.times(), expected);
}

/// It was charged, and waits for the only slot when the pause begins.
#[tokio::test(start_paused = true)]
async fn request_stopped_at_the_last_look_gives_back_its_slot_and_its_charge() {
    let mut server = Server::new([]);
    server.latency = SECOND;
    let (rate, slots) = (
        limiter(Quota::per_hour(3).burst(3)),
        Arc::new(Semaphore::new(1)),
    );
    let pauses = exact();
    let throttle = all((Arc::clone(&rate), Arc::clone(&slots)));
    let middleware = PausesMiddleware::new(pauses.clone()).behind(throttle);
    let client = builder().with(middleware).with(server.clone()).build();
    let send = |url| send(client.get(url));
    let pause = async {
        sleep(SECOND / 2).await;
        assert_eq!(
            (rate.snapshot().available, slots.available_permits()),
            (1, 0)
        );
        pauses.pause("http://a.test:80", 5 * SECOND);
        sleep(SECOND).await;
        assert_eq!(
            (rate.snapshot().available, slots.available_permits()),
            (2, 1)
        );
    };
    let (_, stopped, ()) = tokio::join!(send("http://b.test/"), send("http://a.test/"), pause);
    assert_eq!(stopped, (200, Duration::from_millis(6500)));
    assert_eq!(server.times(), [0.0, 5.5]);
}

/// What reqwest returns when it has followed a redirect.
fn refusal_of(url: &str, seconds: u64) -> Response<&'static str> {
    let refusal = Response::builder().status(429);
    let refusal = refusal.header("retry-after", seconds);
    refusal.url(Url::parse(url).unwrap()).body("").unwrap()
}

#[tokio::test(start_paused = true)]
async fn middleware_blocks_the_origin_that_refused_after_a_redirect() {
    let refusals = [(); 2].map(|()| refusal_of("http://b.test/x", 5));
    let server = Server::new(refusals);
    let client = client(&exact().retries(1), &server);
    // It is sent again after the pause, and refused again.
    assert_eq!(send(client.get("http://a.test/")).await, (429, 5 * SECOND));
    let free = send(client.get("http://a.test/free")).await;
    assert_eq!(free, (200, Duration::ZERO));
    assert_eq!(send(client.get("http://b.test/")).await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 5.0, 10.0]);
}

/// The crawler of the guide, with this many slots for all hosts.
fn crawler(server: &Server, slots: usize) -> ClientWithMiddleware {
    let (hosts, total) = (
        Arc::new(Keyed::semaphores(1)),
        Arc::new(Semaphore::new(slots)),
    );
    let polite = PausesMiddleware::new(patient()).behind_by(move |request| {
        let host = Arc::clone(&hosts).key_owned(origin(request.url()));
        let host = Resting::new(host, 2 * SECOND).clock(Clock::tokio());
        all((host, Arc::clone(&total)))
    });
    builder().with(polite).with(server.clone()).build()
}

/// A repeated request waits for the pause and for the two seconds, whichever is longer.
#[tokio::test(start_paused = true)]
async fn crawler_leaves_two_seconds_between_requests_to_a_host() {
    let server = Server::new([refusal(3)]);
    let client = crawler(&server, 2);
    let both = join_all(["/", "/2"].map(|path| send(client.get(format!("http://a.test{path}")))));
    assert_eq!(both.await, [(200, 3 * SECOND), (200, 5 * SECOND)]);
    assert_eq!(server.times(), [0.0, 3.0, 5.0]);
}

/// A thousand requests wait for one host. It takes a slot for 300 ms of each 2.3 s.
#[tokio::test(start_paused = true)]
async fn crawler_with_a_thousand_requests_to_one_host_serves_the_others_as_without() {
    let mut server = Server::new([]);
    server.latency = Duration::from_millis(300);
    let client = crawler(&server, 64);
    let slow = (0..1000).map(|page| send(client.get(format!("http://slow.test/{page}"))));
    let mut slow = tokio::task::unconstrained(join_all(slow));
    assert!(futures::poll!(&mut slow).is_pending());
    let others = (0..640).map(|host| send(client.get(format!("http://{host}.test/"))));
    let begun = Instant::now();
    tokio::select! {
        _ = &mut slow => panic!("it takes 2300 s"),
        _ = join_all(others) => {}
    }
    // Ten rounds of 64, of which the slow host takes a place in two.
    assert_eq!(begun.elapsed(), Duration::from_millis(11 * 300));
}

/// Two requests to each of the paused hosts wait, and the total has two slots.
#[tokio::test(start_paused = true)]
async fn crawler_with_paused_hosts_holds_no_slots_of_all() {
    let server = Server::new([refusal(50), refusal(50)]);
    let client = crawler(&server, 2);
    let paused = ["a.test/", "b.test/", "a.test/2", "b.test/2"];
    let paused = join_all(paused.map(|url| send(client.get(format!("http://{url}")))));
    let other = async {
        sleep(3 * SECOND).await;
        send(client.get("http://c.test/")).await
    };
    let (paused, other) = tokio::join!(paused, other);
    assert_eq!(other, (200, Duration::ZERO));
    let mut waits: Vec<_> = paused.into_iter().map(|(_, wait)| wait).collect();
    waits.sort();
    assert_eq!(waits, [50, 50, 52, 52].map(|seconds| seconds * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 3.0, 50.0, 50.0, 52.0, 52.0]);
}

/// A body without an end that says when it was dropped.
struct Endless(Arc<AtomicBool>);

impl http_body::Body for Endless {
    type Data = axum::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Poll::Pending
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The connection of a refusal, and its slot, are free during the wait.
#[tokio::test(start_paused = true)]
async fn middleware_drops_the_body_of_a_refusal_before_the_wait() {
    /// Refuses each request.
    struct Refuses(Arc<AtomicBool>);

    #[async_trait::async_trait]
    impl Middleware for Refuses {
        async fn handle(
            &self,
            _: Request,
            _: &mut Extensions,
            _: Next<'_>,
        ) -> Result<reqwest::Response> {
            let refusal = Response::builder().status(429).header("retry-after", 5);
            let body = reqwest::Body::wrap(Endless(Arc::clone(&self.0)));
            Ok(refusal.body(body).unwrap().into())
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let slots = Arc::new(Semaphore::new(1));
    let middleware = PausesMiddleware::new(exact()).behind(Arc::clone(&slots));
    let client = builder()
        .with(middleware)
        .with(Refuses(Arc::clone(&dropped)))
        .build();
    let sending = client.get("http://a.test/").send();
    let mut sending = pin!(sending);
    assert!(timeout(SECOND, &mut sending).await.is_err());
    assert!(dropped.load(SeqCst));
    assert_eq!(slots.available_permits(), 1);
}

/// So both adapters can share pauses.
#[test]
fn origin_is_that_of_the_uri_of_the_request() {
    for url in [
        "http://a.test",
        "HTTP://A.TEST:80/b?c#d",
        "https://a.test:8443/",
        "https://user:word@a.test/",
        "http://a.test.:81/",
        "http://[::1]:3000/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://127.1/",
        "http://\u{e4}.test/",
        "https://a.test:/",
    ] {
        let url: Url = url.parse().unwrap();
        let uri = url.as_str().parse().unwrap();
        let of_uri = tollgate_http::UriOrigin::of(&uri).to_string();
        assert_eq!(origin(&url), of_uri, "{url}");
    }
}
