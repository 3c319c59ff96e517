//! Compares the queue with the most obvious model of it, a `VecDeque` of names; and tests the
//! memory that it holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::*;

/// Counts its calls; `will_wake` distinguishes two of them.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Counter::default()))
}

impl Units for usize {
    fn units(self) -> u64 {
        self as u64
    }
}

/// The state that a waiter gave up by leaving.
enum Left<C> {
    Slot,
    Kept(C),
    Granted,
}

fn leave<C: Units>(line: &mut WaitQueue<C>, ticket: WaiterId) -> Left<C> {
    if line.withdraw(&ticket).is_some() {
        return Left::Slot;
    }
    line.collect(&ticket).map_or(Left::Granted, Left::Kept)
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_joined() {
    let mut line = WaitQueue::<usize>::new();
    let tickets: Vec<_> = (0..100).map(|cost| line.push(cost, waker())).collect();
    let mut last = 0;
    for cost in 0..100 {
        let (number, asked) = line.head().unwrap();
        assert_eq!(asked, cost);
        let served = if cost % 3 == 0 {
            line.keep_head(cost)
        } else {
            line.grant_head()
        };
        assert!(served.is_some() && number > last);
        last = number;
    }
    assert!(line.is_empty());
    for (cost, ticket) in tickets.into_iter().enumerate() {
        match leave(&mut line, ticket) {
            Left::Kept(told) => assert_eq!((told, cost % 3), (cost, 0)),
            Left::Granted => assert_ne!(cost % 3, 0),
            Left::Slot => panic!("still in the queue"),
        }
    }
    assert!(!line.has_kept());
}

#[test]
fn an_empty_line_has_no_head_to_serve() {
    let mut line = WaitQueue::<u64>::new();
    assert_eq!(line.head(), None);
    assert!(line.grant_head().is_none());
    assert!(line.keep_head(0).is_none());
}

#[test]
fn a_waiter_finds_out_that_it_left_another_waker() {
    let mut line = WaitQueue::<u64>::new();
    let (first, second) = (waker(), waker());
    let ticket = line.push(1, first.clone());
    let stored = line.waker(&ticket).unwrap();
    assert!(stored.will_wake(&first) && !stored.will_wake(&second));

    let old = line.set_waker(&ticket, second.clone()).unwrap();
    assert!(old.will_wake(&first));
    assert!(line.waker(&ticket).unwrap().will_wake(&second));

    let served = line.keep_head(0).unwrap();
    assert!(served.will_wake(&second));
    assert!(line.waker(&ticket).is_none());
    let unused = line.set_waker(&ticket, first.clone()).unwrap();
    assert!(unused.will_wake(&first));
    leave(&mut line, ticket);
}

#[test]
fn a_ticket_is_not_taken_for_a_later_one_in_the_same_slot() {
    let mut line = WaitQueue::<u64>::new();
    let old = line.push(1, waker());
    line.grant_head();
    let new = line.push(2, waker());
    assert_eq!(old.chunk, new.chunk);
    assert_eq!(line.chunks[0].waiting, 1);

    let third = waker();
    assert!(line.waker(&old).is_none());
    let unused = line.set_waker(&old, third.clone()).unwrap();
    assert!(unused.will_wake(&third));
    assert!(matches!(leave(&mut line, old), Left::Granted));
    assert!(!line.waker(&new).unwrap().will_wake(&third));
    assert_eq!(line.head(), Some((2, 2)));
}

#[test]
fn no_waker_is_called_by_the_line() {
    let counter = Arc::new(Counter::default());
    let mut line = WaitQueue::<u64>::new();
    let settled = line.push(1, Waker::from(Arc::clone(&counter)));
    let granted = line.push(1, Waker::from(Arc::clone(&counter)));
    let left = line.push(1, Waker::from(Arc::clone(&counter)));
    drop(line.keep_head(0));
    drop(line.grant_head());
    for ticket in [settled, granted, left] {
        leave(&mut line, ticket);
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    // Nor does the queue keep a waker.
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[test]
fn a_ticket_is_small() {
    assert_eq!(size_of::<Option<WaiterId>>(), 16);
}

/// Takes the wakers of the refused waiters in batches, and returns their number.
fn wake_refused<C: Units>(line: &mut WaitQueue<C>) -> usize {
    let mut all = 0;
    loop {
        let mut batch = WakeList::new();
        all += line.take_refused(&mut batch);
        let more = batch.is_full();
        batch.wake_all();
        if !more {
            return all;
        }
    }
}

/// Records its calls.
struct Named(u64, Arc<std::sync::Mutex<Vec<u64>>>);

impl Wake for Named {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn refuse_above_anywhere_in_the_queue_keeps_the_refusal_and_the_order() {
    let mut line = WaitQueue::<u64>::new();
    let called = Arc::default();
    let join = |name| {
        let waker = Waker::from(Arc::new(Named(name, Arc::clone(&called))));
        (name, line.push(name % 10 + 1, waker))
    };
    let ids: Vec<_> = (0..1000).map(join).collect();
    assert_eq!(line.refuse_above(8, 77), 100 * (9 + 10));
    assert_eq!((line.len(), line.largest), (800, 8));
    // A second walk comes before all wakers of the first one have been called.
    let mut batch = WakeList::new();
    assert_eq!(line.take_refused(&mut batch), 8);
    batch.wake_all();
    assert_eq!(line.refuse_above(7, 66), 100 * 8);
    assert_eq!(wake_refused(&mut line), 292);
    assert!(line.refused.is_none());

    let (refused, stay): (Vec<_>, Vec<_>) = ids.into_iter().partition(|(name, _)| name % 10 >= 7);
    let names = refused.iter().map(|(name, _)| *name);
    let (later, first): (Vec<u64>, Vec<u64>) = names.partition(|name| name % 10 == 7);
    assert_eq!(*called.lock().unwrap(), [first, later].concat());
    for (name, id) in refused {
        let refusal = if name % 10 == 7 { 66 } else { 77 };
        assert_eq!(line.collect(&id), Some(refusal));
    }
    assert!(!line.has_kept());
    for (name, id) in stay {
        assert_eq!(line.head().map(|(_, cost)| cost), Some(name % 10 + 1));
        assert_eq!(line.cost(&id), Some(name % 10 + 1));
        line.grant_head();
    }
    assert!(line.is_empty());
}

#[test]
fn refuse_above_where_nobody_requests_more_takes_no_walk() {
    let mut line = WaitQueue::<u64>::new();
    let large = line.push(9, waker());
    let small = line.push(3, waker());
    assert_eq!((line.refuse_above(9, 0), line.largest), (0, 9));
    // A walk finds that the largest has left.
    line.withdraw(&large);
    assert_eq!((line.refuse_above(4, 0), line.largest), (0, 3));
    assert_eq!((line.refuse_above(3, 0), line.largest), (0, 3));
    // The last one that leaves, and the last one that is refused, leave a queue without requests.
    line.withdraw(&small);
    assert_eq!(line.largest, 0);
    let id = line.push(5, waker());
    assert_eq!((line.refuse_above(4, 1), line.largest), (5, 0));
    assert_eq!((wake_refused(&mut line), line.collect(&id)), (1, Some(1)));
}

#[test]
fn take_refused_after_the_waiter_has_left_drops_its_waker() {
    let counter = Arc::new(Counter::default());
    let mut line = WaitQueue::<u64>::new();
    let id = line.push(2, Waker::from(Arc::clone(&counter)));
    line.refuse_above(1, 0);
    assert!(matches!(leave(&mut line, id), Left::Kept(0)));
    assert_eq!(wake_refused(&mut line), 1);
    assert_eq!(Arc::strong_count(&counter), 1);
}

/// An operation on a queue.
#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    GrantHead,
    KeepHead,
    /// Refuses those above this number.
    Refuse(u64),
    /// Leaves with the ticket at this position among those that are out.
    Leave(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..10_u64).prop_map(Step::Push),
        2 => Just(Step::GrantHead),
        1 => Just(Step::KeepHead),
        1 => (0..12_u64).prop_map(Step::Refuse),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_queue_of_names(steps in prop::collection::vec(step(), 1..1500)) {
        let mut line = WaitQueue::new();
        let mut tickets: Vec<(usize, WaiterId)> = Vec::new();
        let mut waiting: VecDeque<(usize, u64)> = VecDeque::new();
        // Each with what is kept for it.
        let mut told: Vec<(usize, u64)> = Vec::new();
        for (name, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(cost) => {
                    tickets.push((name, line.push(cost, waker())));
                    waiting.push_back((name, cost));
                }
                Step::GrantHead => {
                    prop_assert_eq!(line.grant_head().is_some(), waiting.pop_front().is_some());
                }
                Step::KeepHead => {
                    let first = waiting.pop_front();
                    let outcome = first.map_or(u64::MAX, |(name, _)| name as u64);
                    prop_assert_eq!(line.keep_head(outcome).is_some(), first.is_some());
                    told.extend(first.map(|(name, _)| (name, outcome)));
                }
                Step::Refuse(limit) => {
                    let (stay, refused): (Vec<_>, Vec<_>) =
                        waiting.drain(..).partition(|(_, cost)| *cost <= limit);
                    let sum: u64 = refused.iter().map(|(_, cost)| cost).sum();
                    prop_assert_eq!(line.refuse_above(limit, 1000 + limit), sum.into());
                    waiting.extend(stay);
                    told.extend(refused.iter().map(|(name, _)| (*name, 1000 + limit)));
                    prop_assert_eq!(wake_refused(&mut line), refused.len());
                    let largest = waiting.iter().map(|(_, cost)| *cost).max();
                    prop_assert!(line.largest >= largest.unwrap_or(0));
                }
                Step::Leave(_) if tickets.is_empty() => {}
                Step::Leave(which) => {
                    let (name, ticket) = tickets.swap_remove(which.index(tickets.len()));
                    let place = waiting.iter().position(|(other, _)| *other == name);
                    match leave(&mut line, ticket) {
                        Left::Kept(outcome) => {
                            prop_assert!(told.contains(&(name, outcome)));
                            told.retain(|(other, _)| *other != name);
                        }
                        Left::Granted => {
                            prop_assert_eq!(place, None);
                            prop_assert!(told.iter().all(|(other, _)| *other != name));
                        }
                        Left::Slot => {
                            prop_assert!(place.and_then(|place| waiting.remove(place)).is_some());
                        }
                    }
                }
            }
            prop_assert_eq!(line.len(), waiting.len());
            prop_assert_eq!(line.is_empty(), waiting.is_empty());
            prop_assert_eq!(line.has_kept(), !told.is_empty());
            let asked = line.head().map(|(_, cost)| cost);
            prop_assert_eq!(asked, waiting.front().map(|(_, cost)| *cost));
        }
    }
}

fn fill_and_drain(line: &mut WaitQueue<u64>, count: u64) {
    let first = line.last_number() + 1;
    (0..count).for_each(|_| {
        line.push(1, Waker::noop().clone());
    });
    for number in first..first + count {
        assert_eq!(line.head(), Some((number, 1)));
        line.grant_head().unwrap();
    }
    assert!(line.grant_head().is_none());
}

#[test]
fn a_waiter_of_a_long_line_costs_at_most_48_bytes() {
    let mut line = WaitQueue::<u64>::new();
    (0..10_000).for_each(|_| {
        line.push(1, waker());
    });
    let heads = line.chunks.capacity() * size_of::<Chunk<u64>>();
    let places = line.chunks.len() * size_of::<Slots<u64>>();
    assert!(heads + places <= 48 * 10_000, "{heads} + {places} bytes");
}

#[test]
fn a_line_that_never_empties_allocates_nothing_once_warm() {
    let mut line = WaitQueue::<u64>::new();
    (0..100).for_each(|_| {
        line.push(1, waker());
    });
    let warm = line.chunks.len() + 1;
    for _ in 0..10_000 {
        line.push(1, waker());
        line.grant_head().unwrap();
    }
    assert!(line.chunks.len() <= warm);
}

#[test]
fn those_who_leave_make_room_also_behind_a_head_that_stays() {
    let mut line = WaitQueue::<u64>::new();
    line.push(1, waker());
    for _ in 0..10_000 {
        let id = line.push(1, waker());
        assert!(line.withdraw(&id).is_some());
        assert!(line.withdraw(&id).is_none());
    }
    assert_eq!(line.head(), Some((1, 1)));
    assert!(line.chunks.len() <= 3, "{} chunks", line.chunks.len());
}

/// Found by mutation: a chunk that was out of the chain was never used again.
#[test]
fn a_chunk_in_which_something_was_kept_is_used_again() {
    let mut line = WaitQueue::<u64>::new();
    let first = line.push(1, waker());
    line.keep_head(1).unwrap();
    for _ in 0..1000 {
        let ids: Vec<_> = (0..64).map(|_| line.push(1, waker())).collect();
        while line.keep_head(7).is_some() {}
        for id in ids {
            assert_eq!(line.collect(&id), Some(7));
            assert_eq!(line.collect(&id), None);
        }
    }
    assert_eq!(line.collect(&first), Some(1));
    assert!(line.chunks.len() <= 5, "{} chunks", line.chunks.len());
}

#[test]
fn one_small_filling_after_a_large_one_frees_nothing() {
    let mut line = WaitQueue::<u64>::new();
    fill_and_drain(&mut line, 10_000);
    let allocated = line.chunks.len();
    assert_eq!(allocated, 10_000_usize.div_ceil(SIZE));
    fill_and_drain(&mut line, 1);
    assert_eq!(line.chunks.len(), allocated);
}

#[test]
fn memory_comes_back_after_some_small_fillings() {
    let mut line = WaitQueue::<u64>::new();
    fill_and_drain(&mut line, 10_000);
    let allocated = line.chunks.len();
    (0..12).for_each(|_| fill_and_drain(&mut line, 1));
    assert!(2 * line.chunks.len() <= allocated + 1);
    (0..100).for_each(|_| fill_and_drain(&mut line, 1));
    assert!(line.chunks.len() <= 2);
    fill_and_drain(&mut line, 10_000);
}

/// The caller that empties the queue does it under the lock.
#[test]
fn reset_after_a_long_queue_frees_a_bounded_number_of_chunks() {
    let mut line = WaitQueue::<u64>::new();
    fill_and_drain(&mut line, 100_000);
    let mut allocated = line.chunks.len();
    for _ in 0..150 {
        fill_and_drain(&mut line, 1);
        assert!(allocated - line.chunks.len() <= AT_ONCE);
        allocated = line.chunks.len();
    }
    assert!(allocated <= 8, "{allocated} chunks");
}

#[test]
fn a_place_of_a_chunk_that_was_given_back_holds_nobody() {
    let mut line = WaitQueue::<u64>::new();
    let id = (0..10_000).map(|_| line.push(1, waker())).last().unwrap();
    while line.grant_head().is_some() {}
    (0..100).for_each(|_| fill_and_drain(&mut line, 1));
    let waker = waker();
    assert!(line.waker(&id).is_none());
    assert!(
        line.set_waker(&id, waker.clone())
            .unwrap()
            .will_wake(&waker)
    );
    assert_eq!(line.cost(&id), None);
    assert_eq!(line.collect(&id), None);
    assert!(line.withdraw(&id).is_none());
}
