//! Limits each user of a server to one request per second and two at once, and all users together to three.
use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Path, http::Request, http::StatusCode, routing::get};
use tollgate::{Clock, Keyed, Quota, RateLimiter, TryThrottle, all};
use tower::ServiceExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (clock, second) = (Clock::manual(), Quota::per_second(1));
    let users = Keyed::<String, _>::new(RateLimiter::new(second.burst(2)).clock(&clock));
    let everyone = Arc::new(RateLimiter::new(second.burst(3)).clock(&clock));
    let users = Arc::new(users);
    // If the second limit refuses a request, the charge of the first one is refunded.
    let page = async move |Path(user): Path<String>| {
        let both = all((users.key_owned(user), everyone));
        both.try_enter()
            .map_or(StatusCode::TOO_MANY_REQUESTS, |_| StatusCode::OK)
    };
    let app = Router::new().route("/{user}", get(page));
    let mut answers = Vec::new();
    for user in ["ann", "ann", "ann", "bob", "bob", "eve"] {
        clock.advance(Duration::from_secs(u64::from(user == "eve")));
        let request = Request::get(format!("/{user}")).body(Body::empty())?;
        answers.push(app.clone().oneshot(request).await?.status().as_u16());
    }
    assert_eq!(answers, [200, 200, 429, 200, 429, 200]);
    println!("{answers:?}");
    Ok(())
}
