//! Models the fair queue with two or three threads. Whichever threads wake the entrant, poll it, join, leave
//! or close at the same time, every permit comes back, and no waiter is left in the queue.

#![cfg(tollgate_loom)]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::sync::Mutex;
use tollgate::fair::{Class, ClassHandle, FairQueue};
use tollgate::throttle::Polling;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Semaphore, Throttle};
use tollgate_loom::*;

type Queue = FairQueue<Arc<Semaphore>, u32>;
type Handle = ClassHandle<Arc<Semaphore>, u32>;

fn queue(permits: usize) -> Queue {
    FairQueue::new(Arc::new(Semaphore::new(permits)))
}

/// Returns a queue of one permit, which is held.
fn held() -> (Queue, <Handle as Throttle>::Permit) {
    let queue = queue(1);
    let permit = queue.class(1).try_acquire().unwrap();
    (queue, permit)
}

fn queued(queue: &Queue, class: u32) -> Waiting<<Handle as Throttle>::Enter> {
    parked(queue.class(class).acquire())
}

/// Waits in the second class, and leaves again.
fn pass(queue: &Queue) {
    drop(block_on(queue.class(2).acquire()).unwrap());
}

/// Asserts that after these threads every permit is back, nothing waits, and a new caller is served
/// without a queue.
fn at_rest<const N: usize>(queue: &Queue, permits: usize, threads: [JoinHandle<()>; N]) {
    join_all(threads);
    assert_eq!(queue.waiting(), 0);
    assert_eq!(queue.throttle().snapshot().waiting, 0);
    assert_eq!(queue.throttle().available_permits(), permits);
    assert!(queue.snapshot().is_empty());
    if !queue.throttle().is_closed() {
        drop(queue.class(9).try_acquire().unwrap());
    }
}

// A holder leaves while another caller joins.
model!(release_that_races_a_joiner_wakes_it, || {
    let (queue, permit) = held();
    let holder = dropping(permit);
    pass(&queue);
    at_rest(&queue, 1, [holder]);
});

// The permit guards an object, and passes from one waiter to the next.
model!(permit_is_held_by_one_and_nobody_is_forgotten, || {
    let guarded = (queue(1), Arc::<Guarded>::default());
    let thread = |class: u32| {
        with(&guarded, move |guarded| {
            let _permit = block_on(guarded.0.class(class).acquire()).unwrap();
            guarded.1.touch();
        })
    };
    let threads = [thread(0), thread(1)];
    at_rest(&guarded.0, 1, threads);
});

// It is handed on, or goes to a caller that waits at the semaphore, which must not be passed forever.
model!(handed_on_permit_reaches_callers_of_the_semaphore, || {
    let (queue, permit) = held();
    let waits = queued(&queue, 1);
    let direct = with(queue.throttle(), |semaphore| {
        drop(block_on(semaphore.acquire()).unwrap());
    });
    drop(permit);
    drop(block_on(waits).unwrap());
    at_rest(&queue, 1, [direct]);
});

// Two permits return while the limit is lowered: one is handed on, or reduces the excess.
model!(handed_on_permit_is_not_lost_by_a_lower_limit, || {
    let queue = queue(2);
    let permits = [1, 2].map(|class| queue.class(class).try_acquire().unwrap());
    let waits = queued(&queue, 3);
    let holder = dropping(permits);
    queue.throttle().set_permits(1);
    drop(block_on(waits).unwrap());
    at_rest(&queue, 1, [holder]);
});

// A permit returns while a caller of another cost and a higher priority joins and leaves.
model!(permit_is_handed_on_to_a_waiter_of_its_cost_only, || {
    let queue = queue(2).classes(|class| Class::new().priority(*class as u8));
    let permits = [1, 2].map(|class| queue.class(class).try_acquire().unwrap());
    let one = queued(&queue, 1);
    let holder = dropping(permits);
    let mut two = queue.class(2).acquire_many(2);
    let polled = poll_once(&mut two);
    drop((polled, two));
    drop(block_on(one).unwrap());
    at_rest(&queue, 2, [holder]);
});

// A class is at its maximum. Its holder leaves, without waking the throttle's queue, while another
// caller of the class joins.
model!(release_in_a_class_at_its_maximum_wakes_its_joiner, || {
    let guarded = Arc::<Guarded>::default();
    let queue = queue(2).classes(|_| Class::new().max_concurrency(1));
    let permit = queue.class(1).try_acquire().unwrap();
    let holder = with(&guarded, |guarded| {
        guarded.touch();
        drop(permit);
    });
    let permit = block_on(queue.class(1).acquire()).unwrap();
    guarded.touch();
    drop(permit);
    at_rest(&queue, 2, [holder]);
});

// The chosen waiter is dropped while the permit returns; the other waiter gets it.
model!(drop_of_the_chosen_waiter_passes_the_permit_on, || {
    let (queue, permit) = held();
    let chosen = queued(&queue, 1);
    let threads = [dropping(permit), with(&queue, pass)];
    drop(chosen);
    at_rest(&queue, 1, threads);
});

// The chosen waiter is dropped while its permit returns. The other waiter needs two, so that one permit
// is rolled back, and the entrant asks again.
model!(drop_of_the_chosen_returns_a_permit_of_another_cost, || {
    let queue = queue(2);
    let permits = queue.class(1).try_acquire_many(2).unwrap();
    let chosen = queued(&queue, 1);
    let next = with(&queue, |queue| {
        drop(block_on(queue.class(2).acquire_many(2)).unwrap());
    });
    let threads = [dropping(permits), next];
    drop(chosen);
    at_rest(&queue, 2, threads);
});

// The last waiter is dropped while the permit returns, so the entrant leaves.
model!(drop_of_the_last_waiter_returns_the_permit, || {
    let (queue, permit) = held();
    let last = queued(&queue, 2);
    let holder = dropping(permit);
    drop(last);
    at_rest(&queue, 1, [holder]);
});

// Closing refuses a waiter and a joiner, and a holder may leave meanwhile.
model!(close_that_races_a_joiner_refuses_or_lets_in, || {
    let (queue, permit) = held();
    let threads = [dropping(permit), with(queue.throttle(), |it| it.close())];
    let joined = block_on(queue.class(2).acquire());
    assert_granted_or(ErrorKind::Closed, joined);
    at_rest(&queue, 1, threads);
});

// One call serves a part of the waiters, here one. The next waiter continues, or the one that leaves.
model!(call_that_serves_a_part_leaves_nobody_behind, || {
    let queue = queue(0);
    let leaves = queued(&queue, 1);
    let grants = |semaphore: &Arc<Semaphore>| semaphore.set_permits(2);
    let threads = [with(&queue, pass), with(queue.throttle(), grants)];
    drop(leaves);
    at_rest(&queue, 2, threads);
});

// A class is forgotten while a handle of it is used.
model!(class_that_is_in_use_is_not_forgotten, || {
    let queue = queue(2).max_classes(1);
    let one = queue.class(1);
    drop(one.try_acquire().unwrap());
    let other = with(&queue, |queue| queue.class(2).try_acquire().ok());
    let permit = one.try_acquire().ok();
    let other = other.join().unwrap();
    let held: u64 = queue.snapshot().iter().map(|class| class.held).sum();
    assert_eq!(held, permit.is_some() as u64 + other.is_some() as u64);
    // One of them has the place.
    assert!(queue.snapshot().len() <= 1 && held >= 1);
    drop((permit, other));
    assert_eq!(queue.throttle().available_permits(), 2);
});

/// A throttle that admits at the second poll. It wakes during the first one; then another thread wakes it too.
#[derive(Clone)]
struct WakesInside(Arc<Mutex<Option<Waker>>>);

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

    fn polling(&self) -> Polling {
        Polling::BY_WAKERS
    }
}

model!(wakes_from_inside_a_poll_and_outside_lose_nobody, || {
    let waker = Arc::new(Mutex::new(None));
    let queue = FairQueue::new(WakesInside(Arc::clone(&waker)));
    let other = spawn(move || {
        let waker: Option<Waker> = waker.lock().unwrap().take();
        waker.into_iter().for_each(Waker::wake);
    });
    drop(block_on(queue.class(1).acquire()).unwrap());
    join_all([other]);
    assert_eq!(queue.waiting(), 0);
});

/// A throttle with one permit, which calls a waker under its lock.
#[derive(Clone)]
struct WakesLocked(Arc<Mutex<(bool, Option<Waker>)>>);

struct LockedPermit(WakesLocked);

impl Drop for LockedPermit {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap();
        state.0 = true;
        state.1.take().into_iter().for_each(Waker::wake);
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

// Polling under the lock would deadlock; the next waiter is woken instead, and one may leave.
model!(wake_under_a_lock_wakes_a_waiter_that_polls, || {
    let throttle = WakesLocked(Arc::new(Mutex::new((false, None))));
    let queue = FairQueue::new(throttle.clone());
    let leaves = parked(queue.class(1).acquire());
    let holder = dropping(LockedPermit(throttle));
    let other = with(&queue, |queue| {
        drop(block_on(queue.class(2).acquire()));
    });
    drop(leaves);
    join_all([holder, other]);
    assert_eq!(queue.waiting(), 0);
    assert!(queue.throttle().0.lock().unwrap().0);
});
