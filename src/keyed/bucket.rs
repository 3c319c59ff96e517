//! Seven entries that lie together, and a tag for each.

use std::hint::black_box;

/// Entries of a bucket: so many that one of two words is two cache lines.
pub(super) const CELLS: usize = 7;

/// What a tag is where there is no entry.
const FREE: u16 = 0;

/// What comes from memory at once.
const LINE: usize = 64;

/// More lines than this are not fetched ahead.
const LINES: usize = 8;

/// Entries, and some bits of their hashes.
///
/// The entries come first: so one of a word and a `u64`, or a `String`, lies in one line, and
/// not in two.
#[repr(C, align(64))]
pub(super) struct Bucket<K, V> {
    entries: [Option<(K, V)>; CELLS],
    /// The last one is not used: eight are compared at once.
    tags: [u16; CELLS + 1],
}

impl<K, V> Bucket<K, V> {
    pub(super) fn empty() -> Self {
        Self {
            entries: [const { None }; CELLS],
            tags: [FREE; CELLS + 1],
        }
    }

    /// The cells of a tag, one bit for each.
    #[inline]
    pub(super) fn tagged(&self, tag: u16) -> u32 {
        // In words as wide as a tag: so all are compared by one instruction.
        let mut cells = 0_u16;
        for (cell, other) in self.tags.iter().enumerate() {
            let same = if *other == tag { u16::MAX } else { 0 };
            cells |= same & 1 << cell;
        }
        u32::from(cells)
    }

    /// Has all lines on their way at once: who waited for the tags to learn which entry is asked for
    /// would begin to wait for that one then. Nothing depends on what is read.
    #[inline]
    pub(super) fn fetch(&self) {
        let in_a_line = (LINE / size_of::<Option<(K, V)>>().max(1)).max(1);
        for entry in self.entries.iter().step_by(in_a_line).take(LINES) {
            black_box(entry.is_some());
        }
    }

    /// Whether a cell has this tag.
    #[inline]
    pub(super) fn has(&self, cell: usize, tag: u16) -> bool {
        self.tags[cell] == tag
    }

    pub(super) fn tag(&self, cell: usize) -> Option<u16> {
        let tag = self.tags[cell];
        (tag != FREE).then_some(tag)
    }

    #[inline]
    pub(super) fn get(&self, cell: usize) -> Option<&(K, V)> {
        self.entries[cell].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, cell: usize) -> Option<&mut (K, V)> {
        self.entries[cell].as_mut()
    }

    pub(super) fn free(&self) -> Option<usize> {
        self.tags[..CELLS].iter().position(|tag| *tag == FREE)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tags == [FREE; CELLS + 1]
    }

    pub(super) fn put(&mut self, cell: usize, tag: u16, entry: (K, V)) {
        self.tags[cell] = tag;
        self.entries[cell] = Some(entry);
    }

    pub(super) fn take(&mut self, cell: usize) -> Option<(K, V)> {
        self.tags[cell] = FREE;
        self.entries[cell].take()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::{Bucket, CELLS, LINE};

    /// The lines that each entry lies in.
    fn lines<K>(make: fn(usize) -> K) -> Vec<usize> {
        let mut bucket = Box::new(Bucket::<K, NonZeroU64>::empty());
        for cell in 0..CELLS {
            bucket.put(cell, 1, (make(cell), NonZeroU64::MIN));
        }
        let lines = |entry: &Option<(K, NonZeroU64)>| {
            let first = std::ptr::from_ref(entry).addr();
            (first + size_of_val(entry) - 1) / LINE - first / LINE + 1
        };
        bucket.entries.iter().map(lines).collect()
    }

    #[test]
    fn an_entry_of_a_number_or_a_string_lies_in_one_line() {
        assert_eq!(lines(|cell| cell as u64), [1; CELLS]);
        assert_eq!(lines(|cell| cell.to_string()), [1; CELLS]);
    }

    #[test]
    fn the_cells_of_a_tag_are_found_wherever_they_are() {
        for taken in 0..1_u32 << CELLS {
            let mut bucket = Bucket::<u64, u64>::empty();
            for cell in 0..CELLS {
                let tag = if taken >> cell & 1 == 1 {
                    0xff00
                } else {
                    0x00ff
                };
                bucket.put(cell, tag, (7, 7));
            }
            assert_eq!(bucket.tagged(0xff00), taken);
            assert_eq!(bucket.tagged(0xffff), 0);
            // Whether one has them fetched makes no difference.
            bucket.fetch();
            assert_eq!(bucket.tagged(0x00ff), !taken & ((1 << CELLS) - 1));
        }
    }
}
