//! [`ClassSnapshot`]: what a queue says about a class.

use std::time::Duration;

use super::class::Class;

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
    /// The number of callers of the class that wait.
    pub waiting: usize,
    /// How long the oldest of them has waited.
    pub oldest_wait: Option<Duration>,
}
