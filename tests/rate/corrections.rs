//! Later corrections of a limiter: the settlement of a hold, a server's count, and a pause. Each runs at random
//! beside its most obvious model; the tables of rows have examples.

use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::rate::{Charge, Hold, Oversize};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::setup::{TEN, limiter, ms, secs};
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call};

/// One per 10 ns, and up to twenty at once.
const TWENTY: Quota = Quota::new(20, Duration::from_nanos(200)).burst(20);

/// Returns the maximum at once, and the time in nanoseconds after which it has come back.
fn batch(algorithm: Algorithm) -> (u64, u64) {
    let batch = algorithm.batch(TWENTY);
    (batch.max_burst(), batch.period().as_nanos() as u64)
}

/// The used tokens, in the order of the ticks.
#[derive(Clone, Default)]
struct Ledger(Vec<(u64, u64)>);

impl Ledger {
    fn add(&mut self, tick: u64, cost: u64) {
        let place = self.0.partition_point(|(other, _)| *other <= tick);
        self.0.insert(place, (tick, cost));
    }

    /// Returns the tokens used from one tick on, before another one.
    fn between(&self, from: u64, to: u64) -> u64 {
        let within = self.0.iter().filter(|(tick, _)| (from..to).contains(tick));
        within.map(|(_, cost)| cost).sum()
    }

    /// Returns how much of the limit is in use at a tick.
    fn backlog(&self, algorithm: Algorithm, now: u64) -> u64 {
        let (most, period) = batch(algorithm);
        let (interval, window) = (period / most, now / period * period);
        match algorithm {
            Algorithm::Gcra => {
                let end = |end: u64, (tick, cost): &(u64, u64)| end.max(*tick) + cost * interval;
                let end = self.0.iter().fold(0, end);
                end.saturating_sub(now).div_ceil(interval)
            }
            Algorithm::SlidingWindow => {
                let before = self.between(window.saturating_sub(period), window);
                let left = period - (now - window);
                self.between(window, now + 1) + (before * left).div_ceil(period)
            }
            Algorithm::SlidingLog => self.between((now + 1).saturating_sub(period), now + 1),
            other if other.keeps_a_word() => self.between(window, now + 1),
            other => panic!("there is no ledger of {other} here: add one"),
        }
    }

    /// Asserts that no more than the burst, plus the refill of the time, is ever used.
    fn assert_promise(&self, algorithm: Algorithm) {
        let (most, period) = batch(algorithm);
        for (first, (from, _)) in self.0.iter().enumerate() {
            let mut used = 0;
            for (to, cost) in &self.0[first..] {
                used += cost;
                let time = match algorithm {
                    Algorithm::Gcra => to - from,
                    _ => (to / period - from / period) * period,
                };
                let most = most * (period + time) / period;
                assert!(used <= most, "{used} of {most} from {from} to {to}");
            }
        }
    }
}

struct World {
    algorithm: Algorithm,
    clock: ManualClock,
    limiter: RateLimiter,
    /// The used tokens, at the ticks at which the holds began.
    used: Ledger,
    holds: Vec<(u64, Hold)>,
}

impl World {
    fn new(algorithm: Algorithm) -> Self {
        let clock = Clock::manual();
        Self {
            algorithm,
            limiter: RateLimiter::new(TWENTY).algorithm(algorithm).clock(&clock),
            clock,
            used: Ledger::default(),
            holds: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn available(&self) -> u64 {
        let (most, _) = batch(self.algorithm);
        let mut ledger = self.used.clone();
        let mut held = 0;
        for (begun, hold) in &self.holds {
            if self.algorithm.keeps_a_word() {
                held += hold.cost();
            } else {
                // It ages like a charge.
                ledger.add(*begun, hold.cost());
            }
        }
        most.saturating_sub(ledger.backlog(self.algorithm, self.now()) + held)
    }

    /// Tries: a call is admitted if it fits according to the limiter itself.
    fn try_acquire(&self, cost: u64) -> Option<Charge> {
        let available = self.limiter.snapshot().available;
        let charge = self.limiter.try_acquire_many(cost).ok();
        assert_eq!(charge.is_some(), cost <= available);
        charge
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Result<(), TestCaseError> {
        let now = self.now();
        match call {
            "advance" => self.clock.advance(Duration::from_nanos(words.parse())),
            "try" => {
                let cost = words.parse();
                if self.try_acquire(cost).is_some() {
                    self.used.add(now, cost);
                }
            }
            "hold" => {
                let charge = self.try_acquire(words.parse());
                let hold = charge.map(|charge| (now, self.limiter.hold(charge)));
                self.holds.extend(hold);
            }
            // This many eighths of it were used.
            "settle" => {
                let which = Names::AtRandom.choose(words, &self.holds)?;
                let (begun, hold) = self.holds.remove(which);
                let used = hold.cost() * words.parse::<u64>() / 8;
                self.used.add(begun, used);
                hold.settle(used);
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    /// Counts all outstanding holds as used, and returns the ledger.
    fn end(mut self) -> Ledger {
        for (begun, hold) in std::mem::take(&mut self.holds) {
            self.used.add(begun, hold.cost());
        }
        self.used
    }
}

proptest! {
    #![proptest_config(cases(4500))]

    /// In any order of their settlements. The promise holds for the used tokens as of the beginnings of the holds.
    #[test]
    fn holds_agree_with_the_ledger(
        algorithm in prop::sample::select(Algorithm::all()),
        calls in at_random(
            "2 advance 0..30, 1 advance 0..400, 3 try 1..21, 3 hold 1..11, 3 settle # 0..9",
            60,
        ),
    ) {
        let mut world = World::new(algorithm);
        for text in &calls {
            call(text, |name, words| world.call(name, words))?;
            prop_assert_eq!(world.limiter.snapshot().available, world.available());
        }
        if algorithm.keeps_a_word() {
            world.end().assert_promise(algorithm);
        }
    }
}

/// Makes calls that take up to three periods, for at most what each of them holds. Returns the first call that the
/// provider had no room for.
fn exceeded(
    algorithm: Algorithm,
    calls: &[(u64, u64, u64, u64)],
    at_the_end: bool,
) -> Option<usize> {
    let clock = Clock::manual();
    let [limiter, provider] =
        [(); 2].map(|()| RateLimiter::new(TWENTY).algorithm(algorithm).clock(&clock));
    let mut running: Vec<(u64, usize, u64, Hold)> = Vec::new();
    let counts = |used| provider.try_acquire_many(used).is_ok();
    for (number, (after, cost, used, takes)) in calls.iter().enumerate() {
        let used = *used.min(cost);
        let begins = clock.now().as_nanos() + after;
        while let Some(first) = (0..running.len()).min_by_key(|call| running[*call].0) {
            let (ends, ..) = running[first];
            let next = ends.min(begins);
            clock.advance(Duration::from_nanos(
                next.saturating_sub(clock.now().as_nanos()),
            ));
            if ends > begins {
                break;
            }
            let (_, ended, used, hold) = running.remove(first);
            if at_the_end {
                let _ = limiter.charge(used);
                hold.settle(0);
                if !counts(used) {
                    return Some(ended);
                }
            } else {
                hold.settle(used);
            }
        }
        clock.advance(Duration::from_nanos(
            begins.saturating_sub(clock.now().as_nanos()),
        ));
        if let Ok(charge) = limiter.try_acquire_many(*cost) {
            if !at_the_end && !counts(used) {
                return Some(number);
            }
            running.push((begins + takes, number, used, limiter.hold(charge)));
        }
    }
    None
}

proptest! {
    #![proptest_config(cases(2000))]

    /// A provider that counts when a call begins is never exceeded, and one that counts when it ends is not under the
    /// rules that keep the whole hold until then.
    #[test]
    fn holds_of_calls_longer_than_the_period_do_not_exceed_the_provider(
        algorithm in prop::sample::select(Algorithm::all()),
        calls in prop::collection::vec((0..150_u64, 1..21_u64, 0..21_u64, 0..600_u64), 1..60),
    ) {
        prop_assert_eq!(exceeded(algorithm, &calls, false), None);
        if algorithm.keeps_a_word() {
            prop_assert_eq!(exceeded(algorithm, &calls, true), None);
        }
    }
}

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

#[test]
fn refusal_during_a_pause_says_so_in_its_text() {
    let (_clock, limiter) = limiter(TEN);
    for (pause, text) in [
        (ms(1005), "the limiter is paused, try again in 1.005s"),
        (Duration::MAX, "the limiter is paused"),
    ] {
        limiter.pause_for(pause);
        assert_eq!(limiter.try_acquire().unwrap_err().to_string(), text);
    }
}

/// The time of a token, in nanoseconds.
const TOKEN: u64 = 100;
const BURST: u64 = 4;

/// The most obvious limiter: it earns a nanosecond per nanosecond, and a token is `TOKEN`.
struct Naive {
    earned: u64,
    now: u64,
    paused_until: u64,
}

impl Naive {
    fn advance(&mut self, nanos: u64) {
        for _ in 0..nanos {
            self.now += 1;
            self.earned = (self.earned + 1).min(BURST * TOKEN);
            if self.now == self.paused_until {
                self.earned = self.earned.min(TOKEN);
            }
        }
    }

    /// Makes a charge, or returns the delay.
    fn take(&mut self, cost: u64) -> Option<u64> {
        let pause = self.paused_until.saturating_sub(self.now);
        let earned = match pause {
            0 => self.earned,
            _ => (self.earned + pause).min(TOKEN),
        };
        let lacking = (cost * TOKEN).saturating_sub(earned);
        if pause + lacking > 0 {
            return Some(pause + lacking);
        }
        self.earned -= cost * TOKEN;
        None
    }
}

proptest! {
    #[test]
    fn pause_for_agrees_with_a_naive_limiter(
        steps in prop::collection::vec((0..4_u64, 0..600_u64), 1..60),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(TOKEN)).burst(BURST);
        let (clock, limiter) = limiter(quota);
        let (earned, now, paused_until) = (BURST * TOKEN, 0, 0);
        let mut naive = Naive { earned, now, paused_until };
        for (step, number) in steps {
            match step {
                0 => {
                    clock.advance(Duration::from_nanos(number));
                    naive.advance(number);
                }
                1 => {
                    limiter.pause_for(Duration::from_nanos(number));
                    if number > 0 {
                        naive.paused_until = naive.paused_until.max(naive.now + number);
                    }
                }
                _ => {
                    let cost = 1 + number % BURST;
                    let refused = limiter.try_acquire_many(cost).err();
                    let after = refused.map(|refused| refused.retry_after().unwrap());
                    prop_assert_eq!(after, naive.take(cost).map(Duration::from_nanos));
                }
            }
        }
    }

    /// The same limiter without the pause has the available tokens at the end.
    #[test]
    fn pause_for_under_each_algorithm_leaves_at_most_one_token_of_what_there_is(
        algorithm in prop::sample::select(Algorithm::all()),
        count in 5..11_u64,
        steps in prop::collection::vec((0..3_u64, 0..3000_u64), 0..8),
        pause in 1..4000_u64,
    ) {
        let clock = Clock::manual();
        clock.advance(secs(60));
        let quota = Quota::per_second(count).burst(count);
        let [paused, other] =
            [(); 2].map(|()| RateLimiter::new(quota).algorithm(algorithm).clock(&clock));
        for (step, number) in steps {
            let cost = 1 + number % 3;
            match step {
                0 => clock.advance(ms(number)),
                1 => {
                    let admitted = paused.try_acquire_many(cost).is_ok();
                    prop_assert_eq!(admitted, other.try_acquire_many(cost).is_ok());
                }
                _ => {
                    paused.charge(cost);
                    other.charge(cost);
                }
            }
        }
        paused.pause_for(ms(pause));
        clock.advance(ms(pause));
        prop_assert_eq!(paused.snapshot().available, other.snapshot().available.min(1));
        prop_assert_eq!(paused.peek().retry_after, other.peek().retry_after);
    }
}
