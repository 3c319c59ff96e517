//! Late timers: tokio's paused time jumps past due ticks, and only then the timer fires.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;
use tollgate::wait::Waiting;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::rate::{Charge, MissedTickBehavior};
use tollgate::{Algorithm, Clock, Quota, RateLimiter, Throttle};

use crate::support::audit::Allowance;
use crate::support::cases::cases;
use crate::support::reference::{Answer, Reference, Setup};
use crate::support::{Waiter, paused_runtime};

/// A waker that records the tick of its wake.
#[derive(Default)]
struct Granted(Mutex<Option<u64>>);

impl Wake for Granted {
    fn wake(self: Arc<Self>) {
        let now = Clock::tokio().now().as_nanos();
        let before = self.0.lock().unwrap().replace(now);
        assert_eq!(before, None, "woken twice");
    }
}

struct Asker<'a> {
    cost: u64,
    waiter: Waiter<Waiting<<&'a RateLimiter as Throttle>::Enter>>,
    granted_at: Arc<Granted>,
}

impl<'a> Asker<'a> {
    fn new(limiter: &'a RateLimiter, cost: u64) -> Self {
        let (granted_at, mut waiter) = (Arc::default(), Waiter::new(limiter.acquire_many(cost)));
        let waker = Waker::from(Arc::clone(&granted_at));
        assert!(waiter.poll_with(&waker).is_pending());
        Self {
            cost,
            waiter,
            granted_at,
        }
    }

    /// Returns the charge, and the tick of the grant.
    fn outcome(mut self) -> (Charge, u64) {
        let granted_at = self.granted_at.0.lock().unwrap().expect("granted");
        (self.waiter.granted(), granted_at)
    }
}

/// Lets time jump, and then the due timers fire.
async fn jump(nanos: u64) {
    tokio::time::advance(Duration::from_nanos(nanos)).await;
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

fn paused<F: Future>(future: F) -> F::Output {
    paused_runtime().block_on(future)
}

fn quota() -> impl Strategy<Value = Quota> {
    (1..300_u64, 1..60_u64, 1..6_u64).prop_map(|(count, millis, burst)| {
        Quota::new(count, Duration::from_millis(millis)).burst(burst)
    })
}

fn jumps() -> impl Strategy<Value = Vec<u64>> {
    let jump = prop_oneof![
        4 => 0..3_000_000_u64,
        3 => 0..100_000_000_u64,
        1 => 0..3_000_000_000_u64,
    ];
    prop::collection::vec(jump, 1..20)
}

/// Returns the default bound on catching up: the quota's refill in 10 ms, and at least 1.
fn made_up(quota: Quota, missed: Option<MissedTickBehavior>) -> u64 {
    match missed {
        Some(MissedTickBehavior::Burst { max }) => max,
        Some(_) => 0,
        None => {
            let nanos = u64::try_from(quota.period().as_nanos()).unwrap();
            (quota.count() * 10_000_000 / nanos).max(1)
        }
    }
}

fn missed() -> impl Strategy<Value = Option<MissedTickBehavior>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(MissedTickBehavior::Delay)),
        1 => (0..40_u64).prop_map(|max| Some(MissedTickBehavior::Burst { max })),
        3 => Just(Some(MissedTickBehavior::Burst { max: u64::MAX })),
    ]
}

/// Tokio's timer counts in milliseconds, so it is late for a third of a second.
#[test]
fn missed_tick_makes_up_for_a_timer_of_whole_milliseconds_or_not() {
    let lost = |limiter: RateLimiter| {
        paused(async move {
            let first = limiter.try_acquire().unwrap().at();
            let mut lost = Vec::new();
            for exact in (1..=6).map(|n: u64| (n * 1_000_000_000).div_ceil(3)) {
                let at = limiter.acquire().await.unwrap().at();
                lost.push(at.saturating_since(first).as_nanos() as i64 - exact as i64);
            }
            lost
        })
    };
    let limiter = || RateLimiter::new(Quota::per_second(3)).clock(Clock::tokio());
    // From a tick in the midst of a unit it may be one nanosecond less.
    let made_up = lost(limiter());
    assert!(
        made_up.iter().all(|lost| (-1..=0).contains(lost)),
        "{made_up:?}"
    );
    let delayed = lost(limiter().missed_tick(MissedTickBehavior::Delay));
    assert!(delayed.is_sorted(), "{delayed:?}");
    assert!(
        0 < delayed[0] && delayed[0] < delayed[5] && delayed[5] <= 12_000_000,
        "{delayed:?}"
    );
}

proptest! {
    #![proptest_config(cases(400))]

    /// Late timers grant no more than the bound on catching up. With an unlimited bound, the ticks of the charges are
    /// the same as with punctual timers.
    #[test]
    fn late_timers_grant_no_more_than_what_is_made_up_for(
        quota in quota(),
        missed in missed(),
        jumps in jumps(),
        asked in prop::collection::vec((1..6_u64, 0..4_u8), 1..60),
        which in any::<Index>(),
    ) {
        paused(async {
            let limiter = RateLimiter::new(quota).clock(Clock::tokio());
            let limiter = match missed {
                Some(missed) => limiter.missed_tick(missed),
                None => limiter,
            };
            let is_exact = missed == Some(MissedTickBehavior::Burst { max: u64::MAX });
            // Its timers are punctual.
            let mut reference = is_exact.then(|| Reference::new(Setup {
                start: Clock::tokio().now().as_nanos(),
                ..Setup::new(Algorithm::Gcra, quota)
            }));
            let burst = quota.max_burst();
            // By the ticks of the charges, and by those of the grants.
            let (mut by_at, mut by_granted_at) = (Vec::new(), Vec::new());
            let mut queue = Vec::new();
            let mut asked = asked.into_iter();
            for nanos in jumps.into_iter().cycle() {
                for (cost, what) in asked.by_ref().take(8) {
                    let cost = cost.min(burst);
                    let tried = limiter.try_acquire_many(cost);
                    let answer = reference.as_mut().map(|it| it.acquire(cost));
                    if let Some(answer) = answer {
                        let charged = matches!(answer, Answer::Charged(_));
                        prop_assert_eq!(tried.is_ok(), charged);
                    }
                    match tried {
                        Ok(charge) => {
                            let at = charge.at().as_nanos();
                            by_at.push((at, cost));
                            by_granted_at.push((at, cost));
                        }
                        Err(_) => queue.push((answer, Asker::new(&limiter, cost))),
                    }
                    // Some waiters behind move up, and some charges before are refunded.
                    if what == 0 && !queue.is_empty() {
                        let (answer, asker) = queue.remove(which.index(queue.len()));
                        drop(asker);
                        if let (Some(reference), Some(Answer::Waits(name))) = (&mut reference, answer) {
                            reference.leave(name);
                        }
                    }
                }
                if limiter.snapshot().waiting == 0 && asked.len() == 0 {
                    break;
                }
                if let Some(reference) = &mut reference {
                    reference.advance(nanos + 1);
                }
                jump(nanos + 1).await;
            }
            let mut last = 0;
            for (answer, asker) in queue {
                let cost = asker.cost;
                let (charge, granted_at) = asker.outcome();
                let at = charge.at().as_nanos();
                prop_assert!(last <= at && at <= granted_at);
                if missed == Some(MissedTickBehavior::Delay) {
                    prop_assert_eq!(at, granted_at);
                }
                if let (Some(reference), Some(Answer::Waits(name))) = (&reference, answer) {
                    let is_as_due = match reference.answer(name) {
                        Answer::Charged(charged) => charged.at == at,
                        _ => false,
                    };
                    prop_assert!(is_as_due);
                }
                last = at;
                by_at.push((at, cost));
                by_granted_at.push((granted_at, cost));
            }
            let allowed = |more: u64| Allowance::of(quota.burst(burst.saturating_add(more)));
            prop_assert_eq!(allowed(0).audit(&by_at), Ok(()));
            let more = made_up(quota, missed).min(1 << 20);
            prop_assert_eq!(allowed(more).audit(&by_granted_at), Ok(()));
            Ok(())
        })?;
    }
}
