//! What is compared: the calls that every algorithm gets, a limiter by each, and what it makes of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::Throttle;
use tollgate::{AcquireError, Algorithm, Charge, Clock, LeakyBucket, ManualClock, Quota, Waiting};
use tollgate::{RateLimiter, Tick};

/// How long the calls that everybody gets last.
pub(crate) const SPAN: Duration = Duration::from_secs(9);

/// Some calls, evenly spaced: from when on, one every how often, in milliseconds, and how many.
const STRETCHES: [(u64, u64, u64); 5] = [
    // A crowd at the end of a second, and another at the beginning of the next.
    (952, 4, 12),
    (1000, 4, 12),
    // For two seconds five times as many as the quota has, from the middle of a second on.
    (3500, 20, 105),
    // Nobody for a long time, and then forty at once.
    (7300, 0, 40),
    // As many as the quota has.
    (8000, 100, 10),
];

/// When each call comes, in order, since the epoch of the clock, where windows begin.
pub(crate) fn arrivals() -> Vec<Duration> {
    let of = |&(from, every, count): &(u64, u64, u64)| {
        (0..count).map(move |number| Duration::from_millis(from + number * every))
    };
    STRETCHES.iter().flat_map(of).collect()
}

/// What all may let through in each [`PERIOD`]: `N`.
pub(crate) const COUNT: u64 = 10;

/// `T`.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

const QUOTA: Quota = Quota::new(COUNT, PERIOD);

/// A limiter to be compared.
pub(crate) struct Subject {
    /// As it is written in the table and in the picture.
    pub(crate) name: String,
    /// What is to be seen of it.
    pub(crate) remark: &'static str,
    /// The most that it promises to let through in any time `T`.
    pub(crate) promised: usize,
    limiter: Limiter,
}

enum Limiter {
    /// Each call goes at once, or not at all.
    Tried(Algorithm, Quota),
    /// Each call joins the queue, in which so many have room.
    Queued(usize),
}

/// All of them: each algorithm with a quota or two, and the leaky bucket.
pub(crate) fn subjects() -> Vec<Subject> {
    let quotas = |algorithm| match algorithm {
        Algorithm::Gcra => vec![QUOTA, QUOTA.burst(10)],
        Algorithm::TokenBucket => vec![QUOTA.burst(20)],
        _ => vec![QUOTA],
    };
    let all = Algorithm::all().iter().flat_map(|&algorithm| {
        let quotas = quotas(algorithm).into_iter();
        quotas.map(move |quota| Subject::tried(algorithm, quota))
    });
    let bucket = Subject {
        name: "leaky-bucket, capacity 10".to_owned(),
        remark: "ten may wait, and are let go evenly",
        promised: 11,
        limiter: Limiter::Queued(10),
    };
    all.chain([bucket]).collect()
}

/// What is to be seen of an algorithm.
fn remark(algorithm: Algorithm, quota: Quota) -> &'static str {
    match algorithm {
        Algorithm::Gcra if quota.max_burst() == 1 => "one at a time, evenly",
        Algorithm::Gcra => "ten at once, and then evenly",
        Algorithm::TokenBucket => "ten come back at once, twenty can be saved up",
        Algorithm::FixedWindow => "ten before the edge of a window, ten after it",
        Algorithm::SlidingWindow => "the window before fades, as if it had been even",
        Algorithm::SlidingLog => "each comes back when it is a second old",
        Algorithm::SubInterval { .. } => "two in each quarter of a second",
        _ => "",
    }
}

/// What became of each call.
#[derive(PartialEq, Eq)]
pub(crate) struct Outcome {
    /// For each call, in order, the tick at which it was charged, if it was.
    pub(crate) at: Vec<Option<Duration>>,
}

impl Subject {
    fn tried(algorithm: Algorithm, quota: Quota) -> Self {
        let name = match quota.max_burst() {
            1 => algorithm.to_string(),
            burst => format!("{algorithm}, burst {burst}"),
        };
        Self {
            name,
            remark: remark(algorithm, quota),
            promised: algorithm.most_in(quota, PERIOD) as usize,
            limiter: Limiter::Tried(algorithm, quota),
        }
    }

    /// Hands it all calls, on a clock that goes from one to the next.
    pub(crate) fn run(&self, arrivals: &[Duration]) -> Outcome {
        let at = match self.limiter {
            Limiter::Tried(algorithm, quota) => tried(algorithm, quota, arrivals),
            Limiter::Queued(capacity) => queued(capacity, arrivals),
        };
        Outcome { at }
    }
}

fn tried(algorithm: Algorithm, quota: Quota, arrivals: &[Duration]) -> Vec<Option<Duration>> {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    let outcome = |&arrival| {
        go_on_to(&clock, arrival);
        charged(limiter.try_acquire())
    };
    arrivals.iter().map(outcome).collect()
}

fn queued(capacity: usize, arrivals: &[Duration]) -> Vec<Option<Duration>> {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(QUOTA, capacity).clock(&clock);
    let join = |&arrival| {
        go_on_to(&clock, arrival);
        let mut waiter = Box::pin(bucket.acquire());
        let came = poll(waiter.as_mut());
        (waiter, came)
    };
    let calls: Vec<_> = arrivals.iter().map(join).collect();
    // The queue is moved by the clock, not by who looks: it is empty by now, and everybody knows
    // when it was.
    go_on_to(&clock, SPAN * 2);
    let outcome = |(mut waiter, came): (
        Pin<Box<Waiting<<&LeakyBucket as Throttle>::Enter>>>,
        Poll<_>,
    )| match came {
        Poll::Ready(came) => charged(came),
        Poll::Pending => match poll(waiter.as_mut()) {
            Poll::Ready(came) => charged(came),
            Poll::Pending => unreachable!("the queue is empty after twice the time"),
        },
    };
    calls.into_iter().map(outcome).collect()
}

fn poll(
    waiter: Pin<&mut Waiting<<&LeakyBucket as Throttle>::Enter>>,
) -> Poll<Result<Charge, AcquireError>> {
    waiter.poll(&mut Context::from_waker(Waker::noop()))
}

fn charged(came: Result<Charge, AcquireError>) -> Option<Duration> {
    came.ok().map(|charge| since_epoch(charge.at()))
}

fn go_on_to(clock: &ManualClock, arrival: Duration) {
    clock.advance(arrival.saturating_sub(since_epoch(clock.now())));
}

fn since_epoch(tick: Tick) -> Duration {
    Duration::from_nanos(tick.as_nanos())
}

impl Outcome {
    /// Those that were let through, in order of their ticks.
    pub(crate) fn admitted(&self) -> Vec<Duration> {
        let mut admitted: Vec<_> = self.at.iter().flatten().copied().collect();
        admitted.sort_unstable();
        admitted
    }

    /// The most that were let through in any time `T`.
    pub(crate) fn most(&self) -> usize {
        let in_last = in_last_period(&self.admitted());
        in_last
            .into_iter()
            .map(|(_, count)| count)
            .max()
            .unwrap_or(0)
    }
}

/// How many there were in the last time `T`, whenever that changes: an instant counts itself, and
/// not any more when `T` has passed.
pub(crate) fn in_last_period(admitted: &[Duration]) -> Vec<(Duration, usize)> {
    let ends = admitted.iter().map(|&at| at + PERIOD);
    let mut changes: Vec<_> = admitted.iter().copied().chain(ends).collect();
    changes.sort_unstable();
    changes.dedup();
    let count = |now: Duration| {
        let counts = |at: &&Duration| **at <= now && now < **at + PERIOD;
        admitted.iter().filter(counts).count()
    };
    changes.into_iter().map(|now| (now, count(now))).collect()
}
