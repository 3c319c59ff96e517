//! Buffers of records that are not counted yet: each has a table of a fixed size that sums up by
//! key, and a few threads share a buffer.
//!
//! 1. Recording never waits: it takes the lock of its own table or of the next one, and only if the
//!    lock is free. The lock is held to add to a table, or to exchange it for an empty one.
//! 2. A record is in exactly one place: in a table, or handed to the pass that
//!    [empties](Buffers::empty) it, or, if there was no room or no free lock, in the amount lost.
//! 3. A key that has a slot in a table loses records there only if a lock is not free, however many
//!    other keys are recorded. So nearly all lost records are of infrequent keys.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::thread::available_parallelism;

use crate::sync::{AtomicU64, Mutex, Ordering, lock, try_lock};
use crate::table::Table;

pub(crate) struct Buffers<K> {
    /// Their number is a power of two.
    stripes: Box<[Stripe<K>]>,
    lost: AtomicU64,
}

/// Aligned so that two processors do not contend for one cache line.
#[repr(align(128))]
struct Stripe<K>(Mutex<Table<K, u64>>);

/// The maximum number of stripes.
const MOST: usize = 64;

thread_local! {
    /// The stripe of a thread. `usize::MAX` until the thread records for the first time.
    static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The stripe of the next thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of stripes on this machine: the number of processors, rounded up to a power
/// of two.
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
    /// Creates buffers with room for `room` keys in each stripe.
    pub(crate) fn new(room: usize) -> Self {
        let stripe = || Stripe(Mutex::new(Table::new(room)));
        Self {
            stripes: (0..stripes()).map(|_| stripe()).collect(),
            lost: AtomicU64::new(0),
        }
    }

    /// Adds `n` to the records of a key.
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

    /// Hands over the records, a stripe at a time. `spare` must be an empty table of the same size,
    /// and is empty again afterwards.
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

    /// Returns the amount that was lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}
