//! [`Detector`]: flag, then throttle, for a fleet.
//!
//! 1. A call records its caller in this process, and looks whether it is shut out: nobody waits for
//!    the server.
//! 2. A pass takes what was recorded since the last one to the server, which adds up what all
//!    processes bring; and shuts out here whoever is over the threshold.
//! 3. What a pass did not send is kept for the next one; what was perhaps counted is not.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tollgate::{AcquireError, Algorithm, Quota};

use crate::error::StoreError;
use crate::rate::Rule;
use crate::script::{Arguments, SEVERAL, numbers, tag};
use crate::store::Store;

/// How many callers are brought in a call.
const MOST: usize = 256;

/// Finds out, over all processes, who makes more calls than a threshold allows, and shuts them out
/// for a penalty time: the relaxed way, for limits that are seldom reached.
///
/// A call costs a [`record`](Self::record) and a [`check`](Self::check), neither of which asks the
/// server. The server hears of it in a [`pass`](Self::pass), every now and then.
///
/// # Lateness
///
/// With a pass every `i`, and calls of the store that take at most its deadline `d`, a process
/// shuts out a caller at most `i + d` after the first call that it recorded of them beyond the
/// threshold, counting what other processes have brought by then; what those bring later is up to
/// `i + d` old. While the store fails nobody is shut out anew. Of a pass whose
/// answer was lost up to 256 callers may count for nothing; what was not sent is kept.
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
    recorded: Mutex<HashMap<String, u64>>,
    /// Until when who is shut out.
    shut: RwLock<HashMap<String, Instant>>,
    /// How many are shut out, so that a check is one look while nobody is.
    count: AtomicUsize,
}

impl Detector {
    /// Nobody is shut out yet. The burst of the threshold is how much a caller may make at once.
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
            recorded: Mutex::default(),
            shut: RwLock::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// For how long a caller is shut out at least. By default until they are below the threshold
    /// again.
    pub fn penalty(mut self, penalty: Duration) -> Self {
        self.penalty = penalty;
        self
    }

    fn recorded(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        // Nothing panics while it is held.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call.
    pub fn record(&self, caller: &str) {
        self.record_many(caller, 1);
    }

    /// Records so many calls, or one that costs so much.
    pub fn record_many(&self, caller: &str, n: u64) {
        let mut recorded = self.recorded();
        match recorded.get_mut(caller) {
            Some(count) => *count = count.saturating_add(n),
            None => drop(recorded.insert(caller.to_owned(), n)),
        }
    }

    /// Whether a caller may go on.
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

    /// Who is shut out in this process.
    pub fn flagged(&self) -> Vec<String> {
        let now = Instant::now();
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let flagged = shut.iter().filter(|(_, until)| **until > now);
        flagged.map(|(caller, _)| caller.clone()).collect()
    }

    /// Brings what was recorded to the server, and shuts out who is over the threshold; says how
    /// many those are.
    ///
    /// # Cancel safety
    ///
    /// Dropped on its way, what it had taken may be lost, which is counted for nobody.
    ///
    /// # Errors
    ///
    /// How the store failed. What was not brought is kept for the next pass; what
    /// was perhaps brought is not, so that nobody is counted twice.
    pub async fn pass(&self) -> Result<usize, StoreError> {
        let mut recorded: Vec<(String, u64)> = self.recorded().drain().collect();
        let mut flagged = 0;
        while !recorded.is_empty() {
            let rest = recorded.split_off(recorded.len().min(MOST));
            match self.bring(&recorded).await {
                Ok(over) => flagged += over,
                Err(error) => {
                    let lost = if error.is_perhaps_charged() {
                        recorded.len()
                    } else {
                        0
                    };
                    for (caller, n) in recorded.iter().skip(lost).chain(&rest) {
                        self.record_many(caller, *n);
                    }
                    return Err(error);
                }
            }
            recorded = rest;
        }
        self.reopen();
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
    /// drop it to end it.
    pub async fn run(&self, interval: Duration) -> Infallible {
        loop {
            tokio::time::sleep(interval).await;
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
