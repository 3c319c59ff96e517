//! What is written out decides as the whole rule does.

use proptest::prelude::*;

use super::engine::{Engine, Kind, Told};
use crate::support::cases::cases;

#[derive(Clone, Debug)]
enum Step {
    Take(Vec<u64>),
    Charge(u64),
    /// Of the charge before so many others.
    Give(usize),
    Later(u64),
    /// The server's clock goes back.
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

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(0..=12_u64, 1..4).prop_map(Step::Take),
        1 => (0..=60_u64).prop_map(|n| Step::Take(vec![n, 1])),
        2 => prop_oneof![4 => 0..=60_u64, 1 => 40_000..=60_000_u64].prop_map(Step::Charge),
        4 => (0..4_usize).prop_map(Step::Give),
        6 => prop_oneof![0..=60_u64, 0..=10_000_000_u64].prop_map(Step::Later),
        1 => (0..=1_000_u64).prop_map(Step::Earlier),
        1 => told().prop_map(Step::Rule),
    ]
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn it_answers_and_leaves_behind_the_same(
        first in told(),
        begin in prop_oneof![Just(10_000_000_000_u64), Just(1_795_312_618_000_007)],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (mut told, mut now) = (first, begin);
        let mut engine = Engine::new(now);
        let mut charges = Vec::<(u64, [u64; 3])>::new();
        for step in steps {
            match step {
                Step::Take(costs) => {
                    let answer = engine.call(told, "take", &costs);
                    prop_assert_eq!(answer, engine.call_whole(told, "take", &costs));
                    if answer.done == 1 {
                        let [position, made] = answer.ticket;
                        charges.push((costs[0], [position, made, now]));
                    }
                }
                Step::Charge(n) => {
                    let answer = engine.call(told, "charge", &[n]);
                    prop_assert_eq!(answer, engine.call_whole(told, "charge", &[n]));
                    let [position, made] = answer.ticket;
                    charges.push((n, [position, made, now]));
                }
                Step::Give(back) => {
                    let Some(which) = charges.len().checked_sub(back + 1) else {
                        continue;
                    };
                    let (n, [position, made, at]) = charges.remove(which);
                    let ticket = [n, position, made, at];
                    let answer = engine.call(told, "give", &ticket);
                    let whole = engine.call_whole(told, "give", &ticket);
                    prop_assert_eq!(answer, whole);
                }
                Step::Later(by) => now += by,
                Step::Earlier(by) => now -= by,
                Step::Rule(other) => told = other,
            }
            engine.set(now);
            let answer = engine.call(told, "peek", &[1]);
            prop_assert_eq!(answer, engine.call_whole(told, "peek", &[1]));
        }
    }
}
