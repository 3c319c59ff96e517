//! Models the semaphore with two or three threads. Whatever operations race, no permit is lost, none
//! is created, and no waiter is left in the queue. Every model ends with [`at_rest`].

#![cfg(tollgate_loom)]

use std::sync::Arc;

use tollgate::semaphore::OwnedPermit;
use tollgate::wait::Waiting;
use tollgate::{ErrorKind, Semaphore};
use tollgate_loom::*;

/// A semaphore, and the object that its permits guard.
#[derive(Clone)]
struct Shared {
    semaphore: Arc<Semaphore>,
    guarded: Arc<Guarded>,
}

impl Shared {
    fn new(permits: usize) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(permits)),
            guarded: Arc::default(),
        }
    }

    /// Waits, touches the object, and leaves again.
    fn pass(&self) {
        let _permit = block_on(self.semaphore.acquire()).unwrap();
        self.guarded.touch();
    }

    /// Does the same if a permit is free.
    fn pass_at_once(&self) {
        if let Ok(_permit) = self.semaphore.try_acquire() {
            self.guarded.touch();
        }
    }
}

/// Returns a semaphore, and a permit that is held.
fn held(permits: usize, held: u64) -> (Arc<Semaphore>, OwnedPermit) {
    let semaphore = Arc::new(Semaphore::new(permits));
    let permit = semaphore.clone().cost_owned(held).try_acquire();
    (semaphore, permit.unwrap())
}

/// Returns a semaphore of two, whose permits are held separately.
fn both_held() -> (Arc<Semaphore>, [OwnedPermit; 2]) {
    let (semaphore, mut one) = held(2, 2);
    let other = one.split(1).unwrap();
    (semaphore, [one, other])
}

type Wait = Waiting<<tollgate::throttle::Cost<Arc<Semaphore>> as tollgate::Throttle>::Enter>;

/// Returns a wait in the queue.
fn waiting(semaphore: &Arc<Semaphore>, cost: u64) -> Wait {
    parked(semaphore.clone().cost_owned(cost).acquire())
}

/// Waits for a permit, and gives it back.
fn pass(semaphore: &Arc<Semaphore>) {
    drop(block_on(semaphore.acquire()).unwrap());
}

/// Asserts that after these threads every permit is back, nothing waits, and a new caller is served
/// without a queue.
fn at_rest<const N: usize>(semaphore: &Semaphore, permits: usize, threads: [JoinHandle<()>; N]) {
    join_all(threads);
    assert_eq!(semaphore.permits(), permits);
    assert_eq!(semaphore.available_permits(), permits);
    assert_eq!(semaphore.snapshot().waiting, 0);
    if !semaphore.is_closed() {
        drop(semaphore.try_acquire_many(permits as u64).unwrap());
    }
}

model!(permit_is_held_by_one_and_nobody_is_forgotten, || {
    let shared = Shared::new(1);
    let threads = each_with::<2, _, _>(&shared, Shared::pass);
    at_rest(&shared.semaphore, 1, threads);
});

model!(try_takes_what_is_free_or_nothing, || {
    let shared = Shared::new(1);
    let other = with(&shared, Shared::pass_at_once);
    shared.pass();
    at_rest(&shared.semaphore, 1, [other]);
});

// A try does not even take the permit that is on its way to the waiter.
model!(try_acquire_takes_nothing_while_somebody_waits, || {
    let (semaphore, permit) = held(1, 1);
    let waiter = waiting(&semaphore, 1);
    let releasing = dropping(permit);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    // The waiter gets it, so it must come back first.
    join_all([releasing]);
    drop(block_on(waiter).unwrap());
    at_rest(&semaphore, 1, []);
});

model!(two_releases_are_not_taken_for_one, || {
    let (semaphore, permits) = both_held();
    let threads = permits.map(dropping);
    drop(block_on(semaphore.acquire_many(2)).unwrap());
    at_rest(&semaphore, 2, threads);
});

model!(grant_that_races_a_cancellation_is_used_or_passed_on, || {
    let (semaphore, permit) = held(1, 1);
    let cancelled = waiting(&semaphore, 1);
    let threads = [dropping(permit), dropping(cancelled)];
    // This waits behind the cancelled waiter, or after it.
    pass(&semaphore);
    at_rest(&semaphore, 1, threads);
});

model!(large_head_that_leaves_lets_the_small_go, || {
    let (semaphore, [one, other]) = both_held();
    let large = waiting(&semaphore, 2);
    let threads = [dropping(one), dropping(large)];
    pass(&semaphore);
    drop(other);
    at_rest(&semaphore, 2, threads);
});

model!(waiter_is_served_or_told_that_it_was_closed, || {
    let (semaphore, permit) = held(1, 1);
    let threads = [dropping(permit), with(&semaphore, |it| it.close())];
    assert_granted_or(ErrorKind::Closed, block_on(semaphore.acquire()));
    at_rest(&semaphore, 1, threads);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::Closed));
});

// The rejection, or the returned permit, admits the waiter behind the refused one.
model!(reject_impossible_beside_a_cancel_admits_the_next, || {
    let semaphore = Arc::new(Semaphore::new(0));
    let (large, cancelled) = (waiting(&semaphore, 2), waiting(&semaphore, 1));
    semaphore.set_permits(1);
    let rejecting = with(&semaphore, |it| it.reject_impossible());
    let threads = [rejecting, dropping(cancelled)];
    pass(&semaphore);
    join_all(threads);
    assert_eq!(kind(block_on(large)), Some(ErrorKind::ExceedsCapacity));
    at_rest(&semaphore, 1, []);
});

// No permit is returned meanwhile, so only the close can wake the waiter.
model!(close_tells_a_waiter_that_nobody_else_would_wake, || {
    let (semaphore, permit) = held(1, 1);
    let closing = with(&semaphore, |it| it.close());
    let refused = kind(block_on(semaphore.acquire()));
    assert_eq!(refused, Some(ErrorKind::Closed));
    join_all([closing]);
    drop(permit);
    at_rest(&semaphore, 1, []);
});

model!(grant_survives_a_close_that_comes_after_it, || {
    let (semaphore, permit) = held(1, 1);
    let waiter = waiting(&semaphore, 1);
    drop(permit);
    let closing = with(&semaphore, |it| it.close());
    drop(block_on(waiter).unwrap());
    at_rest(&semaphore, 1, [closing]);
});

model!(growing_lets_a_waiter_go, || {
    let semaphore = Arc::new(Semaphore::new(0));
    let growing = with(&semaphore, |it| it.set_permits(1));
    pass(&semaphore);
    at_rest(&semaphore, 1, [growing]);
});

model!(shrinking_is_exact_while_others_take_and_give, || {
    let (semaphore, permit) = held(2, 1);
    let threads = [dropping(permit), with(&semaphore, |it| it.set_permits(1))];
    pass(&semaphore);
    at_rest(&semaphore, 1, threads);
});

model!(waiter_that_a_shrink_made_impossible_is_refused, || {
    let (semaphore, permit) = held(2, 1);
    let threads = [dropping(permit), with(&semaphore, |it| it.set_permits(1))];
    let waited = block_on(semaphore.acquire_many(2));
    assert_granted_or(ErrorKind::ExceedsCapacity, waited);
    at_rest(&semaphore, 1, threads);
});

// The large waiter leaves, or is refused in the middle of the queue; the others are served.
model!(
    lowering_beside_a_cancel_refuses_the_large_and_serves_the_small,
    || {
        let (semaphore, permit) = held(2, 2);
        let (first, large) = (waiting(&semaphore, 1), waiting(&semaphore, 2));
        let lowering = with(&semaphore, |it| it.set_permits(1));
        let threads = [lowering, dropping(large)];
        drop(permit);
        drop(block_on(first).unwrap());
        pass(&semaphore);
        at_rest(&semaphore, 1, threads);
    }
);

// Whichever comes first tells the large waiter, and no waiter is told by both or by neither.
model!(
    lowering_beside_a_close_tells_every_waiter_one_reason,
    || {
        let (semaphore, permit) = held(2, 2);
        let (small, large) = (waiting(&semaphore, 1), waiting(&semaphore, 2));
        let lowering = with(&semaphore, |it| it.set_permits(1));
        let threads = [lowering, with(&semaphore, |it| it.close())];
        let told = kind(block_on(large)).unwrap();
        assert!(matches!(
            told,
            ErrorKind::ExceedsCapacity | ErrorKind::Closed
        ));
        assert_eq!(kind(block_on(small)), Some(ErrorKind::Closed));
        drop(permit);
        at_rest(&semaphore, 1, threads);
    }
);

// The returned permits and the later raise come before the refusal or after it, and never undo it.
model!(raise_after_a_lowering_brings_no_waiter_back, || {
    let (semaphore, permit) = held(2, 2);
    let (large, small) = (waiting(&semaphore, 2), waiting(&semaphore, 1));
    let resizing = with(&semaphore, |it| {
        it.set_permits(1);
        it.set_permits(2);
    });
    let releasing = dropping(permit);
    assert_granted_or(ErrorKind::ExceedsCapacity, block_on(large));
    drop(block_on(small).unwrap());
    at_rest(&semaphore, 2, [resizing, releasing]);
});

model!(snapshot_beside_a_resize_is_of_one_moment, || {
    let (semaphore, permit) = held(1, 1);
    let resizing = with(&semaphore, |it| it.set_permits(3));
    let seen = semaphore.snapshot();
    let seen = (seen.limit, seen.available, seen.in_use);
    assert!(matches!(seen, (1, 0, 1) | (3, 2, 1)), "{seen:?}");
    join_all([resizing]);
    drop(permit);
    at_rest(&semaphore, 3, []);
});

model!(permit_that_is_forgotten_lowers_the_limit_once, || {
    let (semaphore, [one, other]) = both_held();
    let threads = [spawn(move || one.forget()), dropping(other)];
    pass(&semaphore);
    at_rest(&semaphore, 1, threads);
});

model!(idleness_is_noticed_whichever_permit_comes_back_last, || {
    let (semaphore, permits) = both_held();
    let threads = permits.map(dropping);
    block_on(semaphore.wait_idle());
    assert_eq!(semaphore.available_permits(), 2);
    at_rest(&semaphore, 2, threads);
});

model!(idleness_is_noticed_behind_a_line, || {
    let (semaphore, permit) = held(1, 1);
    let threads = [with(&semaphore, pass), dropping(permit)];
    block_on(semaphore.wait_idle());
    at_rest(&semaphore, 1, threads);
});

model!(idleness_that_is_no_longer_waited_for_leaves_nothing, || {
    let (semaphore, permit) = held(1, 1);
    let releasing = dropping(permit);
    let mut idle = semaphore.wait_idle();
    let _ = poll_once(&mut idle);
    drop(idle);
    pass(&semaphore);
    at_rest(&semaphore, 1, [releasing]);
});

model!(waiter_that_moved_to_another_waker_is_woken_by_it, || {
    let (semaphore, permit) = held(1, 1);
    let releasing = dropping(permit);
    drop(moved(semaphore.acquire()).unwrap());
    at_rest(&semaphore, 1, [releasing]);
});

model!(bounded_line_refuses_or_serves, || {
    let semaphore = Arc::new(Semaphore::new(1).max_waiters(1));
    let permit = semaphore.clone().try_acquire_owned().unwrap();
    let releasing = dropping(permit);
    let enter = |it: &Arc<Semaphore>| {
        assert_granted_or(ErrorKind::QueueFull, block_on(it.acquire()));
    };
    let other = with(&semaphore, enter);
    enter(&semaphore);
    at_rest(&semaphore, 1, [releasing, other]);
});

// An added permit may signal that something is ready, like tokio's permits.
model!(taker_sees_what_was_done_before_a_permit_was_added, || {
    let shared = Shared::new(0);
    let adding = with(&shared, |shared| {
        shared.guarded.touch();
        shared.semaphore.add_permits(1);
    });
    // A try needs no lock; the waiter is served under it.
    shared.pass_at_once();
    shared.pass();
    at_rest(&shared.semaphore, 1, [adding]);
});

model!(refused_caller_sees_what_was_done_before_the_close, || {
    let shared = Shared::new(1);
    let closing = with(&shared, |shared| {
        shared.guarded.touch();
        shared.semaphore.close();
    });
    if kind(shared.semaphore.try_acquire()) == Some(ErrorKind::Closed) {
        shared.guarded.touch();
    }
    at_rest(&shared.semaphore, 1, [closing]);
});

// Only free permits are forgotten, whichever threads take and return permits meanwhile.
model!(forget_permits_takes_only_what_is_free, || {
    let (semaphore, permit) = held(2, 1);
    let taking = with(&semaphore, |it| drop(it.try_acquire()));
    let threads = [dropping(permit), taking];
    let forgotten = semaphore.forget_permits(1);
    at_rest(&semaphore, 2 - forgotten, threads);
});

// A lowered limit refuses a waiter, which gets the refusal although others are granted after it.
model!(refusal_is_collected_after_a_later_grant, || {
    let (semaphore, permit) = held(2, 2);
    let (large, small) = (waiting(&semaphore, 2), waiting(&semaphore, 1));
    let lowering = with(&semaphore, |it| it.set_permits(1));
    let collecting = spawn(move || {
        let refused = kind(block_on(large));
        assert_eq!(refused, Some(ErrorKind::ExceedsCapacity));
    });
    join_all([lowering]);
    drop(permit);
    drop(block_on(small).unwrap());
    at_rest(&semaphore, 1, [collecting]);
});

// The serving thread may have seen the return of one permit without its holder's involvement.
model!(waiter_for_two_sees_what_both_holders_did, || {
    let (semaphore, permits) = both_held();
    let done: [Arc<Guarded>; 2] = Default::default();
    let waiter = waiting(&semaphore, 2);
    let mut both = permits.into_iter().zip(done.clone());
    let threads = [(); 2].map(|()| {
        let (permit, done) = both.next().unwrap();
        spawn(move || {
            done.touch();
            drop(permit);
        })
    });
    let permit = block_on(waiter).unwrap();
    done.iter().for_each(|done| done.touch());
    drop(permit);
    at_rest(&semaphore, 2, threads);
});
