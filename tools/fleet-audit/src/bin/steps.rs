//! Counts the instructions that a process takes for an admission while 1,000 and while 1,000,000 callers wait in it: a
//! step of a queue does not depend on their number. Counts do not depend on the load of the machine. It needs valgrind,
//! and exits with 1 if a step among the many takes more than twice that among the few.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin steps
//! ```

use std::error::Error;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::task::{Context, Waker};
use std::time::Duration;

use fleet_audit::Arguments;
use redis_on_loopback::Server;
use tollgate::Quota;
use tollgate_redis::{RateLimiter, Store};

/// The admissions that are counted, and those before them.
const ADMISSIONS: usize = 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut given = Arguments::of_process()?;
    let (child, waiters) = (given.text("child"), given.number("waiters", 1_000_000));
    given.end();
    if let Some(address) = child {
        act(&address, waiters)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (few, many) = (count(1_000)?, count(waiters)?);
    let ratio = many as f64 / few as f64;
    println!(
        "{few} instructions an admission among 1,000 waiters, {many} among {waiters}: {ratio:.2}"
    );
    Ok(ExitCode::from(u8::from(ratio > 2.0)))
}

/// Returns the instructions for an admission of a process in which so many callers wait.
fn count(waiters: u64) -> Result<u64, Box<dyn Error>> {
    let server = Server::start();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*admissions_that_are_counted*")
        .arg(std::env::current_exe()?)
        .args([
            format!("child={}", server.address()),
            format!("waiters={waiters}"),
        ])
        .output()?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind failed:\n{report}").into());
    }
    let collected = report
        .lines()
        .find_map(|line| line.split_once("Collected :"));
    let (_, collected) = collected.ok_or("callgrind reports no count")?;
    Ok(collected.trim().parse::<u64>()? / ADMISSIONS as u64)
}

type Waits = Pin<Box<dyn Future<Output = ()>>>;

/// Waits with this number of callers, and admits the first of them.
fn act(address: &str, waiters: u64) -> Result<(), Box<dyn Error>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    let waiting = runtime.block_on(async {
        let store = Store::new(address)?.deadline(Duration::from_secs(60));
        // A turn is not late while this program is slow.
        let limiter = RateLimiter::new(&store, "steps", Quota::per_second(5));
        limiter.acquire().await?;
        let mut waiting: Vec<Waits> = Vec::new();
        for _ in 0..waiters {
            let mut waits: Waits = Box::pin({
                let waits = limiter.acquire();
                async move { drop(waits.await) }
            });
            let _ = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            waiting.push(waits);
        }
        waiting.reverse();
        admit(&mut waiting).await;
        Ok::<_, Box<dyn Error>>(waiting)
    });
    let mut waiting = waiting?;
    admissions_that_are_counted(&runtime, &mut waiting);
    // A million futures that leave one by one would be measured by nobody.
    std::process::exit(0);
}

#[inline(never)]
fn admissions_that_are_counted(runtime: &tokio::runtime::Runtime, waiting: &mut Vec<Waits>) {
    runtime.block_on(admit(waiting));
}

async fn admit(waiting: &mut Vec<Waits>) {
    for _ in 0..ADMISSIONS {
        if let Some(first) = waiting.pop() {
            first.await;
        }
    }
}
