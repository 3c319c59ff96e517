//! Keys and what is kept for each: entries in buckets, and the hand that looks for one that can go.
//!
//! This is cuckoo hashing with partial keys (Fan, Andersen, Kaminsky and Mitzenmacher, *Cuckoo
//! Filter: Practically Better Than Bloom*, 2014), with the entries beside the tags: so a search
//! seldom goes to more than one place in memory.
//!
//! 1. A key may be in two buckets. From either of them and its tag, some bits of its hash, follows
//!    the other: their sum, modulo the number of buckets, is a function of the tag. So an entry can
//!    be moved to its other bucket without looking at its key.
//! 2. Entries of one tag in one bucket belong to the same pair of buckets. No pair holds more than
//!    [`SAME_TAG`] of one tag, so nobody who looks for a key looks at more entries than that.
//! 3. It has its final size when it is made, and nothing is ever hashed anew. Who finds no free cell
//!    moves one entry, or two, to make room; if not even that helps, there is none. What is moved is
//!    told to the caller, for the numbers of entries are their places.
//! 4. Memory for buckets is taken piece by piece, when somebody is put in there.
//! 5. The keys are looked at by the caller's own code, which may panic: only while nothing is half
//!    done.
//! 6. Where a table is too large to be near the processor, a search has both buckets of its key on their
//!    way before it looks at either, and so waits for memory once, and not once for each.
//! 7. A look goes over a constant number of cells and entries. It begins with the entry that could
//!    go soonest of those that were looked at before, so that this one is not lost sight of.

use super::bucket::{Bucket, CELLS};
use super::touched::touched;

/// How many entries of one tag a pair of buckets may hold.
pub(super) const SAME_TAG: usize = 3;

/// How many entries are moved to make room at the most.
pub(super) const MOVED: usize = 2;

/// How many cells a look passes at the most.
const CELLS_AT_ONCE: usize = 64;

/// Entries are numbered by their bucket times this, and their cell.
const STRIDE: usize = CELLS + 1;

/// Buckets of a piece.
const PIECE: usize = 32;

/// Sixteen tables of so many bytes are usually in the caches of a processor.
const NEAR: usize = 1 << 15;

/// Entries.
pub(super) struct Table<K, V> {
    /// Pieces that nobody is in yet are empty.
    pieces: Box<[Piece<K, V>]>,
    buckets: u32,
    /// It is too large to be near the processor.
    far: bool,
    /// Where the next look goes on.
    hand: usize,
    /// Where it begins: the one that could go soonest.
    soonest: usize,
    /// How many have been put in.
    version: u64,
}

type Piece<K, V> = Box<[Bucket<K, V>]>;

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    first: u32,
    second: u32,
    tag: u16,
    /// The cell in which it is, in its first bucket, if that was free when it came.
    cell: u8,
}

/// What is to be said about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing would be lost with it.
    Recovered,
    /// Nothing would be lost with it after so many nanoseconds, if nobody used it.
    Owes(u64),
    /// It cannot go.
    Pinned,
}

/// What a look came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looked {
    Recovered(usize),
    /// Of those that owe something, the one that owes for the shortest time.
    Owes(usize, u64),
    Nothing,
}

/// Where a newcomer goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    New,
    InsteadOf(usize),
}

/// What came of somebody who was put in.
pub(super) enum Put<K, V> {
    /// It has this number, and took the place of this one perhaps.
    In(usize, Option<(K, V)>),
    /// There is no room for it.
    Out((K, V)),
}

impl Home {
    /// A number that keys of the same home share, whichever bucket comes first.
    pub(super) fn number(self) -> u64 {
        let bucket = u64::from(self.first.min(self.second));
        let mixed = (bucket << 16 | u64::from(self.tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

/// A cell, by bits of the hash that are used for nothing else.
#[inline]
fn preferred(hash: u64) -> u8 {
    ((((hash >> 32) as u16 as u32) * CELLS as u32) >> 16) as u8
}

/// `number`, of 32 bits, scaled to be below `most`.
#[inline]
fn scaled(number: u32, most: u32) -> u32 {
    ((u64::from(number) * u64::from(most)) >> 32) as u32
}

impl<K, V> Table<K, V> {
    /// For about so many entries; there is hardly ever no room for one of them.
    pub(super) fn new(entries: usize) -> Self {
        // Filled to 95 of 100 if there are five standard deviations more of them than if they were
        // spread evenly over all tables. It can be filled to 97.
        let most = entries as f64 + 5.0 * (entries as f64).sqrt() + 4.0;
        let buckets = (most / 0.95 / CELLS as f64).ceil() as usize;
        let pieces = buckets.div_ceil(PIECE);
        Self {
            pieces: (0..pieces).map(|_| Box::default()).collect(),
            buckets: buckets as u32,
            far: buckets * size_of::<Bucket<K, V>>() > NEAR,
            hand: 0,
            soonest: 0,
            version: 0,
        }
    }

    /// Numbers are below this.
    pub(super) fn numbers(&self) -> usize {
        self.buckets as usize * STRIDE
    }

    /// Changes whenever one is put in.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// A bucket, if there is memory for it.
    #[inline]
    fn bucket(&self, bucket: u32) -> Option<&Bucket<K, V>> {
        let bucket = bucket as usize;
        self.pieces[bucket / PIECE].get(bucket % PIECE)
    }

    /// A bucket for which there is memory.
    #[inline]
    fn bucket_mut(&mut self, bucket: u32) -> &mut Bucket<K, V> {
        let bucket = bucket as usize;
        &mut self.pieces[bucket / PIECE][bucket % PIECE]
    }

    /// Where a key belongs.
    #[inline]
    pub(super) fn home(&self, hash: u64) -> Home {
        let first = scaled(hash as u32, self.buckets);
        let tag = ((hash >> 48) as u16).max(1);
        Home {
            first,
            second: self.other(first, tag),
            tag,
            cell: preferred(hash),
        }
    }

    #[inline]
    fn other(&self, bucket: u32, tag: u16) -> u32 {
        let sum = scaled(u32::from(tag).wrapping_mul(0x9e37_79b1), self.buckets);
        if sum >= bucket {
            sum - bucket
        } else {
            sum + (self.buckets - bucket)
        }
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<usize> {
        let home = self.home(hash);
        let place = home.first;
        if self.far {
            self.fetch(home);
        }
        // Most are where they prefer to be. The processor expects that, and has the key on its way
        // before it knows the tag.
        if let Some(bucket) = self.bucket(place) {
            let cell = usize::from(home.cell);
            if bucket.has(cell, home.tag) {
                touched(1);
                if bucket.get(cell).is_some_and(|(key, _)| is(key)) {
                    return Some(place as usize * STRIDE + cell);
                }
            }
        }
        self.search(home, is)
    }

    /// Has both buckets on their way at once.
    #[inline]
    fn fetch(&self, home: Home) {
        for bucket in [home.first, home.second] {
            if let Some(bucket) = self.bucket(bucket) {
                bucket.fetch();
            }
        }
    }

    /// Looks where else a key may be than where it prefers to be.
    #[inline]
    fn search(&self, home: Home, is: impl Fn(&K) -> bool) -> Option<usize> {
        let mut place = home.first;
        let mut preferred = 1 << home.cell;
        loop {
            if let Some(bucket) = self.bucket(place) {
                let mut cells = bucket.tagged(home.tag) & !preferred;
                while cells != 0 {
                    let cell = cells.trailing_zeros() as usize;
                    touched(1);
                    if bucket.get(cell).is_some_and(|(key, _)| is(key)) {
                        return Some(place as usize * STRIDE + cell);
                    }
                    cells &= cells - 1;
                }
            }
            if place == home.second {
                return None;
            }
            place = home.second;
            preferred = 0;
        }
    }

    /// At how many entries somebody looks who does not find its key.
    pub(super) fn same_tag(&self, hash: u64) -> usize {
        let home = self.home(hash);
        let cells = |bucket| {
            self.bucket(bucket)
                .map_or(0, |bucket| bucket.tagged(home.tag).count_ones())
        };
        let second = if home.second == home.first {
            0
        } else {
            cells(home.second)
        };
        (cells(home.first) + second) as usize
    }

    #[inline]
    fn entry(&self, number: usize) -> Option<&(K, V)> {
        let cell = number % STRIDE;
        if cell == CELLS {
            return None;
        }
        self.bucket((number / STRIDE) as u32)?.get(cell)
    }

    /// What there is for an entry.
    #[inline]
    pub(super) fn get(&self, number: usize) -> &V {
        match self.entry(number) {
            Some((_, value)) => value,
            None => unreachable!("there is no such entry"),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> &mut V {
        let bucket = self.bucket_mut((number / STRIDE) as u32);
        match bucket.get_mut(number % STRIDE) {
            Some((_, value)) => value,
            None => unreachable!("there is no such entry"),
        }
    }

    /// The key and the value of a number, if it is one of an entry.
    pub(super) fn at(&self, number: usize) -> Option<(&K, &V)> {
        self.entry(number).map(|(key, value)| (key, value))
    }

    /// The numbers of all entries.
    pub(super) fn all(&self) -> Vec<usize> {
        let numbers = 0..self.numbers();
        numbers
            .filter(|number| self.entry(*number).is_some())
            .collect()
    }

    /// The home of an entry.
    pub(super) fn home_of(&self, number: usize) -> Home {
        let first = (number / STRIDE) as u32;
        let tag = self.tag(number).unwrap_or(1);
        Home {
            first,
            second: self.other(first, tag),
            tag,
            cell: 0,
        }
    }

    fn tag(&self, number: usize) -> Option<u16> {
        self.bucket((number / STRIDE) as u32)?.tag(number % STRIDE)
    }

    /// Looks at so many entries for one that can go.
    pub(super) fn look(
        &mut self,
        entries: usize,
        mut standing: impl FnMut(usize, &V) -> Standing,
    ) -> Looked {
        let mut best = Looked::Nothing;
        let mut first = Some(self.soonest);
        let mut looked = 0;
        for _ in 0..CELLS_AT_ONCE {
            if looked == entries {
                break;
            }
            let number = first.take().unwrap_or_else(|| self.go_on());
            if self.tag(number).is_some() {
                looked += 1;
                touched(1);
                match (standing(number, self.get(number)), best) {
                    (Standing::Recovered, _) => {
                        self.soonest = number;
                        return Looked::Recovered(number);
                    }
                    (Standing::Owes(after), Looked::Owes(_, least)) if after >= least => {}
                    (Standing::Owes(after), _) => best = Looked::Owes(number, after),
                    (Standing::Pinned, _) => {}
                }
            }
        }
        if let Looked::Owes(number, _) = best {
            self.soonest = number;
        }
        best
    }

    /// The number where the hand is, which goes on to the next.
    fn go_on(&mut self) -> usize {
        let number = self.hand;
        self.hand = (number + 1) % self.numbers();
        number
    }

    /// Puts one in. Who is moved to make room is told to `moved`, with the numbers that it had and
    /// has.
    pub(super) fn put(
        &mut self,
        home: Home,
        entry: (K, V),
        place: Place,
        moved: impl FnMut(&V, usize, usize),
    ) -> Put<K, V> {
        let old = match place {
            Place::New => None,
            Place::InsteadOf(number) => self.remove(number).map(|(tag, old)| (number, tag, old)),
        };
        let Some(number) = self.free(home, moved) else {
            if let Some((number, tag, old)) = old {
                self.insert(number, tag, old);
            }
            return Put::Out(entry);
        };
        self.insert(number, home.tag, entry);
        self.version += 1;
        Put::In(number, old.map(|(_, _, old)| old))
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, number: usize) -> Option<(K, V)> {
        self.remove(number).map(|(_, entry)| entry)
    }

    fn remove(&mut self, number: usize) -> Option<(u16, (K, V))> {
        let tag = self.tag(number)?;
        let bucket = self.bucket_mut((number / STRIDE) as u32);
        let entry = bucket.take(number % STRIDE)?;
        Some((tag, entry))
    }

    fn insert(&mut self, number: usize, tag: u16, entry: (K, V)) {
        let bucket = self.bucket_mut((number / STRIDE) as u32);
        bucket.put(number % STRIDE, tag, entry);
    }

    /// Gives back the memory of pieces in which nobody is.
    pub(super) fn give_back(&mut self) -> Vec<Piece<K, V>> {
        let empty = |piece: &&mut Piece<K, V>| piece.iter().all(Bucket::is_empty);
        let pieces = self.pieces.iter_mut().filter(empty);
        pieces.map(std::mem::take).collect()
    }

    /// A free cell for a key, which is made free if need be.
    fn free(&mut self, home: Home, mut moved: impl FnMut(&V, usize, usize)) -> Option<usize> {
        let pair = [home.first, home.second];
        let preferred = home.first as usize * STRIDE + usize::from(home.cell);
        if self.free_in(home.first).is_some() && self.tag(preferred).is_none() {
            return Some(preferred);
        }
        for bucket in pair {
            if let Some(free) = self.free_in(bucket) {
                return Some(free);
            }
        }
        for bucket in pair {
            for from in cells_of(bucket) {
                if let Some(to) = self.free_in(self.away(from)) {
                    self.shift(from, to, &mut moved);
                    return Some(from);
                }
            }
        }
        for bucket in pair {
            for from in cells_of(bucket) {
                let through = self.away(from);
                // There nobody can be moved to make room here.
                if pair.contains(&through) {
                    continue;
                }
                for via in cells_of(through) {
                    if let Some(to) = self.free_in(self.away(via)) {
                        self.shift(via, to, &mut moved);
                        self.shift(from, via, &mut moved);
                        return Some(from);
                    }
                }
            }
        }
        None
    }

    /// A free cell of a bucket, for which there is memory then.
    fn free_in(&mut self, bucket: u32) -> Option<usize> {
        let piece = bucket as usize / PIECE;
        if self.pieces[piece].is_empty() {
            let buckets = (self.buckets as usize - piece * PIECE).min(PIECE);
            self.pieces[piece] = (0..buckets).map(|_| Bucket::empty()).collect();
        }
        let cell = self.bucket(bucket)?.free()?;
        Some(bucket as usize * STRIDE + cell)
    }

    /// The other bucket of an entry.
    fn away(&self, number: usize) -> u32 {
        self.home_of(number).second
    }

    fn shift(&mut self, from: usize, to: usize, moved: &mut impl FnMut(&V, usize, usize)) {
        touched(1);
        if let Some((tag, entry)) = self.remove(from) {
            moved(&entry.1, from, to);
            self.insert(to, tag, entry);
        }
    }
}

/// The numbers of the entries of a bucket.
fn cells_of(bucket: u32) -> impl Iterator<Item = usize> {
    (0..CELLS).map(move |cell| bucket as usize * STRIDE + cell)
}
