//! What is kept for a key: a debt, or where its limiter is. It is never 0, so that there is a word for
//! no entry as well, and an entry is no larger for that.

use std::num::NonZeroU64;

use crate::algorithm::Tat;

/// The key has a limiter of its own.
const PROMOTED: u64 = 1 << 63;

/// There is a word.
const TAKEN: NonZeroU64 = NonZeroU64::new(1 << 62).unwrap();

/// Of what it is.
const VALUE: u64 = TAKEN.get() - 1;

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(NonZeroU64);

impl Word {
    #[inline]
    pub(super) fn owes(debt: Tat) -> Self {
        Self(TAKEN | debt.end())
    }

    pub(super) fn promoted(slot: usize) -> Self {
        Self(TAKEN | PROMOTED | slot as u64)
    }

    /// What it owes, unless that is known to its limiter.
    #[inline]
    pub(super) fn debt(self) -> Option<Tat> {
        (self.0.get() & PROMOTED == 0).then(|| Tat::from_units(self.0.get() & VALUE))
    }

    /// Where its limiter is.
    pub(super) fn slot(self) -> Option<usize> {
        (self.0.get() & PROMOTED != 0).then_some((self.0.get() & VALUE) as usize)
    }
}
