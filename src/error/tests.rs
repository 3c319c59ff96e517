//! Tests the texts, parts and numbers of errors.

use super::*;
use std::task::Poll;

#[test]
fn of_part_keeps_the_kind_and_counts_on() {
    let closed = AcquireError::new(ErrorKind::Closed);
    assert_eq!(closed.part(), None);
    assert_eq!(closed.clone().of_next_part().part(), None);
    for part in 0..=u8::MAX {
        let error = closed.clone().of_part(part);
        assert_eq!(
            (error.kind(), error.part()),
            (ErrorKind::Closed, Some(part.into()))
        );
        assert_eq!(error.of_next_part().part(), Some(usize::from(part) + 1));
    }
}

#[test]
fn poll_of_a_result_takes_no_more_room_than_the_error() {
    let size = size_of::<Poll<Option<Result<(), AcquireError>>>>();
    assert_eq!(size, size_of::<AcquireError>());
    assert_eq!(size, 2 * size_of::<u64>());
}

#[test]
fn source_of_a_store_is_kept_with_the_part() {
    static ONE: Source = &AcquireError::new(ErrorKind::Closed);
    static OTHER: Source = &AcquireError::new(ErrorKind::Cancelled);
    let [one, other, again] = [&ONE, &OTHER, &ONE].map(AcquireError::store);
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert_ne!(one, AcquireError::new(ErrorKind::Store));
    let other = other.of_part(3).marked(7);
    assert_eq!(
        other.source().map(ToString::to_string),
        Some(OTHER.to_string())
    );
    assert_eq!(
        (other.kind(), other.part(), other.mark()),
        (ErrorKind::Store, Some(3), 0)
    );
}

#[test]
fn to_string_of_each_kind_says_what_went_wrong() {
    for (kind, text) in [
        (ErrorKind::Closed, "the throttle is closed"),
        (ErrorKind::Cancelled, "cancelled while waiting"),
        (ErrorKind::TimedOut, "timed out while waiting"),
        (ErrorKind::QueueFull, "too many callers are waiting already"),
        (ErrorKind::TooManyKeys, "too many keys are in use"),
        (ErrorKind::NoPermits, "no permits are available"),
        (ErrorKind::RateLimited, "over the rate"),
        (ErrorKind::Store, "the store failed"),
    ] {
        assert_eq!(AcquireError::new(kind).to_string(), text);
    }
}

#[test]
fn debug_names_the_numbers_that_the_error_has() {
    static DOWN: Source = &AcquireError::new(ErrorKind::Closed);
    let debug = |error: AcquireError| format!("{error:?}");
    let soon = AcquireError::limited(Duration::from_millis(20)).of_part(1);
    assert_eq!(
        debug(soon),
        "AcquireError { kind: RateLimited, retry_after: 20ms, part: 1 }"
    );
    let no_permits = AcquireError::new(ErrorKind::NoPermits);
    assert_eq!(debug(no_permits), "AcquireError { kind: NoPermits }");
    let failed = debug(AcquireError::store(&DOWN));
    assert_eq!(
        failed,
        "AcquireError { kind: Store, source: AcquireError { kind: Closed } }"
    );
}

#[test]
fn to_string_of_never_has_no_number() {
    let never = |error: AcquireError| error.of_part(2).to_string();
    assert_eq!(
        never(AcquireError::limited(Duration::MAX)),
        "over the rate, and waiting does not help (part 2)"
    );
    assert_eq!(
        never(AcquireError::after(ErrorKind::QueueFull, Duration::MAX)),
        "too many callers are waiting already, and waiting does not help (part 2)"
    );
    assert_eq!(
        never(AcquireError::would_take(Duration::MAX)),
        "the wait would be longer than the timeout: it would never end (part 2)"
    );
}

#[test]
fn to_string_names_the_cause_and_equality_ignores_it() {
    let blocked = |error: AcquireError| error.because(Cause::Gate);
    let forty = Duration::from_secs(40);
    let texts = [
        (
            blocked(AcquireError::limited(forty)),
            "the gate is blocked, try again in 40s",
        ),
        (
            blocked(AcquireError::limited(Duration::MAX)),
            "the gate is blocked",
        ),
        (
            blocked(AcquireError::would_take(forty)),
            "the gate is blocked for longer than the timeout: 40s",
        ),
        (
            blocked(AcquireError::would_take(Duration::MAX)),
            "the gate is blocked for longer than the timeout",
        ),
        (
            AcquireError::limited(forty).because(Cause::Paused),
            "the limiter is paused, try again in 40s",
        ),
        (
            AcquireError::limited(Duration::MAX).because(Cause::Paused),
            "the limiter is paused",
        ),
        (AcquireError::cancelled_before(), "cancelled before waiting"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(
        blocked(AcquireError::limited(forty)),
        AcquireError::limited(forty)
    );
    let marked = blocked(AcquireError::limited(forty)).marked(3).of_part(1);
    assert_eq!(
        marked.to_string(),
        "the gate is blocked, try again in 40s (part 1)"
    );
}

#[test]
fn mark_is_kept_with_the_wait_and_the_part() {
    let wait = Duration::from_nanos(1);
    let error = AcquireError::limited(wait).marked(9).of_part(255);
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert_eq!((error.retry_after(), error.part()), (Some(wait), Some(255)));
    assert_eq!(error.mark(), 9);
    assert_ne!(error, AcquireError::limited(wait).of_part(255));
}

#[test]
fn retry_after_of_a_kind_that_waiting_does_not_help_is_never() {
    for kind in [ErrorKind::Closed, ErrorKind::ExceedsCapacity] {
        assert_eq!(AcquireError::new(kind).retry_after(), Some(Duration::MAX));
    }
    let exceeds = AcquireError::exceeds_capacity(8);
    assert_eq!(exceeds.retry_after(), Some(Duration::MAX));
    assert_eq!(exceeds.to_string(), "the call exceeds the capacity of 8");
    let kinds = [
        ErrorKind::Cancelled,
        ErrorKind::TimedOut,
        ErrorKind::QueueFull,
        ErrorKind::TooManyKeys,
        ErrorKind::NoPermits,
        ErrorKind::RateLimited,
        ErrorKind::Store,
    ];
    for kind in kinds {
        assert_eq!(AcquireError::new(kind).retry_after(), None);
    }
}

#[test]
fn retry_after_of_never_is_the_longest_duration() {
    let (never, now) = (Tick::from_nanos(u64::MAX), Tick::from_nanos(5));
    let after = |error: AcquireError| error.retry_after();
    let longest = Some(Duration::MAX);
    assert_eq!(after(AcquireError::limited_until(never, now)), longest);
    assert_eq!(after(AcquireError::limited(Duration::MAX)), longest);
    assert_eq!(after(AcquireError::would_take(Duration::MAX)), longest);
    let due = Tick::from_nanos(7);
    let refused = AcquireError::limited_until(due, now);
    assert_eq!(after(refused), Some(Duration::from_nanos(2)));
}

/// An error with a given text.
#[derive(Debug)]
struct Says(usize);

impl std::fmt::Display for Says {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failure {}", self.0)
    }
}

impl Error for Says {}

#[test]
fn of_failure_keeps_one_of_each_text_and_not_more_than_it_says() {
    let source = |number| {
        let error = AcquireError::of_failure(Says(number));
        assert_eq!(error.kind(), ErrorKind::Store);
        error
            .source()
            .map(|source| source.downcast_ref::<Says>().unwrap().0)
    };
    for _ in 0..2 {
        assert!((0..1024).all(|number| source(number) == Some(number)));
        assert_eq!(source(1024), None);
    }
}
