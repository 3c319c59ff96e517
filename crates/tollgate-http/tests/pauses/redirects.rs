//! Responses of an origin to which a client was redirected.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate_http::{NextStep, PausedBy, Pauses, ResponseClass};

use super::setup::{Caller, ORIGIN, SECOND, exact, refuse, wait_of};

const OTHER: &str = "https://example.org:443";

fn answered_by_other(caller: &mut Caller, status: u16, seconds: Option<u64>) -> NextStep {
    let status = StatusCode::from_u16(status).unwrap();
    let headers = wait_of(seconds);
    let class = ResponseClass::of(status, &headers, SystemTime::now);
    caller
        .call
        .answered_by(OTHER, status, &headers, class, true)
}

fn is_paused(pauses: &Pauses, origin: &str) -> bool {
    pauses.check(origin).is_err()
}

#[test]
fn answered_by_another_origin_pauses_that_one() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    assert_eq!(
        answered_by_other(&mut caller, 429, Some(5)),
        NextStep::Retry
    );
    assert!(is_paused(&pauses, OTHER) && !is_paused(&pauses, ORIGIN));
    // The request would be redirected there once more.
    clock.advance(5 * SECOND - Duration::from_nanos(1));
    assert!(caller.waits());
    let mut other = Caller::new(&pauses);
    assert!(other.succeeds());
    clock.advance(Duration::from_nanos(1));
    assert!(caller.was_woken() && caller.sends());
    assert_eq!(answered_by_other(&mut caller, 200, None), NextStep::Return);
    assert_eq!(pauses.snapshot(), tollgate_http::PausesSnapshot::default());
}

#[test]
fn answered_by_another_origin_counts_all_retries() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    for seconds in [1, 2] {
        assert!(caller.sends());
        assert_eq!(answered_by_other(&mut caller, 503, None), NextStep::Retry);
        assert!(caller.waits());
        clock.advance(Duration::from_secs(seconds));
    }
    assert!(!caller.call.has_retries_left() && caller.sends());
    assert_eq!(answered_by_other(&mut caller, 503, None), NextStep::Return);
    // Its own origin refuses after a redirect.
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    assert_eq!(answered_by_other(&mut caller, 503, None), NextStep::Retry);
    clock.advance(SECOND);
    assert!(caller.sends());
    assert_eq!(caller.answered(429, Some(1)), NextStep::Retry);
    clock.advance(SECOND);
    assert!(caller.sends());
    assert_eq!(caller.answered(429, Some(1)), NextStep::Return);
}

#[test]
fn answered_by_another_origin_is_a_success_of_its_own() {
    let (pauses, clock) = exact();
    refuse(&pauses, 429, Some(1));
    clock.advance(SECOND);
    let [mut first, mut second] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(first.sends() && second.waits());
    answered_by_other(&mut first, 429, Some(9));
    assert!(second.was_woken() && second.succeeds());
    assert!(is_paused(&pauses, OTHER) && !is_paused(&pauses, ORIGIN));
}

#[test]
fn answered_by_the_same_origin_is_answered() {
    let (pauses, _clock) = exact();
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    let status = StatusCode::TOO_MANY_REQUESTS;
    let class = ResponseClass::Refused(None);
    let next = caller
        .call
        .answered_by(ORIGIN, status, &HeaderMap::new(), class, true);
    assert_eq!(next, NextStep::Retry);
    assert_eq!(pauses.check(ORIGIN).unwrap_err().by(), PausedBy::Guess);
}

/// A refusal of a request that was sent before the pause began is no news.
#[test]
fn answered_by_another_origin_knows_when_the_request_was_sent() {
    let (pauses, clock) = exact();
    let [mut first, mut second] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(first.sends() && second.sends());
    answered_by_other(&mut first, 429, None);
    clock.advance(SECOND);
    assert!(!is_paused(&pauses, OTHER));
    answered_by_other(&mut second, 429, None);
    assert!(!is_paused(&pauses, OTHER));
}

#[test]
fn ready_of_a_call_that_was_redirected_waits_for_both_origins() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    answered_by_other(&mut caller, 429, Some(1));
    pauses.pause(ORIGIN, 3 * SECOND);
    clock.advance(SECOND);
    assert!(caller.waits());
    clock.advance(2 * SECOND);
    assert!(caller.passes());
    // The last look is at both, too.
    pauses.pause(OTHER, SECOND);
    assert!(!caller.call.send());
    clock.advance(SECOND);
    assert!(caller.passes());
    pauses.pause(ORIGIN, SECOND);
    assert!(!caller.call.send());
    clock.advance(SECOND);
    assert!(caller.sends());
    // It cannot wait for more than a minute in all.
    answered_by_other(&mut caller, 429, Some(50));
    pauses.pause(OTHER, 100 * SECOND);
    assert_eq!(caller.refused().origin(), OTHER);
}

#[test]
fn waits_for_both_origins_count_for_a_second_refusal() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    answered_by_other(&mut caller, 429, Some(1));
    pauses.pause(ORIGIN, 50 * SECOND);
    clock.advance(SECOND);
    assert!(caller.waits());
    clock.advance(49 * SECOND);
    assert!(caller.sends());
    // It may wait for ten seconds more.
    let next = answered_by_other(&mut caller, 429, Some(11));
    assert_eq!(next, NextStep::Return);
}
