//! What happens to a new key when there are as many as there may be.

/// What happens to a new key when there are as many as there may be, and none of those that are
/// looked at has fully recovered.
///
/// Memory is bounded, so something has to give; each of these says honestly what. A key whose
/// callers wait is never evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AtCap {
    /// It is refused, with [`TooManyKeys`](crate::ErrorKind::TooManyKeys). Nobody is admitted too early,
    /// and nobody is charged for another; but many keys, of an attacker perhaps, keep new ones out
    /// until they have recovered.
    ///
    /// Its [`retry_after`](crate::AcquireError::retry_after) is when the first of the keys that
    /// were looked at will have recovered, if it is not used any more. It is not known if all of
    /// them have callers that wait.
    #[default]
    Refuse,
    /// The key that recovers first, of those that are looked at, goes, and until when it owes is
    /// kept in an overflow cell, of which there is one for eight keys, chosen by the key's hash; a
    /// cell keeps the latest. A new key begins by owing as long as its cell says, but no more than
    /// its burst. So nothing is forgiven, but some keys may be denied what others have taken.
    Fold,
    /// The key that recovers first, of those that are looked at, goes, and what it owes is forgiven:
    /// if it comes again it has its whole burst. So by coming under many names more can be had than
    /// the quota allows for each; for all together there is a limiter above.
    Evict,
}
