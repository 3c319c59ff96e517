//! Leases, which are held for a while, some of them so long that they have to be renewed.

use std::error::Error;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_redis::{Lease, Semaphore, Store};

use super::{End, Share, Shares, refused, while_waiting};
use crate::options::{HOLD, Options, POLL};
use crate::report::Report;
use crate::time::now;

/// How often a holder looks whether it holds.
const LOOK: Duration = Duration::from_millis(1);

/// A holder that has lost a lease is told so before that.
const TOLD: Duration = Duration::from_secs(5);

pub(super) async fn run(
    store: &Store,
    options: &Options,
    permits: usize,
    end: End,
) -> Result<(), Box<dyn Error>> {
    let leases = Semaphore::new(store, "fleet", permits)
        .ttl(options.ttl())
        .poll(POLL);
    let shares = Shares {
        cheats: Share::new(options.cheat),
        drops: Share::new(options.drops),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask(
            leases.clone(),
            options.clone(),
            shares.clone(),
            end.clone(),
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

async fn ask(leases: Semaphore, options: Options, shares: Shares, end: End) -> Result<(), String> {
    let mut count = 0;
    loop {
        let left = end.left();
        if left.is_zero() {
            return Ok(());
        }
        let asked = now();
        let call = leases.acquire().timeout(left);
        let Some(answer) = while_waiting(&shares.drops, call).await else {
            continue;
        };
        match answer {
            Ok(lease) => {
                let granted = now();
                count += 1;
                let report = Report::Held {
                    id: lease.id().to_owned(),
                    fencing: lease.fencing(),
                    asked,
                    granted,
                };
                println!("{report}");
                let hold = if count % 4 == 0 { 10 * HOLD } else { HOLD };
                let overstays = shares.cheats.is_now();
                let report = hold_on(lease, granted, hold.min(end.left()), overstays).await?;
                println!("{report}");
            }
            Err(error) => {
                if !refused(&error, &options).await {
                    return Ok(());
                }
            }
        }
    }
}

/// Until when it was held for sure.
async fn hold_on(
    lease: Lease,
    granted: u64,
    hold: Duration,
    overstays: bool,
) -> Result<Report, String> {
    let id = lease.id().to_owned();
    let begin = Instant::now();
    let mut until = granted;
    loop {
        let looked = now();
        if lease.is_lost() {
            // A holder that does not look is told.
            let told = tokio::time::timeout(TOLD, lease.token().cancelled()).await;
            let told = told.map_err(|_| format!("of lease {id} nobody said that it is lost"));
            let lost = true;
            return told.map(|()| Report::Left { id, until, lost });
        }
        until = looked;
        if begin.elapsed() >= hold {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    if overstays {
        // Whether that succeeds or not, it goes on as if it held.
        let _ = lease.release().await;
        tokio::time::sleep(HOLD).await;
        until = now();
    }
    let lost = false;
    Ok(Report::Left { id, until, lost })
}
