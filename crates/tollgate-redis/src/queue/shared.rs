//! [`Shared`]: the state that all handles of one limit share, and [`Limit`]: the differences
//! between kinds of limits.
//!
//! 1. The lock is never held while a future waits, a caller is woken, or a task is spawned.
//! 2. Lock order: the state, then the [slot](super::driver_slot) of the driver.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Context;
use std::time::Instant;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tollgate::{AcquireError, ErrorKind};

use super::driver_slot::DriverSlot;
use super::{Wait, WaitQueue, Waiter};
use crate::error::StoreError;
use crate::store::{Detached, LimitBreaker, Store, is_inside};
use crate::sync::lock;

/// A future that runs without a caller.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A kind of limit.
pub(crate) trait Limit: Sized + Send + Sync + 'static {
    type Permit: Send + 'static;
    /// What a caller brings along, beside its cost.
    type Brought: Default;
    /// The limit's data about a waiter.
    type Request: Send;
    /// The limit's data under the lock.
    type State: Send;
    fn key(&self) -> &str;

    /// The permit of a call that costs nothing.
    fn free_permit() -> Self::Permit;

    /// Returns the highest cost of one call.
    fn capacity(&self, state: &Self::State) -> u64;

    /// Takes a permit that needs neither the lock nor the server.
    fn take_cached(_shared: &Shared<Self>, _cost: u64) -> Option<Self::Permit> {
        None
    }

    /// Returns the limit's data about a caller that is not in the queue yet, or the reason for its
    /// rejection.
    fn join(&self, state: &State<Self>, caller: &Wait<Self>)
    -> Result<Self::Request, AcquireError>;

    /// Stops [cached](Self::take_cached) permits, because there is a waiter or the limit is closed.
    fn stop_cached(&self) {}

    /// Called when a waiter leaves without a permit.
    fn on_leave(_state: &mut Self::State, _waiter: &Waiter<Self::Request, Self::Permit>) {}

    /// Called when a waiter leaves that is not in the queue. It may have got its answer.
    fn on_leave_elsewhere(_state: &mut Self::State, _number: u64) {}

    /// Admits the waiters whose time has come without a call. Returns when it has to be called again. While the
    /// driver calls, the first waiters of the queue keep their places.
    fn serve(_state: &mut State<Self>, _calls: bool, _now: Instant) -> Option<Instant> {
        None
    }

    /// Moves all waiters that are kept elsewhere back to the front of the queue.
    fn release(_state: &mut State<Self>) {}

    /// Returns the next step of the driver.
    fn next(shared: &Arc<Shared<Self>>, state: &mut State<Self>) -> Next;

    /// Runs a driver that no caller polls, in the background.
    fn run(shared: &Arc<Shared<Self>>, driver: Running) {
        shared.spawn(driver);
    }

    /// Returns permits that no caller took, in the background.
    fn give_back(_shared: &Arc<Shared<Self>>, permits: Vec<Self::Permit>) {
        drop(permits);
    }
}

/// The next step of a driver.
pub(crate) enum Next {
    /// The driver ends: there are no waiters.
    End,
    Run(Running),
    /// The driver looks again at that time, or when it is notified.
    Sleep(Instant),
}

impl Next {
    /// Returns this step, or one that sleeps until that time if it is earlier.
    pub(crate) fn at_latest(self, time: Option<Instant>) -> Self {
        match (self, time) {
            (Self::End, Some(time)) => Self::Sleep(time),
            (Self::Sleep(until), Some(time)) => Self::Sleep(until.min(time)),
            (next, _) => next,
        }
    }
}

pub(crate) struct Shared<L: Limit> {
    pub(crate) store: Store,
    /// Rejects calls while those of this limit alone fail.
    pub(crate) breaker: LimitBreaker,
    pub(crate) limit: L,
    state: Mutex<State<L>>,
    /// The driver, while its first waiter polls it.
    pub(super) slot: DriverSlot<Running>,
    /// Notified when something has changed that the driver must check.
    pub(super) notify: Notify,
    /// The tasks in the background.
    pub(crate) tasks: TaskTracker,
}

pub(crate) struct State<L: Limit> {
    pub(crate) queue: WaitQueue<L::Request, L::Permit>,
    pub(crate) own: L::State,
    pub(crate) closed: bool,
    /// Permits to be returned without the lock.
    pub(crate) abandoned: Vec<L::Permit>,
    /// The capacity when the driver last looked.
    pub(super) capacity: u64,
    pub(super) is_driven: bool,
}

impl<L: Limit> Shared<L> {
    pub(crate) fn new(store: Store, limit: L, own: L::State) -> Self {
        Self {
            breaker: store.limit_breaker(),
            store,
            limit,
            state: Mutex::new(State {
                queue: WaitQueue::new(),
                own,
                closed: false,
                abandoned: Vec::new(),
                capacity: u64::MAX,
                is_driven: false,
            }),
            slot: DriverSlot::new(),
            notify: Notify::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns the present, by the time of the store.
    pub(crate) fn now(&self) -> Instant {
        self.store.time().now()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<L>> {
        lock(&self.state)
    }

    /// Rejects a call if the limit is closed, or never admits that cost.
    pub(crate) fn check(
        &self,
        closed: bool,
        own: &L::State,
        cost: u64,
    ) -> Result<(), AcquireError> {
        let capacity = self.limit.capacity(own);
        if closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if cost > capacity {
            return Err(AcquireError::exceeds_capacity(capacity));
        }
        Ok(())
    }

    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }

    /// Records that a waiter has left. The waiters behind it may move up.
    pub(super) fn leave(&self, number: u64) {
        self.state().queue.leave(number);
        self.notify();
    }

    /// Changes the state under the lock, and then sends the replies. Returns permits that no caller
    /// takes to the limit.
    pub(crate) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State<L>) -> R) -> R {
        let (result, replies, abandoned) = {
            let state = &mut *self.state();
            let result = change(state);
            let replies = std::mem::take(&mut state.queue.replies);
            (result, replies, std::mem::take(&mut state.abandoned))
        };
        if !abandoned.is_empty() {
            L::give_back(self, abandoned);
        }
        for (sender, answer) in replies {
            // Permits are returned before the next reply, because its caller may leave and return a
            // later permit.
            if let Err(Ok(permit)) = sender.send(answer) {
                L::give_back(self, vec![permit]);
            }
        }
        result
    }

    /// Closes the limit: it admits no more callers.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.limit.stop_cached();
        drop(state);
        self.notify();
    }

    /// Spawns work that no caller waits for, such as a driver, refunds, renewals: in a task of the store's runtime
    /// that [`tasks`](Self::tasks) tracks, so that a shutdown waits for it. It ends with that runtime: whatever it must
    /// not leave behind is in the drop of its future, as also after a panic. What a caller may leave is
    /// [`Detached`](crate::store::Detached).
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn_on(task, self.store.runtime()));
    }

    /// Returns an operation that goes on if its caller leaves. A shutdown waits for it.
    pub(crate) fn detached<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Detached<T> {
        self.store.detached(self.tasks.track_future(operation))
    }

    /// Polls the driver with that number. Returns whether it stays in its slot.
    pub(super) fn poll_driver(self: &Arc<Self>, number: u64, context: &mut Context<'_>) -> bool {
        if !is_inside(self.store.runtime()) {
            self.hand_over(Some(number));
            return false;
        }
        let (stays, handed_over) = self.slot.poll(number, context);
        if let Some(driver) = handed_over {
            L::run(self, driver);
        }
        stays
    }

    /// Moves the driver with that number, or any, to a task, unless it is in one.
    pub(super) fn hand_over(self: &Arc<Self>, number: Option<u64>) {
        if let Some(driver) = self.slot.hand_over(number) {
            L::run(self, driver);
        }
    }
}

impl<L: Limit> fmt::Debug for Shared<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("key", &self.limit.key())
            .field("waiting", &self.state().queue.len())
            .finish_non_exhaustive()
    }
}
