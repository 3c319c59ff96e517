//! Admits two calls an hour for each client of a gRPC server; the third gets `RESOURCE_EXHAUSTED`.
use std::sync::Arc;

use tokio_stream::wrappers::TcpListenerStream;
use tollgate::{Keyed, Quota};
use tollgate_tower::{ClientIp, RejectionFormat, ThrottleLayer};
use tonic::transport::{Endpoint, Server, server::TcpConnectInfo};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}", listener.local_addr()?);
    let clients = Arc::new(Keyed::rate_limiters(Quota::per_hour(2).burst(2)));
    let ip = ClientIp::peer(|about| about.get().and_then(TcpConnectInfo::remote_addr));
    let limit = ThrottleLayer::by(move |parts| clients.clone().key_owned(ip.of(parts))).refusing();
    let health = tonic_health::server::health_reporter().1;
    let mut server = Server::builder().layer(limit.rejection_format(RejectionFormat::Grpc));
    let server = server.add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let mut client = HealthClient::new(Endpoint::from_shared(uri)?.connect().await?);
    let mut check = async || client.check(HealthCheckRequest::default()).await;
    assert!(check().await.is_ok() && check().await.is_ok());
    let refused = check().await.unwrap_err();
    assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    println!("{}", refused.message());
    Ok(())
}
