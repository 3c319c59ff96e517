//! Tests on a clock that a test sets, forth and back.

use tollgate::time::ManualClock;

use super::*;
use crate::locked::full::IS_FULL;

const SECOND: Duration = Duration::from_secs(1);
const DAY: i64 = 86_400 * 1_000_000_000;

struct World {
    folder: tempfile::TempDir,
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::manual());
        // Some years after the epoch, as the clock of a machine is.
        clock.advance(Duration::from_secs(1_800_000_000));
        Self { folder, clock }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("limit")
    }

    fn try_open(&self, quota: Quota, algorithm: Algorithm) -> Result<FileLimiter, FileError> {
        FileLimiter::open_on(Clock::from(&self.clock), self.path(), quota, algorithm)
    }

    fn open(&self, quota: Quota) -> FileLimiter {
        self.try_open(quota, Algorithm::Gcra).unwrap()
    }

    /// Takes all units that are available.
    fn exhaust(&self, limiter: &FileLimiter) -> u64 {
        let taken = std::iter::from_fn(|| limiter.try_acquire().ok());
        taken.count() as u64
    }
}

/// Sets the clock of a limiter ahead of the machine's, or behind it.
fn set_ahead(limiter: &FileLimiter, nanos: i64) {
    limiter.0.ahead.store(nanos, Ordering::Relaxed);
}

#[test]
fn try_acquire_over_restarts_admits_what_one_limiter_would() {
    let world = World::new();
    let mut admitted = 0;
    // Fifteen runs of a program in half a minute, of which 30 calls a minute are allowed.
    for _ in 0..15 {
        let limiter = world.open(Quota::per_minute(30).burst(15));
        admitted += world.exhaust(&limiter);
        world.clock.advance(2 * SECOND);
    }
    // The burst, and one every two seconds, the last of them not yet.
    assert_eq!(admitted, 15 + 14);
}

#[test]
fn try_acquire_of_each_algorithm_admits_its_count_and_its_state_is_read_again() {
    for &algorithm in Algorithm::all() {
        let world = World::new();
        let quota = Quota::per_second(10).burst(10);
        let opened = world.try_open(quota, algorithm);
        if algorithm == Algorithm::SlidingLog {
            assert_eq!(opened.unwrap_err().kind(), FileErrorKind::Algorithm);
            assert!(!world.path().exists());
            continue;
        }
        let limiter = opened.unwrap();
        let capacity = limiter.max_units();
        assert_eq!(world.exhaust(&limiter), capacity, "{algorithm}");
        let again = world.try_open(quota, algorithm).unwrap();
        assert_eq!(world.exhaust(&again), 0, "{algorithm}");
        let other = match algorithm {
            Algorithm::Gcra => Algorithm::FixedWindow,
            _ => Algorithm::Gcra,
        };
        let error = world.try_open(quota, other).unwrap_err().kind();
        let state = FileErrorKind::State(RestoreError::Algorithm {
            found: algorithm,
            expected: other,
        });
        assert_eq!(error, state);
        if algorithm != Algorithm::Gcra {
            let error = world.try_open(Quota::per_minute(10).burst(10), algorithm);
            let error = error.unwrap_err();
            let is_period = matches!(
                error.kind(),
                FileErrorKind::State(RestoreError::Period { .. })
            );
            assert!(is_period, "{algorithm}: {error}");
        }
        world.clock.advance(2 * SECOND);
        assert_eq!(world.exhaust(&again), capacity, "{algorithm}");
    }
}

#[test]
fn try_acquire_while_the_clock_jumps_by_a_day_ten_times_owes_at_most_a_burst_and_admits_one_for_each_jump()
 {
    let world = World::new();
    let quota = Quota::per_second(10).burst(5);
    let [one, other] = [(), ()].map(|()| world.open(quota));
    let mut admitted = world.exhaust(&one);
    assert_eq!(admitted, 5);
    for jump in 1..=10 {
        // The clock is that of the machine, so both see it. One of them charges last before it is set back.
        for limiter in [&one, &other] {
            set_ahead(limiter, DAY);
        }
        let at_jump = world.exhaust(&other);
        assert!(at_jump <= 5, "{jump}: {at_jump}");
        for limiter in [&one, &other] {
            set_ahead(limiter, 0);
        }
        assert_eq!(world.exhaust(&one), 0, "{jump}");
        let refused = one.try_acquire().unwrap_err();
        let wait = refused.retry_after().unwrap();
        assert!(wait <= Duration::from_millis(100), "{jump}: {wait:?}");
        admitted += at_jump;
    }
    assert!(admitted <= 5 + 10 * 5, "{admitted}");
    // All that is owed is a burst's time.
    world.clock.advance(Duration::from_millis(500));
    assert_eq!(world.exhaust(&other), 5);
}

#[test]
fn refund_after_the_file_was_replaced_gives_nothing_back() {
    let world = World::new();
    let quota = Quota::per_hour(12).burst(5);
    let [one, other] = [(), ()].map(|()| world.open(quota));
    let charge = one.try_acquire_many(5).unwrap();
    std::fs::remove_file(world.path()).unwrap();
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(world.exhaust(&other), 5);
    one.refund(charge);
    assert_eq!(world.exhaust(&other), 0);
}

#[test]
fn refund_by_an_older_clock_than_that_of_the_latest_decision_mints_nothing() {
    let world = World::new();
    let quota = Quota::per_second(10).burst(5);
    let [one, other] = [(), ()].map(|()| world.open(quota));
    let charge = one.try_acquire_many(5).unwrap();
    world.clock.advance(60 * SECOND);
    // Time has paid the charge off, and another burst is spent.
    assert_eq!(world.exhaust(&one), 5);
    set_ahead(&other, -60 * 1_000_000_000);
    other.refund(charge);
    assert_eq!(other.unrefunded(), 0);
    for limiter in [&other, &one] {
        set_ahead(limiter, -60 * 1_000_000_000);
        assert!(limiter.try_acquire().is_err());
    }
}

#[test]
fn try_acquire_by_two_quotas_to_and_fro_spends_at_most_the_time_that_passed_and_the_longest_burst()
{
    let world = World::new();
    let quotas = [
        Quota::per_second(10).burst(5),
        Quota::per_second(2).burst(2),
    ];
    let limiters = quotas.map(|quota| world.open(quota));
    let price = [Duration::from_millis(100), Duration::from_millis(500)];
    let (mut spent, mut passed) = (Duration::ZERO, Duration::ZERO);
    for step in 0..500_u32 {
        let index = step as usize % 2;
        if limiters[index].try_acquire().is_ok() {
            spent += price[index];
        }
        let by = Duration::from_millis(u64::from(step * 37 % 120));
        world.clock.advance(by);
        passed += by;
        assert!(spent <= passed + SECOND, "{step}: {spent:?} of {passed:?}");
    }
    // Nothing is lost either, beyond the burst.
    assert!(spent + SECOND >= passed, "{spent:?} of {passed:?}");
}

#[test]
fn open_on_a_full_disk_is_an_error_and_a_file_that_exists_goes_on() {
    let world = World::new();
    let quota = Quota::per_second(10).burst(5);
    IS_FULL.set(true);
    let error = world.try_open(quota, Algorithm::Gcra).unwrap_err();
    let full = FileErrorKind::Io(std::io::ErrorKind::StorageFull);
    assert_eq!((error.kind(), error.path()), (full, &*world.path()));
    IS_FULL.set(false);
    let limiter = world.open(quota);
    IS_FULL.set(true);
    assert_eq!(world.exhaust(&limiter), 5);
    IS_FULL.set(false);
}

#[test]
fn acquire_on_a_clock_that_is_set_forward_looks_again_within_a_second() {
    let world = World::new();
    let limiter = world.open(Quota::per_day(1));
    limiter.try_acquire().unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut waiting = Box::pin(limiter.acquire());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    set_ahead(&limiter, DAY);
    world.clock.advance(SECOND);
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}

#[test]
fn acquire_that_does_not_fit_its_timeout_is_refused_at_once_and_one_that_fits_waits() {
    let world = World::new();
    let limiter = world.open(Quota::per_second(10));
    limiter.try_acquire().unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut poll = |waiting: std::pin::Pin<&mut Waiting<_>>| Future::poll(waiting, &mut context);
    let mut short = Box::pin(limiter.acquire().timeout(Duration::from_millis(99)));
    let std::task::Poll::Ready(Err(refused)) = poll(short.as_mut()) else {
        panic!("it does not wait");
    };
    let wait = Some(Duration::from_millis(100));
    assert_eq!(
        (refused.kind(), refused.retry_after()),
        (ErrorKind::TimedOut, wait)
    );
    let mut long = Box::pin(limiter.acquire().timeout(Duration::from_millis(101)));
    assert!(poll(long.as_mut()).is_pending());
    world.clock.advance(Duration::from_millis(99));
    assert!(poll(long.as_mut()).is_pending());
    world.clock.advance(Duration::from_millis(1));
    assert!(poll(long.as_mut()).is_ready());
}

#[test]
fn settle_to_less_or_more_changes_what_is_owed() {
    let world = World::new();
    let limiter = world.open(Quota::per_second(10).burst(10));
    let charge = limiter.try_acquire_many(10).unwrap();
    limiter.settle(charge, 7);
    let charge = limiter.try_acquire_many(3).unwrap();
    limiter.settle(charge, 5);
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(300)));
    assert_eq!((limiter.unrefunded(), limiter.max_units()), (0, 10));
    assert_eq!(
        limiter.try_acquire_many(11).unwrap_err().capacity(),
        Some(10)
    );
}

/// Another process has the lock, and keeps it.
#[test]
fn acquire_while_the_lock_is_held_fails_after_a_second_and_later_callers_at_once() {
    let world = World::new();
    let limiter = world.open(Quota::per_second(10).burst(10));
    let charge = limiter.try_acquire().unwrap();
    let holder = File::open(world.path()).unwrap();
    holder.try_lock().unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut first = Box::pin(limiter.acquire());
    let mut second = Box::pin(limiter.acquire());
    for _ in 0..10 {
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        world.clock.advance(Duration::from_millis(100));
    }
    let busy = AcquireError::from(FileError::new(&world.path(), FileErrorKind::Busy));
    for waiting in [&mut first, &mut second] {
        let std::task::Poll::Ready(Err(refused)) = waiting.as_mut().poll(&mut context) else {
            panic!("it waits");
        };
        assert_eq!(refused, busy);
        assert!(
            refused
                .to_string()
                .contains(&world.path().display().to_string())
        );
    }
    assert_eq!(limiter.try_acquire().unwrap_err(), busy);
    limiter.refund(charge);
    assert_eq!(limiter.unrefunded(), 1);
    holder.unlock().unwrap();
    limiter.try_acquire().unwrap();
    // Once it was free, a lock that is held is waited for again.
    holder.try_lock().unwrap();
    let mut third = Box::pin(limiter.acquire());
    assert!(third.as_mut().poll(&mut context).is_pending());
}

#[test]
fn acquire_that_wakes_late_is_charged_as_of_the_time_that_it_foresaw() {
    let millis = Duration::from_millis;
    for (late, made_up) in [(0, 0), (4, 4), (10, 10), (30, 10)] {
        let world = World::new();
        let limiter = world.open(Quota::per_second(10));
        let first = limiter.try_acquire().unwrap().at();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waiting = Box::pin(limiter.acquire());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        world.clock.advance(millis(100 + late));
        let std::task::Poll::Ready(Ok(charge)) = waiting.as_mut().poll(&mut context) else {
            panic!("it is due");
        };
        let at = charge.at().saturating_since(first);
        assert_eq!(at, millis(100 + late - made_up));
        let refused = limiter.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(millis(100 - made_up)));
    }
}

#[test]
fn acquire_that_wakes_late_after_another_process_was_charged_waits_for_the_next_unit() {
    let millis = Duration::from_millis;
    let world = World::new();
    let [one, other] = [(), ()].map(|()| world.open(Quota::per_second(10)));
    one.try_acquire().unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut waiting = Box::pin(one.acquire());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    world.clock.advance(millis(102));
    other.try_acquire().unwrap();
    world.clock.advance(millis(2));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    world.clock.advance(millis(97));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    world.clock.advance(millis(1));
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}
