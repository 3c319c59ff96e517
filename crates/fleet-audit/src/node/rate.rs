//! One rate.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_redis::{RateLimiter, Source, Store};

use super::{Share, refused};
use crate::options::{AHEAD, Options};
use crate::report::Report;
use crate::time::{of, until};

pub(super) async fn run(store: &Store, options: &Options, end: u64) -> Result<(), Box<dyn Error>> {
    let mut limiter =
        RateLimiter::new(store, "fleet", options.quota()).algorithm(options.algorithm);
    if let Some(chunk) = options.ahead {
        limiter = limiter.ahead(chunk, AHEAD);
    }
    let twice = Share::new(options.cheat);
    let mut tasks = JoinSet::new();
    for _ in 0..options.tasks {
        tasks.spawn(ask(
            limiter.clone(),
            options.clone(),
            Arc::clone(&twice),
            end,
        ));
    }
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(())
}

async fn ask(limiter: RateLimiter, options: Options, twice: Arc<Share>, end: u64) {
    loop {
        let left = until(end);
        if left.is_zero() {
            return;
        }
        match limiter.acquire().timeout(left).await {
            Ok(charge) => {
                let report = Report::Admitted {
                    tick: of(charge.at()),
                    ahead: charge.source() == Source::Ahead,
                };
                println!("{report}");
                if twice.is_now() {
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
