//! Charges that are held until it is known what was used: by examples, and beside a ledger of what was
//! used ([`ledger`]).

mod ledger;

use std::time::Duration;

use tollgate::{Algorithm, ErrorKind, Hold, Oversize, Quota, RateLimiter};

use crate::setup::{TICK, assert_due, assert_limited, limiter, ms, secs};
use crate::support::{Waiter, kind};

/// One each millisecond, and up to a thousand at once.
const THOUSAND: Quota = Quota::per_second(1000).burst(1000);

const ALL: [Algorithm; 5] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

fn of(algorithm: Algorithm) -> (tollgate::ManualClock, RateLimiter) {
    let (clock, limiter) = limiter(THOUSAND);
    (clock, limiter.algorithm(algorithm))
}

#[test]
fn hold_is_not_paid_off_by_time() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
        clock.advance(secs(3600));
        assert_eq!(hold.cost(), 600);
        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.in_use, snapshot.available), (600, 400));
        limiter.try_acquire_many(400).unwrap();
        assert_eq!(
            kind(limiter.try_acquire()),
            ErrorKind::RateLimited,
            "{algorithm}"
        );
    }
}

#[test]
fn settle_for_nothing_gives_all_back_however_late() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
        clock.advance(secs(60));
        hold.settle(0);
        assert_eq!(limiter.snapshot().available, 1000, "{algorithm}");
        limiter.try_acquire_many(1000).unwrap();
    }
}

/// The trial that began this: of 500 that were charged in excess, a settlement gave back 300 after 0.3 s,
/// and none after 0.7 s.
#[test]
fn settle_gives_the_excess_back_as_if_it_had_never_been_charged() {
    for after in [ms(300), ms(700), secs(2)] {
        let (clock, limiter) = of(Algorithm::Gcra);
        // All that time, somebody takes whatever there is.
        let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
        clock.advance(after);
        assert_limited(&limiter, 1, Duration::MAX);
        hold.settle(500);
        let paid = u64::try_from(after.as_millis()).unwrap();
        assert_eq!(limiter.snapshot().available, (500 + paid).min(1000));
    }
}

#[test]
fn settle_charges_what_was_used_as_of_the_beginning() {
    // By the log: it is paid off a period after the beginning, not after the settlement.
    let (clock, limiter) = of(Algorithm::SlidingLog);
    let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
    clock.advance(ms(400));
    hold.settle(700);
    assert_eq!(limiter.snapshot().available, 300);
    clock.advance(ms(600) - TICK);
    assert_eq!(limiter.snapshot().available, 300);
    clock.advance(TICK);
    assert_eq!(limiter.snapshot().available, 1000);

    // By windows: it belongs to that in which it began.
    for (algorithm, available) in [
        (Algorithm::FixedWindow, 1000),
        (Algorithm::SlidingWindow, 650),
    ] {
        let (clock, limiter) = of(algorithm);
        clock.advance(ms(900));
        let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
        clock.advance(ms(600));
        hold.settle(700);
        assert_eq!(limiter.snapshot().available, available, "{algorithm}");
    }
}

/// What was used pays for the time in which nothing was owed, and delays what was charged since by no more
/// than the rest.
#[test]
fn settle_of_a_limiter_that_was_idle_meanwhile_costs_only_what_time_did_not_pay() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(500).unwrap());
    clock.advance(ms(200));
    // 200 tokens of time were idle.
    limiter.try_acquire_many(400).unwrap();
    hold.settle(300);
    assert_eq!(limiter.snapshot().available, 1000 - 400 - 100);
}

#[test]
fn settle_for_far_more_than_the_limit_is_owed_like_a_charge_at_the_beginning() {
    for algorithm in ALL {
        for after in [
            0, 500, 999, 1000, 1500, 1999, 2000, 2500, 3000, 4900, 5000, 7000,
        ] {
            let owed = |spend: fn(&RateLimiter) -> Option<Hold>| {
                let (clock, limiter) = of(algorithm);
                let hold = spend(&limiter);
                clock.advance(ms(after));
                if let Some(hold) = hold {
                    hold.settle(5000);
                }
                (limiter.snapshot().in_use, limiter.peek().retry_after)
            };
            let charged = owed(|limiter| {
                limiter.charge(5000);
                None
            });
            let settled =
                owed(|limiter| Some(limiter.hold(limiter.try_acquire_many(500).unwrap())));
            assert_eq!(settled, charged, "{algorithm} after {after} ms");
        }
    }
}

#[test]
fn settle_for_more_than_is_held_charges_it_all() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        let hold = limiter.hold(limiter.try_acquire_many(100).unwrap());
        hold.settle(1500);
        assert_eq!(limiter.snapshot().available, 0, "{algorithm}");
        assert_eq!(limiter.snapshot().in_use, 1500, "{algorithm}");
    }
}

#[test]
fn drop_of_a_hold_settles_it_for_its_whole_cost() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        drop(limiter.hold(limiter.try_acquire_many(600).unwrap()));
        assert_eq!(limiter.snapshot().available, 400, "{algorithm}");
    }
    let (clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    clock.advance(ms(500));
    drop(hold);
    assert_eq!(limiter.snapshot().available, 900);
}

#[test]
fn waiter_that_does_not_fit_beside_a_hold_is_admitted_by_the_settlement() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        let hold = limiter.hold(limiter.try_acquire_many(900).unwrap());
        let mut large = Waiter::parked(limiter.acquire_many(200));
        let mut small = Waiter::parked(limiter.acquire_many(50));
        clock.advance(secs(3600));
        assert!(large.is_pending() && small.is_pending());
        assert_eq!(limiter.peek().retry_after, Duration::MAX);
        clock.advance(ms(5));
        hold.settle(800);
        assert_eq!((large.wakes(), small.wakes()), (1, 1), "{algorithm}");
        assert_eq!(large.granted().at(), clock.now());
        assert_eq!(small.granted().at(), clock.now());
    }
}

/// Time pays off the other charges, so a call that fits beside the hold is due by the clock.
#[test]
fn waiter_that_fits_beside_a_hold_is_due_when_the_charges_are_paid_off() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let _hold = limiter.hold(limiter.try_acquire_many(500).unwrap());
    limiter.try_acquire_many(500).unwrap();
    assert_limited(&limiter, 200, ms(200));
    let mut waiter = Waiter::parked(limiter.acquire_many(200));
    assert_due(&clock, &mut waiter, ms(200));
}

#[test]
fn wait_with_a_timeout_is_not_refused_if_a_settlement_can_come_in_time() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
    let mut waiter = Waiter::parked(limiter.acquire_many(100).timeout(secs(1)));
    clock.advance(ms(500));
    assert!(waiter.is_pending());
    hold.settle(1000);
    waiter.granted();

    // Charges are paid off by time alone.
    limiter.charge(5000);
    let mut refused = Waiter::new(limiter.acquire().timeout(secs(1)));
    assert_eq!(refused.refused(), ErrorKind::TimedOut);
    let _hold = limiter.hold(limiter.charge(0));
    let mut refused = Waiter::new(limiter.acquire().timeout(secs(1)));
    assert_eq!(refused.refused(), ErrorKind::TimedOut);
}

#[test]
fn settle_after_a_new_quota_or_a_pause_charges_as_of_now() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    clock.advance(ms(500));
    limiter.set_quota(Quota::per_second(1000).burst(800));
    assert_eq!(limiter.snapshot().available, 200);
    hold.settle(600);
    assert_eq!(limiter.snapshot().available, 200);

    let (clock, limiter) = of(Algorithm::SlidingLog);
    clock.advance(secs(10));
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    limiter.pause_for(secs(10));
    clock.advance(secs(10));
    // The pause has spent the burst as well.
    assert_eq!(limiter.snapshot().available, 0);
    hold.settle(0);
    assert_eq!(limiter.snapshot().available, 1);
}

#[test]
fn hold_of_a_limiter_whose_burst_was_lowered_admits_nothing_until_it_is_settled() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    limiter.set_quota(Quota::per_second(1000).burst(100));
    clock.advance(secs(60));
    assert_limited(&limiter, 1, Duration::MAX);
    hold.settle(0);
    assert_eq!(limiter.snapshot().available, 100);
}

#[test]
fn hold_of_an_overdraft_delays_a_call_until_it_is_settled() {
    let (clock, limiter) = limiter(THOUSAND);
    let limiter = limiter.oversize(Oversize::Overdraft);
    let hold = limiter.hold(limiter.try_acquire_many(5000).unwrap());
    let mut waiter = Waiter::parked(limiter.acquire_many(3000));
    clock.advance(secs(60));
    assert!(waiter.is_pending());
    hold.settle(5000);
    waiter.granted();
}

#[test]
fn hold_of_a_charge_that_time_has_paid_off_in_part_holds_all_of_it() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let charge = limiter.try_acquire_many(600).unwrap();
    clock.advance(ms(100));
    let hold = limiter.hold(charge);
    assert_eq!(limiter.snapshot().available, 400);
    hold.settle(0);
    assert_eq!(limiter.snapshot().available, 1000);
}

#[test]
fn hold_of_a_charge_of_another_limiter_is_held_beside_its_own() {
    let (_clock, other) = limiter(THOUSAND);
    let (_clock, limiter) = of(Algorithm::Gcra);
    limiter.try_acquire_many(100).unwrap();
    let hold = limiter.hold(other.try_acquire_many(200).unwrap());
    assert_eq!(limiter.snapshot().available, 700);
    hold.settle(0);
    assert_eq!(limiter.snapshot().available, 900);
}

#[test]
fn hold_without_a_limit_holds_nobody_up() {
    let (clock, limiter) = limiter(Quota::UNLIMITED);
    let holds: Vec<_> = (0..3)
        .map(|_| limiter.hold(limiter.try_acquire_many(u64::MAX / 2).unwrap()))
        .collect();
    clock.advance(ms(1));
    for hold in holds {
        hold.settle(u64::MAX);
    }
    limiter.try_acquire_many(1000).unwrap();
}

/// What is held is added up without a bound, and what is charged saturates.
#[test]
fn holds_of_the_largest_costs_add_up_and_come_back() {
    for algorithm in ALL {
        let (clock, limiter) = of(algorithm);
        let holds: Vec<_> = (0..5)
            .map(|_| limiter.hold(limiter.charge(u64::MAX)))
            .collect();
        assert_limited(&limiter, 1, Duration::MAX);
        for hold in holds {
            hold.settle(0);
        }
        clock.advance(secs(2));
        assert_eq!(limiter.snapshot().available, 1000, "{algorithm}");
        limiter.hold(limiter.charge(1)).settle(u64::MAX);
        assert_limited(&limiter, 1, Duration::MAX);
    }
}

#[test]
fn settle_and_drop_of_a_closed_limiter_do_nothing_harmful() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    limiter.close();
    hold.settle(100);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
    let (_clock, limiter) = of(Algorithm::Gcra);
    let hold = limiter.hold(limiter.try_acquire_many(600).unwrap());
    // It keeps what it needs.
    drop(limiter);
    drop(hold);
}

#[test]
fn refund_of_a_charge_beside_a_hold_gives_it_back() {
    for algorithm in ALL {
        let (_clock, limiter) = of(algorithm);
        let before = limiter.try_acquire_many(100).unwrap();
        let hold = limiter.hold(limiter.try_acquire_many(200).unwrap());
        let after = limiter.try_acquire_many(300).unwrap();
        limiter.refund(before);
        assert_eq!(limiter.snapshot().available, 500, "{algorithm}");
        limiter.refund(after);
        assert_eq!(limiter.snapshot().available, 800, "{algorithm}");
        hold.settle(50);
        assert_eq!(limiter.snapshot().available, 950, "{algorithm}");
    }
}
