//! Checks, under the lock, whether a waiter has been served.

use std::task::Waker;

use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait_queue::{WaitQueue, WaiterId, WaiterStatus};

/// Takes the id of a waiter that has been served, and returns it with the lock. Otherwise
/// ensures that the stored waker is `waker`.
pub(super) fn lock_if_served<'a, L, C: Copy + Default>(
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
        state = lock(mutex);
        let unused = queue(&mut state).set_waker(known, fresh);
        // The waiter may have been served in between, and is not woken again.
        status = queue(&mut state).look(known, waker);
        drop(state);
        drop(unused);
        if status != WaiterStatus::Served {
            // The waker may still look stale: `will_wake` need not recognise a clone.
            return None;
        }
        state = lock(mutex);
    }
    if status != WaiterStatus::Served {
        return None;
    }
    Some((state, id.take()?))
}
