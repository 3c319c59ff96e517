//! Models two semaphores as one: whatever ends a wait for both, and whatever else happens meanwhile,
//! all permits are returned and all other callers are admitted.

#![cfg(tollgate_loom)]

use std::pin::Pin;
use std::sync::Arc;

use tollgate::semaphore::OwnedPermit;
use tollgate::throttle::All;
use tollgate::wait::Waiting;
use tollgate::{ErrorKind, Semaphore, Throttle, all};
use tollgate_loom::*;

/// Two semaphores of one permit each.
#[derive(Clone)]
struct Two {
    a: Arc<Semaphore>,
    b: Arc<Semaphore>,
}

type Both = All<(Arc<Semaphore>, Arc<Semaphore>)>;

impl Two {
    fn new() -> Self {
        let [a, b] = [(); 2].map(|()| Arc::new(Semaphore::new(1)));
        Self { a, b }
    }

    /// Returns both semaphores with the permit of the second one, which is held.
    fn held() -> (Self, OwnedPermit) {
        let two = Self::new();
        let held = Arc::clone(&two.b).try_acquire_owned().unwrap();
        (two, held)
    }

    fn both(&self) -> Pin<Box<Waiting<<Both as Throttle>::Enter>>> {
        Box::pin(all((Arc::clone(&self.a), Arc::clone(&self.b))).acquire())
    }

    /// Waits for both, and leaves again.
    fn pass(&self) {
        drop(block_on(self.both()).unwrap());
    }

    fn at_rest<const N: usize>(&self, threads: [JoinHandle<()>; N]) {
        join_all(threads);
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

model!(two_in_the_same_order_take_turns, || {
    let (two, guarded) = (Two::new(), Arc::<Guarded>::default());
    let threads = [(); 2].map(|()| {
        let guarded = Arc::clone(&guarded);
        with(&two, move |two| {
            let _permits = block_on(two.both()).unwrap();
            guarded.touch();
        })
    });
    two.at_rest(threads);
});

model!(drop_beside_the_release_of_the_second_loses_nothing, || {
    let (two, held) = Two::held();
    let dropped = parked(two.both());
    let threads = [dropping(held), dropping(dropped)];
    // This waits behind the dropped wait in both, or after it.
    two.pass();
    two.at_rest(threads);
});

model!(poll_and_drop_beside_a_release_of_both_lose_nothing, || {
    let two = Two::new();
    let permits = block_on(two.both()).unwrap();
    let mut dropped = parked(two.both());
    let releasing = dropping(permits);
    // The dropped wait has been admitted by neither semaphore, by the first, or by both.
    let polled = poll_once(&mut dropped);
    drop((polled, dropped));
    two.pass();
    two.at_rest([releasing]);
});

model!(cancel_beside_a_release_of_the_second_loses_nothing, || {
    let (two, held) = Two::held();
    let token = tokio_util::sync::CancellationToken::new();
    let threads = [with(&token, |token| token.cancel()), dropping(held)];
    let waiting = all((Arc::clone(&two.a), Arc::clone(&two.b))).acquire();
    if let Err(error) = block_on(waiting.cancel_on(token)) {
        let refused = (error.kind(), error.part());
        assert_eq!(refused, (ErrorKind::Cancelled, None));
    }
    two.at_rest(threads);
});

model!(refusal_by_the_second_admits_who_waits_for_the_first, || {
    let two = Two::new();
    let closing = with(&two, |two| two.b.close());
    let other = with(&two, |two| drop(block_on(two.a.acquire()).unwrap()));
    if let Err(error) = block_on(two.both()) {
        let refused = (error.kind(), error.part());
        assert_eq!(refused, (ErrorKind::Closed, Some(1)));
    }
    two.at_rest([closing, other]);
});

model!(try_takes_both_or_neither, || {
    let two = Two::new();
    let trying = with(&two, |two| {
        let tried = all((&*two.a, &*two.b)).try_acquire().map(drop);
        assert_granted_or(ErrorKind::NoPermits, tried);
    });
    two.pass();
    two.at_rest([trying]);
});
