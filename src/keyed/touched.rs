//! How many entries a thread has looked at: for the tests, which hold it against the bound.

pub(super) use counting::*;

/// The most entries that one call looks at.
pub(super) const MOST: usize = 8;

#[cfg(not(test))]
mod counting {
    #[inline(always)]
    pub(in crate::keyed) fn touched(_entries: usize) {}
}

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    thread_local! {
        static TOUCHED: Cell<usize> = const { Cell::new(0) };
    }

    pub(in crate::keyed) fn touched(entries: usize) {
        TOUCHED.set(TOUCHED.get() + entries);
    }

    /// How many since the last time it was asked.
    pub(in crate::keyed) fn take_touched() -> usize {
        TOUCHED.take()
    }
}
