//! Limiters that go on from the state of another one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::{LimiterState, QuotaChange, RestoreError};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(algorithm: Algorithm, quota: Quota, clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(quota).algorithm(algorithm).clock(clock)
}

/// Returns a clock that has run for some time.
fn clock_at(nanos: u64) -> ManualClock {
    let clock = Clock::manual();
    clock.advance(Duration::from_nanos(nanos));
    clock
}

fn admitted(limiter: &RateLimiter) -> u64 {
    (0..).take_while(|_| limiter.try_acquire().is_ok()).count() as u64
}

/// A kind of step, the time before it, and a cost.
type Step = (u8, u64, u64);

/// A limiter, and the clock that it follows.
struct Side {
    clock: ManualClock,
    limiter: RateLimiter,
}

/// Does the same on a limiter that was never stopped and on a restored one. Everything that a caller sees is equal.
fn step(sides: &[Side; 2], quotas: [Quota; 2], (what, time, cost): Step) {
    let period = quotas[0].period().as_nanos() as u64;
    let seen = sides.each_ref().map(|Side { clock, limiter }| {
        clock.advance(Duration::from_nanos(match time {
            0..9 => time,
            _ => period * time / 1_000,
        }));
        match what {
            0 => drop(limiter.charge(cost)),
            1 => limiter.pause_for(Duration::from_nanos(period * time / 700)),
            2 => limiter.resume(),
            3 => limiter.set_quota(quotas[cost as usize % 2]),
            4 => limiter.set_quota_with(quotas[cost as usize % 2], QuotaChange::KeepSpent),
            5 => {
                if let Ok(charge) = limiter.try_acquire_many(cost) {
                    limiter.refund(charge);
                }
            }
            6 => {
                if let Ok(charge) = limiter.try_acquire_many(cost) {
                    limiter.settle(charge, cost / 2);
                }
            }
            _ => {}
        }
        let since = clock.now();
        let taken = limiter.try_acquire_many(cost);
        let taken = taken.map(|charge| charge.at().saturating_since(since));
        let (peek, snapshot) = (limiter.peek_many(cost), limiter.snapshot());
        let paused = limiter
            .paused_until()
            .map(|until| until.saturating_since(since));
        let peek = (
            peek.limit,
            peek.remaining,
            peek.retry_after,
            peek.reset_after,
        );
        (taken, peek, (snapshot.in_use, snapshot.available), paused)
    });
    let [one, other] = seen;
    assert_eq!(one, other, "after {what}, {time}, {cost}");
}

/// Quotas whose token is a whole number of nanoseconds. A nanosecond is then a unit on every clock.
fn even_quota() -> impl Strategy<Value = Quota> {
    (6..12_u64, 1..400_u64, any::<bool>()).prop_map(|(count, token, bursts)| {
        let quota = Quota::new(count, Duration::from_nanos(count * token));
        if bursts { quota.burst(count) } else { quota }
    })
}

fn uneven_quota() -> impl Strategy<Value = Quota> {
    (6..60_u64, 60..5_000_u64)
        .prop_map(|(count, period)| Quota::new(count, Duration::from_nanos(period)).burst(count))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..24_u8, 0..2_000_u64, 1..13_u64), 1..40)
}

/// Restores several times, on the clocks that `next_clock` returns.
fn check(
    algorithm: Algorithm,
    quotas: [Quota; 2],
    parts: Vec<(Vec<Step>, u64)>,
    next_clock: impl Fn(&ManualClock, u64) -> ManualClock,
) {
    let sides = |clock: ManualClock| {
        let limiter = limiter(algorithm, quotas[0], &clock);
        Side { clock, limiter }
    };
    let mut sides = [clock_at(0), clock_at(0)].map(sides);
    for (steps, more) in parts {
        for part in steps {
            step(&sides, quotas, part);
        }
        let [stays, stops] = &mut sides;
        let quota = stops.limiter.quota();
        let state = stops.limiter.state();
        let elapsed =
            Duration::from_nanos(quota.period().as_nanos() as u64 * (more % 3_000) / 1_000);
        stays.clock.advance(elapsed);
        stops.clock.advance(elapsed);
        let clock = next_clock(&stops.clock, more);
        let restored = limiter(algorithm, quota, &clock)
            .restore(&state, elapsed)
            .unwrap();
        sides[1] = Side {
            clock,
            limiter: restored,
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The clock of the new process begins anywhere.
    #[test]
    fn restore_on_another_clock_decides_as_if_it_had_never_stopped(
        algorithm in prop::sample::select(Algorithm::all().to_vec()),
        quota in even_quota(),
        parts in prop::collection::vec((steps(), 0..100_000_u64), 1..5),
    ) {
        let other = quota;
        check(algorithm, [quota, other], parts, |_, more| clock_at(more / 3));
    }

    /// A unit is a part of a nanosecond, so the clock is the same.
    #[test]
    fn restore_of_any_quota_on_the_same_clock_decides_as_if_it_had_never_stopped(
        algorithm in prop::sample::select(Algorithm::all().to_vec()),
        quotas in prop::array::uniform2(uneven_quota()),
        parts in prop::collection::vec((steps(), 0..100_000_u64), 1..5),
    ) {
        check(algorithm, quotas, parts, |clock, _| clock_at(clock.now().as_nanos()));
    }

    /// Never earlier, and at most a nanosecond later.
    #[test]
    fn restore_of_any_quota_on_another_clock_is_due_within_a_nanosecond(
        quota in uneven_quota(),
        used in 1..500_u64,
        times in prop::array::uniform3(0..10_000_u64),
    ) {
        let one = clock_at(times[0]);
        let stays = limiter(Algorithm::Gcra, quota, &one);
        stays.charge(used);
        let (state, elapsed) = (stays.state(), Duration::from_nanos(times[1]));
        one.advance(elapsed);
        let clock = clock_at(times[2]);
        let restored = limiter(Algorithm::Gcra, quota, &clock).restore(&state, elapsed).unwrap();
        let due = |limiter: &RateLimiter| limiter.peek().retry_after.unwrap();
        let (exact, due) = (due(&stays), due(&restored));
        let most = exact + Duration::from_nanos(1);
        prop_assert!(exact <= due && due <= most, "{due:?}, not {exact:?}");
    }

    /// The state of a limiter with open holds is that after they were dropped.
    #[test]
    fn state_with_holds_counts_their_whole_cost(
        algorithm in prop::sample::select(Algorithm::all().to_vec()),
        quota in even_quota(),
        calls in prop::collection::vec((0..4_u8, 0..900_u64, 1..5_u64), 1..20),
    ) {
        let clock = clock_at(0);
        let holds = limiter(algorithm, quota, &clock);
        let mut open = Vec::new();
        for (what, time, cost) in calls {
            clock.advance(Duration::from_nanos(quota.period().as_nanos() as u64 * time / 1_000));
            match what {
                0 => holds.pause_for(quota.period() / 4),
                1 => drop(holds.charge(cost)),
                _ => if let Ok(charge) = holds.try_acquire_many(cost) {
                    open.push(holds.hold(charge));
                },
            }
        }
        let state = holds.state();
        drop(open);
        prop_assert_eq!(without_refunds(holds.state()), without_refunds(state));
    }
}

/// Charges from before the epoch of the clock are paid off while the limiter is paused, and the pause ends
/// before its time.
#[test]
fn resume_of_a_restored_log_forgets_only_what_is_paid_off() {
    let quota = Quota::per_second(8);
    let one = clock_at(5_000_000_000);
    let stays = limiter(Algorithm::SlidingLog, quota, &one);
    for _ in 0..4 {
        stays.try_acquire().unwrap();
        one.advance(SECOND / 10);
    }
    let other = clock_at(0);
    let restored = limiter(Algorithm::SlidingLog, quota, &other);
    let restored = restored.restore(&stays.state(), Duration::ZERO).unwrap();
    for (clock, limiter) in [(&one, &stays), (&other, &restored)] {
        clock.advance(SECOND / 2);
        limiter.try_acquire_many(2).unwrap();
        limiter.pause_for(5 * SECOND);
        clock.advance(SECOND);
        limiter.charge(1);
        clock.advance(SECOND / 4);
        limiter.resume();
    }
    for cost in 1..9 {
        let [one, other] = [&stays, &restored].map(|it| it.peek_many(cost).retry_after);
        assert_eq!(one, other);
    }
}

/// Returns what is owed, without the numbers of charges.
fn without_refunds(state: LimiterState) -> (u64, Option<Duration>, Duration) {
    let (algorithm, quota) = (state.algorithm(), state.quota());
    let limiter = RateLimiter::new(quota)
        .algorithm(algorithm)
        .clock(Clock::manual());
    let decision = limiter.restore(&state, Duration::ZERO).unwrap().peek();
    (
        decision.remaining,
        decision.retry_after,
        decision.reset_after,
    )
}

/// governor#179: each start of a program began with a whole burst, or lost the part of a call.
#[test]
fn restore_fifteen_times_admits_what_one_process_would() {
    let quota = Quota::per_minute(30).burst(15);
    let run = |limiter: &RateLimiter| {
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| count.fetch_add(admitted(limiter), Ordering::Relaxed));
            }
        });
        count.into_inner()
    };
    // Fifteen starts within 30 seconds: a burst of 15, and 15 more.
    let (mut total, mut state) = (0, None);
    for start in 0..16_u32 {
        let pattern = RateLimiter::new(quota).clock(Clock::manual());
        let limiter = match &state {
            None => pattern,
            Some(state) => pattern
                .restore(state, 2 * SECOND - Duration::from_nanos(7))
                .unwrap(),
        };
        total += run(&limiter);
        state = Some(limiter.state());
        // A start takes a part of a call.
        assert_eq!(
            total,
            if start == 0 {
                15
            } else {
                15 + u64::from(start) - 1
            }
        );
    }
    let last = RateLimiter::new(quota).clock(Clock::manual());
    let last = last
        .restore(&state.unwrap(), Duration::from_nanos(7 * 15))
        .unwrap();
    total += run(&last);
    assert_eq!(total, 30);
}

#[test]
fn restore_after_more_than_all_time_owes_nothing() {
    for &algorithm in Algorithm::all() {
        let quota = Quota::per_second(10).burst(10);
        let before = limiter(algorithm, quota, &clock_at(5));
        let most = admitted(&before);
        let state = before.state();
        for elapsed in [
            Duration::MAX,
            Duration::from_nanos(u64::MAX),
            1_000_000_000 * SECOND,
        ] {
            let after = limiter(algorithm, quota, &clock_at(3))
                .restore(&state, elapsed)
                .unwrap();
            assert_eq!(admitted(&after), most, "{algorithm} after {elapsed:?}");
        }
    }
}

#[test]
fn restore_at_once_owes_everything() {
    for &algorithm in Algorithm::all() {
        let quota = Quota::per_second(10).burst(10);
        let before = limiter(algorithm, quota, &clock_at(1_234_567_890));
        before.charge(25);
        let after = limiter(algorithm, quota, &clock_at(0));
        let after = after.restore(&before.state(), Duration::ZERO).unwrap();
        assert_eq!(
            after.peek().retry_after,
            before.peek().retry_after,
            "{algorithm}"
        );
    }
}

#[test]
fn restore_with_another_quota_carries_it_over_as_set_quota() {
    for &algorithm in Algorithm::all() {
        let [old, new] = [
            Quota::per_second(10).burst(10),
            Quota::per_second(20).burst(20),
        ];
        let clock = clock_at(7 * 1_000_000_000);
        let before = limiter(algorithm, old, &clock);
        before.charge(before.snapshot().limit - 1);
        let state = before.state();
        clock.advance(SECOND / 20);
        before.set_quota(new);
        let after = limiter(algorithm, new, &clock_at(0))
            .restore(&state, SECOND / 20)
            .unwrap();
        for cost in 1..5 {
            let [one, other] = [&before, &after].map(|it| it.peek_many(cost).retry_after);
            assert_eq!(one, other, "{algorithm}");
        }
        assert_eq!(before.snapshot(), after.snapshot(), "{algorithm}");
    }
}

#[test]
fn restore_of_another_algorithm_is_an_error() {
    let state = RateLimiter::new(Quota::per_second(10)).state();
    let other = RateLimiter::new(Quota::per_second(10)).algorithm(Algorithm::SlidingLog);
    let error = other.restore(&state, Duration::ZERO).unwrap_err();
    let (found, expected) = (Algorithm::Gcra, Algorithm::SlidingLog);
    assert_eq!(error, RestoreError::Algorithm { found, expected });
    let four =
        RateLimiter::new(Quota::per_second(10)).algorithm(Algorithm::SubInterval { parts: 4 });
    let five =
        RateLimiter::new(Quota::per_second(10)).algorithm(Algorithm::SubInterval { parts: 5 });
    assert!(five.restore(&four.state(), Duration::ZERO).is_err());
}

#[test]
fn restore_of_the_largest_quotas_is_exact() {
    let largest = Quota::new(16, Duration::from_nanos(1)).burst(1 << 56);
    let rarest = Quota::new(1, Duration::from_nanos(1 << 57));
    for quota in [largest, rarest] {
        let before = limiter(Algorithm::Gcra, quota, &clock_at(1 << 40));
        before.try_acquire_many(quota.max_burst()).unwrap();
        let elapsed = Duration::from_nanos(5);
        let after = limiter(Algorithm::Gcra, quota, &clock_at(9))
            .restore(&before.state(), elapsed)
            .unwrap();
        let back = 5 * quota.count() / quota.period().as_nanos() as u64;
        assert_eq!(after.snapshot().available, back);
    }
    let before = RateLimiter::new(Quota::UNLIMITED);
    before.try_acquire_many(u64::MAX).unwrap();
    let after = RateLimiter::new(Quota::UNLIMITED)
        .restore(&before.state(), SECOND)
        .unwrap();
    after.try_acquire_many(u64::MAX).unwrap();
}

/// A reading is of one moment: it has neither half of a decision, nor a decision that came later.
#[test]
fn state_beside_other_threads_is_of_one_moment() {
    for &algorithm in Algorithm::all() {
        let quota = Quota::per_hour(20_000).burst(20_000);
        let clock = clock_at(0);
        let shared = limiter(algorithm, quota, &clock);
        let most = shared.snapshot().limit;
        let (begun, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        begun.fetch_add(1, Ordering::SeqCst);
                        if shared.try_acquire().is_ok() {
                            done.fetch_add(1, Ordering::SeqCst);
                        } else {
                            begun.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for _ in 0..20 {
                let least = done.load(Ordering::SeqCst);
                let state = shared.state();
                let beyond = begun.load(Ordering::SeqCst);
                let restored =
                    limiter(algorithm, quota, &clock_at(0)).restore(&state, Duration::ZERO);
                let used = most - restored.unwrap().snapshot().available;
                assert!(
                    least <= used && used <= beyond,
                    "{algorithm}: {least} {used} {beyond}"
                );
            }
            stop.store(true, Ordering::SeqCst);
        });
    }
}

#[cfg(feature = "serde")]
#[test]
fn state_in_json_is_the_same_state() {
    for &algorithm in Algorithm::all() {
        let limiter = limiter(
            algorithm,
            Quota::per_second(100).burst(100),
            &clock_at(u64::MAX >> 6),
        );
        limiter.charge(1);
        for _ in 0..3 {
            let state = limiter.state();
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(
                serde_json::from_str::<LimiterState>(&text).unwrap(),
                state,
                "{text}"
            );
            // A log takes at most 20 bytes for each charge.
            let used = limiter.snapshot().in_use as usize;
            let log = if algorithm == Algorithm::SlidingLog {
                20 * used
            } else {
                0
            };
            assert!(text.len() <= 400 + log, "{text}");
            limiter.charge(50);
            limiter.pause_for(SECOND);
        }
    }
}

#[cfg(feature = "serde")]
#[test]
fn state_in_json_that_no_limiter_has_is_an_error() {
    let state = RateLimiter::new(Quota::per_second(100))
        .clock(Clock::manual())
        .state();
    let text = serde_json::to_string(&state).unwrap();
    for (part, changed, error) in [
        (
            "\"version\":1",
            "\"version\":2",
            "the state has the form of version 2, and this crate knows version 1",
        ),
        (
            "\"end\":0",
            "\"end\":1152921504606846976",
            "it is no state of a limiter",
        ),
        ("gcra", "sliding-log", "it is no state of a limiter"),
        (
            "100/s",
            "0/s",
            "\"0/s\" is no quota: a quota cannot have a count of 0: 0 in 1s, burst 1",
        ),
    ] {
        let changed = text.replace(part, changed);
        let refused = serde_json::from_str::<LimiterState>(&changed).map_err(|it| it.to_string());
        assert!(
            refused.clone().unwrap_err().starts_with(error),
            "{refused:?}"
        );
    }
}

/// Its waiters are not in it.
#[test]
fn state_with_reservations_is_that_without_them() {
    let clock = clock_at(0);
    let limiter = limiter(Algorithm::Gcra, Quota::per_second(10).burst(2), &clock);
    limiter.try_acquire_many(2).unwrap();
    let state = limiter.state();
    let reserved = [limiter.reserve().unwrap(), limiter.reserve().unwrap()];
    assert_eq!(limiter.state(), state);
    // The first one is charged when it is due.
    clock.advance(SECOND / 10);
    let charged = RateLimiter::new(limiter.quota()).clock(clock_at(0));
    let charged = charged.restore(&limiter.state(), Duration::ZERO).unwrap();
    assert_eq!(charged.peek().retry_after, Some(SECOND / 10));
    drop(reserved);
}

#[test]
fn window_ends_in_the_given_time_and_then_in_those_of_the_quota() {
    let hour = 3600 * SECOND;
    for left in [hour, 24 * hour, 25 * hour] {
        let clock = clock_at(77);
        let daily = RateLimiter::new(Quota::per_day(10))
            .algorithm(Algorithm::FixedWindow)
            .clock(&clock)
            .window_ends_in(left, 7);
        assert_eq!(admitted(&daily), 3);
        for window in [left, 24 * hour, 24 * hour] {
            assert_eq!(daily.peek().retry_after, Some(window));
            clock.advance(window - Duration::from_nanos(1));
            assert_eq!(admitted(&daily), 0);
            clock.advance(Duration::from_nanos(1));
            assert_eq!(admitted(&daily), 10);
        }
    }
}

#[test]
fn window_ends_in_with_more_used_than_allowed_owes_the_rest() {
    let clock = clock_at(0);
    let batches = RateLimiter::new(Quota::per_second(10))
        .algorithm(Algorithm::TokenBucket)
        .clock(&clock)
        .window_ends_in(SECOND / 4, 25);
    assert_eq!(batches.peek().retry_after, Some(SECOND / 4 + SECOND));
}

#[cfg(feature = "tokio")]
#[test]
fn restore_on_tokio_time_begins_each_runtime_with_the_state() {
    let before = RateLimiter::new(Quota::per_hour(1));
    before.try_acquire().unwrap();
    let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio());
    let limiter = limiter.restore(&before.state(), Duration::ZERO).unwrap();
    for _ in 0..2 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { assert!(limiter.try_acquire().is_err()) });
    }
    assert!(limiter.try_acquire().is_err());
}

/// What is ahead takes the places of charges from before the epoch of the new clock, one period after them.
#[test]
fn charge_after_a_restart_of_a_log_with_an_overdraft_waits_as_long_as_without_it() {
    let quota = Quota::per_second(10).burst(10);
    let log = |clock: &ManualClock| {
        RateLimiter::new(quota)
            .algorithm(Algorithm::SlidingLog)
            .clock(clock)
    };
    let (old, new) = (Clock::manual(), Clock::manual());
    let before = log(&old);
    before.charge(20);
    old.advance(Duration::from_millis(10));
    let state = before.state();
    let after = log(&new).restore(&state, Duration::ZERO).unwrap();
    for _ in 0..30 {
        old.advance(Duration::from_millis(50));
        new.advance(Duration::from_millis(50));
        for limiter in [&before, &after] {
            limiter.charge(0);
        }
        let seen = [&before, &after].map(|it| {
            let [one, ten] = [1, 10].map(|n| it.peek_many(n).retry_after);
            (it.snapshot().available, one, ten)
        });
        assert_eq!(seen[0], seen[1]);
    }
}
