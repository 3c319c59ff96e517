//! Wakers that were taken under a lock, to be called after it.
//!
//! A fixed array on the stack: granting allocates nothing, however many are granted at once. When
//! the array is full, the owner unlocks, wakes, and goes on.

use std::mem::ManuallyDrop;
use std::task::Waker;

use super::Served;
use crate::foreign::contain;

/// How many wakers fit.
const CAPACITY: usize = 8;

/// Up to eight wakers, first-in first-out.
pub(crate) struct WakeBatch {
    /// Empty whenever the batch goes away, so there is no need to look for what to drop.
    wakers: ManuallyDrop<[Option<Waker>; CAPACITY]>,
    len: usize,
}

impl WakeBatch {
    pub(crate) const fn new() -> Self {
        Self {
            wakers: ManuallyDrop::new([const { None }; CAPACITY]),
            len: 0,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Adds the waker of one who was served, if somebody was. Not to be called when the batch [is full](Self::is_full).
    pub(crate) fn push(&mut self, served: Option<Served>) {
        if let Some(served) = served {
            self.wakers[self.len] = Some(served.waker);
            self.len += 1;
        }
    }

    /// Calls every waker, in order, and leaves the batch empty.
    ///
    /// A waker that panics does not keep the others from being called, and the panic goes no
    /// further than the panic hook: this runs inside `Drop` of permits and futures, where it would
    /// abort the process or strand the rest of the line.
    pub(crate) fn wake_all(&mut self) {
        let mut next = 0;
        while next < self.len {
            let wakers = &mut self.wakers[..self.len];
            contain(|| {
                while let Some(slot) = wakers.get_mut(next) {
                    next += 1;
                    if let Some(waker) = slot.take() {
                        waker.wake();
                    }
                }
            });
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
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
        let mut batch = WakeBatch::new();
        for name in 0..CAPACITY {
            assert!(!batch.is_full());
            let recorder = Recorder {
                name,
                panics: name % 3 == 0,
                called: Arc::clone(&called),
            };
            batch.push(Some(Served {
                number: NonZeroU64::MIN,
                waker: Waker::from(Arc::new(recorder)),
            }));
        }
        assert!(batch.is_full());
        batch.wake_all();
        assert!(!batch.is_full());
        assert_eq!(*called.lock().unwrap(), (0..CAPACITY).collect::<Vec<_>>());
    }
}
