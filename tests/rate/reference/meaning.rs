//! What the [reference](crate::support::reference) promises by itself, without a limiter.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::QuotaChange;
use tollgate::{Algorithm, Quota};

use crate::support::cases::cases;
use crate::support::reference::local::Local;
use crate::support::reference::{Answer, Charged, Reference, Setup};

const SECOND: u64 = 1_000_000_000;

fn reference(algorithm: Algorithm, quota: Quota) -> Reference {
    Reference::new(Setup::new(algorithm, quota))
}

/// Draws an algorithm and a quota of few tokens, which take a whole number of nanoseconds or not.
fn limits() -> impl Strategy<Value = (Algorithm, Quota)> {
    let algorithm = prop::sample::select(Algorithm::all());
    (algorithm, 5..12_u64, 0..90_u64).prop_map(|(algorithm, count, more)| {
        let period = Duration::from_nanos(count + more);
        let quota = Quota::new(count, period);
        (
            algorithm,
            if algorithm == Algorithm::Gcra {
                quota.burst(count)
            } else {
                quota
            },
        )
    })
}

/// Draws steps: what to do, and two numbers.
fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    prop::collection::vec((0..12_u8, 0..100_u64, 0..100_u64), 1..80)
}

/// Asserts the promise over every pair of charges, with some tokens beyond the burst. Each charge is its
/// tick and what is kept of it; a token counts as `token`.
fn assert_promise(
    algorithm: Algorithm,
    quota: Quota,
    token: i128,
    more: u64,
    kept: &[(u64, i128)],
) {
    for (first, (from, _)) in kept.iter().enumerate() {
        let mut sum = -i128::from(more) * token;
        for (to, amount) in &kept[first..] {
            sum += amount;
            let nanos = to - from + 1;
            let is_kept = if algorithm == Algorithm::Gcra {
                let period = quota.period().as_nanos() as i128;
                let most = i128::from(quota.max_burst()) * period;
                sum * period <= (most + i128::from(quota.count()) * i128::from(nanos)) * token
            } else {
                let most = algorithm.most_in(quota, Duration::from_nanos(nanos));
                sum <= i128::from(most) * token
            };
            assert!(
                is_kept,
                "{algorithm} {quota}: too much from tick {from} to {to}"
            );
        }
    }
}

/// The charges of a limiter, each with its tick and what is kept of it.
struct Audited {
    limiter: Reference,
    /// The charges, and their places among the kept ones.
    charges: Vec<(Charged, usize)>,
    waiting: Vec<usize>,
    kept: Vec<(u64, i128)>,
    /// A charge counts less as time passes, so what is given back of it does, too.
    fades: bool,
}

impl Audited {
    fn new(algorithm: Algorithm, quota: Quota) -> Self {
        Self {
            limiter: reference(algorithm, quota),
            charges: Vec::new(),
            waiting: Vec::new(),
            kept: Vec::new(),
            fades: algorithm == Algorithm::SlidingWindow,
        }
    }

    fn token(&self) -> i128 {
        self.limiter.counts().1
    }

    fn charged(&mut self, charged: Charged) {
        self.charges.push((charged, self.kept.len()));
        let amount = i128::from(charged.cost) * self.token();
        self.kept.push((charged.at, amount));
    }

    /// Collects the grants of waiters.
    fn collect(&mut self) {
        for name in std::mem::take(&mut self.waiting) {
            match self.limiter.answer(name) {
                Answer::Charged(charged) => self.charged(charged),
                _ => self.waiting.push(name),
            }
        }
    }

    fn step(&mut self, (what, a, b): (u8, u64, u64)) {
        let cost = 1 + a % self.limiter.limit();
        match what {
            0..4 => self.limiter.advance(if what == 0 { b } else { b % 7 }),
            4..8 => match self.limiter.acquire(cost) {
                Answer::Charged(charged) => self.charged(charged),
                Answer::Waits(name) => self.waiting.push(name),
                _ => {}
            },
            8 if !self.waiting.is_empty() => {
                let name = self.waiting.remove(a as usize % self.waiting.len());
                self.limiter.leave(name);
            }
            9..11 if !self.charges.is_empty() => {
                let which = a as usize % self.charges.len();
                let (charged, place) = self.charges.swap_remove(which);
                let before = self.limiter.counts().0;
                let cost = charged.cost.min(1 + b % 4);
                // Waiters that this makes due count only afterwards.
                self.limiter.give_back(charged, cost);
                let given = before - self.limiter.counts().0;
                self.kept[place].1 -= if self.fades {
                    i128::from(cost) * self.token()
                } else {
                    given
                };
                self.limiter.serve();
            }
            _ => {}
        }
        self.collect();
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// What a refund gives back is not kept, and nothing else.
    #[test]
    fn charges_keep_the_promise_over_every_pair((algorithm, quota) in limits(), steps in steps()) {
        let mut audited = Audited::new(algorithm, quota);
        for step in steps {
            audited.step(step);
        }
        let mut kept = audited.kept.clone();
        kept.sort_by_key(|(at, _)| *at);
        assert_promise(algorithm, quota, audited.token(), 0, &kept);
    }

    /// In any order, also of those that wait.
    #[test]
    fn everything_given_back_at_once_leaves_no_trace(
        (algorithm, quota) in limits(),
        before in steps(),
        costs in prop::collection::vec((0..100_u64, any::<bool>(), 0..100_usize), 1..30),
    ) {
        let mut audited = Audited::new(algorithm, quota);
        before.into_iter().filter(|step| step.0 < 8).for_each(|step| audited.step(step));
        let mut limiter = audited.limiter;
        audited.waiting.into_iter().for_each(|name| limiter.leave(name));
        let state = |limiter: &Reference| {
            let due = limiter.due_of_next(limiter.limit());
            (limiter.counts(), limiter.reset(), limiter.due_of_next(1), due)
        };
        let untouched = state(&limiter);
        let mut all = Vec::new();
        for (cost, is_forced, _) in &costs {
            let cost = cost % (limiter.limit() + 1);
            all.push(if *is_forced { Answer::Charged(limiter.charge(cost)) } else { limiter.acquire(cost) });
        }
        for (_, _, which) in &costs {
            match all.remove(which % all.len()) {
                Answer::Charged(charged) => limiter.refund(charged, charged.cost),
                Answer::Waits(name) => limiter.leave(name),
                answer => panic!("{answer:?}"),
            }
        }
        prop_assert_eq!(state(&limiter), untouched);
    }

    /// In any time the calls are at most the quota and, for each handle, a batch.
    #[test]
    fn local_handles_keep_their_bound(
        (algorithm, quota) in limits(),
        batches in prop::collection::vec(prop_oneof![1..=3_u64, 1..=40_u64], 3),
        steps in steps(),
    ) {
        let mut limiter = reference(algorithm, quota);
        let mut locals: Vec<_> = batches.iter().map(|batch| Local::new(*batch)).collect();
        let mut calls = Vec::new();
        for (what, a, b) in steps {
            let local = &mut locals[b as usize % 3];
            match what {
                0..3 => limiter.advance(a % 40),
                3 => limiter.return_unused(local),
                _ => {
                    let cost = a % 4;
                    if let None | Some(Answer::Charged(_)) = limiter.take(local, cost) {
                        calls.push((limiter.now, i128::from(cost)));
                    }
                }
            }
        }
        let more = batches.iter().sum();
        assert_promise(algorithm, quota, 1, more, &calls);
    }

    /// The same limiter without the pause has the available tokens at the end.
    #[test]
    fn pause_leaves_at_most_one_token(
        (algorithm, quota) in limits(),
        steps in prop::collection::vec((0..3_u8, 0..60_u64), 0..8),
        pause in 1..200_u64,
    ) {
        let [mut paused, mut other] = [(); 2].map(|()| reference(algorithm, quota));
        for limiter in [&mut paused, &mut other] {
            limiter.advance(1000);
            for (what, number) in &steps {
                match what {
                    0 => limiter.advance(*number),
                    1 => drop(limiter.try_acquire(1 + number % 3)),
                    _ => drop(limiter.charge(1 + number % 3)),
                }
            }
        }
        paused.pause_for(pause);
        paused.advance(pause);
        other.advance(pause);
        let left = |limiter: &Reference| limiter.limit().saturating_sub(limiter.in_use());
        prop_assert_eq!(left(&paused), left(&other).min(1));
        prop_assert_eq!(paused.due_of_next(1), other.due_of_next(1));
    }

    /// Calls take up to three periods, for at most what each of them holds. A provider that counts a call
    /// when it begins is never exceeded, and one that counts it when it ends is not under the rules that
    /// keep the whole hold until then.
    #[test]
    fn holds_do_not_exceed_the_provider(
        (algorithm, quota) in limits(),
        calls in prop::collection::vec((0..150_u64, 1..21_u64, 0..21_u64, 0..300_u64), 1..40),
    ) {
        prop_assert_eq!(exceeded(algorithm, quota, &calls, false), None);
        if algorithm.keeps_a_word() {
            prop_assert_eq!(exceeded(algorithm, quota, &calls, true), None);
        }
    }
}

/// Makes calls: each comes some time after the one before, holds a cost, uses a part of it, and takes some
/// time. Returns the first one for which a provider, which is such a limiter, had no room.
fn exceeded(
    algorithm: Algorithm,
    quota: Quota,
    calls: &[(u64, u64, u64, u64)],
    at_the_end: bool,
) -> Option<usize> {
    let [mut limiter, mut provider] = [(); 2].map(|()| reference(algorithm, quota));
    let counts = |provider: &mut Reference, now: u64, used: u64| {
        provider.advance(now - provider.now);
        matches!(provider.try_acquire(used), Answer::Charged(_))
    };
    // The end of each running call, its number, its usage, and its hold.
    let mut running: Vec<(u64, usize, u64, Charged)> = Vec::new();
    let mut begins = 0;
    for (number, (after, cost, used, takes)) in calls.iter().enumerate() {
        begins += after;
        let used = *used.min(cost);
        running.sort_by_key(|call| call.0);
        let over = running.partition_point(|call| call.0 <= begins);
        for (ends, ended, used, hold) in running.drain(..over) {
            limiter.advance(ends - limiter.now);
            if !at_the_end {
                limiter.settle_hold(hold, used);
                continue;
            }
            limiter.charge(used);
            limiter.settle_hold(hold, 0);
            if !counts(&mut provider, ends, used) {
                return Some(ended);
            }
        }
        limiter.advance(begins - limiter.now);
        if let Answer::Charged(charged) = limiter.try_acquire(*cost) {
            if !at_the_end && !counts(&mut provider, begins, used) {
                return Some(number);
            }
            let hold = limiter.hold(charged);
            running.push((begins + takes, number, used, hold));
        }
    }
    None
}

/// The bound is reached except for one token of each batch: a batch less one is buffered in each handle,
/// the burst has come back, and all of it is used at once.
#[test]
fn bound_of_local_handles_is_reached_but_for_one_of_each() {
    let quota = Quota::new(1, Duration::from_nanos(10)).burst(40);
    let mut limiter = reference(Algorithm::Gcra, quota);
    let mut locals = [(); 3].map(|()| Local::new(8));
    let mut take = |limiter: &mut Reference, place: usize, cost: u64| {
        let answer = limiter.take(&mut locals[place], cost);
        assert!(matches!(answer, None | Some(Answer::Charged(_))));
        cost
    };
    (0..3).for_each(|place| _ = take(&mut limiter, place, 1));
    limiter.advance(400);
    let buffered: u64 = (0..21).map(|call| take(&mut limiter, call / 7, 1)).sum();
    let fresh: u64 = (0..5).map(|_| take(&mut limiter, 0, 8)).sum();
    assert_eq!(buffered + fresh, 40 + 3 * 7);
}

/// Both have the same forced charges, before the pause and in it.
#[test]
fn resume_leaves_what_a_pause_until_now_leaves() {
    for algorithm in Algorithm::all() {
        let state = |pause: u64| {
            let mut limiter = reference(*algorithm, Quota::per_second(10));
            limiter.advance(5 * SECOND);
            limiter.charge(3);
            limiter.advance(SECOND / 4);
            limiter.pause_for(pause);
            limiter.advance(SECOND / 4);
            limiter.charge(2);
            limiter.advance(SECOND / 4);
            limiter.resume();
            assert_eq!(limiter.paused_until(), None);
            (limiter.in_use(), limiter.reset(), limiter.due_of_next(1))
        };
        assert_eq!(state(SECOND * 100), state(SECOND / 2), "{algorithm}");
        assert_eq!(state(u64::MAX), state(SECOND / 2), "{algorithm}");
    }
}

/// Returns how many calls are admitted if two quotas alternate this many times and calls come as
/// often as they fit.
fn admitted(algorithm: Algorithm, quotas: [Quota; 2], each: u64, times: usize) -> u64 {
    let mut limiter = reference(algorithm, quotas[0]);
    let mut admitted = 0;
    for number in 1..=times {
        while let Answer::Charged(_) = limiter.try_acquire(1) {
            admitted += 1;
        }
        limiter.advance(each);
        limiter.set_quota(quotas[number % 2], QuotaChange::KeepSpent);
    }
    admitted
}

#[test]
fn set_quota_that_keeps_the_spent_number_admits_no_more_than_the_larger_rate_and_burst() {
    let quotas = [
        Quota::per_second(100).burst(10),
        Quota::per_second(10).burst(100),
    ];
    for algorithm in [Algorithm::Gcra, Algorithm::TokenBucket] {
        assert!(
            admitted(algorithm, quotas, SECOND / 10, 600) <= 6_100,
            "{algorithm}"
        );
    }
    // Ten seconds.
    assert!(admitted(Algorithm::Gcra, quotas, SECOND / 500, 5_000) <= 1_100);
    let quotas = [Quota::per_second(100), Quota::per_second(10)];
    for algorithm in Algorithm::all() {
        let most = algorithm.most_in(quotas[0], Duration::from_secs(60));
        assert!(
            admitted(*algorithm, quotas, SECOND / 10, 600) <= most,
            "{algorithm}"
        );
    }
}
