//! Local handles beside the limiter itself, on one manual clock: what handles admit, and what they
//! cost others.
//!
//! The worlds are uneven on purpose: one to eight handles, handles that rarely call, that stop with a
//! full buffer, or that are dropped; demand from half to four times the rate; bursts smaller and
//! larger than the batch; machines that stall. Every token is counted.

use std::time::Duration;

use tollgate::rate::LocalLimiter;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, ErrorKind, Quota, RateLimiter};

use crate::setup::{FIFTY, limiter, spent};
use crate::support::random::Random;

/// The calls of a handle that ask for their own cost after a batch was refused.
const ALONE: u64 = 17;

/// The time of a token in these worlds.
const TOKEN: u64 = 1_200;

/// The calls in each of many worlds.
const CALLS: u64 = 3_000;

/// Who calls next.
#[derive(Clone, Copy, Debug)]
enum Turns {
    /// Each handle in turn.
    Even,
    /// Any handle.
    Random,
    /// The first handle makes nearly all calls.
    Skewed,
    /// Each handle makes some calls in a row.
    Rows(u64),
    /// The first handle fills its buffer and never calls again.
    Deserted,
}

/// The same calls by the handles of a limiter, and by another limiter alone.
struct World {
    clock: ManualClock,
    shared: RateLimiter,
    handles: Vec<LocalLimiter>,
    alone: RateLimiter,
    /// The cost of the calls that the handles have admitted.
    admitted: u64,
    /// The cost of the calls that the limiter alone has admitted.
    admitted_alone: u64,
    /// The joint refusals.
    both_refused: u64,
}

impl World {
    fn new(handles: u64, batch: u64, burst: u64) -> Self {
        let clock = Clock::manual();
        let quota = Quota::new(1, Duration::from_nanos(TOKEN)).burst(burst);
        let limiter = || RateLimiter::new(quota).clock(&clock);
        let shared = limiter();
        Self {
            handles: (0..handles).map(|_| shared.local(batch)).collect(),
            alone: limiter(),
            shared,
            clock,
            admitted: 0,
            admitted_alone: 0,
            both_refused: 0,
        }
    }

    fn buffered(&self) -> u64 {
        self.handles.iter().map(LocalLimiter::buffered).sum()
    }

    fn call(&mut self, handle: usize, cost: u64) {
        let buffered = self.handles[handle].buffered();
        let result = self.handles[handle].try_acquire_many(cost);
        let alone = self.alone.try_acquire_many(cost);
        if let Err(refused) = &result {
            // A call is never refused while the limiter itself has what it needs.
            let missing = cost - buffered;
            let after = self.shared.peek_many(missing).retry_after;
            assert!(
                after > Some(Duration::ZERO),
                "{missing} of {cost} are available"
            );
            assert_eq!(refused.retry_after(), after);
            assert_eq!(self.handles[handle].buffered(), buffered);
        }
        self.admitted += cost * u64::from(result.is_ok());
        self.admitted_alone += cost * u64::from(alone.is_ok());
        self.both_refused += u64::from(result.is_err() && alone.is_err());
    }

    /// Makes calls of cost 1, `speed` per 12 tokens.
    fn run(&mut self, turns: Turns, speed: u64, calls: u64, random: &mut Random) {
        let handles = self.handles.len() as u64;
        for call in 0..calls {
            self.clock.advance(Duration::from_nanos(12 * TOKEN / speed));
            let handle = match turns {
                Turns::Even => call % handles,
                Turns::Random => random.next() % handles,
                Turns::Skewed if random.below(50) > 0 => 0,
                Turns::Skewed => random.next() % handles,
                Turns::Rows(length) => call / length % handles,
                Turns::Deserted if call == 0 || handles == 1 => 0,
                Turns::Deserted => 1 + call % (handles - 1),
            };
            let before = self.both_refused;
            self.call(handle as usize, 1);
            if self.both_refused > before {
                // Both have used up all that ever came.
                assert_eq!(self.admitted + self.buffered(), self.admitted_alone);
            }
        }
    }
}

/// Returns the worlds: handles, batch, burst, calls per twelve tokens, and who calls.
fn worlds() -> Vec<(u64, u64, u64, u64, Turns)> {
    let turns = [
        Turns::Even,
        Turns::Random,
        Turns::Skewed,
        Turns::Rows(7),
        Turns::Rows(100),
        Turns::Deserted,
    ];
    let mut worlds = Vec::new();
    for handles in [1, 2, 4, 8] {
        for (batch, burst) in [(32, 1), (32, 8), (32, 32), (32, 150), (2, 50), (5, 7)] {
            for speed in [6, 12, 14, 18, 48] {
                worlds.extend(turns.map(|turns| (handles, batch, burst, speed, turns)));
            }
        }
    }
    worlds
}

/// Four handles that are asked for one and a half times the rate, in turn, admit every token that
/// the limiter alone admits.
#[test]
fn try_acquire_at_more_than_the_rate_admits_as_much_as_the_limiter() {
    for burst in [8, 32, 50, 500] {
        let mut world = World::new(4, 32, burst);
        world.run(Turns::Even, 18, 6_000, &mut Random::new(1));
        assert_eq!(world.admitted, world.admitted_alone);
        // The first call comes when two thirds of a token have come back to a full burst.
        assert_eq!(world.admitted, burst + 5_999 * 2 / 3);
        assert_eq!(world.buffered(), 0);
    }
}

/// Calls that come evenly at no more than the rate are all admitted, whatever is buffered elsewhere.
/// At more than the rate, every token that came was used by a call, or is buffered.
#[test]
fn try_acquire_in_uneven_worlds_admits_as_much_as_the_limiter_less_what_is_buffered() {
    for (seed, world) in worlds().into_iter().enumerate() {
        let (handles, batch, burst, speed, turns) = world;
        let mut all = World::new(handles, batch, burst);
        all.run(turns, speed, CALLS, &mut Random::new(seed as u64));
        if speed <= 12 {
            assert_eq!(
                (all.admitted, all.admitted_alone),
                (CALLS, CALLS),
                "{world:?}"
            );
            continue;
        }
        assert!(all.both_refused > 0, "{world:?}");
        // One token may have come since the last joint refusal.
        let used = all.admitted + all.buffered();
        assert!(used.abs_diff(all.admitted_alone) <= 1, "{world:?}");
        // At most the deserted buffer is left, and what those who rarely call have.
        let idle = match turns {
            Turns::Even | Turns::Rows(_) => 0,
            Turns::Random | Turns::Skewed | Turns::Deserted => handles,
        };
        let rest = batch.min(burst).saturating_sub(1) * idle;
        assert!(all.buffered() <= rest, "{world:?}: {}", all.buffered());
    }
}

/// A machine that stalls lets the burst come back again and again, and the first handle that runs
/// takes a batch of it.
#[test]
fn try_acquire_after_stalls_uses_every_token_that_came() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let burst = 1 + random.next() % 100;
        let mut all = World::new(1 + seed % 8, 32, burst);
        for _ in 0..40 {
            let speed = 13 + random.next() % 36;
            all.run(Turns::Random, speed, 12 * burst + 300, &mut random);
            assert!(all.both_refused > 0);
            all.clock
                .advance(Duration::from_nanos(random.next() % (2 * burst * TOKEN)));
        }
        let used = all.admitted + all.buffered();
        assert!(used.abs_diff(all.admitted_alone) <= 1, "{seed}: {used}");
    }
}

/// Costs of any size, and handles that come and go: nothing is refused that fits, and every token is
/// in a call, in a buffer or in the limiter.
#[test]
fn try_acquire_many_of_uneven_costs_loses_no_token() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (burst, batch) = (1 + random.next() % 80, 1 + random.next() % 40);
        let mut all = World::new(1 + seed % 8, batch, burst);
        for step in 0..3_000 {
            let handle = random.next() as usize % all.handles.len();
            match random.below(60) {
                0 => all.handles[handle].return_unused(),
                1 => all.handles[handle] = all.shared.local(batch),
                _ => all.call(handle, 1 + random.next() % (1 + burst / 4)),
            }
            // No time has passed: what was used, is buffered, and is left, is the burst.
            if step < 1_000 {
                let available = all.shared.snapshot().available;
                assert_eq!(all.admitted + all.buffered() + available, burst);
            } else {
                all.clock
                    .advance(Duration::from_nanos(random.next() % (2 * TOKEN)));
            }
        }
    }
}

/// If less than a batch is available, a handle takes the cost of its call, and leaves the rest to
/// others.
#[test]
fn try_acquire_when_less_than_a_batch_is_available_charges_its_own_cost() {
    let (_clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(32);
    limiter.try_acquire_many(20).unwrap();
    local.try_acquire_many(3).unwrap();
    assert_eq!((local.buffered(), limiter.snapshot().available), (0, 27));
}

/// A batch that was refused is not asked for again by the next sixteen calls, refused or not.
#[test]
fn try_acquire_after_a_refused_batch_asks_for_its_own_cost_sixteen_times() {
    let (clock, limiter) = spent(FIFTY);
    let mut local = limiter.local(8);
    for call in 0..ALONE {
        if call == 3 {
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(local.try_acquire().is_ok(), call >= 3);
        assert_eq!(local.buffered(), 0);
    }
    assert_eq!(limiter.snapshot().available, 50 - (ALONE - 3));
    local.try_acquire().unwrap();
    assert_eq!(local.buffered(), 7);
}

/// On the clock under which calls are decided without the lock: a refused batch changes nothing.
#[test]
fn try_acquire_of_each_algorithm_takes_a_batch_as_soon_as_it_is_whole() {
    for &algorithm in Algorithm::all() {
        for (left, buffered) in [(1, 0), (7, 0), (8, 7), (50, 7)] {
            let limiter = RateLimiter::new(Quota::per_hour(60).burst(60))
                .algorithm(algorithm)
                .clock(Clock::system());
            let left = left.min(algorithm.batch(limiter.quota()).max_burst());
            let all = limiter.snapshot().available;
            let charge = limiter.try_acquire_many(all).unwrap();
            let mut local = limiter.local(8);
            let refused = local.try_acquire().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            assert_eq!(
                local.try_acquire_many(all + 1).unwrap_err().kind(),
                ErrorKind::ExceedsCapacity
            );
            limiter.settle(charge, all - left);
            let mut local = limiter.local(8);
            local.try_acquire().unwrap();
            assert_eq!(local.buffered(), buffered.min(left - 1), "{algorithm}");
            assert_eq!(
                limiter.snapshot().available,
                left - 1 - local.buffered(),
                "{algorithm}"
            );
            local.return_unused();
            assert_eq!(limiter.snapshot().available, left - 1, "{algorithm}");
        }
    }
}
