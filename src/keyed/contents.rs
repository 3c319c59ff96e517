//! What a map keeps for its keys: the one interface between the [map](super::map), the methods of a
//! [key](super::key), and the two kinds of limits, [rates](super::rates) and
//! [permits](super::permits).
//!
//! Methods that take a slot or the state of a shard run under the lock of that shard, and call no
//! foreign code. [`now`](Contents::now) and [`too_many_keys`](Contents::too_many_keys) may also run
//! under it. All others run under no lock.

use super::map::{Held, Shard};
use crate::error::AcquireError;
use crate::time::Tick;

/// The interface between a map and the limits of its keys.
pub trait Contents: Sized {
    type Key;
    /// What a map keeps for a key: 16 bytes, four of them for the hash of the key. So a table grows
    /// without calling the key's own `Hash`, under a lock or otherwise, and without fetching the
    /// key.
    type Slot;
    /// What a shard keeps beside its entries.
    type ShardState;
    /// The answer of the user's function for a key.
    type Asked;
    /// What an entry shares with its waiters and holders.
    type Shared;

    /// Returns the hash of the key.
    fn hash(slot: &Self::Slot) -> u32;

    fn shard_state(&self) -> Self::ShardState;

    /// Calls the user's function, if there is one.
    fn ask(&self, key: &Self::Key) -> Self::Asked;

    /// Returns the slot of a new key.
    fn slot(&self, state: &mut Self::ShardState, asked: &Self::Asked, hash: u32) -> Self::Slot;

    /// Returns the nanoseconds after which the entry can be dropped without loss, if no call uses
    /// it. `None` while it has waiters or holders, and has to stay.
    fn idle_after(&self, slot: &mut Self::Slot, state: &Self::ShardState, now: Tick)
    -> Option<u64>;

    /// Checks two of the entries that share something, and returns what they no longer need, for
    /// the caller to drop under no lock.
    fn tidy(&self, _shard: &mut Shard<Self>, _now: Tick) -> [Option<Self::Shared>; 2] {
        [None, None]
    }

    /// Returns the error for a key that finds no room; there may be room after `after` nanoseconds.
    fn too_many_keys(&self, after: Option<u64>) -> AcquireError;

    fn now(&self) -> Tick {
        Tick::default()
    }
}

/// A permit, or the shared part that has to be called for it under no lock.
pub(super) type Entered<C> = Result<<C as Limits>::Permit, <C as Contents>::Shared>;

/// The limits of all keys of a map.
pub trait Limits: Contents {
    /// What an admitted caller holds.
    type Permit;
    /// The type of a cost.
    type Cost;
    /// A wait in the queue of a key.
    type Wait: Future<Output = Result<Self::Permit, AcquireError>> + Unpin;

    /// Decides a call for which no entry is needed: one that costs nothing, or is never admitted.
    fn decide_absent(
        &self,
        _state: &Self::ShardState,
        _cost: Self::Cost,
        _now: Tick,
    ) -> Option<Result<Self::Permit, AcquireError>> {
        None
    }

    /// Decides a call.
    fn decide(
        &self,
        held: Held<'_, Self>,
        cost: Self::Cost,
        now: Tick,
        waits: bool,
    ) -> Result<Entered<Self>, AcquireError>;

    /// Returns what an entry shares with waiters and holders, if there is anything.
    fn shared(slot: &Self::Slot) -> Option<Self::Shared>;

    fn try_shared(shared: Self::Shared, cost: Self::Cost) -> Result<Self::Permit, AcquireError>;

    fn wait_for_shared(shared: Self::Shared, cost: Self::Cost) -> Self::Wait;

    /// Returns the tick of a permit, or the current one, like
    /// [`Throttle::tick`](crate::Throttle::tick).
    fn tick(&self, _permit: Option<&Self::Permit>) -> Option<Tick> {
        None
    }

    /// Waits as of a tick, like [`Throttle::enter_as_of`](crate::Throttle::enter_as_of).
    fn wait_as_of(shared: Self::Shared, cost: Self::Cost, _tick: Tick) -> Self::Wait {
        Self::wait_for_shared(shared, cost)
    }

    fn close(shared: &Self::Shared);

    /// Applies a new answer to an entry; [`reset`](Self::reset) applies it to what the entry
    /// shares.
    fn requota(&self, _held: Held<'_, Self>, _asked: &Self::Asked, _now: Tick) {}

    /// Applies a new answer to waiters and holders.
    fn reset(shared: &Self::Shared, asked: &Self::Asked);
}
