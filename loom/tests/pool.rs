//! Models the pool with two or three threads: items and permits are handed over while other threads take,
//! shrink, discard, add and close.
//!
//! The items are guarded: two holders of one item, or two without an order between them,
//! fail the model. Every model of a pool that cannot make items ends with [`Shared::whole`]: there
//! is exactly one item for each permit.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use tollgate::{ErrorKind, Pool, pool};
use tollgate_loom::*;

type Items = Arc<Pool<Item>>;
type Permit = pool::Permit<Items, Item>;

/// An object that only one thread may touch at a time, and that counts its instances.
struct Item {
    guarded: Guarded,
    _alive: Arc<()>,
}

fn item(alive: &Arc<()>) -> Item {
    Item {
        guarded: Guarded::default(),
        _alive: Arc::clone(alive),
    }
}

struct Shared {
    pool: Items,
    alive: Arc<()>,
}

impl Shared {
    fn new(items: usize) -> Self {
        let alive = Arc::new(());
        let items: Vec<_> = (0..items).map(|_| item(&alive)).collect();
        let pool = Arc::new(Pool::new(items));
        Self { pool, alive }
    }

    /// Returns a pool of `N` items, all of which are held.
    fn held<const N: usize>() -> (Self, [Permit; N]) {
        let shared = Self::new(N);
        let held = [(); N].map(|()| take(&shared.pool));
        (shared, held)
    }

    /// Asserts that after these threads there is exactly one item for each permit.
    fn whole<const N: usize>(&self, threads: [JoinHandle<()>; N]) {
        join_all(threads);
        let size = self.pool.snapshot().limit;
        // A shrink may have left one item too many, which goes when the next one comes back.
        drop(self.pool.try_acquire());
        let rest = self.pool.snapshot();
        assert_eq!((rest.available, rest.waiting), (size, 0));
        let permits: Vec<_> = (0..size).map(|_| take(&self.pool)).collect();
        permits.iter().for_each(|permit| permit.guarded.touch());
        assert_eq!(Arc::strong_count(&self.alive) - 1, permits.len());
    }
}

fn take(pool: &Items) -> Permit {
    pool.clone().try_acquire_owned().unwrap()
}

/// Waits for an item, touches it, and gives it back.
fn pass(pool: &Items) {
    let permit = block_on(pool.acquire()).unwrap();
    permit.guarded.touch();
}

/// Tries to take an item: a try fails only without a permit, because a caller with a permit finds an item.
fn take_what_is_there(pool: &Items) {
    let taken = pool.try_acquire().map(|permit| permit.guarded.touch());
    assert_granted_or(ErrorKind::NoPermits, taken);
}

model!(item_is_held_by_one_and_nobody_is_forgotten, || {
    let shared = Shared::new(1);
    let others = each_with::<2, _, _>(&shared.pool, pass);
    pass(&shared.pool);
    shared.whole(others);
});

model!(waiter_dropped_as_an_item_returns_passes_it_on, || {
    let (shared, [held]) = Shared::held();
    let waiter = parked(shared.pool.clone().acquire_owned());
    let releasing = dropping(held);
    drop(waiter);
    moved(shared.pool.acquire()).unwrap().guarded.touch();
    shared.whole([releasing]);
});

model!(wait_idle_sees_the_last_item_come_back, || {
    let (shared, held) = Shared::held::<2>();
    let returning = held.map(dropping);
    moved(shared.pool.wait_idle());
    assert_eq!(shared.pool.snapshot().in_use, 0);
    shared.whole(returning);
});

model!(waiter_behind_one_that_leaves_granted_is_served, || {
    let (shared, [held]) = Shared::held();
    let first = parked(shared.pool.clone().acquire_owned());
    let threads = [with(&shared.pool, pass), dropping(held)];
    drop(first);
    shared.whole(threads);
});

model!(set_size_down_beside_takes_leaves_a_whole_pool, || {
    let shared = Shared::new(2);
    let releasing = dropping(take(&shared.pool));
    let taking = with(&shared.pool, take_what_is_there);
    shared.pool.set_size(1);
    join_all([releasing, taking]);
    assert_eq!(shared.pool.snapshot().limit, 1);
    shared.whole([]);
});

model!(discard_and_set_size_and_take_leave_a_whole_pool, || {
    let shared = Shared::new(2);
    let held = take(&shared.pool);
    let discarding = spawn(move || held.discard());
    let taking = with(&shared.pool, take_what_is_there);
    shared.pool.set_size(1);
    join_all([discarding, taking]);
    // The limit is one less, if the discarded item was the last one left.
    assert!(shared.pool.snapshot().limit <= 1);
    shared.whole([]);
});

model!(add_as_an_item_returns_to_a_shrunk_pool_is_whole, || {
    let (shared, held) = Shared::held::<2>();
    shared.pool.set_size(1);
    let releasing = dropping(held);
    shared.pool.add(item(&shared.alive));
    drop(shared.pool.try_acquire());
    join_all([releasing]);
    assert_eq!(shared.pool.snapshot().limit, 2);
    shared.whole([]);
});

model!(close_as_an_item_returns_drops_it_and_tells_waiters, || {
    let (shared, [held]) = Shared::held();
    let waiting = with(&shared.pool, |pool| {
        let waited = block_on(pool.acquire()).map(|permit| permit.guarded.touch());
        assert_granted_or(ErrorKind::Closed, waited);
    });
    let releasing = dropping(held);
    shared.pool.close();
    join_all([releasing, waiting]);
    assert_eq!(Arc::strong_count(&shared.alive), 1);
});
