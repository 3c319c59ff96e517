//! Tests what a fork does to a permit. Everything else is tested from outside.

use std::process::{Child, Command, Stdio};

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

/// Starts a child that shares the open file of a permit until its input ends.
#[cfg(unix)]
fn start_child(permit: &FilePermit) -> Child {
    let shared = Stdio::from(permit.lock.file.try_clone().unwrap());
    let mut child = Command::new("cat");
    let child = child.stdin(Stdio::piped()).stderr(shared);
    child.spawn().unwrap()
}

/// A child like one that is being started while the permit is dropped.
#[cfg(unix)]
#[test]
fn drop_while_a_child_shares_the_descriptor_returns_the_permit() {
    let (_folder, semaphore) = one();
    let permit = semaphore.try_acquire().unwrap();
    let mut child = start_child(&permit);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    drop(permit);
    assert_eq!(kind(semaphore.try_acquire()), None);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// The files of a process that is killed are closed, and not unlocked.
#[cfg(unix)]
#[test]
fn try_acquire_while_a_child_of_a_killed_parent_shares_the_descriptor_is_refused() {
    let (_folder, semaphore) = one();
    let mut permit = semaphore.try_acquire().unwrap();
    let mut child = start_child(&permit);
    permit.lock.process ^= 1;
    drop(permit);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(kind(semaphore.try_acquire()), None);
}

/// A forked child has a copy of the permit, and another process id.
#[test]
fn drop_in_a_forked_child_keeps_the_permit_of_the_parent() {
    let (_folder, semaphore) = one();
    let permit = semaphore.try_acquire().unwrap();
    let lock = Lock {
        file: permit.lock.file.try_clone().unwrap(),
        process: permit.lock.process ^ 1,
    };
    let record = permit.record;
    let copy = FilePermit { lock, record };
    drop(copy);
    assert_eq!(kind(semaphore.try_acquire()), Some(ErrorKind::NoPermits));
    drop(permit);
    assert_eq!(kind(semaphore.try_acquire()), None);
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn try_acquire_while_a_waiter_is_stopped_takes_a_permit_that_has_been_free_for_a_second() {
    let (_folder, semaphore) = one();
    drop(semaphore.try_acquire().unwrap());
    let path = &semaphore.0.permits[0];
    let record = Record::read(&File::open(path).unwrap(), path).unwrap();
    assert_eq!(record.taken, 1);
    // A waiter of another process that does not run.
    let waiter = wait_in(&semaphore.0.waiters).unwrap().unwrap();
    let at = |now| kind(semaphore.0.try_at(|| now));
    for now in [record.returned, record.returned + SECOND - 1] {
        assert_eq!(at(now), Some(ErrorKind::NoPermits));
    }
    // A permit that was not taken was not returned, so its time stays.
    let permit = semaphore.0.try_at(|| record.returned + SECOND).unwrap();
    assert_eq!(permit.record.taken, 2);
    assert_eq!(at(u64::MAX), Some(ErrorKind::NoPermits));
    drop((permit, waiter));
    assert_eq!(at(0), None);
}

#[test]
fn is_old_of_a_return_is_true_from_a_second_on_and_for_a_clock_that_was_set_back() {
    let (taken, returned) = (7, 1_800_000_000 * SECOND);
    let is_old = |now| Record { taken, returned }.is_old(now);
    assert!(!is_old(returned) && !is_old(returned + SECOND - 1) && is_old(returned + SECOND));
    assert!(!is_old(returned - SECOND + 1) && is_old(returned - SECOND));
    // New, or of a process that was killed at the first time.
    assert!(Record::default().is_old(returned));
}

#[test]
fn pause_falls_by_half_with_each_turn_to_a_quarter_of_a_millisecond() {
    let pauses = [0, 1, 2, 6, 7, 40, u64::MAX].map(|turns| pause(turns).as_micros());
    assert_eq!(pauses, [25_000, 12_500, 6_250, 390, 250, 250, 250]);
}

/// Numbers between 0 and 1, by a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as f64 / u64::MAX as f64
    }
}

/// Returns how often each of eight processes holds a permit that all of them ask for again at once, and the part
/// of the time for which it is held. When a permit returns, a waiter tries it after a random part of its pause,
/// and some 150 µs later, because timers are late.
fn shares(hold: f64, holds: u64, seed: u64) -> ([u32; 8], f64) {
    let mut random = Random(seed);
    let (mut served, mut joined, mut holder, mut idle) = ([0; 8], [0; 8], 0, 0.0);
    for taken in 1..=holds {
        served[holder] += 1;
        let mut first = (f64::MAX, holder);
        for (waiter, joined) in joined.iter().enumerate().filter(|(it, _)| *it != holder) {
            let pause = pause(taken - joined).as_secs_f64();
            let after = pause * random.next() - 150e-6 * (1.0 - random.next()).ln();
            first = if after < first.0 {
                (after, waiter)
            } else {
                first
            };
        }
        joined[holder] = taken;
        (idle, holder) = (idle + first.0, first.1);
    }
    let held = hold * holds as f64;
    (served, held / (held + idle))
}

#[test]
fn pause_by_turns_shares_a_permit_equally_whatever_the_time_of_a_hold() {
    for (hold, least) in [
        (0.001, 0.7),
        (0.02, 0.95),
        (0.2, 0.99),
        (1.0, 0.99),
        (10.0, 0.99),
    ] {
        let (mut uneven, mut used) = (0, 0.0);
        for seed in 0..200 {
            let (served, part) = shares(hold, 60, seed);
            let [fewest, most] = [served.iter().min(), served.iter().max()];
            uneven += u32::from(2 * fewest.unwrap() < *most.unwrap());
            used += part / 200.0;
        }
        println!("held for {hold} s: used {used:.3}, uneven {uneven} of 200");
        assert!(uneven <= 6 && used >= least, "{hold}: {uneven}, {used}");
    }
}
