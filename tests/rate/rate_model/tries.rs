//! Tries against the list of all charges.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, ErrorKind, ManualClock, Quota, RateLimiter};

use super::any::{any_pause, cost, quota, rule_and};
use super::charges::Charges;
use super::rule::Rule;
use crate::limiter_world::LAST_TICK;
use crate::limiter_world::amounts::{Cost, Pause};
use crate::support::cases::cases;

/// A limiter, and the list of what it has charged.
struct Pair {
    clock: ManualClock,
    limiter: RateLimiter,
    charges: Charges,
}

impl Pair {
    fn new((algorithm, quota): (Algorithm, Quota)) -> Self {
        let clock = Clock::manual();
        Self {
            limiter: RateLimiter::new(quota).algorithm(algorithm).clock(&clock),
            charges: Charges::new(Rule::by(algorithm, quota)),
            clock,
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn pause(&self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos));
    }

    /// Tries, and compares; says what a denial gave as the time to come again.
    fn try_acquire(&mut self, cost: u64) -> Option<u64> {
        let (now, burst) = (self.now(), self.charges.rule.burst);
        let expected = self.charges.earliest(now, cost);
        let peeked = self.limiter.peek_many(cost).retry_after;
        match self.limiter.try_acquire_many(cost) {
            Ok(charge) => {
                assert_eq!(expected, Some(now));
                assert_eq!((charge.at().as_nanos(), charge.cost()), (now, cost));
                assert_eq!(peeked, Duration::ZERO);
                self.charges.list.push((now, cost));
                let decision = self.limiter.decision(&charge);
                assert_eq!(decision.remaining, self.limiter.available());
                assert_eq!(decision.retry_after, Duration::ZERO);
                None
            }
            Err(error) if cost > burst => {
                assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                assert_eq!(error.capacity(), Some(burst));
                assert_eq!(peeked, Duration::MAX);
                None
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::RateLimited);
                let after = error.retry_after().expect("it knows").as_nanos();
                let Some(expected) = expected else {
                    assert_eq!(error.retry_after(), Some(Duration::MAX));
                    return None;
                };
                assert_eq!(after, u128::from(expected - now));
                assert_eq!(peeked.as_nanos(), after);
                Some(expected - now)
            }
        }
    }

    /// What is left, and when it is all there again.
    fn look(&self) {
        let now = self.now();
        let decision = self.limiter.peek();
        let (left, burst) = (decision.remaining, self.charges.rule.burst);
        assert_eq!((decision.limit, decision.at.as_nanos()), (burst, now));
        assert!(self.charges.fits(now, left));
        assert!(left == burst || !self.charges.fits(now, left + 1));
        if let Some(full) = self.charges.earliest(now, burst) {
            assert_eq!(decision.reset_after, Duration::from_nanos(full - now));
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(Pause, Cost, bool)>> {
    prop::collection::vec((any_pause(), cost(), any::<bool>()), 1..40)
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0),
        2 => 0..=LAST_TICK,
        1 => LAST_TICK - 100..=LAST_TICK + 100,
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn tries_agree_with_a_list_of_all_charges(
        chosen in rule_and(quota()),
        start in start(),
        steps in steps(),
    ) {
        let mut pair = Pair::new(chosen);
        pair.pause(start);
        for (pause, cost, comes_again) in steps {
            let scale = pair.charges.rule.scale();
            pair.pause(pause.of(scale, pair.now()));
            let cost = cost.of(scale);
            pair.look();
            if let Some(after) = pair.try_acquire(cost).filter(|_| comes_again) {
                // One nanosecond earlier is too early, and then it is not.
                pair.pause(after - 1);
                assert_eq!(pair.try_acquire(cost), Some(1));
                pair.pause(1);
                assert_eq!(pair.try_acquire(cost), None);
            }
        }
        pair.look();
        pair.charges.assert_promise();
    }

    #[test]
    fn after_any_idle_time_at_most_the_burst_goes_at_once(
        chosen in rule_and(quota()),
        start in start(),
        spent in cost(),
        idle in any_pause(),
        costs in prop::collection::vec(cost(), 1..20),
    ) {
        let mut pair = Pair::new(chosen);
        let scale = pair.charges.rule.scale();
        pair.pause(start);
        pair.try_acquire(spent.of(scale).min(scale.most));
        pair.pause(idle.of(scale, pair.now()));
        let at_once = |pair: &Pair| {
            let now = pair.now();
            let here = pair.charges.list.iter().filter(|(tick, _)| *tick == now);
            here.map(|(_, cost)| u128::from(*cost)).sum::<u128>()
        };
        for cost in costs {
            pair.try_acquire(cost.of(scale));
        }
        // What is left goes, and then nothing does.
        pair.try_acquire(pair.limiter.available());
        prop_assert_eq!(pair.limiter.available(), 0);
        prop_assert!(at_once(&pair) <= u128::from(scale.most));
        if pair.limiter.try_acquire().is_ok() {
            prop_assert!(false, "one more than the burst");
        }
        pair.charges.assert_promise();
    }
}
