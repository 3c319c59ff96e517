//! The semaphore with two or three threads, under every interleaving within the bound of [`model`].
//!
//! `loom::cell::UnsafeCell` serves as the guarded thing: two accesses that are not ordered one
//! after the other fail the model, so these models show the memory ordering as well. Every model
//! ends with [`assert_at_rest`]: no permit is lost, none appears, and nobody is left in the queue.

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
use tollgate::{AcquireError, ErrorKind, OwnedPermit, Semaphore};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// A semaphore, and something that only one may touch at a time.
struct Shared {
    semaphore: Arc<Semaphore>,
    guarded: UnsafeCell<()>,
}

impl Shared {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            semaphore: Arc::new(Semaphore::new(permits)),
            guarded: UnsafeCell::new(()),
        })
    }

    fn touch(&self) {
        self.guarded.with_mut(|_| ());
    }
}

fn held(semaphore: &Arc<Semaphore>, permits: u32) -> OwnedPermit {
    Arc::clone(semaphore)
        .cost_owned(permits)
        .try_acquire()
        .unwrap()
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn kind<T>(result: Result<T, AcquireError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Every permit is back, nobody waits, and a newcomer is served without a queue.
fn assert_at_rest(semaphore: &Semaphore, permits: usize) {
    assert_eq!(semaphore.permits(), permits);
    assert_eq!(semaphore.available_permits(), permits);
    assert_eq!(semaphore.snapshot().waiting, 0);
    if !semaphore.is_closed() {
        drop(semaphore.try_acquire_many(permits as u32).unwrap());
    }
}

#[test]
fn a_permit_is_held_by_one_at_a_time_and_nobody_is_forgotten() {
    model(|| {
        let shared = Shared::new(1);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let permit = block_on(shared.semaphore.acquire()).unwrap();
                    shared.touch();
                    drop(permit);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_at_rest(&shared.semaphore, 1);
    });
}

#[test]
fn a_try_takes_what_is_free_or_nothing() {
    model(|| {
        let shared = Shared::new(1);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                if let Ok(_permit) = shared.semaphore.try_acquire() {
                    shared.touch();
                }
            })
        };
        let permit = block_on(shared.semaphore.acquire()).unwrap();
        shared.touch();
        drop(permit);
        other.join().unwrap();
        assert_at_rest(&shared.semaphore, 1);
    });
}

/// Not even the permit that is on its way to the waiter.
#[test]
fn try_acquire_takes_nothing_while_somebody_waits() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let mut waiter = Arc::clone(&semaphore).acquire_owned();
        assert!(poll_once(&mut waiter).is_pending());
        let releasing = thread::spawn(move || drop(permit));
        assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
        releasing.join().unwrap();
        drop(block_on(waiter).unwrap());
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn two_releases_are_not_taken_for_one() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut one = held(&semaphore, 2);
        let other = one.split(1).unwrap();
        let threads = [one, other].map(|permit| thread::spawn(move || drop(permit)));
        let permit = block_on(semaphore.acquire_many(2)).unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
        drop(permit);
        assert_at_rest(&semaphore, 2);
    });
}

#[test]
fn a_grant_that_races_with_a_cancellation_is_used_or_passed_on() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let mut cancelled = Arc::clone(&semaphore).acquire_owned();
        assert!(poll_once(&mut cancelled).is_pending());
        let releasing = thread::spawn(move || drop(permit));
        let cancelling = thread::spawn(move || drop(cancelled));
        // Behind the one that is cancelled, or after it.
        drop(block_on(semaphore.acquire()).unwrap());
        releasing.join().unwrap();
        cancelling.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn a_large_head_that_leaves_lets_the_small_go() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut one = held(&semaphore, 2);
        let other = one.split(1).unwrap();
        let mut large = Arc::clone(&semaphore).cost_owned(2).acquire();
        assert!(poll_once(&mut large).is_pending());
        let releasing = thread::spawn(move || drop(one));
        let cancelling = thread::spawn(move || drop(large));
        drop(block_on(semaphore.acquire()).unwrap());
        releasing.join().unwrap();
        cancelling.join().unwrap();
        drop(other);
        assert_at_rest(&semaphore, 2);
    });
}

#[test]
fn a_waiter_is_served_or_told_that_it_was_closed() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let closing = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.close())
        };
        match block_on(semaphore.acquire()) {
            Ok(permit) => drop(permit),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
        releasing.join().unwrap();
        closing.join().unwrap();
        assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::Closed));
        assert_at_rest(&semaphore, 1);
    });
}

/// The waiter behind the refused one is let in by the rejection, or by the permit that comes back.
#[test]
fn reject_impossible_beside_a_release_and_a_cancellation_lets_those_behind_go() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let mut large = Arc::clone(&semaphore).cost_owned(2).acquire();
        let mut cancelled = Arc::clone(&semaphore).acquire_owned();
        assert!(poll_once(&mut large).is_pending() && poll_once(&mut cancelled).is_pending());
        semaphore.set_permits(1);
        let rejecting = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.reject_impossible())
        };
        let cancelling = thread::spawn(move || drop(cancelled));
        drop(block_on(semaphore.acquire()).unwrap());
        rejecting.join().unwrap();
        cancelling.join().unwrap();
        assert_eq!(kind(block_on(large)), Some(ErrorKind::ExceedsCapacity));
        assert_at_rest(&semaphore, 1);
    });
}

/// Nobody gives a permit back meanwhile, so only the close can tell.
#[test]
fn close_tells_a_waiter_that_nobody_else_would_wake() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let closing = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.close())
        };
        let refused = kind(block_on(semaphore.acquire()));
        assert_eq!(refused, Some(ErrorKind::Closed));
        closing.join().unwrap();
        drop(permit);
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn a_grant_survives_a_close_that_comes_after_it() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let mut waiter = Arc::clone(&semaphore).acquire_owned();
        assert!(poll_once(&mut waiter).is_pending());
        drop(permit);
        let closing = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.close())
        };
        drop(block_on(waiter).unwrap());
        closing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn growing_lets_a_waiter_go() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let growing = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.set_permits(1))
        };
        drop(block_on(semaphore.acquire()).unwrap());
        growing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn shrinking_is_exact_while_others_take_and_give() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let shrinking = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.set_permits(1))
        };
        drop(block_on(semaphore.acquire()).unwrap());
        releasing.join().unwrap();
        shrinking.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn snapshot_beside_a_resize_shows_limit_and_permits_of_one_moment() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let other = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.set_permits(3))
        };
        let snapshot = semaphore.snapshot();
        assert_eq!(snapshot.in_use, 1);
        assert!(matches!(
            (snapshot.limit, snapshot.available),
            (1, 0) | (3, 2)
        ));
        other.join().unwrap();
        drop(permit);
        assert_at_rest(&semaphore, 3);
    });
}

#[test]
fn a_waiter_that_a_shrink_made_impossible_is_refused() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let shrinking = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.set_permits(1))
        };
        match block_on(semaphore.acquire_many(2)) {
            Ok(permit) => drop(permit),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ExceedsCapacity),
        }
        releasing.join().unwrap();
        shrinking.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn a_permit_that_is_forgotten_lowers_the_limit_once() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut one = held(&semaphore, 2);
        let other = one.split(1).unwrap();
        let forgetting = thread::spawn(move || one.forget());
        let releasing = thread::spawn(move || drop(other));
        drop(block_on(semaphore.acquire()).unwrap());
        forgetting.join().unwrap();
        releasing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn idleness_is_noticed_whichever_permit_comes_back_last() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let mut one = held(&semaphore, 2);
        let other = one.split(1).unwrap();
        let threads = [one, other].map(|permit| thread::spawn(move || drop(permit)));
        block_on(semaphore.wait_idle());
        assert_eq!(semaphore.available_permits(), 2);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_at_rest(&semaphore, 2);
    });
}

#[test]
fn idleness_is_noticed_behind_a_line() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let next = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || drop(block_on(semaphore.acquire()).unwrap()))
        };
        let releasing = thread::spawn(move || drop(permit));
        block_on(semaphore.wait_idle());
        next.join().unwrap();
        releasing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn idleness_that_is_no_longer_waited_for_leaves_nothing_behind() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let mut idle = semaphore.wait_idle();
        let _ = poll_once(&mut idle);
        drop(idle);
        drop(block_on(semaphore.acquire()).unwrap());
        releasing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn a_waiter_that_moved_to_another_waker_is_woken_by_the_new_one() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let mut waiter = semaphore.acquire();
        match poll_once(&mut waiter) {
            Poll::Ready(permit) => drop(permit.unwrap()),
            // The first waker wakes nobody, so only the second can end this.
            Poll::Pending => drop(block_on(waiter).unwrap()),
        }
        releasing.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

#[test]
fn a_bounded_line_refuses_or_serves() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(1).max_waiters(1));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let other = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || kind(block_on(semaphore.acquire())))
        };
        let refused = kind(block_on(semaphore.acquire()));
        releasing.join().unwrap();
        for refused in [refused, other.join().unwrap()].into_iter().flatten() {
            assert_eq!(refused, ErrorKind::QueueFull);
        }
        assert_at_rest(&semaphore, 1);
    });
}

/// A permit that is added says that something is ready, as tokio's do.
#[test]
fn what_was_done_before_a_permit_was_added_is_seen_by_who_takes_it() {
    model(|| {
        let shared = Shared::new(0);
        let adding = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.touch();
                shared.semaphore.add_permits(1);
            })
        };
        // A try needs no lock; the waiter is served under it.
        if let Ok(permit) = shared.semaphore.try_acquire() {
            shared.touch();
            drop(permit);
        }
        let permit = block_on(shared.semaphore.acquire()).unwrap();
        shared.touch();
        drop(permit);
        adding.join().unwrap();
        assert_at_rest(&shared.semaphore, 1);
    });
}

#[test]
fn what_was_done_before_a_close_is_seen_by_who_is_refused() {
    model(|| {
        let shared = Shared::new(1);
        let closing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.touch();
                shared.semaphore.close();
            })
        };
        if kind(shared.semaphore.try_acquire()) == Some(ErrorKind::Closed) {
            shared.touch();
        }
        closing.join().unwrap();
        assert_at_rest(&shared.semaphore, 1);
    });
}

/// The permits that are forgotten are those that nobody has, whichever threads take and give meanwhile.
#[test]
fn forget_permits_takes_only_what_is_free() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = held(&semaphore, 1);
        let releasing = thread::spawn(move || drop(permit));
        let taking = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || drop(semaphore.try_acquire()))
        };
        let forgotten = semaphore.forget_permits(1);
        releasing.join().unwrap();
        taking.join().unwrap();
        assert_at_rest(&semaphore, 2 - forgotten);
    });
}

/// A waiter is refused by a lowered limit, and is told so although others are granted after it.
#[test]
fn refusal_is_collected_although_a_later_waiter_was_granted() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let permit = held(&semaphore, 2);
        let mut large = Arc::clone(&semaphore).cost_owned(2).acquire();
        let mut small = Arc::clone(&semaphore).acquire_owned();
        assert!(poll_once(&mut large).is_pending());
        assert!(poll_once(&mut small).is_pending());
        let lowering = {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.set_permits(1))
        };
        let collecting = thread::spawn(move || {
            let refused = kind(block_on(large));
            assert_eq!(refused, Some(ErrorKind::ExceedsCapacity));
        });
        lowering.join().unwrap();
        drop(permit);
        drop(block_on(small).unwrap());
        collecting.join().unwrap();
        assert_at_rest(&semaphore, 1);
    });
}

/// The thread that serves it may have seen one of the permits come back without its holder's help.
#[test]
fn a_waiter_for_two_sees_what_both_holders_did() {
    model(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let done = Arc::new([UnsafeCell::new(()), UnsafeCell::new(())]);
        let mut one = held(&semaphore, 2);
        let other = one.split(1).unwrap();
        let mut waiter = Arc::clone(&semaphore).cost_owned(2).acquire();
        assert!(poll_once(&mut waiter).is_pending());
        let threads = [(0, one), (1, other)].map(|(which, permit)| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                done[which].with_mut(|_| ());
                drop(permit);
            })
        });
        let permit = block_on(waiter).unwrap();
        done.iter().for_each(|cell| cell.with_mut(|_| ()));
        for thread in threads {
            thread.join().unwrap();
        }
        drop(permit);
        assert_at_rest(&semaphore, 2);
    });
}
