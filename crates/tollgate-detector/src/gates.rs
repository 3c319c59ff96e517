//! The gates of a detector, by key: those that have handles, and those that are blocked.
//!
//! 1. A key keeps the same gate while a handle of it exists outside of the table, or while it is
//!    blocked.
//! 2. A sweep removes all other gates, which are [unused](Gate::is_unused). It runs in each pass,
//!    and before the table grows to twice the size that the last sweep left, so the table is never
//!    larger than twice the necessary size.
//! 3. Handles are only created from the table under its lock. So when a sweep finds that the
//!    table's handle is the only one, no other one can appear.
//!
//! The hash, the equality, the clone and the drop of keys run under the lock, and no other foreign
//! code.

use std::collections::HashMap;
use std::hash::{Hash, RandomState};
use std::sync::atomic::AtomicUsize;

use tollgate::{Clock, Gate};

use crate::sync::{Mutex, Ordering, lock};

pub(crate) struct Gates<K> {
    clock: Clock,
    table: Mutex<Table<K>>,
    /// The number of gates in the table. Changed under its lock.
    len: AtomicUsize,
}

/// The state under the lock.
struct Table<K> {
    gates: HashMap<K, Gate, RandomState>,
    /// The size at which a sweep precedes the next new gate.
    sweep_at: usize,
}

/// A table of this size is neither swept before it grows nor shrunk.
const SMALL: usize = 64;

impl<K: Clone + Hash + Eq> Gates<K> {
    pub(crate) fn new(clock: Clock, hasher: RandomState) -> Self {
        let table = Table {
            gates: HashMap::with_hasher(hasher),
            sweep_at: SMALL,
        };
        Self {
            clock,
            table: Mutex::new(table),
            len: AtomicUsize::new(0),
        }
    }

    /// Returns the gate of a key, and creates it if there is none.
    pub(crate) fn gate(&self, key: &K) -> Gate {
        let mut table = lock(&self.table);
        if let Some(gate) = table.gates.get(key) {
            return gate.clone();
        }
        if table.gates.len() >= table.sweep_at {
            table.sweep();
        }
        let gate = Gate::new().clock(&self.clock);
        table.gates.insert(key.clone(), gate.clone());
        self.publish_len(&table);
        gate
    }

    /// Returns the gate of a key, if there is one.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<Gate> {
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        lock(&self.table).gates.get(key).cloned()
    }

    /// Removes the gates that are open and have no other handle. Returns the number of gates left.
    pub(crate) fn sweep(&self) -> usize {
        let mut table = lock(&self.table);
        table.sweep();
        self.publish_len(&table);
        table.gates.len()
    }

    /// Returns the keys whose gates are blocked.
    pub(crate) fn blocked(&self) -> Vec<K> {
        let table = lock(&self.table);
        let blocked = table.gates.iter().filter(|(_, gate)| !gate.is_open());
        blocked.map(|(key, _)| key.clone()).collect()
    }

    fn publish_len(&self, table: &Table<K>) {
        self.len.store(table.gates.len(), Ordering::Relaxed);
    }
}

impl<K: Hash + Eq> Table<K> {
    fn sweep(&mut self) {
        self.gates.retain(|_, gate| !gate.is_unused());
        let enough = (2 * self.gates.len()).max(SMALL);
        self.sweep_at = enough;
        if self.gates.capacity() > 2 * enough {
            self.gates.shrink_to(enough);
        }
    }
}
