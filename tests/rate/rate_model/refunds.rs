//! What may be given back: never more than was owed without a break since the charge, so that
//! nobody was, or will be, admitted on the strength of it twice.

use std::time::Duration;

use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tollgate::{Charge, Clock, Quota, RateLimiter};

use super::rule::Rule;
use super::schedule::Schedule;
use crate::support::cases::cases;

#[derive(Clone, Debug)]
enum Step {
    Try(u64),
    Charge(u64),
    Advance(u64),
    /// Of one of the charges; so much of its cost, in quarters.
    Refund(Index, u64),
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..60_u64).prop_map(Step::Try),
        1 => (1..60_u64).prop_map(Step::Charge),
        2 => (0..40_u64).prop_map(Step::Advance),
        1 => (0..2000_u64).prop_map(Step::Advance),
        5 => (any::<Index>(), 1..=4_u64).prop_map(|(which, part)| Step::Refund(which, part)),
    ];
    prop::collection::vec(step, 1..most)
}

/// What was owed just before and just after each step, as it was then.
struct Trajectory(Vec<u64>);

impl Trajectory {
    /// The least that was owed since a step.
    fn least_since(&self, step: usize) -> u64 {
        *self.0[step..].iter().min().expect("there was a step")
    }
}

/// One unit is one token is one nanosecond, so that what is owed can be seen.
struct Ledger {
    clock: tollgate::ManualClock,
    limiter: RateLimiter,
    /// What was really kept.
    kept: Vec<(u64, u64, bool)>,
    /// What should be kept, if every refund was told apart.
    schedule: Schedule,
    charges: Vec<(Charge, usize, usize)>,
    trajectory: Trajectory,
}

const BURST: u64 = 1000;
/// In token nanoseconds; never reached by what these steps charge by force.
const HEADROOM: u64 = 1_000_000;

impl Ledger {
    fn new() -> Self {
        let clock = Clock::manual();
        let quota = Quota::new(1, Duration::from_nanos(1)).burst(BURST);
        Self {
            limiter: RateLimiter::new(quota).clock(&clock),
            clock,
            kept: Vec::new(),
            schedule: Schedule::new(Rule::of(quota)),
            charges: Vec::new(),
            trajectory: Trajectory(Vec::new()),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// Seen from outside: how long until the whole burst fits.
    fn owed(&self) -> u64 {
        let after = self.limiter.peek_many(BURST).retry_after;
        let owed = u64::try_from(after.as_nanos()).expect("some nanoseconds");
        assert!(owed < HEADROOM);
        owed
    }

    /// What would be owed if only what was kept had ever been charged.
    fn owed_for_kept(&self) -> u64 {
        let end = self.kept.iter().fold(0, |end: u64, (at, units, _)| {
            if *units == 0 {
                return end;
            }
            end.max(*at) + units
        });
        end.saturating_sub(self.now())
    }

    fn took(&mut self, charge: Charge, forced: bool) {
        let (cost, at) = (charge.cost(), charge.at().as_nanos());
        let units = BigInt::from(cost);
        self.schedule.charge(units, at.into(), at, forced);
        self.kept.push((at, cost, forced));
        let number = self.kept.len() - 1;
        self.charges.push((charge, number, self.trajectory.0.len()));
    }

    /// Gives back, and says how much it was, and how much it should have been.
    fn refund(&mut self, which: Index, quarters: u64) -> (u64, u64) {
        if self.charges.is_empty() {
            return (0, 0);
        }
        let (charge, number, since) = self.charges.remove(which.index(self.charges.len()));
        let (cost, before) = (charge.cost(), self.owed());
        self.trajectory.0.push(before);
        let back = (cost * quarters).div_ceil(4);
        self.limiter.settle(charge, cost - back);
        let given = before - self.owed();
        assert!(
            given <= self.trajectory.least_since(since),
            "somebody was admitted on the strength of it"
        );
        let now = self.now();
        let expected = self.schedule.refund(number, &back.into(), now);
        self.kept[number].1 -= given;
        (given, u64::try_from(expected).expect("small"))
    }

    fn step(&mut self, step: &Step) -> (u64, u64) {
        self.trajectory.0.push(self.owed());
        let mut given = (0, 0);
        match *step {
            Step::Try(cost) => {
                if let Ok(charge) = self.limiter.try_acquire_many(cost) {
                    self.trajectory.0.push(self.owed());
                    self.took(charge, false);
                }
            }
            Step::Charge(cost) => {
                let charge = self.limiter.charge(cost);
                self.trajectory.0.push(self.owed());
                self.took(charge, true);
            }
            Step::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Step::Refund(which, quarters) => given = self.refund(which, quarters),
        }
        self.trajectory.0.push(self.owed());
        assert!(self.owed() >= self.owed_for_kept(), "a refund minted");
        given
    }

    /// By what was really kept, from each charge to each that was asked whether it fits.
    fn assert_promise(&self) {
        for first in 0..self.kept.len() {
            let (from, mut total) = (self.kept[first].0, 0);
            for (to, units, forced) in &self.kept[first..] {
                total += units;
                assert!(*forced || total <= BURST + (to - from) + 1);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn a_refund_gives_back_exactly_what_is_not_paid_off(steps in steps(60)) {
        let mut ledger = Ledger::new();
        for step in &steps {
            let (given, expected) = ledger.step(step);
            prop_assert_eq!(given, expected);
            let now = ledger.now();
            prop_assert_eq!(BigInt::from(ledger.owed()), ledger.schedule.owed(now));
            prop_assert!(ledger.schedule.owed(now) >= ledger.schedule.owed_for_kept(now));
        }
        ledger.schedule.assert_promise();
        ledger.assert_promise();
    }
}

/// Beyond some number they are not told apart, and then less is given back, never more. Not many
/// cases: each is long.
#[test]
fn any_number_of_refunds_mints_nothing() {
    let steps = (
        prop::collection::vec(1..4_u64, 1500),
        prop::collection::vec((any::<Index>(), 0..2_u64, 1..=4_u64), 1450),
    );
    let config = ProptestConfig {
        max_shrink_iters: 0,
        ..cases(2)
    };
    let cases = TestRunner::new(config).run(&steps, |(large, order)| {
        let mut ledger = Ledger::new();
        for cost in large {
            ledger.step(&Step::Charge(cost));
        }
        for (which, nanos, quarters) in order {
            ledger.step(&Step::Refund(which, quarters));
            ledger.step(&Step::Advance(nanos));
            ledger.step(&Step::Try(1 + nanos));
        }
        ledger.assert_promise();
        Ok(())
    });
    cases.unwrap();
}

/// As many as are told apart, in an order in which hardly any two are of one stretch; beyond that
/// some of it stays charged, until time has paid it off.
#[test]
fn at_one_tick_all_of_many_charges_is_given_back_in_any_order() {
    for (count, all_of_it) in [(64, true), (1000, true), (4000, false)] {
        let mut ledger = Ledger::new();
        for _ in 0..count {
            ledger.step(&Step::Charge(5));
        }
        assert_eq!(ledger.owed(), 5 * count);
        let all = std::mem::take(&mut ledger.charges).into_iter();
        let (even, odd): (Vec<_>, Vec<_>) = all.partition(|(_, number, _)| number % 2 == 0);
        for (charge, _, _) in even.into_iter().chain(odd) {
            ledger.limiter.refund(charge);
        }
        assert!(ledger.owed() < 5 * count);
        assert_eq!(ledger.owed() == 0, all_of_it, "{}", ledger.owed());
    }
}

#[test]
fn at_one_tick_all_of_any_number_of_charges_is_given_back_in_order() {
    for reversed in [false, true] {
        let mut ledger = Ledger::new();
        for _ in 0..BURST {
            ledger.step(&Step::Try(1));
        }
        let mut all = std::mem::take(&mut ledger.charges);
        if reversed {
            all.reverse();
        }
        for (charge, _, _) in all {
            ledger.limiter.refund(charge);
        }
        assert_eq!(ledger.owed(), 0);
    }
}
