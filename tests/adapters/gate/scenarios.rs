//! Sequences of calls to a gate, one a row, and at random. After each call the gate is compared with a model,
//! which knows the end of the block and the waiters.
//!
//! Each row begins with a new gate. `block`, `advance` and `within`, a timeout of `acquire`, have a
//! number of nanoseconds, or `for-ever`. A waiting caller is appended to the waiters; `poll` and
//! `drop` name one by position.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, ErrorKind, Gate};

use super::open;
use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::scenarios::{Names, Words, at_random, call, check};

const SCENARIOS: &str = "
a gate opens at the exact tick | new | block 60, advance 59, advance 1
the longest block is what counts | new | block 120, block 60, block 180, advance 179, advance 1
for no time it is not blocked | new | block 0, acquire, block 1
for ever is until it is opened | new | block for-ever, advance for-ever, open, acquire
opening takes back what is left | new | block 120, open, open, block 60, advance 60
waiters are released together at the tick | new | block 60, 40 x acquire, advance 59, poll 7, advance 1, 40 x poll 0
opening releases everybody although it is blocked for ever | new | block for-ever, 20 x acquire,
    advance for-ever, poll 3, open, 20 x poll 0
a waiter waits longer when it is blocked for longer | new | block 60, acquire, advance 59, block 60, advance 59,
    poll 0, advance 1, poll 0
a released waiter goes through although it is blocked again | new | block 60, acquire, advance 60, block 60, poll 0
a waiter that comes later waits until the same tick | new | block 60, acquire, advance 30, acquire, drop 0,
    advance 30, poll 0
a waiter that gives up leaves nothing behind | new | block 60, acquire, drop 0, advance 60, block 60, acquire,
    advance 60, drop 0
a timeout that is too short is refused at once | new | block 60, acquire within 59, acquire within 0
a timeout that is long enough waits on the clock of the gate | new | block 60, acquire within 60, advance 60, poll 0
a timeout ends a wait that was made longer | new | block 60, acquire within 60, block 120, advance 59, poll 0,
    advance 1, poll 0
a timeout does not matter while the gate is open | new | acquire within 0
";

type Wait = Pin<Box<dyn Future<Output = Result<(), AcquireError>>>>;
type Tested = Result<(), TestCaseError>;

/// A wait and its deadline.
struct Waits {
    waiter: Waiter<Wait>,
    deadline: u64,
    is_released: bool,
}

impl Waits {
    fn is_late(&self, now: u64) -> bool {
        self.deadline <= now && self.deadline < u64::MAX
    }
}

struct World {
    names: Names,
    gate: Gate,
    clock: ManualClock,
    now: u64,
    /// The tick at which it opens; `u64::MAX` is never.
    until: u64,
    waiting: Vec<Waits>,
}

/// Returns the duration; `for-ever` is the longest one.
fn duration(nanos: u64) -> Duration {
    match nanos {
        u64::MAX => Duration::MAX,
        _ => Duration::from_nanos(nanos),
    }
}

fn nanos(words: &mut Words<'_>) -> u64 {
    if words.says("for-ever") {
        u64::MAX
    } else {
        words.parse()
    }
}

impl World {
    fn new(names: Names) -> Self {
        let (gate, clock) = open();
        Self {
            names,
            gate,
            clock,
            now: 0,
            until: 0,
            waiting: Vec::new(),
        }
    }

    /// Returns the rest of the block.
    fn left(&self) -> u64 {
        match self.until {
            u64::MAX => u64::MAX,
            until => until.saturating_sub(self.now),
        }
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Tested {
        match call {
            "block" => {
                let time = nanos(words);
                self.gate.block_for(duration(time));
                self.until = self.until.max(self.now.saturating_add(time));
            }
            "open" => {
                self.gate.open();
                self.until = 0;
            }
            "advance" => {
                let time = nanos(words);
                self.clock.advance(duration(time));
                self.now = self.now.saturating_add(time);
            }
            "acquire" => self.acquire(words)?,
            "poll" => {
                let at = self.names.choose(words, &self.waiting)?;
                let one = &mut self.waiting[at];
                let expected = match (one.is_released, one.is_late(self.now)) {
                    (true, _) => Poll::Ready(None),
                    (_, true) => Poll::Ready(Some(ErrorKind::TimedOut)),
                    _ => Poll::Pending,
                };
                let kind = |over: Result<(), AcquireError>| over.err().map(|error| error.kind());
                prop_assert_eq!(one.waiter.poll().map(kind), expected);
                if expected.is_ready() {
                    self.waiting.remove(at);
                }
            }
            "drop" => {
                let at = self.names.choose(words, &self.waiting)?;
                self.waiting.remove(at);
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    fn acquire(&mut self, words: &mut Words<'_>) -> Tested {
        let within = words.says("within").then(|| nanos(words));
        let wait = self.gate.acquire_owned();
        let mut waiter = Waiter::<Wait>::new(match within {
            None => Box::pin(wait),
            Some(within) => Box::pin(wait.timeout(duration(within))),
        });
        let (left, within) = (self.left(), within.unwrap_or(u64::MAX));
        match waiter.poll() {
            Poll::Ready(Ok(())) => prop_assert_eq!(left, 0),
            Poll::Ready(Err(error)) => {
                prop_assert!(left > within);
                let expected = (ErrorKind::TimedOut, Some(duration(left)));
                prop_assert_eq!((error.kind(), error.retry_after()), expected);
                let text = "the gate is blocked for longer than the timeout";
                prop_assert!(error.to_string().starts_with(text));
            }
            Poll::Pending => {
                prop_assert!(left > 0 && left <= within);
                self.waiting.push(Waits {
                    waiter,
                    deadline: self.now.saturating_add(within),
                    is_released: false,
                });
            }
        }
        Ok(())
    }

    fn step(&mut self, text: &str) -> Tested {
        call(text, |call, words| self.call(call, words))?;
        let left = self.left();
        prop_assert_eq!(self.gate.is_open(), left == 0);
        let expected = (left > 0).then(|| (ErrorKind::RateLimited, Some(duration(left))));
        let refused = self.gate.check().err();
        let text = match left {
            u64::MAX => "the gate is blocked".to_owned(),
            _ => format!("the gate is blocked, try again in {:?}", duration(left)),
        };
        if let Some(error) = &refused {
            prop_assert_eq!(error.to_string(), &*text);
        }
        let refused = refused.map(|error| (error.kind(), error.retry_after()));
        prop_assert_eq!(refused, expected);
        for one in &mut self.waiting {
            one.is_released |= left == 0;
            let ended = usize::from(one.is_late(self.now));
            let most = usize::from(one.is_released) + ended;
            prop_assert!((most.min(1)..=most).contains(&one.waiter.wakes()));
        }
        let waiting = self.waiting.iter().filter(|one| !one.is_released).count();
        prop_assert_eq!(self.gate.snapshot().waiting, waiting);
        Ok(())
    }
}

fn run(names: Names, calls: &[String]) -> Tested {
    let mut world = World::new(names);
    calls.iter().try_for_each(|call| world.step(call))?;
    world.waiting.clear();
    world.step("advance 0")
}

#[test]
fn gate_in_each_scenario_does_what_the_model_does() {
    check(SCENARIOS, |row| run(Names::Exactly, &row.texts()));
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn agrees_with_a_tick_and_a_list_of_waiters(
        calls in at_random(
            "4 block 0..9, 1 open, 8 advance 0..5, 8 acquire, 4 acquire within 0..9, 8 poll #, 3 drop #",
            80,
        ),
    ) {
        run(Names::AtRandom, &calls)?;
    }
}
