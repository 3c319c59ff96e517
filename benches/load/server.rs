//! A server of axum on loopback, in this process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tollgate::{Keyed, Quota, RateLimiter, WhenFull};
use tollgate_tower::{ClientIp, IpNet, ThrottleLayer};

use super::tally::Tally;

/// Six seconds for each request, so a map of 100,000 keys is full of keys with debts when more than
/// about 17,000 new networks arrive in a second.
pub(super) const QUOTA: Quota = Quota::per_minute(10).burst(10);

/// A listening server. It stops when this is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    pub(super) async fn start(app: Router) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serve = tokio::spawn(async { axum::serve(listener, app).await });
        let task = serve.abort_handle();
        Ok(Self { address, task })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The client that the one proxy, wrk, names.
pub(super) fn client_ip() -> ClientIp {
    ClientIp::peer(|_| None).behind(1)
}

/// A server whose requests do not wait for the rate of their network.
pub(super) struct Limited {
    pub(super) server: Server,
    pub(super) keyed: Arc<Keyed<IpNet, RateLimiter>>,
    pub(super) tally: Arc<Tally>,
}

impl Limited {
    pub(super) async fn start(
        networks: u32,
        max_keys: u32,
        when_full: WhenFull,
    ) -> io::Result<Self> {
        let keyed = Keyed::rate_limiters(QUOTA)
            .max_keys(max_keys as usize)
            .when_full(when_full);
        let keyed = Arc::new(keyed);
        let tally = Arc::new(Tally::new(networks));
        let layer = {
            let (keyed, tally, client_ip) = (Arc::clone(&keyed), Arc::clone(&tally), client_ip());
            ThrottleLayer::by(move |head| {
                let network = client_ip.of(head);
                tally.saw(network);
                Arc::clone(&keyed).key_owned(network)
            })
            .refusing()
        };
        let handler = {
            let (tally, client_ip) = (Arc::clone(&tally), client_ip());
            async move |request: Request| {
                tally.admitted(client_ip.of(&request));
                "admitted"
            }
        };
        let app = Router::new().route("/", get(handler)).layer(layer);
        let server = Server::start(app).await?;
        Ok(Self {
            server,
            keyed,
            tally,
        })
    }
}

/// Waits until there are this many tasks: one for each server, and for each of its connections.
///
/// It fails after ten seconds.
pub(super) async fn tasks_become(tasks: usize) -> io::Result<()> {
    until("connections are still served", || {
        Handle::current().metrics().num_alive_tasks() == tasks
    })
    .await
}

/// Waits until something has come about, ten seconds at most.
pub(super) async fn until(otherwise: &str, mut condition: impl FnMut() -> bool) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        if Instant::now() > deadline {
            let error = format!("after ten seconds {otherwise}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, error));
        }
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
