//! A clock that goes back over the boundary of a step: what was paid for it is not paid again.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::engine::{Engine, Kind, Told};
use crate::support::cases::cases;

const BEGIN: u64 = 1_700_000_000_000_000;

const MS: u64 = 1_000;

/// Every rule in steps: 100 in two seconds.
fn rules() -> [(&'static str, Told); 3] {
    let told = |kind, burst, step| Told {
        kind,
        count: 100,
        period: 2_000 * MS,
        burst,
        step,
    };
    [
        ("fixed window", told(Kind::Debt, 100, true)),
        ("token bucket", told(Kind::Debt, 150, true)),
        ("sliding window", told(Kind::Window, 100, true)),
    ]
}

fn take_all(engine: &mut Engine, told: Told) -> u64 {
    engine.call(told, "upto", &[told.burst]).done
}

#[test]
fn upto_after_small_steps_back_over_a_boundary_mints_nothing() {
    for (name, told) in rules() {
        let mut engine = Engine::new(BEGIN);
        assert_eq!(BEGIN % told.period, 0);
        assert_eq!(take_all(&mut engine, told), told.burst, "{name}");
        // Into the next window, once and for all.
        let (after, before) = (BEGIN + told.period + 20 * MS, BEGIN + told.period - 40 * MS);
        engine.set(after);
        take_all(&mut engine, told);
        for _ in 0..7 {
            for now in [before, after] {
                engine.set(now);
                assert_eq!(take_all(&mut engine, told), 0, "{name}");
            }
        }
        // The window after that is not any later.
        engine.set(BEGIN + 2 * told.period - 1);
        engine.set(BEGIN + 2 * told.period + told.period / 2);
        assert!(take_all(&mut engine, told) >= told.count / 2, "{name}");
    }
}

#[test]
fn upto_after_large_steps_back_to_a_boundary_mints_nothing() {
    for (name, told) in rules() {
        let mut engine = Engine::new(BEGIN);
        take_all(&mut engine, told);
        for number in 1..=7 {
            // Just before a boundary, which is crossed at once.
            let boundary = BEGIN - number * 10 * told.period;
            for now in [boundary - 1, boundary, boundary + 40 * MS] {
                engine.set(now);
                assert_eq!(take_all(&mut engine, told), 0, "{name}");
            }
        }
        // And nobody stalls: two periods later there is more.
        let now = BEGIN - 70 * told.period + 40 * MS;
        engine.set(now + 2 * told.period);
        assert!(take_all(&mut engine, told) > 0, "{name}");
    }
}

#[test]
fn give_of_all_leaves_the_paid_step_behind() {
    for (name, told) in rules() {
        let mut engine = Engine::new(BEGIN);
        let boundary = BEGIN + told.period;
        engine.set(boundary - 40 * MS);
        take_all(&mut engine, told);
        engine.set(boundary + 20 * MS);
        let charge = engine.call(told, "upto", &[told.burst]);
        let [position, made] = charge.ticket;
        let ticket = [charge.done, position, made, boundary + 20 * MS];
        let given = engine.call(told, "give", &ticket);
        assert_eq!(given.done, charge.done);
        engine.set(boundary - 40 * MS);
        let first = take_all(&mut engine, told);
        engine.set(boundary + 20 * MS);
        let second = take_all(&mut engine, told);
        assert!(first + second <= charge.done, "{name}: {first}, {second}");
    }
}

/// A key that is gone has forgotten which step was paid.
#[test]
fn key_in_steps_is_kept_for_a_period_after_all_is_paid() {
    let (_, told) = rules()[0];
    let mut engine = Engine::new(BEGIN);
    for after in [0, 1_000 * MS, 1_999 * MS] {
        engine.set(BEGIN + after);
        engine.call(told, "charge", &[1]);
        let reset = engine.call(told, "peek", &[1]).reset;
        assert_eq!(reset, told.period - after);
        assert!(engine.time_to_live().unwrap() * MS >= reset + told.period);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Time passes, and the clock with it.
    Pass(u64),
    /// The clock goes back; no time passes.
    Back(u64),
    Take(u64),
    /// Waits for as long as the server says.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_500_u64).prop_map(Step::Pass),
        2 => (1..120_u64).prop_map(Step::Back),
        1 => prop_oneof![1_000..5_000_u64, Just(3_600_000)].prop_map(Step::Back),
        6 => prop_oneof![1..=100_u64, Just(100)].prop_map(Step::Take),
        2 => (1..=100_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn steps_back_mint_nothing_and_do_not_stall(
        which in 0..3_usize,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let (name, told) = rules()[which];
        // In half-open windows of one period of real time there is at most one boundary.
        let bound = match told.kind {
            Kind::Debt => told.burst + told.count,
            _ => 2 * told.count - 1,
        };
        let (mut clock, mut real) = (BEGIN, 0);
        let mut engine = Engine::new(clock);
        let mut admitted = VecDeque::<(u64, u64)>::new();
        for step in steps {
            let (pass, n) = match step {
                Step::Pass(millis) => (millis * MS, 0),
                Step::Back(millis) => {
                    clock -= millis * MS;
                    (0, 0)
                }
                Step::Take(n) => (0, n),
                Step::Wait(n) => {
                    let wait = engine.call(told, "peek", &[n]).wait;
                    // The debt is at most the burst, so at most two steps are missing.
                    prop_assert!(wait <= 3 * told.period, "{}: {} µs for {}", name, wait, n);
                    (wait, n)
                }
            };
            clock += pass;
            real += pass;
            engine.set(clock);
            if n == 0 {
                continue;
            }
            let done = engine.call(told, "take", &[n]).done == 1;
            prop_assert!(done || !matches!(step, Step::Wait(_)), "{}: {} too early", name, n);
            if done {
                admitted.push_back((real, n));
            }
            while admitted.front().is_some_and(|(at, _)| at + told.period <= real) {
                admitted.pop_front();
            }
            let sum: u64 = admitted.iter().map(|(_, n)| n).sum();
            prop_assert!(sum <= bound, "{}: {} in a period", name, sum);
        }
    }
}
