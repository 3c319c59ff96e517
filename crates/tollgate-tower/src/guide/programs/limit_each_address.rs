use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::{Keyed, Quota};
use tollgate_tower::{ClientIp, ThrottleLayer};

/// Admits one request a second from each address, and five at once after a pause. Other requests get a 429.
fn limited(app: Router) -> Router {
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_second(1).burst(5)));
    let address = ClientIp::peer(|extensions| Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0));
    let limit = ThrottleLayer::by(move |parts| Arc::clone(&clients).key_owned(address.of(parts)));
    app.layer(limit.refusing())
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = limited(Router::new().route("/", get(async || "hello\n")));
    // Without `ConnectInfo`, all clients would share one address.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app).await
}
