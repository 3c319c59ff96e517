//! Clients that disconnect while the server makes them wait: wrk is killed when each of its
//! connections has a request in a queue or in the handler, which does not answer.
//!
//! Afterwards there are no waiters, every permit is back, and the charged requests are exactly
//! those that the handler has seen.

use std::error::Error;
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate::{Keyed, Quota, RateLimiter, Semaphore, Snapshot, all};
use tollgate_tower::{IpNet, ThrottleLayer};

use super::Checks;
use super::server::{Server, client_ip, tasks_become, until};
use super::wrk::{Load, Wrk};

const CLIENTS: u32 = 500;
const NETWORKS: u16 = 100;
/// For each network: at most two requests are charged, and at least three wait for the rate. No
/// debt is paid off during a wave.
const QUOTA: Quota = Quota::per_hour(1).burst(2);
const SLOTS: usize = 50;

/// A server whose requests wait for the rate of their network, and then for a slot.
struct Waiting {
    server: Server,
    keyed: Arc<Keyed<IpNet, RateLimiter>>,
    slots: Arc<Semaphore>,
    handled: Arc<AtomicU64>,
}

/// Sums of the snapshots of all networks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    in_use: u64,
    available: u64,
    waiting: usize,
}

impl Waiting {
    async fn start() -> std::io::Result<Self> {
        let keyed = Arc::new(Keyed::rate_limiters(QUOTA));
        let slots = Arc::new(Semaphore::new(SLOTS));
        let handled = Arc::new(AtomicU64::new(0));
        let layer = {
            let (keyed, slots, client_ip) = (Arc::clone(&keyed), Arc::clone(&slots), client_ip());
            ThrottleLayer::by(move |parts| {
                let network = Arc::clone(&keyed).key_owned(client_ip.of(parts));
                all((network, Arc::clone(&slots)))
            })
        };
        let handler = {
            let handled = Arc::clone(&handled);
            async move || {
                handled.fetch_add(1, Ordering::SeqCst);
                pending::<&str>().await
            }
        };
        let app = Router::new().route("/", get(handler)).layer(layer);
        let server = Server::start(app).await?;
        Ok(Self {
            server,
            keyed,
            slots,
            handled,
        })
    }

    fn of_networks(&self) -> Sum {
        let mut sum = Sum::default();
        for index in 0..NETWORKS {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, index, 0, 0, 0, 0);
            let network = IpNet::new_assert(IpAddr::V6(address), 64);
            let snapshot: Snapshot = self.keyed.key(&network).snapshot();
            sum.in_use += snapshot.in_use;
            sum.available += snapshot.available;
            sum.waiting += snapshot.waiting;
        }
        sum
    }

    fn waiting(&self) -> usize {
        self.of_networks().waiting + self.slots.snapshot().waiting
    }

    fn handled(&self) -> u64 {
        self.handled.load(Ordering::SeqCst)
    }

    /// Returns whether the disconnected clients left nothing but the charges of handled requests.
    fn is_at_rest(&self) -> bool {
        let handled = self.handled();
        let expected = Sum {
            in_use: handled,
            available: u64::from(NETWORKS) * QUOTA.max_burst() - handled,
            waiting: 0,
        };
        let slots = self.slots.snapshot();
        self.of_networks() == expected && (slots.in_use, slots.waiting) == (0, 0)
    }
}

/// Makes waves of clients disconnect.
pub(super) async fn run(waves: u32, checks: &mut Checks) -> Result<(), Box<dyn Error>> {
    let mut holds = true;
    for wave in 0..waves {
        let waiting = Waiting::start().await?;
        let load = Load {
            networks: u32::from(NETWORKS),
            connections: CLIENTS,
            position: 0,
        };
        let wrk = Wrk::start(waiting.server.address, &load, Duration::from_secs(60))?;
        until("not every client waits", || {
            (waiting.handled(), waiting.waiting()) == (SLOTS as u64, CLIENTS as usize - SLOTS)
        })
        .await?;
        wrk.kill().await?;
        tasks_become(1).await?;
        if !waiting.is_at_rest() {
            let (networks, slots) = (waiting.of_networks(), waiting.slots.snapshot());
            println!("wave {wave} left behind: {networks:?}, {slots:?}");
            holds = false;
        }
        drop(waiting);
        tasks_become(0).await?;
    }
    let clients = u64::from(waves) * u64::from(CLIENTS);
    let check =
        format!("{clients} clients that disconnected while they waited left nothing behind");
    checks.promise(holds, &check);
    Ok(())
}
