//! The driver of a queue: it calls the server for the waiters, while there are any.
//!
//! 1. The driver makes one call at a time, for all waiters that fit. Waiters that join meanwhile
//!    are in the next one.
//! 2. The first waiter polls the driver in its [slot](super::driver_slot). As soon as there are
//!    several waiters, or the driver has to sleep, it becomes a task.
//! 3. If the driver is dropped with its runtime, all waiters are rejected.

use std::sync::{Arc, MutexGuard};

use tollgate::{AcquireError, ErrorKind};

use super::shared::{Limit, Next, Running, Shared, State};
use crate::error::StoreError;
use crate::store::is_inside;

struct Driver<L: Limit> {
    shared: Arc<Shared<L>>,
    is_done: bool,
}

impl<L: Limit> Shared<L> {
    /// Ensures that a driver runs: in place if the caller will poll it and there are no other
    /// waiters. Releases the lock. Returns the number with which the caller polls the driver, if it
    /// does.
    pub(crate) fn drive(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<L>>,
        in_place: bool,
    ) -> Option<u64> {
        if std::mem::replace(&mut state.is_driven, true) {
            drop(state);
            self.hand_over(None);
            self.notify();
            return None;
        }
        let driver = Driver {
            shared: Arc::clone(self),
            is_done: false,
        };
        let driver: Running = Box::pin(driver.run());
        let put = if in_place && is_inside(self.store.runtime()) {
            self.slot.put(driver)
        } else {
            Err(driver)
        };
        drop(state);
        put.map_err(|driver| L::run(self, driver)).ok()
    }

    fn next(self: &Arc<Self>) -> Next {
        self.change(|state| {
            let State { queue, own, .. } = state;
            for number in queue.take_left() {
                match queue.remove(number) {
                    Some(waiter) => L::on_leave(own, &waiter),
                    None => L::on_leave_elsewhere(own, number),
                }
            }
            L::serve(state, false, self.now());
            // Waiters that cannot be admitted any more leave the queue.
            let State { queue, own, .. } = state;
            let before = std::mem::replace(&mut state.capacity, self.limit.capacity(own));
            if state.closed || state.capacity < before {
                queue.answer(|_, waiter| {
                    let error = self.check(state.closed, own, waiter.cost).err()?;
                    L::on_leave(own, waiter);
                    Some(Err(error))
                });
            }
            let next = L::next(self, state);
            if matches!(next, Next::End) {
                // Under the lock: the next waiter starts another driver.
                state.is_driven = false;
            }
            next
        })
    }
}

impl<L: Limit> Shared<L> {
    /// Runs a call, and meanwhile admits the waiters whose time comes.
    async fn run(self: &Arc<Self>, mut call: Running) {
        let time = self.store.time();
        while let Some(due) = self.change(|state| L::serve(state, true, time.now())) {
            if time.timeout_at(due, &mut call).await.is_some() {
                return;
            }
        }
        call.await;
    }
}

impl<L: Limit> Driver<L> {
    async fn run(mut self) {
        loop {
            match self.shared.next() {
                Next::End => {
                    self.is_done = true;
                    return;
                }
                Next::Run(work) => self.shared.run(work).await,
                Next::Sleep(until) => {
                    // Continues in a task as soon as this poll ends: a driver that sleeps must not
                    // depend on a waiter that may be polled outside of the runtime when the time
                    // comes.
                    self.shared.hand_over(None);
                    tokio::task::yield_now().await;
                    let notified = self.shared.notify.notified();
                    let _ = self.shared.store.time().timeout_at(until, notified).await;
                }
            }
        }
    }
}

impl<L: Limit> Drop for Driver<L> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.change(|state| {
                state.is_driven = false;
                L::release(state);
                let error = if state.closed {
                    AcquireError::new(ErrorKind::Closed)
                } else {
                    AcquireError::from(StoreError::NoRuntime)
                };
                state.queue.fail(usize::MAX, &error);
            });
        }
    }
}
