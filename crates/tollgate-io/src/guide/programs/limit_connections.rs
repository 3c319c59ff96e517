use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tollgate::{Semaphore, semaphore};
use tollgate_io::{Connection, Listener};

/// A listener for `axum::serve` whose connections hold a slot until they are closed.
pub(crate) struct Limited(pub(crate) Listener<TcpListener, Arc<Semaphore>>);

impl axum::serve::Listener for Limited {
    type Io = Connection<TcpStream, semaphore::OwnedPermit>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.0.accept().await {
            Ok(accepted) => accepted,
            // The semaphore is closed: no more connections.
            Err(_) => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}
