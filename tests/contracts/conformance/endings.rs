//! Checks of the ways a wait ends without a permit: the combinators, on a wait of unknown type.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tollgate::{ErrorKind, Throttle};

use super::subject::{Subject, assert_at_rest, fill, parked};
use crate::support::{Waiter, in_destructors, kind};

pub(crate) fn a_wait_of_no_time_takes_what_there_is(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let permit = Waiter::new(throttle.enter().timeout(Duration::ZERO)).granted();
    let mut late = Waiter::new(throttle.enter().timeout(Duration::ZERO));
    assert_eq!(late.refused(), ErrorKind::TimedOut);
    // It holds no place, although the future still exists.
    let mut waiting = parked(&throttle);
    throttle.rollback(permit);
    throttle.rollback(waiting.granted());
    assert_at_rest(&throttle, 1);
    drop(late);
}

pub(crate) fn a_thread_gives_up_after_its_time(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let short = Duration::from_millis(1);
    assert_eq!(
        kind(throttle.enter().timeout(short).wait()),
        ErrorKind::TimedOut
    );
    throttle.rollback(permit);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn timeout_in_a_destructor_of_a_thread_ends_its_wait(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let waits = throttle.clone();
    let short = Duration::from_millis(1);
    let refused = in_destructors(move || kind(waits.enter().timeout(short).wait()));
    assert_eq!(refused.collect::<Vec<_>>(), [ErrorKind::TimedOut; 3]);
    throttle.rollback(permit);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn blocked_threads_are_let_in_as_others_leave(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let mut permits = fill(&throttle, 2);
    let (enters, entered) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..4 {
            let (throttle, enters) = (throttle.clone(), enters.clone());
            scope.spawn(move || enters.send(throttle.wait().unwrap()).unwrap());
        }
        // For each that leaves, one of them is let in, whichever it is.
        for _ in 0..4 {
            throttle.rollback(permits.remove(0));
            permits.push(entered.recv().unwrap());
        }
    });
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 2);
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::conformance::limits::end_waits_of_threads;
    use crate::support::paused_runtime;

    pub(crate) fn a_cancelled_token_takes_nothing(subject: &Subject) {
        let throttle = subject.with_limit(1);
        let token = CancellationToken::new();
        let made_before = throttle.enter().cancel_on(&token);
        token.cancel();
        let made_after = throttle.enter().cancel_on(&token);
        for wait in [made_before, made_after] {
            let mut cancelled = Waiter::new(wait);
            assert_eq!(cancelled.refused(), ErrorKind::Cancelled);
            assert_at_rest(&throttle, 1);
        }
        // In each form of waiting.
        let owned = throttle.enter().cancel_on(token.clone());
        let inside = throttle.enter().cancel_on(&token).timeout(SECOND);
        let outside = throttle.enter().timeout(SECOND).cancel_on(&token);
        let refusals = [
            Waiter::new(owned).refused(),
            Waiter::new(inside).refused(),
            Waiter::new(outside).refused(),
            kind(throttle.enter().cancel_on(&token).wait()),
        ];
        assert_eq!(refusals, [ErrorKind::Cancelled; 4]);
        assert_at_rest(&throttle, 1);
    }

    pub(crate) fn a_token_that_is_not_cancelled_changes_nothing(subject: &Subject) {
        let throttle = subject.with_limit(1);
        let token = CancellationToken::new();
        let permit = Waiter::new(throttle.enter().cancel_on(&token)).granted();
        let mut waiting = Waiter::parked(throttle.enter().cancel_on(token.clone()));
        throttle.rollback(permit);
        assert!(waiting.wakes() > 0);
        throttle.rollback(waiting.granted());
        assert_at_rest(&throttle, 1);
    }

    pub(crate) fn a_token_ends_a_wait(subject: &Subject) {
        let (throttle, permit) = subject.held();
        let token = CancellationToken::new();
        let mut cancelled = Waiter::parked(throttle.enter().cancel_on(&token));
        let mut behind = parked(&throttle);
        token.cancel();
        assert!(cancelled.wakes() > 0);
        assert_eq!(cancelled.refused(), ErrorKind::Cancelled);
        throttle.rollback(permit);
        assert!(behind.wakes() > 0);
        throttle.rollback(behind.granted());
        assert_at_rest(&throttle, 1);
        drop(cancelled);
    }

    pub(crate) fn cancelled_after_the_wake_is_passed_on(subject: &Subject) {
        let (throttle, permit) = subject.held();
        let token = CancellationToken::new();
        let mut cancelled = Waiter::parked(throttle.enter().cancel_on(&token));
        let mut behind = parked(&throttle);
        throttle.rollback(permit);
        assert!(cancelled.wakes() > 0);
        token.cancel();
        assert_eq!(cancelled.refused(), ErrorKind::Cancelled);
        // Although the cancelled future still exists.
        assert!(behind.wakes() > 0);
        throttle.rollback(behind.granted());
        assert_at_rest(&throttle, 1);
        drop(cancelled);
    }

    pub(crate) fn a_token_ends_the_wait_of_a_thread(subject: &Subject) {
        let held = || (subject.held(), CancellationToken::new());
        // Often enough that now and then all of them are asleep.
        let held: Vec<_> = (0..20).map(|_| held()).collect();
        let waits: Vec<_> = (held.iter())
            .map(|((throttle, _), token)| (throttle.clone(), token))
            .collect();
        end_waits_of_threads(
            &waits,
            ErrorKind::Cancelled,
            |(throttle, token)| throttle.enter().cancel_on(*token).wait(),
            |(_, token)| token.cancel(),
        );
        for ((throttle, permit), _) in held {
            throttle.rollback(permit);
            assert_at_rest(&throttle, 1);
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    pub(crate) fn a_deadline_ends_a_wait(subject: &Subject) {
        paused_runtime().block_on(async {
            let (throttle, permit) = subject.held();
            if subject.guarantees.knows {
                // No caller is admitted for an hour.
                let mut late = Waiter::new(throttle.enter().timeout(SECOND));
                assert_eq!(late.refused(), ErrorKind::TimedOut);
                return;
            }
            let mut late = Waiter::parked(throttle.enter().timeout(SECOND));
            let mut behind = parked(&throttle);
            tokio::time::advance(SECOND - Duration::from_millis(1)).await;
            assert!(late.is_pending());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(late.wakes() > 0);
            assert_eq!(late.refused(), ErrorKind::TimedOut);
            throttle.rollback(permit);
            throttle.rollback(behind.granted());
            assert_at_rest(&throttle, 1);
            drop(late);
        });
    }

    pub(crate) fn a_permit_comes_before_the_deadline(subject: &Subject) {
        paused_runtime().block_on(async {
            if subject.guarantees.knows {
                return;
            }
            let (throttle, permit) = subject.held();
            let mut waiting = Waiter::parked(throttle.enter().timeout(SECOND));
            throttle.rollback(permit);
            tokio::time::advance(SECOND).await;
            throttle.rollback(waiting.granted());
            assert_at_rest(&throttle, 1);
        });
    }
}
#[cfg(feature = "tokio")]
pub(crate) use with_tokio::*;
