//! What a map keeps for its keys: the one interface between the [map](super::map) and the two kinds
//! of limits, [rates](super::rates) and [permits](super::permits).

use hashbrown::HashTable;

use super::map::{Entry, Held};
use crate::error::AcquireError;
use crate::time::Tick;

/// What is kept for a key: 16 bytes, of which four are the hash of the key.
///
/// With the hash in the slot a table grows without calling the key's own `Hash`, under a lock or
/// otherwise, and without fetching the key.
pub trait Slot {
    /// The hash of the key.
    fn hash(&self) -> u32;
}

/// Whether an entry can be removed in favour of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evictability {
    /// Nothing is lost with it.
    Idle,
    /// Nothing is lost with it after so many nanoseconds, if nobody uses it.
    IdleAfter(u64),
    /// Somebody waits or holds something: it stays.
    InUse,
}

/// The limits of all keys of a map.
///
/// Methods that take a slot or a state run under the lock of a shard, and call no foreign code; all
/// others run under no lock.
pub trait Contents: Sized {
    type Key;
    type Slot: Slot;
    /// What a shard keeps beside its entries.
    type ShardState;
    /// What the user's function says about a key.
    type Asked;
    /// What an entry shares with its waiters and holders.
    type Shared;
    /// What has to be dropped under no lock.
    type Leftover;

    fn shard_state(&self) -> Self::ShardState;

    /// Asks the user's function, if there is one.
    fn ask(&self, key: &Self::Key) -> Self::Asked;

    /// The slot of a new key.
    fn slot(&self, state: &mut Self::ShardState, asked: &Self::Asked, hash: u32) -> Self::Slot;

    fn evictability(
        &self,
        slot: &mut Self::Slot,
        state: &Self::ShardState,
        now: Tick,
    ) -> Evictability;

    /// Replaces what is not needed any more: that of the key with this hash, and of another one.
    fn tidy(
        &self,
        table: &mut HashTable<Entry<Self>>,
        state: &mut Self::ShardState,
        hash: u32,
        now: Tick,
    ) -> Self::Leftover;

    /// The error of a key that finds no room; perhaps there is some after so many nanoseconds.
    fn too_many_keys(&self, after: Option<u64>) -> AcquireError;

    /// What an entry shares with waiters and holders, if there is anything.
    fn shared(slot: &Self::Slot) -> Option<Self::Shared>;

    fn close(shared: Self::Shared);

    /// Lets an entry go by another answer; what it shares is left to [`reset`](Self::reset).
    fn requota(&self, held: Held<'_, Self>, asked: &Self::Asked, now: Tick);

    /// Lets waiters and holders go by another answer.
    fn reset(shared: Self::Shared, asked: &Self::Asked);

    fn now(&self) -> Tick;
}
