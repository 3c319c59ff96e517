//! The stream, the throttle and each running item wake the adapter when they have something new. One
//! poll then is enough.

use std::sync::Arc;
use std::task::{Context, Waker};

use futures::{Stream, stream};
use tollgate::Semaphore;
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, settle};
use crate::support::{Counter, Waiter};

/// What it waits for may happen while it is being polled.
#[test]
fn its_own_permit_lets_the_next_one_in() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(1));
    let each = jobs
        .whole(1..=3)
        .for_each_limited(&slots, |item| jobs.silent_work(item));
    let mut each = Waiter::new(each);
    settle(&mut each);
    for item in 1..3 {
        let seen = each.wakes();
        jobs.finish(item);
        assert!(each.wakes() > seen);
        // The permit comes back, and is granted to the next one, while it is polled.
        settle(&mut each);
        let next = format!("run {}", item + 1);
        assert!(jobs.log.take().contains(&next));
    }
    jobs.finish(3);
    each.granted();
}

#[test]
fn a_waker_that_changes_is_the_one_that_is_woken() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(1));
    let work_ends = || jobs.finish(1);
    let throttle_lets_in = || slots.set_permits(2);
    let stream_has_more = || jobs.supply([3]);
    let mut results = jobs.limited(jobs.source(1..=2), &slots);
    for happens in [&throttle_lets_in as &dyn Fn(), &stream_has_more, &work_ends] {
        let old = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&old));
        let polled = results
            .stream
            .as_mut()
            .poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        results.assert_pending();
        let seen = (old.count(), results.wakes());
        happens();
        assert_eq!((old.count(), results.wakes()), (seen.0, seen.1 + 1));
    }
    assert_eq!(results.next(), Some(Ok(1)));
}

#[test]
fn work_that_is_always_ready_does_not_keep_its_task_for_ever() {
    let endless = stream::repeat(()).for_each_limited(None::<&Semaphore>, async |()| {});
    let mut endless = Waiter::new(endless);
    for polls in 1..4 {
        assert!(endless.is_pending());
        assert_eq!(endless.wakes(), polls);
    }
}
