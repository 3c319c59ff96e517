//! The pool with two or three threads, under every interleaving within the bound of [`model`]: how
//! items and permits are handed over while others take, shrink, discard, add and close.
//!
//! The items are `loom::cell::UnsafeCell`s: two holders of one item, or two that are not ordered one
//! after the other, fail the model. Every model of a pool that cannot make items ends with
//! [`assert_whole`]: there is exactly one item for each permit.

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
use tollgate::{ErrorKind, Pool, pool};

type Permit = pool::Permit<Arc<Pool<Item>>, Item>;

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// Something that only one may touch at a time, and that says how many there are.
struct Item {
    guarded: UnsafeCell<()>,
    _alive: Arc<()>,
}

struct Shared {
    pool: Arc<Pool<Item>>,
    alive: Arc<()>,
}

impl Shared {
    fn new(items: usize) -> Self {
        let alive = Arc::new(());
        let items: Vec<_> = (0..items).map(|_| item(&alive)).collect();
        Self {
            pool: Arc::new(Pool::new(items)),
            alive,
        }
    }

    fn held(&self) -> Permit {
        Arc::clone(&self.pool).try_acquire_owned().unwrap()
    }

    /// There is an item for each permit, and none too many.
    fn assert_whole(&self) {
        let size = self.pool.snapshot().limit;
        // One too many, if a shrink could not take it, goes when the next one comes back.
        drop(self.pool.try_acquire());
        assert_eq!(
            (self.pool.snapshot().available, self.pool.snapshot().waiting),
            (size, 0)
        );
        let permits: Vec<_> = (0..size).map(|_| self.held()).collect();
        permits.iter().for_each(touch);
        assert_eq!(Arc::strong_count(&self.alive) - 1, permits.len());
    }
}

fn item(alive: &Arc<()>) -> Item {
    Item {
        guarded: UnsafeCell::new(()),
        _alive: Arc::clone(alive),
    }
}

fn touch(permit: &Permit) {
    permit.guarded.with_mut(|_| ());
}

/// A caller that has a permit finds an item: a try fails only without one.
fn take_what_is_there(pool: Arc<Pool<Item>>) {
    match pool.try_acquire_owned() {
        Ok(permit) => touch(&permit),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NoPermits),
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn item_is_held_by_one_at_a_time_and_nobody_is_forgotten() {
    model(|| {
        let shared = Shared::new(1);
        let take = |pool: Arc<Pool<Item>>| {
            thread::spawn(move || touch(&block_on(pool.acquire_owned()).unwrap()))
        };
        let others = [take(shared.pool.clone()), take(shared.pool.clone())];
        touch(&block_on(shared.pool.clone().acquire_owned()).unwrap());
        for other in others {
            other.join().unwrap();
        }
        shared.assert_whole();
    });
}

#[test]
fn waiter_that_is_dropped_while_an_item_comes_back_passes_it_on() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let mut waiter = shared.pool.clone().acquire_owned();
        assert!(poll_once(&mut waiter).is_pending());
        let releasing = thread::spawn(move || drop(held));
        drop(waiter);
        touch(&block_on(shared.pool.clone().acquire_owned()).unwrap());
        releasing.join().unwrap();
        shared.assert_whole();
    });
}

#[test]
fn wait_for_idleness_sees_the_last_item_come_back_however_it_does() {
    model(|| {
        let shared = Shared::new(2);
        let (one, other) = (shared.held(), shared.held());
        let returning = [one, other].map(|held| thread::spawn(move || drop(held)));
        block_on(shared.pool.wait_idle());
        assert_eq!(shared.pool.snapshot().in_use, 0);
        for thread in returning {
            thread.join().unwrap();
        }
        shared.assert_whole();
    });
}

#[test]
fn waiter_behind_one_that_leaves_with_its_grant_is_served() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let mut first = shared.pool.clone().acquire_owned();
        assert!(poll_once(&mut first).is_pending());
        let second = shared.pool.clone().acquire_owned();
        let waiting = thread::spawn(move || touch(&block_on(second).unwrap()));
        let releasing = thread::spawn(move || drop(held));
        drop(first);
        releasing.join().unwrap();
        waiting.join().unwrap();
        shared.assert_whole();
    });
}

#[test]
fn set_size_down_while_items_are_taken_and_come_back_leaves_a_whole_pool() {
    model(|| {
        let shared = Shared::new(2);
        let held = shared.held();
        let releasing = thread::spawn(move || drop(held));
        let taking = {
            let pool = shared.pool.clone();
            thread::spawn(move || take_what_is_there(pool))
        };
        shared.pool.set_size(1);
        releasing.join().unwrap();
        taking.join().unwrap();
        assert_eq!(shared.pool.snapshot().limit, 1);
        shared.assert_whole();
    });
}

#[test]
fn discard_and_set_size_and_take_leave_a_whole_pool() {
    model(|| {
        let shared = Shared::new(2);
        let held = shared.held();
        let discarding = thread::spawn(move || held.discard());
        let taking = {
            let pool = shared.pool.clone();
            thread::spawn(move || take_what_is_there(pool))
        };
        shared.pool.set_size(1);
        discarding.join().unwrap();
        taking.join().unwrap();
        // By one more, if the one that is discarded was the last one left.
        assert!(shared.pool.snapshot().limit <= 1);
        shared.assert_whole();
    });
}

#[test]
fn add_while_an_item_comes_back_after_a_shrink_leaves_a_whole_pool() {
    model(|| {
        let shared = Shared::new(2);
        let held = [shared.held(), shared.held()];
        shared.pool.set_size(1);
        let releasing = thread::spawn(move || drop(held));
        shared.pool.add(item(&shared.alive));
        drop(shared.pool.try_acquire());
        releasing.join().unwrap();
        assert_eq!(shared.pool.snapshot().limit, 2);
        shared.assert_whole();
    });
}

#[test]
fn close_while_an_item_comes_back_drops_it_and_tells_who_waits() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let waiter = shared.pool.clone().acquire_owned();
        let releasing = thread::spawn(move || drop(held));
        let waiting = thread::spawn(move || match block_on(waiter) {
            Ok(permit) => touch(&permit),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        });
        shared.pool.close();
        releasing.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(Arc::strong_count(&shared.alive), 1);
    });
}
