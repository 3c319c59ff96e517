//! How a wait for a permit ends: by a token, by a deadline, by being dropped; and waiting by
//! blocking the thread.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tollgate::{ChannelSemaphore, ErrorKind};

use super::assert_at_rest;
use crate::support::foreign::panic_message;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_was_woken_and_is_dropped_passes_it_on() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let borrowed = Waiter::parked(semaphore.acquire());
    let owned = Waiter::parked(Arc::clone(&semaphore).acquire_owned());
    let mut last = Waiter::parked(semaphore.acquire());
    drop(held);
    assert!(borrowed.wakes() > 0 && owned.wakes() == 0);
    drop(borrowed);
    assert!(owned.wakes() > 0 && last.wakes() == 0);
    drop(owned);
    assert!(last.wakes() > 0);
    drop(last.granted());
    assert_at_rest(&semaphore, 1);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_blocked_thread_is_served_by_another() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let (sends, sent) = mpsc::channel();
    thread::scope(|scope| {
        let (semaphore, sends_owned) = (&semaphore, sends.clone());
        scope.spawn(move || {
            let _permit = semaphore.acquire().wait().unwrap();
            sends.send(semaphore.available_permits())
        });
        scope.spawn(move || {
            let _permit = Arc::clone(semaphore).acquire_owned().wait().unwrap();
            sends_owned.send(semaphore.available_permits())
        });
        drop(held);
        assert_eq!((sent.recv(), sent.recv()), (Ok(0), Ok(0)));
    });
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocked_thread_gives_up_after_its_time() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let short = Duration::from_millis(1);
    let borrowed = semaphore.acquire().timeout(short).wait();
    assert_eq!(kind(borrowed), ErrorKind::TimedOut);
    let owned = Arc::clone(&semaphore).acquire_owned().timeout(short).wait();
    assert_eq!(kind(owned), ErrorKind::TimedOut);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn without_any_time_one_takes_what_is_free() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let held = Waiter::new(semaphore.acquire().timeout(Duration::ZERO)).granted();
    let late = Arc::clone(&semaphore).acquire_owned();
    let mut late = Waiter::new(late.timeout(Duration::ZERO));
    assert_eq!(late.refused(), ErrorKind::TimedOut);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

/// Polls until it is ready, and then once more.
#[track_caller]
fn polled_again<F: Future>(future: F) {
    let mut waiter = Waiter::new(future);
    drop(waiter.output());
    for _ in 0..2 {
        let message = panic_message(|| waiter.poll().is_ready());
        assert_eq!(message.as_deref(), Some("polled again after it was ready"));
    }
}

#[test]
fn a_future_that_is_polled_again_panics_and_takes_nothing() {
    let semaphore = Arc::new(ChannelSemaphore::new(1));
    let shared = || Arc::clone(&semaphore);
    polled_again(semaphore.acquire());
    polled_again(shared().acquire_owned());
    polled_again(semaphore.acquire().timeout(SECOND));
    polled_again(shared().acquire_owned().timeout(SECOND));
    assert_at_rest(&semaphore, 1);
    // And after it was served from the line.
    let held = semaphore.try_acquire().unwrap();
    let mut borrowed = Waiter::parked(semaphore.acquire());
    drop(held);
    let held = borrowed.granted();
    let mut owned = Waiter::parked(shared().acquire_owned());
    drop(held);
    drop(owned.granted());
    let expected = Some("polled again after it was ready");
    let again = panic_message(|| borrowed.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    let again = panic_message(|| owned.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    assert_at_rest(&semaphore, 1);
    semaphore.close();
    polled_again(semaphore.acquire());
    polled_again(shared().acquire_owned());
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio::time::{Instant, advance};
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn cancelled_already_wins_although_permits_are_free_and_takes_none() {
        let semaphore = Arc::new(ChannelSemaphore::new(2));
        let token = CancellationToken::new();
        token.cancel();
        let shared = || Arc::clone(&semaphore);
        let cancellable = || semaphore.acquire().cancel_on(&token);
        let refusals = [
            Waiter::new(semaphore.acquire().cancel_on(&token)).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(&token)).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
            Waiter::new(cancellable()).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
            kind(cancellable().wait()),
            Waiter::new(cancellable().timeout(SECOND)).refused(),
            Waiter::new(semaphore.acquire().timeout(SECOND).cancel_on(&token)).refused(),
        ];
        assert_eq!(refusals, [ErrorKind::Cancelled; 8]);
        assert_at_rest(&semaphore, 2);
        assert_eq!(Arc::strong_count(&semaphore), 1);
    }

    #[test]
    fn a_token_that_is_not_cancelled_changes_nothing() {
        let semaphore = Arc::new(ChannelSemaphore::new(2));
        let token = CancellationToken::new();
        let one = Waiter::new(semaphore.acquire().cancel_on(&token)).granted();
        let owned = Arc::clone(&semaphore)
            .acquire_owned()
            .cancel_on(token.clone());
        let other = Waiter::new(owned).granted();
        let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
        drop(one);
        drop((waiter.granted(), other));
        assert_at_rest(&semaphore, 2);
    }

    #[test]
    fn one_token_ends_the_waits_of_all_who_have_it() {
        let semaphore = Arc::new(ChannelSemaphore::new(1));
        let token = CancellationToken::new();
        let held = semaphore.try_acquire().unwrap();
        let mut borrowed = Waiter::parked(semaphore.acquire().cancel_on(&token));
        let owned = Arc::clone(&semaphore)
            .acquire_owned()
            .cancel_on(token.clone());
        let mut owned = Waiter::parked(owned);
        let mut stays = Waiter::parked(semaphore.acquire());
        token.cancel();
        assert!(borrowed.wakes() > 0 && owned.wakes() > 0);
        assert_eq!(borrowed.refused(), ErrorKind::Cancelled);
        assert_eq!(owned.refused(), ErrorKind::Cancelled);
        assert!(stays.is_pending());
        drop(held);
        drop(stays.granted());
        assert_at_rest(&semaphore, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_after_exactly_its_duration() {
        let semaphore = Arc::new(ChannelSemaphore::new(1));
        let held = semaphore.try_acquire().unwrap();
        let begun = Instant::now();
        let borrowed = semaphore.acquire().timeout(SECOND).await;
        assert_eq!(kind(borrowed), ErrorKind::TimedOut);
        let owned = Arc::clone(&semaphore).acquire_owned();
        assert_eq!(kind(owned.timeout(SECOND).await), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 2 * SECOND);
        drop(held);
        assert_at_rest(&semaphore, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_comes_with_the_deadline_is_taken() {
        let semaphore = ChannelSemaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let mut waiter = Waiter::parked(semaphore.acquire().timeout(SECOND));
        advance(SECOND).await;
        drop(held);
        drop(waiter.granted());
        assert_at_rest(&semaphore, 1);
    }
}
