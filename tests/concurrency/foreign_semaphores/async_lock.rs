//! async-lock's semaphore.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use async_lock::Semaphore;
use tollgate::{ErrorKind, Throttle, TryThrottle};

use crate::support::foreign::{panic_message, panics_when_woken};
use crate::support::{Waiter, kind};

of_both!(Semaphore, "EnterForeign { .. }", "EnterForeign { .. }");

/// How many permits can be had; unlike `available_permits`, by taking them.
fn to_be_had(semaphore: &Semaphore) -> usize {
    std::iter::from_fn(|| semaphore.try_acquire())
        .collect::<Vec<_>>()
        .len()
}

/// A waiter is overtaken and runs while two permits come back: it finds one of them, and its
/// notification of the other one must go on to the next in the queue, which sleeps otherwise.
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
