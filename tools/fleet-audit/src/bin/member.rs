//! A process of a fleet that waits for one rate, for [`waiting`](../waiting/index.html) with `members`: prints the
//! microsecond of the server at which each of its calls was admitted, its cost, and its own time. It prints them at
//! its end, because nobody reads the pipe before.
//!
//! It uses only what each version of tollgate-redis has, so it can be built with another version, and both can be in one
//! fleet: copy this file into a work tree of that version, `cargo build --release -p fleet-audit --bin member`, and name
//! the program with `member=`.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate::Quota;
use tollgate_redis::{RateLimiter, Store};

fn micros(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros()
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [address, numbers @ ..] = &given[..] else {
        return Err("address rate burst milliseconds waiters".into());
    };
    let numbers = numbers.iter().map(|number| number.parse::<u64>());
    let [rate, burst, millis, waiters] = numbers.collect::<Result<Vec<_>, _>>()?[..] else {
        return Err("address rate burst milliseconds waiters".into());
    };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build()?.block_on(async {
        let store = Store::new(address)?.deadline(Duration::from_secs(2));
        let limiter = RateLimiter::new(&store, "fleet", Quota::per_second(rate).burst(burst));
        let until = Instant::now() + Duration::from_millis(millis);
        let callers = (0..waiters).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut lines = Vec::new();
                let waits = async {
                    loop {
                        if let Ok(charge) = limiter.acquire().await {
                            let now = micros(SystemTime::now());
                            lines.push(format!("{} {} {now}", micros(charge.at()), charge.cost()));
                        }
                    }
                };
                let _ = tokio::time::timeout_at(until.into(), waits).await;
                lines
            })
        });
        let mut lines = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            lines.extend(caller.await?);
        }
        limiter.shutdown().await;
        for line in lines {
            println!("{line}");
        }
        Ok(())
    })
}
