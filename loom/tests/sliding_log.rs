//! The sliding log: claims without a lock, and a holder of the limiter's lock that stops them.
//!
//! The file of the rule itself, compiled with loom's atomics. One thread holds the limiter's lock, so
//! that is not modelled; and ticks are given.

#![cfg(tollgate_loom)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a part of what is there is used by the rest of its crate"
)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

/// As tollgate has it under loom.
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

use loom::thread;

use self::quota::Quota;
use self::sliding_log::{Claim, Ring, SlidingLog};

/// Every interleaving with at most so many preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(run);
}

const PERIOD: u64 = 1000;
const START: u64 = 5 * PERIOD;

fn quota(count: u64) -> Quota {
    Quota::new(count, Duration::from_nanos(PERIOD))
}

/// A log for the holder of the lock, with so many slots. If it is used, all were charged a period
/// before the start.
fn log(count: u64, used: bool) -> SlidingLog {
    let log = SlidingLog::new(quota(count));
    for _ in 0..if used { count } else { 0 } {
        charged(log.ring().try_charge(START - PERIOD)).expect("a free slot");
    }
    log
}

/// A claim without the lock, in another thread.
fn claim(log: &SlidingLog, now: u64) -> thread::JoinHandle<Claim> {
    let ring = Arc::clone(log.ring());
    thread::spawn(move || ring.try_charge(now))
}

/// Two claims at the start, one after the other.
fn two_claims(log: &SlidingLog) -> thread::JoinHandle<[Claim; 2]> {
    let ring = Arc::clone(log.ring());
    thread::spawn(move || [(); 2].map(|()| ring.try_charge(START)))
}

fn locked<T>(log: &mut SlidingLog, work: impl FnOnce(&mut SlidingLog) -> T) -> T {
    log.lock();
    let result = work(log);
    log.unlock();
    result
}

/// The ticket of a charge.
fn charged(claim: Claim) -> Option<u64> {
    match claim {
        Claim::Charged { ticket, .. } => Some(ticket),
        _ => None,
    }
}

/// The tick of a charge.
fn tick_of(claim: Claim) -> Option<u64> {
    match claim {
        Claim::Charged { at, .. } => Some(at),
        _ => None,
    }
}

/// The tickets of what another thread has charged.
fn tickets(claims: thread::JoinHandle<[Claim; 2]>) -> Vec<u64> {
    claims
        .join()
        .unwrap()
        .into_iter()
        .filter_map(charged)
        .collect()
}

/// In any period there are at most `count` of these ticks.
fn assert_apart(mut ticks: Vec<u64>, count: usize) {
    ticks.sort_unstable();
    for (first, last) in ticks.iter().zip(ticks.iter().skip(count)) {
        assert!(last - first >= PERIOD, "{first} and {last}");
    }
}

#[test]
fn three_claims_on_two_slots_charge_two() {
    for used in [false, true] {
        model(2, move || {
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
            assert_eq!(locked(&mut log, |log| log.backlog(START)), 2);
        });
    }
}

/// The clocks of threads disagree, and both go on for several laps.
#[test]
fn claims_at_different_ticks_are_never_too_many_in_a_period() {
    fn charge_at(ring: &Ring, ticks: [u64; 3]) -> Vec<u64> {
        ticks
            .into_iter()
            .filter_map(|tick| tick_of(ring.try_charge(tick)))
            .collect()
    }
    for count in [1, 2] {
        model(3, move || {
            let log = log(count, true);
            let ring = Arc::clone(log.ring());
            let ticks = [START, START + PERIOD / 2, START + 2 * PERIOD];
            let other = thread::spawn(move || charge_at(&ring, ticks));
            let ticks = [START + 1, START + PERIOD, START + 2 * PERIOD];
            let mut all = charge_at(log.ring(), ticks);
            all.append(&mut other.join().unwrap());
            assert_apart(all, count as usize);
        });
    }
}

#[test]
fn claims_beside_a_charge_of_two_are_not_lost() {
    for (count, used) in [(2, true), (3, false), (3, true)] {
        model(3, move || {
            let mut log = log(count, used);
            let others = two_claims(&log);
            let two = locked(&mut log, |log| {
                let is_due = log.due(0, 2) <= START;
                is_due.then(|| log.charge(START, 2).0)
            });
            let others = others.join().unwrap();
            let ones = others.into_iter().filter_map(charged).count() as u64;
            let sum = ones + if two.is_some() { 2 } else { 0 };
            assert!(sum <= count);
            // A claim is denied only if all slots are taken, and then by these.
            assert!(sum == count || !others.contains(&Claim::Denied(START + PERIOD)));
            assert!(two.is_some() || ones + 2 > count);
            assert_eq!(locked(&mut log, |log| log.backlog(START)), sum);
        });
    }
}

/// The same with three threads.
#[test]
fn claims_of_two_threads_beside_a_charge_of_two_are_not_lost() {
    model(1, || {
        let mut log = log(2, true);
        let others = [claim(&log, START), claim(&log, START)];
        let two = locked(&mut log, |log| {
            let is_due = log.due(0, 2) <= START;
            is_due.then(|| log.charge(START, 2).0)
        });
        let others = others.map(|other| other.join().unwrap());
        let ones = others.into_iter().filter_map(charged).count() as u64;
        assert!(if two.is_some() { ones == 0 } else { ones > 0 });
        let sum = ones + if two.is_some() { 2 } else { 0 };
        assert_eq!(locked(&mut log, |log| log.backlog(START)), sum);
    });
}

/// There is room for all of them, all the time.
#[test]
fn no_claim_is_denied_while_there_is_room() {
    model(3, || {
        let mut log = log(3, true);
        let others = two_claims(&log);
        let mine = log.ring().try_charge(START);
        assert!(charged(mine).is_some());
        assert_eq!(tickets(others).len(), 2);
        assert_eq!(locked(&mut log, |log| log.backlog(START)), 3);
    });
}

/// A denial tells when the oldest charge is a period old, before the other claim or after it.
#[test]
fn a_denial_beside_a_claim_tells_the_oldest_charge() {
    model(3, || {
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
}

#[test]
fn claims_beside_a_change_of_the_length_are_kept() {
    for (from, to) in [(2, 3), (3, 2), (1, 2), (2, 1)] {
        model(2, move || {
            let mut log = log(from, true);
            let others = two_claims(&log);
            locked(&mut log, |log| log.change(quota(to), false, START));
            let ones = tickets(others).len() as u64;
            assert!(ones <= from.max(to));
            assert_eq!(locked(&mut log, |log| log.backlog(START)), ones);
            // All that there is room for, and no more.
            for _ in ones..to {
                assert!(charged(log.ring().try_charge(START)).is_some());
            }
            let full = log.ring().try_charge(START);
            assert_eq!(full, Claim::Denied(START + PERIOD));
        });
    }
}

/// A claim that has seen the shorter period was made before the change, or is not made.
#[test]
fn a_claim_beside_a_change_of_the_period_is_made_before_it_or_not_at_all() {
    for count in [1, 2] {
        model(3, move || {
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
            assert_eq!(locked(&mut log, |log| log.backlog(START)), count);
        });
    }
}

/// A thread that was suspended with an older clock reading finds the slot that a refund has made free.
#[test]
fn a_claim_with_an_older_clock_beside_a_refund_is_not_too_early() {
    model(3, || {
        let mut log = log(1, false);
        let mut all = vec![tick_of(log.ring().try_charge(START)).unwrap()];
        let other = claim(&log, START + PERIOD / 2);
        if let Some(ticket) = charged(log.ring().try_charge(START + PERIOD)) {
            let now = START + PERIOD;
            assert_eq!(locked(&mut log, |log| log.give_back(ticket, 1, now)), 1);
        }
        all.extend(tick_of(other.join().unwrap()));
        assert_apart(all, 1);
    });
}

/// A refund rewrites the ring; a claim beside it is counted, and known by its ticket.
#[test]
fn claims_beside_a_refund_are_kept_and_known() {
    for count in [1, 2] {
        model(3, move || {
            let mut log = log(count, true);
            let first = charged(log.ring().try_charge(START)).unwrap();
            let others = two_claims(&log);
            let given = locked(&mut log, |log| log.give_back(first, 1, START));
            assert_eq!(given, 1);
            let made = tickets(others);
            assert!(made.len() as u64 <= count);
            assert_eq!(
                locked(&mut log, |log| log.backlog(START)),
                made.len() as u64
            );
            for ticket in made {
                let given = locked(&mut log, |log| log.give_back(ticket, 1, START));
                assert_eq!(given, 1);
            }
            assert_eq!(locked(&mut log, |log| log.backlog(START)), 0);
        });
    }
}

/// An overdraft keeps the ring locked until it is paid off.
#[test]
fn claims_do_not_pass_an_overdraft() {
    for count in [1, 2] {
        model(3, move || {
            let mut log = log(count, true);
            let others = two_claims(&log);
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
}
