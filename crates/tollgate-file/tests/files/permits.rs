//! Permits among processes that are killed and stopped.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tollgate::{ErrorKind, Throttle};
use tollgate_file::FileSemaphore;

use crate::child::{Process, log, wait_until};

/// The number of permits of the processes that are killed.
pub(crate) const PERMITS: usize = 3;

/// How often a process is killed.
pub(crate) fn kills() -> usize {
    std::env::var("KILLS").map_or(50, |kills| kills.parse().unwrap())
}

/// Kills processes at random points, and starts others. `written` is the file to which they write.
pub(crate) fn kill_at_random(role: &str, path: &Path, written: &Path) {
    let start = || Process::start(role, &[path, written]);
    let mut processes: Vec<_> = (0..8).map(|_| start()).collect();
    let mut random = 1_u64;
    let length = || fs::metadata(written).map_or(0, |file| file.len());
    for _ in 0..kills() {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let until = length() + (random >> 33) % 256 + 1;
        wait_until(|| length() >= until);
        let index = (random >> 48) as usize % processes.len();
        let id = processes[index].id();
        log(written, &format!("kill {id}"));
        processes[index] = start();
        log(written, &format!("dead {id}"));
    }
    for process in &processes {
        log(written, &format!("kill {}", process.id()));
    }
}

#[test]
fn acquire_by_processes_that_are_killed_never_exceeds_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (path, written) = (folder.path().join("permits"), folder.path().join("log"));
    kill_at_random("permits", &path, &written);
    // A process that is being killed may hold a permit or not, until it is dead.
    let (mut holders, mut doomed) = (BTreeSet::new(), BTreeSet::new());
    let mut most = 0;
    for line in fs::read_to_string(&written).unwrap().lines() {
        let (event, id) = line.split_once(' ').unwrap();
        match event {
            "enter" if !doomed.contains(id) => assert!(holders.insert(id.to_string())),
            "kill" => {
                doomed.insert(id.to_string());
                holders.remove(id);
            }
            _ => _ = holders.remove(id),
        }
        most = most.max(holders.len());
        assert!(holders.len() <= PERMITS, "{holders:?}");
    }
    assert_eq!(most, PERMITS);
    // No permit is stuck.
    let semaphore = FileSemaphore::open(&path, PERMITS).unwrap();
    let permits: Vec<_> = (0..PERMITS)
        .map(|_| semaphore.try_acquire().unwrap())
        .collect();
    assert_eq!(
        semaphore.try_acquire().unwrap_err().kind(),
        ErrorKind::NoPermits
    );
    drop(permits);
}

#[test]
fn acquire_while_the_holder_is_killed_gets_its_permit() {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Process::start("permit", &[folder.path()]);
    assert_eq!(holder.line(), "acquired");
    let semaphore = FileSemaphore::open(folder.path(), 1).unwrap();
    assert_eq!(
        semaphore.try_acquire().unwrap_err().kind(),
        ErrorKind::NoPermits
    );
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.acquire().wait().unwrap());
        wait_until(|| is_awaited(folder.path()));
        assert!(!waiter.is_finished());
        drop(holder);
        drop(waiter.join().unwrap());
    });
}

/// Returns whether a waiter holds its lock.
fn is_awaited(folder: &Path) -> bool {
    let file = fs::File::open(folder.join("waiters")).unwrap();
    let is_locked = file.try_lock().is_err();
    let _ = file.unlock();
    is_locked
}

#[test]
fn acquire_and_try_acquire_while_a_waiter_is_stopped_get_the_permit() {
    let folder = tempfile::tempdir().unwrap();
    let semaphore = FileSemaphore::open(folder.path(), 1).unwrap();
    let permit = semaphore.try_acquire().unwrap();
    let mut waiter = Process::start("permit", &[folder.path()]);
    assert_eq!(waiter.line(), "waits");
    waiter.signal("STOP");
    drop(permit);
    drop(semaphore.acquire().wait().unwrap());
    // It does not overtake a waiter at once, but after a second.
    let mut permit = None;
    wait_until(|| {
        permit = semaphore.try_acquire().ok();
        permit.is_some()
    });
    waiter.signal("CONT");
    drop(permit);
    assert_eq!(waiter.line(), "acquired");
    waiter.end();
}

#[test]
fn acquire_by_threads_of_two_semaphores_never_exceeds_the_limit() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let folder = tempfile::tempdir().unwrap();
    let open = || FileSemaphore::open(folder.path(), 2).unwrap();
    let (semaphores, inside) = ([open(), open()], AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for index in 0..8 {
            let (semaphore, inside) = (&semaphores[index % 2], &inside);
            scope.spawn(move || {
                for _ in 0..20 {
                    let permit = semaphore.acquire().wait().unwrap();
                    assert!(inside.fetch_add(1, SeqCst) < 2);
                    std::thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                    drop(permit);
                }
            });
        }
    });
}

#[test]
fn acquire_that_is_dropped_lets_the_next_waiter_of_its_process_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let semaphore = FileSemaphore::open(folder.path(), 1).unwrap();
    let permit = semaphore.try_acquire().unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut first = Box::pin(semaphore.enter());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin(semaphore.enter());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(is_awaited(folder.path()));
    drop(first);
    assert!(!is_awaited(folder.path()));
    drop(permit);
    let waiting = tollgate::wait::Waiting::new(second);
    drop(waiting.timeout(Duration::from_secs(600)).wait().unwrap());
}
