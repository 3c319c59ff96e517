//! [`Cluster`]: a cluster, and the handling of its redirections.
//!
//! 1. The client sends a call to the node that has its slot according to its own map, and repeats
//!    no call: a call that was in flight when a connection was lost may have been executed.
//! 2. A redirection is followed on a separate connection to the node that it names, regardless of
//!    the slots of that node. The client of the cluster gets the redirection too, and reads the
//!    slots again.
//! 3. `ASKING` and its call are sent together, because another call could come between them on a
//!    shared connection.
//!
//! The lock is held briefly.

use std::collections::HashMap;
use std::sync::Arc;

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
            // A node that does not answer must not delay the others.
            .connection_timeout(CONNECTING / 4)
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
    /// Returns whether one of the nodes answers soon.
    pub(super) async fn answers(&mut self) -> bool {
        let (nodes, one) = (
            MultipleNodeRoutingInfo::AllMasters,
            ResponsePolicy::OneSucceeded,
        );
        let ping = redis::cmd("PING");
        let asked = self
            .cluster
            .route_command(ping, RoutingInfo::MultiNode((nodes, Some(one))));
        let answer = tokio::time::timeout(CONNECTING / 4, asked).await;
        answer.is_ok_and(|answer| answer.is_ok())
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
        let connect = async {
            let Settings { first, login } = &*self.settings;
            let info = first.clone().set_addr(self.address(address)?);
            connect_to(&Client::open(info)?, login.as_ref(), None).await
        };
        // Nothing was sent yet.
        let unsent = (
            ErrorKind::ClusterConnectionNotFound,
            "no connection to a node",
        );
        let node = connect.await.map_err(|_| RedisError::from(unsent))?;
        lock(&self.known).insert(address.to_owned(), node.clone());
        Ok(node)
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
