//! A network of one's own between a client and a server: it can be slow, cut, or lose what it is
//! given.
//!
//! What is lost on a connection is lost for good: nothing passes on it any more in that direction,
//! as an answer that is missing would have others taken for it.

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

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All passes.
    Pass,
    /// Nothing passes. What is sent meanwhile arrives when that is over, as it would by TCP.
    BlackHole,
    /// Every connection is reset, and each that is made.
    Reset,
    /// Connections stand and are made, but all that is sent on them is lost.
    HalfOpen,
    /// The server gets what is sent, and its answers are lost.
    DropReplies,
    /// Every answer comes so much later.
    Delay(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    mode: Mode,
    server: u16,
}

/// The network: a port that leads to a server. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    setting: watch::Sender<Setting>,
    accepted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of the server of a port. Only inside a runtime.
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

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.setting.send_modify(|setting| setting.mode = mode);
    }

    /// Connections are made to another server from now on.
    pub fn lead_to(&self, server: u16) {
        self.setting.send_modify(|setting| setting.server = server);
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were made.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// As clients have it.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Only inside a runtime.
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
    // Dropped with this task, and all of its tasks with it.
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
    // What ends is reset, as by a firewall. Nothing is waited for then.
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

/// One direction, until one side ends.
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
