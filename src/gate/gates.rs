//! The gates of a detector, by key: those that somebody has, and those that are shut.
//!
//! 1. The gate of a key is one and the same for as long as somebody has a handle of it, or it is
//!    shut: then it is kept here, until a [sweep](Gates::sweep) finds that it is open again.
//! 2. One that nobody has any more takes its key out of here when it is dropped, unless another one
//!    has taken its place meanwhile. (Loom does not see the counts by which this is told; the test
//!    `a_handle_that_one_has_is_known_whoever_comes_and_goes` holds it.)
//! 3. No handle is dropped under the lock: it might be the last one, and 2 needs the lock. Of foreign
//!    code there run the hash, the equality and the clone of keys, and no other.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use super::handle::Gate;
use super::state::{Home, State};
use crate::panic::catch_waker_panic;
use crate::sync::{Mutex, lock};
use crate::time::Clock;

pub(super) struct Gates<K> {
    clock: Clock,
    table: Mutex<Table<K>>,
    /// How many are kept. Changed under the lock.
    kept: AtomicUsize,
}

/// What the lock guards.
struct Table<K> {
    gates: HashMap<K, Entry>,
    /// Those that were shut.
    kept: Vec<(K, Gate)>,
}

struct Entry {
    gate: Weak<State>,
    kept: bool,
}

/// What a gate knows of where it is kept.
struct Place<K: Hash + Eq> {
    gates: Weak<Gates<K>>,
    key: K,
}

/// Below this no memory is given back.
const FEW: usize = 64;

impl<K: Clone + Hash + Eq + Send + Sync + 'static> Gates<K> {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        let table = Table {
            gates: HashMap::new(),
            kept: Vec::new(),
        };
        Arc::new(Self {
            clock,
            table: Mutex::new(table),
            kept: AtomicUsize::new(0),
        })
    }

    /// The gate of a key.
    pub(super) fn gate(self: &Arc<Self>, key: &K) -> Gate {
        if let Some(gate) = self.find(key) {
            return gate;
        }
        let place = Place {
            gates: Arc::downgrade(self),
            key: key.clone(),
        };
        let new = Gate::with_home(&self.clock, Some(Box::new(AssertUnwindSafe(place))));
        let (key, gate) = (key.clone(), Arc::downgrade(new.state()));
        let mut table = lock(&self.table);
        match table.gates.get_mut(&key) {
            Some(entry) => match entry.gate() {
                // Somebody else was faster: ours is dropped, after the lock.
                Some(gate) => return gate,
                None => entry.gate = gate,
            },
            None => {
                table.gates.insert(key, Entry { gate, kept: false });
            }
        }
        drop(table);
        new
    }

    /// The gate of a key, if there is one.
    pub(super) fn find(&self, key: &K) -> Option<Gate> {
        lock(&self.table).gates.get(key).and_then(Entry::gate)
    }

    /// How many gates there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.table).gates.len()
    }

    /// How many are kept.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Whoever is shut out.
    pub(super) fn shut(&self) -> Vec<K> {
        // The lock was a temporary, so what is left out is dropped after it.
        let mut kept = lock(&self.table).kept.clone();
        kept.retain(|(_, gate)| !gate.is_open());
        kept.into_iter().map(|(key, _)| key).collect()
    }

    /// Keeps those no longer that are open again.
    pub(super) fn sweep(&self) {
        // Declared before the lock, so dropped after it.
        let mut open = Vec::new();
        let mut locked = lock(&self.table);
        let Table { gates, kept } = &mut *locked;
        let mut at = 0;
        while let Some((key, gate)) = kept.get(at) {
            if !gate.is_open() {
                at += 1;
                continue;
            }
            if let Some(entry) = gates.get_mut(key) {
                entry.kept = false;
            }
            open.push(kept.swap_remove(at));
        }
        self.kept.store(kept.len(), Ordering::Relaxed);
        // What many needed is given back.
        let (few_gates, few_kept) = ((2 * gates.len()).max(FEW), (2 * kept.len()).max(FEW));
        if gates.capacity() > 2 * few_gates {
            gates.shrink_to(few_gates);
        }
        if kept.capacity() > 2 * few_kept {
            kept.shrink_to(few_kept);
        }
    }
}

impl<K: Clone + Hash + Eq> Gates<K> {
    fn keep(&self, key: &K, gate: &Arc<State>) {
        let kept = (key.clone(), Gate::of(Arc::clone(gate)));
        let mut table = lock(&self.table);
        // As somebody has it, it is there.
        let Some(entry) = table.gates.get_mut(key) else {
            return;
        };
        if !std::mem::replace(&mut entry.kept, true) {
            table.kept.push(kept);
            self.kept.store(table.kept.len(), Ordering::Relaxed);
        }
    }
}

impl<K: Hash + Eq> Gates<K> {
    fn leave(&self, key: &K) {
        let mut table = lock(&self.table);
        let gone = |entry: &Entry| entry.gate.strong_count() == 0;
        let left = if table.gates.get(key).is_some_and(gone) {
            table.gates.remove_entry(key)
        } else {
            None
        };
        drop(table);
        drop(left);
    }
}

impl Entry {
    fn gate(&self) -> Option<Gate> {
        self.gate.upgrade().map(Gate::of)
    }
}

impl<K: Clone + Hash + Eq + Send + Sync> Home for AssertUnwindSafe<Place<K>> {
    fn was_shut(&self, gate: &Arc<State>) {
        if let Some(gates) = self.gates.upgrade() {
            gates.keep(&self.key, gate);
        }
    }
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        if let Some(gates) = self.gates.upgrade() {
            // Of a key, whose hash may panic.
            catch_waker_panic(|| gates.leave(&self.key));
        }
    }
}
