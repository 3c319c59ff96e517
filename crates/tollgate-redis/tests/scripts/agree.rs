//! Each rule admits, denies, tells times and gives back as that of a limiter in the process.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::Charge;
use tollgate::{Algorithm, Clock, ManualClock, Quota, RateLimiter};

use super::engine::{Engine, Kind, Told};
use crate::support::cases::cases;

/// Where the clock begins: like that of a server, but whole periods since the epoch of both.
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
                // So that a part is whole.
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

/// As the quota was before a rule made something else of it.
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
        // The clock of the other begins at zero: let windows begin at the same time.
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
                assert_eq!(answer.wait, micros(self.limiter.peek_many(n).retry_after));
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

    /// What a charge is known by that was made now, and followed by others in the same call.
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

/// Rounded up.
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
