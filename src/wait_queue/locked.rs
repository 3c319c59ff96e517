//! Operations on a queue under a lock that release the lock for foreign code: wakers.

use std::task::Waker;

use super::{WaitQueue, WaiterId, WaiterStatus, WakeList};
use crate::sync::{Mutex, MutexGuard, lock};

/// Calls `serve` under the lock, then unlocks and wakes the waiters that it has served; and again
/// for as long as it fills the batch.
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
pub(crate) fn lock_if_served<'a, L, C: Copy + Default>(
    mutex: &'a Mutex<L>,
    queue: fn(&mut L) -> &mut WaitQueue<C>,
    id: &mut Option<WaiterId>,
    waker: &Waker,
) -> Option<(MutexGuard<'a, L>, WaiterId)> {
    let known = id.as_ref()?;
    let mut state = lock(mutex);
    let mut status = queue(&mut state).look(known, waker);
    if status == WaiterStatus::StaleWaker {
        // Wakers are foreign code, so they are cloned and dropped without the lock.
        drop(state);
        let fresh = waker.clone();
        let unused = queue(&mut lock(mutex)).set_waker(known, fresh);
        drop(unused);
        // The waiter may have been served before its waker was replaced, and is not woken again. If
        // it still waits, the waker may still look stale: `will_wake` need not recognise a clone.
        state = lock(mutex);
        status = queue(&mut state).look(known, waker);
    }
    match status {
        WaiterStatus::Served => Some((state, id.take()?)),
        _ => None,
    }
}
