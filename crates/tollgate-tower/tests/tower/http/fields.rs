//! Tests the fields that tell a client its limits, at exact ticks, using another parser.

use std::sync::Arc;
use std::time::Duration;

use sfv::{Dictionary, Item, List, ListEntry, Parser};
use tollgate::throttle::BoxThrottle;
use tollgate::{
    Algorithm, Clock, Gate, Keyed, LeakyBucket, Quota, RateLimiter, Semaphore, Throttle, all,
};
use tollgate_tower::{Policy, RateLimitHeaders, ThrottleLayer};

use super::{Answered, ask, field};

const SECOND: Duration = Duration::from_secs(1);

fn draft<T: tollgate::throttle::Inspect + tollgate::TryThrottle>(throttle: T) -> ThrottleLayer<T> {
    ThrottleLayer::new(throttle)
        .refusing()
        .headers(RateLimitHeaders::Draft11)
}

/// Returns the two fields, which another parser must understand.
#[track_caller]
fn both<T: Throttle>(answer: &Answered<T>) -> (String, String) {
    let fields = (
        field(answer, "ratelimit-policy"),
        field(answer, "ratelimit"),
    );
    for field in [&fields.0, &fields.1] {
        let list: List = Parser::new(field).parse().unwrap();
        for entry in list {
            let ListEntry::Item(Item { bare_item, params }) = entry else {
                panic!("{field}: not an item");
            };
            assert!(bare_item.as_string().is_some(), "{field}");
            for (name, value) in params {
                let is_unit = name.as_str() == "qu" && value.as_string().is_some();
                assert!(is_unit || value.as_integer().is_some(), "{field}");
            }
        }
        assert!(Parser::new(field).parse::<Dictionary>().is_err());
    }
    fields
}

/// Returns the last of `calls` answers.
fn last_of<T: Throttle>(layer: &ThrottleLayer<T>, calls: usize) -> Answered<T> {
    for _ in 1..calls {
        ask(layer, "/");
    }
    ask(layer, "/")
}

/// Runs every algorithm with every shape of quota that it accepts, until it refuses and after it has recovered.
#[test]
fn draft11_remaining_is_at_most_the_quota() {
    let shapes = [
        Quota::per_second(1).burst(5),
        Quota::per_second(10),
        Quota::per_second(10).burst(10),
        Quota::per_second(10).burst(7),
        Quota::per_minute(6).burst(60),
        Quota::new(1, SECOND / 1000).burst(2000),
        Quota::new(5, SECOND * 3 / 2).burst(5),
        Quota::new(3, SECOND * 3 / 2).burst(9),
        Quota::per_hour(1).burst(10_000),
    ];
    let number = |field: &str, key: &str| -> u64 {
        let (_, rest) = field.split_once(key).unwrap();
        rest.split(';').next().unwrap().parse().unwrap()
    };
    let mut above = 0;
    for algorithm in Algorithm::all() {
        for quota in shapes
            .into_iter()
            .filter(|quota| algorithm.check(*quota).is_ok())
        {
            let clock = Clock::manual();
            let limiter = RateLimiter::new(quota).algorithm(*algorithm).clock(&clock);
            let limiter = Arc::new(limiter);
            let layer = draft(Arc::clone(&limiter));
            for call in 0..14 {
                let answer = ask(&layer, "/");
                let (policy, limit) = both::<Arc<RateLimiter>>(&answer);
                let (q, r) = (number(&policy, ";q="), number(&limit, ";r="));
                assert!(
                    r <= q,
                    "{algorithm}, {quota}, {call} calls: {policy} {limit}"
                );
                above += u64::from(limiter.snapshot().available > q);
                if call == 12 {
                    clock.advance(SECOND * 3600);
                }
            }
        }
    }
    // The test is meaningful only if enough shapes reach this case.
    assert!(above > 20, "only {above}");
}

/// Lists the fields of a quota after some calls; the last call may be rejected.
#[test]
fn draft11_quotas_are_in_windows_of_whole_seconds() {
    let (hundred, six) = (
        Quota::per_minute(100).burst(100),
        Quota::per_minute(6).burst(3),
    );
    let five = |period| Quota::new(5, period).burst(5);
    let table = [
        (hundred, 1, "q=100;w=60", "r=99;t=1"),
        (hundred, 51, "q=100;w=60", "r=49;t=31"),
        // Half a second becomes a window of one second.
        (five(SECOND / 2), 1, "q=10;w=1", "r=4;t=1"),
        // A window of 1.5 s becomes one of two seconds; the quota is rounded down.
        (five(SECOND * 3 / 2), 1, "q=6;w=2", "r=4;t=1"),
        // Nothing remains, so the reset is the time until the next call, not until all calls.
        (six, 3, "q=6;w=60", "r=0;t=10"),
        (six, 4, "q=6;w=60", "r=0;t=10"),
        (Quota::per_hour(1), 1, "q=1;w=3600", "r=0;t=3600"),
    ];
    for (quota, calls, policy, limit) in table {
        let layer = draft(Arc::new(RateLimiter::new(quota).clock(Clock::manual())));
        let last = last_of(&layer, calls);
        let fields = both::<Arc<RateLimiter>>(&last);
        let expected = [policy, limit].map(|field| format!("\"default\";{field}"));
        assert_eq!(
            [&fields.0, &fields.1],
            expected.each_ref(),
            "{quota}, {calls} calls"
        );
        // A key gets the same fields.
        let keyed = Keyed::<u8, _>::new(RateLimiter::new(quota).clock(Clock::manual()));
        let layer = draft(Arc::new(keyed).key_owned(7));
        let last = last_of(&layer, calls);
        assert_eq!(
            (field(&last, "ratelimit-policy"), field(&last, "ratelimit")),
            fields
        );
    }
}

#[test]
fn draft11_numbers_have_at_most_15_digits() {
    let quota = Quota::new(1_000_000_000, SECOND).burst(1_000_000_000);
    let limiter = Arc::new(RateLimiter::new(quota).clock(Clock::manual()));
    let fields = both::<Arc<RateLimiter>>(&ask(&draft(limiter), "/"));
    assert_eq!(fields.0, r#""default";q=1000000000;w=1"#);
    assert_eq!(fields.1, r#""default";r=999999999;t=1"#);
    let slots = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let fields = both::<Arc<Semaphore>>(&ask(&draft(slots), "/"));
    assert_eq!(
        fields.0,
        r#""default";q=999999999999999;qu="concurrent-requests""#
    );
    assert_eq!(fields.1, r#""default";r=999999999999999"#);
}

#[test]
fn draft11_several_limits_are_in_one_field_in_their_order() {
    let clock = Clock::manual();
    let minute = Arc::new(RateLimiter::new(Quota::per_minute(60).burst(60)).clock(&clock));
    let bucket = Arc::new(LeakyBucket::new(Quota::per_second(1), 8).clock(&clock));
    let slots = Arc::new(Semaphore::new(8));
    let nothing: Option<Arc<Semaphore>> = None;
    let inner = all((Arc::clone(&minute), Gate::new()));
    let other = RateLimiter::new(Quota::per_minute(60).burst(60)).clock(&clock);
    let layer = draft(all((
        inner,
        nothing,
        slots,
        Arc::new(other).cost_owned(30),
        bucket,
    )))
    .policies(["a", "gate", "none", "b", "c"].map(Policy::client));
    let answer = ask(&layer, "/");
    let policies = field(&answer, "ratelimit-policy");
    let expected =
        r#""a";q=60;w=60, "b";q=8;qu="concurrent-requests", "c";q=60;w=60, "default-6";q=1;w=1"#;
    assert_eq!(policies, expected);
    let limits = r#""a";r=59;t=1, "b";r=7, "c";r=30;t=30, "default-6";r=0;t=1"#;
    assert_eq!(field(&answer, "ratelimit"), limits);
}

#[test]
fn draft11_names_are_escaped() {
    let layer = draft(Arc::new(Semaphore::new(1))).policies([Policy::client(r#"a "b" \c"#)]);
    let answer = ask(&layer, "/");
    assert_eq!(both::<Arc<Semaphore>>(&answer).1, r#""a \"b\" \\c";r=0"#);
}

#[test]
fn draft11_long_names_are_written_whole() {
    let clock = Clock::manual();
    let limiter = || Arc::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    for length in [1, 150, 170, 171, 172, 180, 185, 190, 200, 2000] {
        let (one, two) = ("a".repeat(length), "b".repeat(length));
        let layer = draft(all((limiter(), limiter()))).policies([&*one, &*two].map(Policy::client));
        let answer = ask(&layer, "/");
        let policies = format!("\"{one}\";q=1;w=1, \"{two}\";q=1;w=1");
        assert_eq!(field(&answer, "ratelimit-policy"), policies);
        let limits = format!("\"{one}\";r=0;t=1, \"{two}\";r=0;t=1");
        assert_eq!(field(&answer, "ratelimit"), limits);
    }
}

#[test]
fn draft11_a_rejection_has_a_time_only_for_what_is_exhausted() {
    let clock = Clock::manual();
    let limiter = |quota: Quota| Arc::new(RateLimiter::new(quota).clock(&clock));
    let (day, minute) = (Quota::per_day(100).burst(100), Quota::per_minute(1));
    let layer = draft(all((limiter(day), limiter(minute))));
    assert_eq!(
        field(&ask(&layer, "/"), "ratelimit"),
        r#""default";r=99;t=864, "default-2";r=0;t=60"#
    );
    clock.advance(SECOND / 2);
    let refused = ask(&layer, "/");
    assert_eq!(
        field(&refused, "ratelimit"),
        r#""default";r=99, "default-2";r=0;t=60"#
    );
    // `Retry-After` is not before any time in the fields.
    assert_eq!(field(&refused, "retry-after"), "60");
}

#[test]
fn draft11_retry_after_is_the_latest_time_of_what_is_exhausted() {
    let clock = Clock::manual();
    let limiter = |quota: Quota| Arc::new(RateLimiter::new(quota).clock(&clock));
    let (second, hour) = (limiter(Quota::per_second(1)), limiter(Quota::per_hour(1)));
    let layer = draft(all((second, Arc::clone(&hour))));
    hour.charge(1);
    assert_eq!(ask(&layer, "/").status(), 429);
    // The charge of the first part was refunded, so only the hour is exhausted.
    let refused = ask(&layer, "/");
    assert_eq!(field(&refused, "retry-after"), "3600");
    assert_eq!(
        field(&refused, "ratelimit"),
        r#""default";r=1, "default-2";r=0;t=3600"#
    );
}

#[test]
fn draft11_of_a_closed_limiter_have_no_time() {
    let closed = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(Clock::manual()));
    closed.close();
    let refused = ask(&draft(closed), "/");
    assert_eq!(refused.status(), 503);
    assert_eq!(field(&refused, "ratelimit"), r#""default";r=1"#);
    assert!(refused.headers().get("retry-after").is_none());
}

#[test]
fn draft11_behind_a_hold_or_in_a_pause_without_end_have_no_time() {
    let clock = Clock::manual();
    let held = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    let hold = held.hold(held.try_acquire().unwrap());
    let paused = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(&clock));
    paused.pause_for(Duration::MAX);
    for limiter in [&held, &paused] {
        let refused = ask(&draft(Arc::clone(limiter)), "/");
        assert_eq!(refused.status(), 429);
        assert_eq!(field(&refused, "ratelimit"), r#""default";r=0"#);
        assert!(refused.headers().get("retry-after").is_none());
    }
    drop(hold);
    let refused = ask(&draft(held), "/");
    assert_eq!(field(&refused, "ratelimit"), r#""default";r=0;t=1"#);
    assert_eq!(field(&refused, "retry-after"), "1");
}

#[test]
fn draft11_every_algorithm_counts_down() {
    for algorithm in [
        Algorithm::Gcra,
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ] {
        let limiter = RateLimiter::new(Quota::per_minute(3).burst(3));
        let limiter = Arc::new(limiter.algorithm(algorithm).clock(Clock::manual()));
        let layer = draft(limiter);
        let left: Vec<_> = (0..3)
            .map(|_| {
                let field = field(&ask(&layer, "/"), "ratelimit");
                field.split(';').nth(1).unwrap().to_owned()
            })
            .collect();
        assert_eq!(left, ["r=2", "r=1", "r=0"], "{algorithm:?}");
    }
}

#[test]
fn draft11_what_says_nothing_has_no_fields() {
    let boxed: BoxThrottle = BoxThrottle::new(Arc::new(Semaphore::new(1)));
    let layer = ThrottleLayer::new(boxed).headers(RateLimitHeaders::Draft11);
    assert!(ask(&layer, "/").headers().is_empty());
}

#[test]
fn draft11_fields_of_an_inner_layer_stay() {
    use tower::{Layer, ServiceExt};
    let layer =
        |limit, name| draft(Arc::new(Semaphore::new(limit))).policies([Policy::client(name)]);
    let both = layer(2, "outer").layer(layer(1, "inner").layer(tower::service_fn(super::status)));
    let answer = crate::support::Waiter::new(both.oneshot(super::request("/"))).output();
    let answer = answer.unwrap();
    let limits: Vec<_> = answer.headers().get_all("ratelimit").iter().collect();
    assert_eq!(limits, [r#""inner";r=0"#, r#""outer";r=1"#]);
}

/// The numbers are as old as the response, not as the admission.
#[test]
fn draft11_of_a_slow_response_say_what_is_left_when_it_is_ready() {
    use tower::{Layer, Service, service_fn};
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_minute(60).burst(3)).clock(&clock);
    let slow = service_fn({
        let clock = clock.clone();
        move |request| {
            clock.advance(SECOND * 30);
            super::status(request)
        }
    });
    let mut service = draft(Arc::new(limiter)).layer(slow);
    for _ in 0..3 {
        let answer = crate::support::Waiter::new(service.call(super::request("/"))).output();
        assert_eq!(field(&answer.unwrap(), "ratelimit"), r#""default";r=3;t=1"#);
    }
}

/// Returns the fields `RateLimit` and `Retry-After` of a refusal by the inner one of two layers, each with a
/// quota and its name. The outer layer has just admitted its last request.
fn refused_inside(outer: (Quota, &str), inner: (Quota, &str)) -> (Vec<String>, String) {
    use tower::{Layer, ServiceExt};
    let clock = Clock::manual();
    let layer = |(quota, name): (Quota, &str)| {
        let limiter = Arc::new(RateLimiter::new(quota).clock(&clock));
        draft(limiter).policies([Policy::client(name)])
    };
    let both = layer(outer).layer(layer(inner).layer(tower::service_fn(super::status)));
    let ask = || crate::support::Waiter::new(both.clone().oneshot(super::request("/"))).output();
    assert_eq!(ask().unwrap().status(), 200);
    let refused = ask().unwrap();
    assert_eq!(refused.status(), 429);
    let limits = refused.headers().get_all("ratelimit").iter();
    let limits = limits.map(|limit| limit.to_str().unwrap().to_owned());
    (limits.collect(), field(&refused, "retry-after"))
}

#[test]
fn draft11_of_an_outer_layer_do_not_come_after_retry_after() {
    let hour = Quota::per_hour(2).burst(2);
    let (limits, after) = refused_inside((hour, "hour"), (Quota::per_second(1), "second"));
    assert_eq!(limits, [r#""second";r=0;t=1"#, r#""hour";r=0;t=1800"#]);
    assert_eq!(after, "1800");
}

#[test]
fn draft11_of_an_outer_layer_keep_a_later_retry_after() {
    let seconds = Quota::per_second(2).burst(2);
    let (limits, after) = refused_inside((seconds, "second"), (Quota::per_hour(1), "hour"));
    assert_eq!(limits, [r#""hour";r=0;t=3600"#, r#""second";r=0;t=1"#]);
    assert_eq!(after, "3600");
}

#[test]
fn legacy_shows_the_rate_with_the_least_left() {
    let clock = Clock::manual();
    let minute = Arc::new(RateLimiter::new(Quota::per_minute(60).burst(10)).clock(&clock));
    let day = Arc::new(RateLimiter::new(Quota::per_day(100).burst(100)).clock(&clock));
    let layer = ThrottleLayer::new(all((day, minute)))
        .refusing()
        .headers(RateLimitHeaders::Legacy);
    assert_eq!(legacy(&ask(&layer, "/")), ["60", "9", "1"]);
    for _ in 0..9 {
        ask(&layer, "/");
    }
    let refused = ask(&layer, "/");
    assert_eq!(legacy(&refused), ["60", "0", "1"]);
    assert!(refused.headers().get("ratelimit").is_none());
}

fn legacy<B>(answer: &axum::http::Response<B>) -> [String; 3] {
    ["limit", "remaining", "reset"].map(|name| {
        let value = answer.headers().get(format!("x-ratelimit-{name}"));
        value.map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    })
}

#[test]
fn legacy_of_a_rejection_shows_the_limit_that_rejected() {
    let clock = Clock::manual();
    let limiter = |quota: Quota| Arc::new(RateLimiter::new(quota).clock(&clock));
    // Both are exhausted.
    let throttle = all((limiter(Quota::per_second(1)), limiter(Quota::per_hour(1))));
    let layer = ThrottleLayer::new(throttle)
        .refusing()
        .headers(RateLimitHeaders::Legacy);
    ask(&layer, "/");
    let refused = ask(&layer, "/");
    assert_eq!(
        (legacy(&refused), &*field(&refused, "retry-after")),
        (["1", "0", "3600"].map(str::to_owned), "3600")
    );
    clock.advance(SECOND);
    assert_eq!(legacy(&ask(&layer, "/")), ["1", "0", "3599"]);
    // The cost exceeds the remaining capacity; the throttle also has slots.
    let work = limiter(Quota::per_hour(10).burst(10)).cost_owned(6);
    let throttle = all((work, Arc::new(Semaphore::new(3))));
    let layer = ThrottleLayer::new(throttle)
        .refusing()
        .headers(RateLimitHeaders::Legacy);
    assert_eq!(legacy(&ask(&layer, "/")), ["10", "4", "2160"]);
    let refused = ask(&layer, "/");
    assert_eq!(refused.status(), 429);
    assert_eq!(legacy(&refused), ["10", "4", ""]);
}

#[test]
fn legacy_limit_is_never_below_what_remains() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(10)).clock(Clock::manual());
    let layer = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(RateLimitHeaders::Legacy);
    assert_eq!(legacy(&ask(&layer, "/")), ["10", "9", "1"]);
    let slots = ThrottleLayer::new(Arc::new(Semaphore::new(3))).refusing();
    let slots = slots.headers(RateLimitHeaders::Legacy);
    assert_eq!(legacy(&ask(&slots, "/")), ["3", "2", ""]);
}

/// There is no number to report for it; the limits after it keep their names.
#[test]
fn draft11_leaves_out_a_rate_without_a_limit() {
    let clock = Clock::manual();
    let rates = [Quota::UNLIMITED, Quota::per_minute(100).burst(100)]
        .map(|quota| Arc::new(RateLimiter::new(quota).clock(&clock)));
    let [lifted, rate] = rates;
    let layer = draft(all((Arc::clone(&lifted), rate)));
    let answer = ask(&layer, "/");
    let [policy, limit] = ["ratelimit-policy", "ratelimit"].map(|name| field(&answer, name));
    assert_eq!(policy, r#""default-2";q=100;w=60"#);
    assert_eq!(limit, r#""default-2";r=99;t=1"#);

    let alone = ask(&draft(lifted), "/");
    assert!(!alone.headers().contains_key("ratelimit"));
}
