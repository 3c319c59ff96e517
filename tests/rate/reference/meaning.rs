//! What the [reference](crate::support::reference) promises by itself, without a limiter.

use std::time::Duration;

use tollgate::rate::QuotaChange;
use tollgate::{Algorithm, Quota};

use crate::support::reference::{Answer, Reference, Setup};

const SECOND: u64 = 1_000_000_000;

fn reference(algorithm: Algorithm, quota: Quota) -> Reference {
    Reference::new(Setup {
        algorithm,
        quota,
        overdraft: false,
        max_waiters: usize::MAX,
        missed: None,
        start: 0,
    })
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
