//! Measures what a decision costs a server, in processor time, beside the plainest script that decides by GCRA;
//! and what a key costs a process that does not use it.
//!
//! The program lets each operation happen once, records the command that reaches the server, and repeats it in
//! batches on one connection, in turn with those of the others. A batch that another program disturbs takes
//! longer, so the tenth part of all batches that is fastest decides. The processor time includes reading the
//! command and writing the reply.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin cost -- 100000
//! ```

use std::alloc::System;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::{Cmd, Connection, Value};
use redis_on_loopback::{PLAINEST_GCRA, Server};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::Quota;
use tollgate_redis::{Keyed, LimitSet, RateLimiter, Store};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of calls in a batch.
const BATCH: usize = 200;

/// The number of keys at rest.
const KEYS: usize = 10_000;

type Failure = Box<dyn Error>;

/// An operation, and the highest ratio that is asked for, if any.
struct Row {
    name: &'static str,
    command: Cmd,
    most: Option<f64>,
    /// The processor time of each batch, and the time that the server has measured for its scripts, in
    /// microseconds a call.
    times: Vec<[f64; 2]>,
}

impl Row {
    fn new(name: &'static str, command: Cmd, most: Option<f64>) -> Self {
        let times = Vec::new();
        Self {
            name,
            command,
            most,
            times,
        }
    }

    /// Returns the time that a tenth of all batches does not exceed.
    fn time(&self, of: usize) -> f64 {
        let mut times: Vec<_> = self.times.iter().map(|times| times[of]).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 10]
    }
}

fn main() -> Result<(), Failure> {
    let calls = std::env::args()
        .nth(1)
        .map_or(Ok(100_000), |it| it.parse::<usize>())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let server = Server::start();
    let mut rows = runtime.block_on(rows(&server))?;
    measure(&server, &mut rows, calls.div_ceil(BATCH))?;
    report(&rows);
    runtime.block_on(async { keys(&server.store()).await });
    Ok(())
}

/// A quota beyond any demand here.
fn plenty() -> Quota {
    Quota::per_second(1_000_000_000).burst(1_000_000)
}

/// A quota that is used up by one call.
fn scarce() -> Quota {
    Quota::per_hour(1)
}

async fn rows(server: &Server) -> Result<Vec<Row>, Failure> {
    let store = server.store();
    let limiter = |name: &str, quota| RateLimiter::new(&store, name, quota).recheck(Duration::ZERO);
    let set = |names: [&str; 2], other| {
        LimitSet::new(&store)
            .limit(names[0], plenty())
            .limit(names[1], other)
    };
    let mut monitor = Monitor::start(server)?;
    let mut rows = vec![
        Row::new(
            "the plainest script: allowed",
            plainest(server, "p", plenty())?,
            None,
        ),
        Row::new(
            "the plainest script: denied",
            plainest(server, "q", scarce())?,
            None,
        ),
    ];

    let allowed = limiter("allowed", plenty());
    allowed.try_acquire().await?;
    rows.push(Row::new("allowed", monitor.last("take")?, Some(1.2)));

    let denied = limiter("denied", scarce());
    denied.try_acquire().await?;
    denied.try_acquire().await.unwrap_err();
    rows.push(Row::new("denied", monitor.last("take")?, Some(1.4)));

    let ever = Duration::from_secs(1_000_000_000);
    let quota = Quota::per_second(1_000);
    // Dropping a reservation gives it back.
    std::mem::forget(limiter("reserved", quota).reserve(ever).await?);
    rows.push(Row::new("reserved", monitor.last("reserve")?, Some(2.8)));

    let waits = limiter("waits", Quota::per_second(10));
    waits.acquire().await?;
    waits.acquire().await?;
    rows.push(Row::new(
        "reserved for a waiter, in shares",
        monitor.last("turns")?,
        Some(2.8),
    ));

    let allowed = set(["set 1", "set 2"], plenty());
    assert!(allowed.try_acquire().await?.is_admitted());
    rows.push(Row::new(
        "set of two, allowed",
        monitor.last("take")?,
        Some(3.0),
    ));

    let denied = set(["set 3", "set 4"], scarce());
    assert!(denied.try_acquire().await?.is_admitted());
    assert!(!denied.try_acquire().await?.is_admitted());
    rows.push(Row::new(
        "set of two, denied",
        monitor.last("take")?,
        Some(3.0),
    ));
    Ok(rows)
}

/// Returns a call of the plainest script.
fn plainest(server: &Server, key: &str, quota: Quota) -> Result<Cmd, Failure> {
    let interval = quota.period().as_secs_f64() * 1e6 / quota.count() as f64;
    let tolerance = interval * (quota.max_burst() - 1) as f64;
    let millis = ((interval + tolerance) / 1e3).ceil().max(10_000.0) as u64;
    let load = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(PLAINEST_GCRA)
        .to_owned();
    let digest: String = load.query(&mut server.connection())?;
    let mut command = redis::cmd("EVALSHA");
    command.arg(digest).arg(1).arg(key);
    command.arg(interval).arg(tolerance).arg(millis);
    Ok(command)
}

/// The commands that reach a server.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn start(server: &Server) -> Result<Self, Failure> {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        stream.write_all(b"MONITOR\r\n")?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Returns the last call of a script so far with this operation.
    fn last(&mut self, operation: &str) -> Result<Cmd, Failure> {
        let (mut last, mut line) = (None, Vec::new());
        // Ends when nothing has come for a while.
        while self.0.read_until(b'\n', &mut line).is_ok() {
            let words = words(&line);
            line.clear();
            let is_script = words.first().is_some_and(|verb| verb == "EVALSHA");
            if is_script && words.iter().any(|word| word == operation) {
                last = Some(words);
            }
        }
        let words = last.ok_or("no such call")?;
        let mut command = redis::cmd(&words[0]);
        command.arg(&words[1..]);
        Ok(command)
    }
}

/// Returns the quoted words of a line. None of ours has a character that is escaped.
fn words(line: &[u8]) -> Vec<String> {
    let line = String::from_utf8_lossy(line);
    let words = line.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// Repeats the commands in turn.
fn measure(server: &Server, rows: &mut [Row], rounds: usize) -> Result<(), Failure> {
    let mut connection = server.connection();
    for _ in 0..rounds {
        for row in &mut *rows {
            let mut batch = redis::pipe();
            for _ in 0..BATCH {
                batch.add_command(row.command.clone());
            }
            let before = times(&mut connection)?;
            let _: Vec<Value> = batch.query(&mut connection)?;
            let after = times(&mut connection)?;
            row.times
                .push([0, 1].map(|of| (after[of] - before[of]) / BATCH as f64));
        }
    }
    Ok(())
}

/// Returns the processor time of the server, and the time that it has measured for its scripts, in microseconds.
fn times(connection: &mut Connection) -> Result<[f64; 2], Failure> {
    let mut info = |section: &str| redis::cmd("INFO").arg(section).query::<String>(connection);
    let (cpu, stats) = (info("cpu")?, info("commandstats")?);
    let number = |text: &str, begin: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(begin));
        let digits = line.and_then(|line| line.split(',').next());
        digits.and_then(|it| it.parse().ok()).unwrap_or(0.0)
    };
    let script = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let script = script
        .and_then(|line| line.split_once("usec="))
        .map_or("", |(_, rest)| rest);
    let user = number(&cpu, "used_cpu_user_main_thread:");
    let system = number(&cpu, "used_cpu_sys_main_thread:");
    Ok([(user + system) * 1e6, number(script, "")])
}

fn report(rows: &[Row]) {
    println!(
        "server time of a decision | µs of the processor | of the plainest script | by commandstats | asked"
    );
    let [processor, script] = [0, 1].map(|of| rows[0].time(of));
    for row in rows {
        let ratio = row.time(0) / processor;
        let asked = row.most.map_or(String::new(), |most| {
            let verdict = if ratio <= most { "kept" } else { "MISSED" };
            format!("≤ {most}: {verdict}")
        });
        println!(
            "{} | {:.1} | {ratio:.2} | {:.2} | {asked}",
            row.name,
            row.time(0),
            row.time(1) / script,
        );
    }
}

/// Prints the bytes of a key that was used, and is not used any more.
async fn keys(store: &Store) {
    let model = RateLimiter::new(store, "keys", Quota::per_second(1).burst(10));
    let keyed = Keyed::new(model, KEYS);
    let names: Vec<String> = (0..KEYS).map(|index| format!("{index:08}")).collect();
    // What the store and the runtime set up once.
    keyed
        .key("first")
        .acquire()
        .await
        .expect("the server answers");
    let region = Region::new(COUNTING);
    for name in &names {
        keyed.key(name).acquire().await.expect("the server answers");
    }
    // The driver of the last one ends in a task.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let change = region.change();
    let bytes = change.bytes_allocated as f64 - change.bytes_deallocated as f64;
    println!(
        "bytes of the client for a key at rest | {:.0} | asked: ≤ 64",
        bytes / KEYS as f64
    );
}
