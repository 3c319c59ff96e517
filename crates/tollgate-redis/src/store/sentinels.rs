//! [`Sentinels`]: asks the sentinels of a server for its address, each time that a connection is made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo};
use redis::{RedisError, RedisResult};
use tokio::time::timeout;

use super::connect::{CONNECTING, beside, prepare};
use crate::error::StoreError;

/// The time that one sentinel has to answer.
const ANSWER: Duration = Duration::from_millis(400);

/// A server that sentinels know by a name.
pub(super) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    name: String,
    /// The settings of the connection to the server; the host is its name.
    info: ConnectionInfo,
    /// The index of the sentinel that answered last, which is asked first.
    first: AtomicUsize,
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
            first: AtomicUsize::new(0),
        })
    }

    /// Returns a client for the server that is the primary now, according to the first sentinel that answers, from the
    /// one on that answered last.
    pub(super) async fn primary(&self) -> RedisResult<Client> {
        let none = "no sentinel knows the server";
        let mut failure = RedisError::from((ErrorKind::Io, none, self.name.clone()));
        let (first, count) = (self.first.load(Ordering::Relaxed), self.sentinels.len());
        for index in (first..first + count).map(|index| index % count) {
            // An attempt that ends before the last sentinel was asked leaves the rest to the next one.
            self.first.store(index, Ordering::Relaxed);
            match timeout(ANSWER, self.ask(&self.sentinels[index])).await {
                Ok(Ok(Some((host, port)))) => {
                    let address = beside(self.info.addr(), host, port);
                    return Client::open(self.info.clone().set_addr(address));
                }
                // It watches no server of that name.
                Ok(Ok(None)) => {}
                Ok(Err(error)) => failure = error,
                Err(_) => self.first.store((index + 1) % count, Ordering::Relaxed),
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
