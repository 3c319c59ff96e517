//! The policy of a full map.

/// The policy for a new key when the map is full, and none of the keys that it looks at has fully
/// recovered.
///
/// A key with waiters is never evicted. A new key that looks only at such keys is rejected under
/// either policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// Rejects the new key with [`TooManyKeys`](crate::ErrorKind::TooManyKeys). No key is admitted
    /// too early, but a flood of keys, for example from an attacker, keeps new ones out until they
    /// have recovered.
    ///
    /// [`retry_after`](crate::AcquireError::retry_after) is the time until the first of these keys
    /// has recovered, if it is not used again. It is `None` if all of them have waiters, or permits
    /// in use.
    #[default]
    Reject,
    /// Evicts the one of these keys that recovers first, and forgives its backlog: when the key is
    /// used again, it has its whole burst. A caller that uses many keys can therefore get more than
    /// one quota allows; put a limiter for all keys in front of the map.
    Evict,
}
