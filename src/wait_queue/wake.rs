//! Wakers that were taken under a lock and are called after it.
//!
//! They are in a fixed array on the stack, so granting allocates nothing, however many waiters are
//! granted at once. When the array is full, the owner unlocks, wakes, and continues.

use std::task::Waker;

use crate::panic::catch_waker_panic;

/// The number of wakers that fit.
const CAPACITY: usize = 8;

/// Up to eight wakers, first-in first-out. There is nearly always at most one, so the array is
/// created only for the second.
pub(crate) struct WakeList {
    first: Option<Waker>,
    others: Option<[Option<Waker>; CAPACITY - 1]>,
    len: usize,
}

impl WakeList {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            others: None,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Adds the waker of a served waiter, if there is one. Do not call it when the batch [is
    /// full](Self::is_full).
    #[inline]
    pub(crate) fn push(&mut self, served: Option<Waker>) {
        if let Some(waker) = served {
            match self.len {
                0 => self.first = Some(waker),
                _ => self.push_other(waker),
            }
            self.len += 1;
        }
    }

    #[inline(never)]
    fn push_other(&mut self, waker: Waker) {
        let others = self.others.get_or_insert([const { None }; CAPACITY - 1]);
        others[self.len - 1] = Some(waker);
    }

    /// Calls every waker, in order, and leaves the batch empty.
    ///
    /// A waker that panics does not prevent the other calls. The panic hook reports the panic,
    /// which is then caught: this runs inside `Drop` of permits and futures, where an uncaught
    /// panic would abort the process or strand the rest of the queue.
    #[inline]
    pub(crate) fn wake_all(&mut self) {
        if let Some(first) = self.first.take() {
            catch_waker_panic(|| first.wake());
        }
        if self.len > 1 {
            self.wake_others();
        }
        self.len = 0;
    }

    #[inline(never)]
    fn wake_others(&mut self) {
        for other in self.others.take().into_iter().flatten().flatten() {
            catch_waker_panic(|| other.wake());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::task::Wake;

    use super::*;

    struct Recorder {
        name: usize,
        panics: bool,
        called: Arc<Mutex<Vec<usize>>>,
    }

    impl Wake for Recorder {
        fn wake(self: Arc<Self>) {
            self.called.lock().unwrap().push(self.name);
            assert!(!self.panics, "a waker that panics");
        }
    }

    #[test]
    fn a_panicking_waker_does_not_keep_the_others_from_being_called() {
        let called = Arc::default();
        let mut batch = WakeList::new();
        for name in 0..CAPACITY {
            assert!(!batch.is_full());
            let recorder = Recorder {
                name,
                panics: name % 3 == 0,
                called: Arc::clone(&called),
            };
            batch.push(Some(Waker::from(Arc::new(recorder))));
        }
        assert!(batch.is_full());
        batch.wake_all();
        assert!(!batch.is_full());
        assert_eq!(*called.lock().unwrap(), (0..CAPACITY).collect::<Vec<_>>());
    }
}
