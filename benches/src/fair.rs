//! Measures the cost of a fair queue: with permits to spare, and with ten thousand waiters.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use futures::executor::block_on;
use priority_semaphore::PrioritySemaphore;
use tollgate::Semaphore;
use tollgate::fair::{Class, ClassHandle, FairQueue};

use crate::harness::{Row, Shared, alone};
use crate::line::{Boxed, Line, Part, WAITERS, in_line, stand};
use crate::repeat_async;
use crate::semaphore::LIMIT;
use crate::throttles::acquire_owned;

const CLASSES: usize = 100;

const OWNED: &str = "Semaphore, owned";
const PRIORITY: &str = "priority-semaphore";

/// A fair queue next to the semaphore that it is in front of, and next to a semaphore with priorities.
#[must_use]
pub fn rows() -> Vec<Row> {
    let row = |name: &str, part, target: Option<f64>| {
        let mut owned = in_line(WAITERS, OWNED, owned_line, &part);
        if let Some(target) = target {
            owned = owned.at_most(target);
        }
        let name = format!("fair: 10,000 waiters in 100 classes: {name}");
        Row::new(
            name,
            [in_line(WAITERS, "FairQueue", fair_line, &part), owned],
        )
        .beside(in_line(WAITERS, PRIORITY, priority_line, &part))
    };
    vec![
        Row::new(
            "fair: acquire ready + drop",
            [
                alone("FairQueue", acquire),
                alone(OWNED, acquire_owned).at_most(2.5),
                alone(PRIORITY, acquire_priority_semaphore),
            ],
        ),
        row("enqueue", Part::Enqueue, None),
        row("hand-off", Part::Drain, Some(3.0)),
        row("enqueue + hand-off", Part::Both, None),
    ]
}

/// `acquire().await` of a class in front of the same semaphore, and drop.
fn acquire() -> Shared {
    let class = FairQueue::new(Arc::new(Semaphore::new(LIMIT))).class(7);
    repeat_async!(class, |class| drop(black_box(class.acquire().await)))
}

/// `acquire().await` of the crate priority-semaphore, and drop.
fn acquire_priority_semaphore() -> Shared {
    let semaphore = Arc::new(PrioritySemaphore::new(LIMIT));
    repeat_async!(semaphore, |semaphore| {
        drop(black_box(semaphore.acquire(7).await));
    })
}

/// Returns a line of a semaphore whose permits are owned.
fn owned_line(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(Semaphore::new(1));
    let same = Arc::clone(&semaphore);
    stand::<Boxed<_>, _, _>(
        count,
        move || Arc::clone(&same).try_acquire_owned().expect("it is free"),
        move || Arc::clone(&semaphore).acquire_owned(),
        || {},
    )
}

/// Returns a line in a hundred classes, which take turns.
fn fair_line(count: usize) -> Box<dyn Line> {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1))).classes(|_| Class::new());
    let classes: Vec<ClassHandle<_, _>> = (0..CLASSES).map(|key| queue.class(key)).collect();
    let next = Cell::new(0);
    let first = classes[0].clone();
    stand::<Boxed<_>, _, _>(
        count,
        move || first.try_acquire().expect("it is free"),
        move || {
            let class = next.get();
            next.set((class + 1) % classes.len());
            classes[class].acquire()
        },
        || {},
    )
}

/// Returns a line of the crate priority-semaphore, of one priority, which is first-in first-out.
fn priority_line(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(PrioritySemaphore::new(1));
    let same = Arc::clone(&semaphore);
    stand::<Boxed<_>, _, _>(
        count,
        move || block_on(same.acquire(0)).expect("it is free"),
        move || semaphore.acquire(0),
        || {},
    )
}
