//! [`TokenCache`]: the tokens that this process holds, which callers take without a lock.
//!
//! One word holds the number of tokens and the number of the next one. Tokens have consecutive
//! numbers in the order in which they were put in, and are taken in that order; so a charge is
//! identified by its numbers.
//!
//! 1. Callers take tokens with a compare-exchange that advances the number. Everything else is done
//!    by one thread at a time, under the lock of the queue.
//! 2. Putting a token back moves the number back, if the number is still within the same batch.
//!    Only the number of tokens in use matters, not their identity.
//! 3. Callers take tokens until the cache closes, which is when the oldest batch expires. While
//!    there are waiters that time is 0: only the queue is served, so no later caller overtakes it.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// Bits of the number of the next token. The others are those of the count.
const NUMBER_BITS: u32 = 40;

/// The capacity of the cache.
pub(crate) const MOST: u64 = u64::MAX >> NUMBER_BITS;

/// The word, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    count: u64,
    /// The number of the next token.
    number: u64,
}

/// Returns the number of the token that comes `count` after another one.
pub(crate) fn after(number: u64, count: u64) -> u64 {
    number.wrapping_add(count) % (1 << NUMBER_BITS)
}

/// Returns how many tokens there are from one number to another.
pub(crate) fn between(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) % (1 << NUMBER_BITS)
}

impl Word {
    fn of(word: u64) -> Self {
        Self {
            count: word >> NUMBER_BITS,
            number: word % (1 << NUMBER_BITS),
        }
    }

    fn word(self) -> u64 {
        self.count << NUMBER_BITS | self.number
    }

    /// Returns the word after `n` tokens were taken.
    fn without(self, n: u64) -> Self {
        Self {
            count: self.count - n,
            number: after(self.number, n),
        }
    }
}

pub(crate) struct TokenCache {
    word: AtomicU64,
    /// When the cache closes, in nanoseconds.
    closes: AtomicU64,
    /// Whether the driver was notified that the cache is low.
    notified: AtomicBool,
    /// The cache is low when no more than this many tokens are left.
    low: u64,
}

/// Tokens that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) left: u64,
    /// The number after that of the last token.
    pub(crate) end: u64,
    /// Whether the caller has to notify the driver that the cache is low.
    pub(crate) notify: bool,
}

impl TokenCache {
    pub(crate) fn new(low: u64) -> Self {
        Self {
            word: AtomicU64::new(0),
            closes: AtomicU64::new(0),
            notified: AtomicBool::new(false),
            low,
        }
    }

    /// Takes `n` tokens, if the cache has that many and is open.
    #[inline]
    pub(crate) fn take(&self, n: u64, now: impl FnOnce() -> u64) -> Option<Taken> {
        let seen = self.word.load(Ordering::Acquire);
        if Word::of(seen).count < n || now() >= self.closes.load(Ordering::Acquire) {
            return None;
        }
        self.take_from(seen, n)
    }

    /// Takes `n` tokens from the word that was last seen, if it has that many.
    #[inline]
    fn take_from(&self, mut seen: u64, n: u64) -> Option<Taken> {
        let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
        while Word::of(seen).count >= n {
            let left = Word::of(seen).without(n);
            let word = left.word();
            match self
                .word
                .compare_exchange_weak(seen, word, release, acquire)
            {
                Ok(_) => return Some(self.taken(left)),
                Err(other) => seen = other,
            }
        }
        None
    }

    #[inline]
    fn taken(&self, left: Word) -> Taken {
        let notify = left.count <= self.low && {
            // Either the driver sees that the cache is low, or this call sees that it has to
            // notify.
            fence(Ordering::SeqCst);
            !self.notified.swap(true, Ordering::Relaxed)
        };
        Taken {
            left: left.count,
            end: left.number,
            notify,
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

/// Operations under the lock of the queue.
impl TokenCache {
    /// Like [`take`](Self::take), for the first waiter, whether or not the cache is open.
    pub(crate) fn take_queued(&self, n: u64) -> Option<Taken> {
        self.take_from(self.word.load(Ordering::Acquire), n)
    }

    fn load(&self) -> Word {
        Word::of(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn count(&self) -> u64 {
        self.load().count
    }

    /// Returns the number of the next token.
    pub(crate) fn number(&self) -> u64 {
        self.load().number
    }

    /// Returns the number after that of the last token. It does not depend on how many are taken.
    pub(crate) fn end(&self) -> u64 {
        let word = self.load();
        after(word.number, word.count)
    }

    /// Sets when the cache closes, in nanoseconds; 0 closes it now.
    pub(crate) fn open_until(&self, closes: u64) {
        self.closes.store(closes, Ordering::Release);
    }

    /// Changes the number of tokens at the end, and returns by how many.
    fn recount(&self, change: impl Fn(u64) -> u64) -> u64 {
        let before = self.update(|word| {
            let count = change(word.count);
            Some(Word { count, ..word })
        });
        before.map_or(0, |word| change(word.count).abs_diff(word.count))
    }

    /// Puts in as many tokens as fit, and returns their number.
    pub(crate) fn put(&self, n: u64) -> u64 {
        self.recount(|count| count.saturating_add(n).min(MOST))
    }

    /// Takes out the newest tokens beyond `most`, and returns how many they are.
    pub(crate) fn reduce(&self, most: u64) -> u64 {
        self.recount(|count| count.min(most))
    }

    /// Puts back `n` tokens of the batch that begins at `first`, if the next token still belongs to
    /// that batch.
    pub(crate) fn put_back(&self, first: u64, batch: u64, n: u64) -> bool {
        let back = |word: Word| {
            let used = between(first, word.number);
            (n <= used && used <= batch && word.count + n <= MOST).then(|| Word {
                count: word.count + n,
                number: word.number.wrapping_sub(n) % (1 << NUMBER_BITS),
            })
        };
        self.update(back).is_some()
    }

    /// Takes out all tokens before that number, and returns how many they are.
    pub(crate) fn pass(&self, end: u64) -> u64 {
        let passed = |word: Word| {
            let passed = between(word.number, end);
            // Otherwise the cache is already beyond that number.
            if passed <= word.count { passed } else { 0 }
        };
        let before = self.update(|word| Some(word.without(passed(word))));
        before.map_or(0, passed)
    }

    /// Returns whether the cache is low. If it is not, the caller that makes it low notifies the
    /// driver.
    pub(crate) fn is_low(&self) -> bool {
        self.notified.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.count() <= self.low
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    fn cache() -> TokenCache {
        let cache = TokenCache::new(2);
        cache.open_until(100);
        cache
    }

    fn take(cache: &TokenCache, n: u64) -> Option<u64> {
        cache.take(n, || 0).map(|taken| taken.end)
    }

    #[test]
    fn take_of_a_closed_cache_returns_none() {
        let cache = cache();
        cache.put(10);
        assert!(cache.take(1, || 99).is_some());
        assert!(cache.take(1, || 100).is_none());
        cache.open_until(0);
        assert!(cache.take(1, || 0).is_none());
        assert!(cache.take_queued(1).is_some());
        cache.open_until(100);
        assert!(cache.take(1, || 0).is_some());
    }

    #[test]
    fn take_of_a_low_cache_notifies_once() {
        let cache = cache();
        cache.put(5);
        let notifies = |n| cache.take(n, || 0).is_some_and(|taken| taken.notify);
        assert_eq!([2, 1, 1].map(notifies), [false, true, false]);
        assert!(cache.is_low());
        assert!(notifies(1));
    }

    #[test]
    fn pass_and_reduce_take_tokens_out_once() {
        let cache = cache();
        cache.put(5);
        cache.put(5);
        take(&cache, 2);
        assert_eq!([cache.pass(5), cache.pass(5)], [3, 0]);
        assert_eq!(cache.reduce(4), 1);
        assert_eq!((cache.count(), cache.number()), (4, 5));
        assert_eq!([cache.pass(9), cache.pass(9)], [4, 0]);
    }

    #[test]
    fn put_and_take_at_the_largest_count_and_number_wrap() {
        let number = (1 << NUMBER_BITS) - 3;
        let cache = cache();
        assert_eq!(cache.put(u64::MAX), MOST);
        let word = Word { count: 5, number };
        let cache = TokenCache {
            word: AtomicU64::new(word.word()),
            ..cache
        };
        assert_eq!(take(&cache, 4), Some(1));
        assert!(cache.put_back(number, 5, 4));
        assert_eq!((cache.count(), cache.number()), (5, number));
    }
}
