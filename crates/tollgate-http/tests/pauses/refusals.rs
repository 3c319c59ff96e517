//! What refusals mean, and what is repeated.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate_http::{NextStep, Paused, PausedBy, Pauses, ResponseClass};

use super::setup::{Caller, ORIGIN, SECOND, exact, refuse};

fn left(pauses: &Pauses) -> Option<Duration> {
    pauses.check(ORIGIN).err()?.remaining()
}

#[test]
fn response_pauses_its_origin_if_it_refuses() {
    let seconds = |wait| Some(Duration::from_secs(wait));
    for (status, field, expected) in [
        (429, Some(7), seconds(7)),
        (429, None, seconds(1)),
        // A wait of nothing says nothing.
        (429, Some(0), seconds(1)),
        (503, Some(7), seconds(7)),
        (503, Some(0), None),
        (403, Some(0), None),
        (529, Some(7), seconds(7)),
        (403, Some(7), seconds(7)),
        (418, Some(7), seconds(7)),
        (503, None, None),
        (529, None, None),
        (403, None, None),
        (418, None, None),
        (404, None, None),
        (500, None, None),
        (301, Some(7), None),
        (200, Some(7), None),
    ] {
        let (pauses, _clock) = exact();
        refuse(&pauses, status, field);
        assert_eq!(left(&pauses), expected, "{status} {field:?}");
    }
}

#[test]
fn refusal_without_a_time_doubles_the_pause_until_a_later_request_succeeds() {
    let (pauses, clock) = exact();
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        refuse(&pauses, 429, None);
        assert_eq!(left(&pauses), Some(Duration::from_secs(seconds)));
        clock.advance(Duration::from_secs(seconds));
    }
    let mut caller = Caller::new(&pauses);
    assert!(caller.succeeds());
    refuse(&pauses, 429, None);
    assert_eq!(left(&pauses), Some(SECOND));
}

#[test]
fn refusals_of_requests_from_before_the_pause_count_once() {
    let (pauses, clock) = exact();
    let mut callers: Vec<Caller> = (0..5).map(|_| Caller::new(&pauses)).collect();
    assert!(callers.iter_mut().all(Caller::sends));
    callers[0].answered(429, None);
    callers[1].answered(429, None);
    assert_eq!(left(&pauses), Some(SECOND));
    clock.advance(SECOND);
    // After the pause, and also when the origin is open again.
    callers[2].answered(429, None);
    assert_eq!(left(&pauses), None);
    let mut next = Caller::new(&pauses);
    assert!(callers[0].succeeds() && callers[1].succeeds() && callers[2].succeeds());
    assert!(next.succeeds());
    assert_eq!(pauses.snapshot().opening, 0);
    callers[3].answered(429, None);
    assert_eq!(left(&pauses), None);
    // The origin stays open.
    let mut many: Vec<Caller> = (0..5).map(|_| Caller::new(&pauses)).collect();
    assert!(many.iter_mut().all(Caller::sends));
    // One with a time is news.
    callers[4].answered(429, Some(5));
    assert_eq!(left(&pauses), Some(5 * SECOND));
}

#[test]
fn success_of_a_request_from_before_the_pause_opens_nothing() {
    let (pauses, clock) = exact();
    let [mut old, mut refused] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(old.sends() && refused.sends());
    refused.answered(429, None);
    clock.advance(SECOND);
    old.answered(200, None);
    assert!(refused.sends());
    refused.answered(429, None);
    assert_eq!(left(&pauses), Some(2 * SECOND));
}

#[test]
fn answered_repeats_twice_and_returns_the_third_refusal() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    for next in [NextStep::Retry, NextStep::Retry, NextStep::Return] {
        assert!(caller.sends());
        assert_eq!(caller.answered(429, Some(1)), next);
        clock.advance(SECOND);
    }
}

#[test]
fn answered_returns_what_cannot_be_repeated_or_cannot_wait_so_long() {
    let (pauses, _clock) = exact();
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    let status = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(
        caller.call.answered(status, &HeaderMap::new(), false),
        NextStep::Return
    );
    pauses.resume(ORIGIN);
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    let headers = [("x-should-retry", "false")]
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let headers = HeaderMap::from_iter(headers);
    assert_eq!(
        caller.call.answered(status, &headers, true),
        NextStep::Return
    );
    pauses.resume(ORIGIN);
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    assert_eq!(caller.answered(429, Some(61)), NextStep::Return);
}

#[test]
fn answered_of_a_request_refused_alone_delays_that_request() {
    let (pauses, clock) = exact();
    let mut caller = Caller::new(&pauses);
    for seconds in [1, 2] {
        assert!(caller.sends());
        assert_eq!(caller.answered(503, None), NextStep::Retry);
        assert_eq!(left(&pauses), None);
        clock.advance(Duration::from_secs(seconds) - Duration::from_nanos(1));
        assert!(caller.waits());
        let mut other = Caller::new(&pauses);
        assert!(other.succeeds());
        clock.advance(Duration::from_nanos(1));
        assert!(caller.was_woken());
    }
    assert!(caller.sends());
    assert_eq!(caller.answered(503, None), NextStep::Return);
}

#[test]
fn request_refused_alone_after_a_pause_lets_the_next_go() {
    let (pauses, clock) = exact();
    refuse(&pauses, 429, Some(1));
    let [mut first, mut second] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(first.waits() && second.waits());
    clock.advance(SECOND);
    assert!(first.sends());
    first.answered(503, None);
    assert!(second.was_woken() && second.succeeds());
}

#[test]
fn answered_takes_later_repeats_from_a_budget() {
    let (pauses, clock) = exact();
    let refusals = |calls: usize| {
        let mut callers: Vec<Caller> = (0..calls).map(|_| Caller::new(&pauses)).collect();
        assert!(callers.iter_mut().all(Caller::sends));
        let nexts = callers.iter_mut().map(|caller| caller.answered(503, None));
        nexts.filter(|next| *next == NextStep::Retry).count()
    };
    assert_eq!(refusals(200), 100);
    // A tenth for each call, and one for each second.
    assert_eq!(refusals(100), 10);
    clock.advance(5 * SECOND);
    assert_eq!(refusals(10), 6);
}

#[test]
fn answered_of_a_repeat_gives_nothing_back_to_the_budget() {
    let (pauses, clock) = exact();
    let mut callers: Vec<Caller> = (0..100).map(|_| Caller::new(&pauses)).collect();
    let mut refuse_all = || {
        assert!(callers.iter_mut().all(Caller::sends));
        let nexts = callers.iter_mut().map(|caller| caller.answered(503, None));
        nexts.filter(|next| *next == NextStep::Retry).count()
    };
    assert_eq!(refuse_all(), 100);
    clock.advance(SECOND);
    // That of the second.
    assert_eq!(refuse_all(), 1);
}

/// An origin that refuses leaves the repeats of others.
#[test]
fn answered_takes_repeats_from_the_budget_of_the_origin() {
    let (pauses, _clock) = exact();
    let refused = |origin: &str| {
        let mut call = pauses.call(origin);
        assert!(call.send());
        call.answered(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new(), true)
    };
    let refusals = (0..1_000).filter(|_| refused(ORIGIN) == NextStep::Retry);
    assert!(refusals.count() < 300);
    // One of these can have the same hash by chance, but not all.
    let others = [
        "https://example.org:443",
        "https://example.net:443",
        "https://example.edu:443",
    ];
    assert!(
        others
            .into_iter()
            .any(|other| refused(other) == NextStep::Retry)
    );
}

#[test]
fn waits_of_all_attempts_count_and_the_requests_do_not() {
    for (last, next) in [(20, NextStep::Retry), (21, NextStep::Return)] {
        let (pauses, clock) = exact();
        let mut caller = Caller::new(&pauses);
        for (wait, next) in [(40, NextStep::Retry), (last, next)] {
            assert!(caller.sends());
            clock.advance(100 * SECOND);
            assert_eq!(caller.answered(429, Some(wait)), next);
            // It waits from then on, whether or not it is polled.
            clock.advance(Duration::from_secs(wait));
        }
    }
}

/// The default leaves time for the usual wait, with the jitter and the request itself.
#[test]
fn answered_with_a_wait_of_a_minute_repeats_by_default() {
    let clock = tollgate::Clock::manual();
    let pauses = Pauses::new().clock(&clock);
    let mut caller = Caller::new(&pauses);
    assert!(caller.sends());
    clock.advance(10 * SECOND);
    assert_eq!(caller.answered(429, Some(60)), NextStep::Retry);
}

#[test]
fn classify_changes_the_usual_meaning() {
    let pauses = Pauses::new().classify(|status, _, usual| match status.as_u16() {
        429 => ResponseClass::RefusedAlone,
        500 => ResponseClass::Refused(None),
        _ => usual,
    });
    refuse(&pauses, 429, Some(7));
    assert_eq!(left(&pauses), None);
    refuse(&pauses, 500, None);
    let paused = pauses.check(ORIGIN).unwrap_err();
    assert_eq!(
        (paused.by(), paused.status().as_u16()),
        (PausedBy::Guess, 500)
    );
}

#[test]
fn in_chain_finds_the_error_behind_others() {
    #[derive(Debug)]
    struct Outer(Box<dyn Error>);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }
    let pauses = Pauses::new();
    pauses.pause(ORIGIN, SECOND);
    let paused = pauses.check(ORIGIN).unwrap_err();
    let outer = Outer(Box::new(Outer(Box::new(paused.clone()))));
    assert_eq!(Paused::in_chain(&outer), Some(&paused));
    assert_eq!(Paused::in_chain(&paused), Some(&paused));
    assert_eq!(Paused::in_chain(&fmt::Error), None);
}
