//! Many clients at once, in paused time: without a connection, or with connections in memory.
//!
//! In memory nothing is pending that the runtime does not know of. So paused time moves on when all
//! have done what they can, and every time in a test is exact. With sockets it could move while bytes
//! are on their way through the system: a runtime whose time is paused and that has nothing else to do
//! looks once whether a socket has something, and moves on.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::serve::Listener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use super::peers::{Client, Server, get};
use super::pipe::{End, pipe};

impl Server<mpsc::UnboundedSender<End>> {
    pub(super) fn in_memory(app: Router) -> Self {
        let (address, connections) = mpsc::unbounded_channel();
        Self::of(address, InMemory(connections), app)
    }

    pub(super) async fn connect(&self) -> Client {
        let (ours, theirs) = pipe();
        self.address.send(theirs).expect("it runs");
        Client::over(ours).await
    }
}

/// Gets connections from a channel.
struct InMemory(mpsc::UnboundedReceiver<End>);

impl Listener for InMemory {
    type Io = End;
    type Addr = ();

    async fn accept(&mut self) -> (End, ()) {
        match self.0.recv().await {
            Some(connection) => (connection, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer that a client has got: when, counted from the beginning, and what.
pub(super) type Received = (Duration, StatusCode);

/// So many clients send request after request for so long, to a service, without a connection: each a
/// pause after it has got its last answer, the last ones just before the time is over. For a runtime
/// whose time is paused. The answers are in the order in which they came.
pub(super) async fn crowd(
    app: &Router,
    clients: usize,
    lasting: Duration,
    pause: Duration,
) -> Vec<Received> {
    let begun = Instant::now();
    let ask = |app: Router| async move { app.oneshot(get()).await.unwrap().status() };
    let client = |app: Router| async move {
        let mut received = Vec::new();
        while begun.elapsed() < lasting {
            let status = ask(app.clone()).await;
            received.push((begun.elapsed(), status));
            sleep(pause).await;
        }
        received
    };
    let all = (0..clients)
        .map(|_| client(app.clone()))
        .collect::<JoinSet<_>>();
    gather(all).await
}

/// The same, over connections.
pub(super) async fn crowd_over(
    server: &Server<mpsc::UnboundedSender<End>>,
    clients: usize,
    lasting: Duration,
    pause: Duration,
) -> Vec<Received> {
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..clients {
        let mut client = server.connect().await;
        all.spawn(async move {
            let mut received = Vec::new();
            while begun.elapsed() < lasting {
                let status = client.get("/").await.status();
                received.push((begun.elapsed(), status));
                sleep(pause).await;
            }
            received
        });
    }
    gather(all).await
}

async fn gather(all: JoinSet<Vec<Received>>) -> Vec<Received> {
    let mut received = all.join_all().await.concat();
    received.sort_by_key(|(at, _)| *at);
    received
}
