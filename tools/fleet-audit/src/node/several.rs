//! LimitSet limits in one call.

use std::error::Error;
use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate::Algorithm;
use tollgate_redis::{LimitSet, Store};

use super::{End, Share, failed};
use crate::options::Options;
use crate::report::Report;

/// The key of the limit that counts.
pub(crate) const LEDGER: &str = "{fleet}:ledger";

#[derive(Clone)]
struct Cheats {
    twice: Arc<Share>,
    uneven: Arc<Share>,
}

pub(super) async fn run(store: &Store, options: &Options, end: End) -> Result<(), Box<dyn Error>> {
    let two = LimitSet::new(store)
        .limit_by(options.algorithm, "{fleet}:first", options.quota())
        .limit_by(Algorithm::FixedWindow, "{fleet}:second", options.window());
    let all = two
        .clone()
        .limit_by(Algorithm::FixedWindow, LEDGER, Options::ledger());
    let cheats = Cheats {
        twice: Share::new(options.cheat),
        uneven: Share::new(options.uneven),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask(
            all.clone(),
            two.clone(),
            options.clone(),
            cheats.clone(),
            end.clone(),
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(())
}

async fn ask(all: LimitSet, two: LimitSet, options: Options, cheats: Cheats, end: End) {
    loop {
        let left = end.left();
        if left.is_zero() {
            return;
        }
        let limits = if cheats.uneven.is_now() { &two } else { &all };
        match limits.try_acquire().await {
            Ok(outcome) if outcome.is_admitted() => {
                let at = outcome
                    .decisions()
                    .first()
                    .map_or(0, |it| it.at.as_nanos() / 1000);
                let report = Report::Admitted {
                    tick: at,
                    ahead: false,
                };
                println!("{report}");
                if cheats.twice.is_now() {
                    println!("{report}");
                }
            }
            Ok(outcome) => tokio::time::sleep(outcome.retry_after().min(left)).await,
            Err(error) => {
                if !failed(error, &options).await {
                    return;
                }
            }
        }
    }
}
