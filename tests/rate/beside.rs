//! What counts beside the charges, held or of others: in every other feature, and at random.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Charge, Hold, Oversize, Quota};

use crate::follow::{HUNDRED, available, follow, of, take};
use crate::setup::{assert_limited, limiter, ms, secs};
use crate::support::Waiter;
use crate::support::cases::cases;

#[test]
fn acquire_beyond_the_limit_of_a_followed_limiter_is_admitted_when_it_is_due() {
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow,
    ] {
        let (clock, limiter) = of(algorithm);
        let limiter = limiter.oversize(Oversize::Overdraft);
        follow(&limiter, &limiter.try_acquire().unwrap(), 40, secs(60));
        let mut large = Waiter::parked(limiter.acquire_many(150));
        clock.advance(secs(3600));
        assert_eq!(large.wakes(), 1, "{algorithm}");
        large.granted();
    }
}

#[test]
fn follow_of_an_older_answer_that_delays_the_end_keeps_what_is_of_others() {
    let (clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(59));
    let sent = take(&limiter, 3);
    follow(&limiter, &sent[2], 50, secs(59));
    follow(&limiter, &sent[0], 88, secs(61));
    clock.advance(secs(59) - ms(1));
    let before = available(&limiter);
    clock.advance(ms(2));
    assert_eq!(available(&limiter), before);
}

#[test]
fn delay_of_a_reservation_counts_what_is_of_others() {
    let (clock, limiter) = of(Algorithm::SlidingLog);
    follow(&limiter, &limiter.try_acquire().unwrap(), 0, secs(60));
    clock.advance(secs(1));
    let reservation = limiter.reserve().unwrap();
    let mut waits = Waiter::new(reservation);
    assert!(waits.is_pending());
    clock.advance(secs(58));
    assert!(waits.is_pending());
    let (_clock, limiter) = of(Algorithm::SlidingLog);
    follow(&limiter, &limiter.try_acquire().unwrap(), 0, secs(60));
    assert_eq!(limiter.reserve().unwrap().delay(), secs(60));
}

#[test]
fn reserve_with_a_timeout_is_refused_if_others_use_it_for_longer() {
    let (_clock, limiter) = of(Algorithm::SlidingLog);
    follow(&limiter, &limiter.try_acquire().unwrap(), 0, secs(60));
    let mut plain = Waiter::new(limiter.acquire().timeout(secs(1)));
    plain.refused();
    let mut reserved = Waiter::new(limiter.reserve().unwrap().timeout(secs(1)));
    reserved.refused();
}

#[test]
fn refund_of_a_charge_from_before_the_first_answer_leaves_what_was_charged_since() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    let before = limiter.try_acquire_many(50).unwrap();
    let first = limiter.try_acquire().unwrap();
    follow(&limiter, &first, 49, secs(60));
    let a = limiter.try_acquire().unwrap();
    take(&limiter, 5);
    limiter.refund(before);
    limiter.follow(&a, 60, secs(60));
    assert_eq!(available(&limiter), 100 - 60 - 5);
}

#[test]
fn set_quota_keeps_what_others_use() {
    let (_clock, limiter) = of(Algorithm::SlidingLog);
    follow(&limiter, &limiter.try_acquire().unwrap(), 40, secs(60));
    limiter.set_quota(Quota::per_minute(99).burst(99));
    assert!(available(&limiter) <= 40);
}

#[test]
fn follow_of_a_token_bucket_ignores_reset_after() {
    let (clock, limiter) = of(Algorithm::TokenBucket);
    clock.advance(secs(10));
    let charge = limiter.try_acquire_many(100).unwrap();
    assert_limited(&limiter, 1, secs(50));
    follow(&limiter, &charge, 0, secs(20));
    assert_limited(&limiter, 1, secs(50));
}

#[test]
fn decision_after_a_charge_counts_what_is_held() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    let _hold = limiter.hold(limiter.try_acquire_many(60).unwrap());
    let charge = limiter.try_acquire_many(10).unwrap();
    assert_eq!(limiter.snapshot().available, 30);
    assert_eq!(limiter.decision(&charge).remaining, 30);
}

#[test]
fn reset_after_of_a_peek_counts_what_is_held() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let _hold = limiter.hold(limiter.try_acquire_many(60).unwrap());
    clock.advance(secs(1));
    assert_ne!(limiter.peek().reset_after, Duration::ZERO);
}

#[test]
fn settle_beyond_what_is_held_is_charged_since() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
    let a = limiter.try_acquire().unwrap();
    let b = limiter.hold(limiter.try_acquire_many(10).unwrap());
    b.settle(35);
    limiter.follow(&a, 60, secs(60));
    assert_eq!(available(&limiter), 100 - 60 - 35);
}

#[test]
fn settle_for_less_than_is_held_is_not_charged_since() {
    let (_clock, limiter) = of(Algorithm::Gcra);
    follow(&limiter, &limiter.try_acquire().unwrap(), 99, secs(60));
    let a = limiter.try_acquire().unwrap();
    let b = limiter.hold(limiter.try_acquire_many(50).unwrap());
    b.settle(1);
    limiter.follow(&a, 2, secs(60));
    assert_eq!(available(&limiter), 100 - 2 - 1);
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Charge(u64),
    Try(u64),
    Wait(u64),
    LeaveWaiter(prop::sample::Index),
    Hold(prop::sample::Index),
    HoldForced(u64),
    Settle(prop::sample::Index, u64),
    DropHold(prop::sample::Index),
    Refund(prop::sample::Index),
    Follow(prop::sample::Index, u64, u64),
    SetQuota(usize),
    Pause(u64),
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..30_u64, 1 => 30..2000_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_000_000_000_u64, 1 => 0..1_u64 << 57, 1 => any::<u64>(), 4 => 0..100_u64]
}
fn step() -> impl Strategy<Value = Step> {
    let i = any::<prop::sample::Index>;
    prop_oneof![
        3 => time().prop_map(Step::Advance),
        1 => cost().prop_map(Step::Charge),
        4 => cost().prop_map(Step::Try),
        4 => cost().prop_map(Step::Wait),
        1 => i().prop_map(Step::LeaveWaiter),
        3 => i().prop_map(Step::Hold),
        1 => cost().prop_map(Step::HoldForced),
        2 => (i(), cost()).prop_map(|(a, b)| Step::Settle(a, b)),
        1 => i().prop_map(Step::DropHold),
        2 => i().prop_map(Step::Refund),
        3 => (i(), cost(), time()).prop_map(|(a, b, c)| Step::Follow(a, b, c)),
        1 => (0..6_usize).prop_map(Step::SetQuota),
        1 => time().prop_map(Step::Pause),
    ]
}
fn quotas() -> [Quota; 6] {
    [
        HUNDRED,
        Quota::per_second(1000).burst(1000),
        Quota::new(100, Duration::from_nanos(100)).burst(100),
        Quota::per_minute(98).burst(98),
        Quota::new(7, Duration::from_nanos(1000)).burst(7),
        Quota::new(10, Duration::from_secs(86400 * 365)).burst(10),
    ]
}

fn run(
    algorithm: Algorithm,
    overdraft: bool,
    follows: bool,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let (clock, limiter) = limiter(HUNDRED);
    let limiter = limiter.algorithm(algorithm);
    let limiter = match overdraft {
        true => limiter.oversize(Oversize::Overdraft),
        false => limiter,
    };
    let limiter = &limiter;
    let mut charges: Vec<Charge> = vec![];
    let mut holds: Vec<Hold> = vec![];
    let mut waiters = vec![];
    for step in steps {
        match step {
            Step::Advance(n) => clock.advance(Duration::from_nanos(n)),
            Step::Charge(c) => charges.push(limiter.charge(c)),
            Step::Try(c) => charges.extend(limiter.try_acquire_many(c).ok()),
            Step::Wait(c) => {
                let mut waiter = Waiter::new(limiter.acquire_many(c));
                match waiter.poll() {
                    std::task::Poll::Ready(out) => charges.extend(out.ok()),
                    std::task::Poll::Pending => waiters.push(waiter),
                }
            }
            Step::LeaveWaiter(i) if !waiters.is_empty() => {
                drop(waiters.remove(i.index(waiters.len())));
            }
            Step::Hold(i) if !charges.is_empty() => {
                let charge = charges.remove(i.index(charges.len()));
                holds.push(limiter.hold(charge));
            }
            Step::HoldForced(c) => holds.push(limiter.hold(limiter.charge(c))),
            Step::Settle(i, c) if !holds.is_empty() => holds.remove(i.index(holds.len())).settle(c),
            Step::DropHold(i) if !holds.is_empty() => drop(holds.remove(i.index(holds.len()))),
            Step::Refund(i) if !charges.is_empty() => {
                limiter.refund(charges.remove(i.index(charges.len())))
            }
            Step::Follow(i, used, after) if follows && !charges.is_empty() => {
                limiter.follow(
                    &charges[i.index(charges.len())],
                    used,
                    Duration::from_nanos(after),
                );
            }
            Step::SetQuota(i) => limiter.set_quota(quotas()[i]),
            Step::Pause(n) => limiter.pause_for(Duration::from_nanos(n % 1_000_000_000_000)),
            _ => {}
        }
        let before: Vec<_> = waiters.iter().map(|w| w.wakes()).collect();
        let _ = limiter.snapshot();
        let after: Vec<_> = waiters.iter().map(|w| w.wakes()).collect();
        prop_assert_eq!(before, after, "lost wake-up");
        let mut at = 0;
        while at < waiters.len() {
            match waiters[at].wakes() > 0 {
                true => {
                    let out = waiters.remove(at).output();
                    charges.extend(out.ok());
                }
                false => at += 1,
            }
        }
    }
    holds.clear();
    Ok(())
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Gcra),
        Just(Algorithm::TokenBucket),
        Just(Algorithm::FixedWindow),
        Just(Algorithm::SlidingWindow),
        Just(Algorithm::SlidingLog)
    ]
}

proptest! {
    #![proptest_config(cases(1000))]
    #[test]
    fn holds_wake_whoever_is_due(algorithm in any_algorithm(), overdraft in any::<bool>(), steps in prop::collection::vec(step(), 1..60)) {
        run(algorithm, overdraft, false, steps)?;
    }
    #[test]
    fn holds_and_answers_wake_whoever_is_due(algorithm in any_algorithm(), steps in prop::collection::vec(step(), 1..60)) {
        run(algorithm, false, true, steps)?;
    }
    #[test]
    fn holds_and_answers_of_an_overdraft_wake_whoever_is_due(algorithm in any_algorithm(), steps in prop::collection::vec(step(), 1..60)) {
        run(algorithm, true, true, steps)?;
    }
}

#[test]
fn settle_of_one_hold_wakes_all() {
    for algorithm in [
        Algorithm::Gcra,
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
    ] {
        let (_clock, limiter) = limiter(Quota::per_second(1000).burst(1000));
        let limiter = limiter.algorithm(algorithm);
        let hold = limiter.hold(limiter.try_acquire_many(1000).unwrap());
        let waiters: Vec<_> = (0..500)
            .map(|_| Waiter::parked(limiter.acquire_many(2)))
            .collect();
        hold.settle(0);
        assert!(waiters.iter().all(|it| it.wakes() == 1), "{algorithm}");
    }
}

#[test]
fn follow_of_a_newer_answer_that_delays_the_end_keeps_what_is_of_others() {
    // A newer answer that tells of fewer others, and of a later end.
    let (clock, limiter) = of(Algorithm::FixedWindow);
    follow(&limiter, &limiter.try_acquire().unwrap(), 40, secs(59));
    let next = limiter.try_acquire().unwrap();
    follow(&limiter, &next, 90, secs(61));
    clock.advance(secs(59) - ms(1));
    let before = available(&limiter);
    clock.advance(ms(2));
    assert_eq!(available(&limiter), before);
}

#[test]
fn acquire_of_everything_beside_a_hold_waits() {
    let (clock, limiter) = of(Algorithm::Gcra);
    let limiter = limiter.oversize(Oversize::Overdraft);
    let _hold = limiter.hold(limiter.try_acquire_many(10).unwrap());
    clock.advance(secs(60));
    let mut all = Waiter::new(limiter.acquire_many(u64::MAX));
    assert!(all.is_pending());
}
