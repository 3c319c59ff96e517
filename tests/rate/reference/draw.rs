//! Random calls: their kinds, their frequencies, and their costs and times in relation to the
//! quota.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::rate::MissedTickBehavior;
use tollgate::{Algorithm, Quota};

use super::world::World;
use crate::quota::quotas;
use crate::support::reference::{LAST_TICK, Setup};

/// The calls and their frequencies. Waiters, charges, holds and local handles are named by positions. `slow`
/// waits with a waker that lets time jump; `within` waits with a timeout; `used` settles a hold; `keep`
/// and `scale` change the quota; `take` asks a handle.
const CALLS: &str =
    "26 advance, 10 try, 14 wait, 4 reserve, 3 within, 2 slow, 10 poll, 8 leave, 1 leak, 4 charge, 7 refund,
    4 settle, 8 hold, 7 used, 1 drop-hold, 3 pause, 1 resume, 2 keep, 2 scale, 1 close, 1 local, 5 take,
    1 return, 1 drop-local, 3 follow, 1 answer, 1 follow-hold";

/// A call, and the numbers from which its words come.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    call: &'static str,
    numbers: [u64; 3],
    quota: Quota,
}

pub(super) fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let weighted = CALLS
        .split(',')
        .map(|part| part.trim().split_once(' ').expect("a frequency"));
    let calls = weighted.flat_map(|(times, call)| vec![call; times.parse().expect("a number")]);
    let calls = prop::sample::select(calls.collect::<Vec<_>>());
    let draw = (calls, prop::array::uniform3(0..1_u64 << 32), quota());
    let draw = draw.prop_map(|(call, numbers, quota)| Draw {
        call,
        numbers,
        quota,
    });
    prop::collection::vec(draw, 1..80)
}

/// Draws quotas whose tokens take a whole number of nanoseconds, or not.
fn quota() -> impl Strategy<Value = Quota> {
    let fixed = |count, period| (Just(count), Just(period));
    let rate = prop_oneof![
        6 => (1..=20_u64, 1..=20_u64).prop_map(|(a, b)| (a.min(b), a.max(b))),
        3 => (1..=10_u64, 1..=20_u64).prop_map(|(count, each)| (count, count * each)),
        1 => fixed(3, 10),
        1 => fixed(3, 1_000_000_000),
        1 => fixed(1, 3_600_000_000_000),
        1 => fixed(100, 1_000_000_000),
        1 => fixed(1, 1),
        1 => (1..=20_u64, 0..20_u64).prop_map(|(period, more)| (period + more % period, period)),
        1 => (2..16_u64, 1..=20_u64, 0..20_u64)
            .prop_map(|(whole, period, more)| (whole * period + more % period, period)),
    ];
    let burst = prop_oneof![3 => 1..=5_u64, 1 => 1..=40_u64];
    let small = (rate, burst).prop_map(|((count, period), burst)| {
        Quota::try_new(count, Duration::from_nanos(period), burst).expect("within the limits")
    });
    prop_oneof![12 => small, 2 => quotas(), 1 => Just(Quota::UNLIMITED)]
}

/// Returns a quota that fits an algorithm. In a log the reference counts the calls one by one.
fn fitting(algorithm: Algorithm, quota: Quota) -> Option<Quota> {
    let whole = Quota::try_new(quota.count(), quota.period(), 1).ok();
    let mut fits = [Some(quota), whole].into_iter().flatten().filter(|quota| {
        let is_small = algorithm != Algorithm::SlidingLog || quota.count() <= 100;
        is_small && algorithm.check(*quota).is_ok()
    });
    fits.next()
}

pub(super) fn setups(algorithm: Algorithm) -> impl Strategy<Value = Setup> {
    let missed = prop_oneof![
        4 => Just(None),
        1 => Just(Some(MissedTickBehavior::Delay)),
        2 => (0..20_u64).prop_map(|max| Some(MissedTickBehavior::Burst { max })),
        1 => Just(Some(MissedTickBehavior::Burst { max: u64::MAX })),
    ];
    let last = LAST_TICK as u64;
    let start =
        prop_oneof![5 => Just(0), 2 => 0..1000_u64, 1 => 0..=last, 1 => last - 200..=last + 100];
    let max_hold = prop_oneof![2 => Just(u64::MAX), 1 => 1..100_u64];
    let max_waiters = prop_oneof![4 => Just(usize::MAX), 1 => 0..4_usize];
    (
        quota(),
        prop::bool::weighted(0.25),
        max_waiters,
        missed,
        max_hold,
        start,
    )
        .prop_filter_map(
            "the quota does not fit",
            move |(quota, overdraft, max_waiters, missed, max_hold, start)| {
                let quota = fitting(algorithm, quota)?;
                Some(Setup {
                    algorithm,
                    quota,
                    overdraft,
                    max_waiters,
                    missed,
                    max_hold,
                    start,
                })
            },
        )
}

impl Draw {
    /// Returns the call as text: `None` if it has no item, or gives back a charge
    /// [beside a hold](World::is_beside_hold).
    pub(super) fn say(&self, world: &World) -> Option<String> {
        let [a, b, c] = self.numbers;
        let [waiters, charges, holds, locals] = world.items().map(|count| count as u64);
        let is_by_word = world.setup().algorithm.keeps_a_word();
        let any = |of: u64| a.checked_rem(of);
        let call = self.call;
        let given_back = match call {
            "leave" => world.grant_of(any(waiters)? as usize),
            "refund" | "settle" => Some(world.charge(any(charges)? as usize)),
            _ => None,
        };
        if given_back.is_some_and(|charge| world.is_beside_hold(charge)) {
            return None;
        }
        Some(match call {
            "pause" if is_by_word && c % 16 == 0 => "pause never".to_owned(),
            "resume" => call.to_owned(),
            "close" if c % 4 > 0 => return None,
            "close" => call.to_owned(),
            "within" => format!(
                "within {} {}ns",
                self.cost(world, [a, b]),
                1 + self.time(world, [b, c])
            ),
            "follow" | "answer" | "follow-hold" => self.follow(world)?,
            "local" => format!("local {}", 1 + b % 40),
            "take" => format!("take {} {}", any(locals)?, self.cost(world, [b, c])),
            "return" | "drop-local" => format!("{call} {}", any(locals)?),
            "advance" | "pause" => format!("{call} {}ns", self.time(world, [a, b])),
            "try" | "wait" | "reserve" | "charge" => format!("{call} {}", self.cost(world, [a, b])),
            "slow" => format!(
                "{call} {} {}ns",
                self.cost(world, [a, b]),
                self.time(world, [b, c])
            ),
            "poll" | "leave" | "leak" => format!("{call} {}", any(waiters)?),
            "refund" => format!("{call} {}", any(charges)?),
            // A hold of the newest charge is the usual case.
            "hold" => {
                let which = if b % 2 == 0 {
                    charges.checked_sub(1)?
                } else {
                    any(charges)?
                };
                let is_owed_for_ever =
                    world.reference.open_holds() == 0 && world.reference.reset().is_none();
                if is_owed_for_ever || world.is_beside_hold(world.charge(which as usize)) {
                    return None;
                }
                format!("{call} {which}")
            }
            "settle" => format!("{call} {} {}", any(charges)?, self.cost(world, [b, c])),
            "used" | "drop-hold" => {
                let which = any(holds)?;
                match call {
                    "used" => format!("{call} {which} {}", self.cost(world, [b, c])),
                    _ => format!("{call} {which}"),
                }
            }
            "keep" | "scale" => format!("{call} {}", fitting(world.setup().algorithm, self.quota)?),
            _ => panic!("no call: {call:?}"),
        })
    }

    /// Returns a response of a server, mostly not the first one. A call of 0 is not counted anywhere.
    fn follow(&self, world: &World) -> Option<String> {
        let [a, b, c] = self.numbers;
        let [_, charges, holds, _] = world.items().map(|count| count as u64);
        let which = match self.call {
            "follow" => a.checked_rem(charges)?,
            "answer" => charges.checked_sub(1)?,
            _ => a.checked_rem(holds)?,
        };
        let charged = if self.call == "follow-hold" {
            world.charge_of_hold(which as usize)
        } else {
            world.charge(which as usize)
        };
        let is_rare = !world.reference.is_followed() && c % 8 > 0;
        let is_late = u128::from(world.reference.now) > LAST_TICK as u128 / 2;
        if is_rare || is_late || charged.cost == 0 {
            return None;
        }
        let limit = world.reference.limit().min(1000);
        let used = match b % 8 {
            0 => 0,
            1 => u64::MAX,
            _ => limit * (b / 8 % 65) / 48,
        };
        let (call, time) = (self.call, self.time(world, [b, c]));
        let which = if call == "answer" {
            String::new()
        } else {
            format!("{which} ")
        };
        Some(format!("{call} {which}{used} {time}ns"))
    }

    /// Returns a time, mostly a short one.
    fn time(&self, world: &World, [kind, number]: [u64; 2]) -> u64 {
        let quota = world.reference.quota;
        let (period, limit) = (
            quota.period().as_nanos() as u64,
            world.reference.limit().min(100),
        );
        let of = |tokens: u64| period.saturating_mul(tokens) / quota.count();
        match kind % 16 {
            0..4 => number % 3,
            4..9 => (of(1) * (number % 32) / 16).saturating_add(number / 32 % 2),
            9..14 => (of(limit) * (number % 32) / 16).saturating_add(number / 32 % 2),
            14 if number % 8 == 0 => {
                (LAST_TICK as u64 + 10).saturating_sub(world.reference.now + number % 40)
            }
            14 => of(limit) * (number % 30),
            _ => period.saturating_mul(number % 40) / 16,
        }
    }

    /// Returns a cost, often 1, sometimes above the burst. A log and the queue of a window have no room for
    /// the largest, and beside a pause or a hold the reference rounds at the end of time in another way.
    fn cost(&self, world: &World, [kind, number]: [u64; 2]) -> u64 {
        let most = world.reference.limit();
        let limit = most.min(1000);
        let is_bounded = match world.setup().algorithm {
            Algorithm::SlidingLog => true,
            Algorithm::SlidingWindow => !["try", "charge"].contains(&self.call),
            _ => world.reference.paused_until().is_some() || world.reference.open_holds() > 0,
        };
        match kind % 16 {
            0..4 => 1,
            4..9 => number % 4,
            9..13 => limit * (number % 65) / 64,
            13 => limit.saturating_sub(number % 3),
            14 => limit + 1 + number % 3,
            _ if is_bounded => limit * (1 + number % 3) + 1,
            _ => match number % 8 {
                0 => u64::MAX,
                1 => most,
                2 => most / 64 * (number % 65),
                more => most.saturating_mul(more).saturating_add(1),
            },
        }
    }
}
