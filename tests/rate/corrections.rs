//! Limiters that follow a server's count, beside the most obvious model of it; the tables of rows have examples.

use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::rate::{Charge, Hold, Oversize};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Quota, RateLimiter};

use crate::setup::{limiter, ms, secs};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call};

const QUOTAS: [&str; 6] = [
    "100/min burst 100",
    "1000/s burst 1000",
    "100/100ns burst 100",
    "98/min burst 98",
    "7/1000ns burst 7",
    "10/365d burst 10",
];

/// Returns a cost: mostly a small one, sometimes the largest.
fn cost(words: &mut Words<'_>) -> u64 {
    let number: u64 = words.parse();
    match number % 9 {
        0 => u64::MAX,
        1 => number * (u64::MAX / 1000),
        2 => 2 * number,
        _ => number % 30,
    }
}

/// Returns a time: mostly up to a minute and a half, sometimes the longest.
fn time(words: &mut Words<'_>) -> Duration {
    let number: u64 = words.parse();
    Duration::from_nanos(match number % 14 {
        0 => number * (u64::MAX / 1000),
        1 => number << 47,
        2..6 => number % 100,
        _ => number * 100_000_000,
    })
}

/// Makes random calls; when a call makes a waiter due, the waiter has been woken by the time the
/// call returns.
fn assert_wakes(
    limiter: &RateLimiter,
    clock: &ManualClock,
    calls: &[String],
) -> Result<(), TestCaseError> {
    let (mut charges, mut holds, mut waiters) = (Vec::new(), Vec::new(), Vec::new());
    let any = Names::AtRandom;
    for text in calls {
        call(text, |name, words| {
            match name {
                "advance" => clock.advance(time(words)),
                "charge" => charges.push(limiter.charge(cost(words))),
                "try" => charges.extend(limiter.try_acquire_many(cost(words)).ok()),
                "wait" => {
                    let mut waiter = Waiter::new(limiter.acquire_many(cost(words)));
                    match waiter.poll() {
                        Poll::Ready(output) => charges.extend(output.ok()),
                        Poll::Pending => waiters.push(waiter),
                    }
                }
                "leave" => drop(waiters.remove(any.choose(words, &waiters)?)),
                "hold" => {
                    let charge = charges.remove(any.choose(words, &charges)?);
                    holds.push(limiter.hold(charge));
                }
                "hold-forced" => holds.push(limiter.hold(limiter.charge(cost(words)))),
                "settle" => {
                    let hold: Hold = holds.remove(any.choose(words, &holds)?);
                    hold.settle(cost(words));
                }
                "drop" => drop(holds.remove(any.choose(words, &holds)?)),
                "refund" => limiter.refund(charges.remove(any.choose(words, &charges)?)),
                "follow" => {
                    let charge: &Charge = &charges[any.choose(words, &charges)?];
                    limiter.follow(charge, cost(words), time(words));
                }
                "set" => limiter.set_quota(QUOTAS[words.parse::<usize>()].parse().unwrap()),
                "pause" => limiter.pause_for(time(words).min(secs(1000))),
                _ => panic!("no call: {name:?}"),
            }
            Ok(())
        })?;
        let wakes = |waiters: &[Waiter<_>]| waiters.iter().map(Waiter::wakes).collect::<Vec<_>>();
        let before = wakes(&waiters);
        let _ = limiter.snapshot();
        prop_assert_eq!(before, wakes(&waiters), "lost wake-up");
        waiters.retain_mut(|waiter| {
            let is_woken = waiter.wakes() > 0;
            if is_woken {
                charges.extend(waiter.output().ok());
            }
            !is_woken
        });
    }
    Ok(())
}

const CALLS: &str = "3 advance #, 1 charge #, 4 try #, 4 wait #, 1 leave #, 3 hold #, 1 hold-forced #, 2 settle # #,
    1 drop #, 2 refund #, 1 set 0..6, 1 pause #, 3 follow # # #";

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn holds_and_answers_wake_whoever_is_due(
        algorithm in prop::sample::select(Algorithm::all()),
        overdraft in any::<bool>(),
        follows in any::<bool>(),
        mut calls in at_random(CALLS, 60),
    ) {
        let (clock, limiter) = limiter(HUNDRED);
        let limiter = limiter.algorithm(algorithm);
        let limiter = if overdraft {
            limiter.oversize(Oversize::Overdraft)
        } else {
            limiter
        };
        calls.retain(|text| follows || !text.starts_with("follow"));
        assert_wakes(&limiter, &clock, &calls)?;
    }
}

/// One per 600 ms, and up to a hundred at once.
const HUNDRED: Quota = Quota::per_minute(100).burst(100);

/// In nanoseconds.
const MINUTE: u64 = 60_000_000_000;

/// Time in hundredths of a second, costs, and answers to one of the charges: the remaining part of a server's
/// hundred.
const ANSWERS: &str = "2 advance 0..500, 4 try 1..21, 2 answer # 0..101";

fn follow(limiter: &RateLimiter, charge: &Charge, left: u64) {
    limiter.follow(charge, 100 - left, secs(60));
}

/// A charge, and its tick.
#[derive(Default)]
struct Sent {
    charges: Vec<(u64, Charge)>,
    /// The newest answered charge, and the others' usage since.
    answered: Option<usize>,
    of_others: (u64, u64),
}

impl Sent {
    /// Returns how much of the charges from `first` on, until `last`, counts in a log at a tick.
    fn counts(&self, range: std::ops::Range<usize>, now: u64) -> u64 {
        let counts = |charge: &&(u64, Charge)| charge.1.at().as_nanos() + MINUTE > now;
        let charges = self.charges[range].iter().filter(counts);
        charges.map(|(cost, _)| cost).sum()
    }

    /// Returns the available tokens of a log at a tick.
    fn available(&self, now: u64) -> u64 {
        let (others, until) = self.of_others;
        let others = if now < until { others } else { 0 };
        100_u64.saturating_sub(self.counts(0..self.charges.len(), now) + others)
    }

    /// Reads an answer, unless a later charge was answered.
    fn answer(&mut self, which: usize, left: u64) {
        if self.answered.is_none_or(|newest| which > newest) {
            self.answered = Some(which);
            let at = self.charges[which].1.at().as_nanos();
            let others = (100 - left).saturating_sub(self.counts(0..which + 1, at));
            self.of_others = (others, at + MINUTE);
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// A bucket counts at least the server's count and the later charges; a log counts the others' usage in addition
    /// to its own.
    #[test]
    fn follow_counts_what_the_server_has_counted(
        is_log in any::<bool>(),
        calls in at_random(ANSWERS, 80),
    ) {
        let (clock, limiter) = limiter(HUNDRED);
        let algorithm = if is_log { Algorithm::SlidingLog } else { Algorithm::Gcra };
        let limiter = limiter.algorithm(algorithm);
        let mut sent = Sent::default();
        sent.charges.push((1, limiter.try_acquire().unwrap()));
        follow(&limiter, &sent.charges[0].1, 99);
        sent.answer(0, 99);
        for text in &calls {
            let before = limiter.snapshot();
            if is_log {
                prop_assert_eq!(before.available, sent.available(clock.now().as_nanos()));
            }
            call(text, |name, words| {
                match name {
                    "advance" => clock.advance(ms(10) * words.parse()),
                    "try" => {
                        let cost = words.parse::<u64>();
                        let charge = limiter.try_acquire_many(cost);
                        prop_assert_eq!(charge.is_ok(), cost <= before.available);
                        sent.charges.extend(charge.ok().map(|charge| (cost, charge)));
                    }
                    _ => {
                        let which = Names::AtRandom.choose(words, &sent.charges)?;
                        let left = words.parse();
                        let is_newest = sent.answered.is_none_or(|newest| which > newest);
                        follow(&limiter, &sent.charges[which].1, left);
                        sent.answer(which, left);
                        if !is_log {
                            let since = sent.charges[which + 1..].iter().map(|(cost, _)| cost);
                            let least = 100 - left + since.sum::<u64>();
                            let least = if is_newest { least } else { 0 };
                            prop_assert_eq!(limiter.snapshot().in_use, before.in_use.max(least));
                        }
                    }
                }
                Ok(())
            })?;
        }
    }
}
