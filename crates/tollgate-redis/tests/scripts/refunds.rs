//! Refunds of a debt in any order: never more than if the charge had not been made, and no less while
//! time has paid nothing off.

use proptest::prelude::*;

use super::engine::{Engine, Kind, Told};
use crate::support::cases::cases;

const BEGIN: u64 = 1_700_000_000_000_000;

fn told(period: u64, step: bool) -> Told {
    Told {
        kind: Kind::Debt,
        count: 7,
        period,
        burst: 1_000,
        step,
    }
}

/// A charge that was made.
#[derive(Clone, Copy, Debug)]
struct Charge {
    n: u64,
    /// In real time, and by the clock of the server.
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

/// What would be owed, in units, had the refunded charges not been made.
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
                // The clock goes back, and no time passes.
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
                let ticket = engine.call(told, "charge", &[n]).ticket;
                charges.push(Charge { n, at: now, clock: now - back, ticket, refunded: false });
            }
            let answer = engine.call(told, "peek", &[1]);
            let most = free(told, owed(told, &charges, now));
            prop_assert!(answer.free <= most, "{} of {}", answer.free, most);
            prop_assert!(!is_frozen || answer.free == most, "{} of {}", answer.free, most);
        }
    }
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
