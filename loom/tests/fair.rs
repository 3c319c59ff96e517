//! The fair queue with two or three threads, under every interleaving within the bound of [`model`]:
//! whichever threads wake the entrant, poll it, join, leave or close at the same time, every permit
//! comes back, and nobody is left in the queue.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::thread;
use tollgate::fair::{Class, ClassHandle, FairQueue};
use tollgate::{AcquireError, ErrorKind, Semaphore, Throttle, Waiting};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

type Queue = FairQueue<Arc<Semaphore>, u32>;
type Wait = Waiting<<ClassHandle<Arc<Semaphore>, u32> as Throttle>::Enter>;

fn queue(permits: usize) -> Queue {
    FairQueue::new(Arc::new(Semaphore::new(permits)))
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn parked(queue: &Queue, class: u32) -> Wait {
    let mut wait = queue.class(class).acquire();
    assert!(poll_once(&mut wait).is_pending());
    wait
}

/// Every permit is back, nobody waits, and a newcomer is served without a queue.
fn assert_at_rest(queue: &Queue, permits: usize) {
    assert_eq!(queue.waiting(), 0);
    assert_eq!(queue.throttle().snapshot().waiting, 0);
    assert_eq!(queue.throttle().available_permits(), permits);
    assert!(queue.snapshot().is_empty());
    if !queue.throttle().is_closed() {
        drop(queue.class(9).try_acquire().unwrap());
    }
}

/// A holder leaves while another caller joins.
#[test]
fn a_release_that_races_a_joiner_wakes_it() {
    model(|| {
        let queue = queue(1);
        let permit = queue.class(1).try_acquire().unwrap();
        let holder = thread::spawn(move || drop(permit));
        drop(block_on(queue.class(2).acquire()).unwrap());
        holder.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// The permit guards something, and passes from one waiter to the next.
#[test]
fn a_permit_is_held_by_one_at_a_time_and_nobody_is_forgotten() {
    model(|| {
        let guarded = Arc::new((queue(1), UnsafeCell::new(())));
        let threads: Vec<_> = (0..2)
            .map(|class| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || {
                    let permit = block_on(guarded.0.class(class).acquire()).unwrap();
                    guarded.1.with_mut(|_| ());
                    drop(permit);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_at_rest(&guarded.0, 1);
    });
}

/// A permit is handed on, or goes to a caller that waits at the semaphore, which nobody passes for ever.
#[test]
fn a_permit_that_is_handed_on_reaches_callers_of_the_semaphore_too() {
    model(|| {
        let queue = queue(1);
        let permit = queue.class(1).try_acquire().unwrap();
        let mut waits = parked(&queue, 1);
        let semaphore = Arc::clone(queue.throttle());
        let direct = thread::spawn(move || drop(block_on(semaphore.acquire_owned()).unwrap()));
        drop(permit);
        drop(block_on(&mut waits).unwrap());
        direct.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// Two permits return while the limit is lowered: one is handed on, or pays the debt.
#[test]
fn a_permit_that_is_handed_on_while_the_limit_is_lowered_is_not_lost() {
    model(|| {
        let queue = queue(2);
        let permits = [1, 2].map(|class| queue.class(class).try_acquire().unwrap());
        let mut waits = parked(&queue, 3);
        let holder = thread::spawn(move || drop(permits));
        queue.throttle().set_permits(1);
        drop(block_on(&mut waits).unwrap());
        holder.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// A permit returns while a caller of another cost, which goes first, joins and leaves.
#[test]
fn a_permit_is_handed_on_to_a_waiter_of_its_cost_only() {
    model(|| {
        let queue = queue(2).classes(|class| Class::new().priority(*class as u8));
        let permits = [1, 2].map(|class| queue.class(class).try_acquire().unwrap());
        let mut one = parked(&queue, 1);
        let holder = thread::spawn(move || drop(permits));
        let mut two = queue.class(2).acquire_many(2);
        let polled = poll_once(&mut two);
        drop((polled, two));
        drop(block_on(&mut one).unwrap());
        holder.join().unwrap();
        assert_at_rest(&queue, 2);
    });
}

/// A class at its maximum: its holder leaves, without waking the throttle's queue, while another
/// caller of it joins.
#[test]
fn a_release_in_a_class_at_its_maximum_wakes_its_joiner() {
    model(|| {
        let guarded = Arc::new(UnsafeCell::new(()));
        let queue = queue(2).classes(|_| Class::new().max_concurrency(1));
        let permit = queue.class(1).try_acquire().unwrap();
        let touched = Arc::clone(&guarded);
        let holder = thread::spawn(move || {
            touched.with_mut(|_| ());
            drop(permit);
        });
        let permit = block_on(queue.class(1).acquire()).unwrap();
        guarded.with_mut(|_| ());
        drop(permit);
        holder.join().unwrap();
        assert_at_rest(&queue, 2);
    });
}

/// The chosen waiter is dropped while the permit comes; the other one gets it.
#[test]
fn a_drop_of_the_chosen_waiter_passes_the_permit_on() {
    model(|| {
        let queue = queue(1);
        let permit = queue.class(1).try_acquire().unwrap();
        let chosen = parked(&queue, 1);
        let holder = thread::spawn(move || drop(permit));
        let same = queue.clone();
        let next = thread::spawn(move || drop(block_on(same.class(2).acquire()).unwrap()));
        drop(chosen);
        holder.join().unwrap();
        next.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// The chosen waiter is dropped while its permit comes; the other one needs two, so that one permit
/// is rolled back, and the entrant asks again.
#[test]
fn a_drop_of_the_chosen_waiter_returns_a_permit_of_another_cost() {
    model(|| {
        let queue = queue(2);
        let permits = queue.class(1).try_acquire_many(2).unwrap();
        let chosen = parked(&queue, 1);
        let holder = thread::spawn(move || drop(permits));
        let same = queue.clone();
        let next = thread::spawn(move || drop(block_on(same.class(2).acquire_many(2)).unwrap()));
        drop(chosen);
        holder.join().unwrap();
        next.join().unwrap();
        assert_at_rest(&queue, 2);
    });
}

/// The last waiter is dropped, and so the entrant leaves, while the permit comes.
#[test]
fn a_drop_of_the_last_waiter_returns_the_permit() {
    model(|| {
        let queue = queue(1);
        let permit = queue.class(1).try_acquire().unwrap();
        let last = parked(&queue, 2);
        let holder = thread::spawn(move || drop(permit));
        drop(last);
        holder.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// Closing refuses a waiter and a joiner, and a holder may leave meanwhile.
#[test]
fn a_close_that_races_a_joiner_refuses_everybody_or_lets_in() {
    model(|| {
        let queue = queue(1);
        let permit = queue.class(1).try_acquire().unwrap();
        let holder = thread::spawn(move || drop(permit));
        let semaphore = Arc::clone(queue.throttle());
        let closes = thread::spawn(move || semaphore.close());
        match block_on(queue.class(2).acquire()) {
            Ok(permit) => drop(permit),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
        holder.join().unwrap();
        closes.join().unwrap();
        assert_at_rest(&queue, 1);
    });
}

/// One call serves a part of the waiters, here one of them. The next one goes on, or whoever leaves.
#[test]
fn a_call_that_serves_a_part_leaves_nobody_behind() {
    model(|| {
        let queue = queue(0);
        let leaves = parked(&queue, 1);
        let same = queue.clone();
        let waits = thread::spawn(move || drop(block_on(same.class(2).acquire()).unwrap()));
        let semaphore = Arc::clone(queue.throttle());
        let grants = thread::spawn(move || semaphore.set_permits(2));
        drop(leaves);
        waits.join().unwrap();
        grants.join().unwrap();
        assert_at_rest(&queue, 2);
    });
}

/// A class is forgotten while a handle of it is used.
#[test]
fn a_class_that_is_in_use_is_not_forgotten() {
    model(|| {
        let queue = queue(2).max_classes(1);
        let one = queue.class(1);
        drop(one.try_acquire().unwrap());
        let same = queue.clone();
        let other = thread::spawn(move || same.class(2).try_acquire().ok());
        let permit = one.try_acquire().ok();
        let other = other.join().unwrap();
        let held: u64 = queue.snapshot().iter().map(|class| class.held).sum();
        assert_eq!(held, permit.is_some() as u64 + other.is_some() as u64);
        // One of them has the place.
        assert!(queue.snapshot().len() <= 1 && held >= 1);
        drop((permit, other));
        assert_eq!(queue.throttle().available_permits(), 2);
    });
}

/// Admits at the second poll, and wakes inside the first one; then another thread wakes as well.
#[derive(Clone)]
struct WakesInside(Arc<loom::sync::Mutex<Option<Waker>>>);

impl Throttle for WakesInside {
    type Permit = ();
    type Enter = Pin<Box<dyn Future<Output = Result<(), AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let (waker, mut polls) = (Arc::clone(&self.0), 0);
        Waiting::new(Box::pin(poll_fn(move |context| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(Ok(()));
            }
            *waker.lock().unwrap() = Some(context.waker().clone());
            context.waker().wake_by_ref();
            Poll::Pending
        })))
    }

    fn wakes_outside_locks(&self) -> bool {
        true
    }
}

#[test]
fn a_wake_from_inside_a_poll_and_one_from_outside_lose_nobody() {
    model(|| {
        let waker = Arc::new(loom::sync::Mutex::new(None));
        let queue = FairQueue::new(WakesInside(Arc::clone(&waker)));
        let other = thread::spawn(move || {
            let waker = waker.lock().unwrap().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        drop(block_on(queue.class(1).acquire()).unwrap());
        other.join().unwrap();
        assert_eq!(queue.waiting(), 0);
    });
}

/// One permit, and a waker that is called under the lock.
#[derive(Clone)]
struct WakesLocked(Arc<loom::sync::Mutex<(bool, Option<Waker>)>>);

struct LockedPermit(WakesLocked);

impl Drop for LockedPermit {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }
}

impl Throttle for WakesLocked {
    type Permit = LockedPermit;
    type Enter = Pin<Box<dyn Future<Output = Result<LockedPermit, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let throttle = self.clone();
        Waiting::new(Box::pin(poll_fn(move |context| {
            let mut state = throttle.0.lock().unwrap();
            if std::mem::take(&mut state.0) {
                return Poll::Ready(Ok(LockedPermit(throttle.clone())));
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })))
    }
}

/// Polling under the lock would lock up; the next waiter is woken instead, and one may leave.
#[test]
fn a_wake_under_the_lock_of_the_throttle_wakes_a_waiter_that_polls() {
    model(|| {
        let throttle = WakesLocked(Arc::new(loom::sync::Mutex::new((false, None))));
        let queue = FairQueue::new(throttle.clone());
        let permit = LockedPermit(throttle);
        let mut leaves = queue.class(1).acquire();
        assert!(poll_once(&mut leaves).is_pending());
        let holder = thread::spawn(move || drop(permit));
        let same = queue.clone();
        let other = thread::spawn(move || drop(block_on(same.class(2).acquire())));
        drop(leaves);
        holder.join().unwrap();
        other.join().unwrap();
        assert_eq!(queue.waiting(), 0);
        assert!(queue.throttle().0.lock().unwrap().0);
    });
}
