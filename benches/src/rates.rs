//! Decisions of rate limiters: one that is always allowed, and one that is always refused.
//!
//! Every answer goes through `black_box` as the crate gives it, as everywhere in these benchmarks. That
//! copies it, and to read in one piece what was just written in several takes some 2 ns of an answer
//! of ours and 5 of governor's. So there is each decision *by reference* as well: the answer stays
//! where the crate puts it, and is only looked at.
//!
//! What is allowed is asked of a quota
//! that refills faster than anybody can ask: so a limiter that looks at the clock only now and then
//! has what it needs until it looks again. Everybody has decided once before: a process's first
//! decision may have to calibrate its clock, for milliseconds.

use std::hint::black_box;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::executor::block_on;
use tokio::runtime::{Builder, Runtime};
use tower::{Service, ServiceExt};

use crate::floor::{DecisionFloor, Reading};
use crate::peer::{Answer, Rate, TryLimiter, WaitLimiter, tower_rate};

/// Never exhausted: a burst of a second, and a refill faster than any decision. A token is not a whole
/// number of nanoseconds, which is the longer path of a `RateLimiter`.
pub const PLENTY: Rate = Rate::per_second(900_000_000, 1_000_000_000);

/// The same, where a token is a whole number of nanoseconds.
pub const PLENTY_EVEN: Rate = Rate::per_second(1_000_000_000, 1_000_000_000);

/// Exhausted by the first, for an hour.
pub const SCARCE: Rate = Rate {
    count: 1,
    period: Duration::from_secs(60 * 60),
    burst: 1,
};

/// What tokio's timers need to be made and to be polled. Nothing runs on it.
static TIMERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without threads")
});

/// A limiter whose whole burst has been taken.
///
/// # Panics
///
/// When it does not have one to give.
pub fn exhausted<L: TryLimiter>() -> L {
    exhausted_of(SCARCE)
}

/// A limiter of such a rate whose whole burst has been taken.
fn exhausted_of<L: TryLimiter>(rate: Rate) -> L {
    let limiter = L::with_rate(rate);
    exhaust(&limiter);
    limiter
}

fn exhaust<L: TryLimiter>(limiter: &L) {
    assert!(limiter.try_take().is_permit(), "the first may go");
    while limiter.try_take().is_permit() {}
}

/// A decision that allows.
pub fn allowed<L: TryLimiter>() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = L::with_rate(PLENTY);
    assert!(limiter.try_take().is_permit(), "there is plenty");
    move |times| {
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            assert!(black_box(answer).is_permit(), "there is plenty");
        }
    }
}

/// A decision that refuses.
pub fn denied<L: TryLimiter>() -> impl Fn(u64) + Send + Sync + 'static {
    denied_of::<L>(SCARCE)
}

/// A decision that allows, as there is plenty of this; but for a few. Where a thread is put aside in
/// the middle of a decision, a log may count it as of the moment at which somebody else needs to
/// know.
pub fn allowed_of<L: TryLimiter>(rate: Rate) -> impl Fn(u64) + Send + Sync + 'static {
    allowed_by(L::with_rate(rate))
}

/// The same of this limiter.
pub fn allowed_by<L: TryLimiter>(limiter: L) -> impl Fn(u64) + Send + Sync + 'static {
    assert!(limiter.try_take().is_permit(), "there is plenty");
    move |times| {
        let mut refused = 0;
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            refused += u64::from(!black_box(answer).is_permit());
        }
        assert!(refused <= 1_000 + times / 20, "there is plenty: {refused}");
    }
}

/// A decision that refuses, as this is used up.
pub fn denied_of<L: TryLimiter>(rate: Rate) -> impl Fn(u64) + Send + Sync + 'static {
    denied_by(L::with_rate(rate))
}

/// The same of this limiter.
pub fn denied_by<L: TryLimiter>(limiter: L) -> impl Fn(u64) + Send + Sync + 'static {
    exhaust(&limiter);
    move |times| {
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            assert!(!black_box(answer).is_permit(), "it is scarce");
        }
    }
}

/// A decision that allows, and whose answer stays in its place.
pub fn allowed_by_reference<L: TryLimiter>() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = L::with_rate(PLENTY);
    assert!(limiter.try_take().is_permit(), "there is plenty");
    move |times| {
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            assert!(black_box(&answer).is_permit(), "there is plenty");
        }
    }
}

/// A decision that refuses, and whose answer stays in its place.
pub fn denied_by_reference<L: TryLimiter>() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = exhausted::<L>();
    move |times| {
        for _ in 0..times {
            let answer = black_box(&limiter).try_take();
            assert!(!black_box(&answer).is_permit(), "it is scarce");
        }
    }
}

/// A wait that ends when it is first polled.
pub fn ready<L: WaitLimiter>() -> impl FnMut(u64) + 'static {
    ready_of::<L>(PLENTY)
}

/// A wait that ends when it is first polled, as there is plenty of this.
pub fn ready_of<L: WaitLimiter>(rate: Rate) -> impl FnMut(u64) + 'static {
    let _timers = TIMERS.enter();
    let limiter = L::with_rate(rate);
    drop(block_on(limiter.take()));
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&limiter).take().await));
            }
        });
    }
}

/// The floor of a decision that allows.
pub fn allowed_floor<C: Reading>() -> impl Fn(u64) + Send + Sync + 'static {
    let floor = DecisionFloor::<C>::allowing();
    move |times| {
        for _ in 0..times {
            assert!(black_box(black_box(&floor).decide()), "it allows");
        }
    }
}

/// The floor of a decision that refuses.
pub fn denied_floor<C: Reading>() -> impl Fn(u64) + Send + Sync + 'static {
    let floor = DecisionFloor::<C>::refusing();
    move |times| {
        for _ in 0..times {
            assert!(!black_box(black_box(&floor).decide()), "it refuses");
        }
    }
}

/// tower's limit around a service that answers at once, alone with its owner: ready, call, answer.
pub fn tower_allowed() -> impl FnMut(u64) + 'static {
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

/// tower's limit, asked whether it is ready while it is not. That polls its timer, since it refuses
/// nobody.
pub fn tower_denied() -> impl FnMut(u64) + 'static {
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
