//! Compositions of a few semaphores beside their model: at random, and in the sequences of a table.

use std::task::Poll;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::throttle::Cost;
use tollgate::wait::Waiting;
use tollgate::{Semaphore, Throttle, TryThrottle, all};

use super::semaphore::{self, Ends};
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call, check};
use crate::support::{Waiter, assert_at_rest};

type Part<'a> = Option<Cost<&'a Semaphore>>;
type Composition<'a> = tollgate::throttle::All<(Part<'a>, Part<'a>, Part<'a>, Part<'a>)>;
type Permits<'a> = <Composition<'a> as Throttle>::Permit;
type Tested = Result<(), TestCaseError>;

struct Waits<'a> {
    throttle: Composition<'a>,
    entry: Entry,
    waiter: Waiter<Waiting<<Composition<'a> as Throttle>::Enter>>,
    /// The number of wakes at the last poll.
    wakes: usize,
}

struct World<'a> {
    names: Names,
    semaphores: &'a [Semaphore],
    model: Model,
    waiting: Vec<Waits<'a>>,
    inside: Vec<(Composition<'a>, Asks, Permits<'a>)>,
}

fn composition<'a>(semaphores: &'a [Semaphore], asks: &Asks) -> Composition<'a> {
    let [a, b, c, d] =
        asks.map(|ask| ask.map(|(semaphore, permits)| semaphores[semaphore].cost(permits.into())));
    all((a, b, c, d))
}

fn answer<P>(entered: &Result<P, tollgate::AcquireError>) -> Answer {
    match entered {
        Ok(_) => Answer::In,
        Err(error) => {
            let part = error.part().expect("of a part");
            Answer::Refused(semaphore::Answer::of(entered), part)
        }
    }
}

impl<'a> World<'a> {
    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Tested {
        let names = self.names;
        match call {
            "try" => {
                let asks = self.asks(words);
                let throttle = composition(self.semaphores, &asks);
                let tried = throttle.try_enter();
                prop_assert_eq!(answer(&tried), self.model.try_enter(&asks));
                let permits = tried.map(|permits| (throttle, asks, permits));
                self.inside.extend(permits);
            }
            "enter" => {
                let asks = self.asks(words);
                let throttle = composition(self.semaphores, &asks);
                let waiter = Waiter::new(throttle.enter());
                let entry = Entry {
                    asks,
                    entered: 0,
                    waits: None,
                };
                self.waiting.push(Waits {
                    throttle,
                    entry,
                    waiter,
                    wakes: 0,
                });
                self.poll(self.waiting.len() - 1)?;
            }
            "poll" => self.poll(names.choose(words, &self.waiting)?)?,
            "drop" => {
                let at = names.choose(words, &self.waiting)?;
                let Waits { entry, waiter, .. } = self.waiting.remove(at);
                drop(waiter);
                self.model.give_up(&entry);
            }
            "release" => {
                // From the first to the last, in the drop order of a tuple.
                let at = names.choose(words, &self.inside)?;
                let (_, asks, permits) = self.inside.remove(at);
                drop(permits);
                for (semaphore, permits) in asks.iter().flatten() {
                    self.model.0[*semaphore].release(*permits as usize);
                }
            }
            "undo" => {
                let at = names.choose(words, &self.inside)?;
                let (throttle, asks, permits) = self.inside.remove(at);
                throttle.rollback(permits);
                self.model.rollback(&asks, PARTS);
            }
            "close" => {
                let (at, _) = self.semaphore(words.word());
                self.semaphores[at].close();
                self.model.0[at].close();
            }
            "free" => {
                let (at, _) = self.semaphore(words.word());
                prop_assert_eq!(self.semaphores[at].available_permits(), words.parse());
            }
            "waiting" => {
                let (at, _) = self.semaphore(words.word());
                prop_assert_eq!(self.semaphores[at].snapshot().waiting, words.parse());
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    /// Returns the index of a semaphore from its letter, and the rest of the word.
    fn semaphore<'b>(&self, word: &'b str) -> (usize, &'b str) {
        let (letter, rest) = word.split_at(1);
        let at = "abcd".find(letter);
        (at.unwrap_or_else(|| panic!("no semaphore: {word:?}")), rest)
    }

    /// Returns the parts that a call asks for. A semaphore that does not exist is no part.
    fn asks(&self, words: &mut Words<'_>) -> Asks {
        [(); PARTS].map(|()| {
            let word = words.maybe::<String>()?;
            let (at, cost) = self.semaphore(&word);
            let cost = if cost.is_empty() { "1" } else { cost };
            (at < self.semaphores.len()).then(|| (at, cost.parse().expect("a number")))
        })
    }

    fn poll(&mut self, at: usize) -> Tested {
        let one = &mut self.waiting[at];
        let expected = self.model.poll(&mut one.entry);
        match one.waiter.poll() {
            Poll::Pending => {
                prop_assert_eq!(Answer::Waits, expected);
                one.wakes = one.waiter.wakes();
            }
            Poll::Ready(entered) => {
                prop_assert_eq!(answer(&entered), expected);
                let Waits {
                    throttle, entry, ..
                } = self.waiting.remove(at);
                let permits = entered.map(|permits| (throttle, entry.asks, permits));
                self.inside.extend(permits);
            }
        }
        Ok(())
    }

    fn compare(&self) -> Tested {
        for (semaphore, model) in self.semaphores.iter().zip(&self.model.0) {
            prop_assert_eq!(semaphore.available_permits(), model.available());
            prop_assert_eq!(semaphore.snapshot().waiting, model.queue.len());
        }
        for one in &self.waiting {
            let answered = usize::from(self.model.is_answered(&one.entry));
            prop_assert_eq!(one.waiter.wakes(), one.wakes + answered);
        }
        Ok(())
    }
}

/// Runs the steps on both, and checks that everything comes back at the end.
fn run(limits: &[usize], names: Names, calls: Vec<String>) -> Tested {
    let semaphores: Vec<_> = limits.iter().copied().map(Semaphore::new).collect();
    let mut world = World {
        names,
        semaphores: &semaphores,
        model: Model::new(limits),
        waiting: Vec::new(),
        inside: Vec::new(),
    };
    for text in calls {
        call(&text, |call, words| world.call(call, words))?;
        world.compare()?;
    }
    while !world.waiting.is_empty() {
        call("drop 0", |call, words| world.call(call, words))?;
        world.compare()?;
    }
    drop(world);
    for (semaphore, limit) in semaphores.iter().zip(limits) {
        assert_at_rest(semaphore, *limit);
    }
    Ok(())
}

/// Each row has the limits of semaphores a, b, c and d, and calls that name up to four of them, with a
/// number if it is not 1. `enter` appends a waiting caller to the waiters, and a grant to the permits;
/// `poll` and `drop` name a waiter, `release` and `undo` (`rollback`) permits, by position.
const SCENARIOS: &str = "
# Who waits where, and what is held meanwhile.
a waiter for the wide scope holds the narrow one and not the reverse | 1 1 2 2 | try d2, enter a c d, free a 0,
    free c 1, waiting d 1, enter a c d, waiting a 1, free c 1, waiting d 1, enter b c d, free c 0, waiting d 2,
    release 0, poll 0, poll 1, poll 0, free c 0, free d 0, release 0, poll 0
a try takes all or nothing | 1 2 1 | try c, try a b c, free a 1, free b 2, try b a, free a 0, free b 1
costs are taken in every part | 2 100 | try a b60, free a 1, free b 40, try a b60, enter a b60, free a 0,
    waiting b 1, release 0, poll 0, free b 40
more than a part can ever let in is refused, and what was taken is given back | 2 100 | try b101 a, try a b101,
    enter a b101, free a 2, enter b101 a
nothing is had of a part that is full | 1 | try a, enter a0, try a0, enter a0 a
one semaphore can be two parts | 2 | try a a, free a 0
a composition that needs more of one semaphore than it has waits for itself | 1 | enter a a, free a 0, waiting a 1,
    try a a, drop 0, free a 1
two that list two semaphores in opposite orders wait for each other, until one gives up | 1 1 | try a, try b,
    enter a b, enter b a, release 0, release 0, 10 x poll 0 + poll 1, free a 0, free b 0, waiting a 1,
    waiting b 1, drop 0, poll 0, free a 0, free b 0

# Giving up, and closing.
an uncollected grant goes to the next waiter of each part | 2 1 | try b, enter a b, enter b, try a, enter a,
    release 0, drop 0, poll 0, poll 0
a part that is closed refuses, and what was taken is given back | 1 1 1 | try c, enter a b c, close c, free a 0,
    poll 0, free a 1, free b 1, try a b, try a c, enter b c
a wait that is dropped at its first or last part gives back what it has | 1 1 1 | try a, enter a b c, drop 0,
    release 0, try c, enter a b c, free a 0, free b 0, drop 0, free a 1, free b 1
permits that are undone come back like those that are dropped | 1 2 | try a b2, enter b a, undo 0, poll 0, free b 1,
    undo 0, free a 1, free b 2
";

#[test]
fn composition_in_each_scenario_does_what_the_model_does() {
    check(SCENARIOS, |row| {
        let limits = row.setup.split(' ').map(|limit| limit.parse());
        let limits: Vec<_> = limits.map(|limit| limit.expect("a number")).collect();
        run(&limits, Names::Exactly, row.texts())
    });
}

/// Makes calls that ask for up to four parts, some of them none.
fn with_asks(mut calls: Vec<String>, asks: &[[u8; 8]]) -> Vec<String> {
    for (call, numbers) in calls.iter_mut().zip(asks) {
        if call == "try" || call == "enter" {
            for ask in numbers.chunks(2) {
                let letter = char::from(b'a' + ask[0] % 4);
                *call += &format!(" {letter}{}", ask[1] % 4);
            }
        }
    }
    calls
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_counts_and_vectors_of_waiters(
        limits in prop::array::uniform3(1..6_usize),
        calls in at_random(
            "40 try, 80 enter, 80 poll #, 40 drop #, 30 release #, 30 undo #, 1 close a, 1 close b, 1 close c",
            60,
        ),
        asks in prop::collection::vec(any::<[u8; 8]>(), 60),
    ) {
        run(&limits, Names::AtRandom, with_asks(calls, &asks))?;
    }
}

const PARTS: usize = 4;

/// The parts of an entry, in order: the semaphore and the number of permits, or nothing.
type Asks = [Option<(usize, u32)>; PARTS];

/// The progress of a caller through its parts.
struct Entry {
    asks: Asks,
    /// The number of entered parts.
    entered: usize,
    /// Its name at the semaphore of the next part, when it has a place in that queue, or a grant from it.
    waits: Option<usize>,
}

/// The outcome.
#[derive(Debug, PartialEq)]
enum Answer {
    In,
    Waits,
    /// The reason, and the part that refused.
    Refused(semaphore::Answer, usize),
}

/// The semaphores.
struct Model(Vec<semaphore::Model>);

impl Model {
    fn new(limits: &[usize]) -> Self {
        let semaphores = limits
            .iter()
            .map(|limit| semaphore::Model::new(*limit, None));
        Self(semaphores.collect())
    }

    /// Gives back this many parts, the last first.
    fn rollback(&mut self, asks: &Asks, parts: usize) {
        for (semaphore, permits) in asks[..parts].iter().rev().flatten() {
            self.0[*semaphore].release(*permits as usize);
        }
    }

    fn try_enter(&mut self, asks: &Asks) -> Answer {
        for (part, ask) in asks.iter().enumerate() {
            let Some((semaphore, permits)) = *ask else {
                continue;
            };
            let answer = self.0[semaphore].try_acquire(permits as usize);
            if answer != semaphore::Answer::Granted {
                self.rollback(asks, part);
                return Answer::Refused(answer, part);
            }
        }
        Answer::In
    }

    fn poll(&mut self, entry: &mut Entry) -> Answer {
        while entry.entered < PARTS {
            if let Some((semaphore, permits)) = entry.asks[entry.entered] {
                let semaphore = &mut self.0[semaphore];
                let join = || semaphore.acquire(permits as usize, Ends::default());
                let name = entry.waits.take().unwrap_or_else(join);
                match semaphore.callers[name].answer {
                    Some(semaphore::Answer::Granted) => {}
                    None => {
                        entry.waits = Some(name);
                        return Answer::Waits;
                    }
                    Some(refused) => {
                        self.rollback(&entry.asks, entry.entered);
                        return Answer::Refused(refused, entry.entered);
                    }
                }
            }
            entry.entered += 1;
        }
        Answer::In
    }

    /// Returns whether its wait was granted or refused and it has not been polled since.
    fn is_answered(&self, entry: &Entry) -> bool {
        let waits = entry.asks[entry.entered].zip(entry.waits);
        waits.is_some_and(|((semaphore, _), name)| self.0[semaphore].callers[name].answer.is_some())
    }

    fn give_up(&mut self, entry: &Entry) {
        if let Some(((semaphore, _), name)) = entry.asks[entry.entered].zip(entry.waits) {
            self.0[semaphore].drop_caller(name);
        }
        self.rollback(&entry.asks, entry.entered);
    }
}
