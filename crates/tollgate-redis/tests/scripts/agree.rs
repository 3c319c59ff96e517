//! Tests that each rule admits, denies, reports times and refunds like that of a limiter in the
//! process.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::Charge;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use super::engine::{Engine, Kind, Told};
use crate::support::cases;

/// The start of the clock: like that of a server, but a whole number of periods since the epoch of
/// both.
const BEGIN: u64 = 1_700_000_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Take(Vec<u64>),
    Peek(u64),
    UpTo(u64),
    Charge(u64),
    GiveFirst,
    GiveLast,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_u64).prop_map(Step::Pass),
        1 => (0..4000_u64).prop_map(Step::Pass),
        4 => prop::collection::vec(1..5_u64, 1..4).prop_map(Step::Take),
        2 => (1..8_u64).prop_map(Step::Peek),
        1 => (1..8_u64).prop_map(Step::UpTo),
        1 => (1..12_u64).prop_map(Step::Charge),
        2 => Just(Step::GiveFirst),
        2 => Just(Step::GiveLast),
    ]
}

fn limits() -> impl Strategy<Value = (Algorithm, Told)> {
    let numbers = (2..12_u64, 12..400_u64, 1..12_u64, 1..4_u32);
    (0..6, numbers).prop_map(|(which, (count, period, burst, parts))| {
        let told = |kind, count, period, burst, step| Told {
            kind,
            count,
            period,
            burst,
            step,
        };
        let parts = u64::from(parts).min(count - 1);
        match which {
            0 => (
                Algorithm::Gcra,
                told(Kind::Debt, count, period, burst, false),
            ),
            1 => {
                let burst = burst.max(2);
                let batch = count.min(burst);
                (
                    Algorithm::TokenBucket,
                    told(Kind::Debt, batch, period, burst, true),
                )
            }
            2 => (
                Algorithm::FixedWindow,
                told(Kind::Debt, count, period, count, true),
            ),
            3 => {
                // Makes each part a whole number.
                let period = period * parts;
                let each = count / (parts + 1);
                (
                    Algorithm::SubInterval {
                        parts: parts as u32,
                    },
                    told(Kind::Debt, each, period / parts, each, true),
                )
            }
            4 => (
                Algorithm::SlidingWindow,
                told(Kind::Window, count, period, count, false),
            ),
            _ => (
                Algorithm::SlidingLog,
                told(Kind::Log, count, period, count, false),
            ),
        }
    })
}

/// Returns the quota from which a rule was derived.
fn quota(algorithm: Algorithm, told: Told) -> Quota {
    let period = |micros| Duration::from_micros(micros);
    match algorithm {
        Algorithm::Gcra | Algorithm::TokenBucket => {
            Quota::new(told.count, period(told.period)).burst(told.burst)
        }
        Algorithm::SubInterval { parts } => {
            let parts = u64::from(parts);
            Quota::new(told.count * (parts + 1), period(told.period * parts))
        }
        _ => Quota::new(told.count, period(told.period)),
    }
}

struct Both {
    engine: Engine,
    told: Told,
    now: u64,
    clock: ManualClock,
    limiter: RateLimiter,
    charges: VecDeque<(Charge, u64, [u64; 3])>,
}

impl Both {
    fn new(algorithm: Algorithm, told: Told) -> Self {
        // The clock of the other limiter begins at zero, so this lets windows begin at the same
        // time.
        let parts = match algorithm {
            Algorithm::SubInterval { parts } => u64::from(parts),
            _ => 1,
        };
        let now = BEGIN.next_multiple_of(told.period * parts);
        let clock = Clock::manual();
        Self {
            engine: Engine::new(now),
            told,
            now,
            limiter: RateLimiter::new(quota(algorithm, told))
                .algorithm(algorithm)
                .clock(&clock),
            clock,
            charges: VecDeque::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(micros) => {
                self.now += micros;
                self.engine.set(self.now);
                self.clock.advance(Duration::from_micros(*micros));
            }
            Step::Take(costs) => self.take(costs),
            Step::Peek(n) => {
                let n = (*n).min(self.told.burst);
                let answer = self.engine.call(self.told, "peek", &[n]);
                let after = self.limiter.peek_many(n).retry_after;
                assert_eq!(answer.wait, micros(after.unwrap()));
                assert_eq!(answer.done, u64::from(answer.wait == 0));
            }
            Step::UpTo(n) => {
                let answer = self.engine.call(self.told, "upto", &[*n]);
                assert_eq!(answer.done, self.limiter.snapshot().available.min(*n));
                if answer.done > 0 {
                    let charge = self.limiter.try_acquire_many(answer.done).unwrap();
                    let ticket = self.ticket(answer.ticket, 0);
                    self.charges.push_back((charge, answer.done, ticket));
                }
            }
            Step::Charge(n) => {
                let answer = self.engine.call(self.told, "charge", &[*n]);
                let charge = self.limiter.charge(*n);
                let ticket = self.ticket(answer.ticket, 0);
                self.charges.push_back((charge, *n, ticket));
            }
            Step::GiveFirst => {
                let first = self.charges.pop_front();
                self.give(first);
            }
            Step::GiveLast => {
                let last = self.charges.pop_back();
                self.give(last);
            }
        }
        let answer = self.engine.call(self.told, "peek", &[1]);
        assert_eq!(answer.free, self.limiter.snapshot().available);
        let reset = self.limiter.peek().reset_after;
        assert_eq!(answer.reset, micros(reset));
        if answer.free < self.told.burst {
            let kept = self.engine.time_to_live().expect("something is owed");
            assert!(kept >= answer.reset / 1000);
        }
    }

    fn take(&mut self, costs: &[u64]) {
        let costs: Vec<u64> = costs.iter().map(|n| (*n).min(self.told.burst)).collect();
        let answer = self.engine.call(self.told, "take", &costs);
        let mut after: u64 = costs[..answer.done as usize].iter().sum();
        for (index, cost) in (0..).zip(&costs) {
            match self.limiter.try_acquire_many(*cost) {
                Ok(charge) => {
                    assert!(index < answer.done);
                    after -= cost;
                    let ticket = self.ticket(answer.ticket, after);
                    self.charges.push_back((charge, *cost, ticket));
                }
                Err(refused) => {
                    assert_eq!(index, answer.done);
                    assert_eq!(answer.wait, micros(refused.retry_after().unwrap()));
                    return;
                }
            }
        }
        assert_eq!((answer.done, answer.wait), (costs.len() as u64, 0));
    }

    /// Returns the identification of a charge that was made now, and was followed by others in the
    /// same call.
    fn ticket(&self, [end, made]: [u64; 2], after: u64) -> [u64; 3] {
        let position = match self.told.kind {
            Kind::Debt | Kind::Log => end - after,
            Kind::Window => end,
        };
        [position, made, self.now]
    }

    fn give(&mut self, charge: Option<(Charge, u64, [u64; 3])>) {
        let Some((charge, cost, [position, made, at])) = charge else {
            return;
        };
        let ticket = [cost, position, made, at];
        self.engine.call(self.told, "give", &ticket);
        self.limiter.refund(charge);
    }
}

/// Returns microseconds, rounded up.
fn micros(duration: Duration) -> u64 {
    duration.as_nanos().div_ceil(1000) as u64
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_script_does_as_the_limiter(
        (algorithm, told) in limits(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut both = Both::new(algorithm, told);
        for step in &steps {
            both.step(step);
        }
    }
}

// The head of a script decides like the whole rule.

#[derive(Clone, Debug)]
enum HeadStep {
    Take(Vec<u64>),
    Charge(u64),
    /// Charges the caller of a detector.
    Caller(u64),
    Reserve(u64, u64),
    /// Asks for turns of these costs and times, for a process that holds turns and may hold more units.
    Turns([u64; 3], Vec<[u64; 2]>),
    /// Refunds the charge before this number of others.
    Give(usize),
    Later(u64),
    /// The server's clock is set back.
    Earlier(u64),
    Rule(Told),
}

fn told() -> impl Strategy<Value = Told> {
    let counts = prop_oneof![1..=20_u64, Just(1_000_000_000)];
    let periods = prop_oneof![1..=50_u64, Just(1_000_000), Just(86_400_000_000)];
    let bursts = prop_oneof![4 => 1..=40_u64, 1 => Just(50_000)];
    (counts, periods, bursts).prop_map(|(count, period, burst)| Told {
        kind: Kind::Debt,
        count,
        period,
        burst,
        step: false,
    })
}

fn head_step() -> impl Strategy<Value = HeadStep> {
    prop_oneof![
        12 => prop::collection::vec(0..=12_u64, 1..4).prop_map(HeadStep::Take),
        1 => (0..=60_u64).prop_map(|n| HeadStep::Take(vec![n, 1])),
        2 => prop_oneof![4 => 0..=60_u64, 1 => 40_000..=60_000_u64].prop_map(HeadStep::Charge),
        2 => prop_oneof![4 => 0..=60_u64, 1 => 40_000..=60_000_u64].prop_map(HeadStep::Caller),
        3 => (0..=12_u64, 0..=200_u64).prop_map(|(n, within)| HeadStep::Reserve(n, within)),
        3 => ([0..4_u64, 0..3, 0..9], prop::collection::vec([1..=9_u64, 0..=300], 1..4))
            .prop_map(|(process, asks)| HeadStep::Turns(process, asks)),
        4 => (0..4_usize).prop_map(HeadStep::Give),
        6 => prop_oneof![0..=60_u64, 0..=10_000_000_u64].prop_map(HeadStep::Later),
        1 => (0..=1_000_u64).prop_map(HeadStep::Earlier),
        1 => told().prop_map(HeadStep::Rule),
    ]
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn it_answers_and_leaves_behind_the_same(
        first in told(),
        begin in prop_oneof![Just(10_000_000_000_u64), Just(1_795_312_618_000_007)],
        steps in prop::collection::vec(head_step(), 1..40),
    ) {
        let (mut told, mut now) = (first, begin);
        let mut engine = Engine::new(now);
        let mut charges = Vec::<(u64, [u64; 3])>::new();
        for step in steps {
            match step {
                HeadStep::Take(costs) => {
                    let answer = engine.call(told, "take", &costs);
                    prop_assert_eq!(answer, engine.call_whole(told, "take", &costs));
                    if answer.done == 1 {
                        let [position, made] = answer.ticket;
                        charges.push((costs[0], [position, made, now]));
                    }
                }
                HeadStep::Charge(n) => {
                    let answer = engine.call(told, "charge", &[n]);
                    prop_assert_eq!(answer, engine.call_whole(told, "charge", &[n]));
                    let [position, made] = answer.ticket;
                    charges.push((n, [position, made, now]));
                }
                HeadStep::Caller(n) => {
                    let wait = engine.charge_caller(told, n);
                    let [position, made] = engine.call_whole(told, "charge", &[n]).ticket;
                    prop_assert_eq!(wait, engine.call_whole(told, "peek", &[0]).wait);
                    charges.push((n, [position, made, now]));
                }
                HeadStep::Reserve(n, within) => {
                    let answer = engine.call(told, "reserve", &[n, within]);
                    prop_assert_eq!(answer, engine.call_whole(told, "reserve", &[n, within]));
                    let [position, made] = answer.ticket;
                    if answer.done == 1 {
                        charges.push((n, [position, made, now + answer.wait]));
                    }
                }
                HeadStep::Turns(process, asks) => {
                    let answer = engine.turns(told, process, &asks);
                    prop_assert_eq!(&answer, &engine.turns_whole(told, process, &asks));
                    for ([n, _], turn) in asks.iter().zip(answer.1) {
                        let charge = |[position, made]: [u64; 2]| (*n, [position, made, now + turn.wait]);
                        charges.extend(turn.ticket.map(charge));
                    }
                }
                HeadStep::Give(back) => {
                    let Some(which) = charges.len().checked_sub(back + 1) else {
                        continue;
                    };
                    let (n, [position, made, at]) = charges.remove(which);
                    let ticket = [n, position, made, at];
                    let answer = engine.call(told, "give", &ticket);
                    let whole = engine.call_whole(told, "give", &ticket);
                    prop_assert_eq!(answer, whole);
                }
                HeadStep::Later(by) => now += by,
                HeadStep::Earlier(by) => now -= by,
                HeadStep::Rule(other) => told = other,
            }
            engine.set(now);
            let answer = engine.call(told, "peek", &[1]);
            prop_assert_eq!(answer, engine.call_whole(told, "peek", &[1]));
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn take_of_several_answers_and_leaves_behind_the_same(
        mut told in [told(), told()],
        steps in prop::collection::vec((head_step(), head_step()), 1..40),
    ) {
        let mut now = BEGIN;
        let mut engine = Engine::new(now);
        for (one, other) in steps {
            for (index, step) in [&one, &other].into_iter().enumerate() {
                match step {
                    HeadStep::Later(by) => now += by,
                    HeadStep::Earlier(by) => now -= by,
                    HeadStep::Rule(rule) => told[index] = *rule,
                    HeadStep::Give(_) => told[index].step = !told[index].step,
                    _ => {}
                }
            }
            engine.set(now);
            let cost = |step: &HeadStep| match step {
                HeadStep::Take(costs) => costs[0],
                HeadStep::Charge(n) => *n,
                _ => 1,
            };
            let takes = [(told[0], cost(&one)), (told[1], cost(&other))];
            let [head, whole] = engine.take_several(&takes);
            prop_assert_eq!(head, whole, "{:?}", takes);
        }
    }
}

/// It did when the decision was made by the head, and a clock that was set back then paid for the time in between.
#[test]
fn take_of_several_with_a_cost_of_zero_does_not_write() {
    let [many, one] = [40, 1].map(|burst| Told {
        kind: Kind::Debt,
        count: 1,
        period: 1_000_000,
        burst,
        step: false,
    });
    let mut engine = Engine::new(BEGIN);
    for (now, cost) in [(BEGIN, 1), (BEGIN + 1, 0), (BEGIN, 0)] {
        engine.set(now);
        let [head, whole] = engine.take_several(&[(many, 1), (one, cost)]);
        assert_eq!(head, whole, "{now}");
    }
}

// Large numbers, and a clock that is set back.

/// Ten per second.
fn ten(kind: Kind, step: bool) -> Told {
    Told {
        kind,
        count: 10,
        period: 1_000_000,
        burst: 10,
        step,
    }
}

#[test]
fn debt_of_the_largest_numbers_is_exact() {
    let most = 1 << 52;
    let period = 1 << 40;
    let told = Told {
        kind: Kind::Debt,
        count: 3,
        period,
        burst: most / period,
        step: false,
    };
    let mut engine = Engine::new(BEGIN);
    let answer = engine.call(told, "upto", &[u64::MAX >> 12]);
    assert_eq!((answer.done, answer.free), (told.burst, 0));
    let answer = engine.call(told, "take", &[1]);
    assert_eq!((answer.done, answer.wait), (0, period.div_ceil(3)));
    engine.set(BEGIN + answer.wait - 1);
    assert_eq!(engine.call(told, "take", &[1]).wait, 1);
    engine.set(BEGIN + answer.wait);
    assert_eq!(engine.call(told, "take", &[1]).done, 1);
    // A debt beyond the maximum is kept as the maximum.
    engine.call(told, "charge", &[told.burst]);
    assert_eq!(engine.call(told, "peek", &[0]).reset, most.div_ceil(3));
}

#[test]
fn debt_after_the_clock_stepped_back_mints_nothing() {
    let rules = [
        (Kind::Debt, false),
        (Kind::Debt, true),
        (Kind::Window, false),
        (Kind::Log, false),
    ];
    for (kind, step) in rules {
        let told = ten(kind, step);
        let mut engine = Engine::new(BEGIN);
        assert_eq!(engine.call(told, "take", &[10]).done, 1);
        let back = BEGIN - 30_000_000;
        engine.set(back);
        let answer = engine.call(told, "take", &[1]);
        assert_eq!((answer.done, answer.free), (0, 0), "{kind:?}");
        // One period more than without that: of a window, one and a tenth.
        assert!(answer.wait <= 2_100_000, "{kind:?}: {}", answer.wait);
        engine.set(back + answer.wait);
        assert_eq!(engine.call(told, "take", &[1]).done, 1, "{kind:?}");
    }
}

#[test]
fn give_of_a_charge_before_the_key_was_lost_is_nothing() {
    for kind in [Kind::Debt, Kind::Window, Kind::Log] {
        let told = ten(kind, false);
        let mut engine = Engine::new(BEGIN);
        let charge = engine.call(told, "take", &[4]);
        drop(engine);
        let mut engine = Engine::new(BEGIN + 1);
        engine.call(told, "take", &[4]);
        let [position, made] = charge.ticket;
        assert_eq!(
            engine.call(told, "give", &[4, position, made, BEGIN]).done,
            0
        );
        assert_eq!(engine.call(told, "peek", &[1]).free, 6, "{kind:?}");
    }
}

#[test]
fn debt_with_another_period_is_kept() {
    let rule = |count, period| Told {
        count,
        period,
        ..ten(Kind::Debt, false)
    };
    let mut engine = Engine::new(BEGIN);
    engine.call(rule(10, 1_000_000), "take", &[6]);
    for (count, period) in [(7, 3), (1, 86_400_000_000), (10, 1_000_000)] {
        let answer = engine.call(rule(count, period), "peek", &[1]);
        assert_eq!(answer.free, 4, "{count} in {period}");
        engine.call(rule(count, period), "charge", &[0]);
    }
    // Does the same for another rule that keeps a debt.
    assert!(engine.call(ten(Kind::Debt, true), "peek", &[1]).free >= 3);
}
