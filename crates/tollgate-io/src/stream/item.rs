//! [`EnterItem`]: how an item of a stream enters a throttle.

use tollgate::throttle::Weighted;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle};

/// What an item enters: a throttle, for 1, or a [`ByCost`]. It is public because futures name it, and sealed by
/// its private module.
pub trait EnterItem<I> {
    /// The permit of an item.
    type Permit;
    /// The wait of an item.
    type Enter: Future<Output = Result<Self::Permit, AcquireError>>;

    /// Enters for an item.
    fn enter_for(&mut self, item: &I) -> Waiting<Self::Enter>;
}

impl<I, T: Throttle> EnterItem<I> for T {
    type Permit = T::Permit;
    type Enter = T::Enter;

    fn enter_for(&mut self, _: &I) -> Waiting<T::Enter> {
        self.enter()
    }
}

/// A throttle, and the cost of each item; of [`for_each_limited_by`](super::LimitStreamExt::for_each_limited_by).
#[derive(Debug)]
pub struct ByCost<T, C> {
    throttle: T,
    cost: C,
}

impl<T, C> ByCost<T, C> {
    pub(super) fn new(throttle: T, cost: C) -> Self {
        Self { throttle, cost }
    }
}

impl<I, T: Weighted, C: FnMut(&I) -> u64> EnterItem<I> for ByCost<T, C> {
    type Permit = T::Permit;
    type Enter = T::Enter;

    fn enter_for(&mut self, item: &I) -> Waiting<T::Enter> {
        self.throttle.cost((self.cost)(item)).enter()
    }
}
