//! Measures leases of many keys: what a key costs a process and a server while it is at rest, held and waited for, the
//! requests, the longest of them, and how long it takes until the next holders have the leases of all keys.
//!
//! ```sh
//! cargo run --release -p fleet-audit --bin keys -- keys=10000 seconds=10
//! ```
//!
//! One store holds a lease of each key, and another one waits for it; both are in this process, each with a connection of
//! its own. `away=2000` stops the server for so many milliseconds while it is waited for, and `ttl=10000` is the ttl.

use std::alloc::System;
use std::error::Error;
use std::time::{Duration, Instant};

use fleet_audit::Arguments;
use redis_on_loopback::Server;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_redis::{Keyed, Lease, Semaphore, Store};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let mut given = Arguments::of_process()?;
    let keys = given.number("keys", 10_000);
    let seconds = given.number("seconds", 10);
    let away = Duration::from_millis(given.number("away", 0));
    let ttl = Duration::from_millis(given.number("ttl", 10_000));
    given.end();

    let server = Server::start();
    // Requests of more than half a millisecond are listed.
    let slow = ["SET", "slowlog-log-slower-than", "500"];
    ask::<()>(&server, "CONFIG", &slow)?;
    ask::<()>(&server, "CONFIG", &["SET", "slowlog-max-len", "10000"])?;
    let deadline = Duration::from_millis(500);
    let stores = [
        Store::new(&server.address())?.deadline(deadline),
        Store::new(&server.address())?.deadline(deadline),
    ];
    let each = stores.map(|store| {
        let one = Semaphore::new(&store, "audit", 1);
        let one = one.ttl(ttl).grace(Duration::ZERO);
        (store, Keyed::new(one, usize::MAX >> 1))
    });
    let [(holder_store, holder), (waiter_store, waiter)] = &each;
    drop(holder.key("first").acquire().await?);
    drop(waiter.key("second").acquire().await?);

    let names: Vec<_> = (0..keys).map(|key| format!("tenant-{key}")).collect();
    let memory = Region::new(COUNTING);
    let used = || {
        let stats = memory.change();
        stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
    };
    let per_key = |bytes: i64| bytes as f64 / keys as f64;

    let begin = Instant::now();
    let held = acquire_all(holder, &names).await?;
    println!(
        "acquire: {:?}, {:.2} requests a lease, {:.0} bytes a key that is held",
        begin.elapsed(),
        holder_store.calls() as f64 / keys as f64,
        per_key(used()),
    );

    let before = used();
    let mut waiting = Vec::new();
    for name in &names {
        let wait = waiter.key(name).acquire();
        waiting.push(tokio::spawn(wait.into_inner()));
    }
    while ask::<u64>(&server, "DBSIZE", &[])? < 6 * keys {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "wait: {:.2} requests a ticket, {:.0} bytes a key that is waited for, with the task of its caller",
        waiter_store.calls() as f64 / keys as f64,
        per_key(used() - before),
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = || [holder_store.calls(), waiter_store.calls()];
    let (first, calls_first) = (processor_time(&server)?, calls());
    let cpu = own_time()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (last, calls_last) = (processor_time(&server)?, calls());
    let rate = |index: usize| (calls_last[index] - calls_first[index]) as f64 / seconds as f64;
    println!(
        "meanwhile: {:.1} % of a core of the server, {:.1} % of this process, {:.0} requests a second of the holder and {:.0} \
         of the waiter",
        100.0 * (last - first) / seconds as f64,
        100.0 * (own_time()? - cpu) / seconds as f64,
        rate(0),
        rate(1),
    );

    if !away.is_zero() {
        let cpu = own_time()?;
        server.stop();
        tokio::time::sleep(away).await;
        server.go_on();
        let lost = held.iter().filter(|lease| lease.is_lost()).count();
        println!(
            "away: {lost} leases lost, {:.1} % of a core of this process",
            100.0 * (own_time()? - cpu) / away.as_secs_f64()
        );
    }

    let (begin, calls) = (Instant::now(), calls());
    drop(held);
    let mut next = Vec::new();
    for wait in waiting {
        next.push(wait.await??);
    }
    let used_calls = holder_store.calls() - calls[0] + waiter_store.calls() - calls[1];
    println!(
        "hand over: {:?}, {:.2} requests a lease",
        begin.elapsed(),
        used_calls as f64 / keys as f64
    );
    for lease in next {
        drop(lease);
    }
    while waiter.len() > 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..1_000 {
            let _ = (waiter.key("second"), holder.key("first"));
        }
    }
    while ask::<u64>(&server, "DBSIZE", &[])? > 10 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("at rest: {:.1} bytes a key", per_key(used()));
    let slow: Vec<Vec<redis::Value>> = ask(&server, "SLOWLOG", &["GET", "-1"])?;
    let times = slow.iter().filter_map(|entry| match entry[..] {
        [_, _, redis::Value::Int(time), ..] => Some(time),
        _ => None,
    });
    let times: Vec<_> = times.collect();
    println!(
        "{} requests took more than 0.5 ms, {} more than 1 ms, the longest {} µs",
        times.len(),
        times.iter().filter(|time| **time > 1_000).count(),
        times.iter().max().copied().unwrap_or_default(),
    );
    Ok(())
}

async fn acquire_all(of: &Keyed<Semaphore>, names: &[String]) -> Outcome<Vec<Lease>> {
    let mut calls = Vec::new();
    for name in names {
        let call = of.key(name).acquire();
        calls.push(tokio::spawn(call.into_inner()));
    }
    let mut held = Vec::new();
    for call in calls {
        held.push(call.await??);
    }
    Ok(held)
}

fn ask<T: redis::FromRedisValue>(server: &Server, command: &str, words: &[&str]) -> Outcome<T> {
    let mut command = redis::cmd(command);
    Ok(command.arg(words).query(&mut server.connection())?)
}

/// Returns the processor time of the server's main thread, in seconds.
fn processor_time(server: &Server) -> Outcome<f64> {
    let info: String = ask(server, "INFO", &["cpu"])?;
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.ok_or("the server does not say it")
    };
    let user: f64 = of("used_cpu_user_main_thread:")?.parse()?;
    let system: f64 = of("used_cpu_sys_main_thread:")?.parse()?;
    Ok(user + system)
}

/// Returns the processor time of this process, in seconds.
fn own_time() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .ok_or("no name")?
        .1
        .split(' ')
        .collect();
    // In hundredths.
    Ok((fields[12].parse::<f64>()? + fields[13].parse::<f64>()?) / 100.0)
}
