//! Random calls of many callers: every answer, drop and pause, in any order. No request leaves in a pause, no more than
//! the window are in flight after it, and whoever waits is woken.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::time::ManualClock;
use tollgate_http::{NextStep, Pauses};

use super::setup::{Caller, ORIGIN, exact};

const CALLERS: usize = 12;

/// What happens next, to one of the callers.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Begins, polls or sends a call, whatever is next.
    GoOn,
    /// The request is answered with this status, and this `Retry-After`.
    Answer(u16, Option<u64>),
    /// The call is dropped.
    Drop,
    Advance(u64),
    Pause(u64),
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => Just(Step::GoOn),
        6 => Just(Step::Answer(200, None)),
        1 => Just(Step::Answer(404, None)),
        1 => Just(Step::Answer(429, None)),
        1 => (0..9_u64).prop_map(|wait| Step::Answer(429, Some(wait))),
        1 => Just(Step::Answer(503, None)),
        1 => Just(Step::Drop),
        3 => (1..2500_u64).prop_map(Step::Advance),
        1 => (1..15_u64).prop_map(Step::Pause),
        1 => Just(Step::Resume),
    ]
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    New,
    Waits,
    Passed,
    /// At this time, since the beginning.
    Sent(Duration),
}

/// What is known of the passes after a pause: the end of the pause, the window and the threshold, in tenths.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Duration,
    window: usize,
    threshold: usize,
}

struct World {
    pauses: Pauses,
    clock: ManualClock,
    now: Duration,
    calls: Vec<Option<(Caller, Stage)>>,
    /// `None` while the origin is open.
    window: Option<Window>,
    paused_until: Duration,
}

impl World {
    fn new() -> Self {
        let (pauses, clock) = exact();
        let calls = (0..CALLERS).map(|_| None).collect();
        let now = Duration::ZERO;
        Self {
            pauses,
            clock,
            now,
            calls,
            window: None,
            paused_until: now,
        }
    }

    fn sent(&self) -> impl Iterator<Item = Duration> {
        self.calls
            .iter()
            .flatten()
            .filter_map(|(_, stage)| match stage {
                Stage::Sent(at) => Some(*at),
                _ => None,
            })
    }

    /// Learns the end of a pause, as it is told.
    fn look(&mut self, in_flight: usize) {
        let Err(paused) = self.pauses.check(ORIGIN) else {
            return;
        };
        let was_paused = self.now < self.paused_until;
        let until = self.now + paused.remaining().unwrap();
        if until == self.paused_until {
            return;
        }
        let former = self.window.map_or(10, |it| it.threshold);
        let current = self.window.map_or(10 * in_flight, |it| it.window);
        let halves = !was_paused && current > 15;
        let threshold = if halves {
            (current / 2).max(10)
        } else {
            former
        };
        self.window = Some(Window {
            since: until,
            window: 10,
            threshold,
        });
        self.paused_until = until;
    }

    fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        self.now += time;
    }

    fn take(&mut self, index: usize, step: Step) {
        // No two steps are at the same time.
        self.advance(Duration::from_micros(1));
        let in_flight = self.sent().count();
        match (step, &mut self.calls[index]) {
            (Step::GoOn, call @ None) => *call = Some((Caller::new(&self.pauses), Stage::New)),
            (Step::GoOn, Some((caller, stage @ (Stage::New | Stage::Waits)))) => {
                match caller.poll() {
                    Poll::Ready(Ok(())) => *stage = Stage::Passed,
                    Poll::Ready(Err(_)) => self.calls[index] = None,
                    Poll::Pending => *stage = Stage::Waits,
                }
            }
            (Step::GoOn, Some((caller, stage @ Stage::Passed))) => {
                let sends = caller.call.send();
                assert!(
                    !sends || self.pauses.check(ORIGIN).is_ok(),
                    "sent in a pause"
                );
                *stage = if sends {
                    Stage::Sent(self.now)
                } else {
                    Stage::New
                };
            }
            (Step::Answer(status, wait), Some((caller, stage @ Stage::Sent(_)))) => {
                let Stage::Sent(sent) = *stage else {
                    unreachable!()
                };
                let next = caller.answered(status, wait);
                *stage = Stage::New;
                if next == NextStep::Return {
                    self.calls[index] = None;
                }
                if let Some(window) = self.window.as_mut().filter(|_| matches!(status, 200 | 404)) {
                    if sent >= window.since && self.now >= window.since {
                        window.window += if window.window < window.threshold {
                            10
                        } else {
                            1
                        };
                    }
                }
            }
            (Step::Drop, call) => *call = None,
            (Step::Advance(millis), _) => self.advance(Duration::from_millis(millis)),
            (Step::Pause(seconds), _) => self.pauses.pause(ORIGIN, Duration::from_secs(seconds)),
            (Step::Resume, _) => {
                self.pauses.resume(ORIGIN);
                if self.now < self.paused_until {
                    self.paused_until = self.now;
                    self.window.as_mut().unwrap().since = self.now;
                }
            }
            (Step::GoOn | Step::Answer(..), Some(_)) | (Step::Answer(..), None) => {}
        }
        self.look(in_flight);
        self.check();
    }

    fn check(&mut self) {
        let snapshot = self.pauses.snapshot();
        if snapshot.paused + snapshot.opening == 0 && self.now > self.paused_until {
            // Open, or the pause is over and nobody has come.
            if self.sent().any(|at| at >= self.paused_until) {
                self.window = None;
            }
        }
        if let Some(window) = self.window.filter(|_| snapshot.opening > 0) {
            let recent =
                |at: &Duration| *at >= window.since && self.now < *at + Duration::from_secs(10);
            let in_flight = self.sent().filter(recent).count();
            assert!(
                in_flight <= window.window / 10,
                "{in_flight} in flight, {window:?}"
            );
        }
    }

    /// Lets everybody who is woken go on, until nobody is left.
    fn finish(&mut self) {
        for _ in 0..10 * CALLERS {
            for index in 0..CALLERS {
                for _ in 0..4 {
                    match &mut self.calls[index] {
                        Some((caller, Stage::Waits)) if !caller.was_woken() => break,
                        Some((_, Stage::Sent(_))) => self.take(index, Step::Answer(200, None)),
                        Some(_) => self.take(index, Step::GoOn),
                        None => break,
                    }
                }
            }
            if self.calls.iter().all(Option::is_none) {
                assert_eq!(self.pauses.snapshot().waiting, 0);
                return;
            }
            self.take(0, Step::Advance(1000));
        }
        let stages: Vec<_> = self
            .calls
            .iter()
            .flatten()
            .map(|(_, stage)| stage)
            .collect();
        panic!("not woken: {stages:?}, {:?}", self.pauses.snapshot());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn calls_in_any_order_keep_pauses_and_are_woken(steps in vec((0..CALLERS, step()), 1..300)) {
        let mut world = World::new();
        for (index, step) in steps {
            world.take(index, step);
        }
        world.finish();
        drop(world.calls);
        prop_assert_eq!(world.pauses.snapshot().waiting, 0);
    }
}
