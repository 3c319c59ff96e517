//! What a fair queue costs: with permits to spare, and with ten thousand who wait.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use futures::executor::block_on;
use priority_semaphore::PrioritySemaphore;
use tollgate::Semaphore;
use tollgate::fair::{Class, ClassHandle, FairQueue};

use crate::line::{Boxed, Line, stand};
use crate::ready::LIMIT;

/// `acquire_owned().await` of a semaphore and drop.
pub fn acquire_owned() -> impl FnMut(u64) + 'static {
    let semaphore = Arc::new(Semaphore::new(LIMIT));
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(
                    Arc::clone(black_box(&semaphore)).acquire_owned().await,
                ));
            }
        });
    }
}

/// `acquire().await` of a class in front of the same, and drop.
pub fn acquire() -> impl FnMut(u64) + 'static {
    let class = FairQueue::new(Arc::new(Semaphore::new(LIMIT))).class(7);
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&class).acquire().await));
            }
        });
    }
}

/// `acquire().await` of the crate priority-semaphore, and drop.
pub fn acquire_priority_semaphore() -> impl FnMut(u64) + 'static {
    let semaphore = Arc::new(PrioritySemaphore::new(LIMIT));
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&semaphore).acquire(7).await));
            }
        });
    }
}

/// A line of a semaphore whose permits are owned.
pub fn owned_line(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(Semaphore::new(1));
    let same = Arc::clone(&semaphore);
    stand::<Boxed<_>, _, _>(
        count,
        move || Arc::clone(&same).try_acquire_owned().expect("it is free"),
        move || Arc::clone(&semaphore).acquire_owned(),
        || {},
    )
}

/// A line in so many classes, which take turns.
pub fn fair_line(count: usize, classes: usize) -> Box<dyn Line> {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1))).classes(|_| Class::new());
    let classes: Vec<ClassHandle<_, _>> = (0..classes).map(|key| queue.class(key)).collect();
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

/// A line of the crate priority-semaphore, of one priority, which is first-in first-out.
pub fn priority_line(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(PrioritySemaphore::new(1));
    let same = Arc::clone(&semaphore);
    stand::<Boxed<_>, _, _>(
        count,
        move || block_on(same.acquire(0)).expect("it is free"),
        move || semaphore.acquire(0),
        || {},
    )
}
