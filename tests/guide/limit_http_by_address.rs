#![expect(dead_code, reason = "`main` is for readers")]

include!("../../crates/tollgate-tower/src/guide/programs/limit_each_address.rs");

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;

#[tokio::test(start_paused = true)]
async fn limited_router_refuses_an_address_that_spent_its_burst() {
    let app = limited(Router::new().route("/", get(async || "hello\n")));
    let status = async |last_byte| {
        let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, last_byte], 1234)));
        let request = Request::get("/").extension(peer).body(Body::empty());
        let answer = app.clone().oneshot(request.unwrap()).await.unwrap();
        answer.status().as_u16()
    };
    for _ in 0..5 {
        assert_eq!(status(1).await, 200);
    }
    assert_eq!((status(1).await, status(2).await), (429, 200));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((status(1).await, status(1).await), (200, 429));
}
