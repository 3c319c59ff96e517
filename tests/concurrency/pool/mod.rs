//! What a pool promises. Sequences of calls are rows of [`model`]; what is in other files has threads, user code
//! that panics or calls back, and futures that wait.
//!
//! What it has in common with every throttle is in `contracts/conformance/`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::Pool;

mod factory;
mod items;
mod model;

/// What became of items.
#[derive(Default)]
pub(crate) struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Tally {
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Makes the next one; they are numbered from 0.
    pub(crate) fn make(self: &Arc<Self>) -> Item {
        Item {
            number: self.made.fetch_add(1, Ordering::SeqCst),
            uses: 0,
            spoilt: false,
            tally: Arc::clone(self),
        }
    }
}

/// An item, neither `Clone` nor `Default`.
pub(crate) struct Item {
    pub(crate) number: usize,
    pub(crate) uses: usize,
    /// Set by a holder that is about to panic.
    pub(crate) spoilt: bool,
    tally: Arc<Tally>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item {}", self.number)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.tally.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// A pool of so many vacancies.
pub(crate) fn made_to_order(size: usize) -> (Arc<Pool<Item>>, Arc<Tally>) {
    let tally = Arc::<Tally>::default();
    let pool = Pool::with_factory(size, {
        let tally = Arc::clone(&tally);
        move || tally.make()
    });
    (Arc::new(pool), tally)
}
