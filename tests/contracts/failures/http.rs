//! How limits over HTTP go wrong: by whom they take a client for, and by what they tell it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use tollgate::{Clock, Gate, Keyed, Quota, RateLimiter, all};
use tollgate_tower::{ClientIp, ThrottleLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::Waiter;

/// The first address of `X-Forwarded-For` is believed, which the client writes: a limit for each
/// address that it makes up.
///
/// Seen in tower_governor 0.8.0, `SmartIpKeyExtractor`.
#[test]
fn forwarded_address_that_the_client_made_up() {
    let proxy = |_: &axum::http::Extensions| Some(SocketAddr::from(([10, 0, 0, 1], 443)));
    let address = ClientIp::peer(proxy).behind(1);
    let clients = Keyed::<_, RateLimiter>::rate_limiters(Quota::per_hour(1));
    let admitted = (0..100).filter(|made_up| {
        let forwarded = format!("192.0.2.{made_up}, 1.2.3.4");
        let request = Request::get("/").header("x-forwarded-for", forwarded);
        let client = address.of(&request.body(()).unwrap());
        clients.key(&client).try_acquire().is_ok()
    });
    assert_eq!(admitted.count(), 1);
}

/// `Retry-After` is rounded down, to 0 for every quota above one a second: clients come back at once,
/// and are refused again.
///
/// Seen in tower_governor 0.8.0, `wait_time_from(..).as_secs()`.
#[test]
fn retry_after_rounded_down() {
    let clock = Clock::manual();
    let quota = Quota::new(1, Duration::from_millis(1900));
    let limiter = Arc::new(RateLimiter::new(quota).clock(&clock));
    let service =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let service = ThrottleLayer::new(limiter).refusing().layer(service);
    let ask = || {
        let answer = service.clone().oneshot(Request::new(Body::empty()));
        Waiter::new(answer).output().unwrap()
    };
    assert_eq!(ask().status(), 200);
    let after = ask().headers()["retry-after"].to_str().unwrap().parse();
    clock.advance(Duration::from_secs(after.unwrap()));
    assert_eq!(ask().status(), 200);
}

/// What was held back goes all at once when the pause is over, and is refused again.
///
/// Seen in a client with this crate's own `all((gate, rate))`, without the pause of the rate: seven
/// requests within 5 ms.
#[test]
fn reopening_is_a_stampede() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    let rate = RateLimiter::new(Quota::per_second(10).burst(7)).clock(&clock);
    let polite = all((&gate, &rate));
    gate.block_for(Duration::from_secs(1));
    rate.pause_for(Duration::from_secs(1));
    let mut requests = [(); 7].map(|()| Waiter::parked(polite.acquire()));
    clock.advance(Duration::from_secs(1));
    let sent = requests.iter_mut().filter_map(|request| {
        let is_sent = !request.is_pending();
        is_sent.then_some(())
    });
    assert_eq!(sent.count(), 1);
}
