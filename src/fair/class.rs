//! [`Class`]: how a class of callers is treated, and [`Order`] and [`Share`].

use std::time::Duration;

/// The settings of a class of callers of a [`FairQueue`](super::FairQueue).
///
/// By default a class has the lowest priority, weight 1, no bounds, and serves its waiters first-in
/// first-out.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::fair::{Class, Order};
///
/// const INTERACTIVE: Class = Class::new().priority(1).order(Order::AdaptiveLifo(
///     Duration::from_millis(50),
/// ));
/// const BATCH: Class = Class::new().max_concurrency(4).max_waiters(1000);
/// # let _ = (INTERACTIVE, BATCH);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "settings do nothing until a class map returns them"]
pub struct Class {
    pub(super) priority: u8,
    pub(super) weight: u32,
    pub(super) max_concurrency: u32,
    pub(super) max_waiters: usize,
    pub(super) order: Order,
    pub(super) max_queue_time: Option<Duration>,
}

/// The order in which a class serves its own waiters. Only a class that serves the oldest waiter first
/// [ages](super::FairQueue::aging).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The oldest waiter first. When the class has its maximum of waiters, a newcomer is refused.
    #[default]
    Fifo,
    /// The newest waiter first. When the class has its maximum of waiters, the oldest is refused.
    Lifo,
    /// The newest waiter first while the oldest has waited for longer than this, otherwise the oldest
    /// first. Under overload, callers whose deadline is near are then served late or never, and the
    /// others in time.
    AdaptiveLifo(Duration),
}

/// What the classes of one priority share in proportion to their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Share {
    /// The permits that are held: the class with the least held permits per weight goes first. An
    /// entry counts as one permit, whatever it costs.
    ///
    /// Among classes that are level, the one goes first that was given the fewest permits per weight
    /// while it waited, by start-time fair queueing.
    ///
    /// Permits are whole, and a class that waits and holds none goes first. So weights hold with one
    /// permit, and with a multiple of what the weights of the waiting classes add up to; otherwise as
    /// near as whole permits allow. With weights of 3 and 1 and equal work, the first class has 75 % of
    /// one permit, 50 % of two, 67 % of three and of six, 70 % of ten, and 75 % of four, eight and
    /// twelve. [`ByCost`](Self::ByCost) gives it 75 % of any number, of what is admitted.
    #[default]
    ByConcurrency,
    /// The cost of what is admitted, by start-time fair queueing: the class with the least virtual
    /// start time goes first. Use it for rates, whose permits are not held. A caller that need not
    /// wait is charged nothing, since it is ahead of nobody.
    ByCost,
}

impl Class {
    /// Returns the default settings.
    pub const fn new() -> Self {
        Self {
            priority: 0,
            weight: 1,
            max_concurrency: u32::MAX,
            max_waiters: usize::MAX,
            order: Order::Fifo,
            max_queue_time: None,
        }
    }

    /// Sets the priority. Waiters of a higher priority go first. Classes share with the others of
    /// their priority.
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the weight: the part of this class in what the classes of its priority share.
    ///
    /// [By concurrency](Share::ByConcurrency), weights of 3 and 1 make no difference with two permits,
    /// because each class holds one.
    ///
    /// # Panics
    ///
    /// Panics if `weight` is 0.
    #[track_caller]
    pub const fn weight(mut self, weight: u32) -> Self {
        assert!(
            weight > 0,
            "the weight of a class must be at least 1, not 0"
        );
        self.weight = weight;
        self
    }

    /// Sets how many permits the class holds at most. While it holds as many, others pass its
    /// waiters.
    ///
    /// A permit that is dropped is first counted as returned, and then its inner permit is dropped. In
    /// between, the throttle may count one permit more for the class.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is 0.
    #[track_caller]
    pub const fn max_concurrency(mut self, permits: u32) -> Self {
        assert!(
            permits > 0,
            "the maximum concurrency of a class must be at least 1, not 0"
        );
        self.max_concurrency = permits;
        self
    }

    /// Sets how many callers of the class wait at most. The [order](Self::order) says which caller
    /// is refused with [`QueueFull`](crate::ErrorKind::QueueFull) when one more comes.
    pub const fn max_waiters(mut self, waiters: usize) -> Self {
        self.max_waiters = waiters;
        self
    }

    /// Sets the order in which the class serves its own waiters.
    pub const fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Refuses, when its turn comes, a caller that has waited for `time` or longer, with
    /// [`TimedOut`](crate::ErrorKind::TimedOut); nothing ends the wait earlier, add a
    /// [`timeout`](crate::Waiting::timeout) for that.
    ///
    /// No permit is used for a refused caller. The [clock](super::FairQueue::clock) of the queue measures
    /// the wait.
    pub const fn max_queue_time(mut self, time: Duration) -> Self {
        self.max_queue_time = Some(time);
        self
    }
}

impl Default for Class {
    fn default() -> Self {
        Self::new()
    }
}
