//! [`KeyLimit`], the one interface of the kinds of limits by key: [rates](super::rates),
//! [semaphores](super::permits) and [gates](super::gates).
//!
//! Methods that take a slot or the state of a shard run under the lock of that shard, and call no
//! foreign code. [`tick`](KeyLimit::tick) and [`jittered`](KeyLimit::jittered) may also run under
//! it. All others run under no lock.

use std::borrow::Borrow;
use std::fmt;
use std::time::Duration;

use hashbrown::HashTable;

use crate::algorithm::QuotaChange;
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::throttle::{Inspect, Polling, Weighted};
use crate::time::Tick;
use crate::{Throttle, TryThrottle};

/// What the table and the handle of a key ask of a limit. No other crate can name this trait, so none
/// can implement it.
pub trait KeyLimit: Sized + 'static {
    /// The permit of an admitted caller.
    type Permit;
    /// The user's setting for a key: its quota, or its number of permits.
    type Setting: Copy + PartialEq + fmt::Display;
    /// A shared handle of a limit, which an entry has in common with its waiters and holders.
    type Limiter: Borrow<Self>
        + Clone
        + Weighted<Permit = Self::Permit, Enter: Unpin, Many: TryThrottle>
        + Inspect;
    /// The state common to all keys of a map.
    type MapState;
    /// The state of a shard beside its entries.
    type ShardState;
    /// The state of a key: 16 bytes, four of them for the hash of the key. So a table grows without
    /// calling the key's own `Hash`, under a lock or otherwise, and without fetching the key.
    type Slot;

    /// The name of a setting in debug output.
    const SETTING: &'static str;

    /// Returns the limit unchanged, for the options of keys.
    ///
    /// # Panics
    ///
    /// Panics if the limit has been used, or cannot be the limit of a key.
    #[track_caller]
    fn into_pattern(self) -> Self;

    /// Creates the state of a map whose limits have the options of this one. `has_settings` tells
    /// whether keys have their own settings.
    fn map_state(&self, has_settings: bool) -> Self::MapState;

    fn shard_state(map: &Self::MapState) -> Self::ShardState;

    /// Returns the limit that has the current setting of all keys.
    fn pattern(map: &Self::MapState) -> &Self;

    fn setting(&self) -> Self::Setting;

    /// Changes the setting. A rate carries over what was spent in this way, or in the default one
    /// of its algorithm.
    #[track_caller]
    fn set(&self, setting: Self::Setting, how: Option<QuotaChange>);

    fn close(&self);

    /// Returns the slot of a new key.
    fn slot(map: &Self::MapState, shard: &mut Self::ShardState, hash: u32) -> Self::Slot;

    /// Returns the slot of a new key that has its own setting.
    ///
    /// # Panics
    ///
    /// Panics if no key can have this setting.
    fn slot_with(map: &Self::MapState, setting: Self::Setting, hash: u32) -> Self::Slot;

    /// Returns the hash of the key.
    fn hash(slot: &Self::Slot) -> u32;

    /// Returns the limiter that an entry shares with waiters and holders, if there is one.
    fn limiter(slot: &Self::Slot) -> Option<&Self::Limiter>;

    /// Returns the nanoseconds after which the entry can be dropped without loss, if no call uses
    /// it. `None` while it has waiters or holders, and has to stay.
    fn idle_after(
        map: &Self::MapState,
        shard: &Self::ShardState,
        slot: &mut Self::Slot,
        now: Tick,
    ) -> Option<u64>;

    /// Returns whether the entry can be dropped now without loss. This is the cheap form of
    /// [`idle_after`](Self::idle_after).
    fn is_idle(
        map: &Self::MapState,
        shard: &Self::ShardState,
        slot: &mut Self::Slot,
        now: Tick,
    ) -> bool {
        Self::idle_after(map, shard, slot, now) == Some(0)
    }

    /// Checks two of the entries with a shared limiter, and returns the limiters that they no
    /// longer need, for the caller to drop under no lock.
    fn reclaim_limiters<K>(
        _map: &Self::MapState,
        _shard: &mut Self::ShardState,
        _table: &mut HashTable<Entry<K, Self>>,
        _now: Tick,
    ) -> [Option<Self::Limiter>; 2] {
        [None, None]
    }

    /// Gives an entry the setting of a new slot, unless it has a limiter, which is changed under no
    /// lock.
    fn replace_setting(
        _map: &Self::MapState,
        _entry: LockedEntry<'_, Self>,
        _new: Self::Slot,
        _how: Option<QuotaChange>,
    ) {
    }

    /// Returns the time after which a refused call may try again, with jitter.
    fn jittered(_map: &Self::MapState, after: Duration) -> Duration {
        after
    }

    /// Returns the current tick, where entries depend on time.
    fn now(_map: &Self::MapState) -> Tick {
        Tick::default()
    }

    /// Reports the tick of a charge to the fair queue whose entrant the caller is, if it is one. Permits of
    /// semaphores have none.
    fn report(_map: &Self::MapState, _permit: &Self::Permit) {}

    /// Returns where waits may be polled, like [`Throttle::polling`].
    fn polling(_map: &Self::MapState) -> Polling {
        Polling::BY_WAKERS
    }

    /// Decides a call that needs no entry: one that costs nothing, or is never admitted.
    fn decide_absent(
        _map: &Self::MapState,
        _shard: &Self::ShardState,
        _cost: u64,
        _now: Tick,
    ) -> Option<Result<Decided<Self>, AcquireError>> {
        None
    }

    /// Takes a permit, if the entry alone can admit the call.
    fn take(
        map: &Self::MapState,
        entry: &mut LockedEntry<'_, Self>,
        cost: u64,
        now: Tick,
    ) -> Option<Self::Permit>;

    /// Decides a call that got no permit at a tick from before the lock. If it `waits`, the limiter
    /// of the key may decide instead.
    fn decide(
        map: &Self::MapState,
        entry: LockedEntry<'_, Self>,
        cost: u64,
        waits: bool,
    ) -> Result<Decided<Self>, AcquireError>;

    /// Returns the status of an entry without a limiter, or the limiter.
    fn status(
        map: &Self::MapState,
        entry: LockedEntry<'_, Self>,
    ) -> Result<KeyStatus, Self::Limiter>;
}

/// A key and its slot.
pub struct Entry<K, T: KeyLimit> {
    pub(super) key: K,
    pub(super) slot: T::Slot,
}

/// An entry, under the lock of its shard.
pub struct LockedEntry<'a, T: KeyLimit> {
    pub(super) slot: &'a mut T::Slot,
    pub(super) state: &'a mut T::ShardState,
    pub(super) closed: bool,
}

/// The future of a wait for the limiter of a key.
pub(super) type EnterLimiter<T> = <<T as KeyLimit>::Limiter as Throttle>::Enter;

/// The decision of the entry of a key about a call that it does not refuse.
pub enum Decided<T: KeyLimit> {
    Admitted(T::Permit),
    /// The limiter of the key decides, under no lock of the map.
    ByLimiter(T::Limiter),
}

/// The capacity that the limit of a key allows now.
pub struct KeyStatus {
    pub(super) status: LimitStatus,
    /// The chunk size for adapters.
    pub(super) chunk_units: u64,
    /// The maximum cost of one call, at least 1.
    pub(super) max_units: u64,
}
