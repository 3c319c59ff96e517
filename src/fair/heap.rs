//! [`Heap`]: classes by rank, the first one on top; a binary heap in which the rank of any class can
//! be changed.
//!
//! A grant and a release each change one rank. With a `BTreeSet`, which has to remove one and to
//! insert the other, a hand-off among 100 classes takes half as many instructions again.

/// No place in the heap.
const NONE: usize = usize::MAX;

/// Ranks of type `R` by index of the class.
pub(super) struct Heap<R> {
    /// Each rank is at least the rank at half of its place.
    ranks: Vec<(R, usize)>,
    /// The place of each class.
    places: Vec<usize>,
}

impl<R: Ord + Copy> Heap<R> {
    pub(super) const fn new() -> Self {
        Self {
            ranks: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Returns the least rank and its class.
    pub(super) fn first(&self) -> Option<(R, usize)> {
        self.ranks.first().copied()
    }

    pub(super) fn contains(&self, class: usize) -> bool {
        self.place(class).is_some()
    }

    /// Sets the rank of a class; `None` removes it.
    #[inline]
    pub(super) fn set(&mut self, class: usize, rank: Option<R>) {
        let place = self.place(class);
        // Without bounds and aging, two of three heaps are empty.
        if place.is_some() || rank.is_some() {
            self.change(place, class, rank);
        }
    }

    fn change(&mut self, place: Option<usize>, class: usize, rank: Option<R>) {
        match (place, rank) {
            (None, None) => {}
            (Some(place), Some(rank)) => {
                self.ranks[place].0 = rank;
                self.restore(place);
            }
            (None, Some(rank)) => {
                if self.places.len() <= class {
                    self.places.resize(class + 1, NONE);
                }
                self.ranks.push((rank, class));
                let place = self.ranks.len() - 1;
                self.places[class] = place;
                self.restore(place);
            }
            (Some(place), None) => {
                self.ranks.swap_remove(place);
                self.places[class] = NONE;
                if let Some((_, moved)) = self.ranks.get(place) {
                    self.places[*moved] = place;
                    self.restore(place);
                }
            }
        }
    }

    fn place(&self, class: usize) -> Option<usize> {
        let place = self.places.get(class).copied();
        place.filter(|place| *place != NONE)
    }

    /// Moves the class at a place to where its rank belongs.
    fn restore(&mut self, mut place: usize) {
        let moved = self.ranks[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.ranks[above].0 <= moved.0 {
                break;
            }
            self.put(place, self.ranks[above]);
            place = above;
        }
        loop {
            let mut below = 2 * place + 1;
            if below + 1 < self.ranks.len() && self.ranks[below + 1].0 < self.ranks[below].0 {
                below += 1;
            }
            if below >= self.ranks.len() || moved.0 <= self.ranks[below].0 {
                break;
            }
            self.put(place, self.ranks[below]);
            place = below;
        }
        self.put(place, moved);
    }

    fn put(&mut self, place: usize, ranked: (R, usize)) {
        self.ranks[place] = ranked;
        self.places[ranked.1] = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_least_of_all_after_any_changes(
            changes in prop::collection::vec((0..20_usize, prop::option::of(0..50_u32)), 0..200),
        ) {
            let (mut heap, mut naive) = (Heap::new(), [None; 20]);
            for (class, rank) in changes {
                // No two ranks are equal.
                let rank = rank.map(|rank| (rank, class));
                heap.set(class, rank);
                naive[class] = rank;
                let least = naive.iter().flatten().min().copied();
                prop_assert_eq!(heap.first(), least.map(|rank| (rank, rank.1)));
                prop_assert_eq!(heap.contains(class), rank.is_some());
            }
        }
    }
}
