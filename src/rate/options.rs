//! What can be chosen about a limiter.

/// What happens when the timer that releases waiters is late, which it always is, a little.
///
/// It makes no difference for calls that need not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTickBehavior {
    /// Waiters are charged when they are released. They are never closer together than the quota
    /// says, but each delay of the timer is lost, so the rate stays somewhat below the quota, and
    /// the more so the higher it is.
    Delay,
    /// Waiters are charged when they were due, so the rate holds over time. After a late tick those
    /// that are overdue are released at once: any interval may admit `max` more than the quota
    /// allows, measured when they are released, and none more by the ticks at which they are
    /// [charged](super::Charge::at).
    Burst {
        /// How much of what is overdue is released at once; what exceeds it is lost. In units of
        /// cost.
        max: u64,
    },
}

/// What happens to a call that asks for more than the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversize {
    /// It is refused at once, with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    #[default]
    Refuse,
    /// It is admitted alone, when nothing is owed and so the whole burst is there, and overdraws the
    /// burst: no other call is admitted until time has paid off what is beyond it.
    Overdraft,
}
