//! Tests of states that decide by themselves.

use proptest::prelude::*;

use super::*;
use crate::{Clock, ErrorKind, RateLimiter};

/// The caller's time: nanoseconds since 1970.
const WALL: Duration = Duration::new(1_800_000_000, 123_456_789);

const MILLISECOND: Duration = Duration::from_millis(1);

/// All algorithms whose state is a record.
fn recorded() -> impl Iterator<Item = Algorithm> {
    let all = Algorithm::all().iter().copied();
    all.filter(|it| *it != Algorithm::SlidingLog)
}

fn admits(state: &mut LimiterState, quota: Quota, now: Duration) -> u64 {
    (0..)
        .take_while(|_| state.take(quota, now, 1).is_ok())
        .count() as u64
}

/// Quotas that every algorithm has, whose tokens are not all whole nanoseconds.
fn quota() -> impl Strategy<Value = Quota> {
    let numbers = (6..40_u64, prop_oneof![Just(1_000_000_000), 100..5_000_u64]);
    (numbers, any::<bool>()).prop_map(|((count, period), bursts)| {
        let quota = Quota::new(count, Duration::from_nanos(period));
        if bursts { quota.burst(count) } else { quota }
    })
}

/// Numbers of all sizes, many of them next to a power of two.
#[cfg(feature = "serde")]
fn number() -> impl Strategy<Value = serde_json::Value> {
    let power = (0..64_u32, -1..2_i64)
        .prop_map(|(bits, by)| (1_u64 << bits).wrapping_add_signed(by).into());
    let negative = (0..63_u32).prop_map(|bits| (-1_i64 << bits).into());
    prop_oneof![power, negative, any::<u64>().prop_map(Into::into)]
}

/// Returns a state with a pause, charges of others, and more charges than fit.
#[cfg(feature = "serde")]
fn with_all_fields(algorithm: Algorithm) -> LimiterState {
    let quota = Quota::per_second(10);
    let mut state = LimiterState::new(algorithm, quota).unwrap();
    state.charge(quota, WALL, 12);
    let growth = Some(crate::algorithm::ledger::Growth {
        told: 3,
        at: Tick::from_nanos(state.at),
        passed: MILLISECOND,
    });
    let until = Tick::from_nanos(state.at + 1_000_000);
    state.pause = Some(PauseState {
        until: until.as_nanos(),
        forced: 1,
    });
    let cost = 4;
    state.others = Some(OthersUse {
        cost,
        until,
        growth,
    });
    state
}

/// Collects the numbers in a value, except the version.
#[cfg(feature = "serde")]
fn numbers_of<'a>(value: &'a mut serde_json::Value, numbers: &mut Vec<&'a mut serde_json::Value>) {
    match value {
        serde_json::Value::Number(_) => numbers.push(value),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|it| numbers_of(it, numbers)),
        serde_json::Value::Object(all) => {
            let all = all.iter_mut().filter(|(name, _)| *name != "version");
            all.for_each(|(_, it)| numbers_of(it, numbers));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// A state decides like a limiter on a clock, refunds included, and a record of it does the same.
    #[test]
    fn take_decides_as_a_limiter_does(
        algorithm in prop::sample::select(Algorithm::all().to_vec()),
        quota in quota(),
        steps in prop::collection::vec((0..8_u8, 0..1_000_u64, 1..9_u64), 1..60),
    ) {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        let mut charges = Vec::new();
        for (what, time, cost) in steps {
            let nanos = quota.period().as_nanos() as u64 * time / 1_000;
            clock.advance(Duration::from_nanos(if what == 0 { 1 } else { nanos / 4 }));
            let now = Duration::from_nanos(clock.now().as_nanos());
            match what {
                1 => if let Some((one, other)) = charges.pop() {
                    limiter.refund(one);
                    state.give_back(&other, other.cost(), now);
                    // A later charge that was refunded is the only one that a state does not remember.
                    charges.clear();
                },
                2 => {
                    limiter.charge(cost);
                    state.charge(quota, now, cost);
                    charges.clear();
                }
                _ => {
                    let due = state.due(quota, now, cost);
                    match (limiter.try_acquire_many(cost), state.take(quota, now, cost)) {
                        (Ok(one), Ok(other)) => {
                            prop_assert_eq!(due, Some(now));
                            prop_assert_eq!(one.at(), other.at());
                            charges.push((one, other));
                        }
                        (Err(one), Err(other)) => {
                            prop_assert_eq!(&one, &other);
                            let wait = other.retry_after();
                            prop_assert_eq!(due, wait.and_then(|wait| now.checked_add(wait)));
                        }
                        differ => prop_assert!(false, "{differ:?}"),
                    }
                }
            }
            if let Some(record) = state.to_bytes() {
                prop_assert_eq!(LimiterState::from_bytes(&record), Ok(state.clone()));
            }
        }
    }

    /// No sequence of bytes panics, and no state that is read panics later.
    #[test]
    fn from_bytes_of_a_changed_record_is_an_error_or_a_state_that_decides(
        changes in prop::collection::vec((6..LimiterState::BYTES - 8, any::<u8>()), 1..4),
    ) {
        for algorithm in recorded() {
            let quota = Quota::per_second(10);
            let mut state = LimiterState::new(algorithm, quota).unwrap();
            state.take(quota, WALL, 1).unwrap();
            let mut record = state.to_bytes().unwrap();
            for (at, byte) in &changes {
                record[*at] ^= *byte;
            }
            let is_changed = record != state.to_bytes().unwrap();
            prop_assert_eq!(LimiterState::from_bytes(&record).is_err(), is_changed);
            if let Ok(mut state) = LimiterState::from_bytes(&record::summed(record)) {
                for now in [Duration::ZERO, WALL, Duration::MAX] {
                    let quota = state.quota();
                    let _ = state.take(quota, now, 1);
                    state.charge(quota, now, u64::MAX);
                    let _ = state.due(quota, now, 1);
                }
            }
        }
    }

    /// No numbers in JSON panic, and no state that is read panics later, by itself or in a limiter.
    #[cfg(feature = "serde")]
    #[test]
    fn deserialize_of_changed_numbers_is_an_error_or_a_state_that_decides(
        changes in prop::collection::vec((0..64_usize, number()), 1..5),
        now in prop_oneof![Just(Duration::ZERO), Just(WALL), Just(Duration::MAX)],
    ) {
        for algorithm in Algorithm::all().iter().copied() {
            let mut value = serde_json::to_value(with_all_fields(algorithm)).unwrap();
            for (at, number) in &changes {
                let mut numbers = Vec::new();
                numbers_of(&mut value, &mut numbers);
                let at = at % numbers.len();
                *numbers[at] = number.clone();
            }
            let Ok(mut state) = serde_json::from_value::<LimiterState>(value) else {
                continue;
            };
            let quota = state.quota();
            let clock = Clock::manual();
            clock.advance(Duration::from_secs(1));
            let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
            let elapsed = Duration::from_secs(changes.len() as u64);
            let limiter = limiter.restore(&state, elapsed).unwrap();
            for time in [now, WALL] {
                let _ = limiter.try_acquire();
                limiter.charge(1 << 40);
                clock.advance(Duration::from_secs(1));
                let _ = limiter.snapshot();
                let _ = limiter.state();
                let taken = state.take(quota, time, 1);
                if let Ok(charge) = taken {
                    state.give_back(&charge, 1, time);
                }
                state.charge(quota, time, 1 << 40);
                let _ = state.due(quota, time, 1);
            }
        }
    }

    /// The time that was spent is at most the time that has passed and the longest burst.
    #[test]
    fn take_by_two_quotas_mints_nothing(
        quotas in prop::array::uniform2((1..50_u64, 4..2_000_u64, 1..20_u64)),
        steps in prop::collection::vec((0..2_usize, 0..400_u64), 1..200),
    ) {
        let quotas = quotas.map(|(count, period, burst)| {
            Quota::try_new(count, Duration::from_nanos(period), burst).unwrap()
        });
        // Numerators of times, of which each quota has its own denominator.
        let price = |quota: Quota| quota.period().as_nanos() as f64 / quota.count() as f64;
        let longest = quotas.map(|quota| price(quota) * quota.max_burst() as f64);
        let mut state = LimiterState::new(Algorithm::Gcra, quotas[0]).unwrap();
        let (mut now, mut spent) = (WALL, 0.0);
        for (user, time) in steps {
            now += Duration::from_nanos(time);
            while state.take(quotas[user], now, 1).is_ok() {
                spent += price(quotas[user]);
            }
            let passed = (now - WALL).as_nanos() as f64;
            let most = passed + 1.0 + longest[0].max(longest[1]);
            prop_assert!(spent <= most * (1.0 + 1e-9), "{spent} in {passed}, {quotas:?}");
        }
    }
}

#[test]
fn take_at_once_admits_the_burst() {
    for algorithm in recorded() {
        let quota = Quota::per_hour(12).burst(12);
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        let most = algorithm.batch(quota).max_burst();
        assert_eq!(admits(&mut state, quota, WALL), most, "{algorithm}");
        let refused = state.take(quota, WALL, most + 1).unwrap_err();
        assert_eq!(refused, AcquireError::exceeds_capacity(most));
        assert_eq!(state.due(quota, WALL, most + 1), None);
        assert!(state.take(quota, WALL, 0).is_ok());
        assert_eq!(
            state.take(quota, WALL, 1).unwrap_err().kind(),
            ErrorKind::RateLimited
        );
    }
}

/// A day at a time, ten times.
#[test]
fn take_with_a_clock_that_jumps_forth_and_back_admits_a_burst_for_each_jump_forth() {
    let day = Duration::from_secs(86_400);
    for algorithm in Algorithm::all().iter().copied() {
        let quota = Quota::per_minute(12).burst(12);
        let most = algorithm.batch(quota).max_burst();
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        assert_eq!(admits(&mut state, quota, WALL), most, "{algorithm}");
        for jump in 1..11_u32 {
            let now = WALL + MILLISECOND * jump;
            assert_eq!(admits(&mut state, quota, now + day), most, "{algorithm}");
            // What was charged a day later is owed now.
            assert_eq!(admits(&mut state, quota, now), 0, "{algorithm}");
            let due = state.due(quota, now, most).unwrap();
            // A sliding window counts the previous one, too.
            let windows = 2 + u32::from(algorithm == Algorithm::SlidingWindow);
            assert!(
                due <= now + windows * quota.period(),
                "{algorithm}: {due:?}"
            );
        }
    }
}

#[test]
fn take_at_an_earlier_time_counts_from_there() {
    let quota = Quota::per_second(1);
    let mut state = LimiterState::new(Algorithm::Gcra, quota).unwrap();
    state.take(quota, WALL, 1).unwrap();
    let earlier = WALL - Duration::from_secs(3600);
    let refused = state.take(quota, earlier, 1).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    // The refusal is remembered: time goes on from the earlier time.
    let later = earlier + Duration::from_millis(600);
    let refused = state.take(quota, later, 1).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(400)));
    state
        .take(quota, later + Duration::from_millis(400), 1)
        .unwrap();
}

/// The window began so long ago that the time since then is more than a tick can be.
#[test]
fn take_at_the_last_time_in_a_window_from_before_the_epoch_is_admitted() {
    let quota = Quota::per_second(10);
    let mut state = LimiterState::new(Algorithm::FixedWindow, quota).unwrap();
    state.take(quota, WALL, 10).unwrap();
    let Owed::Backlog { start, .. } = &mut state.owed else {
        panic!("{state:?}");
    };
    *start = -(1 << 60);
    state.epoch = -1;
    assert!(state.take(quota, Duration::MAX, 10).is_ok());
}

#[test]
fn take_in_a_window_at_an_earlier_time_keeps_the_ends_of_windows() {
    let quota = Quota::per_hour(10);
    let hour = quota.period();
    let begin = hour * 500_000;
    for algorithm in [Algorithm::FixedWindow, Algorithm::TokenBucket] {
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        state.take(quota, begin + hour / 2, 10).unwrap();
        for earlier in [begin, begin - hour / 4, begin - hour * 7 / 4] {
            let next = begin + hour - hour * (begin - earlier).div_duration_f64(hour) as u32;
            assert_eq!(state.due(quota, earlier, 1), Some(next), "{algorithm}");
            let refused = state.take(quota, earlier, 1).unwrap_err();
            assert_eq!(refused.retry_after(), Some(next - earlier), "{algorithm}");
        }
    }
}

#[test]
fn take_in_a_window_after_a_small_step_back_over_its_beginning_admits_nothing_more() {
    let quota = Quota::per_hour(12);
    let begin = quota.period() * 500_000;
    for algorithm in [Algorithm::FixedWindow, Algorithm::TokenBucket] {
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        let mut admitted = 0;
        for _ in 0..5 {
            admitted += admits(&mut state, quota, begin - MILLISECOND);
            admitted += admits(&mut state, quota, begin + MILLISECOND);
        }
        assert_eq!(admitted, 2 * 12, "{algorithm}");
        let due = state.due(quota, begin + MILLISECOND, 1);
        assert_eq!(due, Some(begin + quota.period()), "{algorithm}");
    }
}

/// The same tickets, at other times: many years after the epoch of the caller, or soon.
#[test]
fn give_back_of_a_charge_of_another_state_gives_nothing_back() {
    for (algorithm, begin) in Algorithm::all()
        .iter()
        .flat_map(|&it| [(it, WALL), (it, Duration::ZERO)])
    {
        let quota = Quota::per_hour(12).burst(12);
        let most = algorithm.batch(quota).max_burst();
        let [mut one, mut other] = [(), ()].map(|()| LimiterState::new(algorithm, quota).unwrap());
        let charge = one.take(quota, begin, most).unwrap();
        let later = begin + MILLISECOND;
        assert_eq!(admits(&mut other, quota, later), most, "{algorithm}");
        other.give_back(&charge, most, later);
        assert_eq!(admits(&mut other, quota, later), 0, "{algorithm}");
    }
}

/// A process whose clock is late gives back a charge that has been paid off for the others.
#[test]
fn give_back_by_an_older_clock_mints_nothing() {
    for algorithm in recorded() {
        let quota = Quota::per_minute(12).burst(12);
        let most = algorithm.batch(quota).max_burst();
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        let charge = state.take(quota, WALL, most).unwrap();
        let later = WALL + 10 * quota.period();
        assert_eq!(admits(&mut state, quota, later), most, "{algorithm}");
        state.give_back(&charge, most, WALL);
        assert_eq!(admits(&mut state, quota, later), 0, "{algorithm}");
    }
}

#[test]
fn give_back_at_once_returns_the_whole_charge() {
    for algorithm in Algorithm::all().iter().copied() {
        let quota = Quota::per_hour(12).burst(12);
        let most = algorithm.batch(quota).max_burst();
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        let charge = state.take(quota, WALL, most).unwrap();
        assert_eq!(charge.at().as_nanos(), WALL.as_nanos() as u64);
        state.give_back(&charge, most, WALL);
        assert_eq!(admits(&mut state, quota, WALL), most, "{algorithm}");
    }
}

/// A charge is at the price of the quota that made it.
#[test]
fn take_by_another_quota_keeps_the_end_of_the_backlog() {
    let [slow, fast] = [
        Quota::per_second(1).burst(3),
        Quota::per_second(10).burst(10),
    ];
    let mut state = LimiterState::new(Algorithm::Gcra, slow).unwrap();
    let spent_by_slow = state.take(slow, WALL, 1).unwrap();
    // A second is owed, which is the whole burst of the fast one.
    let refused = state.take(fast, WALL, 1).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    let now = WALL + Duration::from_millis(200);
    state.take(fast, now, 2).unwrap();
    assert_eq!(
        state.due(slow, now, 3),
        Some(WALL + Duration::from_millis(1200))
    );
    // It is from before a call with another quota.
    let before = state.clone();
    state.give_back(&spent_by_slow, 1, now);
    assert_eq!(state, before);
}

#[test]
fn take_by_another_quota_of_windows_keeps_the_number() {
    let [few, many] = [Quota::per_hour(4), Quota::per_hour(10)];
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::SlidingWindow,
    ] {
        let mut state = LimiterState::new(algorithm, few).unwrap();
        assert_eq!(admits(&mut state, few, WALL), 4);
        assert_eq!(admits(&mut state, many, WALL), 6, "{algorithm}");
        assert_eq!(admits(&mut state, few, WALL), 0, "{algorithm}");
    }
}

#[test]
fn take_in_windows_counts_them_from_the_epoch_of_the_caller() {
    let quota = Quota::per_day(3);
    let midnight = Duration::from_secs(86_400) * 20_833;
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        assert_eq!(admits(&mut state, quota, midnight - MILLISECOND), 3);
        let due = state.due(quota, midnight - MILLISECOND, 1).unwrap();
        assert!(due >= midnight);
        assert_eq!(algorithm == Algorithm::FixedWindow, due == midnight);
    }
}

#[test]
fn take_after_more_than_all_time_owes_nothing() {
    for algorithm in Algorithm::all().iter().copied() {
        let quota = Quota::per_second(10).burst(10);
        let most = algorithm.batch(quota).max_burst();
        let mut state = LimiterState::new(algorithm, quota).unwrap();
        for now in [Duration::ZERO, WALL, WALL * 4] {
            assert_eq!(
                admits(&mut state, quota, now),
                most,
                "{algorithm} at {now:?}"
            );
        }
    }
}

#[test]
fn take_of_the_largest_quotas_is_exact() {
    let dense = Quota::new(16_000_000_000, Duration::from_secs(1)).burst(1 << 56);
    let rare = Quota::new(1, Duration::from_nanos(1 << 57));
    for quota in [dense, rare] {
        let mut state = LimiterState::new(Algorithm::Gcra, quota).unwrap();
        state.take(quota, WALL, quota.max_burst()).unwrap();
        let record = state.to_bytes().unwrap();
        let mut state = LimiterState::from_bytes(&record).unwrap();
        let token = (quota.period_nanos() / quota.count()).max(1);
        let due = WALL + Duration::from_nanos(token);
        assert_eq!(state.due(quota, WALL, 1), Some(due));
        assert!(state.take(quota, due - Duration::from_nanos(1), 1).is_err());
        state.take(quota, due, 1).unwrap();
    }
    let mut state = LimiterState::new(Algorithm::Gcra, Quota::UNLIMITED).unwrap();
    state.take(Quota::UNLIMITED, WALL, u64::MAX).unwrap();
}

#[test]
fn from_bytes_of_no_record_is_an_error() {
    let quota = Quota::per_second(10);
    let record = LimiterState::new(Algorithm::Gcra, quota)
        .unwrap()
        .to_bytes()
        .unwrap();
    for garbage in [&[][..], &[0; 160], &[0xff; 160], b"tgls", &record[..159]] {
        assert_eq!(
            LimiterState::from_bytes(garbage),
            Err(RestoreError::Garbage)
        );
    }
    let mut later = record;
    later[4] = 2;
    assert_eq!(
        LimiterState::from_bytes(&later),
        Err(RestoreError::Version { found: 2 })
    );
    let log = LimiterState::new(Algorithm::SlidingLog, quota).unwrap();
    assert_eq!(log.to_bytes(), None);
}
