//! The list of holders.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{Clock, ManualClock, Semaphore};
use tollgate_observe::{Holders, Observed};

use super::SECOND;
use crate::support::Waiter;
use crate::support::random::on_threads;

type Slots = Observed<Arc<Semaphore>, Holders>;

fn slots(permits: usize) -> (Slots, Holders, ManualClock) {
    let clock = Clock::manual();
    let holders = Holders::new("slots").clock(&clock);
    let semaphore = Arc::new(Semaphore::new(permits));
    (Observed::new(semaphore, holders.clone()), holders, clock)
}

#[test]
fn list_is_ordered_by_age_and_older_than_is_exclusive() {
    let (slots, holders, clock) = slots(3);
    assert!(holders.oldest().is_none());
    let oldest = slots.try_acquire().unwrap();
    clock.advance(SECOND);
    let middle = slots.try_acquire().unwrap();
    clock.advance(SECOND);
    let mut newest = Waiter::new(slots.acquire());
    let _newest = newest.granted();
    let held = |holders: Vec<tollgate_observe::Holder>| -> Vec<_> {
        holders.iter().map(|holder| holder.held).collect()
    };
    assert_eq!(held(holders.list()), [2 * SECOND, SECOND, Duration::ZERO]);
    assert_eq!(held(holders.older_than(SECOND)), [2 * SECOND]);
    assert_eq!(holders.oldest().unwrap().since.as_nanos(), 0);
    drop(oldest);
    assert_eq!(held(holders.list()), [SECOND, Duration::ZERO]);
    // A slot is used again, and the order is that of time.
    let _again = slots.try_acquire().unwrap();
    drop(middle);
    clock.advance(SECOND);
    assert_eq!(held(holders.list()), [SECOND, SECOND]);
}

#[test]
fn debug_is_a_table() {
    let (slots, holders, clock) = slots(2);
    assert_eq!(format!("{holders:?}"), "0 holders of slots");
    let line = line!() + 1;
    let _one = slots.try_acquire().unwrap();
    clock.advance(90 * SECOND);
    let _two = slots.try_acquire().unwrap();
    let file = file!();
    let expected = format!(
        "2 holders of slots\n     90.000s  {file}:{line}:22\n     0.000ns  {file}:{}:22",
        line + 2
    );
    assert_eq!(format!("{holders:?}"), expected);
}

#[test]
fn labelled_handles_of_a_list_label_their_permits() {
    let clock = Clock::manual();
    let holders = Holders::new("slots").labelled("nobody").clock(&clock);
    let semaphore = Semaphore::new(4);
    let ann = Observed::new(&semaphore, holders.labelled("ann"));
    let bob = Observed::new(&semaphore, holders.labelled(String::from("bob")));
    let other = Observed::new(&semaphore, &holders);
    let labels = || -> Vec<_> {
        let listed = holders.list().into_iter();
        listed.filter_map(|holder| holder.label).collect()
    };
    let permits = [&ann, &bob, &ann].map(|slots| {
        clock.advance(SECOND);
        slots.try_acquire().unwrap()
    });
    clock.advance(SECOND);
    let _last = other.try_acquire().unwrap();
    assert_eq!(labels(), ["ann", "bob", "ann", "nobody"].map(Arc::from));
    let table = format!("{holders:?}");
    assert!(table.lines().nth(2).unwrap().ends_with("  bob"), "{table}");
    drop(permits);
    assert_eq!(labels(), [Arc::from("nobody")]);
}

#[test]
fn permit_that_is_released_on_another_thread_is_removed() {
    let (slots, holders, _clock) = slots(1000);
    let permits: Vec<_> = (0..1000).map(|_| slots.try_acquire().unwrap()).collect();
    assert_eq!(holders.list().len(), 1000);
    thread::spawn(move || drop(permits)).join().unwrap();
    assert!(holders.list().is_empty());
    // Another clock makes another list.
    let other = holders.clone().clock(Clock::manual());
    let _permit = slots.try_acquire().unwrap();
    assert_eq!((holders.list().len(), other.list().len()), (1, 0));
}

#[test]
fn threads_leave_no_holder_behind() {
    let (slots, holders, _clock) = slots(3);
    on_threads(4, |random| {
        for _ in 0..2_000 {
            let permit = match random.below(2) {
                0 => slots.acquire().wait().ok(),
                _ => slots.try_acquire().ok(),
            };
            // Its own permit is in the list.
            assert!(permit.is_none() || holders.oldest().is_some());
        }
    });
    assert!(holders.list().is_empty());
}

#[test]
fn task_is_that_which_acquired() {
    let (slots, holders, _clock) = slots(2);
    let runtime = crate::support::paused_runtime();
    runtime.block_on(async move {
        let outside = slots.try_acquire().unwrap();
        assert_eq!(holders.oldest().unwrap().task(), None);
        drop(outside);
        let task = tokio::spawn(async move { slots.acquire().await.unwrap() });
        let id = task.id();
        let permit = task.await.unwrap();
        assert_eq!(holders.oldest().unwrap().task(), Some(id));
        assert!(format!("{holders:?}").ends_with(&format!("  task {id}")));
        drop(permit);
    });
}
