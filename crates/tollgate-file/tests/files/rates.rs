//! Rates among processes and threads that are killed and stopped.

use std::error::Error;
use std::fs::{self, File};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use tollgate::{AcquireError, ErrorKind, Quota};
use tollgate_file::{FileError, FileErrorKind, FileLimiter};

use crate::child::Process;
use crate::permits::kill_at_random;

/// The quota of the processes that are killed.
pub(crate) const QUOTA: Quota = Quota::per_second(2000).burst(10);

#[test]
fn acquire_by_processes_that_are_killed_never_exceeds_the_quota_in_any_window() {
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = (folder.path().join("rate"), folder.path().join("log"));
    kill_at_random("units", &path, &written);
    let log = fs::read_to_string(&written).unwrap();
    let mut ticks: Vec<u64> = log.lines().filter_map(|line| line.parse().ok()).collect();
    ticks.sort_unstable();
    assert!(ticks.len() >= 10);
    // All windows at once: the theoretical arrival time of each charge is at most a burst ahead of it.
    let (interval, burst, mut end) = (500_000, 10, 0);
    for tick in ticks {
        end = tick.max(end) + interval;
        assert!(end - tick <= burst * interval, "{tick}");
    }
    // The file has a whole state, and its lock is free.
    FileLimiter::open(&path, QUOTA)
        .unwrap()
        .acquire()
        .wait()
        .unwrap();
}

#[test]
fn acquire_by_threads_of_two_limiters_admits_exactly_the_burst() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota::per_day(1).burst(50);
    let open = || FileLimiter::open(folder.path().join("rate"), quota).unwrap();
    let (limiters, admitted) = ([open(), open()], AtomicU64::new(0));
    std::thread::scope(|scope| {
        for index in 0..8 {
            let (limiter, admitted) = (&limiters[index % 2], &admitted);
            scope.spawn(move || {
                loop {
                    match limiter.try_acquire() {
                        Ok(_) => _ = admitted.fetch_add(1, Ordering::Relaxed),
                        Err(refused) if refused.retry_after().is_some() => break,
                        // Another thread is deciding.
                        Err(_) => std::thread::yield_now(),
                    }
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 50);
}

fn source(error: &AcquireError) -> Option<&FileError> {
    error.source().and_then(|source| source.downcast_ref())
}

/// The bound is a second of the clock of the machine.
#[tokio::test]
async fn acquire_while_the_holder_of_the_lock_is_stopped_fails_with_the_name_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rate");
    let limiter = FileLimiter::open(&path, QUOTA).unwrap();
    let mut holder = Process::start("lock", &[&path]);
    assert_eq!(holder.line(), "locked");
    holder.signal("STOP");
    // A poll returns, so the thread of the runtime is not blocked.
    let mut waiting = pin!(limiter.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let refused = waiting.await.unwrap_err();
    let error = source(&refused).unwrap();
    assert_eq!((error.kind(), error.path()), (FileErrorKind::Busy, &*path));
    holder.signal("CONT");
    holder.end();
    limiter.acquire().await.unwrap();
}

#[test]
fn acquire_while_the_holder_of_the_lock_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rate");
    let limiter = FileLimiter::open(&path, QUOTA).unwrap();
    let mut holder = Process::start("lock", &[&path]);
    assert_eq!(holder.line(), "locked");
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(source(&refused).unwrap().kind(), FileErrorKind::Busy);
    drop(holder);
    limiter.try_acquire().unwrap();
}

#[test]
fn try_acquire_after_the_file_is_unlinked_or_replaced_begins_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["rate", "other"].map(|name| folder.path().join(name));
    let quota = Quota::per_day(1).burst(3);
    let [limiter, replacement] =
        [&path, &other].map(|path| FileLimiter::open(path, quota).unwrap());
    let exhaust = || std::iter::from_fn(|| limiter.try_acquire().ok()).count();
    assert_eq!(exhaust(), 3);
    fs::remove_file(&path).unwrap();
    assert_eq!((exhaust(), exhaust()), (3, 0));
    replacement.try_acquire_many(2).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!((exhaust(), exhaust()), (1, 0));
    // Lost with the power: a file without content, or with zeros.
    File::create(&path).unwrap();
    assert_eq!((exhaust(), exhaust()), (3, 0));
    fs::write(&path, [0; 160]).unwrap();
    assert_eq!((exhaust(), exhaust()), (3, 0));
    assert_eq!(fs::metadata(&path).unwrap().len(), 160);
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RateLimited);
}
