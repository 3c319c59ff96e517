//! [`Holders`]: a list of the permits that are out.
//!
//! 1. A permit has a slot in one of the shards: the shard of the thread that acquired it. The
//!    permit carries the numbers of both, so another thread may release it, and both take constant
//!    time.
//! 2. A slot is reused once its permit is released. A shard never shrinks.
//! 3. The lock of a shard is held for some nanoseconds, and no foreign code runs under it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "tokio")]
use tokio::task::try_id as current_task;

use super::{Observer, Place};
use tollgate::{Clock, Tick};

/// The number of shards, which threads use in turn.
const SHARDS: usize = 16;

thread_local! {
    /// The shard of the thread.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// An [`Observer`] that lists the permits that are held now: since when, and where each was
/// acquired. It finds the permit that is held too long, and the code that holds it.
///
/// A clone is another handle of the same list. The [`Debug`](fmt::Debug) form is a table, oldest
/// first.
///
/// # Cost
///
/// An entry and its release read the clock once and lock one of 16 shards twice. Memory is about 64
/// bytes for each permit that was ever held at once.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_observe::{Holders, Observed};
/// use tollgate::{Clock, Semaphore};
///
/// let clock = Clock::manual();
/// let holders = Holders::new("uploads").clock(&clock);
/// let uploads = Semaphore::new(8);
/// let uploads = Observed::new(&uploads, &holders);
///
/// let _leaked = uploads.try_acquire()?;
/// clock.advance(Duration::from_secs(60));
/// let _permit = uploads.try_acquire()?;
///
/// let suspects = holders.older_than(Duration::from_secs(30));
/// assert_eq!(suspects.len(), 1);
/// assert_eq!(suspects[0].held, Duration::from_secs(60));
/// // The line of the first `try_acquire`.
/// assert_eq!(suspects[0].place.file(), file!());
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Holders(Arc<List>);

/// A permit that is held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Where it was acquired, or [where the throttle was created](super::Observed#places).
    pub place: Place,
    /// The tick at which it was acquired.
    pub since: Tick,
    /// How long it has been held.
    pub held: Duration,
    task: Task,
}

#[cfg(feature = "tokio")]
impl Holder {
    /// Returns the tokio task that acquired it; `None` outside of tasks.
    pub fn task(&self) -> Option<tokio::task::Id> {
        self.task
    }
}

/// The task that a permit was acquired in.
#[cfg(feature = "tokio")]
type Task = Option<tokio::task::Id>;

/// Without tokio, nothing is known of tasks.
#[cfg(not(feature = "tokio"))]
type Task = Option<std::convert::Infallible>;

#[cfg(not(feature = "tokio"))]
fn current_task() -> Task {
    None
}

/// Locks a shard. A panic under the lock leaves it consistent.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

struct List {
    name: Box<str>,
    clock: Clock,
    shards: [Padded<Mutex<Shard>>; SHARDS],
}

/// On its own cache lines, so that threads do not contend for those of others.
#[repr(align(128))]
#[derive(Default)]
struct Padded<T>(T);

#[derive(Default)]
struct Shard {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
}

struct Slot {
    place: Place,
    since: Tick,
    task: Task,
}

/// The shard and the slot of a permit.
#[derive(Debug)]
pub struct HolderId {
    shard: usize,
    slot: usize,
}

impl Holders {
    /// Creates an empty list, on [`Clock::default`]. The name is part of the debug form.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into().into(), Clock::default())
    }

    /// Creates an empty list with the same name on this clock.
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        Self::with(self.0.name.clone(), clock.into())
    }

    fn with(name: Box<str>, clock: Clock) -> Self {
        Self(Arc::new(List {
            name,
            clock,
            shards: Default::default(),
        }))
    }

    /// Returns all holders, the oldest first.
    ///
    /// The shards are visited one after the other, so a permit that is acquired or released
    /// meanwhile may be listed or not.
    pub fn list(&self) -> Vec<Holder> {
        let now = self.0.clock.now();
        let mut holders = Vec::new();
        for shard in &self.0.shards {
            let shard = lock(&shard.0);
            holders.extend(shard.slots.iter().flatten().map(|slot| Holder {
                place: slot.place,
                since: slot.since,
                held: now.saturating_since(slot.since),
                task: slot.task,
            }));
        }
        holders.sort_by_key(|holder| holder.since);
        holders
    }

    /// Returns the holder that has held its permit for longest.
    pub fn oldest(&self) -> Option<Holder> {
        self.list().into_iter().next()
    }

    /// Returns the holders that have held their permits for longer than `age`, the oldest first.
    pub fn older_than(&self, age: Duration) -> Vec<Holder> {
        let mut holders = self.list();
        holders.retain(|holder| holder.held > age);
        holders
    }
}

impl Shard {
    fn insert(&mut self, slot: Slot) -> usize {
        let Some(free) = self.free.pop() else {
            self.slots.push(Some(slot));
            return self.slots.len() - 1;
        };
        self.slots[free] = Some(slot);
        free
    }

    fn remove(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free.push(slot);
    }
}

impl Observer for Holders {
    type Held = HolderId;

    fn admitted(&self, place: Place, _: Option<Duration>) -> HolderId {
        let holder = Slot {
            place,
            since: self.0.clock.now(),
            task: current_task(),
        };
        let shard = SHARD.with(|shard| *shard);
        let slot = lock(&self.0.shards[shard].0).insert(holder);
        HolderId { shard, slot }
    }

    fn released(&self, held: HolderId) {
        lock(&self.0.shards[held.shard].0).remove(held.slot);
    }

    fn undone(&self, held: HolderId) {
        self.released(held);
    }
}

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holders = self.list();
        write!(f, "{} holders of {}", holders.len(), self.0.name)?;
        for Holder {
            place, held, task, ..
        } in holders
        {
            write!(f, "\n{held:>12.3?}  {place}")?;
            if let Some(task) = task {
                write!(f, "  task {task}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admitted_after_a_release_uses_the_slot_again() {
        let holders = Holders::new("slots").clock(Clock::manual());
        let admit = || holders.admitted(std::panic::Location::caller(), None);
        for _ in 0..1000 {
            let both = [admit(), admit()];
            both.into_iter().for_each(|held| holders.released(held));
            holders.undone(admit());
        }
        let slots = |shard: &Padded<Mutex<Shard>>| lock(&shard.0).slots.len();
        assert_eq!(holders.0.shards.iter().map(slots).sum::<usize>(), 2);
    }
}
