//! [`Detector`]: its options, the recording of calls, and the passes that count them.
//!
//! A pass holds the lock of the analysis; recording takes only the locks of the buffers, and gates
//! have their own lock. No two of these locks are held at once, with one exception: a pass takes
//! the others while it holds its own.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{AcquireError, Clock, Gate, Quota};

use crate::analysis::{Analysis, Count, Pass};
use crate::buffers::{self, Buffers};
use crate::gates::Gates;
use crate::sync::{Mutex, lock};

/// Flags callers that make more calls than a threshold within a long period, and blocks their gates
/// for a penalty time.
///
/// - For each request: [`check`](Gate::check) of the caller's [`Gate`], and [`record`](Self::record). Neither
///   waits.
/// - Periodically, in the background: a [`pass`](Self::pass), which counts the records and blocks the gates
///   of callers over the threshold. [`run`](Self::run) repeats passes.
///
/// # Accuracy
///
/// With a period of `P`, a threshold of `N`, and passes that each end at most `I` after the one
/// before began:
///
/// - **A caller that never makes more than `N` calls within any time of `P` is not flagged**,
///   however many other callers there are, and whenever passes run.
/// - **A caller that makes more than `N + E` calls within a time of `3/4 P - 2 I` is flagged by the
///   pass that follows**, if not before, and so at most `I` later. [Each pass](Pass::error) reports
///   `E`. It is at most the number of all calls recorded within `P`, divided by the
///   [capacity](Self::capacity), plus the calls [lost](Pass::lost) in that time. A pass [passes
///   over](Pass::passed_over) such a caller only while as many gates as the capacity are blocked.
/// - A caller that keeps making more than `N + E` calls within any time of `P - I` is flagged
///   eventually.
///
/// Calls that led to a penalty are not counted again. A second penalty needs a second excess; it
/// may consist of calls that are recorded while the gate is blocked.
///
/// The counters are those of *Space-Saving*: Metwally, Agrawal, El Abbadi, *Efficient Computation
/// of Frequent and Top-k Elements in Data Streams*, ICDT 2005. A key with more calls than all
/// records divided by the capacity always has a counter.
///
/// # Losses
///
/// Recording never waits. Between two passes, records are summed up by key in small tables, one for
/// each processor. A record is lost if its table has no room for another key, or if two threads
/// contend twice in a row; the next pass reports the number of lost records. A key that is in a
/// table loses no records for lack of room, so the lost records are those of infrequent keys. If
/// many are lost, run passes more often, or enlarge the [buffer](Self::buffer).
///
/// # Memory
///
/// Memory does not grow with the number of keys. With keys of `k` bytes ([`size_of`], rounded up to a
/// multiple of 8) on `p` processors (rounded up to a power of two, at most 64) it is at most
///
/// ```text
/// 4 × capacity × (k + 52) + (p + 1) × buffer × (k + 32) + a few kilobytes
/// ```
///
/// bytes, plus the heap memory of the keys, plus the [gates](Self::gate) that have handles or are blocked.
/// After the first pass, recording and counting allocate nothing if cloning a key does not.
///
/// # Keys
///
/// A key is cloned when it is first recorded after a pass. Use a type that is cheap to clone, such
/// as a number, an `IpAddr` or an `Arc<str>`. Its `Hash`, `Eq`, `Clone` and `Drop` are called under
/// locks, and must not use the detector. Keys are compared with `Eq`, never by their hashes alone,
/// so no caller is blocked in place of another one; each detector seeds its hash at random.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Quota};
/// use tollgate_detector::Detector;
///
/// let clock = Clock::manual();
/// let detector = Detector::new(Quota::per_minute(100))
///     .penalty(Duration::from_secs(600))
///     .clock(&clock);
///
/// let gate = detector.gate(&"mallory");
/// for _ in 0..101 {
///     gate.check()?;
///     detector.record(&"mallory");
/// }
/// detector.record(&"alice");
///
/// assert_eq!(detector.pass().flagged, ["mallory"]);
/// let rejected = gate.check().unwrap_err();
/// assert_eq!(rejected.retry_after(), Some(Duration::from_secs(600)));
/// detector.check(&"alice")?;
///
/// clock.advance(Duration::from_secs(600));
/// gate.check()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[doc(alias = "heavy hitters")]
#[doc(alias = "top-k")]
pub struct Detector<K> {
    threshold: Quota,
    penalty: Duration,
    capacity: usize,
    buffer: usize,
    /// `None` until a clock is set.
    clock: Option<Clock>,
    shared: OnceLock<Box<Shared<K>>>,
    /// Whether the state was created. A `const fn` can destructure an atomic, but cannot look into a
    /// `OnceLock`.
    is_used: AtomicBool,
}

/// The state that the first use creates, so that a detector can be created in a constant.
struct Shared<K> {
    hasher: RandomState,
    buffers: Buffers<K>,
    gates: Gates<K>,
    clock: Clock,
    /// Held by a pass, and by readers of the result of the last pass.
    analysis: Mutex<Analysis<K>>,
}

/// Construction. Options are set before the first use, which is any call of another method: an option that
/// is set later panics.
impl<K> Detector<K> {
    /// Creates a detector that flags callers with more calls than the count of this quota within
    /// its period.
    ///
    /// # Panics
    ///
    /// Panics if the quota has a [burst](Quota::burst), which would have no meaning here, or is
    /// [unlimited](Quota::UNLIMITED).
    #[track_caller]
    pub const fn new(threshold: Quota) -> Self {
        assert!(
            !threshold.is_unlimited(),
            "the threshold of a detector cannot be unlimited"
        );
        assert!(
            threshold.max_burst() == 1,
            "the threshold of a detector cannot have a burst"
        );
        Self {
            threshold,
            penalty: threshold.period(),
            capacity: 1024,
            buffer: 1024,
            clock: None,
            shared: OnceLock::new(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Returns the settings for an option to change.
    #[track_caller]
    const fn unused(mut self) -> Self {
        assert!(
            !self.is_used.into_inner(),
            "an option must be set before the first use"
        );
        self.is_used = AtomicBool::new(false);
        self
    }

    /// Sets how long a flagged caller is blocked. The default is the period.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if it is zero.
    #[must_use]
    #[track_caller]
    pub const fn penalty(self, penalty: Duration) -> Self {
        assert!(
            !penalty.is_zero(),
            "a detector cannot have a penalty of 0ns"
        );
        let mut detector = self.unused();
        detector.penalty = penalty;
        detector
    }

    /// Sets the number of callers that are counted at once; the default is 1024. It is also the
    /// maximum number of gates that passes block at once.
    ///
    /// Set a few times the number of callers that could be over the threshold at the same time: the
    /// [error](Self#accuracy) of a count shrinks with it.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if it is 0, or above 16,777,216.
    #[must_use]
    #[track_caller]
    pub const fn capacity(self, counters: usize) -> Self {
        assert!(
            counters > 0 && counters <= buffers::MAX_CAPACITY,
            "a detector must have from 1 to 16777216 counters"
        );
        let mut detector = self.unused();
        detector.capacity = counters;
        detector
    }

    /// Sets the number of keys that each processor can record between two passes. The default is
    /// 1024 keys. See [losses](Self#losses).
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if it is 0, or above 16,777,216.
    #[must_use]
    #[track_caller]
    pub const fn buffer(self, keys: usize) -> Self {
        assert!(
            keys > 0 && keys <= buffers::MAX_CAPACITY,
            "a detector must have a buffer of 1 to 16777216 keys"
        );
        let mut detector = self.unused();
        detector.buffer = keys;
        detector
    }

    /// Sets the clock of the detector and of its gates.
    ///
    /// The default is [`Clock::default`], taken at the first use. On tokio's time a detector
    /// belongs to one runtime, because the times of two runtimes need not agree.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        let mut detector = self.unused();
        detector.clock = Some(clock.into());
        detector
    }
}

/// Methods for the path of a request.
impl<K: Clone + Hash + Eq> Detector<K> {
    /// Records a call of this caller, for the next [pass](Self::pass) to count. Never waits.
    #[inline]
    pub fn record(&self, key: &K) {
        self.record_many(key, 1);
    }

    /// Records a call that counts as `n`, such as the bytes of a response. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota};
    /// use tollgate_detector::Detector;
    ///
    /// // A gigabyte a day.
    /// let detector = Detector::new(Quota::per_day(1_000_000_000)).clock(Clock::manual());
    /// detector.record_many(&7, 600_000_000);
    /// detector.record_many(&7, 400_000_001);
    /// assert_eq!(detector.pass().flagged, [7]);
    /// ```
    #[inline]
    pub fn record_many(&self, key: &K, n: u64) {
        let shared = self.shared();
        shared.buffers.add(shared.hasher.hash_one(key), key, n);
    }

    /// Returns the gate of a caller. Keep it for as long as the caller is connected.
    ///
    /// Each key has one gate. All handles share it, including handles that are created while it is
    /// blocked. It takes about 150 bytes until a pass finds that the last handle has been dropped
    /// and that it is open; the counts of the key do not depend on it. It can be
    /// [blocked](Gate::block_for) and [opened](Gate::open) by hand.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota};
    /// use tollgate_detector::Detector;
    ///
    /// let detector = Detector::new(Quota::per_hour(10_000)).clock(Clock::manual());
    /// detector.gate(&"mallory").block_for(Duration::from_secs(60));
    /// assert_eq!(detector.flagged(), ["mallory"]);
    /// detector.gate(&"mallory").open();
    /// detector.gate(&"mallory").check()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn gate(&self, key: &K) -> Gate {
        self.shared().gates.gate(key)
    }

    /// [Checks](Gate::check) the gate of a caller, for code that keeps no handle.
    ///
    /// While there are no gates at all this is one relaxed load; otherwise it takes a lock for a
    /// lookup.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](tollgate::ErrorKind::RateLimited), with the time until the gate opens.
    #[inline]
    pub fn check(&self, key: &K) -> Result<(), AcquireError> {
        match self.shared().gates.find(key) {
            Some(gate) => gate.check(),
            None => Ok(()),
        }
    }
}

/// Methods for use outside of requests.
impl<K: Clone + Hash + Eq> Detector<K> {
    /// Counts the records, and blocks the gates of callers over the threshold.
    ///
    /// A pass takes time in proportion to the [capacity](Self::capacity), the
    /// [buffer](Self::buffer) and the number of gates: less than a millisecond with a thousand of
    /// each. It delays no request. If two passes run at once, one waits for the other.
    ///
    /// Passes that are farther apart than the period flag no caller, because they cannot know when
    /// a call was recorded. An eighth of the period or less is a good interval.
    ///
    /// # Examples
    ///
    /// A thread that makes a pass every second, for as long as the detector is used elsewhere:
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_detector::Detector;
    ///
    /// let detector = Arc::new(Detector::<u64>::new(Quota::per_minute(600)));
    /// let weak = Arc::downgrade(&detector);
    /// std::thread::spawn(move || {
    ///     while let Some(detector) = weak.upgrade() {
    ///         detector.pass();
    ///         drop(detector);
    ///         std::thread::sleep(Duration::from_secs(1));
    ///     }
    /// });
    /// ```
    pub fn pass(&self) -> Pass<K> {
        let shared = self.shared();
        let mut analysis = lock(&shared.analysis);
        let mut pass = analysis.count(&shared.buffers, || shared.clock.now());
        shared.gates.sweep();
        let over = analysis.over(self.threshold.count());
        let mut blocked = if over.is_empty() {
            0
        } else {
            shared.gates.blocked().len()
        };
        for (hash, key) in over {
            let is_open = shared.gates.find(&key).is_none_or(|gate| gate.is_open());
            if is_open && blocked >= self.capacity {
                pass.passed_over += 1;
                continue;
            }
            shared.gates.gate(&key).block_for(self.penalty);
            blocked += usize::from(is_open);
            analysis.forgive(hash, &key);
            pass.flagged.push(key);
        }
        pass
    }

    /// Returns the callers whose gates are blocked now, by a pass or by hand.
    pub fn flagged(&self) -> Vec<K> {
        self.shared().gates.blocked()
    }

    /// Returns the callers with the most calls within the time that the last pass covered, at most
    /// `most` of them and at most as many as there are counters. They are in the order of
    /// [`at_least`](Count::at_least), the largest first.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota};
    /// use tollgate_detector::Detector;
    ///
    /// let detector = Detector::new(Quota::per_hour(10_000)).clock(Clock::manual());
    /// detector.record_many(&"bob", 3);
    /// detector.record_many(&"alice", 5);
    /// detector.pass();
    /// let top = detector.top(1);
    /// assert_eq!((top[0].key, top[0].at_least, top[0].at_most), ("alice", 5, 5));
    /// ```
    pub fn top(&self, most: usize) -> Vec<Count<K>> {
        lock(&self.shared().analysis).top(most)
    }

    /// Returns the number of gates that have handles or are blocked.
    pub fn gates(&self) -> usize {
        self.shared().gates.sweep()
    }

    #[inline]
    fn shared(&self) -> &Shared<K> {
        match self.shared.get() {
            Some(shared) => shared,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &Shared<K> {
        self.is_used.store(true, Ordering::Relaxed);
        self.shared.get_or_init(|| {
            let clock = self.clock.clone().unwrap_or_default();
            let (period, now) = (self.threshold.period(), clock.now());
            let hasher = RandomState::new();
            Box::new(Shared {
                hasher: hasher.clone(),
                buffers: Buffers::new(self.buffer),
                gates: Gates::new(clock.clone(), hasher),
                analysis: Mutex::new(Analysis::new(self.capacity, self.buffer, period, now)),
                clock,
            })
        })
    }
}

impl<K: Clone + Hash + Eq + Send> Detector<K> {
    /// Repeats [passes](Self::pass), with `interval` of the [clock](Self::clock) between two. The
    /// future runs on any executor, until it is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next pass counts the records.
    ///
    /// # Panics
    ///
    /// Panics if the interval is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_detector::Detector;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let detector = Arc::new(Detector::<u64>::new(Quota::per_minute(600)));
    /// let passes = tokio::spawn({
    ///     let detector = Arc::clone(&detector);
    ///     async move { detector.run(Duration::from_secs(1)).await }
    /// });
    /// // In the end:
    /// passes.abort();
    /// # }
    /// ```
    #[track_caller]
    pub fn run(&self, interval: Duration) -> impl Future<Output = Infallible> + Send + '_ {
        assert!(
            !interval.is_zero(),
            "a detector cannot run with an interval of 0ns"
        );
        async move {
            // A gate that is blocked for the interval serves as a timer on the detector's own
            // clock.
            let timer = Gate::new().clock(&self.shared().clock);
            loop {
                timer.block_for(interval);
                // Only a full queue could reject the call, and this queue has no other waiters.
                let _ = timer.acquire().await;
                self.pass();
            }
        }
    }
}

impl<K> fmt::Debug for Detector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detector")
            .field("threshold", &format_args!("{}", self.threshold))
            .field("penalty", &self.penalty)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
