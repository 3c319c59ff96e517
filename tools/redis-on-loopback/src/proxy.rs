//! Simulates a network between a client and a server: it can be slow, cut, or lose data.
//!
//! Data lost on a connection are lost permanently: nothing passes on it any more in that direction,
//! because after a missing answer others would be mistaken for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tollgate_redis::Store;

/// The treatment of sent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All data pass.
    Pass,
    /// Nothing passes. Data sent meanwhile arrive afterwards, as they would with TCP.
    BlackHole,
    /// Every connection is reset, including new ones.
    Reset,
    /// Connections stay open and new ones are accepted, but all data sent on them are lost.
    HalfOpen,
    /// The server receives the data, and its answers are lost.
    DropReplies,
    /// Every answer is delayed by this time.
    Delay(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    mode: Mode,
    server: u16,
}

/// The network: a port that leads to a server. It ends on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    setting: watch::Sender<Setting>,
    accepted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a network in front of the server of a port. Call it only inside a runtime.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Mode::Pass;
        let (setting, watched) = watch::channel(Setting { mode, server });
        let accepted = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, watched, Arc::clone(&accepted)));
        Self {
            port,
            setting,
            accepted,
            task,
        }
    }

    /// Sets the mode from now on.
    pub fn set(&self, mode: Mode) {
        self.setting.send_modify(|setting| setting.mode = mode);
    }

    /// Makes connections to another server from now on.
    pub fn lead_to(&self, server: u16) {
        self.setting.send_modify(|setting| setting.server = server);
    }

    /// Returns the port of the proxy.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections that were made.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Returns the URL for clients.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns a store. Call it only inside a runtime.
    pub fn store(&self) -> Store {
        Store::new(&self.address()).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    watched: watch::Receiver<Setting>,
    accepted: Arc<AtomicU64>,
) {
    // The set is dropped with this task, and all of its tasks with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        accepted.fetch_add(1, Ordering::Relaxed);
        connections.spawn(connect(client, watched.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(client: TcpStream, mut watched: watch::Receiver<Setting>) {
    // Ending connections are reset, as by a firewall, without waiting for anything.
    #[allow(
        deprecated,
        reason = "what takes its place is younger than the least tokio"
    )]
    client.set_linger(Some(Duration::ZERO)).unwrap();
    client.set_nodelay(true).unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], watched.borrow().server));
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (there, back) = (watched.clone(), watched.clone());
    tokio::select! {
        () = pump(from_client, to_server, there, false) => {}
        () = pump(from_server, to_client, back, true) => {}
        _ = watched.wait_for(|setting| setting.mode == Mode::Reset) => {}
    }
}

/// Copies one direction, until one side ends.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut watched: watch::Receiver<Setting>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut lost = false;
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let passes = watched.wait_for(|setting| setting.mode != Mode::BlackHole);
        let Ok(mode) = passes.await.map(|setting| setting.mode) else {
            return;
        };
        match mode {
            Mode::HalfOpen => lost = true,
            Mode::DropReplies if answers => lost = true,
            Mode::Delay(delay) if answers => tokio::time::sleep(delay).await,
            _ => {}
        }
        if !lost && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
