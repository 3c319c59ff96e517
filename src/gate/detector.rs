//! [`Detector`]: who makes too many calls over a long period, and is to be shut out.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash, RandomState};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::analysis::{Analysis, Count, Pass};
use super::buffers::Buffers;
use super::gates::Gates;
use super::handle::Gate;
use super::table;
use crate::const_panic::Text;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::sync::{Mutex, lock};
use crate::time::{Clock, Sleep};
use crate::wait::is_blocking;

/// Flags who makes more calls than a threshold within a long period, and shuts them out for a
/// penalty time.
///
/// - On the way of a request: [`check`](Gate::check) of the caller's [`Gate`], and
///   [`record`](Self::record). Neither waits for anybody.
/// - Apart from it, every now and then: a [`pass`](Self::pass), which counts what was recorded, and
///   shuts the gates of those who have made too much. [`run`](Self::run) does that again and again.
///
/// # Accuracy
///
/// With a period of `P`, a threshold of `N`, and passes of which one ends at most `I` after the one
/// before it began:
///
/// - **Who never makes more than `N` within any time of `P` is not flagged.** It does not matter how
///   many others there are, nor when passes are made.
/// - **Who makes more than `N + E` within a time of `3/4 P - 2 I` is flagged by the pass that
///   follows**, if not before, and so at most `I` later. `E` is told by [each pass](Pass::error). It is
///   at most what was recorded within `P`, by all callers, divided by the [capacity](Self::capacity);
///   and what was [lost](Pass::lost) then. Only if as many as the capacity are shut out already, it
///   is [passed over](Pass::passed_over) until there is room.
/// - Who keeps on making more than `N + E` within any time of `P - I` is flagged in the end.
///
/// What was counted when one was flagged is not counted again. So one is flagged a second time for
/// what it makes after that alone; also for what it makes while it is shut out, if that is recorded.
///
/// The counters are those of *Space-Saving*: Metwally, Agrawal, El Abbadi, *Efficient Computation of
/// Frequent and Top-k Elements in Data Streams*, ICDT 2005. A key that makes more than what was
/// recorded divided by the capacity always has one.
///
/// # Losses
///
/// To record never waits. What is recorded between two passes is summed up by key in small tables,
/// one for each processor. If such a table has no room for another key, or two threads come at once
/// twice in a row, it is lost, counted as that, and told by the next pass. A key that is in a table
/// is not lost for want of room, so what is lost is that of keys that come seldom. If much is, make
/// passes more often, or the [buffer](Self::buffer) larger.
///
/// # Memory
///
/// It does not grow with the number of keys. With a key of `k` bytes, which is what
/// [`size_of`] says, rounded up to a multiple of 8, on `p` processors, which are rounded up to a power
/// of two, and 64 at most, it is at most
///
/// ```text
/// 4 × capacity × (k + 52) + (p + 1) × buffer × (k + 32) + a few kilobytes
/// ```
///
/// bytes, and what the keys have on the heap. In addition there are the [gates](Self::gate) that
/// somebody has, and those that are shut. After the first pass, nothing is allocated by recording
/// and counting, if the keys do not allocate when they are cloned.
///
/// # Keys
///
/// A key is cloned when it is recorded for the first time since a pass: take one that is cheap to
/// clone, such as a number, an `IpAddr` or an `Arc<str>`. Its `Hash`, `Eq`, `Clone` and `Drop` are
/// called under locks, and must not use the detector. Keys are told apart by `Eq`, not by their
/// hashes, so nobody is shut out for another; the hash is seeded anew for each detector.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Detector, Quota};
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
/// let refused = gate.check().unwrap_err();
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(600)));
/// detector.check(&"alice")?;
///
/// clock.advance(Duration::from_secs(600));
/// gate.check()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
pub struct Detector<K> {
    threshold: Quota,
    penalty: Duration,
    capacity: usize,
    buffer: usize,
    clock: Clock,
    core: OnceLock<Box<Core<K>>>,
}

/// Made at the first use, so that a detector can be made in a constant.
struct Core<K> {
    hasher: RandomState,
    buffers: Buffers<K>,
    gates: Arc<Gates<K>>,
    clock: Clock,
    /// Held by a pass, and by who wants to know what it found.
    analysis: Mutex<Analysis<K>>,
}

/// Making one.
impl<K> Detector<K> {
    /// Flags who makes more than the count of this quota within its period.
    ///
    /// # Panics
    ///
    /// If the quota has a [burst](Quota::burst): there is nothing that it could mean here.
    #[track_caller]
    pub const fn new(threshold: Quota) -> Self {
        if threshold.max_burst() != 1 {
            let text = Text::new("a detector has no burst, but its threshold has one of ");
            text.number(threshold.max_burst() as u128).panic();
        }
        Self {
            threshold,
            penalty: threshold.period(),
            capacity: 1024,
            buffer: 1024,
            clock: Clock::unchosen(),
            core: OnceLock::new(),
        }
    }

    /// For how long one is shut out. By default as long as the period.
    ///
    /// # Panics
    ///
    /// If it is zero.
    #[must_use]
    #[track_caller]
    pub const fn penalty(mut self, penalty: Duration) -> Self {
        if penalty.is_zero() {
            Text::new("a detector cannot have a penalty of 0ns").panic();
        }
        self.penalty = penalty;
        self
    }

    /// How many callers are counted at once, of all that there are; by default 1024. It is also how
    /// many are shut out at once, at most, by passes.
    ///
    /// Take a few times as many as could be over the threshold at the same time: the
    /// [error](Self#accuracy) of a count is that much smaller.
    ///
    /// # Panics
    ///
    /// If it is 0, or above 16,777,216.
    #[must_use]
    #[track_caller]
    pub const fn capacity(mut self, counters: usize) -> Self {
        check_size("counters", counters);
        self.capacity = counters;
        self
    }

    /// How many keys are recorded between two passes, on each processor; by default 1024. See
    /// [losses](Self#losses).
    ///
    /// # Panics
    ///
    /// If it is 0, or above 16,777,216.
    #[must_use]
    #[track_caller]
    pub const fn buffer(mut self, keys: usize) -> Self {
        check_size("keys in its buffer", keys);
        self.buffer = keys;
        self
    }

    /// The clock that it lives by, and its gates.
    ///
    /// Without it, it is the [system](Clock::system), or, with the feature `test-util` and if it is
    /// first used inside a tokio runtime, tokio's. On tokio's time a detector is for one runtime, as
    /// the times of two need not agree.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }
}

#[track_caller]
const fn check_size(of: &str, size: usize) {
    if size == 0 || size > table::MOST {
        let text = Text::new("a detector cannot have ").number(size as u128);
        let text = text.and(" ").and(of).and(", but from 1 to ");
        text.number(table::MOST as u128).panic();
    }
}

/// On the way of a request.
impl<K: Clone + Hash + Eq + Send + Sync + 'static> Detector<K> {
    /// Records a call of this caller, to be counted by the next [pass](Self::pass). Never waits.
    #[inline]
    pub fn record(&self, key: &K) {
        self.record_many(key, 1);
    }

    /// Records something that counts as `n`, such as the bytes of an answer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Detector, Quota};
    ///
    /// // A gigabyte a day.
    /// let detector = Detector::new(Quota::per_day(1_000_000_000)).clock(Clock::manual());
    /// detector.record_many(&7, 600_000_000);
    /// detector.record_many(&7, 400_000_001);
    /// assert_eq!(detector.pass().flagged, [7]);
    /// ```
    #[inline]
    pub fn record_many(&self, key: &K, n: u64) {
        let core = self.core();
        core.buffers.add(core.hasher.hash_one(key), key, n);
    }

    /// The gate of a caller, to be kept for as long as it is connected.
    ///
    /// There is one for each key: all handles are of the same, also those that are made when it is
    /// shut. It takes some 150 bytes until the last handle is dropped and it is open; what one knows
    /// of the key otherwise does not depend on it. It may be [shut](Gate::shut_for) and
    /// [opened](Gate::open) by hand.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Detector, Quota};
    ///
    /// let detector = Detector::new(Quota::per_hour(10_000)).clock(Clock::manual());
    /// detector.gate(&"mallory").shut_for(Duration::from_secs(60));
    /// assert_eq!(detector.flagged(), ["mallory"]);
    /// detector.gate(&"mallory").open();
    /// detector.gate(&"mallory").check()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn gate(&self, key: &K) -> Gate {
        self.core().gates.gate(key)
    }

    /// [Checks](Gate::check) the gate of a caller, for those who have no handle of it.
    ///
    /// While nobody is shut out, this is one relaxed load; otherwise it takes a lock, shortly, and
    /// looks for the key.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](crate::ErrorKind::RateLimited), with the time until it reopens.
    #[inline]
    pub fn check(&self, key: &K) -> Result<(), AcquireError> {
        let gates = &self.core().gates;
        if gates.kept() == 0 {
            return Ok(());
        }
        match gates.find(key) {
            Some(gate) => gate.check(),
            None => Ok(()),
        }
    }
}

/// Apart from the requests.
impl<K: Clone + Hash + Eq + Send + Sync + 'static> Detector<K> {
    /// Counts what was recorded, and shuts out who has made too much.
    ///
    /// It takes time in proportion to the [capacity](Self::capacity) and the
    /// [buffer](Self::buffer), less than a millisecond with a thousand of each, and holds up no
    /// request meanwhile. Of two at once, one waits.
    ///
    /// Passes that are farther apart than the period find nobody, as they cannot know when something
    /// was recorded. An eighth of the period or less is well.
    ///
    /// # Examples
    ///
    /// A thread that does it every second, as long as somebody else has the detector:
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Detector, Quota};
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
        let core = self.core();
        let mut analysis = lock(&core.analysis);
        let found = analysis.count(&core.buffers, || core.clock.now());
        core.gates.sweep();
        let mut pass = Pass {
            flagged: Vec::new(),
            passed_over: 0,
            counted: found.counted,
            lost: found.lost,
            error: analysis.error(),
            covered: analysis.covered(),
        };
        for (hash, key) in analysis.over(self.threshold.count()) {
            let gate = core.gates.gate(&key);
            if gate.is_open() && core.gates.kept() >= self.capacity {
                pass.passed_over += 1;
                continue;
            }
            gate.shut_for(self.penalty);
            analysis.forgive(hash, &key);
            pass.flagged.push(key);
        }
        pass
    }

    /// Makes a [pass](Self::pass) again and again, with so much time of the
    /// [clock](Self::clock) between two. It runs on any executor, and ends when it is dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: what was recorded is counted by whoever makes the next
    /// pass.
    ///
    /// # Panics
    ///
    /// If the interval is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Detector, Quota};
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
            loop {
                self.sleep(interval).await;
                self.pass();
            }
        }
    }

    async fn sleep(&self, duration: Duration) {
        let clock = Some(self.core().clock.clone());
        let mut sleep = pin!(Sleep::new(clock, duration, false));
        poll_fn(|context| {
            let blocking = is_blocking(context.waker());
            sleep.as_mut().poll_sleep(context, blocking)
        })
        .await;
    }

    /// Who is shut out now, by a pass or by hand.
    pub fn flagged(&self) -> Vec<K> {
        self.core().gates.shut()
    }

    /// Who made most, within the time that the last pass covered, and how much; at most so many, and
    /// at most as many as there are counters. Of each it is known at least and at most what it made,
    /// and they are in the order of the former.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Detector, Quota};
    ///
    /// let detector = Detector::new(Quota::per_hour(10_000)).clock(Clock::manual());
    /// detector.record_many(&"bob", 3);
    /// detector.record_many(&"alice", 5);
    /// detector.pass();
    /// let top = detector.top(1);
    /// assert_eq!((top[0].key, top[0].at_least, top[0].at_most), ("alice", 5, 5));
    /// ```
    pub fn top(&self, most: usize) -> Vec<Count<K>> {
        lock(&self.core().analysis).top(most)
    }

    /// How many gates there are: those that somebody has, and those that are shut or have been since
    /// the last pass.
    pub fn gates(&self) -> usize {
        self.core().gates.len()
    }

    #[inline]
    fn core(&self) -> &Core<K> {
        match self.core.get() {
            Some(core) => core,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &Core<K> {
        self.core.get_or_init(|| {
            let clock = self.clock.resolved();
            let (period, now) = (self.threshold.period(), clock.now());
            Box::new(Core {
                hasher: RandomState::new(),
                buffers: Buffers::new(self.buffer),
                gates: Gates::new(clock.clone()),
                analysis: Mutex::new(Analysis::new(self.capacity, self.buffer, period, now)),
                clock,
            })
        })
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
