//! Short tests of each algorithm: its promise over any time, its behaviour when the quota changes all
//! the time, and its text. The [reference](crate::reference) tests all of them.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::QuotaChange;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::setup::TEN;
use crate::support::audit::fullest;
use crate::support::cases::cases;

const PARTS: Algorithm = Algorithm::SubInterval { parts: 3 };

/// Returns a quota of this many in this many milliseconds, with the whole count at once under every
/// algorithm.
fn quota(count: u64, millis: u64) -> Quota {
    Quota::new(count, Duration::from_millis(millis)).burst(count)
}

fn limiter(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    (clock, limiter)
}

/// Takes up to this many, and returns when.
fn take(limiter: &RateLimiter, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let charges = (0..most).map_while(|_| limiter.try_acquire().ok());
    charges.map(|charge| (charge.at().as_nanos(), 1))
}

/// The contract of the next two tests. Otherwise frequent changes starve all calls.
const NO_RESTART: &str = "a change of the quota must not restart a window";

/// The count or the period changes every 10 or 11 ms, so that no window ends just between two changes.
/// One call for every 20 changes is admitted, and all spent tokens come back. In a sliding window whose
/// period changes, the fading part is rounded up each time.
#[test]
fn quota_that_goes_back_and_forth_goes_on_to_admit() {
    for &algorithm in Algorithm::all() {
        for (count, period, millis) in [(1, 0, 10), (0, 1, 11)] {
            let quota = |more| quota(50 + count * more, 1000 + period * more);
            if period > 0 && algorithm == Algorithm::SlidingWindow {
                continue;
            }
            let run = |limiter: &RateLimiter, clock: &ManualClock, rounds: u64, every: u64| {
                for round in 0..rounds {
                    if every > 0 && round % every == 0 {
                        let admits = limiter.try_acquire().is_ok();
                        assert!(admits, "{NO_RESTART}: {algorithm}, change {round}");
                    }
                    limiter.set_quota(quota(1 - round % 2));
                    clock.advance(Duration::from_millis(millis));
                }
            };
            let (clock, asked) = limiter(algorithm, quota(0));
            run(&asked, &clock, 6000, 20);
            let (clock, spent) = limiter(algorithm, quota(0));
            let most = spent.snapshot().available;
            spent.try_acquire_many(most).unwrap();
            run(&spent, &clock, 220, 0);
            let available = spent.snapshot().available;
            assert_eq!(available, most, "{NO_RESTART}: {algorithm}");
        }
    }
}

/// The period changes far within a window, and each window of the longer one still admits its batch. In
/// a sliding window the fading part is rounded up each time.
#[test]
fn period_that_goes_back_and_forth_within_a_window_ends_it() {
    let others = Algorithm::all()
        .iter()
        .filter(|it| **it != Algorithm::SlidingWindow);
    for &algorithm in others.chain([&PARTS]) {
        let quota = |round| Quota::new(8, Duration::from_nanos(1000 + round % 2)).burst(8);
        let (clock, limiter) = limiter(algorithm, quota(0));
        let mut total = 0;
        for round in 0..1000_u64 {
            total += take(&limiter, 99).count();
            limiter.set_quota(quota(round));
            clock.advance(Duration::from_nanos(11));
        }
        let batch = algorithm.batch(quota(1));
        let least = 11_000 / batch.period().as_nanos() * u128::from(batch.count());
        assert!(
            total as u128 >= least,
            "{NO_RESTART}: {algorithm}, {total} of {least}"
        );
    }
}

/// Each takes everything that it can get, at every nanosecond from some phase of a period on.
#[test]
fn most_in_is_never_exceeded_and_in_about_a_period_reached() {
    let quota = Quota::new(10, Duration::from_nanos(100)).burst(10);
    for &algorithm in Algorithm::all() {
        let runs = (0..100).map(|phase| {
            let clock = Clock::manual();
            clock.advance(Duration::from_nanos(1000 + phase));
            let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
            let mut charges = Vec::new();
            for _ in 0..400 {
                let taken = (0..1000).map_while(|_| limiter.try_acquire().ok());
                charges.extend(taken.map(|charge| (charge.at().as_nanos(), charge.cost())));
                clock.advance(Duration::from_nanos(1));
            }
            charges
        });
        let runs: Vec<_> = runs.collect();
        let mut reached = Vec::new();
        for nanos in [1, 25, 26, 50, 99, 100, 101, 199, 200, 201, 350] {
            let found = runs.iter().map(|charges| fullest(charges, nanos)).max();
            let found = found.expect("there are runs");
            let most = algorithm.most_in(quota, Duration::from_nanos(nanos));
            assert!(
                found <= most,
                "{algorithm}: {found} of {most} in {nanos} ns"
            );
            if found == most {
                reached.push(nanos);
            }
        }
        let tight = reached.contains(&100) || reached.contains(&101);
        assert!(tight, "{algorithm}: {reached:?}");
    }
}

#[test]
fn most_in_at_its_ends_saturates() {
    for &algorithm in Algorithm::all() {
        assert_eq!(algorithm.most_in(TEN.burst(10), Duration::ZERO), 0);
        let fast = Quota::new(1 << 28, Duration::from_nanos(1 << 28)).burst(1 << 28);
        let most = algorithm.most_in(fast, Duration::MAX);
        assert!(most > u64::MAX / 2, "{algorithm}: {most}");
    }
    let most = Algorithm::Gcra.most_in(Quota::UNLIMITED, Duration::from_nanos(2));
    assert_eq!(most, u64::MAX);
}

proptest! {
    #![proptest_config(cases(3500))]

    /// In any time of the shorter period there are no more than the promise of the larger count.
    #[test]
    fn changes_admit_no_more_than_by_the_larger_count(
        algorithm in prop::sample::select([Algorithm::all(), &[PARTS]].concat()),
        steps in prop::collection::vec(
            (prop_oneof![3 => 0..3_u64, 3 => 0..40_u64, 1 => 0..200_u64], 0..12_u64),
            1..60,
        ),
        quotas in prop::collection::vec((5..12_u64, 60..120_u64, 0..30_usize), 0..5),
    ) {
        let quota = |count, nanos| Quota::new(count, Duration::from_nanos(nanos));
        let (clock, limiter) = limiter(algorithm, quota(8, 90));
        let mut changes = quotas.iter();
        let (mut ticks, mut next) = (Vec::new(), changes.next());
        let mut wait = next.map_or(0, |change| change.2);
        for (pause, most) in steps {
            clock.advance(Duration::from_nanos(pause));
            ticks.extend(take(&limiter, most));
            if let Some((count, nanos, _)) = next.filter(|_| wait == 0) {
                limiter.set_quota_with(quota(*count, *nanos), QuotaChange::Proportional);
                next = changes.next();
                wait = next.map_or(0, |change| change.2);
            }
            wait = wait.saturating_sub(1);
        }
        let shortest = quotas.iter().map(|(_, nanos, _)| *nanos).fold(90, u64::min);
        let largest = quotas.iter().map(|(count, ..)| *count).fold(8, u64::max);
        let most = algorithm.most_in(quota(largest, shortest), Duration::from_nanos(shortest));
        let fullest = fullest(&ticks, shortest);
        prop_assert!(fullest <= most, "{fullest} of {most}: {ticks:?}");
    }
}

/// Texts that must not change, because configurations contain them.
const TEXTS: [(Algorithm, &str); 7] = [
    (Algorithm::Gcra, "gcra"),
    (Algorithm::TokenBucket, "token-bucket"),
    (Algorithm::FixedWindow, "fixed-window"),
    (Algorithm::SlidingWindow, "sliding-window"),
    (Algorithm::SlidingLog, "sliding-log"),
    (Algorithm::SubInterval { parts: 1 }, "sub-interval/1"),
    (
        Algorithm::SubInterval { parts: u32::MAX },
        "sub-interval/4294967295",
    ),
];

#[test]
fn text_of_each_algorithm_is_read_again() {
    for (algorithm, text) in TEXTS {
        assert_eq!(algorithm.to_string(), text);
        assert_eq!(text.parse(), Ok(algorithm));
        assert_eq!(format!("{algorithm:>40}"), format!("{text:>40}"));
    }
    for algorithm in Algorithm::all() {
        let is_there = TEXTS
            .iter()
            .any(|(it, _)| variant(it) == variant(algorithm));
        assert!(is_there, "TEXTS has no row of {algorithm}");
        assert_eq!(algorithm.to_string().parse(), Ok(*algorithm));
    }
    assert_eq!(Algorithm::default(), Algorithm::Gcra);
}

fn variant(algorithm: &Algorithm) -> String {
    let debug = format!("{algorithm:?}");
    debug.split(' ').next().unwrap_or_default().to_owned()
}

/// The variants in their notation. Each has a row in the table of `Algorithm`, and is named on the page that
/// helps to choose.
#[test]
fn all_has_each_variant_once_and_described() {
    let source = include_str!("../../src/algorithm/choice.rs");
    let page = include_str!("../../src/guide/choose_an_algorithm.rs");
    let body = source.split("pub enum Algorithm {").nth(1).unwrap();
    let body = body.split("\n}").next().unwrap();
    let written = body.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?.trim_end_matches([',', '{', ' ']);
        let is_name =
            name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
        is_name.then_some(name)
    });
    let written: Vec<_> = written.collect();
    let listed = Algorithm::all().iter().map(variant);
    assert_eq!(listed.collect::<Vec<_>>(), written);
    for name in written {
        let row = format!("/// | [`{name}`](Self::{name}) |");
        assert!(
            source.contains(&row),
            "src/algorithm/choice.rs has no {row}"
        );
        let link = format!("(crate::Algorithm::{name})");
        assert!(page.contains(&link), "choose_an_algorithm.rs has no {link}");
    }
}

#[test]
fn anything_else_is_no_algorithm() {
    let texts = [
        "",
        "GCRA",
        "sliding log",
        " gcra",
        "sub-interval",
        "sub-interval/",
        "sub-interval/+8",
        "sub-interval/-8",
        "sub-interval/8 ",
        "sub-interval/4294967296",
    ];
    for text in texts {
        let error = text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown algorithm, expected gcra, "),
            "{text}: {error}"
        );
        assert!(
            error.contains(" sub-interval/ and a number"),
            "{text}: {error}"
        );
        for algorithm in Algorithm::all() {
            let name = algorithm.to_string();
            let name = name.trim_end_matches(|it: char| it.is_ascii_digit());
            assert!(error.contains(name), "{name}: {error}");
        }
    }
    let error = "leaky-bucket".parse::<Algorithm>().unwrap_err();
    let expected = "a leaky bucket is a type of its own, LeakyBucket, not an algorithm";
    assert_eq!(error.to_string(), expected);
    let error = "sub-interval/0".parse::<Algorithm>().unwrap_err();
    assert_eq!(error.to_string(), "a period cannot be cut into 0 parts");
}

#[test]
fn check_says_whether_a_quota_fits() {
    const { assert!(Algorithm::SlidingLog.check(Quota::per_second(100)).is_ok()) };
    for (algorithm, _) in TEXTS {
        let is_bucket = matches!(algorithm, Algorithm::Gcra | Algorithm::TokenBucket);
        assert_eq!(algorithm.check(TEN.burst(2)).is_ok(), is_bucket);
        let unlimited = algorithm
            .check(Quota::UNLIMITED)
            .map_err(|it| it.to_string());
        let refused = "batches, windows and logs cannot be unlimited, but the quota is unlimited";
        let expected = match algorithm {
            Algorithm::Gcra => Ok(()),
            _ => Err(refused.to_owned()),
        };
        assert_eq!(unlimited, expected);
    }
    assert_eq!(Algorithm::Gcra.batch(Quota::UNLIMITED), Quota::UNLIMITED);
    let limiter = RateLimiter::new(Quota::UNLIMITED).algorithm(Algorithm::Gcra);
    assert!(limiter.quota().is_unlimited());
}

#[cfg(feature = "serde")]
#[test]
fn it_is_a_string_in_a_configuration() {
    use serde_json::{from_str, from_value, to_string};
    for (algorithm, text) in TEXTS {
        let written = to_string(&algorithm).unwrap();
        assert_eq!(written, format!("\"{text}\""));
        assert_eq!(from_str::<Algorithm>(&written).unwrap(), algorithm);
        assert_eq!(from_value::<Algorithm>(text.into()).unwrap(), algorithm);
    }
    let error = from_str::<Algorithm>("\"bucket\"").unwrap_err();
    let expected = "\"bucket\" is no algorithm: unknown algorithm, expected gcra";
    assert!(error.to_string().starts_with(expected), "{error}");
}
