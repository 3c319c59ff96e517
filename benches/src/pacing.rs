//! Waiters in a long queue that a rate limiter of burst 1 releases: the time of a release, which is the share of the
//! rate that they get.
//!
//! `ratios -- pacing` has more figures of the same measurement, [`peers::pacing`].

use std::time::Duration;

use peers::pacing::{Plan, pace};
use tollgate::Quota;

use crate::harness::{Contender, Row, Work, made};
use crate::peer::{Governor, LeakyBucket, OurLimiter, WaitLimiter};

/// Returns all rows. A run takes as long as the queue should take: a third of a second.
pub fn rows() -> Vec<Row> {
    let row = |name: &str, counted, ahead, rate| {
        let plan = Plan {
            counted,
            ahead,
            quota: Quota::per_second(rate),
        };
        let contenders = [
            released::<OurLimiter>(plan),
            released::<Governor>(plan),
            released::<LeakyBucket>(plan),
        ];
        Row::new(name, contenders).at_rate(rate as f64)
    };
    vec![
        row("waiters released at 1,000/s", 300, 20, 1_000),
        row("waiters released at 100,000/s", 20_000, 10_000, 100_000),
    ]
}

fn released<L: WaitLimiter>(plan: Plan) -> Contender {
    made(L::NAME, move || {
        let run = move |_| Duration::from_secs_f64(plan.counted as f64 / pace::<L>(&plan).rate);
        Work::Timed {
            unit: plan.counted as u64,
            batch: Box::new(move |times| (0..times).map(run).sum()),
        }
    })
}
