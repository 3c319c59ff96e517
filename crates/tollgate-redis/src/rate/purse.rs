//! The tokens that this process holds, from which everybody takes without a lock.
//!
//! The purse is one word: how many tokens are in it, at which of all that ever were it stands, and
//! whether it is shut. Tokens are in the order in which they were put in, and taken in that order; so
//! whoever took some knows them by their numbers.
//!
//! 1. Everybody takes by a compare-exchange that moves the number on. All else is done by one at a
//!    time, under the lock of the line.
//! 2. What is given back moves the number back, if it is still among those of the same batch: which
//!    of its tokens are out does not matter, only how many.
//! 3. While it is shut only the line is served, so nobody overtakes it.
//! 4. From the time at which its oldest batch is over nobody takes.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// Bits of how many there are.
const COUNT_BITS: u32 = 23;
/// Bits of the number of the next one.
const NUMBER_BITS: u32 = 40;
const SHUT: u64 = 1 << 63;

/// At most so many are in it.
pub(crate) const MOST: u64 = (1 << COUNT_BITS) - 1;

/// The purse as it is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    shut: bool,
    count: u64,
    /// Of the next one.
    number: u64,
}

/// The number of a token, so many after another one.
pub(crate) fn after(number: u64, count: u64) -> u64 {
    number.wrapping_add(count) % (1 << NUMBER_BITS)
}

/// How many tokens there are from one number to another.
pub(crate) fn between(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) % (1 << NUMBER_BITS)
}

impl Word {
    fn of(word: u64) -> Self {
        Self {
            shut: word & SHUT != 0,
            count: word >> NUMBER_BITS & MOST,
            number: word % (1 << NUMBER_BITS),
        }
    }

    fn word(self) -> u64 {
        u64::from(self.shut) << 63 | self.count << NUMBER_BITS | self.number
    }

    /// Without the next so many.
    fn without(self, n: u64) -> Self {
        Self {
            count: self.count - n,
            number: after(self.number, n),
            ..self
        }
    }
}

pub(crate) struct Purse {
    word: AtomicU64,
    /// When the oldest batch is over, in nanoseconds.
    over: AtomicU64,
    /// The driver was told that it gets empty.
    told: AtomicBool,
    /// As soon as no more than so many are left, it is.
    low: u64,
}

/// What somebody took from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) left: u64,
    /// The number after that of the last one.
    pub(crate) end: u64,
    /// The driver is to be told that it gets empty.
    pub(crate) tell: bool,
}

impl Purse {
    pub(crate) fn new(low: u64) -> Self {
        Self {
            word: AtomicU64::new(0),
            over: AtomicU64::new(0),
            told: AtomicBool::new(false),
            low,
        }
    }

    /// Takes so many, if they are there and nobody is in line.
    #[inline]
    pub(crate) fn take(&self, n: u64, now: impl FnOnce() -> u64) -> Option<Taken> {
        let mut seen = self.word.load(Ordering::Acquire);
        let enough = |word: Word| !word.shut && word.count >= n;
        if !enough(Word::of(seen)) || now() >= self.over.load(Ordering::Acquire) {
            return None;
        }
        loop {
            let left = Word::of(seen).without(n);
            let exchanged = self.word.compare_exchange_weak(
                seen,
                left.word(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return Some(self.taken(left)),
                Err(other) if enough(Word::of(other)) => seen = other,
                Err(_) => return None,
            }
        }
    }

    #[inline]
    fn taken(&self, left: Word) -> Taken {
        let tell = left.count <= self.low && {
            // Either the driver finds that it is low, or this that the driver was not told.
            fence(Ordering::SeqCst);
            !self.told.swap(true, Ordering::Relaxed)
        };
        Taken {
            left: left.count,
            end: left.number,
            tell,
        }
    }

    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let change = |word| Some(change(Word::of(word))?.word());
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
        before.ok().map(Word::of)
    }
}

/// All of this one at a time.
impl Purse {
    /// As [`take`](Self::take), for whoever is first in line.
    pub(crate) fn take_shut(&self, n: u64, now: u64) -> Option<Taken> {
        if now >= self.over.load(Ordering::Acquire) {
            return None;
        }
        let enough = |word: Word| (word.count >= n).then(|| word.without(n));
        let before = self.update(enough)?;
        Some(self.taken(before.without(n)))
    }

    pub(crate) fn count(&self) -> u64 {
        Word::of(self.word.load(Ordering::Acquire)).count
    }

    /// The number of the next one.
    pub(crate) fn number(&self) -> u64 {
        Word::of(self.word.load(Ordering::Acquire)).number
    }

    /// While somebody is in line.
    pub(crate) fn shut(&self, shut: bool) {
        self.update(|word| Some(Word { shut, ..word }));
    }

    /// When the oldest batch is over, in nanoseconds. To be called before it is put in.
    pub(crate) fn set_over(&self, over: u64) {
        self.over.store(over, Ordering::Release);
    }

    /// Puts in as many as there is room for, and says how many those are.
    pub(crate) fn put(&self, n: u64) -> u64 {
        let fits = |word: Word| n.min(MOST - word.count);
        let more = |word: Word| {
            Some(Word {
                count: word.count + fits(word),
                ..word
            })
        };
        self.update(more).map_or(0, fits)
    }

    /// Puts back so many that were taken, of the batch from this number on, if it still stands
    /// among those.
    pub(crate) fn put_back(&self, first: u64, batch: u64, n: u64) -> bool {
        let back = |word: Word| {
            let used = between(first, word.number);
            (n <= used && used <= batch && word.count + n <= MOST).then(|| Word {
                count: word.count + n,
                number: word.number.wrapping_sub(n) % (1 << NUMBER_BITS),
                ..word
            })
        };
        self.update(back).is_some()
    }

    /// Takes out all before this number, and says how many those were.
    pub(crate) fn pass(&self, end: u64) -> u64 {
        let passed = |word: Word| {
            let passed = between(word.number, end);
            // Otherwise it was passed before.
            if passed <= word.count { passed } else { 0 }
        };
        let before = self.update(|word| Some(word.without(passed(word))));
        before.map_or(0, passed)
    }

    /// Takes out, of the newest, what is more than so many.
    pub(crate) fn reduce(&self, most: u64) -> u64 {
        let less = |word: Word| {
            Some(Word {
                count: word.count.min(most),
                ..word
            })
        };
        let before = self.update(less);
        before.map_or(0, |word| word.count.saturating_sub(most))
    }

    /// Whether it gets empty. If not, whoever finds that it does tells from now on.
    pub(crate) fn is_low(&self) -> bool {
        self.told.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.count() <= self.low
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    fn purse() -> Purse {
        let purse = Purse::new(2);
        purse.set_over(100);
        purse
    }

    fn take(purse: &Purse, n: u64) -> Option<u64> {
        purse.take(n, || 0).map(|taken| taken.end)
    }

    #[test]
    fn tokens_are_taken_in_their_order_until_there_are_none() {
        let purse = purse();
        assert_eq!(take(&purse, 1), None);
        assert_eq!(purse.put(10), 10);
        assert_eq!(take(&purse, 4), Some(4));
        assert_eq!(take(&purse, 7), None);
        assert_eq!(take(&purse, 6), Some(10));
        assert_eq!(take(&purse, 1), None);
    }

    #[test]
    fn nobody_takes_once_the_oldest_is_over_or_while_it_is_shut() {
        let purse = purse();
        purse.put(10);
        assert!(purse.take(1, || 99).is_some());
        assert!(purse.take(1, || 100).is_none());
        assert!(purse.take_shut(1, 100).is_none());
        purse.shut(true);
        assert!(purse.take(1, || 0).is_none());
        assert!(purse.take_shut(1, 0).is_some());
        purse.shut(false);
        assert!(purse.take(1, || 0).is_some());
    }

    #[test]
    fn the_driver_is_told_once_that_it_gets_empty() {
        let purse = purse();
        purse.put(5);
        let tells = |n| purse.take(n, || 0).is_some_and(|taken| taken.tell);
        assert!(!tells(2));
        assert!(tells(1));
        assert!(!tells(1));
        assert!(purse.is_low());
        assert!(tells(1));
    }

    #[test]
    fn what_is_put_back_is_of_its_batch_or_is_not() {
        let purse = purse();
        purse.put(5);
        purse.put(5);
        assert_eq!(take(&purse, 4), Some(4));
        assert!(purse.put_back(0, 5, 3));
        assert_eq!((purse.count(), purse.number()), (9, 1));
        assert!(!purse.put_back(0, 5, 2), "there is one out");
        assert_eq!(take(&purse, 6), Some(7));
        assert!(!purse.put_back(0, 5, 1), "the next batch is being used");
        assert!(purse.put_back(5, 5, 2));
        assert_eq!((purse.count(), purse.number()), (5, 5));
    }

    #[test]
    fn what_is_passed_is_out_once() {
        let purse = purse();
        purse.put(5);
        purse.put(5);
        take(&purse, 2);
        assert_eq!(purse.pass(5), 3);
        assert_eq!(purse.pass(5), 0);
        assert_eq!(purse.reduce(4), 1);
        assert_eq!((purse.count(), purse.number()), (4, 5));
        assert_eq!(purse.pass(9), 4);
        assert_eq!(purse.pass(9), 0);
    }

    #[test]
    fn no_more_go_in_than_can_be_counted_and_numbers_go_round() {
        let purse = purse();
        let rounds = (1 << NUMBER_BITS) / MOST;
        for _ in 0..=rounds % 1000 {
            assert_eq!(purse.put(u64::MAX), MOST);
            assert!(take(&purse, MOST).is_some());
        }
        let last = Purse {
            word: AtomicU64::new(
                Word {
                    shut: false,
                    count: 5,
                    number: (1 << NUMBER_BITS) - 3,
                }
                .word(),
            ),
            ..purse
        };
        assert_eq!(take(&last, 4), Some(1));
        assert!(last.put_back((1 << NUMBER_BITS) - 3, 5, 4));
        assert_eq!((last.count(), last.number()), (5, (1 << NUMBER_BITS) - 3));
    }
}
