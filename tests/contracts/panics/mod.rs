//! Every documented panic: a row with the call and the message, which includes the value where it can be
//! formatted; and a check that the call changed nothing. A row of `panics!` expects the file of the call
//! as the location.

use std::cell::RefCell;
use std::fmt::Display;
use std::panic::Location;
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::http::StatusCode;
use tollgate::rate::{LimiterState, QuotaChange};
use tollgate::{
    Algorithm, Clock, CondvarSemaphore, Keyed, LeakyBucket, Pool, Quota, RateLimiter, Semaphore,
};
use tollgate_adaptive::{AdaptiveRate, AdaptiveSemaphore, Aimd, Gradient};
use tollgate_io::Throttled;
use tollgate_tower::{ClientIp, Pauses, Policy, ThrottleLayer};

use crate::fixed::Fixed;
use crate::support::foreign::panic_message;
use crate::support::{Waiter, assert_at_rest};

const MAX: usize = Semaphore::MAX_PERMITS;

thread_local! {
    /// The file of the last panic of this thread.
    static FILE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the location of panics.
fn watch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            FILE.set(info.location().map(|at| at.file().to_owned()));
            previous(info);
        }));
    });
}

/// Runs a row: a call that panics, and its message.
#[track_caller]
fn row<R>(expected: impl Display, run: impl FnOnce() -> R) {
    watch();
    let message = panic_message(run).expect("it did not panic");
    let expected = expected.to_string();
    assert!(
        message.contains(&expected),
        "{message:?} without {expected:?}"
    );
}

#[track_caller]
fn no_panic<R>(run: impl FnOnce() -> R) {
    assert_eq!(panic_message(run), None);
}

/// Defines rows of messages and of calls that panic with them; the reported location is the
/// mistake's.
macro_rules! panics {
    ($($expected:expr => $call:expr;)+) => {$(
        row($expected, || $call);
        let here = Some(Location::caller().file().to_owned());
        assert_eq!(FILE.take(), here, "{}", stringify!($call));
    )+};
}

/// Defines rows of calls that are allowed.
macro_rules! allowed {
    ($($call:expr;)+) => {$(
        no_panic(|| $call);
    )+};
}

mod options;
mod waits;

/// In constants, where numbers cannot be formatted.
const TOO_MANY_PERMITS: &str = "a semaphore cannot have so many permits, see MAX_PERMITS";

fn over_max(permits: usize) -> String {
    format!("a semaphore cannot have {permits} permits, see MAX_PERMITS")
}

#[test]
fn semaphores_without_permits_or_above_the_most() {
    panics! {
        TOO_MANY_PERMITS => Semaphore::new(MAX + 1);
        TOO_MANY_PERMITS => Semaphore::new(usize::MAX);
        "a condvar semaphore cannot have 0 permits" => CondvarSemaphore::new(0);
    }
    allowed! {
        Semaphore::new(MAX);
        CondvarSemaphore::new(1);
        // There is no maximum, because a permit allocates nothing.
        CondvarSemaphore::new(usize::MAX);
    }
}

#[test]
fn settings_of_adaptive_limits_out_of_range() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let finite = format!("must be a finite number above 0, but it is {bad}");
        let limit = format!("the initial limit {finite}");
        let rate = format!("a finite number above 0 per second, but it is {bad:?}");
        panics! {
            &limit => Gradient::default().initial_limit(bad);
            &limit => Aimd::default().initial_limit(bad);
            "the backoff factor must be above 0 and below 1" => Aimd::default().backoff(bad);
            &finite => AdaptiveSemaphore::new(Fixed(bad));
            &rate => AdaptiveRate::new().initial_rate(bad);
        }
    }
    for bad in [0.9, f64::NAN, f64::INFINITY] {
        let least = "the headroom must be a finite number of at least 1, but it is";
        panics! {
            format!("{least} {bad}") => Gradient::default().headroom(bad);
        }
    }
    panics! {
        "but it is 1" => Aimd::default().backoff(1.0);
    }
    #[allow(
        clippy::reversed_empty_ranges,
        reason = "it is what a caller may write"
    )]
    for range in [0..=5, 5..=4, 1..=MAX + 1] {
        let expected = format!("within 1..={MAX}, but they are {range:?}");
        panics! {
            &expected => AdaptiveSemaphore::new(Fixed(9.0)).limits(range);
        }
    }
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    for (min, max) in [
        (0.0, 1.0),
        (2.0, 1.0),
        (nan, 1.0),
        (1.0, nan),
        (1.0, infinity),
    ] {
        let expected = "within 0.001..=1000000 per second, but they are";
        panics! {
            format!("{expected} {min:?}..={max:?}") => AdaptiveRate::new().limits(min..=max);
        }
    }
    for burst in [0, 250_001, u64::MAX] {
        panics! {
            format!("a burst must be from 1 to 250000, but it is {burst}") =>
                AdaptiveRate::new().burst(burst);
        }
    }
    allowed! {
        Gradient::default().initial_limit(0.5).headroom(1.0);
        AdaptiveSemaphore::new(Fixed(9.0)).limits(1..=MAX);
        AdaptiveRate::new().limits(0.001..=1e6).limits(5.0..=5.0);
        AdaptiveRate::new().initial_rate(f64::MIN_POSITIVE).initial_rate(f64::MAX);
        AdaptiveRate::new().limits(0.001..=0.001).burst(250_000).try_acquire().map(drop);
    }
}

#[test]
fn no_keys_or_too_many() {
    let most = 1 << 32;
    for keys in [0, most + 1, usize::MAX] {
        let expected = "max_keys must be from 1 to 2^32";
        panics! {
            expected => Keyed::<u8, _>::rate_limiters(Quota::per_second(1)).max_keys(keys);
            expected => Keyed::<u8, _>::semaphores(1).max_keys(keys);
        }
    }
    panics! {
        TOO_MANY_PERMITS => Keyed::<u8, _>::semaphores(MAX + 1);
    }
    // The result of a function is checked when it is called.
    let users = Keyed::<u8, _>::semaphores(1).permits(|_| MAX + 1);
    row(over_max(MAX + 1), || users.key(&1).try_acquire());
    assert!(users.is_empty());
    let users = Keyed::<u8, _>::semaphores(1);
    row(over_max(MAX + 1), || users.set_permits(MAX + 1));
    assert_eq!(users.key(&1).snapshot().available, 1);
    allowed! {
        Keyed::<u8, _>::semaphores(1).max_keys(most);
        users.set_permits(MAX);
    }
}

#[test]
fn options_of_adapters() {
    let client_ip = || ClientIp::peer(|_| None);
    for proxies in [65, usize::MAX] {
        panics! {
            format!("a client cannot be behind {proxies} proxies, at most 64") =>
                client_ip().behind(proxies);
        }
    }
    let limiter = RateLimiter::new(Quota::per_second(1));
    panics! {
        "a prefix of IPv4 cannot have 33 bits, at most 32" => client_ip().prefixes(33, 129);
        "a prefix of IPv6 cannot have 129 bits, at most 128" => client_ip().prefixes(32, 129);
        "max_origins cannot be 0" => Pauses::new().max_origins(0);
        "pauses cannot be guessed from 0ns to 1s" =>
            Pauses::new().backoff(Duration::ZERO, Duration::from_secs(1));
        "pauses cannot be guessed from 2s to 1s" =>
            Pauses::new().backoff(Duration::from_secs(2), Duration::from_secs(1));
        "a chunk has at least 1 byte, not 0" => Throttled::new((), &limiter).chunk(0);
    }
    allowed! {
        client_ip().behind(64).prefixes(32, 128).prefixes(0, 0);
        Pauses::new().max_origins(1).max_origins(usize::MAX);
        Throttled::new((), &limiter).chunk(1).chunk(u64::MAX);
    }
}

#[test]
fn policies_that_fields_cannot_carry() {
    for name in ["", "\n", "per-\u{fc}ser", "tab\t", "\u{7f}"] {
        let expected = format!("the name of a policy must be of printable ASCII, not {name:?}");
        panics! {
            &expected => Policy::client(name);
            &expected => Policy::server(name);
        }
    }
    let layer = || ThrottleLayer::new(Arc::new(Semaphore::new(1)));
    let same = [
        Policy::client("a"),
        Policy::client("b"),
        Policy::server("a"),
    ];
    panics! {
        "the name \"default-2\" is for limits without a policy" =>
            layer().policies([Policy::client("default-2")]);
        "a rejection cannot have the status 204 No Content" =>
            layer().status(StatusCode::NO_CONTENT);
        "two policies are named \"a\"" => layer().policies(same);
    }
    allowed! {
        Policy::client(r#" "~\ "#);
        layer().policies([Policy::client("default"), Policy::client("default-user")]);
    }
}

fn no_quota(what: impl Display) -> String {
    format!("a quota cannot have {what}")
}

#[test]
fn quotas_that_do_not_fit() {
    let none = no_quota("a count of 0");
    panics! {
        &none => Quota::per_second(0);
        &none => Quota::bytes_per_second(0);
        &none => Quota::per_minute(0);
        &none => Quota::per_hour(0);
        &none => Quota::per_day(0);
        &none => Quota::new(0, Duration::MAX);
        no_quota("a period of 0ns") => Quota::new(1, Duration::ZERO);
        no_quota("a burst of 0") => Quota::per_second(1).burst(0);
        no_quota("a burst of 0") => Quota::UNLIMITED.burst(0);
        no_quota("a period of more than 2^64 - 1 ns") => Quota::new(1, Duration::MAX);
    }
    let longest = 1 << 58;
    let seven = Quota::new(7, Duration::from_nanos(7));
    let too_long =
        no_quota("a token or a burst that takes more than 2^58 ns (nine years) to come back");
    let third = Quota::new(1, Duration::from_nanos(longest / 3));
    let too_little = "a quota cannot be split into shares of less than one in 2^58 ns";
    panics! {
        &too_long => Quota::new(1, Duration::from_nanos(longest + 1));
        &too_long => seven.burst(longest + 1);
        &too_long => seven.burst(u64::MAX);
        "a quota cannot be split among 0 nodes" => Quota::per_second(1).split(0);
        too_little => third.split(4);
        too_little => third.split(u32::MAX);
        too_little => Quota::per_day(1).split(u32::MAX);
    }
    allowed! {
        seven.burst(longest);
        third.split(3);
    }
}

#[test]
fn a_quota_of_more_than_sixteen_per_nanosecond() {
    type PerUnit = fn(u64) -> Quota;
    let units: [(PerUnit, u64); 5] = [
        (Quota::per_second, 1),
        (Quota::bytes_per_second, 1),
        (Quota::per_minute, 60),
        (Quota::per_hour, 60 * 60),
        (Quota::per_day, 24 * 60 * 60),
    ];
    let too_many = no_quota("more than 16 per nanosecond");
    for (quota, seconds) in units {
        let most = 16 * seconds * 1_000_000_000;
        row(&too_many, || quota(most + 1));
        row(&too_many, || quota(u64::MAX));
        no_panic(|| quota(most));
    }
    let dense = Quota::new(4, Duration::from_nanos(2));
    panics! {
        &too_many => Quota::new(33, Duration::from_nanos(2));
        "a quota of two per nanosecond or more cannot have a burst of more than 2^56" =>
            dense.burst((1 << 56) + 1);
    }
    allowed! {
        Quota::new(32, Duration::from_nanos(2));
        dense.burst(1 << 56);
    }
}

#[test]
fn a_leaky_bucket_with_a_burst() {
    let rate = Quota::per_second(1_000_000);
    for burst in [2, 50, 1 << 40] {
        panics! {
            "a leaky bucket has no burst, but its rate has one" =>
                LeakyBucket::new(rate.burst(burst), 10);
        }
    }
    panics! {
        "a leaky bucket cannot be unlimited" => LeakyBucket::new(Quota::UNLIMITED, 10);
    }
    no_panic(|| LeakyBucket::new(rate.burst(1), usize::MAX));
}

#[test]
fn a_new_rate_of_a_leaky_bucket_with_a_burst() {
    let bucket = LeakyBucket::new(Quota::per_second(10), 2).clock(Clock::manual());
    bucket.try_acquire().unwrap();
    let mut waiter = Waiter::parked(bucket.acquire());
    panics! {
        "a leaky bucket cannot be unlimited" => bucket.set_rate(Quota::UNLIMITED);
        "but its rate has one of 7" => bucket.set_rate(Quota::per_second(1000).burst(7));
    }
    assert_eq!(bucket.rate(), Quota::per_second(10));
    assert_eq!(bucket.snapshot().waiting, 1);
    assert!(waiter.is_pending());
}

const WHOLE_COUNT: &str = "a window or a log allows its whole count at once";
const LONG_PERIOD: &str = "batches, windows and logs have a period of at most 2^58 ns";
const NO_LIMIT: &str = "batches, windows and logs cannot be unlimited";

#[test]
fn an_algorithm_that_the_quota_does_not_fit() {
    let by = |algorithm, quota| RateLimiter::new(quota).algorithm(algorithm);
    let parts = |parts| Algorithm::SubInterval { parts };
    let ten = Quota::per_second(10);
    let buckets = [Algorithm::Gcra, Algorithm::TokenBucket];
    let windows = Algorithm::all().iter().filter(|it| !buckets.contains(it));
    for &algorithm in windows {
        panics! {
            WHOLE_COUNT => by(algorithm, ten.burst(3));
            WHOLE_COUNT => algorithm.batch(ten.burst(3));
            WHOLE_COUNT => algorithm.most_in(ten.burst(3), Duration::from_secs(1));
        }
        no_panic(|| by(algorithm, ten.burst(10)));
    }
    let many = Quota::new((1 << 47) + 1, Duration::from_secs(1 << 20));
    let years = Quota::new(100, Duration::from_nanos((1 << 58) + 1));
    let dense = Quota::new(3, Duration::from_nanos(2));
    let too_dense = "batches, windows and logs have at most one per nanosecond";
    panics! {
        "a period cannot be cut into 0 parts" => by(parts(0), ten);
        "a period in parts needs a count that is larger than the number of parts" =>
            by(parts(10), ten);
        "a log holds at most 2^28" =>
            by(Algorithm::SlidingLog, Quota::per_hour((1 << 28) + 1));
        "a sliding window has a count of at most 2^47" => by(Algorithm::SlidingWindow, many);
        LONG_PERIOD => by(Algorithm::TokenBucket, years);
        LONG_PERIOD => by(Algorithm::SlidingLog, years);
        too_dense => by(Algorithm::TokenBucket, dense);
        too_dense => by(Algorithm::SlidingLog, dense);
        too_dense => Algorithm::FixedWindow.batch(dense);
        NO_LIMIT => by(Algorithm::TokenBucket, Quota::UNLIMITED);
        NO_LIMIT => by(Algorithm::SlidingLog, Quota::UNLIMITED);
    }
    allowed! {
        by(parts(9), ten);
        by(Algorithm::Gcra, dense);
        by(Algorithm::Gcra, Quota::UNLIMITED);
    }
}

#[test]
fn a_new_quota_that_does_not_fit_the_algorithm() {
    let limiter = RateLimiter::new(Quota::per_second(10));
    let limiter = limiter
        .algorithm(Algorithm::SlidingLog)
        .clock(Clock::manual());
    limiter.try_acquire().unwrap();
    let message = "allows its whole count at once, but the quota is 5/s burst 2";
    let quota = Quota::per_second(5).burst(2);
    panics! {
        message => limiter.set_quota(quota);
        message => limiter.set_quota_with(quota, QuotaChange::KeepSpent);
        format!("{NO_LIMIT}, but the quota is unlimited") => limiter.set_quota(Quota::UNLIMITED);
    }
    assert_eq!(limiter.quota(), Quota::per_second(10));
    assert_eq!(limiter.snapshot().available, 9);
}

#[test]
fn an_algorithm_that_cannot_be_had_by_key() {
    let like = |quota, algorithm| {
        let each = RateLimiter::new(quota).algorithm(algorithm);
        Keyed::<u8, _>::new(each.clock(Clock::manual()))
    };
    let quota = Quota::per_second(3);
    for algorithm in Algorithm::all().iter().filter(|it| !it.keeps_a_word()) {
        let message =
            format!("a limit by key cannot use {algorithm}, which keeps more than one word");
        row(&message, || like(quota, *algorithm));
    }
    let quota = quota.burst(2);
    row(WHOLE_COUNT, || like(quota, Algorithm::FixedWindow));
    let users = like(quota, Algorithm::TokenBucket);
    users.key(&1).try_acquire().unwrap();
    let years = Quota::new(100, Duration::from_nanos((1 << 58) + 1));
    row(LONG_PERIOD, || users.set_quota(years));
    assert_eq!(users.quota(), Quota::per_second(3).burst(2));
    assert_eq!(users.key(&1).snapshot().available, 1);
}

#[test]
fn windows_that_end_at_no_time_and_states_of_other_windows() {
    let daily = |algorithm| RateLimiter::new(Quota::per_day(9)).algorithm(algorithm);
    let second = Duration::from_secs(1);
    for algorithm in [
        Algorithm::Gcra,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        let message = format!("{algorithm} has no windows that end all at once");
        row(&message, || daily(algorithm).window_ends_in(second, 1));
    }
    for left in [
        Duration::ZERO,
        Duration::from_nanos((1 << 58) + 1),
        Duration::MAX,
    ] {
        let message = format!("must end in more than 0s and at most 2^58 ns, not in {left:?}");
        row(&message, || {
            daily(Algorithm::FixedWindow).window_ends_in(left, 1)
        });
    }
    no_panic(|| {
        daily(Algorithm::FixedWindow)
            .window_ends_in(second, u64::MAX)
            .peek()
    });
    let mut state = LimiterState::new(Algorithm::TokenBucket, Quota::per_hour(9)).unwrap();
    let before = state.clone();
    panics! {
        "windows of 9/h, and the limiter has windows of 9/d" => state.take(Quota::per_day(9), second, 1);
        "windows of 9/h, and the limiter has windows of 9/d" => state.charge(Quota::per_day(9), second, 1);
        "windows of 9/h, and the limiter has windows of 9/d" => state.due(Quota::per_day(9), second, 1);
        LONG_PERIOD => state.check(Algorithm::TokenBucket, Quota::new(100, Duration::from_nanos((1 << 58) + 1)));
    }
    assert_eq!(state, before);
}

#[test]
fn a_local_limiter_with_chunks_of_nothing() {
    let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    panics! {
        "a local limiter cannot take batches of 0" => limiter.local(0);
    }
    assert_eq!(limiter.snapshot().available, 1);
    no_panic(|| limiter.local(u64::MAX));
}

#[test]
fn options_of_a_pool() {
    for size in [MAX + 1, usize::MAX] {
        let expected = format!("a pool cannot have {size} items, see MAX_PERMITS");
        panics! {
            &expected => Pool::with_factory(size, || ());
            &expected => Pool::with_factory(1, || ()).set_size(size);
        }
    }
    let pool = Pool::with_factory(MAX, || ());
    let expected = format!("a pool cannot have {} items, see MAX_PERMITS", MAX + 1);
    row(&expected, || pool.add(()));
    assert_eq!(pool.snapshot().limit, MAX as u64);

    let second = Duration::from_secs(1);
    let check = |item: i32| std::future::ready(Some(item));
    panics! {
        "a pool that cannot make items cannot grow to 3 of them" => Pool::new([1, 2]).set_size(3);
        "a pool that cannot make items cannot drop one after 1s" =>
            Pool::new([1]).idle_timeout(second);
        "a pool that cannot make items cannot check them when they are taken" =>
            Pool::new([1]).check_on_take(check);
    }
}

#[cfg(feature = "channel")]
#[test]
fn channel_semaphores_without_permits_or_above_the_most() {
    use tollgate::ChannelSemaphore;

    for permits in [0, 1 << 31, usize::MAX] {
        let expected =
            format!("a channel semaphore cannot have {permits} permits, but 1 to 2^31 - 1");
        panics! {
            &expected => ChannelSemaphore::new(permits);
            &expected => ChannelSemaphore::reversed(permits);
        }
    }
}

#[test]
fn a_limit_above_the_most() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    for permits in [MAX + 1, usize::MAX] {
        row(over_max(permits), || semaphore.set_permits(permits));
    }
    for permits in [MAX - 2, MAX, usize::MAX] {
        let expected = format!("a semaphore cannot have {permits} more permits, see MAX_PERMITS");
        row(&expected, || semaphore.add_permits(permits));
    }
    assert_eq!((semaphore.permits(), semaphore.snapshot().waiting), (3, 1));
    assert!(waiter.is_pending());
    drop(held);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 3);
    semaphore.add_permits(MAX - 3);
    assert_eq!(semaphore.permits(), MAX);
}

#[test]
fn merged_permits_of_two_semaphores() {
    let (here, there) = (Semaphore::new(2), Semaphore::new(5));
    let mut permit = here.try_acquire().unwrap();
    let other = there.try_acquire_many(3).unwrap();
    let message = panic_message(|| permit.merge(other)).unwrap();
    let expected = "permits of two semaphores cannot be merged";
    assert!(message.starts_with(expected), "{message}");
    assert!(message.contains("permits: 2") && message.contains("permits: 5"));
    // A value that was passed by value comes back; a borrowed one is still held.
    assert_at_rest(&there, 5);
    assert_eq!((permit.count(), here.available_permits()), (1, 1));
    drop(permit);
    assert_at_rest(&here, 2);
}

#[test]
fn merged_owned_permits_of_two_semaphores() {
    let (here, there) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
    let [mut permit, other] =
        [&here, &there].map(|semaphore| Arc::clone(semaphore).try_acquire_owned().unwrap());
    row("permits of two semaphores cannot be merged", || {
        permit.merge(other);
    });
    assert_at_rest(&there, 1);
    assert_eq!(permit.count(), 1);
    drop(permit);
    assert_at_rest(&here, 1);
    assert_eq!([&here, &there].map(Arc::strong_count), [1, 1]);
}
