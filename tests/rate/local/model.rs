//! Handles of several chunk sizes beside a naive model, and the bound over every window.
//!
//! In the model what is owed is a row of tokens, of which time pays off one after the other. A handle
//! has those in hand that it has not let through, and gives back what is left of them.

use crate::support::cases::cases;
use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock, ErrorKind, LocalLimiter, ManualClock, Quota, RateLimiter};

/// How long a token takes, in nanoseconds.
const TOKEN: u64 = 10;

/// What is owed: a name for each token, and what is left to be paid off of it.
#[derive(Default)]
struct Owed {
    tokens: VecDeque<(usize, u64)>,
    names: usize,
}

impl Owed {
    fn total(&self) -> u64 {
        self.tokens.iter().map(|(_, left)| left).sum()
    }

    fn pay(&mut self, mut nanos: u64) {
        while let Some((_, left)) = self.tokens.front_mut() {
            let part = nanos.min(*left);
            nanos -= part;
            *left -= part;
            if *left > 0 {
                break;
            }
            self.tokens.pop_front();
        }
    }

    /// Owes so many more, and says their names.
    fn take(&mut self, count: u64) -> Vec<usize> {
        let names = self.names..self.names + count as usize;
        self.names = names.end;
        self.tokens.extend(names.clone().map(|name| (name, TOKEN)));
        names.collect()
    }

    fn give(&mut self, names: &[usize]) {
        self.tokens.retain(|(name, _)| !names.contains(name));
    }
}

/// A limiter and its handles, twice.
struct World {
    clock: ManualClock,
    limiter: RateLimiter,
    burst: u64,
    owed: Owed,
    handles: Vec<(LocalLimiter, Vec<usize>)>,
    /// When calls were let through, and what they cost.
    through: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// A call of the limiter itself.
    Direct(u64),
    Call(usize, u64),
    Flush(usize),
    /// A handle is dropped, and another takes its place.
    Anew(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..200_u64).prop_map(Step::Pass),
        1 => (0..6_u64).prop_map(Step::Direct),
        8 => (0..3_usize, prop_oneof![4 => Just(1_u64), 3 => 0..12_u64, 1 => 0..70_u64])
            .prop_map(|(which, cost)| Step::Call(which, cost)),
        1 => (0..3_usize).prop_map(Step::Flush),
        1 => (0..3_usize).prop_map(Step::Anew),
    ]
}

impl World {
    fn new(burst: u64, chunks: &[u64]) -> Self {
        let clock = Clock::manual();
        let quota = Quota::new(1, Duration::from_nanos(TOKEN)).burst(burst);
        let limiter = RateLimiter::new(quota).clock(&clock);
        let handles = chunks.iter().map(|chunk| (limiter.local(*chunk), vec![]));
        Self {
            handles: handles.collect(),
            clock,
            limiter,
            burst,
            owed: Owed::default(),
            through: Vec::new(),
        }
    }

    /// What a call that costs so much is to be told: how much is taken, or why not.
    fn judge(&self, cost: u64, most: u64) -> Result<u64, Option<u64>> {
        if cost > self.burst {
            return Err(None);
        }
        let (owed, may) = (self.owed.total(), self.burst * TOKEN);
        let needed = owed + cost * TOKEN;
        if needed > may && cost > 0 {
            return Err(Some(needed - may));
        }
        Ok(cost.max(most.min(may.saturating_sub(owed) / TOKEN)))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Pass(nanos) => {
                self.clock.advance(Duration::from_nanos(nanos));
                self.owed.pay(nanos);
            }
            Step::Direct(cost) => {
                let expected = self.judge(cost, 0);
                let told = self.limiter.try_acquire_many(cost).map(drop);
                self.agree(cost, told, expected);
                if expected.is_ok() {
                    self.owed.take(cost);
                }
            }
            Step::Call(which, cost) => self.call(which, cost),
            Step::Flush(which) => {
                let (local, hand) = &mut self.handles[which];
                local.return_unused();
                self.owed.give(hand);
                hand.clear();
            }
            Step::Anew(which) => {
                let chunk = self.handles[which].0.batch();
                let anew = self.limiter.local(chunk);
                let (local, hand) = std::mem::replace(&mut self.handles[which], (anew, vec![]));
                drop(local);
                self.owed.give(&hand);
            }
        }
        assert_eq!(
            self.limiter.available(),
            (self.burst * TOKEN - self.owed.total()) / TOKEN
        );
        for (local, hand) in &self.handles {
            assert_eq!(local.buffered(), hand.len() as u64);
            assert!(local.buffered() < local.batch());
        }
    }

    fn call(&mut self, which: usize, cost: u64) {
        let in_hand = self.handles[which].1.len() as u64;
        let chunk = self.handles[which].0.batch();
        let told = self.handles[which].0.try_acquire_many(cost);
        if cost <= in_hand {
            self.agree(cost, told, Ok(0));
            self.handles[which].1.drain(..cost as usize);
        } else if cost > self.burst {
            self.agree(cost, told, Err(None));
        } else {
            let missing = cost - in_hand;
            let expected = self.judge(missing, chunk);
            self.agree(cost, told, expected);
            if let Ok(taken) = expected {
                let taken = self.owed.take(taken);
                self.handles[which].1 = taken[missing as usize..].to_vec();
            }
        }
    }

    fn agree(
        &mut self,
        cost: u64,
        told: Result<(), tollgate::AcquireError>,
        expected: Result<u64, Option<u64>>,
    ) {
        match (told, expected) {
            (Ok(()), Ok(_)) => self.through.push((self.clock.now().as_nanos(), cost)),
            (Err(error), Err(None)) => assert_eq!(error.kind(), ErrorKind::ExceedsCapacity),
            (Err(error), Err(Some(after))) => {
                assert_eq!(error.kind(), ErrorKind::RateLimited);
                assert_eq!(error.retry_after(), Some(Duration::from_nanos(after)));
            }
            (told, expected) => panic!("{told:?} instead of {expected:?}"),
        }
    }

    /// From every call to every later one.
    fn audit(&self) {
        let chunks: u64 = self.handles.iter().map(|(local, _)| local.batch()).sum();
        for (first, (from, _)) in self.through.iter().enumerate() {
            let mut sum = 0;
            for (until, cost) in &self.through[first..] {
                sum += cost;
                let most = self.burst * TOKEN + (until - from) + chunks * TOKEN;
                assert!(sum * TOKEN <= most, "{sum} from {from} to {until}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn handles_do_as_the_model_and_keep_their_bound_over_every_window(
        burst in prop_oneof![1..=4_u64, 1..=60_u64],
        chunks in proptest::array::uniform3(prop_oneof![1..=3_u64, 1..=40_u64]),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(burst, &chunks);
        for step in &steps {
            world.step(step);
        }
        world.audit();
    }
}

/// What the bound says is reached: a chunk less one is in hand of each handle, the burst has come
/// back, and all of it goes at once.
#[test]
fn the_bound_is_reached_but_for_one_of_each_chunk() {
    let mut world = World::new(40, &[8, 8, 8]);
    for which in 0..3 {
        world.step(&Step::Call(which, 1));
    }
    world.step(&Step::Pass(40 * TOKEN));
    let before = world.through.len();
    for which in 0..3 {
        for _ in 0..7 {
            world.step(&Step::Call(which, 1));
        }
    }
    for _ in 0..5 {
        world.step(&Step::Call(0, 8));
    }
    let at_once: u64 = world.through[before..].iter().map(|(_, cost)| cost).sum();
    assert_eq!(at_once, 40 + 3 * 7);
    world.audit();
}
