//! [`Class`], the settings of a class of callers, with [`Share`]; and [`ClassSnapshot`].

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
/// use tollgate::fair::Class;
///
/// const INTERACTIVE: Class = Class::new().priority(1).adaptive_lifo(Duration::from_millis(50));
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
    pub(super) adaptive_lifo: Option<Duration>,
}

/// The resource that the classes of one priority share in proportion to their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Share {
    /// Held permits: the class with the fewest held permits per weight goes first. An entry counts
    /// as one permit, whatever its cost.
    ///
    /// Among classes that are level, start-time fair queueing decides: the class that received the
    /// fewest permits per weight while it waited goes first.
    ///
    /// Permits are whole, and a class that waits and holds none goes first. So weights are exact
    /// with one permit, and with a multiple of the sum of the weights of the waiting classes;
    /// otherwise shares are as near as whole permits allow. With weights of 3 and 1 and equal work,
    /// the first class has 75 % of one permit, 50 % of two, 67 % of three and of six, 70 % of ten,
    /// and 75 % of four, eight and twelve. [`ByCost`](Self::ByCost) gives it 75 % of the admitted
    /// cost with any number of permits.
    #[default]
    ByConcurrency,
    /// The cost of admitted calls, by start-time fair queueing: the class with the least virtual
    /// start time goes first. Use it for rates, because nobody holds their permits. A caller that
    /// need not wait is charged nothing, since it is ahead of nobody. A class pays for its dearest call
    /// [in advance](super::FairQueue#new-keys).
    ///
    /// An entry counts with the cost that it asked for. The throttle may get a part of it back,
    /// through a [settlement](crate::throttle::Weighted::settle), a rollback, or a waiter that
    /// leaves with a permit that it has not received. The share of the class gets nothing back.
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
            adaptive_lifo: None,
        }
    }

    /// Sets the priority. Waiters of a higher priority go first. A class shares with the other
    /// classes of its priority.
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the weight of this class relative to others of the same priority.
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

    /// Sets the maximum number of permits that the class holds. While it holds this number, other
    /// classes pass its waiters.
    ///
    /// A dropped permit is first counted as returned, and then its inner permit is dropped. In
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

    /// Sets the maximum number of callers of the class that wait. One more is refused with
    /// [`QueueFull`](crate::ErrorKind::QueueFull); if the class serves [the newest
    /// first](Self::adaptive_lifo), the oldest is refused instead.
    pub const fn max_waiters(mut self, waiters: usize) -> Self {
        self.max_waiters = waiters;
        self
    }

    /// Serves the newest waiter first while the oldest has waited for longer than `limit`, otherwise the
    /// oldest first. By default the oldest is always first.
    ///
    /// Under overload, callers whose deadline is near are then served late or never, and the others
    /// in time. If there is no room for a newcomer during this time, the oldest waiter of the class
    /// is refused in its place. Such a class does not [age](super::FairQueue::aging).
    pub const fn adaptive_lifo(mut self, limit: Duration) -> Self {
        self.adaptive_lifo = Some(limit);
        self
    }
}

impl Default for Class {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a class at one moment, from [`FairQueue::snapshot`](super::FairQueue::snapshot).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassSnapshot<K> {
    /// The key of the class.
    pub key: K,
    /// The settings of the class.
    pub class: Class,
    /// The number of permits that the class holds.
    pub held: u64,
    /// The number of waiting callers of the class.
    pub waiting: usize,
    /// The waiting time of the oldest of them.
    pub oldest_wait: Option<Duration>,
}
