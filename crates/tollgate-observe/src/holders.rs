//! [`Holders`]: a list of the held permits.
//!
//! 1. A permit has a slot in one of the shards: the shard of the thread that acquired it. The
//!    permit carries the numbers of both, so another thread may release it, and both take constant
//!    time.
//! 2. A slot is reused once its permit is released. A shard never shrinks.
//! 3. The lock of a shard is held for some nanoseconds, and no foreign code runs under it.
//! 4. A label belongs to a list, so a permit costs nothing for it. The first list has weak references to
//!    those with labels, and each of them refers to it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

#[cfg(feature = "tokio")]
use tokio::task::try_id as current_task;

use super::{Observer, Place};
use tollgate::Clock;
use tollgate::time::Tick;

/// The number of shards, which threads use in turn.
const SHARDS: usize = 16;

thread_local! {
    /// The shard of the thread.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// An [`Observer`] that lists the permits that are held now, since when, and where each was acquired. Use it
/// to find a permit that is held too long, and the code that holds it.
///
/// A clone is another handle of the same list. A handle with a [label](Self::labelled) marks its
/// permits, for example with a tenant. The [`Debug`](fmt::Debug) form is a table, oldest first.
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

/// A held permit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Where it was acquired, or [where the throttle was created](super::Observed#places).
    pub place: Place,
    /// The tick at which it was acquired.
    pub since: Tick,
    /// How long it has been held.
    pub held: Duration,
    /// The [label](Holders::labelled) of the handle that listed it.
    pub label: Option<Arc<str>>,
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

/// Without tokio, tasks are unknown.
#[cfg(not(feature = "tokio"))]
type Task = Option<std::convert::Infallible>;

#[cfg(not(feature = "tokio"))]
fn current_task() -> Task {
    None
}

/// Locks a mutex. A panic under the lock leaves its value consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct List {
    name: Box<str>,
    clock: Clock,
    label: Option<Arc<str>>,
    /// The first list, if this is a list with a label.
    first: Option<Arc<List>>,
    /// The other lists, if this is the first.
    others: Mutex<Vec<Weak<List>>>,
    shards: [Padded<Mutex<Shard>>; SHARDS],
}

/// A shard on cache lines of its own, so that threads of different shards do not contend for a line.
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
        Self::with(name.into().into(), Clock::default(), None, None)
    }

    /// Creates an empty list with the same name and label on this clock.
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        let (name, label) = (self.0.name.clone(), self.0.label.clone());
        Self::with(name, clock.into(), label, None)
    }

    fn with(
        name: Box<str>,
        clock: Clock,
        label: Option<Arc<str>>,
        first: Option<Arc<List>>,
    ) -> Self {
        Self(Arc::new(List {
            name,
            clock,
            label,
            first,
            others: Mutex::default(),
            shards: Default::default(),
        }))
    }

    /// Returns a handle of the same list that gives its permits a label, for example the name of a tenant
    /// or a job. It replaces the label of this handle.
    ///
    /// An entry costs the same with and without a label. The handle takes about 2,200 bytes, until the last
    /// clone of it and the last of its permits are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Semaphore;
    /// use tollgate_observe::{Holders, Observed};
    ///
    /// let (uploads, holders) = (Semaphore::new(8), Holders::new("uploads"));
    /// let of_ann = Observed::new(&uploads, holders.labelled("ann"));
    /// let _permit = of_ann.try_acquire()?;
    /// assert_eq!(holders.list()[0].label.as_deref(), Some("ann"));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub fn labelled(&self, label: impl Into<Arc<str>>) -> Self {
        let first = self.first();
        let (name, clock) = (first.name.clone(), first.clock.clone());
        let other = Self::with(name, clock, Some(label.into()), Some(Arc::clone(first)));
        let mut others = lock(&first.others);
        others.retain(|other| other.strong_count() > 0);
        others.push(Arc::downgrade(&other.0));
        drop(others);
        other
    }

    fn first(&self) -> &Arc<List> {
        self.0.first.as_ref().unwrap_or(&self.0)
    }

    /// Returns all holders, the oldest first.
    ///
    /// The shards are visited one after the other, so a permit that is acquired or released
    /// meanwhile may be listed or not.
    pub fn list(&self) -> Vec<Holder> {
        let first = self.first();
        let now = first.clock.now();
        let mut lists = vec![Arc::clone(first)];
        lists.extend(lock(&first.others).iter().filter_map(Weak::upgrade));
        let mut holders = Vec::new();
        for list in lists {
            for shard in &list.shards {
                let shard = lock(&shard.0);
                holders.extend(shard.slots.iter().flatten().map(|slot| Holder {
                    place: slot.place,
                    since: slot.since,
                    held: now.saturating_since(slot.since),
                    label: list.label.clone(),
                    task: slot.task,
                }));
            }
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
        // There is none during the teardown of the thread.
        let shard = SHARD.try_with(|shard| *shard).unwrap_or(0);
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
        for holder in holders {
            let Holder { place, held, .. } = holder;
            write!(f, "\n{held:>12.3?}  {place}")?;
            if let Some(label) = holder.label {
                write!(f, "  {label}")?;
            }
            if let Some(task) = holder.task {
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
