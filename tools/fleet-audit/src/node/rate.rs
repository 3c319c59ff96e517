//! One rate.

use std::error::Error;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_redis::{RateLimiter, Source, Store};

use super::{End, Share, Shares, refused, while_waiting};
use crate::options::{AHEAD, Options};
use crate::report::Report;
use crate::time::of;

pub(super) async fn run(store: &Store, options: &Options, end: End) -> Result<(), Box<dyn Error>> {
    let mut limiter =
        RateLimiter::new(store, "fleet", options.quota()).algorithm(options.algorithm);
    if let Some(chunk) = options.ahead {
        limiter = limiter.prefetch(chunk, AHEAD);
    }
    let shares = Shares {
        cheats: Share::new(options.cheat),
        drops: Share::new(options.drops),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask(
            limiter.clone(),
            options.clone(),
            shares.clone(),
            end.clone(),
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(())
}

async fn ask(limiter: RateLimiter, options: Options, shares: Shares, end: End) {
    loop {
        let left = end.left();
        if left.is_zero() {
            return;
        }
        let call = limiter.acquire().timeout(left);
        let Some(answer) = while_waiting(&shares.drops, call).await else {
            continue;
        };
        match answer {
            Ok(charge) => {
                let report = Report::Admitted {
                    tick: of(charge.at()),
                    ahead: charge.source() == Source::TokenCache,
                };
                println!("{report}");
                if shares.cheats.is_now() {
                    println!("{report}");
                }
                if options.think > 0 {
                    sleep(Duration::from_millis(options.think)).await;
                }
            }
            Err(error) => {
                if !refused(&error, &options).await {
                    return;
                }
            }
        }
    }
}
