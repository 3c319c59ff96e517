//! Space-Saving: finds the callers with the most calls, in fixed memory.
//!
//! After Metwally, Agrawal and El Abbadi, *Efficient Computation of Frequent and Top-k Elements in
//! Data Streams* (ICDT 2005). The number of counters is fixed. A key without a counter takes over
//! the smallest one together with its count, since that count may be the key's own; the count taken
//! over is kept as the error.
//!
//! 1. A key that has a counter made at most `count` calls, and at least `count - error`.
//! 2. A key that has none made at most `floor` calls: the count of the key that lost its counter
//!    last. These counts only grow, because every counter has at least the floor.
//! 3. The sum of all counts is at most the number of calls, so the smallest one, and with it the
//!    floor and every error, is at most that number divided by the number of counters.
//! 4. Forgiving a key sets its count and its error to the floor. The three invariants still hold,
//!    for the key's calls from then on.
//!
//! The counters are in a heap, so counting takes a logarithmic number of steps, whatever the cost.

use crate::table::{Place, Table};

pub(crate) struct Summary<K> {
    table: Table<K, Counter>,
    /// The slots of the table, the smallest count first.
    heap: Vec<u32>,
    floor: u64,
}

pub(crate) struct Counter {
    count: u64,
    error: u64,
    /// The position in the heap.
    at: u32,
}

/// The bounds of a key's calls, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Bounds {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }
}

impl<K: Eq> Summary<K> {
    pub(crate) fn new(counters: usize) -> Self {
        Self {
            table: Table::new(counters),
            heap: Vec::with_capacity(counters),
            floor: 0,
        }
    }

    /// Counts `n` for a key. The key that loses its counter to it is dropped.
    pub(crate) fn add(&mut self, hash: u64, key: K, n: u64) {
        if let Some(place) = self.table.find(hash, &key) {
            let counter = self.table.value_mut(place);
            counter.count = counter.count.saturating_add(n);
            let at = counter.at;
            self.sink(at as usize);
        } else if !self.table.is_full() {
            let at = self.heap.len();
            let counter = Counter {
                count: n,
                error: 0,
                at: at as u32,
            };
            self.heap.push(self.table.insert(hash, key, counter) as u32);
            self.rise(at);
        } else {
            let place = self.heap[0] as usize;
            let counter = self.table.value_mut(place);
            self.floor = counter.count;
            counter.error = counter.count;
            counter.count = counter.count.saturating_add(n);
            self.sink(0);
            drop(self.table.replace(place, hash, key));
        }
    }

    /// Returns the upper bound for keys without a counter, which is also the maximum error of a
    /// count.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the bounds of a key's calls.
    pub(crate) fn bounds(&self, hash: u64, key: &K) -> Bounds {
        match self.table.find(hash, key) {
            Some(place) => {
                let counter = &self.table.places()[place].value;
                Bounds {
                    least: counter.count - counter.error,
                    most: counter.count,
                }
            }
            None => Bounds {
                least: 0,
                most: self.floor,
            },
        }
    }

    pub(crate) fn has(&self, hash: u64, key: &K) -> bool {
        self.table.find(hash, key).is_some()
    }

    /// Returns the keys that have counters.
    pub(crate) fn keys(&self) -> &[Place<K, Counter>] {
        self.table.places()
    }

    /// Forgets the calls of a key so far.
    pub(crate) fn forgive(&mut self, hash: u64, key: &K) {
        if let Some(place) = self.table.find(hash, key) {
            let floor = self.floor;
            let counter = self.table.value_mut(place);
            counter.count = floor;
            counter.error = floor;
            let at = counter.at;
            self.rise(at as usize);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.floor = 0;
        self.heap.clear();
        self.table.clear();
    }

    fn count(&self, at: usize) -> u64 {
        self.table.places()[self.heap[at] as usize].value.count
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            let place = self.heap[at] as usize;
            self.table.value_mut(place).at = at as u32;
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.count(parent) <= self.count(at) {
                return;
            }
            self.swap(parent, at);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return;
            }
            let smaller = if right < self.heap.len() && self.count(right) < self.count(left) {
                right
            } else {
                left
            };
            if self.count(at) <= self.count(smaller) {
                return;
            }
            self.swap(at, smaller);
            at = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::{Bounds, Summary};

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, u64),
        Forgive(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Small keys are more frequent.
        let key = (0_u8..40, 0_u8..40).prop_map(|(one, other)| one.min(other));
        prop_oneof![
            20 => (key.clone(), 1_u64..6).prop_map(|(key, n)| Step::Add(key, n)),
            1 => key.prop_map(Step::Forgive),
        ]
    }

    proptest! {
        /// Compares the bounds with a map that counts every key.
        #[test]
        fn counts_are_within_their_bounds(
            counters in 1_usize..20,
            steps in prop::collection::vec(step(), 0..600),
        ) {
            let mut summary = Summary::new(counters);
            let (mut made, mut total) = (HashMap::new(), 0);
            for step in steps {
                match step {
                    Step::Add(key, n) => {
                        summary.add(u64::from(key), key, n);
                        *made.entry(key).or_default() += n;
                        total += n;
                    }
                    Step::Forgive(key) if summary.has(u64::from(key), &key) => {
                        summary.forgive(u64::from(key), &key);
                        made.insert(key, 0);
                    }
                    Step::Forgive(_) => {}
                }
                let error = total / counters as u64;
                prop_assert!(summary.floor() <= error);
                for key in 0..40 {
                    let Bounds { least, most } = summary.bounds(u64::from(key), &key);
                    let made = made.get(&key).copied().unwrap_or_default();
                    prop_assert!(least <= made && made <= most);
                    prop_assert!(most - least <= summary.floor());
                }
            }
        }
    }

    #[test]
    fn while_there_are_counters_every_count_is_exact() {
        let mut summary = Summary::new(3);
        for (key, n) in [(1, 5), (2, 1), (3, 2), (1, 5)] {
            summary.add(key, key, n);
        }
        assert_eq!(summary.floor(), 0);
        let exactly = |n| Bounds { least: n, most: n };
        let bounds = [1, 2, 3, 4].map(|key| summary.bounds(key, &key));
        assert_eq!(bounds, [10, 1, 2, 0].map(exactly));
    }

    #[test]
    fn the_smallest_gives_up_its_counter() {
        let mut summary = Summary::new(2);
        for (key, n) in [('a', 5), ('b', 3), ('c', 1)] {
            summary.add(7, key, n);
        }
        assert_eq!(summary.bounds(7, &'c'), Bounds { least: 1, most: 4 });
        assert_eq!(summary.bounds(7, &'b'), Bounds { least: 0, most: 3 });
        assert_eq!(summary.bounds(7, &'a'), Bounds { least: 5, most: 5 });
    }
}
