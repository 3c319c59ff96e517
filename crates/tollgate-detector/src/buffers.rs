//! What was recorded and not counted yet: for each few threads a table, of a fixed size, that sums up
//! by key.
//!
//! 1. Recording never waits: it takes a lock only if it is free, of its own table or of the next
//!    one. The lock is held to add to a table, or to exchange it for an empty one.
//! 2. What is recorded is in exactly one place: in a table, or handed to whoever
//!    [empties](Buffers::empty) it, or, if there was no room or no free lock, in the number of
//!    those that were lost.
//! 3. A key that has a place in a table loses nothing there but by a lock that is not free, however
//!    many others come. So what gets lost is, nearly all of it, that of keys that come seldom.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::thread::available_parallelism;

use crate::sync::{AtomicU64, Mutex, Ordering, lock, try_lock};
use crate::table::Table;

pub(crate) struct Buffers<K> {
    /// As many as a power of two.
    stripes: Box<[Stripe<K>]>,
    lost: AtomicU64,
}

/// Far enough from the next that two processors do not take turns at what lies between.
#[repr(align(128))]
struct Stripe<K>(Mutex<Table<K, u64>>);

/// How many stripes there are at most.
const MOST: usize = 64;

thread_local! {
    /// Which stripe is a thread's own. None, until it records for the first time.
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Which stripe the next thread gets.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// How many stripes there are on this machine: as many as processors, up to a power of two.
pub(crate) fn stripes() -> usize {
    let processors = available_parallelism().map_or(1, usize::from);
    processors.clamp(1, MOST).next_power_of_two()
}

fn own() -> usize {
    // Thread-locals are gone while the thread is being torn down.
    OWN.try_with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % MOST);
        }
        own.get()
    })
    .unwrap_or(0)
}

impl<K: Clone + Eq> Buffers<K> {
    /// With room for so many keys in each stripe.
    pub(crate) fn new(room: usize) -> Self {
        let stripe = || Stripe(Mutex::new(Table::new(room)));
        Self {
            stripes: (0..stripes()).map(|_| stripe()).collect(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds `n` to what is recorded of a key.
    #[inline]
    pub(crate) fn add(&self, hash: u64, key: &K, n: u64) {
        let own = own();
        for stripe in [own, own + 1] {
            let stripe = &self.stripes[stripe & (self.stripes.len() - 1)];
            if let Some(mut table) = try_lock(&stripe.0) {
                if let Some(place) = table.find(hash, key) {
                    let recorded = table.value_mut(place);
                    *recorded = recorded.saturating_add(n);
                    return;
                }
                if !table.is_full() {
                    let key = key.clone();
                    table.insert(hash, key, n);
                    return;
                }
                break;
            }
        }
        self.lose(n);
    }

    #[cold]
    fn lose(&self, n: u64) {
        self.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// Hands over what was recorded, a stripe at a time. `spare` is an empty table of the same size,
    /// and is so again afterwards.
    pub(crate) fn empty(&self, spare: &mut Table<K, u64>, mut take: impl FnMut(u64, K, u64)) {
        for stripe in &self.stripes {
            let mut table = lock(&stripe.0);
            std::mem::swap(&mut *table, spare);
            drop(table);
            for place in spare.drain() {
                let hash = place.hash();
                take(hash, place.key, place.value);
            }
        }
    }

    /// How much was lost since this was last asked.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}
