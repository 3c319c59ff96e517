//! What a map keeps for its keys: the one interface between the [map](super::map), the methods of a
//! [key](super::key), and the two kinds of limits, [rates](super::rates) and
//! [permits](super::permits).
//!
//! Methods that take a slot or the state of a shard run under the lock of that shard, and call no
//! foreign code; all others run under no lock.

use std::future::Future;

use hashbrown::HashTable;

use super::map::{Entry, Held, Map};
use crate::error::AcquireError;
use crate::time::Tick;

/// Keeps others from implementing [`Kind`](super::Kind).
pub trait Sealed {}

/// What a map needs to know of the limits of its keys.
pub trait Contents: Sized {
    type Key;
    /// What is kept for a key: 16 bytes, of which four are the hash of the key. So a table grows
    /// without calling the key's own `Hash`, under a lock or otherwise, and without fetching the key.
    type Slot;
    /// What a shard keeps beside its entries.
    type ShardState;
    /// What the user's function says about a key.
    type Asked;
    /// What an entry shares with its waiters and holders.
    type Shared;

    /// The hash of the key.
    fn hash(slot: &Self::Slot) -> u32;

    fn shard_state(&self) -> Self::ShardState;

    /// Asks the user's function, if there is one.
    fn ask(&self, key: &Self::Key) -> Self::Asked;

    /// The slot of a new key.
    fn slot(&self, state: &mut Self::ShardState, asked: &Self::Asked, hash: u32) -> Self::Slot;

    /// In how many nanoseconds nothing is lost with an entry, if nobody uses it; `None` while
    /// somebody waits or holds something, so that it stays.
    fn idle_after(&self, slot: &mut Self::Slot, state: &Self::ShardState, now: Tick)
    -> Option<u64>;

    /// Looks after two of the entries that share something, and returns what they do not need any
    /// more, to be dropped under no lock.
    fn tidy(
        &self,
        _table: &mut HashTable<Entry<Self>>,
        _state: &mut Self::ShardState,
        _now: Tick,
    ) -> [Option<Self::Shared>; 2] {
        [None, None]
    }

    /// The error of a key that finds no room; perhaps there is some after so many nanoseconds.
    fn too_many_keys(&self, after: Option<u64>) -> AcquireError;

    fn now(&self) -> Tick {
        Tick::default()
    }
}

/// A permit, or what has to be asked for it under no lock.
pub(super) type Entered<C> = Result<<C as Limits>::Permit, <C as Contents>::Shared>;

/// The limits of all keys of a map.
pub trait Limits: Contents {
    /// What a caller holds afterwards.
    type Permit;
    /// How much a call asks for.
    type Cost;
    /// A wait in the queue of a key.
    type Wait: Future<Output = Result<Self::Permit, AcquireError>> + Unpin;

    /// Called before the clock is read for a call.
    #[inline]
    fn enter_runtime<S>(_map: &Map<Self, S>) {}

    /// Decides a call that does not wait, if that is simple: nearly every call.
    #[inline]
    fn try_now(
        &self,
        held: Held<'_, Self>,
        cost: Self::Cost,
        now: Tick,
    ) -> Option<Result<Self::Permit, AcquireError>> {
        let entered = self.decide(held, cost, now, false);
        entered.map(Result::ok).transpose()
    }

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

    /// What an entry shares with waiters and holders, if there is anything.
    fn shared(slot: &Self::Slot) -> Option<Self::Shared>;

    fn try_acquire(shared: Self::Shared, cost: Self::Cost) -> Result<Self::Permit, AcquireError>;

    fn acquire(shared: Self::Shared, cost: Self::Cost) -> Self::Wait;

    /// How many callers wait.
    fn waiting(shared: &Self::Shared) -> usize;

    fn close(shared: &Self::Shared);

    /// Lets an entry go by another answer; what it shares is left to [`reset`](Self::reset).
    fn requota(&self, _held: Held<'_, Self>, _asked: &Self::Asked, _now: Tick) {}

    /// Lets waiters and holders go by another answer.
    fn reset(shared: &Self::Shared, asked: &Self::Asked);
}
