//! [`FileLimiter`]: a rate limit of the processes of one machine.
//!
//! 1. The file has the record of a [`LimiterState`], which decides. There is no other state and no arithmetic
//!    here.
//! 2. A decision opens and locks the file, reads the clock of the machine, reads the record, decides, writes the
//!    record in one call, and unlocks. The clock is read under the lock, so that the times of two processes do not
//!    cross.
//! 3. The lock is never waited for. A caller that does not wait tries it up to eight times within 50 µs; the head
//!    of the queue pauses and tries again, for a second at most.
//! 4. If a head has failed because of the lock, the next ones fail at their first try, until a try succeeds: a
//!    queue does not wait for the bound of each.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate::rate::{Charge, LimiterState, RestoreError};
use tollgate::throttle::Weighted;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Quota, Throttle};

use crate::acquire::{Acquire, Line, briefly};
use crate::error::{FileError, FileErrorKind};
use crate::locked::{self, Attempt};
use crate::network;

/// The time for which a head waits for the lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first and the longest pause between two tries of the lock.
const SHORTEST: Duration = Duration::from_micros(250);
const LONGEST: Duration = Duration::from_millis(25);

/// The longest time until a head looks again, because the clock of the machine may be set, the machine may be
/// suspended, and another process may give something back.
const LOOK: Duration = Duration::from_secs(1);

/// The lateness of a head for which the limiter makes up, as a limiter of one process does.
const CATCH_UP: Duration = Duration::from_millis(10);

/// A rate limiter that the processes of one machine share, in a file.
///
/// The file is 160 bytes long, and each decision locks, reads and writes it: with 8 system calls, without waiting
/// for the disk. The state survives restarts. Time is the clock of the machine, which also counts while the
/// machine is suspended, and windows begin at the multiples of their length since 1970, in UTC. It is cheap to
/// clone, and clones share a queue.
///
/// # Order
///
/// First-in first-out among the waiters of this limiter and its clones. Among processes, and among limiters that
/// were opened separately, there is no order: their heads wake when the next unit is due, and the first one gets
/// it. A process that the system wakes sooner gets more, and a call for several units may wait for as long as other
/// processes take fewer.
///
/// A head that wakes up to 10 milliseconds late is charged as of the time at which its unit was due, if nobody
/// else was charged in between. So late timers do not make a limit slower, as long as they are late by less than
/// the time between two units; above that, give it a burst.
///
/// # Several quotas
///
/// Each process decides by its own quota. What was spent stays spent at the price of its spender; see
/// [`LimiterState`](LimiterState#several-quotas). Another algorithm, or windows of another length, are an error.
///
/// # When things go wrong
///
/// - *A process that is killed* in a decision leaves the old or the new state, and no lock.
/// - *A process that is stopped in a decision* keeps the lock. Callers that wait fail after a second with
///   [`Busy`](FileErrorKind::Busy), and no thread is blocked. When the process resumes or dies, all go on.
/// - *The file is unlinked or replaced*: the next decision begins with what is there; a new file allows one burst.
/// - *The disk is full*: a limiter whose file exists goes on; a new file is an error.
/// - *The power is lost*: no decision waits for the disk, so the state may be that of some seconds before, which
///   allows at most one burst more, or the file may be empty, which is a new one.
/// - *The clock of the machine is set*: set back, no time has passed, and at most a burst is owed. Each jump
///   forward allows at most one burst.
/// - *The file cannot be used*: see [`FileErrorKind`]. Then nothing is created or written.
///
/// # Examples
///
/// ```
/// use tollgate::{ErrorKind, Quota};
/// use tollgate_file::FileLimiter;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("api");
/// // 60 requests a minute, by all processes that open this file.
/// let requests = FileLimiter::open(&path, Quota::per_minute(60).burst(2))?;
/// requests.try_acquire()?;
/// requests.try_acquire()?;
/// // This stands for another process.
/// let other = FileLimiter::open(&path, Quota::per_minute(60).burst(2))?;
/// assert_eq!(other.try_acquire().unwrap_err().kind(), ErrorKind::RateLimited);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FileLimiter(Arc<Shared>);

struct Shared {
    path: PathBuf,
    quota: Quota,
    algorithm: Algorithm,
    line: Line,
    /// What a test adds to the clock of the machine, in nanoseconds.
    #[cfg(test)]
    ahead: std::sync::atomic::AtomicI64,
    /// Whether a head has failed because of the lock, and no try has succeeded since.
    is_stuck: AtomicBool,
    unrefunded: AtomicU64,
}

impl FileLimiter {
    /// Opens the limiter in a file, which is created if it does not exist, with the algorithm
    /// [`Gcra`](Algorithm::Gcra).
    ///
    /// A new file is for the processes of one user. For a group, create it before, empty and with the rights that
    /// the group needs.
    ///
    /// # Errors
    ///
    /// A [`FileError`], if the file cannot be used. Then nothing was written.
    pub fn open(path: impl Into<PathBuf>, quota: Quota) -> Result<Self, FileError> {
        Self::open_with(path, quota, Algorithm::Gcra)
    }

    /// Opens the limiter in a file, with an algorithm.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open); [`Algorithm`](FileErrorKind::Algorithm) for a
    /// [`SlidingLog`](Algorithm::SlidingLog), whose state has no fixed size, and if the quota does not
    /// [fit](Algorithm::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Quota};
    /// use tollgate_file::FileLimiter;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("mails");
    /// let mails = FileLimiter::open_with(&path, Quota::per_day(500), Algorithm::FixedWindow)?;
    /// mails.try_acquire_many(500)?;
    /// assert!(mails.try_acquire().is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with(
        path: impl Into<PathBuf>,
        quota: Quota,
        algorithm: Algorithm,
    ) -> Result<Self, FileError> {
        Self::open_on(Clock::system(), path.into(), quota, algorithm)
    }

    fn open_on(
        clock: Clock,
        path: PathBuf,
        quota: Quota,
        algorithm: Algorithm,
    ) -> Result<Self, FileError> {
        let fits = algorithm.check(quota).is_ok() && algorithm != Algorithm::SlidingLog;
        if !fits {
            return Err(FileError::new(&path, FileErrorKind::Algorithm));
        }
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        network::check(&path, folder.unwrap_or(".".as_ref()))?;
        locked::check_kind(&path)?;
        let shared = Shared {
            path,
            quota,
            algorithm,
            line: Line::new(clock),
            #[cfg(test)]
            ahead: std::sync::atomic::AtomicI64::new(0),
            is_stuck: AtomicBool::new(false),
            unrefunded: AtomicU64::new(0),
        };
        // Checks the file, and gives a new one its room on the disk. A file that is locked has its users.
        shared.briefly(|_, _| ())?;
        Ok(Self(Arc::new(shared)))
    }

    /// Returns the quota.
    pub fn quota(&self) -> Quota {
        self.0.quota
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Acquires one unit, and waits for it in the [order](Self#order) of arrival.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [`Acquire`](Acquire#cancel-safety).
    ///
    /// # Errors
    ///
    /// `TimedOut`, at once for the first in the queue if its wait does not fit a [timeout](Waiting::timeout), and
    /// for the others when the timeout ends or they become the first; `Store`, with a [`FileError`] as its source,
    /// if the file cannot be used.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ErrorKind, Quota};
    /// use tollgate_file::FileLimiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let requests = FileLimiter::open(folder.path().join("api"), Quota::per_hour(1))?;
    /// requests.acquire().await?;
    /// let refused = requests.acquire().timeout(Duration::from_secs(60)).await;
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<Acquire<Charge>> {
        self.acquire_many(1)
    }

    /// Acquires `n` units together, and waits for them.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire); `ExceedsCapacity` if `n` is more than the burst.
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<Charge>> {
        let shared = Arc::clone(&self.0);
        let future = async move { shared.acquire(n).await };
        Acquire::new(&self.0.line.clock, future)
    }

    /// Acquires one unit if it is available now and nobody of this process waits. It makes 8 system calls, and
    /// never blocks.
    ///
    /// # Errors
    ///
    /// `RateLimited`, with the time after which to retry if no other process comes first, and without one if
    /// callers of this process wait; `Store`, with a [`FileError`] as its source, if the file cannot be used, or
    /// if other processes had locked it at all of up to eight attempts within 50 µs.
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` units together if they are available now and nobody of this process waits.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if `n` is more than the burst.
    pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
        let Some(_head) = self.0.line.try_join() else {
            return Err(AcquireError::new(ErrorKind::RateLimited));
        };
        let quota = self.0.quota;
        let decided = self.0.briefly(|state, now| state.take(quota, now, n))?;
        decided.unwrap_or_else(|| Err(self.0.busy()))
    }

    /// Gives a charge back, because the call was not made, except for the part that time has paid off. It makes 8
    /// system calls, and never blocks: if other processes had locked the file at all of up to eight attempts
    /// within 50 µs, or it cannot be used, the charge stays, time pays it off, and
    /// [`unrefunded`](Self::unrefunded) counts it.
    pub fn refund(&self, charge: Charge) {
        let units = charge.cost();
        self.give_back(&charge, units);
    }

    /// Returns how many charges this limiter and its clones could not change afterwards.
    pub fn unrefunded(&self) -> u64 {
        self.0.unrefunded.load(Ordering::Relaxed)
    }

    fn give_back(&self, charge: &Charge, units: u64) {
        self.correct(|state, now| state.give_back(charge, units, now));
    }

    fn correct(&self, change: impl FnMut(&mut LimiterState, Duration)) {
        if !matches!(self.0.briefly(change), Ok(Some(()))) {
            self.0.unrefunded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the time as of which a head arrives: the time that it foresaw, if it wakes a little late and nobody has
/// been charged since. So the lateness of timers costs nothing. That time is after the last charge.
fn arrival(
    foreseen: &Option<(LimiterState, Duration)>,
    state: &LimiterState,
    now: Duration,
) -> Duration {
    match foreseen {
        Some((seen, due)) if seen == state => now.min(*due).max(now.saturating_sub(CATCH_UP)),
        _ => now,
    }
}

impl Shared {
    async fn acquire(&self, units: u64) -> Result<Charge, AcquireError> {
        let _head = self.line.join().await?;
        let (mut pause, mut busy_since) = (SHORTEST, None);
        let mut foreseen = None;
        loop {
            let decided = self.briefly(|state, now| {
                let at = arrival(&foreseen, state, now);
                let taken = state.take(self.quota, at, units);
                if let Some(wait) = taken.as_ref().err().and_then(AcquireError::retry_after) {
                    foreseen = Some((state.clone(), at.saturating_add(wait)));
                }
                taken
            })?;
            let refused = match decided {
                Some(Ok(charge)) => return Ok(charge),
                Some(Err(refused)) => refused,
                None => {
                    let now = self.line.clock.now();
                    let busy_for = now.saturating_since(*busy_since.get_or_insert(now));
                    if self.is_stuck.load(Ordering::Relaxed) || busy_for >= PATIENCE {
                        self.is_stuck.store(true, Ordering::Relaxed);
                        return Err(self.busy());
                    }
                    self.line.sleep(pause).await;
                    pause = LONGEST.min(2 * pause);
                    continue;
                }
            };
            (pause, busy_since) = (SHORTEST, None);
            let wait = match refused.retry_after() {
                Some(wait) if wait < Duration::MAX => wait,
                _ => return Err(refused),
            };
            if Waiting::remaining_timeout().is_some_and(|left| wait > left) {
                return Err(AcquireError::would_take(wait));
            }
            self.line.sleep(wait.min(LOOK)).await;
        }
    }

    fn busy(&self) -> AcquireError {
        FileError::new(&self.path, FileErrorKind::Busy).into()
    }

    /// Changes the state if the file can be locked within 50 µs.
    fn briefly<R>(
        &self,
        mut change: impl FnMut(&mut LimiterState, Duration) -> R,
    ) -> Result<Option<R>, FileError> {
        briefly(&self.line.clock, || self.change(&mut change))
    }

    /// Changes the state if the file can be locked.
    fn change<R>(
        &self,
        change: impl FnOnce(&mut LimiterState, Duration) -> R,
    ) -> Result<Option<R>, FileError> {
        let Attempt::Locked(file) = locked::lock(&self.path)? else {
            return Ok(None);
        };
        let changed = self.change_locked(&file, change);
        let _ = file.unlock();
        self.is_stuck.store(false, Ordering::Relaxed);
        changed.map(Some)
    }

    fn change_locked<R>(
        &self,
        file: &File,
        change: impl FnOnce(&mut LimiterState, Duration) -> R,
    ) -> Result<R, FileError> {
        let before = self.read(file)?;
        let mut state = match &before {
            Some(state) => state.clone(),
            None => LimiterState::new(self.algorithm, self.quota)
                .map_err(|_| self.error(FileErrorKind::Algorithm))?,
        };
        let result = change(&mut state, self.now());
        if before.as_ref() != Some(&state) {
            let record = state.to_bytes();
            let record = record.ok_or_else(|| self.error(FileErrorKind::Algorithm))?;
            locked::write(file, &record).map_err(FileError::io(&self.path))?;
        }
        Ok(result)
    }

    /// Reads the state. `None` if the file is new.
    fn read(&self, file: &File) -> Result<Option<LimiterState>, FileError> {
        let mut record = [0; LimiterState::BYTES + 1];
        let length = locked::read(file, &mut record).map_err(FileError::io(&self.path))?;
        let record = &record[..length];
        // If the power was lost before the first record was written, the file may have zeros in its place.
        if length <= LimiterState::BYTES && record.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let state = LimiterState::from_bytes(record);
        let checked = state.and_then(|it| it.check(self.algorithm, self.quota).map(|()| it));
        let kind = |error| match error {
            RestoreError::Garbage => FileErrorKind::Garbage,
            other => FileErrorKind::State(other),
        };
        checked.map(Some).map_err(|error| self.error(kind(error)))
    }

    /// Returns the time since the Unix epoch.
    fn now(&self) -> Duration {
        let now = self.line.clock.wall();
        #[cfg(test)]
        let now = {
            let ahead = self.ahead.load(Ordering::Relaxed);
            let by = Duration::from_nanos(ahead.unsigned_abs());
            if ahead < 0 {
                now.saturating_sub(by)
            } else {
                now + by
            }
        };
        now
    }

    fn error(&self, kind: FileErrorKind) -> FileError {
        FileError::new(&self.path, kind)
    }
}

/// Rolling a charge back is a [refund](FileLimiter::refund).
impl Throttle for FileLimiter {
    type Permit = Charge;
    type Enter = Acquire<Charge>;

    fn enter(&self) -> Waiting<Self::Enter> {
        self.acquire()
    }

    fn rollback(&self, charge: Charge) {
        self.refund(charge);
    }
}

/// A [`FileLimiter`] with a cost: each entry is charged this much. Created by [`Weighted::cost`].
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Cost {
    limiter: FileLimiter,
    cost: u64,
}

impl Throttle for Cost {
    type Permit = Charge;
    type Enter = Acquire<Charge>;

    tollgate::forward!(Throttle, self => self.limiter, except enter, enter_now);

    fn enter(&self) -> Waiting<Self::Enter> {
        self.limiter.acquire_many(self.cost)
    }
}

impl Weighted for FileLimiter {
    type Many = Cost;

    fn cost(&self, n: u64) -> Cost {
        let limiter = self.clone();
        Cost { limiter, cost: n }
    }

    /// [Refunds](FileLimiter::refund) the rest, or charges more, in the same way.
    fn settle(&self, charge: Charge, used: u64) {
        let cost = charge.cost();
        if used > cost {
            let quota = self.0.quota;
            self.correct(|state, now| _ = state.charge(quota, now, used - cost));
        } else if used < cost {
            self.give_back(&charge, cost - used);
        }
    }

    fn max_units(&self) -> u64 {
        self.0.algorithm.batch(self.0.quota).max_burst()
    }

    fn chunk_units(&self) -> u64 {
        let quota = self.0.quota;
        let chunk = u128::from(quota.count()) * 10_000_000 / quota.period().as_nanos();
        let chunk = u64::try_from(chunk).unwrap_or(u64::MAX).max(1024);
        chunk.min(self.max_units().div_ceil(2))
    }
}

impl fmt::Debug for FileLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLimiter")
            .field("path", &self.0.path)
            .field("quota", &self.0.quota)
            .field("algorithm", &self.0.algorithm)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
