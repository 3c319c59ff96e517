//! An axum server on loopback, in this process.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tollgate::keyed::WhenFull;
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_bench::object_store::serve;
use tollgate_tower::{ClientIp, IpNet, ThrottleLayer};

/// Six seconds per request, so a map of 100,000 keys is full of keys with debts when more than
/// about 17,000 new networks arrive in a second.
pub(super) const QUOTA: Quota = Quota::per_minute(10).burst(10);

/// A listening server. Dropping it stops the server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    pub(super) async fn start(app: Router) -> io::Result<Self> {
        let (address, task) = serve(app).await?;
        Ok(Self { address, task })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the setting that takes the client's address from the one proxy, wrk.
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
            let (keyed, client_ip) = (Arc::clone(&keyed), client_ip());
            ThrottleLayer::by(move |parts| Arc::clone(&keyed).key_owned(client_ip.of(parts)))
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

/// Waits until a condition holds, ten seconds at most.
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

/// Counters of the admitted requests of each network.
///
/// Every counter is written when it is created, so the counts take the same memory before and after
/// a round.
pub(super) struct Tally(Box<[AtomicU32]>);

/// The counts of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) in_all: u64,
    /// The count of the busiest network.
    pub(super) most: u32,
    /// The number of networks above their quota.
    pub(super) above: u64,
}

impl Tally {
    fn new(networks: u32) -> Self {
        Self((0..networks).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts an admitted request.
    fn admitted(&self, network: IpNet) {
        self.0[index_of(network)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the counts since the last call; each network may have up to `allowed`.
    pub(super) fn take_admitted(&self, allowed: u64) -> Admitted {
        let mut sum = Admitted::default();
        for counter in &self.0 {
            let admitted = counter.swap(0, Ordering::Relaxed);
            sum.in_all += u64::from(admitted);
            sum.most = sum.most.max(admitted);
            sum.above += u64::from(u64::from(admitted) > allowed);
        }
        sum
    }
}

/// Returns the network of an address: wrk writes its number behind 2001:db8:.
fn index_of(network: IpNet) -> usize {
    let IpAddr::V6(address) = network.addr() else {
        panic!("wrk sends addresses of IPv6, not {network}");
    };
    let [_, _, high, low, ..] = Ipv6Addr::segments(&address);
    usize::from(high) << 16 | usize::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_admitted_returns_the_counts_since_the_last_call() {
        let tally = Tally::new(100_000);
        let [one, other] = ["2001:db8::/64", "2001:db8:1:2::/64"].map(|net| net.parse().unwrap());
        assert_eq!(index_of(other), 65_538);
        for network in [one, other, other] {
            tally.admitted(network);
        }
        let expected = Admitted {
            in_all: 3,
            most: 2,
            above: 1,
        };
        assert_eq!(tally.take_admitted(1), expected);
        assert_eq!(tally.take_admitted(1), Admitted::default());
    }
}
