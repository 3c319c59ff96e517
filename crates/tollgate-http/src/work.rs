//! Counts the bytes and elements that the reader looks at, so that a test can see that its work is linear. Outside of
//! tests it does nothing.

#[cfg(not(test))]
#[inline]
pub(crate) fn add(_: usize) {}

#[cfg(test)]
pub(crate) use counter::{add, count};

#[cfg(test)]
mod counter {
    use std::cell::Cell;

    thread_local! {
        static WORK: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn add(work: usize) {
        WORK.set(WORK.get() + work);
    }

    /// Returns the work of a call.
    pub(crate) fn count(call: impl FnOnce()) -> usize {
        WORK.set(0);
        call();
        WORK.get()
    }
}
