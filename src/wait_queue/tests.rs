//! The line against the most obvious model of it: a `VecDeque` of names.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::*;

/// Counts its calls; two of them are told apart by `will_wake`.
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

/// What a waiter gave up by leaving.
enum Left<T> {
    Place,
    Told(T),
    Granted,
}

fn leave<C: Copy + Default, T>(line: &mut WaitQueue<C, T>, ticket: WaiterId) -> Left<T> {
    if line.withdraw(&ticket).is_some() {
        return Left::Place;
    }
    line.collect(ticket).map_or(Left::Granted, Left::Told)
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_joined() {
    let mut line = WaitQueue::<usize, usize>::new();
    let tickets: Vec<_> = (0..100).map(|cost| line.push(cost, waker())).collect();
    let mut last = 0;
    for cost in 0..100 {
        assert_eq!(line.head(), Some(cost));
        let served = if cost % 3 == 0 {
            line.tell_head(cost)
        } else {
            line.grant_head()
        };
        let number = served.unwrap().number.get();
        assert!(number > last);
        last = number;
    }
    assert!(line.is_empty());
    for (cost, ticket) in tickets.into_iter().enumerate() {
        match leave(&mut line, ticket) {
            Left::Told(told) => assert_eq!((told, cost % 3), (cost, 0)),
            Left::Granted => assert_ne!(cost % 3, 0),
            Left::Place => panic!("still in line"),
        }
    }
    assert!(!line.has_told());
}

#[test]
fn an_empty_line_has_no_head_to_serve() {
    let mut line = WaitQueue::<u32, ()>::new();
    assert_eq!(line.head(), None);
    assert!(line.grant_head().is_none());
    assert!(line.tell_head(()).is_none());
}

#[test]
fn a_waiter_finds_out_that_it_left_another_waker() {
    let mut line = WaitQueue::new();
    let (first, second) = (waker(), waker());
    let ticket = line.push(1, first.clone());
    assert_eq!(line.look(&ticket, &first), WaiterStatus::Waiting);
    assert_eq!(line.look(&ticket, &second), WaiterStatus::StaleWaker);

    let old = line.set_waker(&ticket, second.clone());
    assert!(old.will_wake(&first));
    assert_eq!(line.look(&ticket, &second), WaiterStatus::Waiting);

    let served = line.tell_head(()).unwrap();
    assert!(served.waker.will_wake(&second));
    assert_eq!(line.look(&ticket, &second), WaiterStatus::Served);
    let unused = line.set_waker(&ticket, first.clone());
    assert!(unused.will_wake(&first));
    leave(&mut line, ticket);
}

#[test]
fn a_ticket_is_not_taken_for_a_later_one_in_the_same_slot() {
    let mut line = WaitQueue::<u32, ()>::new();
    let old = line.push(1, waker());
    line.grant_head();
    let new = line.push(2, waker());
    assert_eq!(old.index, new.index);

    let third = waker();
    assert_eq!(line.look(&old, &third), WaiterStatus::Served);
    assert!(line.set_waker(&old, third.clone()).will_wake(&third));
    assert!(matches!(leave(&mut line, old), Left::Granted));
    assert_eq!(line.look(&new, &third), WaiterStatus::StaleWaker);
    assert_eq!(line.head(), Some(2));
}

#[test]
fn no_waker_is_called_by_the_line() {
    let counter = Arc::new(Counter::default());
    let mut line = WaitQueue::new();
    let settled = line.push(1, Waker::from(Arc::clone(&counter)));
    let granted = line.push(1, Waker::from(Arc::clone(&counter)));
    let left = line.push(1, Waker::from(Arc::clone(&counter)));
    drop(line.tell_head(()));
    drop(line.grant_head());
    for ticket in [settled, granted, left] {
        leave(&mut line, ticket);
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    // Nor is one kept.
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[test]
fn a_ticket_is_small() {
    assert_eq!(size_of::<Option<WaiterId>>(), 16);
}

/// What happens to a line.
#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    GrantHead,
    TellHead,
    /// Leaves with the ticket at this place among those that are out.
    Leave(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..10_u64).prop_map(Step::Push),
        2 => Just(Step::GrantHead),
        1 => Just(Step::TellHead),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_queue_of_names(steps in prop::collection::vec(step(), 1..1500)) {
        let mut line = WaitQueue::new();
        let mut tickets: Vec<(usize, WaiterId)> = Vec::new();
        let mut waiting: VecDeque<(usize, u64)> = VecDeque::new();
        let mut told: Vec<usize> = Vec::new();
        for (name, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(cost) => {
                    tickets.push((name, line.push(cost, waker())));
                    waiting.push_back((name, cost));
                }
                Step::GrantHead => {
                    prop_assert_eq!(line.grant_head().is_some(), waiting.pop_front().is_some());
                }
                Step::TellHead => {
                    let first = waiting.pop_front();
                    let outcome = first.map_or(usize::MAX, |(name, _)| name);
                    prop_assert_eq!(line.tell_head(outcome).is_some(), first.is_some());
                    told.extend(first.map(|(name, _)| name));
                }
                Step::Leave(_) if tickets.is_empty() => {}
                Step::Leave(which) => {
                    let (name, ticket) = tickets.swap_remove(which.index(tickets.len()));
                    let place = waiting.iter().position(|(other, _)| *other == name);
                    match leave(&mut line, ticket) {
                        Left::Told(outcome) => {
                            prop_assert_eq!(outcome, name);
                            prop_assert!(told.contains(&name));
                            told.retain(|other| *other != name);
                        }
                        Left::Granted => {
                            prop_assert_eq!(place, None);
                            prop_assert!(!told.contains(&name));
                        }
                        Left::Place => {
                            prop_assert!(place.and_then(|place| waiting.remove(place)).is_some());
                        }
                    }
                }
            }
            prop_assert_eq!(line.len(), waiting.len());
            prop_assert_eq!(line.is_empty(), waiting.is_empty());
            prop_assert_eq!(line.has_told(), !told.is_empty());
            prop_assert_eq!(line.head(), waiting.front().map(|(_, cost)| *cost));
        }
    }
}
