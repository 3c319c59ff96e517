//! The semaphore for threads under every interleaving within the bound of [`model`]: who sleeps is
//! woken when there is something for it, or by its token, or when it was closed.
//!
//! A waiter that is forgotten is a deadlock, which loom reports. Every model ends with
//! [`assert_at_rest`]. loom's condition variable never times out, so there are no deadlines here.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};
use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, CondvarSemaphore, ErrorKind, Permit};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// The same with at most two preemptions, for a model with as many threads as loom has.
fn large_model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

/// A semaphore, and something that only one may touch at a time.
struct Shared {
    semaphore: Arc<CondvarSemaphore>,
    guarded: UnsafeCell<()>,
}

/// What came of a wait.
type Waited = Result<(), AcquireError>;

impl Shared {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self {
            semaphore: Arc::new(CondvarSemaphore::new(permits)),
            guarded: UnsafeCell::new(()),
        })
    }

    fn touch(&self) {
        self.guarded.with_mut(|_| ());
    }

    /// One that can move to another thread.
    fn held(&self) -> Permit<Arc<CondvarSemaphore>> {
        Arc::clone(&self.semaphore).try_acquire_owned().unwrap()
    }

    /// Waits, goes in, and leaves again.
    fn pass(&self) -> Waited {
        let _permit = self.semaphore.acquire().wait()?;
        self.touch();
        Ok(())
    }

    /// The same, unless the token is cancelled.
    fn pass_unless(&self, token: &CancellationToken) -> Waited {
        let _permit = self.semaphore.acquire().cancel_on(token).wait()?;
        self.touch();
        Ok(())
    }

    fn assert_at_rest(&self, permits: usize) {
        assert_eq!(self.semaphore.snapshot().available, permits as u64);
        assert_eq!(self.semaphore.snapshot().waiting, 0);
        if !self.semaphore.is_closed() {
            drop(self.semaphore.try_acquire().unwrap());
        }
    }
}

/// A thread that shares something.
fn spawn<R: 'static>(
    shared: &Arc<Shared>,
    run: impl FnOnce(Arc<Shared>) -> R + 'static,
) -> JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(shared))
}

/// Cancels in a thread of its own, and so at any time: loom does not know a token, and switches
/// threads only at what it knows.
fn cancel(token: &CancellationToken) -> JoinHandle<()> {
    let token = token.clone();
    thread::spawn(move || token.cancel())
}

/// Let in, or refused for this reason and no other.
fn assert_passed_or(kind: ErrorKind, waited: Waited) {
    if let Err(error) = waited {
        assert_eq!(error.kind(), kind);
    }
}

#[test]
fn a_permit_is_held_by_one_at_a_time_and_nobody_is_forgotten() {
    model(|| {
        let shared = Shared::new(1);
        let other = spawn(&shared, |shared| shared.pass().unwrap());
        shared.pass().unwrap();
        other.join().unwrap();
        shared.assert_at_rest(1);
    });
}

#[test]
fn three_take_turns() {
    model(|| {
        let shared = Shared::new(1);
        let others = [(); 2].map(|()| spawn(&shared, |shared| shared.pass().unwrap()));
        shared.pass().unwrap();
        for thread in others {
            thread.join().unwrap();
        }
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_try_takes_what_is_free_or_nothing() {
    model(|| {
        let shared = Shared::new(1);
        let other = spawn(&shared, |shared| {
            if let Ok(_permit) = shared.semaphore.try_acquire() {
                shared.touch();
            }
        });
        shared.pass().unwrap();
        other.join().unwrap();
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_release_wakes_who_sleeps() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let waiting = spawn(&shared, |shared| shared.pass().unwrap());
        shared.touch();
        drop(held);
        waiting.join().unwrap();
        shared.assert_at_rest(1);
    });
}

/// Nobody is woken by one who leaves, since nobody leaves.
#[test]
fn two_releases_wake_two() {
    model(|| {
        let shared = Shared::new(2);
        let (one, other) = (shared.held(), shared.held());
        let stay = [(); 2].map(|()| {
            spawn(&shared, |shared| {
                std::mem::forget(shared.semaphore.acquire().wait().unwrap());
            })
        });
        drop(one);
        drop(other);
        for thread in stay {
            thread.join().unwrap();
        }
        assert_eq!(shared.semaphore.snapshot().available, 0);
        assert_eq!(shared.semaphore.snapshot().waiting, 0);
    });
}

#[test]
fn closing_wakes_all_who_sleep() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let waiting = [(); 2].map(|()| spawn(&shared, |shared| shared.pass()));
        shared.semaphore.close();
        for thread in waiting {
            let refused = thread.join().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed);
        }
        drop(held);
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_waiter_is_served_or_told_that_it_was_closed() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let closing = spawn(&shared, |shared| shared.semaphore.close());
        let waiting = spawn(&shared, |shared| shared.pass());
        drop(held);
        assert_passed_or(ErrorKind::Closed, waiting.join().unwrap());
        closing.join().unwrap();
        shared.assert_at_rest(1);
    });
}

/// The permit comes back only when the cancelled one has left: so it is woken by its token alone.
#[test]
fn a_cancellation_wakes_who_sleeps_or_is_about_to() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let token = CancellationToken::new();
        let waiting = {
            let token = token.clone();
            spawn(&shared, move |shared| shared.pass_unless(&token))
        };
        let cancelling = cancel(&token);
        let refused = waiting.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        cancelling.join().unwrap();
        drop(held);
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_cancellation_wakes_the_one_who_is_meant_among_others_who_sleep() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let token = CancellationToken::new();
        let stays = spawn(&shared, |shared| shared.pass().unwrap());
        let leaves = {
            let token = token.clone();
            spawn(&shared, move |shared| shared.pass_unless(&token))
        };
        let cancelling = cancel(&token);
        let refused = leaves.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        drop(held);
        cancelling.join().unwrap();
        stays.join().unwrap();
        shared.assert_at_rest(1);
    });
}

/// Who is notified by the token of the other one sleeps again, and is woken by its own.
#[test]
fn two_tokens_wake_each_its_own() {
    large_model(|| {
        let shared = Shared::new(1);
        std::mem::forget(shared.held());
        let tokens = [(); 2].map(|()| CancellationToken::new());
        let waiting = tokens.each_ref().map(|token| {
            let token = token.clone();
            spawn(&shared, move |shared| shared.pass_unless(&token))
        });
        let cancelling = tokens.each_ref().map(cancel);
        for thread in waiting {
            let refused = thread.join().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Cancelled);
        }
        for thread in cancelling {
            thread.join().unwrap();
        }
        assert_eq!(shared.semaphore.snapshot().waiting, 0);
    });
}

#[test]
fn a_token_that_two_have_wakes_both() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let token = CancellationToken::new();
        let waiting = [(); 2].map(|()| {
            let token = token.clone();
            spawn(&shared, move |shared| shared.pass_unless(&token))
        });
        let cancelling = cancel(&token);
        for thread in waiting {
            let refused = thread.join().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Cancelled);
        }
        cancelling.join().unwrap();
        drop(held);
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_permit_that_races_with_a_cancellation_is_used_or_passed_on() {
    model(|| {
        let shared = Shared::new(1);
        let held = shared.held();
        let token = CancellationToken::new();
        let leaves = {
            let token = token.clone();
            spawn(&shared, move |shared| shared.pass_unless(&token))
        };
        let stays = spawn(&shared, |shared| shared.pass().unwrap());
        let cancelling = cancel(&token);
        drop(held);
        assert_passed_or(ErrorKind::Cancelled, leaves.join().unwrap());
        stays.join().unwrap();
        cancelling.join().unwrap();
        shared.assert_at_rest(1);
    });
}

#[test]
fn a_cancellation_that_comes_with_a_free_permit_takes_it_or_leaves_it() {
    model(|| {
        let shared = Shared::new(1);
        let token = CancellationToken::new();
        let cancelling = cancel(&token);
        let other = spawn(&shared, |shared| shared.pass().unwrap());
        assert_passed_or(ErrorKind::Cancelled, shared.pass_unless(&token));
        cancelling.join().unwrap();
        other.join().unwrap();
        shared.assert_at_rest(1);
    });
}

/// The token still calls when the semaphore is gone already.
#[test]
fn a_semaphore_that_is_dropped_while_a_token_calls() {
    model(|| {
        let shared = Shared::new(1);
        let token = CancellationToken::new();
        std::mem::forget(shared.held());
        let cancelling = cancel(&token);
        let refused = shared.pass_unless(&token).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        drop(shared);
        cancelling.join().unwrap();
    });
}
