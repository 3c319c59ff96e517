//! A gRPC server of tonic has one connection at once; the next client is served when that is closed.

#[path = "../src/guide/programs/limit_connections.rs"]
mod limit_connections;
use std::sync::Arc;

use limit_connections::Limited;
use tokio::net::TcpListener;
use tollgate::Semaphore;
use tollgate_io::Listener;
use tonic::{service::Routes, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let slots = Arc::new(Semaphore::new(1));
    let socket = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}", socket.local_addr()?);
    let services = Routes::new(tonic_health::server::health_reporter().1).into_axum_router();
    let listener = Limited(Listener::new(socket, Arc::clone(&slots)));
    tokio::spawn(axum::serve(listener, services).into_future());

    for client in 1..=3 {
        // Closes the connection at the end.
        let mut health = HealthClient::new(Endpoint::from_shared(uri.clone())?.connect().await?);
        health.check(HealthCheckRequest::default()).await?;
        println!("client {client}: {} slots left", slots.available_permits());
    }
    Ok(())
}
