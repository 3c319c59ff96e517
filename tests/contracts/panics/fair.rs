//! Documented panics of fair queues and their classes.

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Share};
use tollgate::{Clock, Semaphore};

use super::options::TOO_LATE;
use super::{FILE, Location, no_panic, row};

fn queue() -> FairQueue<Arc<Semaphore>, u32> {
    FairQueue::new(Arc::new(Semaphore::new(1)))
}

#[test]
fn settings_of_classes_and_queues() {
    panics! {
        "the weight of a class must be at least 1, not 0" => Class::new().weight(0);
        "the maximum concurrency of a class must be at least 1, not 0" =>
            Class::new().max_concurrency(0);
        "a fair queue needs at least 1 class, not 0" => queue().max_classes(0);
        "the period of aging must be longer than 0ns" => queue().aging(Duration::ZERO);
    }
    allowed! {
        Class::new().weight(u32::MAX).max_concurrency(1);
        queue().max_classes(1).aging(Duration::MAX).max_waiters(0);
    }
}

#[test]
fn an_option_of_a_fair_queue_that_is_in_use() {
    let shared = queue();
    let class = shared.class(1);
    row(TOO_LATE, || shared.max_waiters(1));
    let permit = class.try_acquire().unwrap();
    row("no class", || {
        queue().classes(|_| panic!("no class")).class(1)
    });
    drop(permit);
}

/// The queue remembers the class, and the bounds that it has.
#[test]
fn an_option_of_a_fair_queue_that_remembers_a_class() {
    type Option = fn(FairQueue<Arc<Semaphore>, u32>) -> FairQueue<Arc<Semaphore>, u32>;
    let options: [Option; 6] = [
        |queue| queue.classes(|_| Class::new()),
        |queue| queue.share(Share::ByCost),
        |queue| queue.max_classes(1),
        |queue| queue.max_waiters(1),
        |queue| queue.aging(Duration::MAX),
        |queue| queue.clock(Clock::manual()),
    ];
    for option in options {
        let used = queue();
        drop(used.class(1).try_acquire().unwrap());
        row(TOO_LATE, || option(used));
        let unused = queue();
        drop(unused.class(1));
        no_panic(|| option(unused));
    }
}
