//! The keys of one semaphore, all in one slot of a cluster.
//!
//! 1. The others are made of the first one: with a tag in braces, by a suffix; without one, the
//!    whole key becomes the tag.
//! 2. The sentinel belongs to the data, not to the semaphore, so that a key that is used for the
//!    first time can be told from one whose data was lost. A server has one. A cluster has one in
//!    each slot, since a script sees no other slot than its own.

use std::sync::LazyLock;

use crate::slot::{SLOTS, slot, tag};

/// In the order in which the script has them.
#[derive(Clone, Debug)]
pub(super) struct Keys([String; 6]);

impl Keys {
    /// # Panics
    ///
    /// If the key has no tag and cannot be one.
    #[track_caller]
    pub(super) fn new(key: String, cluster: bool) -> Self {
        let tagged = tag(&key).is_some();
        assert!(
            tagged || !(key.is_empty() || key.contains('}')),
            "the key {key:?} has no tag in braces and cannot be one"
        );
        let beside = |suffix: &str| {
            if tagged {
                format!("{key}:{suffix}")
            } else {
                format!("{{{key}}}:{suffix}")
            }
        };
        let sentinel = if cluster {
            format!("tollgate:{{{}}}:born", NUMBERS[usize::from(slot(&key))])
        } else {
            "tollgate:born".to_owned()
        };
        let [fences, tickets, ends, state] = ["fences", "tickets", "ends", "state"].map(beside);
        Self([key, fences, tickets, ends, state, sentinel])
    }

    pub(super) fn key(&self) -> &str {
        &self.0[0]
    }

    pub(super) fn all(&self) -> [&str; 6] {
        self.0.each_ref().map(String::as_str)
    }
}

/// For each slot, the smallest number that is in it as a tag.
static NUMBERS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut numbers = vec![None; usize::from(SLOTS)];
    let mut missing = numbers.len();
    for number in 0.. {
        let place = &mut numbers[usize::from(slot(&number.to_string()))];
        if place.is_none() {
            *place = Some(number);
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    numbers.into_iter().flatten().collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_in_the_slot_of_the_first() {
        for key in ["jobs", "{tenant}:jobs", "a{b", "{{b}", "x{t}y{u}", "{b"] {
            let keys = Keys::new(key.to_owned(), true);
            for other in keys.all() {
                assert_eq!(slot(other), slot(key), "{other} beside {key}");
            }
        }
    }

    #[test]
    fn keys_that_cannot_be_tags_are_refused() {
        for key in ["", "}", "a}b", "{}", "a{}b"] {
            let made = std::panic::catch_unwind(|| Keys::new(key.to_owned(), false));
            assert!(made.is_err(), "{key}");
        }
    }
}
