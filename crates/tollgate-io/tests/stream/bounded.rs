//! How much one poll does: 64 items are started, or 64 results yielded, and then the task gives way.

use std::cell::Cell;
use std::future::{pending, ready};

use futures::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore};
use tollgate_io::stream::LimitStreamExt;

use super::jobs::Polled;
use crate::support::Waiter;

const MANY: usize = 1_000_000;

#[test]
fn for_each_limited_with_items_that_only_start_starts_64_in_one_poll() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..MANY).for_each_limited(&slots, |_| {
        started.set(started.get() + 1);
        pending()
    }));
    for poll in 1..=3 {
        assert!(run.poll().is_pending());
        assert_eq!(started.get(), 64 * poll);
        assert!(run.wakes() >= poll);
    }
}

#[test]
fn for_each_limited_with_items_that_are_ready_finishes_64_in_one_poll() {
    let (slots, done) = (Semaphore::new(1), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..130).for_each_limited(&slots, |_| {
        done.set(done.get() + 1);
        ready(())
    }));
    for poll in 1..=2 {
        assert!(run.poll().is_pending());
        assert_eq!(done.get(), 64 * poll);
    }
    run.granted();
    assert_eq!(done.get(), 130);
}

#[test]
fn buffer_limited_with_items_that_only_start_starts_64_in_one_poll() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let items = stream::iter(0..MANY).map(|_| {
        started.set(started.get() + 1);
        pending::<()>()
    });
    let mut results = Polled::new(items.buffer_limited(&slots));
    for poll in 1..=3 {
        assert!(results.poll().is_pending());
        assert_eq!(started.get(), 64 * poll);
        assert!(results.wakes() >= poll);
    }
}

#[test]
fn buffer_limited_that_was_pending_starts_64_more() {
    let (slots, started) = (Semaphore::new(40), Cell::new(0));
    let items = stream::iter(0..MANY).map(|_| {
        started.set(started.get() + 1);
        pending::<()>()
    });
    let mut results = Polled::new(items.buffer_limited(&slots));
    assert!(results.poll().is_pending());
    // 40 run, and one waits.
    assert_eq!(started.get(), 41);
    slots.set_permits(MANY);
    assert!(results.poll().is_pending());
    assert_eq!(started.get(), 40 + 64);
}

/// Found from outside: a million items were started in one poll, and a token that was cancelled
/// after 50 ms was noticed after 1.65 s.
#[test]
fn token_cancelled_while_items_start_ends_the_poll_after_64() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let token = CancellationToken::new();
    let work = |_| {
        started.set(started.get() + 1);
        if started.get() == 50 {
            token.cancel();
        }
        pending()
    };
    let run = stream::iter(0..MANY).for_each_limited(&slots, work);
    let mut run = Waiter::new(run.cancel_on(&token));
    assert_eq!(run.refused(), ErrorKind::Cancelled);
    assert_eq!((started.get(), slots.available_permits()), (64, MANY));
}
