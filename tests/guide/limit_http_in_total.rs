#![expect(dead_code, reason = "`main` is for readers")]

include!("../../crates/tollgate-tower/src/guide/programs/limit_in_total.rs");

use axum::body::Body;
use axum::http::{Request, Response};
use tower::ServiceExt;

fn app() -> Router {
    let app = Router::new().route("/", get(async || "a page\n"));
    limited(app.route("/report", get(async || "a long report\n")))
}

async fn answer(app: &Router, path: &str, last_byte: u8) -> Response<Body> {
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, last_byte], 1234)));
    let request = Request::get(path).extension(peer).body(Body::empty());
    app.clone().oneshot(request.unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn limited_router_tells_a_client_its_limit() {
    let app = app();
    assert_eq!(answer(&app, "/report", 1).await.status(), 200);
    let refused = answer(&app, "/report", 1).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    assert!(refused.headers().contains_key("ratelimit"));
    assert_eq!(answer(&app, "/", 1).await.status(), 200);
}

/// A body that is not read holds its slots.
#[tokio::test(start_paused = true)]
async fn limited_router_serves_four_requests_of_a_client_at_once_and_64_in_total() {
    let app = app();
    let mut bodies = Vec::new();
    for client in 1..=16 {
        for _ in 0..4 {
            bodies.push(answer(&app, "/", client).await);
        }
        if client == 1 {
            assert_eq!(answer(&app, "/", 1).await.status(), 429);
        }
    }
    assert!(bodies.iter().all(|body| body.status() == 200));
    assert_eq!(answer(&app, "/", 17).await.status(), 503);
    bodies.pop();
    assert_eq!(answer(&app, "/", 18).await.status(), 200);
}
