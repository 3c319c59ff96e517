//! Gates by key.
//!
//! 1. A key is kept while it is paused or has waiters; a call for another key needs no entry, and passes.
//! 2. An entry holds a gate, which its waiters share. The gate is blocked only under the lock of its shard,
//!    so a gate that is found there open and unshared stays so until it is dropped.
//! 3. A paused key is never dropped to make room. A pause is refused only if the whole map is in use.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::Keyed;
use super::by_key::{Key, Settle};
use super::kind::{Decided, KeyLimit, KeyStatus, LockedEntry};
use crate::algorithm::QuotaChange;
use crate::error::{AcquireError, ErrorKind};
use crate::first_use::too_late;
use crate::gate::Gate;
use crate::status::{LimitStatus, Snapshot};
use crate::throttle::{Gated, Throttle};
use crate::time::Tick;

/// 16 bytes.
pub struct GateSlot {
    hash: u32,
    gate: Gate,
}

/// The state of a map is a gate that is never blocked, with the clock of all keys.
impl KeyLimit for Gate {
    type Permit = ();
    /// Whether a new key is open. It always is.
    type Setting = bool;
    type Limiter = Self;
    type MapState = Self;
    type ShardState = ();
    type Slot = GateSlot;

    const SETTING: &'static str = "open";

    #[track_caller]
    fn into_pattern(self) -> Self {
        if !self.is_unused() {
            too_late();
        }
        self
    }

    fn map_state(&self, _: bool) -> Self {
        self.with_clock()
    }

    fn shard_state(_: &Self) {}

    fn pattern(map: &Self) -> &Self {
        map
    }

    fn setting(&self) -> bool {
        true
    }

    fn set(&self, _: bool, _: Option<QuotaChange>) {}

    fn close(&self) {
        self.close();
    }

    fn slot(map: &Self, (): &mut (), hash: u32) -> GateSlot {
        let gate = map.with_clock();
        GateSlot { hash, gate }
    }

    fn slot_with(map: &Self, _: bool, hash: u32) -> GateSlot {
        Self::slot(map, &mut (), hash)
    }

    #[inline]
    fn hash(slot: &GateSlot) -> u32 {
        slot.hash
    }

    fn limiter(slot: &GateSlot) -> Option<&Self> {
        Some(&slot.gate)
    }

    fn idle_after(_: &Self, (): &(), slot: &mut GateSlot, _: Tick) -> Option<u64> {
        let left = slot.gate.is_sole_handle().then(|| slot.gate.remaining())?;
        Some(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    fn decide_absent(
        _: &Self,
        (): &(),
        _: u64,
        _: Tick,
    ) -> Option<Result<Decided<Self>, AcquireError>> {
        Some(Ok(Decided::Admitted(())))
    }

    #[inline]
    fn take(_: &Self, entry: &mut LockedEntry<'_, Self>, _: u64, _: Tick) -> Option<()> {
        entry.slot.gate.check().ok()
    }

    fn decide(
        _: &Self,
        entry: LockedEntry<'_, Self>,
        _: u64,
        waits: bool,
    ) -> Result<Decided<Self>, AcquireError> {
        if waits {
            return Ok(Decided::ByLimiter(entry.slot.gate.clone()));
        }
        entry.slot.gate.check()?;
        Ok(Decided::Admitted(()))
    }

    fn status(_: &Self, _: LockedEntry<'_, Self>) -> Result<KeyStatus, Self> {
        Ok(KeyStatus {
            status: LimitStatus::Unknown,
            chunk_units: u64::MAX,
            max_units: u64::MAX,
        })
    }
}

impl Settle for Gate {}

/// One key of a map of gates. A call passes at any cost, unless the key is paused.
impl<Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, Gate, Q, S> {
    /// Pauses the key for `duration` from now, unless it is already paused for longer. Use it for the time
    /// that a service asks for. It takes effect at once, also for waiters; see [`Gate::block_for`].
    ///
    /// The pause is never evicted. A full map drops the keys whose pauses have ended.
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`](ErrorKind::TooManyKeys) if the map is full, and each of its keys is paused or has
    /// waiters; and [`Closed`](ErrorKind::Closed). Then the key is not paused.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, ErrorKind, Gate, Keyed};
    ///
    /// let clock = Clock::manual();
    /// let chats = Keyed::<u64, _>::new(Gate::new().clock(&clock));
    /// chats.key(&7).pause_for(Duration::from_secs(5))?;
    /// let refused = chats.key(&7).try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
    /// chats.key(&8).try_acquire()?;
    ///
    /// clock.advance(Duration::from_secs(5));
    /// chats.key(&7).try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "block_for")]
    pub fn pause_for(&self, duration: Duration) -> Result<(), AcquireError> {
        if duration.is_zero() {
            return Ok(());
        }
        let paused = self.pause_if_room(duration);
        match paused {
            Err(error) if error.kind() == ErrorKind::TooManyKeys => {
                let map = self.map();
                map.shrink(map.now());
                self.pause_if_room(duration)
            }
            paused => paused,
        }
    }

    /// Does the same, but finds room only where other new keys would.
    fn pause_if_room(&self, duration: Duration) -> Result<(), AcquireError> {
        let (map, key) = (self.map(), self.key());
        let block = |entry: LockedEntry<'_, Gate>, _| entry.slot.gate.block_for(duration);
        map.with_entry(key, map.hash(key), |_, _| None, block)
    }

    /// Ends the pause of the key now, and releases its waiters. See [`Gate::open`].
    #[doc(alias = "resume")]
    pub fn open(&self) {
        let shared = self.read(|entry| {
            let gate = &entry.slot.gate;
            (!gate.open_if_sole()).then(|| gate.clone())
        });
        // Opened under no lock, because this calls wakers.
        if let Some(gate) = shared.flatten() {
            gate.open();
        }
    }

    /// Returns whether the key is not paused now.
    pub fn is_open(&self) -> bool {
        let is_open = self.read(|entry| entry.slot.gate.is_open());
        is_open.unwrap_or(true)
    }

    /// Returns the tick of the clock at which the pause of the key ends; `None` if it is not paused.
    pub fn blocked_until(&self) -> Option<Tick> {
        let until = self.read(|entry| entry.slot.gate.blocked_until());
        until.flatten()
    }

    /// Returns the state of the key at one moment. See [`Gate::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        let gate = self.read_or_new(|entry| entry.slot.gate.clone());
        gate.snapshot()
    }
}

impl<'a, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'a, Gate, Q, S> {
    /// Puts the gate of the key in front of a throttle: a caller waits until the key is not paused, enters the
    /// throttle, and is admitted if the key is still not paused. Otherwise its permit is rolled back, and it
    /// waits for the end of the pause. See [`Gated`].
    ///
    /// # Examples
    ///
    /// See [`Gated`].
    #[inline]
    pub fn before<T: Throttle>(&self, throttle: T) -> Gated<Self, T> {
        Gated::new(self.clone(), throttle)
    }
}

/// Construction of a map of gates.
impl<K> Keyed<K, Gate> {
    /// Creates a map in which no key is paused, on [`Clock::default`](crate::Clock::default). See
    /// [`new`](Self::new) for another clock. This is not a `const fn`; a `static` takes a `LazyLock`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Keyed;
    ///
    /// let chats = Keyed::<u64, _>::gates();
    /// chats.key(&7).pause_for(Duration::from_secs(5))?;
    /// assert!(!chats.key(&7).is_open() && chats.key(&8).is_open());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub fn gates() -> Self {
        Self::of_pattern(Gate::new())
    }
}
