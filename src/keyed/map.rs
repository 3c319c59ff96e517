//! Keys in shards, each with a lock, and how a newcomer gets in.
//!
//! 1. A call locks one shard, once if its key is there. The locks are leaves, but for those of a
//!    limiter that is promoted or retired.
//! 2. Under a lock no foreign code runs but `Eq` and `Borrow` of a key, and its `Clone` in
//!    administrative calls. Keys are hashed and made before the lock, and dropped after it.
//! 3. All shards together hold no more keys than the map may: who puts one in beyond what is there
//!    is counted before, by one word for the whole map.
//! 4. A call looks at no more than [`MOST`] entries: what the search for its own key has left, the
//!    look for one that can go may use.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;

use super::table::{Home, Looked, MOVED, Place, Put, SAME_TAG, Standing, Table};
use super::touched::MOST;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// A newcomer that finds the map full looks at so many at once for one that can go.
const LOOK: usize = 3;

/// Where the map is not full, a newcomer looks at so many for one that is not needed any more.
const STEP: usize = 2;

/// How many places are gone through under one lock.
const AT_ONCE: usize = 64;

/// Fewer keys than this are not worth another shard.
const KEYS_OF_A_SHARD: usize = 64;

/// More keys than this are worth another shard.
const FITS: usize = 1 << 22;

/// Keys, each with a `V`, and for each shard an `X`.
pub(super) struct Map<K, V, X, S> {
    hasher: S,
    shards: Box<[Padded<Shard<K, V, X>>]>,
    len: AtomicUsize,
    max_keys: usize,
}

/// What one lock guards.
pub(super) struct Shard<K, V, X> {
    pub(super) table: Table<K, V>,
    pub(super) closed: bool,
    pub(super) side: X,
}

/// How large a shard is.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Of how many keys one expects.
    pub(super) entries: usize,
    /// Below which the numbers of its entries are.
    pub(super) numbers: usize,
}

pub(super) type Guard<'a, K, V, X> = MutexGuard<'a, Shard<K, V, X>>;

/// Apart from others, so that threads with other keys do not disturb it.
#[repr(align(128))]
struct Padded<T>(Mutex<T>);

/// What a newcomer has to know about the others.
pub(super) trait Rule<K, V, X> {
    /// How an entry stands; `spare` if there is room without it.
    fn standing(&self, side: &X, number: usize, value: &V, spare: bool) -> Standing;

    /// Whether somebody may go who owes something.
    fn evicts(&self) -> bool;

    /// There is no room; perhaps in so many nanoseconds.
    fn refused(&self, after: Option<u64>) -> AcquireError;

    /// What is to be dropped after the lock of somebody who was replaced.
    type Released;

    /// Somebody may be replaced, who may owe something.
    fn displace(&self, side: &mut X, home: Home, number: usize, value: &V);

    /// What is kept for a newcomer, in place of `old` perhaps.
    fn make(&self, side: &mut X, home: Home, old: Option<&V>) -> V;

    /// Somebody was replaced, of whom this was kept.
    fn released(&self, side: &mut X, value: &V) -> Self::Released;

    /// An entry was moved to make room.
    fn moved(&self, side: &mut X, value: &V, from: usize, to: usize);

    /// A newcomer has this number now.
    fn settled(&self, side: &mut X, number: usize);
}

/// How many shards there are for so many keys.
fn shards_for(max_keys: usize) -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let threads = *THREADS.get_or_init(|| {
        let threads = std::thread::available_parallelism();
        threads.map_or(4, std::num::NonZero::get)
    });
    let wanted = (4 * threads).clamp(16, 1024).next_power_of_two();
    let worth = (max_keys / KEYS_OF_A_SHARD).max(1);
    let needed = max_keys.div_ceil(FITS).next_power_of_two();
    wanted.min(1 << worth.ilog2()).max(needed)
}

/// Makes all bits of a hash depend on all others. The shard, the bucket and the tag are different
/// bits of it, and good fast hashers make few of them depend on each other.
#[inline]
pub(super) fn mixed(hash: u64) -> u64 {
    let wide = u128::from(hash ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
    wide as u64 ^ (wide >> 64) as u64
}

impl<K, V, X, S> Map<K, V, X, S> {
    /// For so many keys; `side` makes what belongs to a shard of so many.
    pub(super) fn new(max_keys: usize, hasher: S, mut side: impl FnMut(Size) -> X) -> Self {
        let shards = shards_for(max_keys);
        let entries = max_keys.div_ceil(shards);
        let shard = |_| {
            let table = Table::new(entries);
            let numbers = table.numbers();
            Padded(Mutex::new(Shard {
                table,
                closed: false,
                side: side(Size { entries, numbers }),
            }))
        };
        Self {
            hasher,
            shards: (0..shards).map(shard).collect(),
            len: AtomicUsize::new(0),
            max_keys,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Locks the shard of a hash.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> Guard<'_, K, V, X> {
        lock(&self.shards[hash as usize & (self.shards.len() - 1)].0)
    }

    /// One shard after the other, locked.
    pub(super) fn each(&self) -> impl Iterator<Item = Guard<'_, K, V, X>> {
        self.shards.iter().map(|shard| lock(&shard.0))
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Locks a shard.
    pub(super) fn lock_shard(&self, shard: usize) -> Guard<'_, K, V, X> {
        lock(&self.shards[shard].0)
    }

    fn count_up(&self) -> bool {
        let fits = self.len.fetch_add(1, Ordering::Relaxed) < self.max_keys;
        if !fits {
            self.count_down();
        }
        fits
    }

    pub(super) fn count_down(&self) {
        self.len.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K, V, X, S> Map<K, V, X, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    #[inline]
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        mixed(self.hasher.hash_one(key))
    }

    /// Puts a key in that was not found under `guard`, and goes on with its entry under the lock.
    #[cold]
    pub(super) fn newcomer<'a, Q, R>(
        &'a self,
        (key, hash): (&Q, u64),
        owned: Option<K>,
        mut guard: Guard<'a, K, V, X>,
        rule: &impl Rule<K, V, X>,
        then: impl FnOnce(&mut Shard<K, V, X>, usize) -> R,
    ) -> Result<R, AcquireError>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let same = guard.table.same_tag(hash);
        if same >= SAME_TAG {
            drop(guard);
            return Err(rule.refused(None));
        }
        // Some may have to be moved.
        let mut left = MOST - MOVED - same;
        if self.len() >= self.max_keys {
            let entries = LOOK.min(left / 2);
            left -= entries;
            let looked = look(&mut guard, entries, rule, false);
            if let Err(after) = to_go(looked, rule) {
                drop(guard);
                return Err(rule.refused(after));
            }
        }
        let version = guard.table.version();
        drop(guard);

        let owned = owned.unwrap_or_else(|| key.to_owned());
        // Declared before the lock, so dropped after it.
        let mut _displaced = None;
        let mut _released = None;
        let mut _refused = None;
        let mut guard = self.lock(hash);
        if guard.closed {
            drop(guard);
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if guard.table.version() != version {
            let same = guard.table.same_tag(hash);
            left = left.saturating_sub(same);
            if let Some(number) = guard.table.find(hash, |other| other.borrow() == key) {
                _refused = Some((owned, None));
                return Ok(then(&mut guard, number));
            }
            // Others came meanwhile.
            if same >= SAME_TAG {
                _refused = Some((owned, None));
                drop(guard);
                return Err(rule.refused(None));
            }
        }
        let place = match self.place(&mut guard, left, rule) {
            Ok(place) => place,
            Err(after) => {
                drop(guard);
                return Err(rule.refused(after));
            }
        };
        let Shard { table, side, .. } = &mut *guard;
        let home = table.home(hash);
        let old = match place {
            Place::New => None,
            Place::InsteadOf(number) => Some(number),
        };
        if let Some(number) = old {
            rule.displace(side, table.home_of(number), number, table.get(number));
        }
        let value = rule.make(side, home, old.map(|number| table.get(number)));
        let moved = |value: &V, from, to| rule.moved(side, value, from, to);
        match table.put(home, (owned, value), place, moved) {
            Put::In(number, displaced) => {
                let released = displaced.as_ref();
                _released = released.map(|(_, value)| rule.released(side, value));
                _displaced = displaced;
                rule.settled(side, number);
                Ok(then(&mut guard, number))
            }
            Put::Out((key, value)) => {
                _refused = Some((key, Some(value)));
                if old.is_none() {
                    self.count_down();
                }
                drop(guard);
                Err(rule.refused(None))
            }
        }
    }

    /// Where somebody can be put in, at the price of so many looks.
    fn place(
        &self,
        guard: &mut Guard<'_, K, V, X>,
        left: usize,
        rule: &impl Rule<K, V, X>,
    ) -> Result<Place, Option<u64>> {
        if self.len() < self.max_keys {
            let looked = look(guard, STEP.min(left), rule, true);
            if let Looked::Recovered(spot) = looked {
                return Ok(Place::InsteadOf(spot));
            }
            if self.count_up() {
                return Ok(Place::New);
            }
            // Others were faster.
            let left = left.saturating_sub(STEP);
            return to_go(look(guard, left, rule, false), rule);
        }
        to_go(look(guard, left.min(LOOK), rule, false), rule)
    }

    /// Takes out an entry.
    pub(super) fn take(&self, table: &mut Table<K, V>, number: usize) -> Option<(K, V)> {
        let taken = table.take(number);
        if taken.is_some() {
            self.count_down();
        }
        taken
    }
}

fn look<K, V, X>(
    guard: &mut Guard<'_, K, V, X>,
    entries: usize,
    rule: &impl Rule<K, V, X>,
    spare: bool,
) -> Looked {
    let Shard { table, side, .. } = &mut **guard;
    let side = &*side;
    table.look(entries, |number, value| {
        rule.standing(side, number, value, spare)
    })
}

/// Who can go, or after how long perhaps somebody can.
fn to_go<K, V, X>(looked: Looked, rule: &impl Rule<K, V, X>) -> Result<Place, Option<u64>> {
    match looked {
        Looked::Recovered(spot) => Ok(Place::InsteadOf(spot)),
        Looked::Owes(spot, _) if rule.evicts() => Ok(Place::InsteadOf(spot)),
        Looked::Owes(_, after) => Err(Some(after)),
        Looked::Nothing => Err(None),
    }
}

/// What an entry leaves behind that has been gone through: itself, if it was taken out, and what is
/// to be dropped after the lock.
pub(super) type Cleared<K, V, R> = (Option<(K, V)>, Option<R>);

impl<K, V, X, S> Map<K, V, X, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Goes through all entries, some at once: copies the keys that may go, asks which ones are to,
    /// under no lock, and takes those out.
    pub(super) fn clear<R>(
        &self,
        copy: impl Fn(&X, &K, &V) -> Option<K>,
        goes: &mut dyn FnMut(&K) -> bool,
        take: impl Fn(&mut Shard<K, V, X>, usize) -> Cleared<K, V, R>,
    ) {
        let mut keys = Vec::with_capacity(AT_ONCE);
        let mut gone = Vec::with_capacity(AT_ONCE);
        for shard in 0..self.shards() {
            let numbers = self.lock_shard(shard).table.numbers();
            for from in (0..numbers).step_by(AT_ONCE) {
                let guard = self.lock_shard(shard);
                keys.extend((from..numbers.min(from + AT_ONCE)).filter_map(|number| {
                    let (key, value) = guard.table.at(number)?;
                    copy(&guard.side, key, value)
                }));
                drop(guard);
                keys.retain(|key| goes(key));
                let hashed = keys.drain(..).map(|key| (self.hash(&key), key));
                let hashed: Vec<(u64, K)> = hashed.collect();
                if hashed.is_empty() {
                    continue;
                }
                let mut guard = self.lock_shard(shard);
                for (hash, key) in &hashed {
                    let found = guard.table.find(*hash, |other| other == key);
                    if let Some(number) = found {
                        gone.push(take(&mut guard, number));
                    }
                }
                drop(guard);
                gone.clear();
            }
            let _given_back = self.lock_shard(shard).table.give_back();
        }
    }
}
