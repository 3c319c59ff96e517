//! Decisions of rate limiters: one that is always allowed, and one that is always refused; by one thread, and by two
//! that share one; under rules other than the default; and from a chunk that was taken ahead.
//!
//! Every answer goes through `black_box` in the crate's own form, as everywhere in these benchmarks.
//! That copies it, and reading in one piece what was just written in several takes some 2 ns for an
//! answer of ours and 5 for governor's. So each decision is measured *by reference* as well: the answer
//! stays where the crate puts it, and is only inspected.
//!
//! The quota of allowed decisions refills faster than any caller can ask: so a limiter that reads the clock only now
//! and then has enough until its next reading. Every limiter has decided once before, because a process's first
//! decision may calibrate its clock, for milliseconds.
//!
//! valgrind counts the instruction that reads the processor's counter as one, although it takes some 20 cycles; a
//! clock of the operating system is a few dozen instructions, or a system call, which is not counted.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use futures::executor::block_on;
use peers::floor::DecisionFloor;
use ratelimit::Ratelimiter;
use ready_paths::quotas::{PLENTY, PLENTY_EVEN, PLENTY_LOGGED, SCARCE, SCARCE_LOGGED};
use throttle_net::Throttle as ThrottleNet;
use tokio::runtime::{Builder, Runtime};
use tollgate::{Algorithm, Quota};
use tower::{Service, ServiceExt};

use crate::harness::{Row, Shared, alone, awaited, together};
use crate::peer::{
    Answer, ByArc, ByReference, Governor, LeakyBucket, Limiter, MutexRing, OurLimiter, OurLog,
    SharedRateLimit, TryLimiter, WaitLimiter, tower_rate,
};
use crate::{repeat, repeat_async, rows};

type ByCounter = DecisionFloor<quanta::Clock>;
type ByInstant = DecisionFloor<Instant>;

/// Tokio's timers need a runtime to be made and polled in. It runs nothing else.
static TIMERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without threads")
});

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let all = [decisions(), contended(), rules(), local()];
    all.into_iter().flatten().collect()
}

/// Measures decisions on one thread. tower's limit belongs to one owner, so two threads cannot
/// share it.
fn decisions() -> Vec<Row> {
    rows! {
        alone "rate: decision allowed"
            [allowed: OurLimiter, Governor: 1.0, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet,
             ByCounter, ByInstant]
            {"tower RateLimit" => tower_allowed};
        alone "rate: decision denied"
            [denied_of(SCARCE): OurLimiter, Governor: 1.0, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet,
             ByCounter, ByInstant];
        alone "rate: acquire ready" [ready_of(PLENTY): OurLimiter, Governor, LeakyBucket, ThrottleNet, SharedRateLimit];
        // The handle of a service or a task, beside a reference.
        alone "rate: tried as a throttle, allowed" [allowed: ByArc, ByReference: 1.1];
        alone "rate: tried as a throttle, denied" [denied_of(SCARCE): ByArc, ByReference: 1.1];
        alone "even rate: decision allowed" [allowed_of(PLENTY_EVEN): OurLimiter, Governor];
        alone "even rate: acquire ready" [ready_of(PLENTY_EVEN): OurLimiter, Governor];
        alone "unlimited: decision allowed" {"tollgate" => unlimited};
    }
}

/// Measures decisions on two threads.
fn contended() -> Vec<Row> {
    rows! {
        together "two threads, rate: decision allowed"
            [allowed: OurLimiter, Governor: 1.0, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet,
             ByCounter, ByInstant];
        together "two threads, rate: decision denied"
            [denied_of(SCARCE): OurLimiter, Governor: 1.0, Ratelimiter: 0.5, LeakyBucket: 0.5, ThrottleNet,
             ByCounter, ByInstant];
    }
}

/// Measures decisions under rules other than the default: the log beside a ring under a mutex, the sliding
/// window beside the default, and all of them.
fn rules() -> Vec<Row> {
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
        allowed.contenders.push(alone(&name, plenty));
        let scarce = move || denied_by(by(algorithm, SCARCE_LOGGED));
        denied.contenders.push(alone(&name, scarce));
    }
    rows
}

/// Measures decisions from a chunk that was taken ahead, beside those of the same limiter, or of a peer, without a
/// handle. Each thread has its own handle.
///
/// `black_box` hides the handle from the compiler before each call, so its tokens are in memory, and not in a register.
/// Copying an answer takes longer than making it, so each decision is measured by reference as well.
fn local() -> Vec<Row> {
    rows! {
        alone "local(32): decision allowed" ("tollgate, local(32)" => local_allowed)
            [allowed: Governor: 0.15, OurLimiter, Ratelimiter];
        alone "local(32): decision denied" ("tollgate, local(32)" => local_denied)
            [denied_of(SCARCE): Governor, OurLimiter, Ratelimiter];
        alone "local(32): acquire ready" ("tollgate, local(32)" => local_ready)
            [ready_of(PLENTY): Governor, OurLimiter];
        together "two threads, local(32): decision allowed"
            ("tollgate, local(32)" => local_allowed)
            [allowed: Governor: 0.08, OurLimiter, Ratelimiter];
        together "two threads, local(32): decision denied" ("tollgate, local(32)" => local_denied)
            [denied_of(SCARCE): Governor, OurLimiter, Ratelimiter];
    }
}

fn window(quota: Quota) -> OurLimiter {
    by(Algorithm::SlidingWindow, quota)
}

/// Ours under an algorithm.
fn by(algorithm: Algorithm, quota: Quota) -> OurLimiter {
    OurLimiter::new(quota.burst(quota.count())).algorithm(algorithm)
}

fn exhaust<L: TryLimiter>(limiter: &L) {
    assert!(limiter.try_take().is_permit(), "the first may go");
    while limiter.try_take().is_permit() {}
}

fn unlimited() -> Shared {
    repeat!(OurLimiter::new(Quota::UNLIMITED), |limiter| {
        black_box(limiter.try_acquire()).expect("there is no limit")
    })
}

/// A decision that allows.
fn allowed<L: TryLimiter>() -> Shared {
    let limiter = L::with_quota(PLENTY);
    assert!(limiter.try_take().is_permit(), "there is plenty");
    repeat!(limiter, |limiter| {
        let answer = limiter.try_take();
        assert!(black_box(answer).is_permit(), "there is plenty");
    })
}

/// Measures a decision that allows, because tokens are plenty, with a few exceptions. Where a thread
/// is preempted in the middle of a decision, a log may count the decision at the tick at which
/// another thread needs to know.
fn allowed_of<L: TryLimiter>(quota: Quota) -> Shared {
    allowed_by(L::with_quota(quota))
}

/// The same of this limiter.
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

/// Measures a decision that refuses, because the tokens are used up.
fn denied_of<L: TryLimiter>(quota: Quota) -> Shared {
    denied_by(L::with_quota(quota))
}

/// The same of this limiter.
fn denied_by<L: TryLimiter>(limiter: L) -> Shared {
    exhaust(&limiter);
    repeat!(limiter, |limiter| {
        let answer = limiter.try_take();
        assert!(!black_box(answer).is_permit(), "it is scarce");
    })
}

/// Measures a wait that ends at its first poll, because tokens are plenty.
fn ready_of<L: WaitLimiter>(quota: Quota) -> Shared {
    let _timers = TIMERS.enter();
    let limiter = L::with_quota(quota);
    drop(block_on(limiter.take()));
    repeat_async!(limiter, |limiter| drop(black_box(limiter.take().await)))
}

/// tower's limit around a service that answers at once, alone with its owner: ready, call, answer.
fn tower_allowed() -> impl FnMut(u64) + 'static {
    let _timers = TIMERS.enter();
    let mut service = tower_rate(PLENTY);
    awaited(async move || {
        let ready = black_box(&mut service).ready().await;
        let answer = ready.expect("it never fails").call(()).await;
        answer.expect("it never fails");
    })
}

/// The number of tokens taken ahead.
const CHUNK: u64 = 32;

/// A decision that allows. The handle is made and dropped once in a batch.
fn local_allowed() -> Shared {
    let limiter = OurLimiter::with_quota(PLENTY);
    assert!(limiter.try_take().is_permit(), "there is plenty");
    Box::new(move |times| {
        let mut local = limiter.local(CHUNK);
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(answer).is_ok(), "there is plenty");
        }
    })
}

/// Measures a decision that refuses: the buffer is empty, so each call asks the limiter.
fn local_denied() -> Shared {
    let limiter = OurLimiter::with_quota(SCARCE);
    exhaust(&limiter);
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
    let mut local = OurLimiter::with_quota(PLENTY).local(CHUNK);
    move |times| {
        block_on(async {
            for _ in 0..times {
                let waited = black_box(&mut local).acquire().await;
                assert!(black_box(waited).is_ok(), "there is plenty");
            }
        });
    }
}
