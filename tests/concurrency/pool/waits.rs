//! How a wait for an item ends: by a token, by a deadline, by being dropped; and waiting by blocking
//! the thread.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tollgate::{ErrorKind, Pool};

use super::tracked::{made_to_order, ready_made};
use crate::support::foreign::panic_message;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_was_woken_and_is_dropped_passes_it_on() {
    let (pool, tally) = ready_made(1);
    let held = pool.try_acquire().unwrap();
    let borrowed = Waiter::parked(pool.acquire());
    let owned = Waiter::parked(Arc::clone(&pool).acquire_owned());
    let mut last = Waiter::parked(pool.acquire());
    drop(held);
    assert!(borrowed.wakes() > 0 && owned.wakes() == 0);
    drop(borrowed);
    assert!(owned.wakes() > 0 && last.wakes() == 0);
    drop(owned);
    assert!(last.wakes() > 0);
    assert_eq!(last.granted().number, 0);
    assert_eq!((pool.idle(), tally.dropped()), (1, 0));
    assert_eq!(Arc::strong_count(&pool), 1);
}

#[test]
fn a_blocked_thread_is_served_by_another() {
    let (pool, _) = made_to_order(1);
    let held = pool.try_acquire().unwrap();
    let (sends, sent) = mpsc::channel();
    thread::scope(|scope| {
        let (pool, sends_owned) = (&pool, sends.clone());
        scope.spawn(move || sends.send(pool.acquire().wait().unwrap().number));
        scope.spawn(move || {
            let permit = Arc::clone(pool).acquire_owned().wait().unwrap();
            sends_owned.send(permit.number)
        });
        drop(held);
        assert_eq!((sent.recv(), sent.recv()), (Ok(0), Ok(0)));
    });
    assert_eq!(pool.idle(), 1);
}

#[test]
fn a_blocked_thread_gives_up_after_its_time() {
    let (pool, _) = ready_made(1);
    let held = pool.try_acquire().unwrap();
    let short = Duration::from_millis(1);
    let borrowed = pool.acquire().timeout(short).wait();
    assert_eq!(kind(borrowed), ErrorKind::TimedOut);
    let owned = Arc::clone(&pool).acquire_owned().timeout(short).wait();
    assert_eq!(kind(owned), ErrorKind::TimedOut);
    drop(held);
    assert_eq!(pool.idle(), 1);
}

#[test]
fn without_any_time_one_takes_what_is_idle() {
    let (pool, _) = ready_made(1);
    let held = Waiter::new(pool.acquire().timeout(Duration::ZERO)).granted();
    let mut late = Waiter::new(Arc::clone(&pool).acquire_owned().timeout(Duration::ZERO));
    assert_eq!(late.refused(), ErrorKind::TimedOut);
    drop(held);
    assert_eq!(pool.idle(), 1);
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
    let pool = Arc::new(Pool::new([()]));
    let shared = || Arc::clone(&pool);
    polled_again(pool.acquire());
    polled_again(shared().acquire_owned());
    polled_again(pool.acquire().timeout(SECOND));
    polled_again(shared().acquire_owned().timeout(SECOND));
    assert_eq!(pool.idle(), 1);
    // And after it was served from the line.
    let held = pool.try_acquire().unwrap();
    let mut borrowed = Waiter::parked(pool.acquire());
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
    assert_eq!(pool.idle(), 1);
    pool.close();
    polled_again(pool.acquire());
    polled_again(shared().acquire_owned());
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio::time::{Instant, advance};
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn cancelled_already_wins_although_items_are_idle_and_takes_none() {
        let (pool, tally) = made_to_order(2);
        let token = CancellationToken::new();
        token.cancel();
        let shared = || Arc::clone(&pool);
        let refusals = [
            Waiter::new(pool.acquire().cancel_on(&token)).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(&token)).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
            Waiter::new(pool.acquire().cancel_on(&token)).refused(),
            Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
            kind(pool.acquire().cancel_on(&token).wait()),
            Waiter::new(pool.acquire().cancel_on(&token).timeout(SECOND)).refused(),
            Waiter::new(pool.acquire().timeout(SECOND).cancel_on(&token)).refused(),
        ];
        assert_eq!(refusals, [ErrorKind::Cancelled; 8]);
        assert_eq!((pool.idle(), tally.made()), (2, 0));
        assert_eq!(Arc::strong_count(&pool), 1);
    }

    #[test]
    fn a_token_that_is_not_cancelled_changes_nothing() {
        let (pool, _) = ready_made(2);
        let token = CancellationToken::new();
        let one = Waiter::new(pool.acquire().cancel_on(&token)).granted();
        let owned = Arc::clone(&pool).acquire_owned().cancel_on(token.clone());
        let other = Waiter::new(owned).granted();
        assert_eq!((one.number, other.number), (0, 1));
        let mut waiter = Waiter::parked(pool.acquire().cancel_on(&token));
        drop(one);
        assert_eq!(waiter.granted().number, 0);
    }

    #[test]
    fn one_token_ends_the_waits_of_all_who_have_it() {
        let (pool, _) = ready_made(1);
        let token = CancellationToken::new();
        let held = pool.try_acquire().unwrap();
        let mut borrowed = Waiter::parked(pool.acquire().cancel_on(&token));
        let owned = Arc::clone(&pool).acquire_owned().cancel_on(token.clone());
        let mut owned = Waiter::parked(owned);
        let mut stays = Waiter::parked(pool.acquire());
        token.cancel();
        assert!(borrowed.wakes() > 0 && owned.wakes() > 0);
        assert_eq!(borrowed.refused(), ErrorKind::Cancelled);
        assert_eq!(owned.refused(), ErrorKind::Cancelled);
        assert!(stays.is_pending());
        drop(held);
        assert_eq!(stays.granted().number, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_after_exactly_its_duration() {
        let (pool, _) = ready_made(1);
        let held = pool.try_acquire().unwrap();
        let begun = Instant::now();
        let borrowed = pool.acquire().timeout(SECOND).await;
        assert_eq!(kind(borrowed), ErrorKind::TimedOut);
        let owned = Arc::clone(&pool).acquire_owned().timeout(SECOND).await;
        assert_eq!(kind(owned), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 2 * SECOND);
        drop(held);
        assert_eq!(pool.idle(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_that_comes_with_the_deadline_is_taken() {
        let (pool, _) = ready_made(1);
        let held = pool.try_acquire().unwrap();
        let mut waiter = Waiter::parked(pool.acquire().timeout(SECOND));
        advance(SECOND).await;
        drop(held);
        assert_eq!(waiter.granted().number, 0);
    }

    #[tokio::test]
    async fn tasks_take_turns() {
        let (pool, tally) = made_to_order(3);
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move {
                    let mut permit = pool.acquire_owned().await.unwrap();
                    permit.uses += 1;
                    tokio::task::yield_now().await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let permits: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
        assert_eq!(permits.iter().map(|permit| permit.uses).sum::<usize>(), 100);
        assert_eq!((tally.made(), tally.dropped()), (3, 0));
    }
}
