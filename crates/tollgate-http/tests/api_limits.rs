//! The limits of an API: all are charged together, in the order of the requests, and each is corrected to what the
//! server has charged.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Throttle};
use tollgate_http::server_limits::Unit;
use tollgate_http::{ApiCall, ApiCharges, ApiLimit, ApiLimits, Charged, ResponseClass, Usage};

const MINUTE: Duration = Duration::from_secs(60);

/// How long a limiter of [`limit`] takes to pay off a unit.
const UNIT: Duration = Duration::from_millis(600 + 13);

/// A request that costs a number of tokens.
type Tokens = u64;

/// A limit of which 98 units can be used.
fn limit(unit: Unit, clock: &ManualClock) -> ApiLimit<Tokens> {
    ApiLimit::new(unit, 100, MINUTE).clock(clock)
}

/// 98 requests, and 98 tokens that are held.
fn requests_and_tokens() -> (ApiLimits<Tokens>, ManualClock) {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).hold(|tokens: &Tokens| *tokens);
    (
        ApiLimits::new([limit(Unit::Requests, &clock), tokens]),
        clock,
    )
}

/// What is available of each limit.
fn left(limits: &ApiLimits<Tokens>) -> Vec<u64> {
    let limiters = limits.limiters();
    limiters.map(|it| it.snapshot().available).collect()
}

type Wait = Pin<Box<dyn Future<Output = Result<ApiCharges, AcquireError>>>>;

fn enter(limits: &ApiLimits<Tokens>, tokens: Tokens) -> Wait {
    Box::pin(limits.call(&tokens).enter())
}

fn poll(wait: &mut Wait) -> Poll<Result<ApiCharges, AcquireError>> {
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the charges of a request that need not wait.
fn entered(limits: &ApiLimits<Tokens>, tokens: Tokens) -> ApiCharges {
    match poll(&mut enter(limits, tokens)) {
        Poll::Ready(charges) => charges.expect("there is room"),
        Poll::Pending => panic!("it waits"),
    }
}

fn refused(limits: &ApiLimits<Tokens>, tokens: Tokens) -> ErrorKind {
    match poll(&mut enter(limits, tokens)) {
        Poll::Ready(charges) => charges.unwrap_err().kind(),
        Poll::Pending => panic!("it waits"),
    }
}

fn answered(charges: ApiCharges, status: u16) -> Usage {
    answered_with(charges, status, &[])
}

fn answered_with(charges: ApiCharges, status: u16, fields: &[(&'static str, &str)]) -> Usage {
    let field = |&(name, value): &(&'static str, &str)| {
        let value = value.parse().expect("a value");
        (http::HeaderName::from_static(name), value)
    };
    let headers: HeaderMap = fields.iter().map(field).collect();
    let status = StatusCode::from_u16(status).expect("a status");
    let class = ResponseClass::of(status, &headers, SystemTime::now);
    charges.answered(status, &headers, class, SystemTime::now())
}

#[test]
fn enter_charges_all_limits_when_the_last_has_room() {
    let (limits, clock) = requests_and_tokens();
    let requests = limits.limiters().next().unwrap();
    requests.try_acquire_many(98).unwrap();

    let mut waits = enter(&limits, 50);
    assert!(poll(&mut waits).is_pending());
    clock.advance(UNIT / 2);
    assert!(poll(&mut waits).is_pending());
    assert_eq!(left(&limits), [0, 98]);
    clock.advance(UNIT / 2);
    let Poll::Ready(Ok(charges)) = poll(&mut waits) else {
        panic!("there is room");
    };
    assert_eq!(left(&limits), [0, 48]);
    assert_eq!(format!("{charges:?}"), "[1, 50]");
}

#[test]
fn enter_waits_behind_an_earlier_request_that_costs_more() {
    let (limits, clock) = requests_and_tokens();
    let used = entered(&limits, 60);
    let (mut large, mut small) = (enter(&limits, 90), enter(&limits, 1));
    assert!(poll(&mut large).is_pending());
    assert!(poll(&mut small).is_pending());
    clock.advance(MINUTE);
    // What is held is not paid off.
    assert!(poll(&mut large).is_pending());
    assert!(poll(&mut small).is_pending());
    answered(used, 200).settle(Unit::Tokens, 10);
    assert!(poll(&mut large).is_ready());
    assert!(poll(&mut small).is_ready());
}

#[test]
fn enter_dropped_while_it_waits_lets_the_next_go() {
    let (limits, _) = requests_and_tokens();
    let used = entered(&limits, 60);
    let (mut large, mut small) = (enter(&limits, 90), enter(&limits, 1));
    assert!(poll(&mut large).is_pending());
    assert!(poll(&mut small).is_pending());
    drop(large);
    assert!(poll(&mut small).is_ready());
    drop(used);
}

#[test]
fn enter_with_a_cost_above_a_limit_is_refused_and_charges_nothing() {
    let (limits, _) = requests_and_tokens();
    assert_eq!(refused(&limits, 99), ErrorKind::ExceedsCapacity);
    assert_eq!(left(&limits), [98, 98]);
    drop(entered(&limits, 98));
}

#[test]
fn enter_of_a_closed_limit_is_refused_and_charges_nothing() {
    let (limits, _) = requests_and_tokens();
    let used = entered(&limits, 60);
    let mut waits = enter(&limits, 90);
    assert!(poll(&mut waits).is_pending());
    limits.limiters().nth(1).unwrap().close();
    let Poll::Ready(Err(error)) = poll(&mut waits) else {
        panic!("it is closed");
    };
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(refused(&limits, 1), ErrorKind::Closed);
    drop(used);
    assert_eq!(left(&limits)[0], 97);
}

#[test]
fn enter_now_charges_all_limits_or_none() {
    let (limits, _) = requests_and_tokens();
    let call = limits.call(&60);
    assert!(call.enter_now().is_some());
    assert!(call.enter_now().is_none());
    assert_eq!(left(&limits), [97, 38]);
}

#[test]
fn enter_now_is_not_before_a_request_that_waits() {
    let (limits, _) = requests_and_tokens();
    let _used = entered(&limits, 60);
    let mut waits = enter(&limits, 90);
    assert!(poll(&mut waits).is_pending());
    assert!(limits.call(&1).enter_now().is_none());
}

#[test]
fn enter_without_a_limit_is_ready() {
    let limits = ApiLimits::<Tokens>::new([]);
    assert!(answered(entered(&limits, 7), 200).is_settled());
}

#[test]
fn rollback_returns_all_charges() {
    let (limits, clock) = requests_and_tokens();
    let call: ApiCall = limits.call(&40);
    let charges = call.enter_now().unwrap();
    clock.advance(UNIT);
    call.rollback(charges);
    assert_eq!(left(&limits), [98, 98]);
}

#[test]
fn answered_by_a_refusal_charges_nothing() {
    let (limits, _) = requests_and_tokens();
    for status in [429, 503, 529] {
        assert!(answered(entered(&limits, 40), status).is_settled());
        assert_eq!(left(&limits), [98, 98]);
    }
}

#[test]
fn answered_by_an_error_that_is_no_refusal_holds_the_estimate() {
    let (limits, clock) = requests_and_tokens();
    let usage = answered(entered(&limits, 40), 500);
    clock.advance(MINUTE);
    assert_eq!(left(&limits), [98, 58]);
    drop(usage);
    assert_eq!(left(&limits), [98, 98]);
}

#[test]
fn settle_charges_what_was_used_as_of_the_beginning() {
    let (limits, clock) = requests_and_tokens();
    let usage = answered(entered(&limits, 90), 200);
    clock.advance(10 * UNIT);
    usage.settle(Unit::Tokens, 30);
    assert_eq!(left(&limits), [98, 78]);
    // It is settled once.
    usage.settle(Unit::Tokens, 0);
    assert_eq!(left(&limits), [98, 78]);
}

#[test]
fn settle_of_another_unit_settles_nothing() {
    let (limits, _) = requests_and_tokens();
    let usage = answered(entered(&limits, 90), 200);
    usage.settle(Unit::OutputTokens, 0);
    assert!(!usage.is_settled());
    assert_eq!(left(&limits)[1], 8);
}

#[test]
fn usage_counts_as_estimated_when_its_last_clone_is_dropped() {
    let (limits, clock) = requests_and_tokens();
    let usage = answered(entered(&limits, 90), 200);
    let clone = usage.clone();
    drop(usage);
    clock.advance(MINUTE);
    assert_eq!(left(&limits)[1], 8);
    drop(clone);
    assert_eq!(left(&limits)[1], 98);
}

#[test]
fn charges_dropped_without_an_answer_count_as_estimated() {
    let (limits, _) = requests_and_tokens();
    drop(entered(&limits, 90));
    assert_eq!(left(&limits), [97, 8]);
}

#[test]
fn cost_is_charged_for_good() {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).cost(|tokens: &Tokens| *tokens);
    let limits = ApiLimits::new([tokens]);
    let usage = answered(entered(&limits, 30), 200);
    assert!(usage.is_settled());
    usage.settle(Unit::Tokens, 0);
    assert_eq!(left(&limits), [68]);
}

#[test]
fn charged_says_what_the_server_counts() {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock)
        .hold(|tokens: &Tokens| *tokens)
        .charged(|estimate, status, headers| match status.as_u16() {
            200 => Charged::Exactly(estimate / 2 + headers.len() as u64),
            429 => Charged::Estimate,
            _ => Charged::Used,
        });
    let limits = ApiLimits::new([tokens]);
    answered_with(entered(&limits, 30), 200, &[("server", "example")]);
    assert_eq!(left(&limits), [98 - 16]);
    assert!(answered(entered(&limits, 30), 429).is_settled());
    assert_eq!(left(&limits), [98 - 46]);
    assert!(!answered(entered(&limits, 30), 500).is_settled());
}

#[test]
fn answered_follows_the_tightest_window_of_the_unit() {
    let (limits, _) = requests_and_tokens();
    let fields = [
        ("x-ratelimit-remaining-requests", "40"),
        ("x-ratelimit-remaining-tokens", "7"),
    ];
    let usage = answered_with(entered(&limits, 10), 200, &fields);
    // The limiters keep 2 less than the server.
    assert_eq!(left(&limits), [38, 5]);
    // The server will return them, too.
    usage.settle(Unit::Tokens, 4);
    assert_eq!(left(&limits), [38, 11]);
}

#[test]
fn follow_chooses_the_window() {
    let clock = Clock::manual();
    let requests = limit(Unit::Requests, &clock)
        .follow(|limits| limits.windows().find(|window| &*window.name == "minute"));
    let limits = ApiLimits::new([requests]);
    let fields = [
        ("x-ratelimit-remaining-minute", "40"),
        ("x-ratelimit-remaining-day", "3"),
    ];
    answered_with(entered(&limits, 1), 200, &fields);
    assert_eq!(left(&limits), [38]);
}

#[test]
fn algorithm_of_a_fixed_window_ends_when_the_server_says() {
    let clock = Clock::manual();
    let requests = limit(Unit::Requests, &clock).algorithm(Algorithm::FixedWindow);
    let limits = ApiLimits::new([requests]);
    let fields = [
        ("x-ratelimit-remaining-requests", "2"),
        ("x-ratelimit-reset-requests", "5s"),
    ];
    answered_with(entered(&limits, 1), 200, &fields);
    assert_eq!(left(&limits), [0]);
    // A thousandth of the period later.
    clock.advance(Duration::from_millis(5_059));
    assert_eq!(left(&limits), [0]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(left(&limits), [98]);
}

/// 98 tokens in a fixed window. A failed request costs nothing.
fn tokens_of_a_window() -> ApiLimits<Tokens> {
    let charged = |_, status: StatusCode, _: &HeaderMap| {
        if status.is_success() {
            Charged::Used
        } else {
            Charged::Exactly(0)
        }
    };
    let tokens = limit(Unit::Tokens, &Clock::manual())
        .algorithm(Algorithm::FixedWindow)
        .hold(|tokens: &Tokens| *tokens);
    ApiLimits::new([tokens.charged(charged)])
}

/// What a server reports that had so many tokens left when a request arrived.
fn tokens_left(tokens: &str) -> [(&'static str, &str); 2] {
    [
        ("x-ratelimit-remaining-tokens", tokens),
        ("x-ratelimit-reset-tokens", "50s"),
    ]
}

#[test]
fn answered_after_a_settlement_takes_the_excess_for_no_use_by_others() {
    let limits = tokens_of_a_window();
    let (first, second) = (entered(&limits, 40), entered(&limits, 40));
    answered(first, 200).settle(Unit::Tokens, 10);
    // The server had counted 40 for the first when the second arrived.
    let _usage = answered_with(second, 200, &tokens_left("20"));
    assert_eq!(left(&limits), [98 - 10 - 40]);
}

#[test]
fn answered_after_a_failure_takes_its_charge_for_no_use_by_others() {
    let limits = tokens_of_a_window();
    let (first, second) = (entered(&limits, 40), entered(&limits, 40));
    assert!(answered(first, 500).is_settled());
    let _usage = answered_with(second, 200, &tokens_left("20"));
    assert_eq!(left(&limits), [98 - 40]);
}

#[test]
fn answered_after_a_refusal_counts_the_use_by_others() {
    let limits = tokens_of_a_window();
    let (first, second) = (entered(&limits, 40), entered(&limits, 40));
    assert!(answered(first, 429).is_settled());
    // The server had not counted the first, so others have used 15.
    let _usage = answered_with(second, 200, &tokens_left("45"));
    assert_eq!(left(&limits), [98 - 40 - 15]);
}

#[test]
fn burst_is_the_room_of_the_bucket() {
    let clock = Clock::manual();
    let limits = ApiLimits::new([limit(Unit::Requests, &clock).burst(10)]);
    assert_eq!(left(&limits), [8]);
    answered_with(
        entered(&limits, 1),
        200,
        &[("x-ratelimit-remaining-requests", "4")],
    );
    assert_eq!(left(&limits), [2]);
}

/// 99 tokens of a bucket that others use up as well.
fn spaced_tokens() -> (ApiLimits<Tokens>, ManualClock) {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).cost(|tokens: &Tokens| *tokens);
    (ApiLimits::new([tokens.spaced()]), clock)
}

#[test]
fn spaced_admits_at_most_twice_the_remaining_part_in_a_period() {
    let (limits, clock) = spaced_tokens();
    drop(entered(&limits, 33));
    let mut waits = enter(&limits, 1);
    // 33 of 2 * 99 in a minute.
    clock.advance(MINUTE / 6 - Duration::from_nanos(1));
    assert!(poll(&mut waits).is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(poll(&mut waits).is_ready());
    drop(entered(&limits, 0));
}

#[test]
fn spaced_after_a_wait_for_all_delays_the_next_by_half_a_period() {
    let (limits, clock) = spaced_tokens();
    drop(entered(&limits, 98));
    for cost in [98, 98, 1] {
        let mut waits = enter(&limits, cost);
        assert!(poll(&mut waits).is_pending());
        clock.advance(UNIT);
        assert!(poll(&mut waits).is_pending());
        clock.advance(98 * UNIT);
        assert!(poll(&mut waits).is_ready());
    }
}

#[test]
fn rollback_of_a_spaced_request_delays_no_other() {
    let (limits, _) = spaced_tokens();
    let call = limits.call(&98);
    call.rollback(call.enter_now().unwrap());
    drop(entered(&limits, 98));
}

/// Enters for a cost of 9 as soon as that is possible, which is after this time.
fn enters_after(limits: &ApiLimits<Tokens>, clock: &ManualClock, nanos: u64) -> ApiCharges {
    let mut waits = enter(limits, 9);
    clock.advance(Duration::from_nanos(nanos - 1));
    assert!(poll(&mut waits).is_pending());
    clock.advance(Duration::from_nanos(1));
    match poll(&mut waits) {
        Poll::Ready(charges) => charges.expect("there is room"),
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn spaced_in_a_log_admits_a_little_more_than_others_leave_evenly() {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).cost(|tokens: &Tokens| *tokens);
    let limits = ApiLimits::new([tokens.algorithm(Algorithm::SlidingLog).spaced()]);
    let first = entered(&limits, 9);
    // 9/8 of 99 in a minute.
    let second = enters_after(&limits, &clock, 60_000_000_000 * 8 / 99);
    answered_with(first, 200, &tokens_left("46"));
    drop(second);
    // Others have used 36. The second counts as counted, because nothing was followed before it.
    drop(enters_after(&limits, &clock, 60_000_000_000 * 8 / 99));
    drop(enters_after(&limits, &clock, 60_000_000_000 * 8 / 63));
}

#[test]
fn spaced_in_a_window_sends_half_of_what_remains_until_its_end() {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).cost(|tokens: &Tokens| *tokens);
    let limits = ApiLimits::new([tokens.algorithm(Algorithm::FixedWindow).spaced()]);
    drop(entered(&limits, 9));
    // 45 of the remaining 90 in a minute.
    drop(enters_after(&limits, &clock, 60_000_000_000 / 5));
    // 40.5 of 81 in 48 seconds.
    drop(enters_after(&limits, &clock, 48_000_000_000 * 2 / 9));
    // The next window is not spaced by what was left of this one.
    drop(entered(&limits, 0));
    clock.advance(MINUTE);
    drop(entered(&limits, 9));
}

#[test]
fn spaced_in_a_nanosecond_waits_for_time() {
    let clock = Clock::manual();
    let limit = ApiLimit::<Tokens>::new(Unit::Requests, 1, Duration::from_nanos(1));
    let limit = limit
        .algorithm(Algorithm::SlidingLog)
        .clock(&clock)
        .spaced();
    let limits = ApiLimits::new([limit]);
    drop(entered(&limits, 1));
    assert!(poll(&mut enter(&limits, 1)).is_pending());
    // The period is 25 ms longer.
    clock.advance(Duration::from_millis(26));
    drop(entered(&limits, 1));
}

#[test]
#[should_panic = "a window or a log allows its whole count at once"]
fn new_with_a_burst_of_a_window_panics() {
    let limit = limit(Unit::Requests, &Clock::manual()).burst(10);
    drop(ApiLimits::new([limit.algorithm(Algorithm::FixedWindow)]));
}

#[test]
fn new_of_a_small_limit_uses_all_of_it_over_time() {
    for (units, expected) in [
        (1, 1),
        (2, 2),
        (3, 3),
        (6, 6),
        (20, 19),
        (39, 38),
        (40, 38),
        (60, 58),
    ] {
        let clock = Clock::manual();
        let limit = ApiLimit::<Tokens>::new(Unit::Requests, units, MINUTE).clock(&clock);
        let window = ApiLimit::<Tokens>::new(Unit::Requests, units, MINUTE)
            .algorithm(Algorithm::FixedWindow)
            .clock(&clock);
        let limits = ApiLimits::new([limit, window]);
        let quotas: Vec<_> = limits.limiters().map(|it| it.quota()).collect();
        assert_eq!(left(&limits), [units.saturating_sub(2).max(1), expected]);
        assert_eq!(quotas[0].max_burst(), units.saturating_sub(2).max(1));
        assert_eq!(quotas[1].count(), expected);
    }
}

/// Requests that are sent a second apart may arrive 25 ms less apart.
#[test]
fn new_of_a_short_period_leaves_time_for_ways_that_differ() {
    let second = Duration::from_secs(1);
    let limit = |units, algorithm| {
        let limit = ApiLimit::<Tokens>::new(Unit::Requests, units, second);
        limit.algorithm(algorithm).clock(Clock::manual())
    };
    let limits = ApiLimits::new([
        limit(1, Algorithm::Gcra),
        limit(10, Algorithm::Gcra).burst(1),
        limit(10, Algorithm::Gcra),
        limit(10, Algorithm::SlidingLog),
    ]);
    let periods = limits.limiters().map(|it| it.quota().period().as_millis());
    assert!(periods.eq([1025, 1250, 1001, 1025]));

    let clock = Clock::manual();
    let window = ApiLimit::new(Unit::Requests, 10, second).algorithm(Algorithm::FixedWindow);
    let limits = ApiLimits::new([window.clock(&clock)]);
    let fields = [
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "0.5s"),
    ];
    answered_with(entered(&limits, 1), 200, &fields);
    clock.advance(Duration::from_millis(524));
    assert_eq!(left(&limits), [0]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(left(&limits), [10]);
}

#[test]
#[should_panic = "a limit cannot be 0 in 60s"]
fn new_without_units_panics() {
    drop(ApiLimit::<Tokens>::new(Unit::Requests, 0, MINUTE));
}

#[test]
#[should_panic = "a limit cannot be 7 in 0ns"]
fn new_without_a_period_panics() {
    drop(ApiLimit::<Tokens>::new(Unit::Requests, 7, Duration::ZERO));
}

#[test]
#[should_panic = "a bucket cannot have room for 0"]
fn burst_without_room_panics() {
    drop(ApiLimit::<Tokens>::new(Unit::Requests, 7, MINUTE).burst(0));
}

#[derive(Clone, Debug)]
enum Step {
    Enter(Tokens),
    /// Polls a wait.
    Poll(usize),
    /// Drops a wait.
    Leave(usize),
    RollBack(usize),
    Answer(usize, u16),
    Settle(usize, Tokens),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..99_u64).prop_map(Step::Enter),
        (0..8_usize).prop_map(Step::Poll),
        (0..8_usize).prop_map(Step::Leave),
        (0..8_usize).prop_map(Step::RollBack),
        (0..8_usize, prop_oneof![Just(200), Just(429)]).prop_map(|(it, how)| Step::Answer(it, how)),
        (0..8_usize, 0..200_u64).prop_map(|(it, used)| Step::Settle(it, used)),
        (1..20_000_u64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..100)
}

proptest! {
    /// Whatever becomes of the requests, nothing stays charged after they ended, and no request waits for nothing.
    #[test]
    fn limits_are_full_some_time_after_all_requests_ended(steps in steps()) {
        let (limits, clock) = requests_and_tokens();
        let (mut waits, mut sent, mut usages) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Enter(tokens) => waits.push((limits.call(&tokens), enter(&limits, tokens))),
                Step::Poll(it) if it < waits.len() => {
                    if let Poll::Ready(charges) = poll(&mut waits[it].1) {
                        sent.push((waits.remove(it).0, charges.unwrap()));
                    }
                }
                Step::Leave(it) if it < waits.len() => drop(waits.remove(it)),
                Step::RollBack(it) if it < sent.len() => {
                    let (call, charges) = sent.remove(it);
                    call.rollback(charges);
                }
                Step::Answer(it, status) if it < sent.len() => {
                    usages.push(answered(sent.remove(it).1, status));
                }
                Step::Settle(it, used) if it < usages.len() => {
                    usages.remove(it).settle(Unit::Tokens, used);
                }
                Step::Advance(millis) => clock.advance(Duration::from_millis(millis)),
                _ => {}
            }
        }
        drop((sent, usages));
        // In the order of their first poll, which is not known here.
        while !waits.is_empty() {
            clock.advance(100 * MINUTE);
            let waiting = waits.len();
            waits.retain_mut(|(_, wait)| poll(wait).is_pending());
            prop_assert!(waits.len() < waiting);
        }
        clock.advance(100 * MINUTE);
        prop_assert_eq!(left(&limits), [98, 98]);
    }
}

/// While calls are held, the limiter does not know when its window ends.
#[test]
fn spaced_in_a_window_knows_its_end_while_calls_are_held() {
    let clock = Clock::manual();
    let tokens = limit(Unit::Tokens, &clock).hold(|tokens: &Tokens| *tokens);
    let limits = ApiLimits::new([tokens.algorithm(Algorithm::FixedWindow).spaced()]);
    let fields = [
        ("x-ratelimit-remaining-tokens", "91"),
        ("x-ratelimit-reset-tokens", "30s"),
    ];
    let usage = answered_with(entered(&limits, 9), 200, &fields);
    assert!(!usage.is_settled());
    clock.advance(Duration::from_secs(20));
    drop(entered(&limits, 9));
    // Twice the rest of the window, which begins a thousandth later, for 9 of 81.
    drop(enters_after(&limits, &clock, 10_060_000_000 * 2 / 9));
}
