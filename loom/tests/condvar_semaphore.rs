//! Models the semaphore for threads: a sleeping thread is woken when a permit is available for it, by its
//! token, or when the semaphore is closed.
//!
//! A forgotten waiter is a deadlock, which loom reports. Every model ends with
//! [`Shared::at_rest`]. loom's condition variable never times out, so there are no deadlines here.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tollgate::semaphore::Permit;
use tollgate::{AcquireError, CondvarSemaphore, ErrorKind};
use tollgate_loom::*;

/// A semaphore, and the object that its permits guard.
#[derive(Clone)]
struct Shared {
    semaphore: Arc<CondvarSemaphore>,
    guarded: Arc<Guarded>,
}

type Held = Permit<Arc<CondvarSemaphore>>;

/// The result of a wait.
type Waited = Result<(), AcquireError>;

impl Shared {
    fn new(permits: usize) -> Self {
        Self {
            semaphore: Arc::new(CondvarSemaphore::new(permits)),
            guarded: Arc::default(),
        }
    }

    /// Returns a permit that can move to another thread.
    fn held(&self) -> Held {
        Arc::clone(&self.semaphore).try_acquire_owned().unwrap()
    }

    /// Waits, touches the object, and leaves again, unless the semaphore is closed.
    fn enter(&self) -> Waited {
        let _permit = self.semaphore.acquire().wait()?;
        self.guarded.touch();
        Ok(())
    }

    /// Does the same in a model that does not close the semaphore.
    fn pass(&self) {
        self.enter().unwrap();
    }

    /// Does the same, unless the token is cancelled.
    fn pass_unless(&self, token: &CancellationToken) -> Waited {
        let _permit = self.semaphore.acquire().cancel_on(token).wait()?;
        self.guarded.touch();
        Ok(())
    }

    fn at_rest<const N: usize>(&self, permits: usize, threads: [JoinHandle<()>; N]) {
        join_all(threads);
        assert_eq!(self.semaphore.snapshot().available, permits as u64);
        assert_eq!(self.semaphore.snapshot().waiting, 0);
        if !self.semaphore.is_closed() {
            drop(self.semaphore.try_acquire().unwrap());
        }
    }
}

/// Returns one permit, which is held, and a token.
fn full() -> (Shared, Held, CancellationToken) {
    let shared = Shared::new(1);
    let held = shared.held();
    (shared, held, CancellationToken::new())
}

/// Starts a thread that waits unless the token is cancelled.
fn waiting(shared: &Shared, token: &CancellationToken) -> JoinHandle<Waited> {
    let token = token.clone();
    with(shared, move |shared| shared.pass_unless(&token))
}

/// Cancels in a thread of its own, and so at any time: loom does not know a token, and switches
/// threads only at operations that it knows.
fn cancel(token: &CancellationToken) -> JoinHandle<()> {
    with(token, |token| token.cancel())
}

/// Asserts that all of them are refused with this kind.
fn assert_refused<const N: usize>(refusal: ErrorKind, threads: [JoinHandle<Waited>; N]) {
    for waited in join_all(threads) {
        assert_eq!(kind(waited), Some(refusal));
    }
}

model!(permit_is_held_by_one_and_nobody_is_forgotten, || {
    let shared = Shared::new(1);
    let other = with(&shared, Shared::pass);
    shared.pass();
    shared.at_rest(1, [other]);
});

model!(three_take_turns, || {
    let shared = Shared::new(1);
    let others = each_with::<2, _, _>(&shared, Shared::pass);
    shared.pass();
    shared.at_rest(1, others);
});

model!(try_takes_what_is_free_or_nothing, || {
    let shared = Shared::new(1);
    let other = with(&shared, |shared| {
        if let Ok(_permit) = shared.semaphore.try_acquire() {
            shared.guarded.touch();
        }
    });
    shared.pass();
    shared.at_rest(1, [other]);
});

model!(release_wakes_who_sleeps, || {
    let (shared, held, _) = full();
    let waiting = with(&shared, Shared::pass);
    shared.guarded.touch();
    drop(held);
    shared.at_rest(1, [waiting]);
});

// No waiter is woken by a leaving one, since none leaves.
model!(two_releases_wake_two, || {
    let shared = Shared::new(2);
    let (one, other) = (shared.held(), shared.held());
    let stay = each_with::<2, _, _>(&shared, |shared| {
        std::mem::forget(shared.semaphore.acquire().wait().unwrap());
    });
    drop(one);
    drop(other);
    join_all(stay);
    assert_eq!(shared.semaphore.snapshot().available, 0);
    assert_eq!(shared.semaphore.snapshot().waiting, 0);
});

model!(closing_wakes_all_who_sleep, || {
    let (shared, held, _) = full();
    let waiting = each_with::<2, _, _>(&shared, |shared| shared.enter());
    shared.semaphore.close();
    assert_refused(ErrorKind::Closed, waiting);
    drop(held);
    shared.at_rest(1, []);
});

model!(waiter_is_served_or_told_that_it_was_closed, || {
    let (shared, held, _) = full();
    let closing = with(&shared, |shared| shared.semaphore.close());
    let waiting = with(&shared, |shared| shared.enter());
    drop(held);
    assert_granted_or(ErrorKind::Closed, waiting.join().unwrap());
    shared.at_rest(1, [closing]);
});

// The permit comes back only after the cancelled waiter has left, so only its token wakes it.
model!(cancellation_wakes_who_sleeps_or_is_about_to, || {
    let (shared, held, token) = full();
    let waiting = waiting(&shared, &token);
    let cancelling = cancel(&token);
    assert_refused(ErrorKind::Cancelled, [waiting]);
    join_all([cancelling]);
    drop(held);
    shared.at_rest(1, []);
});

model!(cancellation_wakes_its_waiter_among_others, || {
    let (shared, held, token) = full();
    let stays = with(&shared, Shared::pass);
    let leaves = waiting(&shared, &token);
    let cancelling = cancel(&token);
    assert_refused(ErrorKind::Cancelled, [leaves]);
    drop(held);
    shared.at_rest(1, [cancelling, stays]);
});

/// A waiter notified by the other waiter's token sleeps again, and is woken by its own. The model uses
/// loom's maximum number of threads, so it always allows two preemptions.
#[test]
fn two_tokens_wake_each_its_own() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let shared = Shared::new(1);
        std::mem::forget(shared.held());
        let tokens = [(); 2].map(|()| CancellationToken::new());
        let waiting = tokens.each_ref().map(|token| waiting(&shared, token));
        let cancelling = tokens.each_ref().map(cancel);
        assert_refused(ErrorKind::Cancelled, waiting);
        join_all(cancelling);
        assert_eq!(shared.semaphore.snapshot().waiting, 0);
    });
}

model!(token_that_two_have_wakes_both, || {
    let (shared, held, token) = full();
    let waiting = [(); 2].map(|()| waiting(&shared, &token));
    let cancelling = cancel(&token);
    assert_refused(ErrorKind::Cancelled, waiting);
    join_all([cancelling]);
    drop(held);
    shared.at_rest(1, []);
});

model!(permit_that_races_a_cancel_is_used_or_passed_on, || {
    let (shared, held, token) = full();
    let leaves = waiting(&shared, &token);
    let stays = with(&shared, Shared::pass);
    let cancelling = cancel(&token);
    drop(held);
    assert_granted_or(ErrorKind::Cancelled, leaves.join().unwrap());
    shared.at_rest(1, [stays, cancelling]);
});

model!(cancellation_beside_a_free_permit_takes_or_leaves_it, || {
    let shared = Shared::new(1);
    let token = CancellationToken::new();
    let cancelling = cancel(&token);
    let other = with(&shared, Shared::pass);
    assert_granted_or(ErrorKind::Cancelled, shared.pass_unless(&token));
    shared.at_rest(1, [cancelling, other]);
});

// The token still calls back after the semaphore has been dropped.
model!(semaphore_that_is_dropped_while_a_token_calls, || {
    let (shared, held, token) = full();
    std::mem::forget(held);
    let cancelling = cancel(&token);
    let refused = kind(shared.pass_unless(&token));
    assert_eq!(refused, Some(ErrorKind::Cancelled));
    drop(shared);
    join_all([cancelling]);
});
