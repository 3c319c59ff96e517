//! Seven entries that lie together, and a tag for each.

/// Entries of a bucket: so many that one of two words is two cache lines.
pub(super) const CELLS: usize = 7;

/// What a tag is where there is no entry.
const FREE: u16 = 0;

/// Entries, and some bits of their hashes.
#[repr(align(64))]
pub(super) struct Bucket<K, V> {
    /// The last one is not used: eight are compared at once.
    tags: [u16; CELLS + 1],
    entries: [Option<(K, V)>; CELLS],
}

impl<K, V> Bucket<K, V> {
    pub(super) fn empty() -> Self {
        Self {
            tags: [FREE; CELLS + 1],
            entries: [const { None }; CELLS],
        }
    }

    /// The cells of a tag, one bit for each.
    #[inline]
    pub(super) fn tagged(&self, tag: u16) -> u32 {
        let mut cells = 0;
        for (cell, other) in self.tags.iter().enumerate() {
            cells |= u32::from(*other == tag) << cell;
        }
        cells
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
