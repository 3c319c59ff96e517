//! Large numbers, and a clock that goes back.

use super::engine::{Engine, Kind, Told};

const BEGIN: u64 = 1_700_000_000_000_000;

/// Ten a second.
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
    // What goes beyond is kept as the most.
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
    // And another rule that keeps a debt.
    assert!(engine.call(ten(Kind::Debt, true), "peek", &[1]).free >= 3);
}
