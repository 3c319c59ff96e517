//! Two semaphores as one, under every interleaving within the bound of [`model`]: whatever ends a
//! wait for both, and whatever else happens meanwhile, everything is given back and everyone else
//! gets in.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::thread;
use tollgate::{All, ErrorKind, Semaphore, Throttle, Waiting, all};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// Two semaphores of one permit each.
#[derive(Clone)]
struct Two {
    a: Arc<Semaphore>,
    b: Arc<Semaphore>,
}

type EnterBoth = <All<(Arc<Semaphore>, Arc<Semaphore>)> as Throttle>::Enter;

impl Two {
    fn new() -> Self {
        Self {
            a: Arc::new(Semaphore::new(1)),
            b: Arc::new(Semaphore::new(1)),
        }
    }

    fn both(&self) -> Pin<Box<Waiting<EnterBoth>>> {
        Box::pin(all((Arc::clone(&self.a), Arc::clone(&self.b))).acquire())
    }

    fn assert_at_rest(&self) {
        for semaphore in [&self.a, &self.b] {
            assert_eq!(semaphore.available_permits(), 1);
            assert_eq!(semaphore.snapshot().waiting, 0);
        }
        if !(self.a.is_closed() || self.b.is_closed()) {
            let both = all((&*self.a, &*self.b));
            drop(both.try_acquire().unwrap());
        }
    }
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn two_in_the_same_order_take_turns() {
    model(|| {
        let two = Two::new();
        let guarded = Arc::new(UnsafeCell::new(()));
        let threads = [(); 2].map(|()| {
            let (two, guarded) = (two.clone(), Arc::clone(&guarded));
            thread::spawn(move || {
                let permits = block_on(two.both()).unwrap();
                guarded.with_mut(|_| ());
                drop(permits);
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        two.assert_at_rest();
    });
}

#[test]
fn one_that_waits_for_the_second_is_dropped_while_that_is_released() {
    model(|| {
        let two = Two::new();
        let held = Arc::clone(&two.b).try_acquire_owned().unwrap();
        let mut dropped = two.both();
        assert!(poll_once(&mut dropped).is_pending());
        let releasing = thread::spawn(move || drop(held));
        let dropping = thread::spawn(move || drop(dropped));
        // Behind it in both, or after it.
        drop(block_on(two.both()).unwrap());
        releasing.join().unwrap();
        dropping.join().unwrap();
        two.assert_at_rest();
    });
}

#[test]
fn one_that_waits_for_the_first_is_polled_and_dropped_while_both_are_released() {
    model(|| {
        let two = Two::new();
        let permits = block_on(two.both()).unwrap();
        let mut dropped = two.both();
        assert!(poll_once(&mut dropped).is_pending());
        let releasing = thread::spawn(move || drop(permits));
        // It has been let in to neither, to the first, or to both.
        let polled = poll_once(&mut dropped);
        drop((polled, dropped));
        drop(block_on(two.both()).unwrap());
        releasing.join().unwrap();
        two.assert_at_rest();
    });
}

#[test]
fn one_that_is_cancelled_while_the_second_is_released() {
    model(|| {
        let two = Two::new();
        let held = Arc::clone(&two.b).try_acquire_owned().unwrap();
        let token = tokio_util::sync::CancellationToken::new();
        let cancelling = {
            let token = token.clone();
            thread::spawn(move || token.cancel())
        };
        let releasing = thread::spawn(move || drop(held));
        let waiting = all((Arc::clone(&two.a), Arc::clone(&two.b))).acquire();
        match block_on(waiting.cancel_on(token)) {
            Ok(permits) => drop(permits),
            Err(error) => {
                assert_eq!((error.kind(), error.part()), (ErrorKind::Cancelled, None));
            }
        }
        cancelling.join().unwrap();
        releasing.join().unwrap();
        two.assert_at_rest();
    });
}

#[test]
fn one_that_is_refused_by_the_second_lets_in_who_waits_for_the_first() {
    model(|| {
        let two = Two::new();
        let closing = {
            let two = two.clone();
            thread::spawn(move || two.b.close())
        };
        let other = {
            let two = two.clone();
            thread::spawn(move || drop(block_on(two.a.acquire()).unwrap()))
        };
        match block_on(two.both()) {
            Ok(permits) => drop(permits),
            Err(error) => {
                assert_eq!((error.kind(), error.part()), (ErrorKind::Closed, Some(1)));
            }
        }
        closing.join().unwrap();
        other.join().unwrap();
        two.assert_at_rest();
    });
}

#[test]
fn one_that_only_tries_takes_both_or_neither() {
    model(|| {
        let two = Two::new();
        let trying = {
            let two = two.clone();
            thread::spawn(move || all((&*two.a, &*two.b)).try_acquire().map(drop))
        };
        drop(block_on(two.both()).unwrap());
        if let Err(error) = trying.join().unwrap() {
            assert_eq!(error.kind(), ErrorKind::NoPermits);
        }
        two.assert_at_rest();
    });
}
