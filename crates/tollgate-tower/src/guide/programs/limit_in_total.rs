use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{ClientIp, Policy, RateLimitHeaders, RejectionFormat, ThrottleLayer};

fn limited(app: Router) -> Router {
    // One request a second for each client, and five at once after a pause.
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_second(1).burst(5)));
    let total = Arc::new(RateLimiter::new(Quota::per_second(1000).burst(100)));
    // 64 requests at once, at most four of them from one client.
    let client_slots = Arc::new(Keyed::semaphores(4));
    let slots = Arc::new(Semaphore::new(64));
    let address = ClientIp::peer(|extensions| Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0));
    let limit = ThrottleLayer::by(move |parts| {
        let cost = if parts.uri.path() == "/report" { 3 } else { 1 };
        let client = address.of(parts);
        let rate = Arc::clone(&clients).key_owned(client).cost(cost);
        let few = Arc::clone(&client_slots).key_owned(client);
        all((rate, few, Arc::clone(&total), Arc::clone(&slots)))
    });
    let limit = limit
        .refusing()
        .policies([
            Policy::client("client"),
            Policy::client("client-slots"),
            Policy::server("total"),
            Policy::server("slots"),
        ])
        .headers(RateLimitHeaders::Draft11)
        .rejection_format(RejectionFormat::ProblemJson);
    app.layer(limit)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = limited(Router::new().route("/report", get(async || "a long report\n")));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app).await
}
