//! Wakers are foreign code: they are taken under a lock, and called, cloned and dropped after it.
//!
//! Wakers to be called are in an array on the stack, so granting allocates nothing, however many
//! waiters are granted at once. When the array is full, the owner unlocks, wakes, and continues.
//!
//! A waker may poll its task at once, and the task may return its permit, which wakes the next one
//! inside of that call. Without a bound, the calls could nest as deep as the queue is long.
//! [`NESTED`] such calls are made at once; further wakers are deferred, and the outermost call on
//! this thread calls them in their order before it returns. The test `nested_wakes_of_a_semaphore`
//! and those beside it check this.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use super::{Units, WaitQueue, WaiterId};
use crate::panic::contain_panic;
use crate::sync::{Mutex, MutexGuard, lock, thread_local};

/// The number of wakers that fit.
const CAPACITY: usize = 8;

/// The maximum number of nested calls of wakers on one thread.
const NESTED: u32 = 32;

thread_local! {
    // The threads of a loom model share it, and never nest that many calls.
    static CALLS: Calls = const {
        Calls { depth: Cell::new(0), later: RefCell::new(Vec::new()) }
    };
}

/// The calls of wakers on a thread.
struct Calls {
    /// The number of calls that have not returned.
    depth: Cell<u32>,
    /// Wakers that the outermost call calls.
    later: RefCell<Vec<Waker>>,
}

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

    /// Calls every waker, in order, and leaves the batch empty. Inside of [`NESTED`] other calls it
    /// leaves the wakers to the outermost one.
    ///
    /// A waker that panics does not prevent the other calls. The panic hook reports the panic,
    /// which is then caught: this runs inside `Drop` of permits and futures, where an uncaught
    /// panic would abort the process or strand the rest of the queue.
    #[inline]
    pub(crate) fn wake_all(&mut self) {
        if self.len > 0 {
            self.wake_some();
        }
    }

    #[inline(never)]
    fn wake_some(&mut self) {
        // In a destructor of the thread that runs after that of `CALLS`, no waker is deferred.
        if CALLS.try_with(|calls| calls.wake(self)).is_err() {
            self.take_each(call);
        }
    }

    #[inline(always)]
    fn take_each(&mut self, mut each: impl FnMut(Waker)) {
        self.len = 0;
        self.first.take().into_iter().for_each(&mut each);
        if let Some(others) = self.others.take() {
            others.into_iter().flatten().for_each(each);
        }
    }
}

impl Calls {
    /// Calls these wakers, or defers them.
    fn wake(&self, list: &mut WakeList) {
        let depth = self.depth.get();
        if depth >= NESTED {
            list.take_each(|waker| self.later.borrow_mut().push(waker));
            return;
        }
        self.depth.set(depth + 1);
        list.take_each(call);
        if depth == 0 {
            self.call_later();
        }
        // Not `depth`: the threads of a model take turns inside.
        self.depth.set(self.depth.get() - 1);
    }

    /// Calls the deferred wakers, including those that these calls defer. Keeps no memory.
    fn call_later(&self) {
        loop {
            let later = self.later.take();
            if later.is_empty() {
                return;
            }
            later.into_iter().for_each(call);
        }
    }
}

fn call(waker: Waker) {
    contain_panic(|| waker.wake());
}

/// Calls `serve` under the lock, then unlocks and wakes the waiters that it has served; repeats
/// this as long as `serve` fills the batch.
#[inline(always)]
pub(crate) fn serve_and_wake<'a, L>(
    mutex: &'a Mutex<L>,
    mut state: MutexGuard<'a, L>,
    mut serve: impl FnMut(&mut L, &mut WakeList),
) {
    let mut batch = WakeList::new();
    loop {
        serve(&mut state, &mut batch);
        drop(state);
        let more = batch.is_full();
        batch.wake_all();
        if !more {
            return;
        }
        state = lock(mutex);
    }
}

/// Takes the id of a waiter that has been served, and returns it with the lock. Otherwise
/// ensures that the stored waker is `waker`.
pub(crate) fn lock_if_served<'a, L, C: Units>(
    mutex: &'a Mutex<L>,
    queue: fn(&mut L) -> &mut WaitQueue<C>,
    id: &mut Option<WaiterId>,
    waker: &Waker,
) -> Option<(MutexGuard<'a, L>, WaiterId)> {
    let known = id.as_ref()?;
    let mut state = lock(mutex);
    if let Some(stored) = queue(&mut state).waker(known) {
        if stored.will_wake(waker) {
            return None;
        }
        drop(state);
        let fresh = waker.clone();
        let unused = queue(&mut lock(mutex)).set_waker(known, fresh);
        drop(unused);
        // The waiter may have been served before its waker was replaced, and is not woken again.
        state = lock(mutex);
        if queue(&mut state).waker(known).is_some() {
            return None;
        }
    }
    Some((state, id.take()?))
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

    /// Counts down, and wakes another such waker inside the call.
    struct Chain {
        left: usize,
        depth: Arc<Mutex<(usize, usize)>>,
        order: Arc<Mutex<Vec<usize>>>,
    }

    impl Wake for Chain {
        fn wake(self: Arc<Self>) {
            self.order.lock().unwrap().push(self.left);
            let mut depth = self.depth.lock().unwrap();
            depth.0 += 1;
            depth.1 = depth.1.max(depth.0);
            drop(depth);
            let mut batch = WakeList::new();
            if self.left > 0 {
                batch.push(Some(Waker::from(Arc::new(Self {
                    left: self.left - 1,
                    depth: Arc::clone(&self.depth),
                    order: Arc::clone(&self.order),
                }))));
            }
            batch.wake_all();
            self.depth.lock().unwrap().0 -= 1;
        }
    }

    #[test]
    fn wake_all_inside_of_as_many_calls_as_may_nest_leaves_the_wakers_to_the_outermost() {
        let (depth, order) = (Arc::default(), Arc::default());
        let chain = |left| {
            Waker::from(Arc::new(Chain {
                left,
                depth: Arc::clone(&depth),
                order: Arc::clone(&order),
            }))
        };
        let mut batch = WakeList::new();
        batch.push(Some(chain(1000)));
        batch.push(Some(chain(0)));
        batch.wake_all();
        assert_eq!(*depth.lock().unwrap(), (0, NESTED as usize));
        // The second waker of the batch comes before the deferred ones.
        let mut expected: Vec<_> = (0..=1000).rev().collect();
        expected.insert(NESTED as usize, 0);
        assert_eq!(*order.lock().unwrap(), expected);
        let kept = CALLS.with(|calls| (calls.depth.get(), calls.later.borrow().len()));
        assert_eq!(kept, (0, 0));
    }

    /// Wakes when the thread ends.
    struct WakesAtTheEnd(RefCell<WakeList>);

    impl Drop for WakesAtTheEnd {
        fn drop(&mut self) {
            self.0.borrow_mut().wake_all();
        }
    }

    #[test]
    fn wake_all_at_the_end_of_a_thread_calls_every_waker() {
        thread_local! {
            static LAST: WakesAtTheEnd = const { WakesAtTheEnd(RefCell::new(WakeList::new())) };
        }
        let called = Arc::default();
        let recorder = |called: &Arc<_>, name| {
            Waker::from(Arc::new(Recorder {
                name,
                panics: false,
                called: Arc::clone(called),
            }))
        };
        let shared = Arc::clone(&called);
        // A join waits for destructors, unlike the end of a scope.
        let thread = std::thread::spawn(move || {
            // Destructors run in an order of the platform's choice: one of the two is early.
            LAST.with(|last| last.0.borrow_mut().push(Some(recorder(&shared, 1))));
            let mut wakes = WakeList::new();
            wakes.push(Some(recorder(&shared, 0)));
            wakes.wake_all();
            LAST.with(|last| last.0.borrow_mut().push(Some(recorder(&shared, 2))));
        });
        thread.join().unwrap();
        assert_eq!(*called.lock().unwrap(), [0, 1, 2]);
    }
}
