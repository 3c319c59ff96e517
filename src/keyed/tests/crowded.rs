//! A table that is as full as it gets.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::OnceLock;

use super::super::hashing::KeyHashing;
use super::super::map::mixed;
use super::super::table::{Place, Put, SAME_TAG, Standing, Table};
use crate::{ErrorKind, Keyed, Quota, RateLimiter};

/// Keys as one has them: numbers in a row, multiples, high bits.
fn shapes() -> [fn(u64) -> u64; 4] {
    [
        |key| key,
        |key| key * 4096,
        |key| key << 40,
        |key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    ]
}

fn hash(hasher: &KeyHashing, key: u64) -> u64 {
    mixed(hasher.hash_one(key))
}

/// Puts keys in, of which nobody else is there, until there is no room for one, and says how many
/// were.
fn fill(
    table: &mut Table<u64, u64>,
    hasher: &KeyHashing,
    keys: impl Iterator<Item = u64>,
) -> usize {
    for (number, key) in keys.enumerate() {
        let home = table.home(hash(hasher, key));
        assert!(table.same_tag(hash(hasher, key)) < SAME_TAG);
        if let Put::Out(entry) = table.put(home, (key, !key), Place::New, |_, _, _| {}) {
            assert_eq!(entry, (key, !key));
            return number;
        }
    }
    usize::MAX
}

#[test]
fn as_many_as_there_hardly_ever_are_find_room() {
    for shape in shapes() {
        for entries in [1, 7, 64, 100, 1000, 6250, 62_500] {
            let hasher = KeyHashing::default();
            let mut table = Table::new(entries);
            // What a shard may get if the keys of several are not spread evenly.
            let most = (entries + 5 * entries.isqrt()) as u64;
            let filled = fill(&mut table, &hasher, (0..most).map(shape));
            assert_eq!(filled, usize::MAX, "{entries}");
            assert_eq!(table.all().len() as u64, most);
            for key in (0..most).map(shape) {
                let number = table.find(hash(&hasher, key), |other| *other == key);
                let number = number.expect("it was put in");
                assert_eq!(*table.get(number), !key);
                let home = table.home(hash(&hasher, key));
                assert_eq!(table.home_of(number).number(), home.number());
            }
        }
    }
}

#[test]
fn a_full_table_refuses_and_loses_nobody() {
    let (mut table, hasher) = (Table::new(1000), KeyHashing::default());
    let filled = fill(&mut table, &hasher, 0..);
    assert!(filled * 8 >= table.numbers() * 7 * 95 / 100, "{filled}");
    // Who cannot take the place of another does not drive it out either.
    let number = table.find(hash(&hasher, 0), |other| *other == 0);
    let home = table.home(hash(&hasher, filled as u64));
    let instead = Place::InsteadOf(number.expect("it was put in"));
    if let Put::In(_, gone) = table.put(home, (filled as u64, 0), instead, |_, _, _| {}) {
        assert_eq!(gone, Some((0, !0)));
    }
    for key in 1..filled as u64 {
        let number = table.find(hash(&hasher, key), |other| *other == key);
        assert_eq!(number.map(|number| *table.get(number)), Some(!key));
    }
    assert_eq!(table.all().len(), filled);
}

#[test]
fn who_is_moved_is_told_with_both_numbers() {
    let (mut table, hasher) = (Table::new(500), KeyHashing::default());
    let mut numbers = std::collections::HashMap::new();
    for key in 0..500_u64 {
        let home = table.home(hash(&hasher, key));
        let put = table.put(home, (key, key), Place::New, |moved, from, to| {
            assert_eq!(numbers.insert(*moved, to), Some(from));
        });
        match put {
            Put::In(number, None) => numbers.insert(key, number),
            _ => panic!("there is room"),
        };
    }
    for (key, number) in numbers {
        assert_eq!(*table.get(number), key);
        assert_eq!(table.take(number), Some((key, key)));
    }
    assert_eq!(table.all().len(), 0);
    assert!(!table.give_back().is_empty());
    assert_eq!(table.find(hash(&hasher, 1), |_| true), None);
}

#[test]
fn the_hand_leaves_nobody_out() {
    for entries in [1, 2, 3, 50, 100] {
        let (mut table, hasher) = (Table::new(100), KeyHashing::default());
        fill(&mut table, &hasher, 0..100);
        let mut seen = std::collections::HashSet::new();
        // The first look of each goes to the one that was looked at last.
        for _ in 0..1000 {
            table.look(entries + 1, |_, value| {
                seen.insert(*value);
                Standing::Pinned
            });
        }
        assert_eq!(seen.len(), 100, "{entries}");
    }
}

/// Hashes everything to the same.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }

    fn write(&mut self, _: &[u8]) {}
}

type Alike = Keyed<Growing, RateLimiter, BuildHasherDefault<Same>>;

static ALIKE: OnceLock<Alike> = OnceLock::new();

/// A key that brings in the next one when it is made, where no lock is held.
struct Growing(u32);

impl Clone for Growing {
    fn clone(&self) -> Self {
        if let Some(users) = ALIKE.get().filter(|_| self.0 < 20) {
            let _ = users.key(&Self(self.0 + 1)).try_acquire();
        }
        Self(self.0)
    }
}

impl Hash for Growing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0);
    }
}

impl PartialEq for Growing {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Growing {}

#[test]
fn no_more_keys_are_alike_than_may_be_whoever_comes_meanwhile() {
    let users = ALIKE.get_or_init(|| {
        Keyed::<Growing, RateLimiter>::new(Quota::per_hour(1)).hasher(BuildHasherDefault::default())
    });
    let refused = users.key(&Growing(0)).try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooManyKeys);
    assert_eq!(users.len(), SAME_TAG);
}
