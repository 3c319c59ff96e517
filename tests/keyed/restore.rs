//! Maps that go on from the states of the keys of another one.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::RestoreError;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Keyed, Quota, RateLimiter};

type Users = Keyed<u64, RateLimiter>;

const KEYS: [u64; 4] = [1, 2, 3, 4];

fn by_word() -> Vec<Algorithm> {
    let all = Algorithm::all().iter().copied();
    all.filter(|it| it.keeps_a_word()).collect()
}

fn users(algorithm: Algorithm, quota: Quota, clock: &ManualClock) -> Users {
    Keyed::new(RateLimiter::new(quota).algorithm(algorithm).clock(clock))
}

fn clock_at(nanos: u64) -> ManualClock {
    let clock = Clock::manual();
    clock.advance(Duration::from_nanos(nanos));
    clock
}

/// What a caller sees of each key.
fn seen(users: &Users) -> Vec<(u64, u64, Option<Duration>, Duration)> {
    let peek = |key: &u64| users.key(key).peek_many(2);
    let peeks = KEYS.iter().map(peek);
    peeks
        .map(|it| (it.limit, it.remaining, it.retry_after, it.reset_after))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Changes of the period begin windows at the multiples of the new one, on either clock.
    #[test]
    fn restore_on_another_clock_decides_as_if_it_had_never_stopped(
        algorithm in prop::sample::select(by_word()),
        numbers in prop::array::uniform2((6..12_u64, 1..40_u64)),
        parts in prop::collection::vec(
            (prop::collection::vec((0..20_u8, 0..900_u64, 1..9_u64), 1..20), 0..10_000_u64),
            1..4,
        ),
    ) {
        let quotas = numbers.map(|(count, token)| {
            Quota::new(count, Duration::from_nanos(count * token)).burst(count)
        });
        let [never_stopped, mut clock] = [0, 0].map(clock_at);
        let one = users(algorithm, quotas[0], &never_stopped);
        let mut other = users(algorithm, quotas[0], &clock);
        for (steps, more) in parts {
            for (what, time, cost) in steps {
                never_stopped.advance(Duration::from_nanos(time));
                clock.advance(Duration::from_nanos(time));
                for users in [&one, &other] {
                    let key = users.key(&KEYS[time as usize % KEYS.len()]);
                    match what {
                        0 => users.set_quota(quotas[cost as usize % 2]),
                        1 => drop(key.charge(cost).unwrap()),
                        2 => if let Ok(charge) = key.try_acquire_many(cost) {
                            key.refund(charge);
                        },
                        3 => drop(key.reserve()),
                        _ => drop(key.try_acquire_many(cost)),
                    }
                }
                prop_assert_eq!(seen(&one), seen(&other));
            }
            let states: Vec<_> = other.states().collect();
            let (quota, elapsed) = (other.quota(), Duration::from_nanos(more % 700));
            never_stopped.advance(elapsed);
            // Without a key that owes something, nobody knows where windows begin.
            let is_known = !states.is_empty();
            clock = clock_at(if is_known { more } else { never_stopped.now().as_nanos() });
            other = users(algorithm, quota, &clock).restore(states, elapsed).unwrap();
            prop_assert_eq!(seen(&one), seen(&other));
        }
    }
}

#[test]
fn restore_of_windows_keeps_one_offset_for_all_keys() {
    let hour = Duration::from_secs(3600);
    let clock = clock_at(0);
    let before = users(Algorithm::FixedWindow, Quota::per_hour(3), &clock);
    clock.advance(hour / 4);
    for key in [1, 2] {
        before.key(&key).try_acquire_many(3).unwrap();
    }
    let clock = clock_at(5);
    let after = users(Algorithm::FixedWindow, Quota::per_hour(3), &clock);
    let after = after.restore(before.states(), hour / 4).unwrap();
    // A new key is in the window of the others.
    after.key(&3).try_acquire_many(3).unwrap();
    for key in [1, 2, 3] {
        assert_eq!(after.key(&key).peek().retry_after, Some(hour / 2));
    }
    clock.advance(hour / 2);
    for key in [1, 2, 3] {
        after.key(&key).try_acquire_many(3).unwrap();
        assert_eq!(after.key(&key).peek().retry_after, Some(hour));
    }
}

#[test]
fn restore_of_more_keys_than_fit_keeps_those_that_owe_most() {
    let quota = Quota::per_second(1).burst(100);
    let before = users(Algorithm::Gcra, quota, &clock_at(0));
    for key in 0..100 {
        before
            .key(&key)
            .try_acquire_many(1 + key * 37 % 100)
            .unwrap();
    }
    let after = users(Algorithm::Gcra, quota, &clock_at(0)).max_keys(10);
    let after = after.restore(before.states(), Duration::ZERO).unwrap();
    let mut kept: Vec<_> = after
        .keys()
        .map(|key| after.key(&key).snapshot().in_use)
        .collect();
    kept.sort_unstable();
    assert_eq!(kept, Vec::from_iter(91..=100));
}

#[test]
fn restore_of_keys_with_quotas_of_their_own_carries_them_over() {
    let quota_of = |key: &u64| Quota::per_second(*key).burst(10 * key);
    let pattern = || users(Algorithm::Gcra, Quota::per_second(1), &clock_at(0));
    let before = pattern().quotas(quota_of);
    for key in KEYS {
        before.key(&key).try_acquire_many(5 * key).unwrap();
    }
    let states: Vec<_> = before.states().collect();
    assert_eq!(states.len(), KEYS.len());
    let same = pattern()
        .quotas(quota_of)
        .restore(states.clone(), Duration::ZERO)
        .unwrap();
    let twice = pattern().quotas(move |key| quota_of(&(2 * key)));
    let twice = twice.restore(states, Duration::ZERO).unwrap();
    for key in KEYS {
        assert_eq!(same.key(&key).snapshot().available, 5 * key);
        assert_eq!(twice.key(&key).snapshot().available, 10 * key);
    }
}

#[test]
fn states_of_keys_with_waiters_have_what_they_owe() {
    let clock = clock_at(0);
    let before = users(Algorithm::Gcra, Quota::per_second(1), &clock);
    before.key(&1).charge(3).unwrap();
    let key = before.key(&1);
    let waits = key.reserve().unwrap();
    let after = users(Algorithm::Gcra, Quota::per_second(1), &clock_at(0));
    let after = after
        .restore(before.states(), Duration::from_secs(1))
        .unwrap();
    assert_eq!(
        after.key(&1).peek().retry_after,
        Some(Duration::from_secs(2))
    );
    assert_eq!(after.len(), 1);
    drop(waits);
}

#[test]
fn restore_of_another_algorithm_is_an_error() {
    let before = users(Algorithm::Gcra, Quota::per_second(2), &clock_at(0));
    before.key(&1).try_acquire().unwrap();
    let after = users(Algorithm::FixedWindow, Quota::per_second(2), &clock_at(0));
    let error = after.restore(before.states(), Duration::ZERO).unwrap_err();
    let (found, expected) = (Algorithm::Gcra, Algorithm::FixedWindow);
    assert_eq!(error, RestoreError::Algorithm { found, expected });
}

#[test]
fn restore_of_nothing_is_a_new_map() {
    let after = users(Algorithm::FixedWindow, Quota::per_second(2), &clock_at(0));
    let after = after.restore([], Duration::MAX).unwrap();
    after.key(&1).try_acquire_many(2).unwrap();
    assert_eq!(after.states().count(), 1);
}

#[cfg(feature = "tokio")]
#[test]
fn restore_on_tokio_time_is_in_every_runtime() {
    let before = users(Algorithm::FixedWindow, Quota::per_hour(2), &clock_at(0));
    before.key(&1).try_acquire_many(2).unwrap();
    let pattern = RateLimiter::new(Quota::per_hour(2)).algorithm(Algorithm::FixedWindow);
    let after = Users::new(pattern.clock(Clock::tokio()))
        .restore(before.states(), Duration::ZERO)
        .unwrap();
    for _ in 0..2 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { assert!(after.key(&1).try_acquire().is_err()) });
    }
}
