//! The driver of a queue: it asks the server for those who wait, while somebody does.
//!
//! 1. One call is made at a time, for all waiters that fit. Those who come meanwhile are in the next
//!    one.
//! 2. The first waiter polls the driver in its [slot](super::driver_slot). As soon as there are
//!    several waiters, or the driver has to sleep, it is a task.
//! 3. If the driver is dropped, with its runtime, all waiters are refused.

use std::pin::Pin;
use std::sync::{Arc, MutexGuard};

use tollgate::{AcquireError, ErrorKind};

use super::shared::{Limit, Next, Shared, State};
use crate::error::StoreError;

pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who was to run the driver when it started, or since it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    No,
    /// The first waiter, as a part of its wait.
    InPlace,
    ByTask,
}

struct Driver<L: Limit> {
    shared: Arc<Shared<L>>,
    is_done: bool,
}

impl<L: Limit> Shared<L> {
    /// Sees to it that a driver runs: in place if the caller will poll it, and nobody else waits.
    /// Releases the lock. Returns the number by which the caller polls the driver, if it does.
    pub(crate) fn drive(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<L>>,
        in_place: bool,
    ) -> Option<u64> {
        let driven = std::mem::replace(&mut state.driven, Driven::ByTask);
        let task = match driven {
            Driven::ByTask => None,
            Driven::InPlace => self.slot.hand_over(None),
            Driven::No => {
                let driver = Driver {
                    shared: Arc::clone(self),
                    is_done: false,
                };
                let driver: Running = Box::pin(driver.run());
                let in_place = in_place && self.store.is_inside();
                match if in_place {
                    self.slot.put(driver)
                } else {
                    Err(driver)
                } {
                    Ok(number) => {
                        state.driven = Driven::InPlace;
                        return Some(number);
                    }
                    Err(driver) => Some(driver),
                }
            }
        };
        drop(state);
        match task {
            // A runtime that is gone drops it at once.
            Some(driver) => self.spawn(driver),
            None => self.notify(),
        }
        None
    }

    fn next(self: &Arc<Self>) -> Next<L::Batch> {
        self.change(|state| {
            self.refuse_leaving(state);
            let next = L::next(self, state);
            if matches!(next, Next::End) {
                // Under the lock: the next waiter starts another driver.
                state.driven = Driven::No;
            }
            next
        })
    }

    /// Passes over those who have left, and refuses those who cannot be admitted any more.
    fn refuse_leaving(&self, state: &mut State<L>) {
        let capacity = self.limit.capacity(&state.own);
        let State {
            queue, own, closed, ..
        } = state;
        queue.answer(|_, waiter| {
            let error = if *closed || waiter.answer.is_closed() {
                AcquireError::new(ErrorKind::Closed)
            } else if waiter.cost > capacity {
                AcquireError::exceeds_capacity(capacity)
            } else {
                return None;
            };
            L::on_leave(own, waiter);
            Some(Err(error))
        });
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
                Next::Run(batch) => L::run(&self.shared, batch).await,
                Next::Sleep(until) => {
                    self.leave_slot().await;
                    let notified = self.shared.notify.notified();
                    let _ = tokio::time::timeout_at(until.into(), notified).await;
                }
            }
        }
    }

    /// Goes on in a task: a driver that sleeps must not depend on a waiter who may be polled outside
    /// of the runtime when the time comes.
    async fn leave_slot(&self) {
        let in_place = {
            let state = &mut *self.shared.state();
            std::mem::replace(&mut state.driven, Driven::ByTask) == Driven::InPlace
        };
        if in_place {
            // Handed over as soon as this poll ends.
            drop(self.shared.slot.hand_over(None));
            tokio::task::yield_now().await;
        }
    }
}

impl<L: Limit> Drop for Driver<L> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.change(|state| {
                state.driven = Driven::No;
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
