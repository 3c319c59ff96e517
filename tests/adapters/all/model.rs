//! Compositions of a few semaphores at random, beside their model.

use std::task::Poll;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use tollgate::{Cost, Semaphore, Throttle, TryThrottle, all};

use super::naive::{Answer, Asks, Count, Model, PARTS};
use crate::support::Waiter;
use crate::support::cases::cases;

const SEMAPHORES: usize = 3;

type Part<'a> = Option<Cost<&'a Semaphore>>;

type Composition<'a> = tollgate::All<(Part<'a>, Part<'a>, Part<'a>, Part<'a>)>;

#[derive(Clone, Debug)]
enum Step {
    Try(Asks),
    /// Makes a wait and polls it once.
    Enter(Asks),
    Poll(Index),
    /// Drops one that waits.
    GiveUp(Index),
    /// Drops the permits of one that is in, or undoes them.
    Leave(Index, bool),
    Close(usize),
}

fn composition<'a>(semaphores: &'a [Semaphore], asks: &Asks) -> Composition<'a> {
    let [a, b, c, d] =
        asks.map(|ask| ask.map(|(semaphore, permits)| semaphores[semaphore].cost(permits)));
    all((a, b, c, d))
}

fn answer<P>(entered: &Result<P, tollgate::AcquireError>) -> Answer {
    match entered {
        Ok(_) => Answer::In,
        Err(error) => Answer::Refused(error.kind(), error.part().expect("of a part")),
    }
}

fn run(limits: [usize; SEMAPHORES], steps: Vec<Step>) -> Result<(), TestCaseError> {
    let semaphores = limits.map(Semaphore::new);
    let mut model = Model::default();
    model.counts.extend(limits.map(|limit| Count {
        free: limit,
        limit,
        closed: false,
        queue: Vec::new(),
        refused: Vec::new(),
    }));
    let mut waiting = Vec::new();
    let mut inside = Vec::new();
    for step in steps {
        match step {
            Step::Try(asks) => {
                let throttle = composition(&semaphores, &asks);
                let tried = throttle.try_enter();
                prop_assert_eq!(answer(&tried), model.try_enter(&asks));
                inside.extend(tried.map(|permits| (throttle, asks, permits)));
            }
            Step::Enter(asks) => {
                let throttle = composition(&semaphores, &asks);
                let mut waiter = Waiter::new(throttle.enter());
                let mut entry = model.new_entry(asks);
                let expected = model.poll(&mut entry);
                match waiter.poll() {
                    Poll::Pending => {
                        prop_assert_eq!(Answer::Waits, expected);
                        waiting.push((throttle, entry, waiter));
                    }
                    Poll::Ready(entered) => {
                        prop_assert_eq!(answer(&entered), expected);
                        inside.extend(entered.map(|permits| (throttle, asks, permits)));
                    }
                }
            }
            Step::Poll(which) if !waiting.is_empty() => {
                let at = which.index(waiting.len());
                let (_, entry, waiter) = &mut waiting[at];
                let expected = model.poll(entry);
                match waiter.poll() {
                    Poll::Pending => prop_assert_eq!(Answer::Waits, expected),
                    Poll::Ready(entered) => {
                        prop_assert_eq!(answer(&entered), expected);
                        let (throttle, entry, _) = waiting.remove(at);
                        inside.extend(entered.map(|permits| (throttle, entry.asks, permits)));
                    }
                }
            }
            Step::GiveUp(which) if !waiting.is_empty() => {
                let (_, entry, waiter) = waiting.remove(which.index(waiting.len()));
                drop(waiter);
                model.give_up(&entry);
            }
            Step::Leave(which, undoes) if !inside.is_empty() => {
                let (throttle, asks, permits) = inside.remove(which.index(inside.len()));
                if undoes {
                    throttle.rollback(permits);
                    model.rollback(&asks, PARTS);
                } else {
                    // From the first to the last, as a tuple is dropped.
                    drop(permits);
                    for (semaphore, permits) in asks.iter().flatten() {
                        model.counts[*semaphore].give(*permits as usize);
                    }
                }
            }
            Step::Close(semaphore) => {
                semaphores[semaphore].close();
                model.close(semaphore);
            }
            Step::Poll(_) | Step::GiveUp(_) | Step::Leave(..) => {}
        }
        for (semaphore, count) in semaphores.iter().zip(&model.counts) {
            prop_assert_eq!(semaphore.available_permits(), count.free);
            prop_assert_eq!(semaphore.snapshot().waiting, count.queue.len());
        }
    }
    drop((waiting, inside));
    for (semaphore, limit) in semaphores.iter().zip(limits) {
        prop_assert_eq!(semaphore.available_permits(), limit);
        prop_assert_eq!(semaphore.snapshot().waiting, 0);
    }
    Ok(())
}

fn asks() -> impl Strategy<Value = Asks> {
    let ask = prop_oneof![
        1 => Just(None),
        4 => (0..SEMAPHORES, 0..4_u32).prop_map(Some),
    ];
    prop::array::uniform4(ask)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => asks().prop_map(Step::Try),
        80 => asks().prop_map(Step::Enter),
        80 => any::<Index>().prop_map(Step::Poll),
        40 => any::<Index>().prop_map(Step::GiveUp),
        60 => (any::<Index>(), any::<bool>()).prop_map(|(which, how)| Step::Leave(which, how)),
        1 => (0..SEMAPHORES).prop_map(Step::Close),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_counts_and_vectors_of_waiters(
        limits in prop::array::uniform3(1..6_usize),
        steps in steps(),
    ) {
        run(limits, steps)?;
    }
}
