//! The keys of one semaphore, all in one slot of a cluster.
//!
//! 1. The other keys are derived from the first one. A key with a tag in braces gets a suffix;
//!    without a tag, the whole key becomes the tag.
//! 2. The sentinel belongs to the data of the server, not to one semaphore. It distinguishes a key
//!    that is used for the first time from one whose data was lost. A server has one sentinel. A
//!    cluster has one in each slot, because a script sees only its own slot.

use std::sync::LazyLock;

use crate::slot::{SLOTS, slot, tag, tagged};

/// The keys, in the order of the script's arguments.
#[derive(Clone, Debug)]
pub(super) struct Keys([String; 6]);

impl Keys {
    /// # Panics
    ///
    /// Panics if the key has no tag and cannot be one.
    #[track_caller]
    pub(super) fn new(key: String, cluster: bool) -> Self {
        assert!(
            tag(&key).is_some() || !(key.is_empty() || key.contains('}')),
            "the key {key:?} has no tag in braces and cannot be one"
        );
        let first = tagged(&key);
        let beside = |suffix: &str| format!("{first}:{suffix}");
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

/// For each slot, the smallest number whose text hashes to it.
static NUMBERS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut numbers = vec![0; usize::from(SLOTS)];
    // Smaller numbers overwrite larger ones. This many numbers fill all slots.
    for number in (0..109_758_u32).rev() {
        numbers[usize::from(slot(&number.to_string()))] = number;
    }
    numbers
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_key_are_in_its_slot() {
        for key in ["jobs", "{tenant}:jobs", "a{b", "{{b}", "x{t}y{u}", "{b"] {
            let keys = Keys::new(key.to_owned(), true);
            for other in keys.all() {
                assert_eq!(slot(other), slot(key), "{other} beside {key}");
            }
        }
    }

    #[test]
    fn new_of_a_key_that_cannot_be_a_tag_panics() {
        for key in ["", "}", "a}b", "{}", "a{}b"] {
            let made = std::panic::catch_unwind(|| Keys::new(key.to_owned(), false));
            assert!(made.is_err(), "{key}");
        }
    }
}
