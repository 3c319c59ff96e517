//! Together with other layers: a limiter inside, and services that are not always ready.

use futures::future::join_all;
use tollgate::{Quota, RateLimiter, Semaphore};
use tollgate_tower::ThrottleLayer;

use super::*;

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
    reserved: Option<tollgate::OwnedPermit>,
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
    // One that is refused, one that waits from its beginning, and one to another server.
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

/// Fails when it is made ready, the second time.
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
