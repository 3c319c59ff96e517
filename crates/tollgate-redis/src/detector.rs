//! [`Detector`]: flag, then throttle, for a fleet.
//!
//! 1. A call records its caller in this process, and looks whether it is shut out: nobody waits for
//!    the server.
//! 2. A pass takes what was recorded since the last one to the server, which adds up what all
//!    processes bring; and shuts out here whoever is over the threshold.
//! 3. What a pass did not send is kept for the next one, also if it is dropped; what was perhaps
//!    counted is not.
//! 4. So many distinct callers are kept at most. Of those who are shut out there are as many as the
//!    server says, until their time is over.
//!
//! Two locks, which are never held together, nor while one waits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tollgate::{AcquireError, Algorithm, Quota};

use crate::error::StoreError;
use crate::rate::Rule;
use crate::script::{Arguments, SEVERAL, numbers};
use crate::slot::tag;
use crate::store::Store;

/// How many callers are brought in a call.
const BATCH: usize = 256;

/// How many callers are kept, by default.
const CALLERS: usize = 65_536;

/// A script counts up to there.
const MOST: u64 = 1 << 52;

/// Finds out, over all processes, who makes more calls than a threshold allows, and shuts them out
/// for a penalty time, or until they are below it again, whichever is longer: the relaxed way, for
/// limits that are seldom reached. On the server a caller is under the key, in braces if it has none,
/// a colon, and the caller's name.
///
/// A call costs a [`record`](Self::record) and a [`check`](Self::check), neither of which asks the
/// server. The server hears of it in a [`pass`](Self::pass), every now and then.
///
/// # Lateness
///
/// A pass makes a call of the store for each 256 callers that were recorded, one after the other,
/// each of which takes at most the store's [deadline](Store::deadline) `d`: so with `c` callers at
/// most `k·d`, where `k` is `c / 256`, rounded up. With a pass each `i` after the one before, a
/// process shuts out a caller at most `i + 2·k·d` after the first call that it recorded of them
/// beyond the threshold, as that may have come when a pass had just begun. It counts what other
/// processes have brought by then; what those bring later is up to as much old.
///
/// # When the store fails
///
/// Nobody is shut out anew, and who is shut out stays so for their time. A pass ends with the first
/// call that fails, and what it did not send is kept for the next one; of a call that was perhaps
/// executed up to 256 callers may count for nothing, so that nobody is counted twice.
///
/// # Memory
///
/// At most [`callers`](Self::callers) distinct callers are kept between two passes, 65,536 by
/// default, with their names. Who comes beyond them is not recorded, and
/// [counted](Self::unrecorded). How many are shut out is bounded by what the server says: each
/// pass adds those that are over the threshold, at most as many as it brings, and forgets those
/// whose time is over.
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
    key: String,
    rule: Rule,
    penalty: Duration,
    callers: usize,
    recorded: Mutex<Recorded>,
    /// Until when who is shut out.
    shut: RwLock<HashMap<String, Instant>>,
    /// How many are shut out, so that a check is one look while nobody is.
    count: AtomicUsize,
}

#[derive(Default)]
struct Recorded {
    calls: HashMap<String, u64>,
    /// Of callers beyond those that are kept.
    unrecorded: u64,
}

/// What a pass did not send yet, which is kept for the next one.
struct Unsent<'a> {
    detector: &'a Detector,
    recorded: Vec<(String, u64)>,
}

impl Unsent<'_> {
    /// Some of it, none if there is none.
    fn take(&mut self) -> Option<Vec<(String, u64)>> {
        let rest = self.recorded.len().saturating_sub(BATCH);
        let batch = self.recorded.split_off(rest);
        (!batch.is_empty()).then_some(batch)
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        for (caller, n) in self.recorded.drain(..) {
            self.detector.record_many(&caller, n);
        }
    }
}

impl Detector {
    /// Nobody is shut out yet. The burst of the threshold is how much a caller may make at once.
    /// Makes no call.
    ///
    /// The server keeps a limit for each caller, by GCRA, under the key and the caller's name. In a
    /// cluster those of a key are all in one slot.
    ///
    /// # Panics
    ///
    /// If a script cannot count by this quota, as [`RateLimiter::new`](crate::RateLimiter::new)
    /// says.
    #[track_caller]
    pub fn new(store: &Store, key: impl Into<String>, threshold: Quota) -> Self {
        let key = key.into();
        let rule = match Rule::new(threshold, Algorithm::Gcra) {
            Ok(rule) => rule,
            Err(error) => panic!("{error}"),
        };
        Self {
            store: store.clone(),
            // So that those of all callers are in one slot of a cluster.
            key: match tag(&key) {
                Some(_) => key,
                None => format!("{{{key}}}"),
            },
            rule,
            penalty: Duration::ZERO,
            callers: CALLERS,
            recorded: Mutex::default(),
            shut: RwLock::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// For how long a caller is shut out at least, from when the server says that they are over the
    /// threshold. By default until they are below it again. At most 136 years.
    pub fn penalty(mut self, penalty: Duration) -> Self {
        self.penalty = penalty;
        self
    }

    /// How many distinct callers are kept between two passes, 65,536 by default; who comes beyond
    /// them is not recorded until the next one. All are kept while the store fails, so this bounds
    /// the memory, and by the 256 of a call, how long a pass takes.
    ///
    /// # Panics
    ///
    /// If `callers` is 0.
    #[track_caller]
    pub fn callers(mut self, callers: usize) -> Self {
        assert!(callers > 0, "a detector of 0 callers finds nobody out");
        self.callers = callers;
        self
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        // Nothing panics while it is held.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, without asking the server: in a moment, under a lock.
    pub fn record(&self, caller: &str) {
        self.record_many(caller, 1);
    }

    /// Records so many calls, or one that costs so much. Between two passes, 2^52 of a caller at
    /// most, which is beyond all thresholds.
    pub fn record_many(&self, caller: &str, n: u64) {
        let recorded = &mut *self.recorded();
        let has_room = recorded.calls.len() < self.callers;
        match recorded.calls.get_mut(caller) {
            Some(count) => *count = count.saturating_add(n).min(MOST),
            None if has_room => drop(recorded.calls.insert(caller.to_owned(), n.min(MOST))),
            None => recorded.unrecorded = recorded.unrecorded.saturating_add(n),
        }
    }

    /// How many calls were not recorded so far, since they came from more
    /// [callers](Self::callers) than are kept.
    pub fn unrecorded(&self) -> u64 {
        self.recorded().unrecorded
    }

    /// Whether a caller may go on, without asking the server. Records nothing.
    ///
    /// While nobody is shut out this is one look at a number, and otherwise one under a lock that
    /// readers share.
    ///
    /// # Errors
    ///
    /// `Limited`, with the time until they may again.
    pub fn check(&self, caller: &str) -> Result<(), AcquireError> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let until = shut.get(caller).copied();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Err(AcquireError::limited(left)),
            None => Ok(()),
        }
    }

    /// Who is shut out in this process now, in no order.
    pub fn flagged(&self) -> Vec<String> {
        let now = Instant::now();
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let flagged = shut.iter().filter(|(_, until)| **until > now);
        flagged.map(|(caller, _)| caller.clone()).collect()
    }

    /// Brings what was recorded to the server, and shuts out who is over the threshold; says how
    /// many those are.
    ///
    /// It makes a call for each 256 callers, one after the other, and ends with the first that
    /// fails.
    ///
    /// # Cancel safety
    ///
    /// Dropped on its way, what it did not send is kept for the next pass. Of the call that is on
    /// its way up to 256 callers may count for nothing, and are not shut out by it.
    ///
    /// # Errors
    ///
    /// How the store failed. What was not brought is kept for the next pass; what
    /// was perhaps brought is not, so that nobody is counted twice.
    pub async fn pass(&self) -> Result<usize, StoreError> {
        self.reopen();
        let recorded = std::mem::take(&mut self.recorded().calls);
        let mut unsent = Unsent {
            detector: self,
            recorded: recorded.into_iter().collect(),
        };
        let mut flagged = 0;
        while let Some(batch) = unsent.take() {
            match self.bring(&batch).await {
                Ok(over) => flagged += over,
                Err(error) => {
                    if !error.is_perhaps_charged() {
                        unsent.recorded.extend(batch);
                    }
                    return Err(error);
                }
            }
        }
        Ok(flagged)
    }

    async fn bring(&self, recorded: &[(String, u64)]) -> Result<usize, StoreError> {
        let keys: Vec<String> = recorded
            .iter()
            .map(|(caller, _)| format!("{}:{caller}", self.key))
            .collect();
        let mut arguments = Arguments::new("charge");
        for (_, n) in recorded {
            arguments = self.rule.tell_which(arguments).number(*n);
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let value = self.store.call(&SEVERAL, &keys, &arguments).await?;
        let numbers = numbers(&value).ok_or(StoreError::Script)?;
        let (each, []) = numbers.get(2..).unwrap_or_default().as_chunks::<5>() else {
            return Err(StoreError::Script);
        };
        let now = Instant::now();
        let mut over = 0;
        for ((caller, _), [wait, ..]) in recorded.iter().zip(each) {
            if *wait > 0 {
                over += 1;
                let time = self.penalty.max(Duration::from_micros(*wait));
                let latest = now + Duration::from_secs(u32::MAX.into());
                self.shut_out(caller, now.checked_add(time).unwrap_or(latest));
            }
        }
        Ok(over)
    }

    fn shut_out(&self, caller: &str, until: Instant) {
        let mut shut = self.shut.write().unwrap_or_else(PoisonError::into_inner);
        let before = shut.entry(caller.to_owned()).or_insert(until);
        *before = until.max(*before);
        self.count.store(shut.len(), Ordering::Relaxed);
    }

    /// Forgets whose time is over.
    fn reopen(&self) {
        let now = Instant::now();
        let mut shut = self.shut.write().unwrap_or_else(PoisonError::into_inner);
        shut.retain(|_, until| *until > now);
        self.count.store(shut.len(), Ordering::Relaxed);
    }

    /// Makes a [`pass`](Self::pass) again and again, each so long after the one before. Never ends;
    /// drop it to end it. A pass that fails is made up for by the next one.
    ///
    /// # Cancel safety
    ///
    /// As of a [`pass`](Self::pass).
    pub async fn run(&self, interval: Duration) -> Infallible {
        loop {
            if self.store.sleep(interval).await.is_err() {
                // Without its runtime no pass can be made.
                std::future::pending::<()>().await;
            }
            // What it could not bring is brought by the next one.
            let _ = self.pass().await;
        }
    }
}

impl fmt::Debug for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detector")
            .field("key", &self.key)
            .field("flagged", &self.flagged().len())
            .finish_non_exhaustive()
    }
}
