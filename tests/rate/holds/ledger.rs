//! Random charges, holds and settlements beside a ledger: what was used, and when, from which everything
//! that is available is computed anew.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Charge, Clock, Hold, ManualClock, Quota, RateLimiter};

use crate::support::cases::cases;

/// In nanoseconds.
const INTERVAL: u64 = 10;
const LIMIT: u64 = 20;
const PERIOD: u64 = INTERVAL * LIMIT;

/// What was used, in the order of the ticks.
#[derive(Clone, Default)]
struct Ledger(Vec<(u64, u64)>);

impl Ledger {
    fn add(&mut self, tick: u64, cost: u64) {
        let place = self.0.partition_point(|(other, _)| *other <= tick);
        self.0.insert(place, (tick, cost));
    }

    /// How much was used from one tick on, before another one.
    fn between(&self, from: u64, to: u64) -> u64 {
        let within = self.0.iter().filter(|(tick, _)| (from..to).contains(tick));
        within.map(|(_, cost)| cost).sum()
    }

    /// What is missing from the limit at a tick.
    fn backlog(&self, algorithm: Algorithm, now: u64) -> u64 {
        let window = now / PERIOD * PERIOD;
        match algorithm {
            Algorithm::Gcra => {
                let end = |end: u64, (tick, cost): &(u64, u64)| end.max(*tick) + cost * INTERVAL;
                let end = self.0.iter().fold(0, end);
                end.saturating_sub(now).div_ceil(INTERVAL)
            }
            Algorithm::FixedWindow => self.between(window, now + 1),
            Algorithm::SlidingWindow => {
                let before = self.between(window.saturating_sub(PERIOD), window);
                let left = PERIOD - (now - window);
                self.between(window, now + 1) + (before * left).div_ceil(PERIOD)
            }
            _ => self.between((now + 1).saturating_sub(PERIOD), now + 1),
        }
    }

    /// No more than the burst, and what comes in the time, is ever used.
    fn assert_promise(&self, algorithm: Algorithm) {
        for (first, (from, _)) in self.0.iter().enumerate() {
            let mut used = 0;
            for (to, cost) in &self.0[first..] {
                used += cost;
                let time = match algorithm {
                    Algorithm::FixedWindow => (to / PERIOD - from / PERIOD) * PERIOD,
                    _ => to - from,
                };
                assert!(used * INTERVAL <= PERIOD + time, "from {from} to {to}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Advance(u64),
    Try(u64),
    Hold(u64),
    /// Which one, and how much of it was used, in 8ths.
    Settle(prop::sample::Index, u64),
}

/// The rules that keep one number, the end of the backlog.
fn of_a_backlog() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::Gcra), Just(Algorithm::FixedWindow)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>();
    let step = prop_oneof![
        3 => prop_oneof![0..30_u64, 0..2 * PERIOD].prop_map(Step::Advance),
        3 => (1..=LIMIT).prop_map(Step::Try),
        3 => (1..=LIMIT / 2).prop_map(Step::Hold),
        3 => (index, 0..=8_u64).prop_map(|(which, used)| Step::Settle(which, used)),
    ];
    prop::collection::vec(step, 1..60)
}

struct World {
    algorithm: Algorithm,
    clock: ManualClock,
    limiter: RateLimiter,
    /// What was used, by the ticks at which the holds began.
    used: Ledger,
    /// The same, with what was held by the ticks of the settlements.
    late: Ledger,
    holds: Vec<(u64, Hold)>,
}

impl World {
    fn new(algorithm: Algorithm) -> Self {
        let clock = Clock::manual();
        let quota = Quota::new(LIMIT, Duration::from_nanos(PERIOD)).burst(LIMIT);
        Self {
            algorithm,
            limiter: RateLimiter::new(quota).algorithm(algorithm).clock(&clock),
            clock,
            used: Ledger::default(),
            late: Ledger::default(),
            holds: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn available(&self, ledger: &Ledger) -> u64 {
        let held: u64 = self.holds.iter().map(|(_, hold)| hold.cost()).sum();
        LIMIT.saturating_sub(ledger.backlog(self.algorithm, self.now()) + held)
    }

    /// A try is admitted if it fits, as far as the limiter itself says.
    fn try_acquire(&self, cost: u64) -> Option<Charge> {
        let available = self.limiter.snapshot().available;
        let charge = self.limiter.try_acquire_many(cost).ok();
        assert_eq!(charge.is_some(), cost <= available);
        charge
    }

    /// Does a step; `newest` settles the newest hold only.
    fn step(&mut self, step: Step, newest: bool) {
        let now = self.now();
        match step {
            Step::Advance(nanos) => self.clock.advance(Duration::from_nanos(nanos)),
            Step::Try(cost) => {
                if self.try_acquire(cost).is_some() {
                    self.used.add(now, cost);
                    self.late.add(now, cost);
                }
            }
            Step::Hold(cost) => {
                if let Some(charge) = self.try_acquire(cost) {
                    self.holds.push((now, self.limiter.hold(charge)));
                }
            }
            Step::Settle(_, _) if self.holds.is_empty() => {}
            Step::Settle(which, eighths) => {
                let last = self.holds.len() - 1;
                let which = if newest { last } else { which.index(last + 1) };
                let (begun, hold) = self.holds.remove(which);
                let used = hold.cost() * eighths / 8;
                self.used.add(begun, used);
                self.late.add(now, used);
                hold.settle(used);
            }
        }
    }

    /// All that is still held was used.
    fn end(mut self) -> Ledger {
        for (begun, hold) in std::mem::take(&mut self.holds) {
            self.used.add(begun, hold.cost());
        }
        self.used
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Whatever the order is in which they are settled, by rules that count by ticks.
    #[test]
    fn holds_of_ticks_agree_with_the_ledger(
        algorithm in prop_oneof![Just(Algorithm::SlidingWindow), Just(Algorithm::SlidingLog)],
        steps in steps(),
    ) {
        let mut world = World::new(algorithm);
        for step in steps {
            world.step(step, false);
            prop_assert_eq!(world.limiter.snapshot().available, world.available(&world.used));
        }
    }

    #[test]
    fn holds_of_a_backlog_agree_with_the_ledger_if_the_newest_is_settled_first(
        algorithm in of_a_backlog(),
        steps in steps(),
    ) {
        let mut world = World::new(algorithm);
        for step in steps {
            world.step(step, true);
            prop_assert_eq!(world.limiter.snapshot().available, world.available(&world.used));
        }
    }

    /// No more is available than by the ledger, and no less than if what was used had been charged when
    /// it was settled.
    #[test]
    fn holds_of_a_backlog_that_are_settled_in_any_order_keep_the_promise(
        algorithm in of_a_backlog(),
        steps in steps(),
    ) {
        let mut world = World::new(algorithm);
        for step in steps {
            world.step(step, false);
            let available = world.limiter.snapshot().available;
            prop_assert!(available <= world.available(&world.used));
            prop_assert!(available >= world.available(&world.late));
        }
        world.end().assert_promise(algorithm);
    }
}
