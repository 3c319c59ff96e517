//! [`ErrorKind`]: what callers match on.

/// What went wrong, as plain data.
///
/// New kinds may be added, so a `match` needs a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The throttle was closed, and admits no more calls.
    Closed,
    /// The caller's `CancellationToken` was cancelled.
    Cancelled,
    /// The caller's deadline passed, or could not be met.
    #[doc(alias = "Elapsed")]
    TimedOut,
    /// As many callers as the throttle allows are already waiting. In a
    /// [`FairQueue`](crate::fair::FairQueue), also: a newcomer has taken the place of this waiter in a
    /// class that serves [the newest first](crate::fair::Class::adaptive_lifo), or the queue has its
    /// [maximum of classes](crate::fair::FairQueue::max_classes).
    QueueFull,
    /// There is no room for another key in a limit [by key](crate::Keyed).
    TooManyKeys,
    /// Fewer permits are free than the call asks for, others wait for them, or the class of the caller
    /// holds its [maximum](crate::fair::Class::max_concurrency). Returned only by `try_` calls.
    NoPermits,
    /// The rate does not allow the call now, or a gate is blocked. Returned only by `try_` calls of
    /// rate limiters, [adaptive](crate::adaptive::AdaptiveRate) ones included, and by checks of gates.
    RateLimited,
    /// The call asks for more than the limit can ever give at once: than all permits of a semaphore, or
    /// than the [burst](crate::Quota::burst) of a rate limiter, whatever its rate is. Waiting does not
    /// help; a higher limit or burst does, or [`Oversize::Overdraft`](crate::Oversize::Overdraft).
    #[doc(alias = "InsufficientCapacity")]
    ExceedsCapacity,
    /// A dependency of the throttle failed: the store of a throttle that several machines share, or the
    /// asynchronous factory of a [pool](crate::Pool). The [source](std::error::Error::source) of the error
    /// is the failure.
    Store,
}
