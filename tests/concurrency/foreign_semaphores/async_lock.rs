//! async-lock's semaphore.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use async_lock::Semaphore;
use tollgate::{ErrorKind, Throttle, TryThrottle, all};

use crate::support::foreign::{panic_message, panics_when_woken};
use crate::support::{Waiter, kind};

/// How many permits can be had; unlike `available_permits`, by taking them.
fn to_be_had(semaphore: &Semaphore) -> usize {
    std::iter::from_fn(|| semaphore.try_acquire())
        .collect::<Vec<_>>()
        .len()
}

#[test]
fn what_there_is_is_taken_and_no_more() {
    let semaphore = Arc::new(Semaphore::new(2));
    let borrowed = (&*semaphore).try_enter().unwrap();
    let owned = semaphore.try_enter().unwrap();
    assert_eq!(kind((&*semaphore).try_enter()), ErrorKind::NoPermits);
    assert_eq!(kind(semaphore.try_enter()), ErrorKind::NoPermits);
    let mut waiter = Waiter::parked((&*semaphore).enter());
    let mut owned_waiter = Waiter::parked(semaphore.enter());
    drop((borrowed, owned));
    drop((waiter.granted(), owned_waiter.granted()));
    assert_eq!(to_be_had(&semaphore), 2);
    drop((waiter, owned_waiter));
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

/// The second is woken when the first has run, although the future of the first is still there.
#[test]
fn two_that_come_back_at_once_let_two_in() {
    let semaphore = Semaphore::new(2);
    let held = [semaphore.try_acquire(), semaphore.try_acquire()];
    let mut first = Waiter::parked((&semaphore).enter());
    let mut second = Waiter::parked((&semaphore).enter());
    drop(held);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let permit = first.granted();
    assert_eq!(second.wakes(), 1);
    drop((permit, second.granted()));
    assert_eq!(to_be_had(&semaphore), 2);
}

/// Someone is overtaken and runs while two permits come back: it finds one of them, and what it had
/// been told of the other one must go on to the next in line, who sleeps otherwise.
#[test]
fn two_that_come_back_while_an_overtaken_one_runs_let_two_in() {
    let (runs, to_run) = mpsc::sync_channel(1);
    let (ran, done) = mpsc::sync_channel(1);
    let together = AtomicUsize::new(0);
    let meet = || {
        together.fetch_add(1, Ordering::SeqCst);
        for spins in 0.. {
            if together.load(Ordering::SeqCst).is_multiple_of(2) {
                break;
            }
            // Most often the other one is about to come.
            match spins {
                0..1_000 => std::hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
    };
    thread::scope(|scope| {
        let runs = runs;
        scope.spawn(move || {
            for mut waiter in to_run {
                let waiter: &mut Waiter<_> = &mut waiter;
                meet();
                let entered: Poll<Result<_, _>> = waiter.poll();
                ran.send(entered).unwrap();
            }
        });
        for _ in 0..20_000 {
            let semaphore = Arc::new(Semaphore::new(3));
            let mut held: Vec<_> = (0..3).map(|_| semaphore.try_enter().unwrap()).collect();
            let overtaken = Waiter::parked(semaphore.enter());
            let mut next = Waiter::parked(semaphore.enter());
            held.pop();
            let newcomer = semaphore.try_enter().unwrap();
            runs.send(overtaken).unwrap();
            meet();
            drop(held);
            let entered = done.recv().unwrap();
            // Both permits came back, so by now nobody has to wait, if only it is woken.
            if entered.is_ready() {
                assert!(next.wakes() > 0, "a permit is free, and somebody sleeps");
                drop(next.granted());
            }
            drop((entered, newcomer));
        }
    });
}

#[test]
fn ours_and_its_own_wait_in_one_line() {
    let semaphore = Semaphore::new(1);
    let mut permit = semaphore.try_acquire().unwrap();
    let mut ours = Waiter::parked((&semaphore).enter());
    let mut its_own = Waiter::parked(semaphore.acquire());
    let mut last = Waiter::parked((&semaphore).enter());
    drop(permit);
    assert!(ours.wakes() > 0 && its_own.wakes() == 0 && last.wakes() == 0);
    permit = ours.granted();
    drop(permit);
    permit = its_own.output();
    drop(its_own);
    drop(permit);
    drop(last.granted());
    assert_eq!(to_be_had(&semaphore), 1);
}

#[test]
fn what_a_dropped_wait_had_been_told_goes_to_the_next() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_enter().unwrap();
    let borrowed = Waiter::parked((&*semaphore).enter());
    let owned = Waiter::parked(semaphore.enter());
    let mut last = Waiter::parked((&*semaphore).enter());
    drop(held);
    drop(borrowed);
    assert!(owned.wakes() > 0 && last.wakes() == 0);
    drop(owned);
    assert!(last.wakes() > 0);
    drop(last.granted());
    assert_eq!(to_be_had(&semaphore), 1);
}

#[test]
fn a_limit_of_zero_waits_until_it_is_raised() {
    let semaphore = Semaphore::new(0);
    assert_eq!(kind((&semaphore).try_enter()), ErrorKind::NoPermits);
    let mut line: Vec<_> = (0..3)
        .map(|_| Waiter::parked((&semaphore).enter()))
        .collect();
    semaphore.add_permits(2);
    let permits = [line[0].granted(), line[1].granted()];
    assert!(line[2].is_pending());
    // And lowered again, by what comes back.
    permits.into_iter().for_each(|permit| permit.forget());
    assert!(line[2].is_pending());
    semaphore.add_permits(1);
    drop(line[2].granted());
    assert_eq!(to_be_had(&semaphore), 1);
}

#[test]
fn a_thread_gives_up_after_its_time() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_enter().unwrap();
    let short = Duration::from_millis(1);
    let borrowed = (&*semaphore).enter().timeout(short).wait();
    assert_eq!(kind(borrowed), ErrorKind::TimedOut);
    let owned = semaphore.enter().timeout(short).wait();
    assert_eq!(kind(owned), ErrorKind::TimedOut);
    drop(held);
    drop(semaphore.enter().wait().unwrap());
    assert_eq!(to_be_had(&semaphore), 1);
}

#[test]
fn in_a_composition_everything_is_given_back() {
    let theirs = Arc::new(Semaphore::new(1));
    let ours = Arc::new(tollgate::Semaphore::new(1));
    let both = all((Arc::clone(&theirs), Arc::clone(&ours)));
    let held = ours.try_enter().unwrap();
    let refused = both.try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::NoPermits, Some(1))
    );
    let waiting = Waiter::parked(both.acquire());
    let mut behind = Waiter::parked(both.acquire());
    assert_eq!(to_be_had(&theirs), 0);
    drop((held, waiting));
    drop(behind.granted());
    assert_eq!((to_be_had(&theirs), ours.available_permits()), (1, 1));
}

#[test]
fn a_wait_that_is_polled_again_panics_and_takes_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let expected = Some("polled again after it was ready");
    let mut borrowed = Waiter::new((&*semaphore).enter());
    let held = borrowed.granted();
    let again = panic_message(|| borrowed.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    let mut owned = Waiter::parked(semaphore.enter());
    drop(held);
    drop(owned.granted());
    let again = panic_message(|| owned.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    assert_eq!(to_be_had(&semaphore), 1);
}

/// The wait whose waker panicked is leaked: async-lock has lost count of it, which an overflow check
/// finds in its drop.
#[test]
fn a_waker_that_panics_goes_on_unwinding() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut panics = Waiter::new((&semaphore).enter());
    assert!(panics.poll_with(&panics_when_woken()).is_pending());
    std::mem::forget(panics.into_future());
    let message = panic_message(|| drop(held));
    assert_eq!(message.as_deref(), Some("a waker that panics on purpose"));
    assert_eq!(to_be_had(&semaphore), 1);
}

#[test]
fn waits_have_a_debug_representation() {
    let semaphore = Arc::new(Semaphore::new(1));
    let borrowed = format!("{:?}", (&*semaphore).enter());
    let owned = format!("{:?}", semaphore.enter());
    assert_eq!(
        (&*borrowed, &*owned),
        ("EnterAsyncLock { .. }", "EnterAsyncLockOwned { .. }")
    );
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_cancelled_token_takes_nothing() {
        let semaphore = Arc::new(Semaphore::new(1));
        let token = CancellationToken::new();
        token.cancel();
        let borrowed = || (&*semaphore).enter();
        let refusals = [
            Waiter::new(borrowed().cancel_on(&token)).refused(),
            Waiter::new(semaphore.enter().cancel_on(token.clone())).refused(),
            Waiter::new(borrowed().cancel_on(&token)).refused(),
            Waiter::new(borrowed().timeout(SECOND).cancel_on(&token)).refused(),
            kind(semaphore.enter().cancel_on(&token).wait()),
        ];
        assert_eq!(refusals, [ErrorKind::Cancelled; 5]);
        assert_eq!(to_be_had(&semaphore), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_ends_a_wait_after_exactly_its_duration() {
        let semaphore = Arc::new(Semaphore::new(1));
        let held = semaphore.try_enter().unwrap();
        let begun = Instant::now();
        let borrowed = (&*semaphore).enter().timeout(SECOND).await;
        assert_eq!(kind(borrowed), ErrorKind::TimedOut);
        let owned = semaphore.enter().timeout(SECOND).await;
        assert_eq!(kind(owned), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 2 * SECOND);
        drop(held);
        assert_eq!(to_be_had(&semaphore), 1);
    }
}
