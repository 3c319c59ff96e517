//! The connection, and how another one is made when it is lost.
//!
//! The lock is held for a moment only, never while one waits. Connecting is a task of its own: who
//! waits for it may give up, and the next one finds it further on.
//!
//! A connection to a server is given up before another one is made. One to a cluster, which looks
//! after those to its nodes itself, stays in use until there is another one, as most of its nodes
//! may answer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::call::{Progress, Stage};
#[cfg(feature = "cluster")]
use super::nodes::{Cluster, Nodes};
use crate::error::StoreError;

/// How long it may take to connect. Beyond the deadline of a call, which is for answers.
pub(super) const CONNECTING: Duration = Duration::from_secs(2);

/// How long it may take at first, to a server. An attempt whose answer was lost is given up after
/// that; the next one may take twice as long, up to the above.
const CONNECTING_AT_FIRST: Duration = Duration::from_millis(250);

/// After how long the kernel gives up on what was sent and is not acknowledged.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(2);

pub(super) enum Address {
    Server(Box<Client>),
    #[cfg(feature = "cluster")]
    Cluster(Box<Cluster>),
}

impl Address {
    pub(super) fn server(address: &str) -> Result<Self, StoreError> {
        let info = address
            .into_connection_info()
            .map_err(|_| StoreError::Misconfigured)?;
        let info = info.set_tcp_settings(settings());
        let client = Client::open(info).map_err(|_| StoreError::Misconfigured)?;
        Ok(Self::Server(Box::new(client)))
    }

    #[cfg(feature = "cluster")]
    pub(super) fn cluster<'a>(
        addresses: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        Ok(Self::Cluster(Box::new(Cluster::new(addresses)?)))
    }
}

pub(super) fn settings() -> redis::io::tcp::TcpSettings {
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    settings
}

#[derive(Clone)]
enum Wire {
    Server(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(Nodes),
}

/// A connection, and which one in turn it is.
#[derive(Clone)]
pub(super) struct Connection {
    wire: Wire,
    number: u64,
}

impl Connection {
    /// Says how far it has come.
    pub(super) async fn call(
        &mut self,
        command: &Cmd,
        progress: &mut Progress,
    ) -> RedisResult<Value> {
        match &mut self.wire {
            Wire::Server(wire) => {
                progress.stage = Stage::Sent(self.number);
                let answer = wire.req_packed_command(command).await;
                answer.and_then(Value::extract_error)
            }
            #[cfg(feature = "cluster")]
            Wire::Cluster(nodes) => nodes.call(self.number, command, progress).await,
        }
    }
}

type Outcome = Option<Result<Connection, StoreError>>;

enum State {
    Down,
    Connecting(watch::Receiver<Outcome>),
    Up(Connection),
}

pub(super) struct Link {
    address: Address,
    state: Mutex<State>,
    /// Deadlines that passed in a row.
    timeouts: AtomicU32,
    number: AtomicU64,
    /// How often in a row it has taken too long to connect.
    slow: AtomicU32,
    /// Another connection is being made beside the one that is up.
    renewing: AtomicBool,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            state: Mutex::new(State::Down),
            timeouts: AtomicU32::new(0),
            number: AtomicU64::new(0),
            slow: AtomicU32::new(0),
            renewing: AtomicBool::new(false),
        }
    }

    /// What stands for all parts.
    pub(super) fn whole(&self) -> u16 {
        if self.is_cluster() { u16::MAX } else { 0 }
    }

    /// The part of the store that a key is on, which may fail while the others do not.
    pub(super) fn part(&self, key: &str) -> u16 {
        match &self.address {
            Address::Server(_) => {
                let _ = key;
                0
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(_) => crate::slot::slot(key),
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        !matches!(self.address, Address::Server(_))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, once there is one.
    pub(super) async fn connection(
        this: &Arc<Self>,
        runtime: &Handle,
    ) -> Result<Connection, StoreError> {
        let mut outcome = match this.up_or_connecting(runtime) {
            Ok(connection) => return Ok(connection),
            Err(outcome) => outcome,
        };
        let outcome = outcome.wait_for(Option::is_some).await;
        // Gone without an outcome: the task was dropped with its runtime.
        let outcome = outcome.map_err(|_| StoreError::NoRuntime)?;
        outcome.clone().unwrap_or(Err(StoreError::NoRuntime))
    }

    fn up_or_connecting(
        self: &Arc<Self>,
        runtime: &Handle,
    ) -> Result<Connection, watch::Receiver<Outcome>> {
        let (task, sender, receiver) = {
            let mut state = self.state();
            match &*state {
                State::Up(connection) => return Ok(connection.clone()),
                State::Connecting(outcome) => return Err(outcome.clone()),
                State::Down => {}
            }
            let (sender, receiver) = watch::channel(None);
            *state = State::Connecting(receiver.clone());
            let task = Connect {
                link: Arc::clone(self),
                done: false,
            };
            (task, sender, receiver)
        };
        // Not under the lock: a runtime that ends drops the task at once.
        runtime.spawn(async move {
            let outcome = task.run().await;
            sender.send_replace(Some(outcome));
        });
        Err(receiver)
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let wire = match &self.address {
            Address::Server(client) => {
                // Calls have deadlines of their own.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECTING))
                    .set_response_timeout(None);
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
                    .map(Wire::Server)
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(cluster) => cluster.connect().await.map(Wire::Cluster),
        };
        let number = 1 + self.number.fetch_add(1, Ordering::Relaxed);
        match wire {
            Ok(wire) => Ok(Connection { wire, number }),
            Err(error) => Err(match StoreError::of(&error) {
                // Nothing was asked yet.
                StoreError::Timeout | StoreError::Disconnected | StoreError::Script => {
                    StoreError::Unavailable
                }
                other => other,
            }),
        }
    }

    /// This connection is of no use any more.
    pub(super) fn lost(&self, connection: &Connection) {
        if self.is_cluster() {
            return;
        }
        let mut state = self.state();
        if matches!(&*state, State::Up(up) if up.number == connection.number) {
            *state = State::Down;
        }
    }

    pub(super) fn answered(&self) {
        if self.timeouts.load(Ordering::Relaxed) > 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// A deadline passed, of what was sent on a connection. After so many in a row that one is
    /// given up.
    pub(super) fn timed_out(self: &Arc<Self>, number: u64, most: u32, runtime: &Handle) {
        {
            let mut state = self.state();
            let is_current = matches!(&*state, State::Up(up) if up.number == number);
            if !is_current || 1 + self.timeouts.fetch_add(1, Ordering::Relaxed) < most {
                return;
            }
            self.timeouts.store(0, Ordering::Relaxed);
            if !self.is_cluster() {
                *state = State::Down;
                return;
            }
        }
        self.renew(runtime);
    }

    /// How long connecting may take now.
    fn patience(&self) -> Duration {
        if self.is_cluster() {
            return CONNECTING;
        }
        let slow = self.slow.load(Ordering::Relaxed).min(8);
        CONNECTING.min(CONNECTING_AT_FIRST * (1 << slow))
    }

    /// Makes another connection, to take the place of the one that is up.
    fn renew(self: &Arc<Self>, runtime: &Handle) {
        if self.renewing.swap(true, Ordering::Relaxed) {
            return;
        }
        let link = Arc::clone(self);
        runtime.spawn(async move {
            let connecting = tokio::time::timeout(CONNECTING, link.connect()).await;
            if let Ok(Ok(connection)) = connecting {
                *link.state() = State::Up(connection);
            }
            link.renewing.store(false, Ordering::Relaxed);
        });
    }
}

/// Connecting, which leaves the link down if it is dropped on the way.
struct Connect {
    link: Arc<Link>,
    done: bool,
}

impl Connect {
    async fn run(mut self) -> Result<Connection, StoreError> {
        let connecting = tokio::time::timeout(self.link.patience(), self.link.connect());
        let outcome = connecting.await.unwrap_or_else(|_| {
            self.link.slow.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::Unavailable)
        });
        if outcome.is_ok() {
            self.link.slow.store(0, Ordering::Relaxed);
        }
        self.done = true;
        self.link.answered();
        *self.link.state() = match &outcome {
            Ok(connection) => State::Up(connection.clone()),
            Err(_) => State::Down,
        };
        outcome
    }
}

impl Drop for Connect {
    fn drop(&mut self) {
        if !self.done {
            *self.link.state() = State::Down;
        }
    }
}
