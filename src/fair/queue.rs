//! [`FairQueue`]: its options, its classes and its snapshot.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::QueueClass;
use super::class::{Class, Share};
use super::class_handle::ClassHandle;
use super::driver::Shared;
use super::entry::Entry;
use super::{ClassKey, ClassSnapshot, Queueable};
use crate::debug::debug_as;
use crate::first_use::too_late;
use crate::sync::lock;
use crate::time::Clock;

/// A queue in front of a throttle that chooses the next waiter: by priority, by weighted shares,
/// and within each class of callers in an order of its own.
///
/// The throttle can be any [`Throttle`](crate::Throttle) that a task can own, such as an
/// `Arc<Semaphore>`, an `Arc<RateLimiter>` or a composition. All waiters are in this queue, and one
/// entrant of the queue waits in the queue of the throttle. The waiter for a permit is chosen when
/// the throttle admits the entrant, and not when the waiter arrives. Callers that use the throttle
/// directly share it with the entrant, first-in first-out. If only the entrant waits for a permit
/// of an `Arc<Semaphore>`, the permit is handed to the chosen waiter, and does not become free in
/// between.
///
/// Clones share the same queue.
///
/// # Order
///
/// 1. The class of the highest [priority](Class::priority) goes first. With [aging](Self::aging), a
///    class counts as one priority higher for each period that its oldest waiter has waited. Among
///    classes that count as equal, one whose own priority is lower goes before one whose own
///    priority is higher.
/// 2. Among these, the class with the smallest part of the [shared](Self::share) resource, in
///    proportion to its [weight](Class::weight), goes first.
/// 3. Among these, the class that received the fewest permits in proportion to its weight while it
///    waited goes first, and then the one whose oldest waiter came first.
/// 4. A class that holds its [maximum](Class::max_concurrency) is passed over.
/// 5. Within a class, the oldest waiter goes first, or the newest one if the class is overloaded and
///    [serves it first](Class::adaptive_lifo).
///
/// These bounds hold for classes of one priority that are below their maximum, without aging. A
/// class that gets a permit is then ahead of no other class with waiters by more than that permit:
/// `held_i/w_i - held_j/w_j <= 1/w_i`. So unequal shares become level when permits return. By cost,
/// over any interval in which both of two classes have waiters, their charges per weight differ by
/// at most `cost_i/w_i + cost_j/w_j`, where the costs are the largest ones. This is the bound of
/// start-time fair queueing (Goyal, Vin and Cheng, 1996).
///
/// # New keys
///
/// A class pays for its dearest call in advance: its first waiter, and one that costs more than each
/// waiter that was served before, goes after service worth this cost (the difference) per weight. By
/// concurrency every call counts 1. So the first call of a new key that has to wait waits for one round
/// of the other classes, and callers gain nothing by a new key for each call. A waiter that leaves pays
/// nothing. A class in the table pays once; one that was [forgotten](Self::max_classes) pays again.
///
/// Of 100 random worlds with weights up to 100, by cost, no class that waits all the time got less than 99 % of what
/// it gets beside lasting keys. By concurrency the times at which calls end decide, too: before one permit, four worlds
/// were under 95 % (the worst 86 %), and before several, five (59 %). `FAIR_WORLDS=100 cargo test --test adapters
/// newcomers -- --nocapture` prints them.
///
/// `N` new keys that wait together are `N` classes and have `N` shares. If clients can choose their keys,
/// group them: use a class for each account or network, or
/// [`all`](crate::all) with a limit for each of these.
///
/// # Costs of a choice
///
/// A choice takes a logarithm of the number of classes. A caller that need not wait takes no lock
/// and reads no clock in front of throttles that can be [entered without a
/// wait](crate::Throttle::enter_now): the types of this crate, the semaphores of tokio and
/// async-lock, and compositions of these. In front of other throttles every caller enters through
/// the queue.
///
/// # Bounds
///
/// A caller that would wait is refused when its class is [full](Class::max_waiters), and when the
/// whole queue is [full](Self::max_waiters), whatever its priority. Only a class that serves [the
/// newest first](Class::adaptive_lifo) at that moment refuses its oldest waiter instead. One class
/// can fill a queue that is bounded only as a whole, so bound [each class](Class::max_waiters) too.
/// Classes without waiters and permits are forgotten when a new one needs their
/// [room](Self::max_classes).
///
/// # Rates
///
/// Behind the queue, a rate limiter, a leaky bucket, an adaptive rate or a key of rates keeps its
/// pace although timers are late: while there are waiters, an entry counts as made at the
/// tick of the previous charge. If its waiter joined later, and no
/// earlier waiter was passed, it counts as made at the tick of joining. The same holds if costs
/// differ and the waiter that goes next changes. If all waiters are served first-in first-out, the
/// charges have the ticks that they have without the queue. In every order the limiter keeps its
/// bound by these ticks, and makes up for no more than its
/// [`MissedTickBehavior`](crate::rate::MissedTickBehavior) allows.
///
/// It is the same in a composition, a box, a wrapper or another queue. In [`all`](crate::all) of two rates, a caller
/// enters the second one as of the tick at which the first one has charged it. A caller that had to wait for a
/// slot, a gate or anything else without a charge enters the next rate as of then.
///
/// The lateness is lost when a caller uses the limiter directly while more waiters are due than [one call
/// serves](#where-the-throttle-is-polled); if the rates of a composition run on several
/// [clocks](crate::Clock); and at a rate on a server, or of your own, which is not told.
///
/// # Memory
///
/// A waiter takes about 80 bytes in the queue, beside its future and its task, and one allocation for every six
/// waiters. It takes about twice as much if the throttle is on [tokio's
/// time](crate::Clock#limiters-that-are-used-in-several-runtimes), or on another clock than the
/// [queue](Self::clock).
///
/// # Runtimes
///
/// A limiter on [tokio's time](crate::Clock#limiters-that-are-used-in-several-runtimes) has a state for each
/// runtime. Behind a queue, each waiter is admitted by the state of the runtime in which it was last
/// polled, and by no other. The order of the queue holds for the waiters of all runtimes together: while the
/// runtime of the next waiter lives and its time stands still, the waiters of other runtimes stand behind it;
/// their timeouts hold.
///
/// When the runtime of the next waiter ends, that waiter, if it is polled elsewhere, is woken, and is
/// admitted where it is polled; until it is polled or dropped, the others stand behind it. The same holds for
/// a waiter outside of all runtimes, if code in a runtime makes room for it. The queue never returns
/// [`RuntimeEnded`](crate::ErrorKind::RuntimeEnded), except in front of a throttle of your own that does
/// not forward [`polling`](crate::Throttle::polling).
///
/// # Timeouts
///
/// A rate limiter immediately refuses a caller whose timeout is too short for its wait. Behind a
/// queue it does not, because the queue decides later who gets the permits: such a caller waits
/// until its timeout ends. Timeouts run on the [clock](Self::clock) of the queue, if one was set.
///
/// # Cancel safety
///
/// A dropped waiter leaves the queue. This takes constant time; for the oldest of a class it takes
/// a logarithm of the number of classes. If the waiter was given a permit that it has not received,
/// the permit goes to the waiter that is then chosen; without one it is [rolled
/// back](crate::Throttle::rollback).
///
/// # Closing
///
/// Closing the throttle refuses every waiter with [`Closed`](crate::ErrorKind::Closed) as soon as
/// its class is below its maximum, [1,024 in one call](#where-the-throttle-is-polled). A permit
/// that the throttle had granted before may still go to a caller that arrives afterwards, because
/// its receiver is chosen later.
///
/// # Where the throttle is polled
///
/// The queue has no task and needs no runtime. In front of the types of this crate, the code that
/// wakes the queue polls the entrant immediately: a caller that drops a permit, or a timer. One
/// call serves or refuses at most 1,024 waiters. If more could be served, it wakes the next one.
/// The first waiter that is then polled or dropped continues the work, even if it was already
/// served.
///
/// Other throttles may call wakers under a lock of theirs, and cannot be polled there. Among these
/// are the semaphores of tokio and async-lock and `ChannelSemaphore`. In front of them, a wake of
/// the queue wakes the waiter that goes next, and that waiter polls the entrant, for itself and the
/// others. If its task does not poll it, all wait until any waiter of the queue is polled or
/// dropped, a caller joins, or a permit of a class with waiters returns.
///
/// If the throttle panics when the queue polls it, the panic hook reports the panic, and it does
/// not reach the code that woke the queue. The waiter that goes next gets
/// [`Closed`](crate::ErrorKind::Closed), if it asks for the cost of that poll; otherwise the next
/// poll decides. The queue enters the throttle again for the others. A caller that need not wait
/// enters the throttle itself, and gets its panic.
///
/// # Locks
///
/// A caller that waits, returns a permit of a class with waiters, or looks up a class locks the
/// queue briefly. So does one that returns a permit of an `Arc<Semaphore>` while any waiter could
/// be served. Under the lock the queue calls the `Eq` of keys. That `Eq` must not use the same
/// queue, or it deadlocks. The queue calls no waker, no throttle, no function of
/// [`classes`](Self::classes), and no `Hash`, `Clone` or `Drop` of a key under the lock.
///
/// # Examples
///
/// Two tenants share slots equally, regardless of their numbers of requests:
///
/// ```
/// use std::sync::Arc;
/// use tollgate::Semaphore;
/// use tollgate::fair::FairQueue;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let slots = Arc::new(Semaphore::new(2));
/// let queue = FairQueue::new(slots);
/// let held = [queue.class("loud").acquire().await?, queue.class("loud").acquire().await?];
///
/// let loud = tokio::spawn(queue.class("loud").acquire());
/// tokio::task::yield_now().await;
/// let quiet = tokio::spawn(queue.class("quiet").acquire());
/// tokio::task::yield_now().await;
///
/// let [first, second] = held;
/// drop(first);
/// // The other tenant holds less, so its waiter goes first, although it came later.
/// let permit = quiet.await.unwrap()?;
/// assert!(!loud.is_finished());
/// # drop((second, permit));
/// # Ok(())
/// # }
/// ```
///
/// A queue of tenants with weights, a priority and bounds. Every wait ends at shutdown, and after two
/// seconds at the latest:
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use tokio_util::sync::CancellationToken;
/// use tollgate::fair::{Class, FairQueue};
/// use tollgate::{Clock, ErrorKind, Semaphore};
///
/// const PATIENCE: Duration = Duration::from_secs(2);
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let tenants = FairQueue::new(Arc::new(Semaphore::new(2)))
///     .classes(|tenant: &&str| {
///         let class = Class::new().max_waiters(100);
///         match *tenant {
///             "operators" => class.priority(1),
///             "acme" => class.weight(3),
///             _ => class,
///         }
///     })
///     .clock(Clock::tokio());
/// let shutdown = CancellationToken::new();
/// let enter = |tenant| tenants.class(tenant).acquire().cancel_on(&shutdown).timeout(PATIENCE);
///
/// let held = (enter("acme").await?, enter("acme").await?);
/// let start = Instant::now();
/// assert_eq!(enter("smith").await.unwrap_err().kind(), ErrorKind::TimedOut);
/// assert_eq!(start.elapsed(), PATIENCE);
///
/// shutdown.cancel();
/// assert_eq!(enter("operators").await.unwrap_err().kind(), ErrorKind::Cancelled);
/// # drop(held);
/// # Ok(())
/// # }
/// ```
#[must_use = "a queue does nothing until a class of it is entered"]
pub struct FairQueue<T: Queueable, K: ClassKey>(Arc<Shared<T, K>>);

impl<T: Queueable, K: ClassKey> FairQueue<T, K> {
    /// Creates a queue in front of `throttle`, whose classes all have the
    /// [default settings](Class::new).
    pub fn new(throttle: T) -> Self {
        Self(Arc::new(Shared::new(throttle)))
    }

    /// Returns the class of a key, as a throttle. It takes the key by value, and borrows nothing.
    ///
    /// It asks the function of [`classes`](Self::classes) for the settings, unless the queue
    /// remembers the class. A handle keeps the settings of its class: if the class is forgotten and
    /// the handle is used again, the class returns with the settings of the handle.
    ///
    /// # Panics
    ///
    /// Panics if the function of [`classes`](Self::classes) does. The queue is not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Throttle, Semaphore, all};
    /// use tollgate::fair::FairQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let (slots, disk) = (Arc::new(Semaphore::new(8)), Arc::new(Semaphore::new(2)));
    /// let queue = FairQueue::new(slots);
    /// let (slot, spindle) = all((queue.class(7), disk)).acquire().await?;
    /// # drop((slot, spindle));
    /// # Ok(())
    /// # }
    /// ```
    pub fn class(&self, key: K) -> ClassHandle<T, K> {
        let hash = self.0.hasher.hash_one(&key);
        let locked = lock(&self.0.locked);
        let found = locked.schedule.find(hash, &key).map(Arc::clone);
        drop(locked);
        let entry = found.unwrap_or_else(|| {
            let class = (self.0.class_map)(&key);
            Arc::new(Entry::new(key, hash, class))
        });
        let queue = Arc::clone(&self.0);
        ClassHandle(Arc::new(QueueClass::new(queue, entry)))
    }

    /// Returns the throttle.
    pub fn throttle(&self) -> &T {
        &self.0.throttle
    }

    /// Returns the number of waiters.
    pub fn waiting(&self) -> usize {
        lock(&self.0.locked).schedule.waiting
    }

    /// Returns the classes that have waiters or hold permits, in no particular order.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::fair::FairQueue;
    ///
    /// let queue = FairQueue::new(Arc::new(Semaphore::new(8)));
    /// let permit = queue.class("alice").try_acquire()?;
    /// let [alice] = &queue.snapshot()[..] else { panic!("one class is in use") };
    /// assert_eq!((alice.key, alice.held, alice.waiting), ("alice", 1, 0));
    /// # drop(permit);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Vec<ClassSnapshot<K>>
    where
        K: Clone,
    {
        let now = self.0.clock.now();
        let locked = self.0.lock();
        let mut in_use = Vec::new();
        for class in &locked.schedule.classes {
            let (held, waiting) = (class.entry.held(), class.waiters.len());
            if held > 0 || waiting > 0 {
                let oldest = class.waiters.first_key_value();
                let oldest_wait = oldest.map(|(_, waiter)| now.saturating_since(waiter.since));
                in_use.push((Arc::clone(&class.entry), held, waiting, oldest_wait));
            }
        }
        drop(locked);
        // Keys are cloned after unlocking.
        let in_use = in_use.into_iter();
        let snapshot = in_use.map(|(entry, held, waiting, oldest_wait)| ClassSnapshot {
            key: entry.key.clone(),
            class: entry.class,
            held,
            waiting,
            oldest_wait,
        });
        snapshot.collect()
    }
}

/// Options. Set them first: each panics if a class or a clone of the queue exists, or if a class
/// was used.
impl<T: Queueable, K: ClassKey> FairQueue<T, K> {
    /// Sets the function that maps a key to the settings of its class.
    ///
    /// # Panics
    ///
    /// Panics if a class or a clone of the queue exists, or a class was used.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::fair::{Class, FairQueue};
    ///
    /// #[derive(PartialEq, Eq, Hash)]
    /// enum Work {
    ///     Interactive,
    ///     Batch,
    /// }
    ///
    /// let queue = FairQueue::new(Arc::new(Semaphore::new(8))).classes(|work| match work {
    ///     Work::Interactive => Class::new().priority(1),
    ///     Work::Batch => Class::new().max_concurrency(6),
    /// });
    /// let batch: Vec<_> = (0..10).map(|_| queue.class(Work::Batch).try_acquire()).collect();
    /// assert_eq!(batch.iter().filter(|permit| permit.is_ok()).count(), 6);
    /// assert!(queue.class(Work::Interactive).try_acquire().is_ok());
    /// ```
    #[track_caller]
    pub fn classes(self, of: impl Fn(&K) -> Class + Send + Sync + 'static) -> Self {
        self.option(|shared| shared.class_map = Box::new(of))
    }

    /// Sets the resource that the classes of one priority share.
    ///
    /// # Panics
    ///
    /// Panics if a class or a clone of the queue exists, or a class was used.
    #[track_caller]
    pub fn share(self, share: Share) -> Self {
        self.option(|shared| lock(&shared.locked).schedule.share = share)
    }

    /// Sets the maximum number of remembered classes; 10,000 by default. A caller of one more is
    /// refused with [`QueueFull`](crate::ErrorKind::QueueFull), unless a class that is not in use
    /// can be forgotten; the queue looks at 64 classes for that. It forgets one that is not ahead
    /// of the others. If all are ahead, it forgets the one that is least ahead; that forgives at
    /// most the charge of its last waiter.
    ///
    /// # Panics
    ///
    /// Panics if `classes` is 0, if a class or a clone of the queue exists, or if a class was used.
    #[track_caller]
    pub fn max_classes(self, classes: usize) -> Self {
        assert!(classes > 0, "a fair queue needs at least 1 class, not 0");
        self.option(|shared| lock(&shared.locked).schedule.max_classes = classes)
    }

    /// Sets the maximum number of waiting callers of all classes; there is no bound by default.
    /// With 0, a caller that would wait is refused; and so is every caller in front of a throttle
    /// that cannot be [entered without a wait](crate::Throttle::enter_now). Each class can also
    /// have [its own bound](Class::max_waiters).
    ///
    /// # Panics
    ///
    /// Panics if a class or a clone of the queue exists, or a class was used.
    #[track_caller]
    pub fn max_waiters(self, waiters: usize) -> Self {
        self.option(|shared| lock(&shared.locked).schedule.max_waiters = waiters)
    }

    /// Raises a class by one priority for each `per_level` that its oldest waiter has waited, so
    /// that nobody waits for ever. By default priorities are strict.
    ///
    /// A class that can serve [the newest first](Class::adaptive_lifo) does not age: its oldest
    /// waiter need not go next, and would keep the class raised for as long as it waits. The queue
    /// checks the time when a caller joins, leaves or is served, and when a permit of a class with
    /// waiters returns, or any permit of an `Arc<Semaphore>`. So if costs differ, a waiter that has
    /// become the next one may wait for one of these events, although the throttle could admit it.
    ///
    /// # Panics
    ///
    /// Panics if `per_level` is zero, if a class or a clone of the queue exists, or if a class was
    /// used.
    #[track_caller]
    pub fn aging(self, per_level: Duration) -> Self {
        assert!(
            !per_level.is_zero(),
            "the period of aging must be longer than {per_level:?}"
        );
        self.option(|shared| lock(&shared.locked).schedule.aging = Some(per_level))
    }

    /// Sets the clock that measures the waiting times of callers, and runs their timeouts. By
    /// default [`Clock::default`] measures, and timeouts run on tokio's time, or outside a runtime
    /// on the system's, whatever clock the throttle has.
    ///
    /// # Panics
    ///
    /// Panics if a class or a clone of the queue exists, or a class was used.
    #[track_caller]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.option(|shared| {
            shared.clock = clock.into();
            shared.has_own_clock = true;
        })
    }

    #[track_caller]
    fn option(mut self, change: impl FnOnce(&mut Shared<T, K>)) -> Self {
        let unshared = Arc::get_mut(&mut self.0);
        // A dropped class is still remembered, with the decisions of the earlier options.
        match unshared.filter(|shared| lock(&shared.locked).schedule.classes.is_empty()) {
            Some(shared) => change(shared),
            None => too_late(),
        }
        self
    }
}

impl<T: Queueable, K: ClassKey> Clone for FairQueue<T, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

debug_as! {
    [T: Queueable, K: ClassKey] FairQueue<T, K>, self
    => FairQueue { waiting: self.waiting(), .. }
}
