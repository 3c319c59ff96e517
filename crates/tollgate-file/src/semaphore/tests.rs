//! Tests what a fork does to a permit. Everything else is tested from outside.

use std::io::Read;
use std::process::{Command, Stdio};

use tollgate::ErrorKind;

use super::*;

fn one() -> (tempfile::TempDir, FileSemaphore) {
    let folder = tempfile::tempdir().unwrap();
    let semaphore = FileSemaphore::open(folder.path(), 1).unwrap();
    (folder, semaphore)
}

fn kind(tried: Result<FilePermit, AcquireError>) -> Option<ErrorKind> {
    tried.err().map(|refused| refused.kind())
}

/// A child that shares the open file, like one that is being started while the permit is dropped.
#[cfg(unix)]
#[test]
fn drop_while_a_child_shares_the_descriptor_returns_the_permit() {
    let (_folder, semaphore) = one();
    let permit = semaphore.try_acquire().unwrap();
    let shared = Stdio::from(permit.file.try_clone().unwrap());
    let mut child = Command::new("cat");
    let child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(shared);
    let mut child = child.spawn().unwrap();
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    drop(permit);
    assert_eq!(kind(semaphore.try_acquire()), None);
    drop(child.stdin.take());
    let mut rest = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut rest)
        .unwrap();
    assert!(child.wait().unwrap().success());
}

/// A forked child has a copy of the permit, and another process id.
#[test]
fn drop_in_a_forked_child_keeps_the_permit_of_the_parent() {
    let (_folder, semaphore) = one();
    let permit = semaphore.try_acquire().unwrap();
    let copy = FilePermit {
        file: permit.file.try_clone().unwrap(),
        process: permit.process ^ 1,
    };
    drop(copy);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    drop(permit);
    assert_eq!(kind(semaphore.try_acquire()), None);
}

#[test]
fn pause_falls_by_half_with_each_turn_to_a_quarter_of_a_millisecond() {
    let pauses = [0, 1, 2, 6, 7, 40, u64::MAX].map(|turns| pause(turns).as_micros());
    assert_eq!(pauses, [25_000, 12_500, 6_250, 390, 250, 250, 250]);
}
