//! The sliding log: claims without a lock, and a holder of the limiter's lock that stops them.
//!
//! The file of the rule itself, compiled with loom's atomics. The limiter's lock is loom's mutex
//! around the [`SlidingLog`]; ticks are given, so nothing else is modelled.

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
}

mod quota {
    pub(crate) use tollgate::Quota;
}

const LAST_TICK: u64 = (1 << 58) - 1;

#[path = "../../src/algorithm/sliding_log.rs"]
mod sliding_log;

use std::sync::Arc;
use std::time::Duration;

use loom::sync::Mutex;
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

/// A limiter as far as it matters here.
struct Shared {
    ring: Arc<Ring>,
    log: Mutex<SlidingLog>,
}

impl Shared {
    fn new(count: u64) -> Arc<Self> {
        let log = SlidingLog::new(quota(count));
        Arc::new(Self {
            ring: Arc::clone(log.ring()),
            log: Mutex::new(log),
        })
    }

    /// All slots were used a period before the start.
    fn used(count: u64) -> Arc<Self> {
        let shared = Self::new(count);
        for _ in 0..count {
            assert!(shared.try_one(START - PERIOD).is_ok());
        }
        shared
    }

    fn locked<T>(&self, work: impl FnOnce(&mut SlidingLog) -> T) -> T {
        let mut log = self.log.lock().unwrap();
        log.lock();
        let result = work(&mut log);
        log.unlock();
        result
    }

    /// The ticket, or when to come again.
    fn try_one(&self, now: u64) -> Result<u64, u64> {
        match self.ring.try_charge(now) {
            Claim::Charged(ticket) => Ok(ticket),
            Claim::Denied(due) => Err(due),
            Claim::Locked => self.try_many(now, 1),
        }
    }

    fn try_many(&self, now: u64, cost: u64) -> Result<u64, u64> {
        self.locked(|log| match log.due(0, cost) {
            due if due > now => Err(due),
            _ => Ok(log.charge(now, cost).0),
        })
    }

    fn backlog(&self, now: u64) -> u64 {
        self.locked(|log| log.backlog(now))
    }
}

fn in_thread<T: 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> T + 'static,
) -> thread::JoinHandle<T> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

fn shared(count: u64, used: bool) -> Arc<Shared> {
    if used {
        Shared::used(count)
    } else {
        Shared::new(count)
    }
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
        model(3, move || {
            let shared = shared(2, used);
            let other = || in_thread(&shared, |shared| shared.ring.try_charge(START));
            let others = [other(), other()];
            let mine = shared.ring.try_charge(START);
            let claims = others.map(|other| other.join().unwrap());
            let mut tickets = Vec::new();
            for claim in claims.into_iter().chain([mine]) {
                match claim {
                    Claim::Charged(ticket) => tickets.push(ticket),
                    Claim::Denied(due) => assert_eq!(due, START + PERIOD),
                    Claim::Locked => panic!("nobody has locked it"),
                }
            }
            tickets.sort_unstable();
            let before = if used { 2 } else { 0 };
            assert_eq!(tickets, [before + 1, before + 2]);
            assert_eq!(shared.backlog(START), 2);
        });
    }
}

/// The clocks of threads disagree, and one thread goes on for several laps.
#[test]
fn claims_at_different_ticks_are_never_too_many_in_a_period() {
    for count in [1, 2] {
        model(3, move || {
            let shared = Shared::used(count);
            let ticks = [START, START + PERIOD / 2, START + PERIOD];
            let charged = |shared: &Shared, ticks: &[u64]| -> Vec<u64> {
                let charged = ticks.iter().filter(|tick| shared.try_one(**tick).is_ok());
                charged.copied().collect()
            };
            let late = in_thread(&shared, move |shared| charged(shared, &ticks[..1]));
            let other = in_thread(&shared, move |shared| charged(shared, &ticks[1..]));
            let mut all = charged(&shared, &ticks);
            all.append(&mut late.join().unwrap());
            all.append(&mut other.join().unwrap());
            assert_apart(all, count as usize);
        });
    }
}

#[test]
fn two_claims_and_a_charge_of_two_share_three_slots() {
    for used in [false, true] {
        model(3, move || {
            let shared = shared(3, used);
            let other = || in_thread(&shared, |shared| shared.try_one(START).is_ok());
            let others = [other(), other()];
            let two = shared.try_many(START, 2).is_ok();
            let ones = others.map(|other| u64::from(other.join().unwrap()));
            let ones: u64 = ones.iter().sum();
            // Two ones leave one slot, which is too few for a two.
            assert_eq!(ones, if two { 1 } else { 2 });
            assert_eq!(shared.backlog(START), ones + 2 * u64::from(two));
        });
    }
}

#[test]
fn a_charge_of_two_on_two_slots_excludes_claims() {
    for used in [false, true] {
        model(3, move || {
            let shared = shared(2, used);
            let other = || in_thread(&shared, |shared| shared.try_one(START).is_ok());
            let others = [other(), other()];
            let two = shared.try_many(START, 2).is_ok();
            let ones = others.map(|other| u64::from(other.join().unwrap()));
            let ones: u64 = ones.iter().sum();
            assert!(if two { ones == 0 } else { ones > 0 });
            assert_eq!(shared.backlog(START), ones + 2 * u64::from(two));
        });
    }
}

/// There is one slot too many all the time, so nobody may be denied.
#[test]
fn no_claim_is_denied_while_there_is_room() {
    model(3, || {
        let shared = Shared::used(3);
        let other = || {
            in_thread(&shared, |shared| {
                matches!(
                    shared.ring.try_charge(START),
                    Claim::Charged(_) | Claim::Locked
                )
            })
        };
        let others = [other(), other()];
        assert!(shared.try_one(START).is_ok());
        assert!(others.into_iter().all(|other| other.join().unwrap()));
    });
}

/// A denial beside a claim: who is denied comes when all is charged, and is told the oldest tick.
#[test]
fn a_denial_beside_claims_is_told_the_oldest_charge() {
    model(3, || {
        let shared = Shared::new(2);
        shared.try_one(START).unwrap();
        shared.try_one(START + 100).unwrap();
        let now = START + PERIOD;
        let other = in_thread(&shared, move |shared| shared.ring.try_charge(now));
        let early = shared.ring.try_charge(now - 1);
        let due = match other.join().unwrap() {
            Claim::Charged(_) => START + PERIOD + 100,
            claim => panic!("there was room: {claim:?}"),
        };
        // Before the other's charge, or after it.
        assert!(
            early == Claim::Denied(now) || early == Claim::Denied(due),
            "{early:?}"
        );
        assert_eq!(shared.ring.try_charge(now), Claim::Denied(due));
    });
}

#[test]
fn no_charge_is_lost_or_too_much_when_the_length_changes() {
    for (from, to) in [(2, 3), (3, 2), (1, 2), (2, 1)] {
        for used in [false, true] {
            model(2, move || {
                let shared = shared(from, used);
                let other = || in_thread(&shared, |shared| shared.try_one(START).is_ok());
                let others = [other(), other()];
                shared.locked(|log| log.change(quota(to), false, START));
                let ones = others.map(|other| u64::from(other.join().unwrap()));
                let ones: u64 = ones.iter().sum();
                assert!(ones >= from.min(to).min(2) && ones <= from.max(to));
                assert_eq!(shared.backlog(START), ones);
                if ones < to {
                    shared.try_one(START).unwrap();
                } else {
                    assert_eq!(shared.try_one(START), Err(START + PERIOD));
                }
            });
        }
    }
}

/// By the longer period the slots are not free; a claim that has seen the shorter one fails, or was
/// made before.
#[test]
fn a_claim_of_the_shorter_period_is_not_made_in_the_longer_one() {
    model(2, || {
        let shared = Shared::used(2);
        let longer = Quota::new(2, Duration::from_nanos(3 * PERIOD));
        let other = in_thread(&shared, |shared| shared.try_one(START));
        let (early, due) = shared.locked(|log| {
            let early = log.backlog(START);
            log.change(longer, false, START);
            (early, log.due(0, 1))
        });
        match other.join().unwrap() {
            Ok(_) => assert_eq!(early, 1),
            Err(told) => {
                assert_eq!(early, 0);
                assert_eq!(told, due);
            }
        }
        assert_eq!(due, START + 2 * PERIOD);
        assert_eq!(shared.backlog(START), 2);
    });
}

/// A refund restores the stamps that were there before, in other slots.
#[test]
fn a_claim_beside_a_refund_is_counted_and_known() {
    for count in [1, 2] {
        model(2, move || {
            let shared = Shared::used(count);
            let ticket = shared.try_one(START).unwrap();
            let other = || in_thread(&shared, |shared| shared.try_one(START));
            let others = [other(), other()];
            let given = shared.locked(|log| log.give_back(ticket, 1, START));
            assert_eq!(given, 1);
            let ones = others.map(|other| other.join().unwrap());
            let made: Vec<u64> = ones.into_iter().filter_map(Result::ok).collect();
            assert!(made.len() as u64 <= count && made.len() as u64 + 1 >= count);
            assert_eq!(shared.backlog(START), made.len() as u64);
            for ticket in made {
                assert_eq!(shared.locked(|log| log.give_back(ticket, 1, START)), 1);
            }
            assert_eq!(shared.backlog(START), 0);
        });
    }
}

/// An overdraft keeps the ring locked until it is paid off.
#[test]
fn a_claim_does_not_pass_an_overdraft() {
    for count in [1, 2] {
        model(2, move || {
            let shared = Shared::used(count);
            let other = || in_thread(&shared, |shared| shared.try_one(START).is_ok());
            let others = [other(), other()];
            shared.locked(|log| log.charge(START, count + 1));
            let ones = others.map(|other| u64::from(other.join().unwrap()));
            let ones: u64 = ones.iter().sum();
            assert_eq!(shared.backlog(START), count + 1 + ones);
            let later = START + PERIOD;
            assert_eq!(shared.backlog(later), 1 + ones);
            assert_eq!(shared.try_one(later).is_ok(), ones + 1 < count);
        });
    }
}
