//! Every kind of throttle beside the semaphore, for the rows that could happen to any of them.

use std::fmt::Debug;
use std::sync::Arc;

use tollgate::{Semaphore, Throttle, TryThrottle, all};

/// What is looked at.
pub(super) trait Check {
    fn check<T: Other>(&self, throttle: &T);
}

/// One that can be shared with tasks and threads.
pub(super) trait Other:
    TryThrottle<Permit: Debug + Send + 'static, Enter: Send + 'static> + Send + Sync + 'static
{
}

impl<T> Other for T
where
    T: TryThrottle + Send + Sync + 'static,
    <T as Throttle>::Permit: Debug + Send + 'static,
    <T as Throttle>::Enter: Send + 'static,
{
}

/// Checks one of each kind that lets in so many.
pub(super) fn each_other(limit: usize, check: &impl Check) {
    let semaphore = |permits| Arc::new(Semaphore::new(permits));
    check.check(&Some(semaphore(limit)));
    check.check(&semaphore(2 * limit).cost_owned(2));
    check.check(&all((semaphore(limit + 1), semaphore(limit))));
    check.check(&all((semaphore(limit), semaphore(limit + 1))));
    channels(limit, check);
    tokios(limit, check);
    async_locks(limit, check);
}

#[cfg(feature = "channel")]
fn channels(limit: usize, check: &impl Check) {
    use tollgate::{ChannelSemaphore, Pool};

    check.check(&Arc::new(Pool::new(0..limit)));
    check.check(&Arc::new(Pool::with_factory(limit, String::new)));
    check.check(&Arc::new(ChannelSemaphore::new(limit)));
}

#[cfg(not(feature = "channel"))]
fn channels(_: usize, _: &impl Check) {}

#[cfg(feature = "tokio")]
fn tokios(limit: usize, check: &impl Check) {
    check.check(&Arc::new(tokio::sync::Semaphore::new(limit)));
}

#[cfg(not(feature = "tokio"))]
fn tokios(_: usize, _: &impl Check) {}

#[cfg(feature = "async-lock")]
fn async_locks(limit: usize, check: &impl Check) {
    check.check(&Arc::new(async_lock::Semaphore::new(limit)));
}

#[cfg(not(feature = "async-lock"))]
fn async_locks(_: usize, _: &impl Check) {}

/// So many can be had, and no more; and then all are there again.
#[track_caller]
pub(super) fn assert_room_for<T: Other>(throttle: &T, limit: usize) {
    let permits: Vec<_> = (0..=limit)
        .map_while(|_| throttle.try_enter().ok())
        .collect();
    assert_eq!(permits.len(), limit, "{}", std::any::type_name::<T>());
}
