//! [`Sentinels`]: asks the sentinels of a server for its address, each time that a connection is made.

use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo};
use redis::{RedisError, RedisResult};
use tokio::time::timeout;

use super::connect::{CONNECTING, beside, prepare};
use crate::error::StoreError;

/// The time that one sentinel has to answer.
const ANSWER: std::time::Duration = std::time::Duration::from_millis(500);

/// A server that sentinels know by a name.
pub(super) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    name: String,
    /// The settings of the connection to the server; the host is its name.
    info: ConnectionInfo,
}

impl Sentinels {
    pub(super) fn new<'a>(
        info: ConnectionInfo,
        sentinels: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        let name = match info.addr() {
            redis::ConnectionAddr::Tcp(name, _) => name.clone(),
            redis::ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => return Err(StoreError::Misconfigured),
        };
        let sentinels = sentinels
            .into_iter()
            .map(IntoConnectionInfo::into_connection_info);
        let sentinels: Vec<_> = sentinels
            .collect::<Result<_, _>>()
            .map_err(|_| StoreError::Misconfigured)?;
        if sentinels.is_empty() {
            return Err(StoreError::Misconfigured);
        }
        Ok(Self {
            sentinels,
            name,
            info,
        })
    }

    /// Returns a client for the server that is the primary now, according to the first sentinel that answers.
    pub(super) async fn primary(&self) -> RedisResult<Client> {
        let none = "no sentinel knows the server";
        let mut failure = RedisError::from((ErrorKind::Io, none, self.name.clone()));
        for sentinel in &self.sentinels {
            match timeout(ANSWER.min(CONNECTING), self.ask(sentinel)).await {
                Ok(Ok(Some((host, port)))) => {
                    let address = beside(self.info.addr(), host, port);
                    return Client::open(self.info.clone().set_addr(address));
                }
                // It watches no server of that name.
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => failure = error,
            }
        }
        Err(failure)
    }

    async fn ask(&self, sentinel: &ConnectionInfo) -> RedisResult<Option<(String, u16)>> {
        prepare(sentinel.addr());
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECTING));
        let client = Client::open(sentinel.clone())?;
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        command.query_async(&mut connect.await?).await
    }
}
