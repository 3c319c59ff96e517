//! [`FileSemaphore`]: a concurrency limit of the processes of one machine.
//!
//! 1. A permit is the exclusive lock of one of `n` files. The kernel returns it when its process dies.
//! 2. Whoever takes a permit counts it in that file, under the lock. The sum over the files is the number of
//!    permits that were taken so far, so a waiter knows how many were taken since it began to wait: its *turns*.
//! 3. The head of a process's queue waits by trying. It pauses between two tries, half as long after each turn:
//!    who has waited for more turns tries more often, and so gets the next permit more probably. That is why the
//!    order is about that of arrival, whatever the time for which permits are held.
//! 4. A waiter holds a shared lock of one more file. Whoever cannot lock that file exclusively, which includes a
//!    caller that has just returned a permit, pauses before its first try.
//! 5. No waiter holds what another one needs: without the shared lock it tries, too. So `acquire` goes on while a
//!    waiter is stopped.
//! 6. Whoever returns a permit writes the time into its file, under the lock. `try_acquire` overtakes a waiter only at
//!    a permit that has been free for a second: a waiter that runs would have taken it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, ErrorKind, Throttle};

use crate::acquire::{Acquire, Line, briefly};
use crate::error::{FileError, FileErrorKind};
use crate::locked::{self, Attempt};
use crate::network;

/// The pause between two tries of a waiter without a turn, and the shortest pause.
const PAUSE: Duration = Duration::from_millis(25);
const SHORTEST: Duration = Duration::from_micros(250);

/// A try takes at most this part of a waiter's time: with many files, it pauses longer, up to the longest pause. A try
/// also takes long if the process was stopped in it.
const PART: u32 = 20;
const LONGEST: Duration = Duration::from_millis(250);

/// The time for which a permit is free before `try_acquire` overtakes the waiters: several times their longest pause.
const OVERTAKEN: Duration = Duration::from_secs(1);

/// The mark of a file of a permit. Two numbers of eight bytes follow, little-endian: how often the permit was taken,
/// and when it was returned, in nanoseconds since 1970.
const MARK: [u8; 8] = *b"tgpermit";
const RECORD: usize = 24;

/// A semaphore that the processes of one machine share, in a folder with a file for each permit.
///
/// A permit is a lock of the operating system. It is returned when it is dropped, and when its process ends in any
/// way, also by `kill -9`. All processes pass the same number of permits; if they differ, at most the largest
/// number is held at once. It is cheap to clone, and clones share a queue.
///
/// # Order
///
/// First-in first-out among the waiters of this semaphore and its clones. Among processes, and among semaphores
/// that were opened separately, the order is rough: a waiter tries for a permit from time to time, more often the
/// more permits were taken since it joined: every 25 milliseconds at first, and every 0.25 milliseconds after
/// seven. So a permit is idle for some milliseconds before it passes to another process: `cargo bench -p
/// tollgate-file` prints for how much of the time eight processes use a permit that they hold for 20 milliseconds.
///
/// A newcomer does not overtake: if somebody waits, it pauses first.
///
/// # When files change
///
/// If a file is unlinked or replaced while its permit is held, there is a new permit in its place: one more may be
/// held. A folder that was removed is an error.
///
/// # When a process is stopped
///
/// A stopped *holder* keeps its permit. A stopped *waiter* stops nobody: [`acquire`](Self::acquire) goes on, and
/// [`try_acquire`](Self::try_acquire) does so from a second after the return of a permit on.
///
/// # Fork
///
/// A child process that was started with [`Command`](std::process::Command) has no part in a permit. In a child
/// that was forked without executing another program, dropping a permit does nothing. But such a child keeps the
/// permits of a parent that is killed until it ends, too.
///
/// # Examples
///
/// ```
/// use tollgate_file::FileSemaphore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let temporary = tempfile::tempdir()?;
/// # let folder = temporary.path().join("builds");
/// // At most two builds at once, of all processes that open this folder.
/// let builds = FileSemaphore::open(folder, 2)?;
/// let permit = builds.acquire().await?;
/// drop(permit);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileSemaphore(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    permits: Box<[PathBuf]>,
    waiters: PathBuf,
    line: Line,
    /// The file with which the next try begins, so that tries spread over the files.
    next: AtomicUsize,
}

/// The result of a try.
enum Tried {
    Permit(FilePermit),
    /// All are held. The number of permits that have been taken so far.
    Taken(u64),
}

/// Whether others wait.
enum Others {
    None,
    /// With the lock that tells the others that this caller waits, if it could be taken.
    Wait(Option<Lock>),
}

impl FileSemaphore {
    /// Opens the semaphore in a folder, which is created if it does not exist, with a number of permits. With 0
    /// permits, all callers wait.
    ///
    /// The files in a new folder are for the processes of one user. For a group, create the folder before, and the
    /// files `waiters`, `permit-0`, `permit-1` and so on in it, empty and with the rights that the group needs.
    ///
    /// # Errors
    ///
    /// A [`FileError`], if the folder or a file in it cannot be used. Then nothing was written.
    pub fn open(folder: impl Into<PathBuf>, permits: usize) -> Result<Self, FileError> {
        let folder = folder.into();
        // Nothing is created on a file system of the network.
        let parent = folder.parent().filter(|it| !it.as_os_str().is_empty());
        network::check(&folder, parent.unwrap_or(".".as_ref()))?;
        create(&folder)?;
        network::check(&folder, &folder)?;
        let path = |index| folder.join(format!("permit-{index}"));
        let shared = Shared {
            permits: (0..permits).map(path).collect(),
            waiters: folder.join("waiters"),
            folder,
            line: Line::new(Clock::system()),
            next: AtomicUsize::new(process::id() as usize),
        };
        for path in &shared.permits {
            locked::check_kind(path)?;
        }
        shared.taken()?;
        // Missing rights show now.
        if let Attempt::Locked(file) = locked::lock(&shared.waiters)? {
            let _ = file.unlock();
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Returns the number of permits.
    pub fn permits(&self) -> usize {
        self.0.permits.len()
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.0.folder
    }

    /// Acquires a permit, and waits for it in the [order](Self#order) of arrival.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [`Acquire`](Acquire#cancel-safety).
    ///
    /// # Errors
    ///
    /// `Store`, with a [`FileError`] as its source, if a file cannot be used.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::ErrorKind;
    /// use tollgate_file::FileSemaphore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let builds = FileSemaphore::open(folder.path(), 1)?;
    /// let permit = builds.acquire().await?;
    /// let refused = builds.acquire().timeout(Duration::from_millis(5)).await;
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    /// drop(permit);
    /// builds.acquire().timeout(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<Acquire<FilePermit>> {
        let shared = Arc::clone(&self.0);
        Acquire::new(&self.0.line.clock, async move { shared.acquire().await })
    }

    /// Acquires a permit if one is free and nobody waits. It makes some system calls for each permit, and never
    /// blocks. If a process waits, it takes only a permit that was returned more than a second ago, or whose holder was
    /// killed: waiters look for permits several times a second, so those of a permit that is free for so long are
    /// probably [stopped](Self#when-a-process-is-stopped). A process that is interrupted in the microseconds in which it
    /// looks for waiters counts as one.
    ///
    /// # Errors
    ///
    /// `NoPermits`; `Store`, with a [`FileError`] as its source, if a file cannot be used.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ErrorKind;
    /// use tollgate_file::FileSemaphore;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let one = FileSemaphore::open(folder.path(), 1)?;
    /// let other = FileSemaphore::open(folder.path(), 1)?;
    /// let permit = one.try_acquire()?;
    /// assert_eq!(other.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// drop(permit);
    /// other.try_acquire()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_acquire(&self) -> Result<FilePermit, AcquireError> {
        self.0.try_at(unix_time)
    }
}

impl Shared {
    /// `now` is called under the lock of a permit: a caller may have been stopped before.
    fn try_at(&self, now: impl Fn() -> u64) -> Result<FilePermit, AcquireError> {
        let no_permits = AcquireError::new(ErrorKind::NoPermits);
        let Some(_head) = self.line.try_join() else {
            return Err(no_permits);
        };
        let is_awaited = self.others_wait()?;
        match self.try_permits(|record| !is_awaited || record.is_old(now()))? {
            Tried::Permit(permit) => Ok(permit),
            Tried::Taken(_) => Err(no_permits),
        }
    }

    async fn acquire(&self) -> Result<FilePermit, AcquireError> {
        let joined = self.line.is_busy().then(|| self.taken()).transpose()?;
        let _head = self.line.join().await?;
        let (mut waits, mut taken) = match self.others()? {
            Others::Wait(waits) => (waits, self.taken()?),
            Others::None => match self.try_permits(|_| true)? {
                Tried::Permit(permit) => return Ok(permit),
                Tried::Taken(taken) => (wait_in(&self.waiters)?, taken),
            },
        };
        let (joined, mut took) = (joined.unwrap_or(taken), Duration::ZERO);
        loop {
            let pause = pause(taken.saturating_sub(joined));
            self.line.sleep(pause.max((PART * took).min(LONGEST))).await;
            if waits.is_none() {
                waits = wait_in(&self.waiters)?;
            }
            let begun = self.line.clock.now();
            match self.try_permits(|_| true)? {
                Tried::Permit(permit) => return Ok(permit),
                Tried::Taken(now) => taken = now,
            }
            took = self.line.clock.now().saturating_since(begun);
        }
    }

    /// Finds out whether others wait, and if so, tells them that this caller waits, too.
    fn others(&self) -> Result<Others, FileError> {
        Ok(if self.others_wait()? {
            Others::Wait(wait_in(&self.waiters)?)
        } else {
            Others::None
        })
    }

    /// Finds out whether others wait. Another newcomer has the lock for microseconds.
    fn others_wait(&self) -> Result<bool, FileError> {
        let nobody = briefly(&self.line.clock, || {
            Ok(match locked::lock(&self.waiters)? {
                Attempt::Locked(file) => {
                    let _ = file.unlock();
                    Some(())
                }
                Attempt::Busy(_) => None,
            })
        })?;
        Ok(nobody.is_none())
    }

    /// Returns the number of permits that have been taken so far.
    fn taken(&self) -> Result<u64, FileError> {
        let mut taken = 0_u64;
        for path in &self.permits {
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    let file = opened.map_err(FileError::io(path))?;
                    taken = taken.saturating_add(taken_of_locked(&file, path)?);
                }
            }
        }
        Ok(taken)
    }

    /// Tries each file once, and takes the first permit that is free and may be taken.
    fn try_permits(&self, may_take: impl Fn(&Record) -> bool) -> Result<Tried, FileError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut taken = 0_u64;
        for index in 0..self.permits.len() {
            let path = &self.permits[next.wrapping_add(index) % self.permits.len()];
            match locked::lock(path)? {
                Attempt::Busy(file) => {
                    taken = taken.saturating_add(taken_of_locked(&file, path)?);
                }
                Attempt::Locked(file) => {
                    let lock = Lock::new(file);
                    let mut record = Record::read(&lock.file, path)?;
                    if may_take(&record) {
                        record.taken = record.taken.wrapping_add(1);
                        record.write(&lock.file);
                        return Ok(Tried::Permit(FilePermit { lock, record }));
                    }
                    taken = taken.saturating_add(record.taken);
                }
            }
        }
        Ok(Tried::Taken(taken))
    }
}

/// Returns the pause after a number of turns.
fn pause(turns: u64) -> Duration {
    (PAUSE / (1 << turns.min(16))).max(SHORTEST)
}

/// Takes the lock that tells the others that this caller waits.
fn wait_in(path: &Path) -> Result<Option<Lock>, FileError> {
    match File::open(path) {
        // It was unlinked, and the next newcomer creates it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => {
            let file = opened.map_err(FileError::io(path))?;
            let is_shared = file.try_lock_shared().is_ok();
            Ok(is_shared.then(|| Lock::new(file)))
        }
    }
}

/// What the file of a permit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// How often the permit was taken.
    taken: u64,
    /// When it was returned last, in nanoseconds since 1970. A process that was killed did not write it.
    returned: u64,
}

impl Record {
    fn read(file: &File, path: &Path) -> Result<Self, FileError> {
        let mut record = [0; RECORD + 1];
        let length = locked::read(file, &mut record).map_err(FileError::io(path))?;
        let record = &record[..length];
        // It is new, or the power was lost before it was written.
        if length <= RECORD && record.iter().all(|byte| *byte == 0) {
            return Ok(Self::default());
        }
        let numbers = record.strip_prefix(&MARK).map(<[u8]>::as_chunks);
        match numbers {
            Some(([taken, returned], [])) => Ok(Self {
                taken: u64::from_le_bytes(*taken),
                returned: u64::from_le_bytes(*returned),
            }),
            _ => Err(FileError::new(path, FileErrorKind::Garbage)),
        }
    }

    /// Writes it. Only the order among processes depends on it, so a failure is ignored: a full disk must not stop
    /// anybody.
    fn write(&self, file: &File) {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&MARK);
        record[8..16].copy_from_slice(&self.taken.to_le_bytes());
        record[16..].copy_from_slice(&self.returned.to_le_bytes());
        let _ = locked::write(file, &record);
    }

    /// Returns whether the permit was returned a second ago or before, or, by a clock that was set back since, at a
    /// later time.
    fn is_old(&self, now: u64) -> bool {
        u128::from(now.abs_diff(self.returned)) >= OVERTAKEN.as_nanos()
    }
}

/// Returns how often the permit of a file was taken that another process may have locked, which Windows then does
/// not let be read.
fn taken_of_locked(file: &File, path: &Path) -> Result<u64, FileError> {
    match Record::read(file, path) {
        Err(error) if matches!(error.kind(), FileErrorKind::Io(_)) => Ok(0),
        read => read.map(|record| record.taken),
    }
}

/// Returns the nanoseconds since 1970.
fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Creates the folder, unless it exists.
fn create(folder: &Path) -> Result<(), FileError> {
    match locked::create_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.map_err(FileError::io(folder)),
    }
    let there = folder.symlink_metadata().map_err(FileError::io(folder))?;
    if !there.is_dir() {
        return Err(FileError::new(folder, FileErrorKind::NotAFile));
    }
    Ok(())
}

impl Throttle for FileSemaphore {
    type Permit = FilePermit;
    type Enter = Acquire<FilePermit>;

    fn enter(&self) -> Waiting<Self::Enter> {
        self.acquire()
    }
}

impl fmt::Debug for FileSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSemaphore")
            .field("folder", &self.0.folder)
            .field("permits", &self.0.permits.len())
            .finish_non_exhaustive()
    }
}

/// A permit of a [`FileSemaphore`]. Dropping it returns it.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct FilePermit {
    lock: Lock,
    record: Record,
}

/// Writes the time. Then the lock is dropped.
impl Drop for FilePermit {
    fn drop(&mut self) {
        if self.lock.is_own() {
            self.record.returned = unix_time();
            self.record.write(&self.lock.file);
        }
    }
}

/// A lock of a file that this process has taken.
#[derive(Debug)]
struct Lock {
    file: File,
    process: u32,
}

impl Lock {
    fn new(file: File) -> Self {
        let process = process::id();
        Self { file, process }
    }

    /// Returns whether this process has taken it. In a forked child, it is the lock of the parent.
    fn is_own(&self) -> bool {
        self.process == process::id()
    }
}

/// Unlocks the file, because closing it alone would leave the lock with a child process that is just being
/// started. In a forked child it does nothing.
impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_own() {
            let _ = self.file.unlock();
        }
    }
}

#[cfg(test)]
mod tests;
