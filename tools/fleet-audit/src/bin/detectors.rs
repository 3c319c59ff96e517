//! Measures a fleet of detectors on one server: the server's time for each caller and each call, the part of the
//! calls that succeed, and how long another client waits for a reply.
//!
//! A process is a store with a connection of its own; `deadline` is that of its calls, in milliseconds. Each
//! records the same number of callers in each interval. At first the detectors rest, so that the wait of the other
//! client without them is printed beside the one with them.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin detectors -- processes=50 callers=256 interval=500 seconds=10
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_audit::Arguments;
use redis_on_loopback::Server;
use tollgate::Quota;
use tollgate_redis::{Detector, Store};

#[derive(Clone, Copy)]
struct Setup {
    processes: usize,
    /// The callers of each process in an interval.
    callers: usize,
    interval: Duration,
    seconds: Duration,
    deadline: Duration,
    /// Whether each process makes its passes without a pause between calls, all at the same time.
    at_once: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = Arguments::of_process()?;
    let mut value = |name: &str, default| given.number(name, default);
    let setup = Setup {
        processes: value("processes", 50) as usize,
        callers: value("callers", 256) as usize,
        interval: Duration::from_millis(value("interval", 500)),
        seconds: Duration::from_secs(value("seconds", 10)),
        deadline: Duration::from_millis(value("deadline", 50)),
        at_once: value("at_once", 0) > 0,
    };
    given.end();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let server = Server::start();
    let mut other = server.connection();
    let before = replies(&mut other, setup.seconds.div_f64(4.0));
    let used = processor_time(&mut other);
    let fleet = runtime.spawn(fleet(setup, server.address()));
    let during = replies(&mut other, setup.seconds);
    let used = processor_time(&mut other) - used;
    let (calls, succeeded, recorded) = runtime.block_on(fleet)?;
    println!(
        "{:.3} of the calls succeed, {calls} calls, {recorded} callers",
        succeeded as f64 / calls as f64,
    );
    // The commands of the other client are in it. Callers whose calls fail are sent again, or not at all.
    println!(
        "server: {:.1} us a caller, {:.0} us a call, {:.2} of a core",
        used * 1e6 / recorded as f64,
        used * 1e6 / calls as f64,
        used / setup.seconds.as_secs_f64(),
    );
    println!("PING without them: {before}");
    println!("PING with them:    {during}");
    Ok(())
}

/// Runs detectors until the end. Returns the calls, those that succeeded, and the number of callers that were
/// recorded.
async fn fleet(setup: Setup, address: String) -> (u64, u64, u64) {
    let end = Instant::now() + setup.seconds;
    let mut processes = Vec::new();
    for index in 0..setup.processes {
        let store = Store::new(&address).expect("an address");
        let store = store.deadline(setup.deadline);
        let quota = Quota::per_minute(600).burst(600);
        let detector = Arc::new(Detector::new(&store, "abuse", quota));
        let passes = tokio::spawn(passes(setup, Arc::clone(&detector)));
        let recorder = tokio::spawn(async move {
            let mut recorded = 0;
            while Instant::now() < end {
                for caller in 0..setup.callers {
                    // Half of the callers are known to other processes as well.
                    let of = if caller % 2 == 0 { 0 } else { index };
                    detector.record(&format!("192.0.2.{of}.{caller}"));
                    recorded += 1;
                }
                tokio::time::sleep(setup.interval).await;
            }
            recorded
        });
        processes.push((store, recorder, passes));
    }
    let (mut calls, mut succeeded, mut recorded) = (0, 0, 0);
    for (store, recorder, passes) in processes {
        recorded += recorder.await.expect("no detector panics");
        passes.abort();
        let statistics = store.statistics();
        calls += statistics.calls;
        succeeded += statistics.succeeded;
    }
    (calls, succeeded, recorded)
}

async fn passes(setup: Setup, detector: Arc<Detector>) {
    if !setup.at_once {
        detector.run(setup.interval).await;
    }
    loop {
        tokio::time::sleep(setup.interval).await;
        // The next pass sends what this one could not send.
        let _ = detector.pass().await;
    }
}

/// Returns the processor time of the server, in seconds.
fn processor_time(connection: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO")
        .arg("cpu")
        .query(connection)
        .expect("a reply");
    let names = ["used_cpu_user:", "used_cpu_sys:"];
    let times = names.iter().filter_map(|name| {
        let time = info.lines().find_map(|line| line.strip_prefix(name))?;
        time.trim().parse::<f64>().ok()
    });
    times.sum()
}

/// Sends a PING each 5 ms, and returns how long the replies took.
fn replies(connection: &mut redis::Connection, time: Duration) -> String {
    let end = Instant::now() + time;
    let mut took = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        let _: String = redis::cmd("PING").query(connection).expect("a reply");
        took.push(begin.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    took.sort_unstable();
    let part = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    format!(
        "half within {:.1?}, 99 % within {:.1?}, all within {:.1?}",
        part(0.5),
        part(0.99),
        part(1.0)
    )
}
