//! What happens to a new key when the map is full.

/// What happens to a new key when the map is full, and none of the keys that it looks at has fully
/// recovered.
///
/// A key with waiters is never evicted. If a new key looks only at such keys, it is rejected
/// whatever was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The new key is rejected with [`TooManyKeys`](crate::ErrorKind::TooManyKeys). No key is
    /// admitted too early, but a flood of keys, from an attacker perhaps, keeps new ones out until
    /// they have recovered.
    ///
    /// [`retry_after`](crate::AcquireError::retry_after) says when the first of the keys that were
    /// looked at will have recovered, if it is not used again. It is `None` if all of them have
    /// waiters.
    #[default]
    Reject,
    /// The key that recovers first, of those that are looked at, is evicted, and its debt is
    /// forgiven: when it comes back, it has its whole burst. A caller that uses many keys can
    /// therefore get more than one quota allows; put a limiter for all keys above the map.
    Evict,
}
