//! [`Detector`]: a detector that flags callers first and throttles them afterwards, for a fleet.
//!
//! 1. A call records its caller in this process, and checks whether the caller is blocked. No call
//!    waits for the server.
//! 2. A pass sends the records since the last pass to the server, which sums those of all
//!    processes. The pass then blocks, in this process, the callers that are over the threshold.
//!    Its calls are short, because the server does nothing else during one.
//! 3. Records that a pass did not send are kept for the next one, even if the pass is dropped.
//!    Records that may have been counted are not kept.
//! 4. The number of distinct callers between two passes is bounded.
//!
//! There are two locks. They are never held together, and never while a future waits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use tollgate::{AcquireError, Algorithm, Quota};

use crate::error::StoreError;
use crate::keys;
use crate::rate::Rule;
use crate::script::{CALLERS, MOST, numbers};
use crate::store::Store;
use crate::sync::{Mutex, lock};

/// The maximum number of callers in one call of the store, which takes the server half a millisecond.
const BATCH: usize = 32;

/// The default maximum number of callers between two passes.
const MOST_CALLERS: usize = 65_536;

/// Finds callers that exceed a threshold over all processes, and blocks them for a penalty time or
/// until they are below the threshold again, whichever is longer.
///
/// This is the relaxed approach, for limits that are rarely reached. A call costs a
/// [`record`](Self::record) and a [`check`](Self::check), and neither calls the server. A
/// [`pass`](Self::pass) sends the records to the server, which keeps each caller under a
/// [key](crate#keys-on-the-server) of its own.
///
/// # Lateness
///
/// A pass makes one call of the store for each 32 callers, one after the other, and each takes at
/// most the [deadline](Store::deadline) `d`; so a pass for `c` callers makes `k` calls, where `k` is
/// `c / 32`, rounded up. [`run`](Self::run) spreads them over the interval `i`, and begins the next pass
/// `i / k` after the last of them. So a process blocks a caller at most `i·(2 - 1/k) + 2·k·d` after the
/// first call beyond the threshold that it recorded, because that call may have been recorded just after
/// a pass began. The count includes the records that other processes have sent by then, with the same
/// delay.
///
/// # Load
///
/// The server does nothing else during a call, so one has at most 32 callers: about half a millisecond
/// of its time. Calls of a fleet are spread over the interval. 50 processes that record 256 callers in each
/// half second take a third of a core of the server.
///
/// # When the store fails
///
/// No more callers are blocked, and blocked callers stay blocked for their time. A pass ends with
/// the first call that fails, and keeps the unsent records for the next one. The records of a call
/// that may have been executed, of up to 32 callers, are not sent again, so that none is counted
/// twice; they may be missing from the count. The same holds for the callers of a call in which the key of
/// one holds a value of another kind.
///
/// # Memory
///
/// The detector keeps at most [`callers`](Self::callers) distinct callers between two passes,
/// 65,536 by default, with their names. The calls of further callers are not recorded;
/// [`unrecorded`](Self::unrecorded) counts them. Each pass blocks at most as many callers as it
/// sends, and forgets callers whose time is over.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::{Detector, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?;
/// let abuse = std::sync::Arc::new(
///     Detector::new(&store, "abuse", Quota::per_minute(600).burst(600))
///         .penalty(Duration::from_secs(300)),
/// );
/// tokio::spawn({
///     let abuse = abuse.clone();
///     async move { abuse.run(Duration::from_millis(500)).await }
/// });
///
/// abuse.check("192.0.2.7")?;
/// abuse.record("192.0.2.7");
/// # Ok(())
/// # }
/// ```
pub struct Detector {
    store: Store,
    /// The prefix of the keys of all callers.
    keys: String,
    rule: Rule,
    penalty: Duration,
    callers: usize,
    recorded: Mutex<Recorded>,
    /// The time until which each caller is blocked.
    blocked: RwLock<HashMap<String, Instant>>,
    /// The number of blocked callers, so that a check is one load while there are none.
    count: AtomicUsize,
    denied: AtomicU64,
    failed: AtomicU64,
}

/// What a [`Detector`] of this process has done since it was created. [`Detector::statistics`] returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetectorStatistics {
    /// The cost of the calls that were recorded: the number of calls, if each costs 1.
    pub recorded: u64,
    /// The cost of the calls that were not, because their callers were beyond the [bound](Detector::callers).
    /// Calls that were recorded, and that a pass could not send, are recorded again; those that are beyond the
    /// bound then count here, too, because a count never falls.
    pub unrecorded: u64,
    /// Checks that were denied, because the caller was blocked.
    pub denied: u64,
    /// Calls of the server that failed. The records of a call that was perhaps executed are lost.
    pub failed: u64,
    /// The callers that are blocked in this process now.
    pub flagged: u64,
}

#[derive(Default)]
struct Recorded {
    calls: HashMap<String, u64>,
    /// The cost of all calls that were recorded.
    all: u64,
    /// The calls of callers beyond the bound.
    unrecorded: u64,
}

impl Recorded {
    /// Adds calls of a caller, if there is room for it among so many callers. Returns whether there was.
    fn add(&mut self, caller: &str, n: u64, callers: usize) -> bool {
        let has_room = self.calls.len() < callers;
        match self.calls.get_mut(caller) {
            Some(count) => *count = count.saturating_add(n).min(MOST),
            None if has_room => drop(self.calls.insert(caller.to_owned(), n.min(MOST))),
            None => {
                self.unrecorded = self.unrecorded.saturating_add(n);
                return false;
            }
        }
        true
    }
}

/// A pass, with the records that it has not sent yet. Dropping it records them again.
struct Pass<'a> {
    detector: &'a Detector,
    unsent: Vec<(String, u64)>,
}

impl Pass<'_> {
    /// Sends the records of some callers. Returns the number of those that are over the threshold, or
    /// `None` if everything has been sent.
    async fn send_next(&mut self) -> Result<Option<usize>, StoreError> {
        if self.unsent.is_empty() {
            return Ok(None);
        }
        let rest = self.unsent.len().saturating_sub(BATCH);
        let batch = self.unsent.split_off(rest);
        let sent = self.detector.send(&batch).await;
        if sent.is_err() {
            self.detector.failed.fetch_add(1, Ordering::Relaxed);
        }
        if let Err(error) = sent
            && !error.is_perhaps_charged()
            && !error.is_half_done()
        {
            self.unsent.extend(batch);
        }
        sent.map(Some)
    }

    /// Returns the number of calls that are left.
    fn calls(&self) -> usize {
        self.unsent.len().div_ceil(BATCH)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let recorded = &mut *lock(&self.detector.recorded);
        for (caller, n) in self.unsent.drain(..) {
            recorded.add(&caller, n, self.detector.callers);
        }
    }
}

impl Detector {
    /// Creates a detector that has no blocked callers yet. The burst of the threshold is the number
    /// of calls that a caller may make at once. Makes no call.
    ///
    /// The server keeps a GCRA limit for each caller. In a cluster all callers of a detector are in
    /// one slot.
    ///
    /// # Panics
    ///
    /// Panics if a script cannot count this quota; see
    /// [`RateLimiter::new`](crate::RateLimiter::new).
    #[track_caller]
    pub fn new(store: &Store, name: impl Into<String>, threshold: Quota) -> Self {
        Self {
            store: store.clone(),
            keys: keys::detector(&name.into()),
            rule: Rule::of(threshold, Algorithm::Gcra),
            penalty: Duration::ZERO,
            callers: MOST_CALLERS,
            recorded: Mutex::default(),
            blocked: RwLock::default(),
            count: AtomicUsize::new(0),
            denied: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Sets the minimum time for which a caller is blocked, from the moment that the server finds
    /// it over the threshold. By default a caller is blocked until it is below the threshold again.
    /// At most 136 years.
    #[must_use]
    pub fn penalty(mut self, penalty: Duration) -> Self {
        self.penalty = penalty;
        self
    }

    /// Sets the maximum number of distinct callers between two passes, 65,536 by default. Further
    /// callers are not recorded until the next pass. This bounds the memory while the store fails,
    /// and the duration of a pass.
    ///
    /// # Panics
    ///
    /// Panics if `callers` is 0.
    #[must_use]
    #[track_caller]
    pub fn callers(mut self, callers: usize) -> Self {
        assert!(callers > 0, "a detector cannot track 0 callers");
        self.callers = callers;
        self
    }

    /// Records a call, without calling the server.
    pub fn record(&self, caller: &str) {
        self.record_many(caller, 1);
    }

    /// Records `n` calls, or one call of cost `n`. At most 2^52 calls per caller are counted
    /// between two passes, which is more than any threshold.
    pub fn record_many(&self, caller: &str, n: u64) {
        let recorded = &mut *lock(&self.recorded);
        if recorded.add(caller, n, self.callers) {
            recorded.all = recorded.all.saturating_add(n);
        }
    }

    /// Returns the number of calls that were not recorded because their callers were beyond the
    /// [bound](Self::callers).
    pub fn unrecorded(&self) -> u64 {
        lock(&self.recorded).unrecorded
    }

    /// Checks that a caller is not blocked. Neither calls the server nor records the call.
    ///
    /// While no caller is blocked this is one atomic load, and otherwise a look-up under a shared
    /// read lock.
    ///
    /// # Errors
    ///
    /// `RateLimited`, with the time until the caller is no longer blocked.
    pub fn check(&self, caller: &str) -> Result<(), AcquireError> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let blocked = self.blocked.read().unwrap_or_else(PoisonError::into_inner);
        let until = blocked.get(caller).copied();
        let left = until.map(|until| until.saturating_duration_since(self.store.time().now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => {
                self.denied.fetch_add(1, Ordering::Relaxed);
                Err(AcquireError::limited(left))
            }
            None => Ok(()),
        }
    }

    /// Returns what this detector has done. With the feature `metrics`, `DetectorStatistics::record` reports it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(abuse: tollgate_redis::Detector) {
    /// let statistics = abuse.statistics();
    /// println!("{} recorded, {} denied", statistics.recorded, statistics.denied);
    /// # }
    /// ```
    pub fn statistics(&self) -> DetectorStatistics {
        let (recorded, unrecorded) = {
            let recorded = lock(&self.recorded);
            (recorded.all, recorded.unrecorded)
        };
        DetectorStatistics {
            recorded,
            unrecorded,
            denied: self.denied.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            flagged: self.count_flagged() as u64,
        }
    }

    fn count_flagged(&self) -> usize {
        let now = self.store.time().now();
        let blocked = self.blocked.read().unwrap_or_else(PoisonError::into_inner);
        blocked.values().filter(|until| **until > now).count()
    }

    /// Returns the callers that are blocked in this process now, in any order.
    pub fn flagged(&self) -> Vec<String> {
        let now = self.store.time().now();
        let blocked = self.blocked.read().unwrap_or_else(PoisonError::into_inner);
        let flagged = blocked.iter().filter(|(_, until)| **until > now);
        flagged.map(|(caller, _)| caller.clone()).collect()
    }

    /// Sends the records to the server, and blocks callers that are over the threshold. Returns the
    /// number of these callers.
    ///
    /// It makes a call for each 32 callers, one after the other without a pause, and ends with the first
    /// call that fails. [`run`](Self::run) spreads the calls.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, unsent records are kept for the next pass. Up to 32 callers of
    /// the call in flight may not be counted, and are not blocked by it.
    ///
    /// # Errors
    ///
    /// The failure of the store. Unsent records are kept for the next pass; records that may have
    /// been counted are not, so that no caller is counted twice.
    pub async fn pass(&self) -> Result<usize, StoreError> {
        let mut pass = self.begin();
        let mut flagged = 0;
        while let Some(over) = pass.send_next().await? {
            flagged += over;
        }
        Ok(flagged)
    }

    /// Takes the records for a pass.
    fn begin(&self) -> Pass<'_> {
        // Forgets callers whose time is over.
        let now = self.store.time().now();
        self.change_blocked(|blocked| blocked.retain(|_, until| *until > now));
        let recorded = std::mem::take(&mut lock(&self.recorded).calls);
        Pass {
            detector: self,
            unsent: recorded.into_iter().collect(),
        }
    }

    async fn send(&self, recorded: &[(String, u64)]) -> Result<usize, StoreError> {
        let keys = recorded
            .iter()
            .map(|(caller, _)| keys::caller(&self.keys, caller));
        let keys = keys.collect::<Vec<_>>();
        let keys = keys.iter().map(String::as_str).collect::<Vec<_>>();
        let counts = recorded.iter().map(|(_, n)| *n).collect::<Vec<_>>();
        let call = self.store.call(&CALLERS, &keys, |command| {
            command.arg(&self.rule.numbers()).arg(&counts);
        });
        let waits = numbers(&call.await?)?;
        if waits.len() != recorded.len() {
            return Err(StoreError::Unknown);
        }
        let now = self.store.time().now();
        let latest = now + Duration::from_secs(u32::MAX.into());
        let mut over = 0;
        self.change_blocked(|blocked| {
            for ((caller, _), wait) in recorded.iter().zip(waits) {
                if wait > 0 {
                    over += 1;
                    let time = self.penalty.max(Duration::from_micros(wait));
                    let until = now.checked_add(time).unwrap_or(latest);
                    let before = blocked.entry(caller.clone()).or_insert(until);
                    *before = until.max(*before);
                }
            }
        });
        Ok(over)
    }

    fn change_blocked(&self, change: impl FnOnce(&mut HashMap<String, Instant>)) {
        let mut blocked = self.blocked.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut blocked);
        self.count.store(blocked.len(), Ordering::Relaxed);
    }

    /// Makes a [`pass`](Self::pass) repeatedly, until the future is dropped. Each pass spreads its calls evenly
    /// over the interval, and the first one begins at a random time within it, so that the processes of a
    /// fleet do not all call at once. The next pass makes up for one that fails.
    ///
    /// # Cancel safety
    ///
    /// See [`pass`](Self::pass).
    pub async fn run(&self, interval: Duration) -> Infallible {
        self.rest(interval.mul_f64(fastrand::f64())).await;
        loop {
            let mut pass = self.begin();
            let pause = interval.div_f64(pass.calls().max(1) as f64);
            // The next pass sends what this one cannot send, when its time is over.
            while let Ok(Some(_)) = pass.send_next().await
                && pass.calls() > 0
            {
                self.rest(pause).await;
            }
            let left = pass.calls() + 1;
            drop(pass);
            self.rest(pause.mul_f64(left as f64)).await;
        }
    }

    async fn rest(&self, time: Duration) {
        if self.store.sleep(time).await.is_err() {
            // No pass can be made without the runtime.
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detector")
            .field("keys", &self.keys)
            .field("flagged", &self.count_flagged())
            .finish_non_exhaustive()
    }
}
