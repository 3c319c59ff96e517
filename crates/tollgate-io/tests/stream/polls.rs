//! Tests random steps, polled only after a wake, as an executor does. `for_each_concurrent` of
//! futures is the model of the running items, and no item may be forgotten.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::stream;
use futures::{Stream, StreamExt};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, ErrorKind, Semaphore};
use tollgate_io::stream::LimitStreamExt;

use super::{Jobs, Polled, settle};
use crate::support::cases::cases;
use crate::support::{Counter, Waiter, assert_at_rest};

#[derive(Clone, Debug)]
enum Step {
    /// The stream gets this number of further items.
    Supply(usize),
    /// One running item finishes.
    Finish(Index),
    SetPermits(usize),
    /// Another caller takes a permit, or gives one back.
    Take,
    GiveBack,
    /// If the adapter was woken, it is polled until it waits.
    Run,
    /// The adapter is polled although it was not woken.
    PollInVain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..4_usize).prop_map(Step::Supply),
        8 => any::<Index>().prop_map(Step::Finish),
        1 => (0..5_usize).prop_map(Step::SetPermits),
        2 => Just(Step::Take),
        2 => Just(Step::GiveBack),
        8 => Just(Step::Run),
        1 => Just(Step::PollInVain),
    ];
    prop::collection::vec(step, 1..80)
}

/// The running work, according to the log.
#[derive(Default)]
struct Running {
    items: Vec<usize>,
    most: usize,
    taken: usize,
    started: usize,
}

impl Running {
    fn read(&mut self, jobs: &Jobs) {
        for event in jobs.log.take() {
            let (event, item) = event.rsplit_once(' ').expect("two words");
            match event {
                "take" => self.taken += 1,
                "run" => {
                    let item = item.parse().expect("a number");
                    assert_eq!(item, self.started, "not in order");
                    self.started += 1;
                    self.items.push(item);
                    self.most = self.most.max(self.items.len());
                }
                "end" => {
                    let item: usize = item.parse().expect("a number");
                    self.items.retain(|&other| other != item);
                }
                _ => {}
            }
        }
        assert!(self.taken <= self.started + 1, "more than one is outside");
    }
}

/// Polls until it waits without having been woken meanwhile. Returns the number of wakes, and whether it ended.
fn poll<S>(results: &mut Polled<S>, yielded: &mut Vec<usize>) -> (usize, bool)
where
    S: Stream<Item = Result<usize, AcquireError>>,
{
    loop {
        let seen = results.wakes();
        match results.poll() {
            Poll::Ready(Some(result)) => yielded.push(result.expect("it is open")),
            Poll::Ready(None) => return (seen, true),
            Poll::Pending if results.wakes() == seen => return (seen, false),
            Poll::Pending => {}
        }
    }
}

fn run(limit: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(limit));
    let mut results = jobs.limited(jobs.source([]), &slots);
    let mut running = Running::default();
    let mut held = Vec::new();
    let (mut supplied, mut yielded, mut seen) = (0, Vec::new(), 0);
    results.assert_pending();

    for step in steps {
        match step {
            Step::Supply(count) => {
                jobs.supply(supplied..supplied + count);
                supplied += count;
            }
            Step::Finish(which) if !running.items.is_empty() => {
                let item = running.items[which.index(running.items.len())];
                jobs.finish(item);
            }
            Step::SetPermits(permits) => slots.set_permits(permits),
            Step::Take => held.extend(slots.try_acquire()),
            Step::GiveBack => drop(held.pop()),
            Step::Run if results.wakes() > seen => {
                seen = poll(&mut results, &mut yielded).0;
            }
            Step::PollInVain => seen = poll(&mut results, &mut yielded).0,
            Step::Finish(_) | Step::Run => {}
        }
        running.read(&jobs);
    }
    // From here on it is polled only after a wake, and must reach its end that way.
    drop(held);
    slots.set_permits(limit.max(1));
    jobs.end();
    for item in 0..supplied {
        jobs.finish(item);
    }
    prop_assert!(results.wakes() > seen, "it was not woken");
    let (_, ended) = poll(&mut results, &mut yielded);
    prop_assert!(ended, "it was forgotten");
    running.read(&jobs);
    yielded.sort_unstable();
    prop_assert_eq!(yielded, (0..supplied).collect::<Vec<_>>());
    drop(results);
    assert_at_rest(&slots, limit.max(1));
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_item_is_finished_by_wakes_alone(limit in 0..4_usize, steps in steps()) {
        run(limit, steps)?;
    }

    /// Both adapters, and the one of futures, run the same items at the same time.
    #[test]
    fn runs_what_a_number_in_place_of_the_throttle_would(
        limit in 1..4_usize,
        items in 0..12_usize,
        order in prop::collection::vec(any::<Index>(), 12),
    ) {
        let slots = Semaphore::new(limit);
        let (ours, theirs) = (Jobs::default(), Jobs::default());
        let work = |jobs: &Jobs| {
            let jobs = jobs.clone();
            move |item| jobs.silent_work(item)
        };
        let mut limited = Waiter::new(ours.whole(0..items).for_each_limited(&slots, work(&ours)));
        let concurrent = theirs.whole(0..items).for_each_concurrent(limit, work(&theirs));
        let mut concurrent = Waiter::new(concurrent);
        let (mut running, mut of_theirs) = (Running::default(), Running::default());
        for which in order {
            let done = (limited.is_pending(), concurrent.is_pending());
            let events = [ours.log.take(), theirs.log.take()];
            for (log, running) in events.into_iter().zip([&mut running, &mut of_theirs]) {
                for event in log {
                    if let Some(item) = event.strip_prefix("run ") {
                        running.items.push(item.parse().unwrap());
                    } else if let Some(item) = event.strip_prefix("end ") {
                        let item: usize = item.parse().unwrap();
                        running.items.retain(|&other| other != item);
                    }
                }
            }
            prop_assert_eq!(done.0, done.1);
            prop_assert_eq!(&running.items, &of_theirs.items);
            if !done.0 {
                break;
            }
            let item = running.items[which.index(running.items.len())];
            ours.finish(item);
            theirs.finish(item);
        }
    }
}

// The stream, the throttle and each running item wake the adapter when they have something new. One
// poll is then enough.

/// The awaited event may happen during the poll.
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
        // The permit is returned during the poll, and is granted to the next item.
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

// Tests the work of one poll: 64 items are started, or 64 results yielded, and then the task yields.

const MANY: usize = 1_000_000;

#[test]
fn for_each_limited_with_items_that_only_start_starts_64_in_one_poll() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..MANY).for_each_limited(&slots, |_| {
        started.set(started.get() + 1);
        pending()
    }));
    for poll in 1..=3 {
        assert!(run.poll().is_pending());
        assert_eq!(started.get(), 64 * poll);
        assert!(run.wakes() >= poll);
    }
}

#[test]
fn for_each_limited_with_items_that_are_ready_finishes_64_in_one_poll() {
    let (slots, done) = (Semaphore::new(1), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..130).for_each_limited(&slots, |_| {
        done.set(done.get() + 1);
        ready(())
    }));
    for poll in 1..=2 {
        assert!(run.poll().is_pending());
        assert_eq!(done.get(), 64 * poll);
    }
    run.granted();
    assert_eq!(done.get(), 130);
}

#[test]
fn buffer_limited_with_items_that_only_start_starts_64_in_one_poll() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let items = stream::iter(0..MANY).map(|_| {
        started.set(started.get() + 1);
        pending::<()>()
    });
    let mut results = Polled::new(items.buffer_limited(&slots));
    for poll in 1..=3 {
        assert!(results.poll().is_pending());
        assert_eq!(started.get(), 64 * poll);
        assert!(results.wakes() >= poll);
    }
}

#[test]
fn buffer_limited_that_was_pending_starts_64_more() {
    let (slots, started) = (Semaphore::new(40), Cell::new(0));
    let items = stream::iter(0..MANY).map(|_| {
        started.set(started.get() + 1);
        pending::<()>()
    });
    let mut results = Polled::new(items.buffer_limited(&slots));
    assert!(results.poll().is_pending());
    // 40 items run, and one waits.
    assert_eq!(started.get(), 41);
    slots.set_permits(MANY);
    assert!(results.poll().is_pending());
    assert_eq!(started.get(), 40 + 64);
}

/// A user found that a million items were started in one poll, and that a token cancelled
/// after 50 ms was noticed after 1.65 s.
#[test]
fn token_cancelled_while_items_start_ends_the_poll_after_64() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let token = CancellationToken::new();
    let work = |_| {
        started.set(started.get() + 1);
        if started.get() == 50 {
            token.cancel();
        }
        pending()
    };
    let run = stream::iter(0..MANY).for_each_limited(&slots, work);
    let mut run = Waiter::new(run.cancel_on(&token));
    assert_eq!(run.refused(), ErrorKind::Cancelled);
    assert_eq!((started.get(), slots.available_permits()), (64, MANY));
}
