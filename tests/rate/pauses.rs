//! Pauses: nothing is admitted before the end, and then one by one, in the order of the queue.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::scenarios::check;
use crate::setup::{TEN, limiter, ms, secs};

const PAUSES: &str = "
# One goes at the end. In this window everything else is spent; in the next it fades, or the next batch comes.
a pause is followed by one call, and the rest at the rate | gcra sliding-log 10/s burst 10; at 5s | pause 250ms,
    7 x wait, advance 3s, granted 0 5s250ms, granted 0 5s350ms, granted 0 5s450ms, granted 0 5s550ms,
    granted 0 5s650ms, granted 0 5s750ms, granted 0 5s850ms
a pause of a sliding window is followed by one call | sliding-window 10/s; at 5s | pause 250ms, 7 x wait, advance 3s,
    granted 0 5s250ms, granted 0 6s100ms, granted 0 6s200ms, granted 0 6s300ms, granted 0 6s400ms, granted 0 6s500ms,
    granted 0 6s600ms
a pause of a batch is followed by one call, and the next batch | token-bucket fixed-window 10/s burst 10; at 5s |
    pause 250ms, 7 x wait, advance 3s, granted 0 5s250ms, 6 x granted 0 6s
a pause of a part is followed by one call, and the next parts | sub-interval/4 10/s; at 5s | pause 250ms, 7 x wait,
    advance 3s, granted 0 5s250ms, 2 x granted 0 5s500ms, 2 x granted 0 5s750ms, 2 x granted 0 6s
a pause ends at the exact tick, and what was earned since is there | whole 7/s burst 7 | try, pause 3333ms1ns,
    no 1 3333ms1ns, paused 3333ms1ns, left 0, advance 3333ms, no 1 1ns, paused 1ns, left 0, advance 1ns, paused, try,
    no, advance 1min, try 7
a pause ends at the exact tick, in parts | sub-interval/4 7/s | try, pause 3333ms1ns, no 1 3333ms1ns,
    paused 3333ms1ns, left 0, advance 3333ms, no 1 1ns, paused 1ns, left 0, advance 1ns, paused, try, no,
    advance 1min, try
a pause of a log keeps what was forced | sliding-log 4/s; at 200s | try 3, advance 992ms, charge 1000, peek 1 250s,
    pause 95ms, peek 1 250s
# There are no ticks before the epoch, and a limit by the hour must not stop for an hour.
a pause of a log younger than its period spends nothing | sliding-log 10/h; at 1s | try, pause 59s, peek 1 59s,
    advance 59s-1ns, no, advance 1ns, try 9, peek 1 3541s
a pause holds waiters in their order | 100/s burst 50 | try 50, wait, wait 3, wait, pause 1s, wait, reserve 1 1s60ms,
    advance 1s-1ns, pending 0, pending 1, pending 2, pending 3, delay 4 60ms1ns, advance 1ns, granted 0 1s,
    advance 60ms, granted 0 1s30ms, granted 0 1s40ms, granted 0 1s50ms, granted 0 1s60ms
a pause beyond a timeout refuses at once | 10/s | pause 1s, late 1 1s-1ns 1s, waiting 0, enter 0
a pause refuses those for whom there is no place | 10/s; waiters 0 | pause 1s, full 1 1s
a pause of no time is none, and of two the longer one counts | 10/s burst 3 | pause 0s, advance 1s, pause 0s, paused,
    left 3, pause 1s, pause 999ms, paused 1s, pause 1005ms, no 1 1005ms, reset 1205ms, in-use 3, left 0
a pause for ever never ends, but by the close | 10/s | pause never, wait, advance 7300d, pending 0, no 1 never, close,
    refused 0 closed
what was charged before a pause is not given back, and what was forced meanwhile is | 10/s burst 5 | try 5,
    pause 100ms, refund 0, peek 1 100ms, charge 2, peek 1 300ms, refund 0, peek 1 100ms, advance 100ms, try,
    peek 1 100ms
what was forced in a pause is given back by each algorithm | all 10/s burst 10; at 1min | pause 1min, charge 30,
    later 1min, refund 0, peek 1 1min
a pause holds an overdraft | 10/s burst 2; overdraft | pause 1s, no 5 1s100ms

# Another quota during a pause keeps its end. What is forced is scaled in proportion to the bursts, and rounded up.
in proportion: from nine to one | 10/s burst 5 | pause 1s, wait, quota 100/s burst 9, peek 1 1s10ms, advance 1s,
    granted 0 1s, pause 1s, charge 3, quota 10/s, peek 1 1s100ms
in proportion: from one to one | 10/s burst 5 | pause 1s, wait, quota 1/s, peek 1 2s, advance 1s, granted 0 1s,
    pause 1s, charge 3, quota 10/s, peek 1 1s300ms
keep: from nine to one | 10/s burst 5 | pause 1s, wait, keep 100/s burst 9, peek 1 1s10ms, advance 1s, granted 0 1s,
    pause 1s, charge 3, keep 10/s, peek 1 1s300ms
keep: from one to one | 10/s burst 5 | pause 1s, wait, keep 1/s, peek 1 2s, advance 1s, granted 0 1s, pause 1s,
    charge 3, keep 10/s, peek 1 1s300ms
in proportion: the same is owed without a pause | 10/s burst 10 | charge 1010, pause 0s, quota 1/s, peek 1 101s
in proportion: and with one | 10/s burst 10 | charge 1010, pause 1ns, quota 1/s, advance 1ns, peek 1 101s
keep: the same is owed without a pause | 10/s burst 10 | charge 1010, pause 0s, keep 1/s, peek 1 1001s
keep: and with one | 10/s burst 10 | charge 1010, pause 1ns, keep 1/s, advance 1ns, peek 1 1001s
# Calls that were admitted count for a period. The eleventh is free only if what was spent is kept as it is.
in proportion: a log keeps its charges | sliding-log 10/s | advance 10s, try 10, advance 10ms, pause 50ms, quota 11/s,
    advance 50ms, no 1 940ms
in proportion: a log younger than its period does | sliding-log 10/h | advance 10s, try 10, advance 10ms, pause 50ms,
    quota 11/h, advance 50ms, no 1 1h-60ms
keep: a log keeps its charges | sliding-log 10/s | advance 10s, try 10, advance 10ms, pause 50ms, keep 11/s,
    advance 50ms, try, no 1 940ms
keep: a log younger than its period does | sliding-log 10/h | advance 10s, try 10, advance 10ms, pause 50ms, keep 11/h,
    advance 50ms, try, no 1 1h-60ms
";

#[test]
fn pause_for_in_each_row_does_what_the_row_says() {
    check(PAUSES, 0);
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

/// The most obvious limiter: it earns a nanosecond each nanosecond, and a token is `INTERVAL`.
struct Naive {
    earned: u64,
    now: u64,
    paused_until: u64,
}

const INTERVAL: u64 = 100;
const BURST: u64 = 4;

impl Naive {
    fn advance(&mut self, nanos: u64) {
        for _ in 0..nanos {
            self.now += 1;
            self.earned = (self.earned + 1).min(BURST * INTERVAL);
            if self.now == self.paused_until {
                self.earned = self.earned.min(INTERVAL);
            }
        }
    }

    /// Charges, or returns how long it takes.
    fn take(&mut self, cost: u64) -> Option<u64> {
        let pause = self.paused_until.saturating_sub(self.now);
        let earned = match pause {
            0 => self.earned,
            _ => (self.earned + pause).min(INTERVAL),
        };
        let lacking = (cost * INTERVAL).saturating_sub(earned);
        if pause + lacking > 0 {
            return Some(pause + lacking);
        }
        self.earned -= cost * INTERVAL;
        None
    }
}

proptest! {
    #[test]
    fn pause_for_agrees_with_a_naive_limiter(
        steps in prop::collection::vec((0..4_u64, 0..600_u64), 1..60),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(INTERVAL)).burst(BURST);
        let (clock, limiter) = limiter(quota);
        let (earned, now, paused_until) = (BURST * INTERVAL, 0, 0);
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
    /// The same limiter without the pause has what there is at the end.
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
