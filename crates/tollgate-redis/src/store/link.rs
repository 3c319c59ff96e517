//! [`Link`]: the connection, and its replacement when it is lost.
//!
//! 1. Connecting is a task of its own: a caller may stop waiting for it, and the task continues for
//!    the next caller.
//! 2. A connection to a server is closed before another one is made. A connection to a cluster,
//!    which manages those to its nodes itself, stays in use until it has a replacement.
//! 3. A connection to a cluster is not replaced while the nodes hang that have the slots of the calls
//!    without answers. A new one would have no connection to these nodes, so that each call to them
//!    would ask another node, and look for them again, which holds up all other calls. It is
//!    replaced if such a slot has a node that answers, for example a replica that took over: the
//!    client would call the node that hangs for ever.
//! 4. Deadlines are counted for each slot, because answers of other nodes tell nothing about it.
//! 5. An attempt that panics ends like one that fails: its callers get an error that is an outage.
//!
//! The lock is held briefly, never while a future waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError, RedisResult,
    Value,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::call::Progress;
use super::connect::{CONNECTING, Login, connect_to, settings};
use super::memory_wire::InMemory;
#[cfg(feature = "cluster")]
use super::nodes::{Cluster, Nodes};
use super::pushes::Pushes;
use super::sentinels::Sentinels;
use crate::error::StoreError;
use crate::script::{SLOTS, slot};
use crate::sync::{Mutex, lock};

/// The maximum time of the first attempt to connect to a server. Each attempt that takes too long
/// doubles it, up to [`CONNECTING`].
const CONNECTING_AT_FIRST: Duration = Duration::from_millis(250);

/// The number of deadlines in a row, for the calls of a part, after which the connection is replaced.
const TIMEOUTS: u32 = 3;

/// How a server is found.
pub(super) enum Primary {
    Fixed(Client),
    Watched(Sentinels),
}

pub(super) enum Address {
    Server(Box<Primary>, Option<Login>),
    #[cfg(feature = "cluster")]
    Cluster(Box<Cluster>),
    Memory(InMemory),
}

impl Address {
    /// Returns the server at an address; `open` creates its client.
    pub(super) fn server_with(
        address: &str,
        open: impl FnOnce(ConnectionInfo) -> Result<Client, StoreError>,
    ) -> Result<Self, StoreError> {
        let primary = Primary::Fixed(open(info(address)?)?);
        Ok(Self::Server(Box::new(primary), None))
    }

    /// Returns the server whose name is the host of an address, and which these sentinels watch.
    pub(super) fn watched<'a>(
        address: &str,
        sentinels: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        let primary = Primary::Watched(Sentinels::new(info(address)?, sentinels)?);
        Ok(Self::Server(Box::new(primary), None))
    }

    /// Takes the credentials of each connection from a login.
    #[cfg(feature = "credentials")]
    fn set_login(&mut self, login: Login) {
        match self {
            Self::Server(_, of_server) => *of_server = Some(login),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.set_login(login),
            // It has no connection.
            Self::Memory(_) => {}
        }
    }

    async fn connect(&self, pushes: &Arc<Pushes>) -> RedisResult<Wire> {
        match self {
            Self::Server(primary, login) => {
                let found;
                let client = match &**primary {
                    Primary::Fixed(client) => client,
                    Primary::Watched(sentinels) => {
                        found = sentinels.primary().await?;
                        &found
                    }
                };
                let connected = connect_to(client, login.as_ref(), Some(pushes)).await;
                connected.map(Wire::Server)
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.connect().await.map(Wire::Cluster),
            Self::Memory(memory) => Ok(Wire::Memory(memory.clone())),
        }
    }
}

/// Returns the settings of the connection to a server.
fn info(address: &str) -> Result<ConnectionInfo, StoreError> {
    let info = address
        .into_connection_info()
        .map_err(|_| StoreError::Misconfigured)?;
    // A server that accepts no more clients reports that once, as the answer to the first command, and
    // closes the connection. With this protocol the first command is `HELLO`, and its answer is checked.
    // The name of the client library, if sent with it, would never get an answer.
    let protocol = info.redis_settings().clone();
    let protocol = protocol.set_protocol(ProtocolVersion::RESP3);
    Ok(info
        .set_redis_settings(protocol.set_skip_set_lib_name())
        .set_tcp_settings(settings()))
}

#[derive(Clone)]
enum Wire {
    Server(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(Nodes),
    Memory(InMemory),
}

/// A connection, and its number.
#[derive(Clone)]
pub(super) struct Connection {
    wire: Wire,
    number: u64,
}

impl Connection {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Subscribes a channel. Returns whether there are subscriptions: in a cluster none survives the loss of a
    /// node's connection.
    pub(super) async fn subscribe(&mut self, channel: &str) -> RedisResult<bool> {
        match &mut self.wire {
            Wire::Server(wire) => wire.subscribe(channel).await.map(|()| true),
            #[cfg(feature = "cluster")]
            Wire::Cluster(_) => Ok(false),
            Wire::Memory(_) => Ok(true),
        }
    }

    /// Returns whether another connection would be no better for calls to these parts, which miss
    /// their deadline.
    async fn is_best(&mut self, parts: &[u16], deadline: Duration) -> bool {
        match &mut self.wire {
            #[cfg(feature = "cluster")]
            Wire::Cluster(nodes) => nodes.are_best(parts, deadline).await,
            // A server that answered would have kept its deadlines.
            Wire::Server(_) | Wire::Memory(_) => {
                let _without_a_cluster = (parts, deadline);
                false
            }
        }
    }

    /// Makes a call, and updates its progress.
    pub(super) async fn call(
        &mut self,
        command: &Cmd,
        progress: &mut Progress,
    ) -> RedisResult<Value> {
        match &mut self.wire {
            Wire::Server(wire) => {
                progress.sent = Ok(self.number);
                let answer = wire.req_packed_command(command).await;
                answer.and_then(Value::extract_error)
            }
            #[cfg(feature = "cluster")]
            Wire::Cluster(nodes) => nodes.call(self.number, command, progress).await,
            Wire::Memory(memory) => memory.call(command),
        }
    }
}

type Outcome = Option<Result<Connection, StoreError>>;

#[derive(Default)]
struct State {
    up: Option<Connection>,
    /// Receives the connection that is being made.
    connecting: Option<watch::Receiver<Outcome>>,
    /// The number of the newest connection.
    number: u64,
    /// The number of attempts in a row that took too long.
    slow: u32,
    /// The number of deadlines in a row that passed for the calls of each part.
    timeouts: HashMap<u16, u32>,
    /// The last of these deadlines.
    deadline: Duration,
}

pub(super) struct Link {
    address: Address,
    pub(super) runtime: Handle,
    pub(super) pushes: Arc<Pushes>,
    state: Mutex<State>,
    /// Whether `timeouts` may have a part, so that an answer has to take the lock.
    has_timeouts: AtomicBool,
    /// The text of the last failure.
    failure: Mutex<Option<String>>,
}

impl Link {
    pub(super) fn new(address: Address, runtime: Handle) -> Self {
        Self {
            address,
            runtime,
            pushes: Arc::new(Pushes::new()),
            state: Mutex::default(),
            has_timeouts: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Returns the link to what is in memory, which is there from the beginning.
    pub(super) fn to_memory(memory: InMemory, runtime: Handle) -> Self {
        let link = Self::new(Address::Memory(memory.clone()), runtime);
        let (wire, number) = (Wire::Memory(memory), 1);
        {
            let mut state = lock(&link.state);
            (state.up, state.number) = (Some(Connection { wire, number }), number);
        }
        link.pushes.ended(number, true);
        link
    }

    #[cfg(feature = "credentials")]
    pub(super) fn set_login(&mut self, login: Login) {
        self.address.set_login(login);
    }

    /// Returns the part of the store that has a key, which may fail while the others do not. Without
    /// a key, and without a cluster, it is the whole: a number that no slot has.
    pub(super) fn part(&self, key: Option<&str>) -> u16 {
        key.filter(|_| self.is_cluster()).map_or(SLOTS, slot)
    }

    pub(super) fn is_cluster(&self) -> bool {
        !matches!(self.address, Address::Server(..) | Address::Memory(_))
    }

    /// Returns the connection, if there is one.
    pub(super) fn current(&self) -> Option<Connection> {
        lock(&self.state).up.clone()
    }

    /// Returns the connection, once there is one.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Connection, StoreError> {
        let mut outcome = {
            let state = &mut *lock(&self.state);
            match &state.up {
                Some(up) => return Ok(up.clone()),
                None => self.connecting(state),
            }
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // The task was dropped with its runtime.
            _ => Err(StoreError::NoRuntime),
        }
    }

    /// Makes a connection in a task, unless one is being made.
    fn connecting(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Outcome> {
        let is_going_on = |outcome: &&watch::Receiver<Outcome>| outcome.has_changed().is_ok();
        if let Some(outcome) = state.connecting.as_ref().filter(is_going_on) {
            return outcome.clone();
        }
        let link = Arc::clone(self);
        let panicked = Arc::clone(self);
        let receiver = attempt(
            &self.runtime,
            async move { link.connect().await },
            move |reason| {
                *lock(&panicked.failure) = Some(format!("connecting panicked: {reason}"));
            },
        );
        state.connecting = Some(receiver.clone());
        receiver
    }

    /// Makes a connection, unless there is one, of a cluster, that is as good.
    async fn connect(&self) -> Result<Connection, StoreError> {
        if let Some(mut up) = self.current() {
            let (silent, deadline) = self.silent();
            if up.is_best(&silent, deadline).await {
                let state = &mut *lock(&self.state);
                state.timeouts.retain(|_, timeouts| *timeouts < TIMEOUTS);
                state.connecting = None;
                return Ok(up);
            }
        }
        let slow = lock(&self.state).slow.min(8);
        // A sentinel, a node or a service of credentials has to answer too.
        let asks_others = match &self.address {
            Address::Server(primary, login) => {
                login.is_some() || matches!(**primary, Primary::Watched(_))
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(_) => true,
            Address::Memory(_) => false,
        };
        let time = if asks_others {
            CONNECTING
        } else {
            CONNECTING.min(CONNECTING_AT_FIRST * (1 << slow))
        };
        let outcome = tokio::time::timeout(time, self.address.connect(&self.pushes)).await;
        let state = &mut *lock(&self.state);
        state.timeouts.clear();
        state.connecting = None;
        match outcome {
            Ok(Ok(wire)) => {
                (state.slow, state.number) = (0, state.number + 1);
                let number = state.number;
                Ok(state.up.insert(Connection { wire, number }).clone())
            }
            Ok(Err(error)) => Err(match self.failed(&error) {
                // A right that is missing for the connection is missing for all calls.
                StoreError::Forbidden => StoreError::Unauthenticated,
                // Nothing was sent yet.
                error if error.is_unanswered() || error.is_outage_of_limit() => {
                    StoreError::Unavailable
                }
                other => other,
            }),
            Err(_) => {
                state.slow = slow + 1;
                *lock(&self.failure) = Some(format!("no connection within {time:?}"));
                Err(StoreError::Unavailable)
            }
        }
    }

    /// Returns the kind of a failure, and keeps its text.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        *lock(&self.failure) = Some(error.to_string());
        StoreError::of(error)
    }

    /// Returns the number of connections that were made, and whether there is one.
    pub(super) fn connections(&self) -> (u64, bool) {
        let state = lock(&self.state);
        (state.number, state.up.is_some())
    }

    pub(super) fn last_failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Handles the loss of a connection: that to a server is dropped, that to a cluster stays.
    pub(super) fn lost(&self, connection: &Connection) {
        if !self.is_cluster() {
            let mut state = lock(&self.state);
            state.up.take_if(|up| up.number == connection.number);
        }
    }

    /// Handles an answer to a call of a part.
    pub(super) fn answered(&self, part: u16) {
        if self.has_timeouts.load(Ordering::Relaxed) {
            let timeouts = &mut lock(&self.state).timeouts;
            timeouts.remove(&part);
            self.has_timeouts
                .store(!timeouts.is_empty(), Ordering::Relaxed);
        }
    }

    /// Counts a deadline that passed for a call of a part on the connection with that number. After
    /// several of them in a row another connection is made, or looked for: see
    /// [`connect`](Self::connect).
    pub(super) fn timed_out(self: &Arc<Self>, number: u64, part: u16, deadline: Duration) {
        let state = &mut *lock(&self.state);
        if state.up.as_ref().is_none_or(|up| up.number != number) {
            return;
        }
        state.deadline = deadline;
        self.has_timeouts.store(true, Ordering::Relaxed);
        let timeouts = state.timeouts.entry(part).or_default();
        *timeouts = timeouts.saturating_add(1);
        if *timeouts < TIMEOUTS {
            return;
        }
        if self.is_cluster() {
            drop(self.connecting(state));
        } else {
            state.timeouts.clear();
            state.up = None;
        }
    }

    /// Returns the parts whose calls have missed several deadlines in a row, and that deadline.
    fn silent(&self) -> (Vec<u16>, Duration) {
        let state = lock(&self.state);
        let silent = state.timeouts.iter();
        let silent = silent.filter(|(_, timeouts)| **timeouts >= TIMEOUTS);
        (silent.map(|(part, _)| *part).collect(), state.deadline)
    }
}

/// Makes an attempt in a task. Its outcome stays unknown only if the runtime ends. Calls `panicked`
/// with the message if it panics, before the outcome is known.
fn attempt<T: Clone + Send + Sync + 'static>(
    runtime: &Handle,
    connect: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    panicked: impl FnOnce(&str) + Send + 'static,
) -> watch::Receiver<Option<Result<T, StoreError>>> {
    let (sender, receiver) = watch::channel(None);
    // A task of its own, because a panic ends it.
    let connected = runtime.spawn(connect);
    runtime.spawn(async move {
        match connected.await {
            Ok(outcome) => drop(sender.send_replace(Some(outcome))),
            Err(error) if error.is_panic() => {
                let payload = error.into_panic();
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
                panicked(text.unwrap_or("without a message"));
                drop(sender.send_replace(Some(Err(StoreError::Unavailable))));
            }
            Err(_) => {}
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_that_panics_is_an_outage_with_a_reason() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for number in [None, Some(7)] {
            let connect = async move {
                match number {
                    None => panic!("a mistake of the client"),
                    Some(number) => panic!("mistake {number}"),
                }
            };
            let reason = Arc::new(Mutex::new(None));
            let told = Arc::clone(&reason);
            let mut outcome = attempt::<()>(runtime.handle(), connect, move |text| {
                *lock(&told) = Some(text.to_owned());
            });
            let outcome = runtime.block_on(outcome.wait_for(Option::is_some));
            assert_eq!(*outcome.unwrap(), Some(Err(StoreError::Unavailable)));
            let expected = if number.is_some() {
                "mistake 7"
            } else {
                "a mistake of the client"
            };
            assert_eq!(lock(&reason).as_deref(), Some(expected));
        }
        assert!(StoreError::Unavailable.is_outage_of_store());
    }
}
