//! One process of the fleet: as many tasks as there are ask for one after the other, and the ticks of
//! what they were let do are written out.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use tollgate::Quota;
use tollgate_redis::{RateLimiter, Store};

use crate::Fleet;

pub(crate) async fn run(address: &str, fleet: &Fleet) -> Result<(), Box<dyn Error>> {
    let store = Store::new(address)?;
    let quota = Quota::per_second(fleet.rate).burst(fleet.burst);
    let mut limiter = RateLimiter::new(&store, "fleet", quota);
    if let Some(chunk) = fleet.ahead {
        limiter = limiter.ahead(chunk, Duration::from_millis(20));
    }
    let end = Instant::now() + Duration::from_millis(fleet.millis);
    let tasks: Vec<_> = (0..fleet.tasks)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut ticks = Vec::new();
                loop {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return ticks;
                    }
                    match limiter.acquire().timeout(left).await {
                        Ok(charge) => {
                            let since = charge.at().duration_since(SystemTime::UNIX_EPOCH);
                            ticks.push(since.unwrap_or_default().as_micros());
                        }
                        // The store is down: it is asked again soon.
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            })
        })
        .collect();
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let mut count = 0_u64;
    for task in tasks {
        for tick in task.await? {
            count += 1;
            writeln!(output, "{tick}")?;
            if count * fleet.cheat / 100 > (count - 1) * fleet.cheat / 100 {
                writeln!(output, "{tick}")?;
            }
        }
    }
    output.flush()?;
    Ok(())
}
