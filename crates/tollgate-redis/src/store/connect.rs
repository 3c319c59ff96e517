//! How a connection to a server is made.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ProtocolVersion, RedisResult};

#[cfg(feature = "credentials")]
pub(super) use super::credentials::Login;
use super::pushes::Pushes;
#[cfg(feature = "tls")]
pub(super) use super::tls::prepare;
use crate::error::StoreError;

/// The maximum time to connect. It may be longer than the deadline of a call.
pub(super) const CONNECTING: Duration = Duration::from_secs(2);

/// The time after which the kernel closes a connection without acknowledgements.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(2);

pub(super) fn settings() -> redis::io::tcp::TcpSettings {
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED);
    settings
}

/// Connects to a server, whose pushes are handled if the protocol has them. The credentials of a login take the
/// place of those in the address.
pub(super) async fn connect_to(
    client: &Client,
    login: Option<&Login>,
    pushes: Option<&Arc<Pushes>>,
) -> RedisResult<MultiplexedConnection> {
    let info = client.get_connection_info();
    prepare(info.addr());
    // Calls have deadlines of their own.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(None);
    let config = match login {
        Some(login) => login.applied_to(config),
        None => config,
    };
    let with_pushes = match pushes.cloned() {
        Some(pushes) => config.clone().set_push_sender(move |push| {
            pushes.received(&push);
            Ok::<_, SendError>(())
        }),
        None => config.clone(),
    };
    let connection = client.get_multiplexed_async_connection_with_config(&with_pushes);
    match connection.await {
        // Some proxies support only the second version of the protocol, and each reports that with its own
        // text.
        Err(error) if StoreError::of(&error) == StoreError::Unknown => {
            let protocol = info.redis_settings().clone();
            let protocol = protocol.set_protocol(ProtocolVersion::RESP2);
            let client = Client::open(info.clone().set_redis_settings(protocol))?;
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            connection.await
        }
        outcome => outcome,
    }
}

/// Returns the address of another server, which is encrypted in the same way.
pub(super) fn beside(address: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match address {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// No credentials but those of the address.
#[cfg(not(feature = "credentials"))]
#[derive(Clone)]
pub(super) enum Login {}

#[cfg(not(feature = "credentials"))]
impl Login {
    fn applied_to(&self, _: AsyncConnectionConfig) -> AsyncConnectionConfig {
        match *self {}
    }
}

/// No encryption.
#[cfg(not(feature = "tls"))]
pub(super) fn prepare(_address: &redis::ConnectionAddr) {}
