//! Models the sliding log: claims without a lock, and a holder of the limiter's lock that stops them.
//!
//! It compiles the file of the rule itself with loom's atomics. One thread holds the limiter's lock, so
//! the lock is not modelled; ticks are given.

#![cfg(tollgate_loom)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a part of what is there is used by the rest of its crate"
)]

/// The module that tollgate uses under loom.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn back_off(_lost: &mut u32) {}
}

mod quota {
    pub(crate) use tollgate::Quota;
}

const LAST_TICK: u64 = (1 << 58) - 1;

#[path = "../../src/algorithm/refunds.rs"]
mod refunds;
#[path = "../../src/algorithm/sliding_log.rs"]
mod sliding_log;

use std::sync::Arc;
use std::time::Duration;

use tollgate_loom::*;

use self::quota::Quota;
use self::sliding_log::{Claim, SlidingLog};

const PERIOD: u64 = 1000;
const START: u64 = 5 * PERIOD;

fn quota(count: u64) -> Quota {
    Quota::new(count, Duration::from_nanos(PERIOD))
}

/// Returns a log of `count` slots for the holder of the lock. If it is used, all slots were charged a period
/// before the start.
fn log(count: u64, used: bool) -> SlidingLog {
    let log = SlidingLog::new(quota(count));
    for _ in 0..if used { count } else { 0 } {
        charged(log.ring().try_charge(START - PERIOD)).expect("a free slot");
    }
    log
}

/// Starts a claim without the lock in another thread.
fn claim(log: &SlidingLog, now: u64) -> JoinHandle<Claim> {
    let ring = Arc::clone(log.ring());
    spawn(move || ring.try_charge(now))
}

/// Starts claims at these ticks in another thread, one after the other.
fn claims(log: &SlidingLog, ticks: Vec<u64>) -> JoinHandle<Vec<Claim>> {
    let ring = Arc::clone(log.ring());
    spawn(move || ticks.into_iter().map(|it| ring.try_charge(it)).collect())
}

fn locked<T>(log: &mut SlidingLog, work: impl FnOnce(&mut SlidingLog) -> T) -> T {
    log.lock();
    let result = work(log);
    log.unlock();
    result
}

/// Returns the ticket of a charge.
fn charged(claim: Claim) -> Option<u64> {
    match claim {
        Claim::Charged { ticket, .. } => Some(ticket),
        _ => None,
    }
}

/// Returns the tick of a charge.
fn tick_of(claim: Claim) -> Option<u64> {
    match claim {
        Claim::Charged { at, .. } => Some(at),
        _ => None,
    }
}

/// Returns the tickets of another thread's charges.
fn tickets(claims: JoinHandle<Vec<Claim>>) -> Vec<u64> {
    let claims = claims.join().unwrap().into_iter();
    claims.filter_map(charged).collect()
}

/// Returns the number of charges that count at the start.
fn backlog(log: &mut SlidingLog) -> u64 {
    locked(log, |log| log.backlog(START))
}

/// Gives back the charge of a ticket, which must be known.
fn give_back(log: &mut SlidingLog, ticket: u64, now: u64) {
    assert_eq!(locked(log, |log| log.give_back(ticket, 1, now)), 1);
}

/// Asserts that any period has at most `count` of these ticks.
fn assert_apart(mut ticks: Vec<u64>, count: usize) {
    ticks.sort_unstable();
    for (first, last) in ticks.iter().zip(ticks.iter().skip(count)) {
        assert!(last - first >= PERIOD, "{first} and {last}");
    }
}

#[test]
fn three_claims_on_two_slots_charge_two() {
    check_each(2, [false, true], |used| {
        let mut log = log(2, used);
        let others = [claim(&log, START), claim(&log, START)];
        let mine = log.ring().try_charge(START);
        let others = others.map(|other| other.join().unwrap());
        let claims = [mine, others[0], others[1]];
        assert!(claims.contains(&Claim::Denied(START + PERIOD)));
        let mut tickets: Vec<u64> = claims.into_iter().filter_map(charged).collect();
        tickets.sort_unstable();
        let before = if used { 2 } else { 0 };
        assert_eq!(tickets, [before + 1, before + 2]);
        assert_eq!(backlog(&mut log), 2);
    });
}

/// The clocks of the threads differ, and both continue for several laps.
#[test]
fn claims_at_different_ticks_are_never_too_many_in_a_period() {
    check_each(3, [1, 2], |count| {
        let log = log(count, true);
        let ticks = vec![START, START + PERIOD / 2, START + 2 * PERIOD];
        let other = claims(&log, ticks);
        let ticks = [START + 1, START + PERIOD, START + 2 * PERIOD];
        let mine = ticks.map(|tick| log.ring().try_charge(tick));
        let all = other.join().unwrap().into_iter().chain(mine);
        assert_apart(all.filter_map(tick_of).collect(), count as usize);
    });
}

/// Two claims are made by one thread, or by two.
#[test]
fn claims_beside_a_charge_of_two_are_not_lost() {
    let run = |(count, used, threads)| {
        let mut log = log(count, used);
        let others: Vec<_> = (0..threads)
            .map(|_| claims(&log, vec![START; 2 / threads]))
            .collect();
        let two = locked(&mut log, |log| {
            let is_due = log.due(0, 2) <= START;
            if is_due {
                log.charge(START, 2);
            }
            is_due
        });
        let others = others.into_iter().flat_map(|other| other.join().unwrap());
        let others: Vec<Claim> = others.collect();
        let ones = others.iter().copied().filter_map(charged).count() as u64;
        let sum = ones + if two { 2 } else { 0 };
        assert!(sum <= count);
        // A claim is denied only if all slots are taken, and only by these claims.
        assert!(sum == count || !others.contains(&Claim::Denied(START + PERIOD)));
        assert!(two || ones + 2 > count);
        assert_eq!(backlog(&mut log), sum);
    };
    check_each(3, [(2, true, 1), (3, false, 1), (3, true, 1)], run);
    check_each(1, [(2, true, 2)], run);
}

// There is room for all claims at all times.
model!(no_claim_is_denied_while_there_is_room, || {
    let mut log = log(3, true);
    let others = claims(&log, vec![START; 2]);
    let mine = log.ring().try_charge(START);
    assert!(charged(mine).is_some());
    assert_eq!(tickets(others).len(), 2);
    assert_eq!(backlog(&mut log), 3);
});

// A denial reports when the oldest charge is a period old, before the other claim or after it.
model!(denial_beside_a_claim_tells_the_oldest_charge, || {
    let log = log(2, false);
    for tick in [START, START + 100] {
        charged(log.ring().try_charge(tick)).unwrap();
    }
    let now = START + PERIOD;
    let other = claim(&log, now);
    let early = log.ring().try_charge(now - 1);
    let due = now + 100;
    assert!([Claim::Denied(now), Claim::Denied(due)].contains(&early));
    assert!(charged(other.join().unwrap()).is_some());
    assert_eq!(log.ring().try_charge(now), Claim::Denied(due));
});

#[test]
fn claims_beside_a_change_of_the_length_are_kept() {
    check_each(2, [(2, 3), (3, 2), (1, 2), (2, 1)], |(from, to)| {
        let mut log = log(from, true);
        let others = claims(&log, vec![START; 2]);
        locked(&mut log, |log| log.change(quota(to), false, START));
        let ones = tickets(others).len() as u64;
        assert!(ones <= from.max(to));
        assert_eq!(backlog(&mut log), ones);
        // All free slots can be charged, and no more.
        for _ in ones..to {
            assert!(charged(log.ring().try_charge(START)).is_some());
        }
        assert_eq!(log.ring().try_charge(START), Claim::Denied(START + PERIOD));
    });
}

/// A claim that has seen the shorter period was made before the change, or is not made.
#[test]
fn claim_beside_a_change_of_the_period_is_made_before_it_or_not_at_all() {
    check_each(3, [1, 2], |count| {
        let mut log = log(count, true);
        let longer = Quota::new(count, Duration::from_nanos(3 * PERIOD));
        let other = claim(&log, START);
        let before = locked(&mut log, |log| {
            let before = log.backlog(START);
            log.change(longer, false, START);
            before
        });
        match other.join().unwrap() {
            Claim::Charged { .. } => assert_eq!(before, 1),
            Claim::Denied(due) => assert_eq!((before, due), (0, START + 2 * PERIOD)),
            Claim::Locked => assert_eq!(before, 0),
        }
        assert_eq!(backlog(&mut log), count);
    });
}

// A thread that was suspended with an older clock reading finds the slot that a refund has freed.
model!(claim_by_an_older_clock_is_not_too_early, || {
    let mut log = log(1, false);
    let mut all = vec![tick_of(log.ring().try_charge(START)).unwrap()];
    let other = claim(&log, START + PERIOD / 2);
    if let Some(ticket) = charged(log.ring().try_charge(START + PERIOD)) {
        give_back(&mut log, ticket, START + PERIOD);
    }
    all.extend(tick_of(other.join().unwrap()));
    assert_apart(all, 1);
});

/// A refund rewrites the ring; a concurrent claim is counted, and known by its ticket.
#[test]
fn claims_beside_a_refund_are_kept_and_known() {
    check_each(3, [1, 2], |count| {
        let mut log = log(count, true);
        let first = charged(log.ring().try_charge(START)).unwrap();
        let others = claims(&log, vec![START; 2]);
        give_back(&mut log, first, START);
        let made = tickets(others);
        assert!(made.len() as u64 <= count);
        assert_eq!(backlog(&mut log), made.len() as u64);
        for ticket in made {
            give_back(&mut log, ticket, START);
        }
        assert_eq!(backlog(&mut log), 0);
    });
}

// Turns repeat after 16 rewrites, and the refund has left the claim's stamp in its slot: a claim that was
// suspended for that long succeeds, and the next rewrite keeps its charge.
model!(claim_suspended_until_the_turns_repeat_is_kept, 2, || {
    let mut log = log(2, true);
    let first = charged(log.ring().try_charge(START)).unwrap();
    let ring = Arc::clone(log.ring());
    let holder = spawn(move || {
        locked(&mut log, |log| {
            assert_eq!(log.give_back(first, 1, START), 1);
            for _ in 0..16 {
                log.change(quota(2), false, START);
            }
        });
        log
    });
    let mine = charged(ring.try_charge(START)).is_some();
    let mut log = holder.join().unwrap();
    assert_eq!(backlog(&mut log), u64::from(mine));
});

/// An overdraft keeps the ring locked until it is paid off.
#[test]
fn claims_do_not_pass_an_overdraft() {
    check_each(3, [1, 2], |count| {
        let mut log = log(count, true);
        let others = claims(&log, vec![START; 2]);
        locked(&mut log, |log| log.charge(START, count + 1));
        let ones = tickets(others).len() as u64;
        assert!(ones <= count);
        assert_eq!(log.ring().try_charge(START + PERIOD), Claim::Locked);
        let backlog = |log: &mut SlidingLog, now| locked(log, |log| log.backlog(now));
        assert_eq!(backlog(&mut log, START), count + 1 + ones);
        assert_eq!(backlog(&mut log, START + PERIOD), 1 + ones);
        assert_eq!(backlog(&mut log, START + 3 * PERIOD), 0);
        assert!(charged(log.ring().try_charge(START + 3 * PERIOD)).is_some());
    });
}
