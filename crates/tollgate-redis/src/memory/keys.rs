//! [`Keys`]: what is kept for each key, and forgotten again when it means nothing any more.
//!
//! Keys are looked through at the start of a call only, so that what a call has found or created stays until its end.

use std::collections::HashMap;

/// The number of keys from which on they are looked through.
pub(super) const MANY: usize = 1024;

pub(super) struct Keys<T> {
    pub(super) all: HashMap<String, T>,
    /// The number of keys at which they are looked through next.
    many: usize,
}

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self {
            all: HashMap::new(),
            many: MANY,
        }
    }
}

impl<T> Keys<T> {
    /// Forgets the keys that are at rest, if there are many keys.
    pub(super) fn tidy(&mut self, mut is_at_rest: impl FnMut(&mut T) -> bool) {
        if self.all.len() >= self.many {
            self.all.retain(|_, it| !is_at_rest(it));
            self.many = MANY.max(2 * self.all.len());
        }
    }
}
