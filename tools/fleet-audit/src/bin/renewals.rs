//! Measures what it costs a server to renew the leases of a fleet: the part of a core, the time for each renewal, the
//! calls, and the leases that were lost meanwhile. A process is a store with a connection of its own, and all use one
//! semaphore.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin renewals -- 200 1000 10
//! ```
//!
//! The arguments are the number of processes, the leases of each, and their ttl in seconds.

use std::error::Error;
use std::time::Duration;

use redis_on_loopback::Server;
use tollgate_redis::{Lease, Semaphore, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args()
        .skip(1)
        .map(|it| it.parse::<u32>())
        .collect::<Result<Vec<_>, _>>()?;
    let [processes, each, ttl] = given[..] else {
        return Err("the processes, the leases of each, and the ttl in seconds".into());
    };
    let server = Server::start();
    let ttl = Duration::from_secs(ttl.into());
    let (mut stores, mut leases) = (Vec::new(), Vec::<Lease>::new());
    for _ in 0..processes {
        let store = Store::new(&server.address())?.deadline(ttl / 10);
        let permits = processes as usize * each as usize;
        let semaphore = Semaphore::new(&store, "fleet", permits).grace(Duration::ZERO);
        let semaphore = semaphore.ttl(ttl);
        let waits = (0..each).map(|_| tokio::spawn(semaphore.acquire().into_inner()));
        for wait in waits.collect::<Vec<_>>() {
            leases.push(wait.await??);
        }
        stores.push(store);
    }
    // From now on nothing but renewals is sent.
    let calls = || stores.iter().map(Store::calls).sum::<u64>();
    let (before, calls_before) = (processor_time(&server)?, calls());
    let measured = 2 * ttl;
    tokio::time::sleep(measured).await;
    let (used, calls) = (processor_time(&server)? - before, calls() - calls_before);
    // A lease is renewed after 0.9 to 1 halves of the ttl.
    let renewals = f64::from(processes * each) * 2.0 / 0.95 * 2.0;
    println!(
        "{} leases: {:.1} % of a core, {:.1} µs a renewal, {calls} calls in {measured:?}, {} leases lost",
        leases.len(),
        100.0 * used / measured.as_secs_f64(),
        1e6 * used / renewals,
        leases.iter().filter(|lease| lease.is_lost()).count(),
    );
    Ok(())
}

/// Returns the processor time of the server's main thread, in seconds.
fn processor_time(server: &Server) -> Result<f64, Box<dyn Error>> {
    let mut command = redis::cmd("INFO");
    let info: String = command.arg("cpu").query(&mut server.connection())?;
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.ok_or("the server does not say it")
    };
    let user: f64 = of("used_cpu_user_main_thread:")?.parse()?;
    let system: f64 = of("used_cpu_sys_main_thread:")?.parse()?;
    Ok(user + system)
}
