use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Throttle};

use super::{ApiCharges, ApiLimit, ApiLimits, Charged};
use crate::server_limits::Unit;

const MINUTE: Duration = Duration::from_secs(60);

/// A limit of 100 tokens in a fixed window, of which the limiter keeps 98. A call holds 40.
fn limits(clock: &ManualClock) -> ApiLimits<()> {
    let tokens = ApiLimit::new(Unit::Tokens, 100, MINUTE)
        .algorithm(Algorithm::FixedWindow)
        .clock(clock)
        .hold(|()| 40)
        .charged(|_, status, _| match status.is_success() {
            true => Charged::Used,
            false => Charged::Exactly(0),
        });
    ApiLimits::new([tokens])
}

fn enter(limits: &ApiLimits<()>) -> ApiCharges {
    limits.call(&()).enter_now().expect("there is room")
}

fn available(limits: &ApiLimits<()>) -> u64 {
    let limiter = limits.limiters().next().expect("there is one");
    limiter.snapshot().available
}

fn remaining(tokens: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-ratelimit-remaining-tokens", tokens.into());
    headers.insert("x-ratelimit-reset-tokens", "50s".parse().expect("a value"));
    headers
}

fn answer(charges: ApiCharges, status: StatusCode, headers: &HeaderMap) -> super::Usage {
    charges.answered(status, headers, SystemTime::UNIX_EPOCH)
}

#[test]
fn answered_after_a_settlement_takes_the_excess_for_no_use_by_others() {
    let limits = limits(&Clock::manual());
    let (first, second) = (enter(&limits), enter(&limits));
    answer(first, StatusCode::OK, &HeaderMap::new()).settle(Unit::Tokens, 10);
    // The server had counted 40 for the first when the second arrived.
    let _usage = answer(second, StatusCode::OK, &remaining(20));
    assert_eq!(available(&limits), 98 - 10 - 40);
}

#[test]
fn answered_after_a_failure_takes_its_charge_for_no_use_by_others() {
    let limits = limits(&Clock::manual());
    let (first, second) = (enter(&limits), enter(&limits));
    let failure = StatusCode::INTERNAL_SERVER_ERROR;
    let _usage = answer(first, failure, &HeaderMap::new());
    let _usage = answer(second, StatusCode::OK, &remaining(20));
    assert_eq!(available(&limits), 98 - 40);
}

#[test]
fn answered_after_a_refusal_counts_the_use_by_others() {
    let limits = limits(&Clock::manual());
    let (first, second) = (enter(&limits), enter(&limits));
    let refusal = StatusCode::TOO_MANY_REQUESTS;
    let _usage = answer(first, refusal, &HeaderMap::new());
    // The server had not counted the first, so others have used 15.
    let _usage = answer(second, StatusCode::OK, &remaining(45));
    assert_eq!(available(&limits), 98 - 40 - 15);
}
