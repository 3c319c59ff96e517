//! Tests refunds in any order: never more than if the charge had not been made, and for a debt no less while
//! time has paid nothing off.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::engine::{Engine, Kind, Told};
use crate::support::cases;

const BEGIN: u64 = 1_700_000_000_000_000;

/// Positions of debts wrap after this many tokens.
const POSITIONS: u64 = 1 << 46;

fn told(period: u64, step: bool) -> Told {
    Told {
        kind: Kind::Debt,
        count: 7,
        period,
        burst: 1_000,
        step,
    }
}

/// A charge, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Charge {
    n: u64,
    /// The moment of the charge in real time, and by the clock of the server.
    at: u64,
    clock: u64,
    ticket: [u64; 2],
    refunded: bool,
}

impl Charge {
    fn refund(&mut self, engine: &mut Engine, told: Told) -> u64 {
        self.refunded = true;
        let [position, made] = self.ticket;
        let ticket = [self.n, position, made, self.clock];
        engine.call(told, "give", &ticket).done
    }
}

/// Returns the debt, in units, that there would be if the refunded charges had not been made.
fn owed(told: Told, charges: &[Charge], now: u64) -> u64 {
    let unit = if told.step { 1 } else { told.period };
    let time = |at: u64| if told.step { at / told.period } else { at };
    let (mut debt, mut last) = (0_u64, BEGIN);
    for charge in charges.iter().filter(|charge| !charge.refunded) {
        debt = debt.saturating_sub((time(charge.at) - time(last)) * told.count) + charge.n * unit;
        last = charge.at;
    }
    debt.saturating_sub((time(now) - time(last)) * told.count)
}

fn free(told: Told, owed: u64) -> u64 {
    let unit = if told.step { 1 } else { told.period };
    (told.burst * unit).saturating_sub(owed) / unit
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn give_in_any_order_refunds_never_too_much_and_all_that_is_not_paid_off(
        step in any::<bool>(),
        is_frozen in any::<bool>(),
        steps in prop::collection::vec((0..60_u64, 1..9_u64, any::<prop::sample::Index>(), 0..4_u8), 1..60),
    ) {
        let told = told(if is_frozen { 1 << 40 } else { 40 }, step);
        let mut now = BEGIN.next_multiple_of(told.period);
        let (mut engine, mut back) = (Engine::new(now), 0);
        let mut charges = Vec::<Charge>::new();
        for (pass, n, index, what) in steps {
            if !is_frozen {
                now += pass;
                engine.set(now - back);
            }
            if what == 1 && !is_frozen && !step {
                // The clock is set back, and no time passes.
                back += pass * n;
                engine.set(now - back);
            }
            if what == 0 && !charges.is_empty() {
                let charge = index.get_mut(&mut charges);
                if !charge.refunded {
                    let given = charge.refund(&mut engine, told);
                    prop_assert!(!is_frozen || given == charge.n);
                }
            } else {
                let [position, made] = engine.call(told, "charge", &[n]).ticket;
                // Some are refunded in two parts.
                let last = if what == 3 { n / 2 } else { 0 };
                for (n, after) in [(n - last, last), (last, 0)].into_iter().filter(|(n, _)| *n > 0) {
                    let ticket = [position.wrapping_sub(after) % POSITIONS, made];
                    charges.push(Charge { n, at: now, clock: now - back, ticket, refunded: false });
                }
            }
            let answer = engine.call(told, "peek", &[1]);
            let most = free(told, owed(told, &charges, now));
            prop_assert!(answer.free <= most, "{} of {}", answer.free, most);
            prop_assert!(!is_frozen || answer.free == most, "{} of {}", answer.free, most);
        }
    }
}

/// A window, and half of it at a time.
const WINDOW: Told = Told {
    kind: Kind::Window,
    count: 100,
    period: 1_000,
    burst: 100,
    step: true,
};

proptest! {
    #![proptest_config(cases(200))]

    /// Holds also if the server's clock is set back, by any time.
    #[test]
    fn give_in_a_window_refunds_never_too_much(
        steps in prop::collection::vec((-20_000..3_000_i64, 0..60_u64, any::<bool>()), 1..12),
        setbacks in 0..3_usize,
        late in 0..3_000_u64,
    ) {
        let mut now = BEGIN;
        let mut left = setbacks;
        // The time, the charge at that time, and whether it is refunded at the end.
        let mut charges = Vec::new();
        for (pass, n, refunded) in steps {
            let goes_back = pass < 0 && left > 0;
            left -= usize::from(goes_back);
            let pass = if goes_back { pass } else { pass.rem_euclid(3_000) };
            now = now.strict_add_signed(pass);
            charges.push((now, n, refunded));
        }
        let free_after = |with_refunded: bool| {
            let mut engine = Engine::new(BEGIN);
            let mut given = Vec::new();
            for (at, n, refunded) in &charges {
                engine.set(*at);
                // A call notices that the clock was set back.
                engine.call(WINDOW, "peek", &[0]);
                if with_refunded || !refunded {
                    let [position, made] = engine.call(WINDOW, "charge", &[*n]).ticket;
                    if *refunded {
                        given.push([*n, position, made, *at]);
                    }
                }
            }
            engine.set(now + late);
            engine.call(WINDOW, "peek", &[0]);
            for ticket in given {
                engine.call(WINDOW, "give", &ticket);
            }
            let halves = (0..8).map(|half| {
                engine.set(now + late + half * WINDOW.period / 2);
                engine.call(WINDOW, "peek", &[1]).free
            });
            halves.collect::<Vec<_>>()
        };
        let (with, without) = (free_after(true), free_after(false));
        let is_least = with.iter().zip(&without).all(|(one, other)| one <= other);
        prop_assert!(is_least, "{:?} of {:?}", with, without);
    }
}

#[test]
fn give_in_a_window_after_a_large_setback_refunds_nothing() {
    let mut engine = Engine::new(BEGIN);
    let [position, made] = engine.call(WINDOW, "take", &[60]).ticket;
    let later = BEGIN + WINDOW.period * 3 / 2;
    engine.set(later);
    assert_eq!(engine.call(WINDOW, "take", &[60]).done, 1);
    let back = later - 10 * WINDOW.period;
    engine.set(back);
    let ticket = [60, position, made, BEGIN];
    assert_eq!(engine.call(WINDOW, "give", &ticket).done, 0);
    for halves in 0..4 {
        engine.set(back + halves * WINDOW.period / 2);
        assert!(engine.call(WINDOW, "peek", &[1]).free <= 40, "{halves}");
    }
}

/// Holds in any order, and with another charge in between.
#[test]
fn give_of_the_parts_of_a_charge_leaves_a_later_charge_alone() {
    // A token is paid off each microsecond.
    let told = told(7, false);
    for last_first in [false, true] {
        let mut engine = Engine::new(BEGIN);
        let [position, made] = engine.call(told, "charge", &[10]).ticket;
        let mut parts = [[4, position - 6, made, BEGIN], [6, position, made, BEGIN]];
        if last_first {
            parts.reverse();
        }
        engine.set(BEGIN + 5);
        let mut given = engine.call(told, "give", &parts[0]).done;
        engine.call(told, "charge", &[4]);
        let answer = engine.call(told, "give", &parts[1]);
        given += answer.done;
        assert_eq!((given, answer.free), (5, told.burst - 4));
    }
}

/// Must be fast, because the server does nothing else meanwhile.
#[test]
fn give_of_many_in_a_log_moves_later_charges_once() {
    let told = Told {
        kind: Kind::Log,
        count: 10,
        period: 1_000,
        burst: 10,
        step: true,
    };
    let mut states = [false, true].map(|in_one_call| {
        let mut engine = Engine::new(BEGIN);
        engine.call(told, "charge", &[10]);
        let tickets: Vec<_> = (0..60)
            .map(|_| engine.call(told, "charge", &[1]).ticket)
            .collect();
        engine.set(BEGIN + 100);
        let given = tickets.iter().step_by(2);
        let given: Vec<_> = given.flat_map(|[c, g]| [1, *c, *g, BEGIN]).collect();
        if in_one_call {
            let added = engine.runs_of("zadd", |engine| {
                assert_eq!(engine.call(told, "give", &given).done, 30);
            });
            // The charges that stay, and the state.
            assert_eq!(added, 31);
        } else {
            for one in given.chunks(4) {
                assert_eq!(engine.call(told, "give", one).done, 1);
            }
        }
        let last = engine.call(told, "peek", &[1]);
        engine.set(BEGIN + 3_500);
        (last, engine.call(told, "peek", &[1]))
    });
    let [(one, later), other] = &mut states;
    assert_eq!((*one, *later), *other);
    assert_eq!(one.reset, 3_900);
}

#[test]
fn give_of_an_earlier_charge_after_all_later_ones_refunds_it() {
    for step in [false, true] {
        let told = told(1 << 40, step);
        let mut engine = Engine::new(BEGIN.next_multiple_of(told.period));
        let at = BEGIN.next_multiple_of(told.period);
        let mut charges: Vec<_> = (0..5)
            .map(|_| {
                let ticket = engine.call(told, "charge", &[1]).ticket;
                Charge {
                    n: 1,
                    at,
                    clock: at,
                    ticket,
                    refunded: false,
                }
            })
            .collect();
        for index in [4, 2, 0, 1, 3] {
            assert_eq!(
                charges[index].refund(&mut engine, told),
                1,
                "number {index}"
            );
        }
        assert_eq!(engine.call(told, "peek", &[0]).free, told.burst);
    }
}

// A clock that is set back over the boundary of a step: a step that was paid is not paid again.

const MS: u64 = 1_000;

/// Returns every rule in steps, with 100 in two seconds.
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
        // The window after that is not later.
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
            // Starts just before a boundary, which is crossed at once.
            let boundary = BEGIN - number * 10 * told.period;
            for now in [boundary - 1, boundary, boundary + 40 * MS] {
                engine.set(now);
                assert_eq!(take_all(&mut engine, told), 0, "{name}");
            }
        }
        // No caller stalls: two periods later there are more tokens.
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

/// When a key expires, the server forgets which step was paid.
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
    /// Time passes, and the clock advances with it.
    Pass(u64),
    /// The clock is set back; no time passes.
    Back(u64),
    Take(u64),
    /// Waits for the time that the server returned.
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
                    // The debt is at most the burst, so at most two more steps are needed.
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
