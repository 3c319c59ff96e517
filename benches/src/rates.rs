//! Measures decisions of rate limiters: allowed and refused ones; by one thread, and by two that share a limiter;
//! with other rules than the default; and out of a chunk that was taken in advance.
//!
//! Every answer goes through `black_box` in the crate's own form, as everywhere in these benchmarks. That copies it,
//! and reading in one piece after writing in several pieces takes about 2 ns for an answer of ours and 5 for one of
//! governor's. So each decision is also measured *by reference*: the answer stays in its place, and is only
//! inspected.
//!
//! Allowed decisions use a quota that refills faster than any caller can ask: so a limiter that reads the clock only
//! occasionally has enough until its next reading. Each limiter has decided once before: the first decision of a
//! process may have to calibrate its clock, for milliseconds.
//!
//! valgrind counts the instruction that reads the processor's counter as one, although it takes about 20 cycles; a
//! clock of the operating system is a few dozen instructions, or a system call, which is not counted.

use std::hint::black_box;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tokio::runtime::{Builder, Runtime};
use tollgate::{Algorithm, Quota};
use tower::{Service, ServiceExt};

use crate::floor::{DecisionFloor, Reading};
use crate::harness::{Row, Shared, alone, together};
use crate::peer::{
    Answer, ByArc, ByReference, Governor, LeakyBucket, Limiter, MutexRing, OurLimiter, OurLog,
    Rate, SharedRateLimit, TryLimiter, UpkeptGovernor, WaitLimiter, tower_rate,
};
use crate::{repeat, repeat_async, rows};

/// A rate that is never exhausted: a burst of a second, and a refill faster than any decision. A token is not a whole
/// number of nanoseconds, which takes the longer path of a `RateLimiter`.
pub const PLENTY: Rate = Rate::per_second(900_000_000, 1_000_000_000);

/// The same rate, where a token is a whole number of nanoseconds.
const PLENTY_EVEN: Rate = Rate::per_second(1_000_000_000, 1_000_000_000);

/// A rate that the first decision exhausts for an hour.
pub const SCARCE: Rate = Rate {
    count: 1,
    period: Duration::from_secs(60 * 60),
    burst: 1,
};

/// A rate that exceeds the demand on a log: it refills before it is exhausted.
const PLENTY_LOGGED: Rate = Rate {
    count: 1_000,
    period: Duration::from_micros(2),
    burst: 1_000,
};

/// An exhausted rate; even a single token returns only after most of an hour.
const SCARCE_LOGGED: Rate = Rate {
    count: 1_000,
    period: Duration::from_secs(30 * 86_400),
    burst: 1_000,
};

/// The runtime that tokio's timers need. No task runs on it.
static TIMERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without threads")
});

/// Decisions on one thread. tower's limit belongs to one owner, so two threads cannot share it.
#[must_use]
pub fn decisions() -> Vec<Row> {
    rows! {
        alone "rate: decision allowed"
            [allowed: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => allowed_floor::<quanta::Clock>, "floor: std Instant, CAS" => allowed_floor::<Instant>,
             "tower RateLimit" => tower_allowed};
        alone "rate: decision denied"
            [denied: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => denied_floor::<quanta::Clock>, "floor: std Instant, CAS" => denied_floor::<Instant>,
             "tower RateLimit" => tower_denied};
        alone "rate: acquire ready" [ready: OurLimiter, Governor, LeakyBucket, ThrottleNet, SharedRateLimit];
        alone "rate: decision allowed, by reference"
            [allowed_by_reference: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => allowed_floor::<quanta::Clock>, "floor: std Instant, CAS" => allowed_floor::<Instant>};
        alone "rate: decision denied, by reference"
            [denied_by_reference: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => denied_floor::<quanta::Clock>, "floor: std Instant, CAS" => denied_floor::<Instant>};
        // The handle of a service or a task, next to a reference.
        alone "rate: tried as a throttle, allowed" [allowed: ByArc, ByReference: 1.1];
        alone "rate: tried as a throttle, denied" [denied: ByArc, ByReference: 1.1];
        alone "even rate: decision allowed" [allowed_of(PLENTY_EVEN): OurLimiter, Governor];
        alone "even rate: acquire ready" [ready_of(PLENTY_EVEN): OurLimiter, Governor];
        alone "unlimited: decision allowed" {"tollgate" => unlimited};
    }
}

/// Decisions on two threads.
#[must_use]
pub fn contended() -> Vec<Row> {
    rows! {
        together "two threads, rate: decision allowed"
            [allowed: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => allowed_floor::<quanta::Clock>, "floor: std Instant, CAS" => allowed_floor::<Instant>};
        together "two threads, rate: decision denied"
            [denied: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => denied_floor::<quanta::Clock>, "floor: std Instant, CAS" => denied_floor::<Instant>};
        together "two threads, rate: decision allowed, by reference"
            [allowed_by_reference: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => allowed_floor::<quanta::Clock>, "floor: std Instant, CAS" => allowed_floor::<Instant>};
        together "two threads, rate: decision denied, by reference"
            [denied_by_reference: OurLimiter, Governor: 1.0, UpkeptGovernor, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet]
            {"floor: counter, CAS" => denied_floor::<quanta::Clock>, "floor: std Instant, CAS" => denied_floor::<Instant>};
    }
}

/// Decisions with rules other than the default: the log next to a ring under a mutex, the sliding window next to the
/// default, and all of them.
#[must_use]
pub fn rules() -> Vec<Row> {
    let mut rows = rows! {
        alone "log: decision allowed" [allowed_of(PLENTY_LOGGED): OurLog, MutexRing: 1.1, Governor];
        alone "log: decision denied" [denied_of(SCARCE_LOGGED): OurLog, MutexRing: 1.1, Governor];
        together "two threads, log: decision allowed"
            [allowed_of(PLENTY_LOGGED): OurLog, MutexRing: 1.0, Governor];
        together "two threads, log: decision denied"
            [denied_of(SCARCE_LOGGED): OurLog, MutexRing: 0.2, Governor];
        alone "window: decision allowed"
            {"tollgate, sliding window" => || allowed_by(window(PLENTY)),
             "tollgate": 1.5 => allowed::<OurLimiter>};
        alone "window: decision denied"
            {"tollgate, sliding window" => || denied_by(window(SCARCE_LOGGED)),
             "tollgate": 1.5 => || denied_of::<OurLimiter>(SCARCE_LOGGED)};
        together "two threads, window: decision allowed"
            {"tollgate, sliding window" => || allowed_by(window(PLENTY)),
             "tollgate": 2.0 => allowed::<OurLimiter>};
        together "two threads, window: decision denied"
            {"tollgate, sliding window" => || denied_by(window(SCARCE_LOGGED)),
             "tollgate": 2.0 => || denied_of::<OurLimiter>(SCARCE_LOGGED)};
        alone "rules: decision allowed" [allowed_of(PLENTY_LOGGED): OurLimiter];
        alone "rules: decision denied" [denied_of(SCARCE_LOGGED): OurLimiter];
    };
    for &algorithm in Algorithm::all().iter().filter(|it| **it != Algorithm::Gcra) {
        let name = format!("tollgate, {algorithm}");
        let [.., allowed, denied] = &mut rows[..] else {
            unreachable!("these are the last");
        };
        let plenty = move || allowed_by(by(algorithm, PLENTY_LOGGED));
        allowed.contenders.push(alone(name.clone(), plenty));
        let scarce = move || denied_by(by(algorithm, SCARCE_LOGGED));
        denied.contenders.push(alone(name, scarce));
    }
    rows
}

/// Decisions out of a chunk that was taken in advance, next to those of the same limiter, or a peer, without a handle.
/// Each thread has its own.
///
/// `black_box` hides the handle from the compiler before each call, so the rest of the chunk is in memory, and not in a
/// register. Copying an answer takes longer than making it, so each decision is also measured by reference.
#[must_use]
pub fn local() -> Vec<Row> {
    rows! {
        alone "local(32): decision allowed" ("tollgate, local(32)" => || local_allowed(false))
            [allowed: Governor: 0.15, OurLimiter, Ratelimiter];
        alone "local(32): decision allowed, by reference" ("tollgate, local(32)" => || local_allowed(true))
            [allowed_by_reference: Governor: 0.15, OurLimiter, Ratelimiter];
        alone "local(32): decision denied" ("tollgate, local(32)" => local_denied)
            [denied: Governor, OurLimiter, Ratelimiter];
        alone "local(32): acquire ready" ("tollgate, local(32)" => local_ready)
            [ready: Governor, OurLimiter];
        together "two threads, local(32): decision allowed"
            ("tollgate, local(32)" => || local_allowed(false))
            [allowed: Governor: 0.08, OurLimiter, Ratelimiter];
        together "two threads, local(32): decision allowed, by reference"
            ("tollgate, local(32)" => || local_allowed(true))
            [allowed_by_reference: Governor: 0.08, OurLimiter, Ratelimiter];
        together "two threads, local(32): decision denied" ("tollgate, local(32)" => local_denied)
            [denied: Governor, OurLimiter, Ratelimiter];
    }
}

fn window(rate: Rate) -> OurLimiter {
    by(Algorithm::SlidingWindow, rate)
}

/// Creates our limiter with an algorithm.
fn by(algorithm: Algorithm, rate: Rate) -> OurLimiter {
    let count = u64::from(rate.count);
    OurLimiter::new(Quota::new(count, rate.period).burst(count)).algorithm(algorithm)
}

fn exhaust<L: TryLimiter>(limiter: &L) {
    assert!(limiter.try_take().is_permit(), "the first may go");
    while limiter.try_take().is_permit() {}
}

/// Creates a limiter that never refuses, and has decided once.
fn plentiful<L: TryLimiter>() -> L {
    let limiter = L::with_rate(PLENTY);
    assert!(limiter.try_take().is_permit(), "there is plenty");
    limiter
}

/// Creates a limiter whose whole burst has been taken.
fn exhausted<L: TryLimiter>() -> L {
    let limiter = L::with_rate(SCARCE);
    exhaust(&limiter);
    limiter
}

fn unlimited() -> Shared {
    repeat!(OurLimiter::new(Quota::UNLIMITED), |limiter| {
        black_box(limiter.try_acquire()).expect("there is no limit")
    })
}

/// Measures a decision that allows.
fn allowed<L: TryLimiter>() -> Shared {
    repeat!(plentiful::<L>(), |limiter| {
        let answer = limiter.try_take();
        assert!(black_box(answer).is_permit(), "there is plenty");
    })
}

/// Measures a decision that allows, because this rate is plentiful; a few may be refused. If a thread is suspended in
/// the middle of a decision, a log may count it as of the moment at which another thread needs to
/// know.
fn allowed_of<L: TryLimiter>(rate: Rate) -> Shared {
    allowed_by(L::with_rate(rate))
}

/// Does the same with this limiter.
fn allowed_by<L: TryLimiter>(limiter: L) -> Shared {
    assert!(limiter.try_take().is_permit(), "there is plenty");
    Box::new(move |times| {
        let mut refused = 0;
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            refused += u64::from(!black_box(answer).is_permit());
        }
        assert!(refused <= 1_000 + times / 20, "there is plenty: {refused}");
    })
}

/// Measures a decision that refuses.
fn denied<L: TryLimiter>() -> Shared {
    denied_of::<L>(SCARCE)
}

/// Measures a decision that refuses, because this rate is exhausted.
fn denied_of<L: TryLimiter>(rate: Rate) -> Shared {
    denied_by(L::with_rate(rate))
}

/// Does the same with this limiter.
fn denied_by<L: TryLimiter>(limiter: L) -> Shared {
    exhaust(&limiter);
    repeat!(limiter, |limiter| {
        let answer = limiter.try_take();
        assert!(!black_box(answer).is_permit(), "it is scarce");
    })
}

/// Measures a decision that allows, and whose answer stays in its place.
fn allowed_by_reference<L: TryLimiter>() -> Shared {
    repeat!(plentiful::<L>(), |limiter| {
        let answer = limiter.try_take();
        assert!(black_box(&answer).is_permit(), "there is plenty");
    })
}

/// Measures a decision that refuses, and whose answer stays in its place.
fn denied_by_reference<L: TryLimiter>() -> Shared {
    repeat!(exhausted::<L>(), |limiter| {
        let answer = limiter.try_take();
        assert!(!black_box(&answer).is_permit(), "it is scarce");
    })
}

/// Measures a wait that ends at its first poll.
fn ready<L: WaitLimiter>() -> Shared {
    ready_of::<L>(PLENTY)
}

/// Measures a wait that ends at its first poll, because this rate is plentiful.
fn ready_of<L: WaitLimiter>(rate: Rate) -> Shared {
    let _timers = TIMERS.enter();
    let limiter = L::with_rate(rate);
    drop(block_on(limiter.take()));
    repeat_async!(limiter, |limiter| drop(black_box(limiter.take().await)))
}

/// Measures the floor of a decision that allows.
fn allowed_floor<C: Reading>() -> Shared {
    repeat!(DecisionFloor::<C>::allowing(), |floor| {
        assert!(black_box(floor.decide()), "it allows");
    })
}

/// Measures the floor of a decision that refuses.
fn denied_floor<C: Reading>() -> Shared {
    repeat!(DecisionFloor::<C>::refusing(), |floor| {
        assert!(!black_box(floor.decide()), "it refuses");
    })
}

/// Measures tower's limit around a service that answers at once, alone with its owner: ready, call, answer.
fn tower_allowed() -> impl FnMut(u64) + 'static {
    let _timers = TIMERS.enter();
    let mut service = tower_rate(PLENTY);
    move |times| {
        block_on(async {
            for _ in 0..times {
                let ready = black_box(&mut service).ready().await;
                let answer = ready.expect("it never fails").call(()).await;
                answer.expect("it never fails");
            }
        });
    }
}

/// Polls whether tower's limit is ready while it is not. That polls its timer, because the limit never
/// refuses.
fn tower_denied() -> impl FnMut(u64) + 'static {
    let _timers = TIMERS.enter();
    let mut service = tower_rate(SCARCE);
    block_on(async {
        let ready = service.ready().await.expect("it never fails");
        ready.call(()).await.expect("it never fails");
    });
    move |times| {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..times {
            let polled = black_box(&mut service).poll_ready(&mut context);
            assert!(matches!(black_box(polled), Poll::Pending), "it is scarce");
        }
    }
}

/// The size of a chunk that is taken in advance.
const CHUNK: u64 = 32;

/// Measures an allowed decision. The handle is made and dropped once per batch. By reference, its answer
/// stays in its place.
fn local_allowed(by_reference: bool) -> Shared {
    let limiter = plentiful::<OurLimiter>();
    Box::new(move |times| {
        let mut local = limiter.local(CHUNK);
        if by_reference {
            for _ in 0..times {
                let answer = black_box(&mut local).try_acquire();
                assert!(black_box(&answer).is_ok(), "there is plenty");
            }
            return;
        }
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(answer).is_ok(), "there is plenty");
        }
    })
}

/// Measures a refused decision: the chunk is empty, so the limiter is asked each time.
fn local_denied() -> Shared {
    let limiter = exhausted::<OurLimiter>();
    Box::new(move |times| {
        let mut local = limiter.local(CHUNK);
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(answer).is_err(), "it is scarce");
        }
    })
}

/// Measures a wait that ends at its first poll.
fn local_ready() -> impl FnMut(u64) + 'static {
    let mut local = OurLimiter::with_rate(PLENTY).local(CHUNK);
    move |times| {
        block_on(async {
            for _ in 0..times {
                let waited = black_box(&mut local).acquire().await;
                assert!(black_box(waited).is_ok(), "there is plenty");
            }
        });
    }
}
