//! [`Cluster`]: a cluster, and the handling of its redirections.
//!
//! 1. The client sends a call to the node that has its slot according to its own map, and repeats
//!    no call: a call that was in flight when a connection was lost may have been executed.
//! 2. A redirection is followed on a separate connection to the node that it names, regardless of
//!    the slots of that node. The client of the cluster gets the redirection too, and reads the
//!    slots again.
//! 3. `ASKING` and its call are sent together, because another call could come between them on a
//!    shared connection.
//! 4. After a call that gets no answer, the client reads no slots. So it goes on to call a node that
//!    hangs although another one has its slots, until the connections are [replaced](Nodes::are_best).
//!
//! The lock is held briefly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError,
    RedisResult, ServerErrorKind, Value,
};

use super::call::Progress;
use super::connect::{CONNECTING, Login, beside, connect_to, prepare, settings};
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::error::StoreError;
use crate::sync::{Mutex, lock};

/// The maximum number of redirections before the client is used again.
const REDIRECTIONS: usize = 4;

/// The maximum time to connect to one node: one that does not answer must not delay the others.
const REPLACING: Duration = CONNECTING.checked_div(4).unwrap();

/// The addresses of a cluster.
pub(super) struct Cluster {
    client: ClusterClient,
    /// The connection settings of the given nodes. Other nodes differ in the address only.
    infos: Vec<ConnectionInfo>,
    #[cfg(all(feature = "credentials", feature = "tls"))]
    certificates: Option<redis::TlsCertificates>,
    login: Option<Login>,
}

impl Cluster {
    pub(super) fn new<'a>(
        addresses: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        let infos = infos(addresses)?;
        Ok(Self {
            client: Self::client(ClusterClientBuilder::new(infos.clone()))?,
            infos,
            #[cfg(all(feature = "credentials", feature = "tls"))]
            certificates: None,
            login: None,
        })
    }

    #[cfg(feature = "tls")]
    pub(super) fn with_tls<'a>(
        addresses: impl IntoIterator<Item = &'a str>,
        tls: &Tls,
    ) -> Result<Self, StoreError> {
        let mut infos = infos(addresses)?;
        let certificates = tls.certificates()?;
        let builder = ClusterClientBuilder::new(infos.clone()).certs(certificates.clone());
        let client = Self::client(builder)?;
        // Nodes that a call is redirected to get the settings of the first one.
        let first = tls.client_of(infos[0].clone())?;
        infos[0] = first.get_connection_info().clone();
        Ok(Self {
            client,
            infos,
            #[cfg(feature = "credentials")]
            certificates: Some(certificates),
            login: None,
        })
    }

    fn client(builder: ClusterClientBuilder) -> Result<ClusterClient, StoreError> {
        builder
            .retries(0)
            .connection_timeout(REPLACING)
            .response_timeout(CONNECTING)
            .tcp_settings(settings())
            .build()
            .map_err(|_| StoreError::Misconfigured)
    }

    /// Takes the credentials of each connection from a login.
    #[cfg(feature = "credentials")]
    pub(super) fn set_login(&mut self, login: Login) {
        let builder = ClusterClientBuilder::new(self.infos.clone());
        #[cfg(feature = "tls")]
        let builder = match &self.certificates {
            Some(certificates) => builder.certs(certificates.clone()),
            None => builder,
        };
        let client = Self::client(builder.set_credentials_provider(login.clone()));
        self.client = client.expect("the addresses have been checked");
        self.login = Some(login);
    }

    pub(super) async fn connect(&self) -> RedisResult<Nodes> {
        let first = self.infos[0].clone().set_tcp_settings(settings());
        prepare(first.addr());
        Ok(Nodes {
            cluster: self.client.get_async_connection().await?,
            settings: Arc::new(Settings {
                first,
                login: self.login.clone(),
            }),
            known: Arc::default(),
        })
    }
}

/// Returns the settings of the nodes at these addresses; at least one is required.
fn infos<'a>(
    addresses: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<ConnectionInfo>, StoreError> {
    let infos = addresses
        .into_iter()
        .map(IntoConnectionInfo::into_connection_info);
    let infos = infos.collect::<Result<Vec<_>, _>>();
    let infos = infos.map_err(|_| StoreError::Misconfigured)?;
    if infos.is_empty() {
        return Err(StoreError::Misconfigured);
    }
    Ok(infos)
}

/// The settings of connections to further nodes: those of the first one, with another address.
struct Settings {
    first: ConnectionInfo,
    login: Option<Login>,
}

/// A connection to a cluster.
#[derive(Clone)]
pub(super) struct Nodes {
    cluster: ClusterConnection,
    settings: Arc<Settings>,
    /// Connections to nodes that calls were redirected to, by address.
    known: Arc<Mutex<HashMap<String, MultiplexedConnection>>>,
}

impl Nodes {
    /// Returns whether new connections would be no better for calls to these slots, which get no
    /// answers: a node answers, and those that have the slots according to it do not.
    pub(super) async fn are_best(&mut self, slots: &[u16], deadline: Duration) -> bool {
        let Some(map) = self.map().await else {
            return false;
        };
        let mut owners = Vec::new();
        for slot in slots {
            let owner = owner(&map, *slot, self.settings.first.addr());
            owners.extend(owner.filter(|owner| !owners.contains(owner)));
        }
        let asked = owners
            .into_iter()
            .map(|owner| self.answers(owner, deadline));
        !join_all(asked).await.contains(&true)
    }

    /// Returns the slots according to the first primary that answers.
    async fn map(&mut self) -> Option<Vec<Value>> {
        let nodes = MultipleNodeRoutingInfo::AllMasters;
        let one = Some(ResponsePolicy::OneSucceeded);
        let slots = redis::cmd("CLUSTER").arg("SLOTS").take();
        let asked = self
            .cluster
            .route_command(slots, RoutingInfo::MultiNode((nodes, one)));
        match tokio::time::timeout(REPLACING, asked).await {
            Ok(Ok(Value::Array(map))) => Some(map),
            _ => None,
        }
    }

    /// Returns whether a node would be connected if the connections were replaced, and answers within the
    /// deadline of calls: an overloaded one must not get another connection after each three calls.
    async fn answers(&self, address: ConnectionAddr, deadline: Duration) -> bool {
        let answered = async {
            let Ok(mut node) = self.connect(address).await else {
                return false;
            };
            let ping = redis::cmd("PING");
            let answer = tokio::time::timeout(deadline, node.req_packed_command(&ping)).await;
            answer.is_ok_and(|answer| answer.is_ok())
        };
        let answered = tokio::time::timeout(REPLACING, answered).await;
        answered.unwrap_or(false)
    }

    /// Makes a call, and updates its progress.
    pub(super) async fn call(
        &mut self,
        number: u64,
        command: &Cmd,
        progress: &mut Progress,
    ) -> RedisResult<Value> {
        progress.sent = Ok(number);
        let answer = self.cluster.req_packed_command(command).await;
        let mut answer = answer.and_then(Value::extract_error);
        for _ in 0..REDIRECTIONS {
            let Some((address, asking)) = answer.as_ref().err().and_then(redirection) else {
                break;
            };
            progress.sent = Err(StoreError::Unavailable);
            let mut node = self.connection(&address).await?;
            if !progress.is_wanted() {
                break;
            }
            progress.sent = Ok(number);
            answer = redirected(&mut node, command, asking).await;
            if let Err(error) = &answer
                && error.is_unrecoverable_error()
            {
                lock(&self.known).remove(&address);
            }
        }
        answer
    }

    /// Returns the connection to a node, and connects if there is none.
    async fn connection(&self, address: &str) -> RedisResult<MultiplexedConnection> {
        if let Some(node) = lock(&self.known).get(address) {
            return Ok(node.clone());
        }
        let connect = async { self.connect(self.address(address)?).await };
        // Nothing was sent yet.
        let unsent = (
            ErrorKind::ClusterConnectionNotFound,
            "no connection to a node",
        );
        let node = connect.await.map_err(|_| RedisError::from(unsent))?;
        lock(&self.known).insert(address.to_owned(), node.clone());
        Ok(node)
    }

    async fn connect(&self, address: ConnectionAddr) -> RedisResult<MultiplexedConnection> {
        let Settings { first, login } = &*self.settings;
        let client = Client::open(first.clone().set_addr(address))?;
        connect_to(&client, login.as_ref(), None).await
    }

    /// Returns the address of a node, with the settings of the first one.
    fn address(&self, address: &str) -> RedisResult<ConnectionAddr> {
        let (host, port) = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)))
            .filter(|(host, _)| !host.is_empty())
            .ok_or((ErrorKind::Client, "a redirection names no node"))?;
        Ok(beside(self.settings.first.addr(), host, port))
    }
}

/// Returns the address of the node that has a slot, according to a reply to `CLUSTER SLOTS` of a cluster that includes
/// the node at `first`.
fn owner(map: &[Value], slot: u16, first: &ConnectionAddr) -> Option<ConnectionAddr> {
    map.iter().find_map(|range| {
        let [Value::Int(start), Value::Int(end), primary, ..] = range.as_sequence()? else {
            return None;
        };
        let [host, Value::Int(port), ..] = primary.as_sequence()? else {
            return None;
        };
        let host = match (host, first) {
            (Value::BulkString(host), _) if !host.is_empty() => {
                String::from_utf8_lossy(host).into()
            }
            // The nodes differ in their ports only.
            (_, ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. }) => host.clone(),
            _ => return None,
        };
        let address = beside(first, host, (*port).try_into().ok()?);
        (*start..=*end).contains(&slot.into()).then_some(address)
    })
}

/// Returns the node that has to execute a call instead, and whether `ASKING` is required.
fn redirection(error: &RedisError) -> Option<(String, bool)> {
    let asking = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Ask) => true,
        ErrorKind::Server(ServerErrorKind::Moved) => false,
        _ => return None,
    };
    let (address, _) = error.redirect_node()?;
    Some((address.to_owned(), asking))
}

async fn redirected(
    node: &mut MultiplexedConnection,
    command: &Cmd,
    asking: bool,
) -> RedisResult<Value> {
    let mut pipeline = redis::pipe();
    if asking {
        pipeline.cmd("ASKING");
    }
    pipeline.add_command(command.clone());
    let answers = node.req_packed_commands(&pipeline, asking.into(), 1);
    let answer = answers.await?.pop();
    answer.unwrap_or(Value::Nil).extract_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![
            host,
            Value::Int(port),
            Value::BulkString(b"id".to_vec()),
        ])
    }

    #[test]
    fn owner_of_a_slot_is_its_primary() {
        let host = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |start, end, nodes: Vec<Value>| {
            let mut range = vec![Value::Int(start), Value::Int(end)];
            range.extend(nodes);
            Value::Array(range)
        };
        let map = [
            Value::Nil,
            range(7, 9, vec![]),
            range(
                10,
                10,
                vec![node(host("10.0.0.9"), 1), node(host("10.0.0.8"), 2)],
            ),
            range(0, 9, vec![node(Value::Nil, 3)]),
            range(11, 16_383, vec![node(host(""), 4)]),
        ];
        let first = ConnectionAddr::Tcp("first".to_owned(), 6_379);
        let of = |slot| match owner(&map, slot, &first) {
            Some(ConnectionAddr::Tcp(host, port)) => Some((host, port)),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(10), Some(("10.0.0.9".to_owned(), 1)));
        // Without a host, it is that of the given node.
        for (slot, port) in [(0, 3), (9, 3), (11, 4), (16_383, 4)] {
            assert_eq!(of(slot), Some(("first".to_owned(), port)));
        }
        // Calls without a key.
        assert_eq!(owner(&map, crate::script::SLOTS, &first), None);
    }
}
