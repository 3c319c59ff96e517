//! Alarms that go off late.
//!
//! Time that is moved by hand is never late by itself. Here a waker takes its time: it moves the
//! clock on while it runs, and only after it the limiter can see to the next alarm, which is
//! overdue by then. That is how a busy thread makes an alarm late.

use std::sync::Arc;
use std::time::Duration;
use tollgate::Waiting;

use tollgate::rate::AcquireOwned;
use tollgate::{Clock, ManualClock, MissedTickBehavior, Quota, RateLimiter};

use super::scene::{FIFTY, TEN, TICK, assert_due, assert_limited, at, charged, ms};
use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;

struct Scene {
    clock: ManualClock,
    limiter: Arc<RateLimiter>,
}

impl Scene {
    /// A limiter of which the whole burst has been taken.
    fn new(quota: Quota, missed_tick: Option<MissedTickBehavior>) -> Self {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).clock(&clock);
        let limiter = match missed_tick {
            Some(missed_tick) => limiter.missed_tick(missed_tick),
            None => limiter,
        };
        limiter.try_acquire_many(quota.max_burst()).unwrap();
        let limiter = Arc::new(limiter);
        Self { clock, limiter }
    }

    /// Somebody whose waker takes that long.
    fn slow(&self, takes: Duration) -> Waiter<Waiting<AcquireOwned>> {
        let mut waiter = Waiter::new(Arc::clone(&self.limiter).acquire_owned());
        let clock = self.clock.clone();
        let waker = calls_when_woken(move || clock.advance(takes));
        assert!(waiter.poll_with(&waker).is_pending());
        waiter
    }

    fn line(&self, costs: &[u64]) -> Vec<Waiter<Waiting<AcquireOwned>>> {
        let costs = costs.iter();
        let join = |cost: &u64| Arc::clone(&self.limiter).acquire_many_owned(*cost);
        costs.map(|cost| Waiter::parked(join(cost))).collect()
    }
}

#[test]
fn delay_charges_whom_it_lets_go_when_it_does() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Delay));
    let mut slow = scene.slow(ms(250));
    let mut waiters = scene.line(&[1; 3]);
    scene.clock.advance(ms(100));
    // It is 350 ms now. The alarm for 200 ms went off late, and so one went, and no more.
    let wakes: Vec<_> = waiters.iter().map(Waiter::wakes).collect();
    assert_eq!(wakes, [1, 0, 0]);
    assert_eq!(at(&slow.granted()), ms(100));
    assert_eq!(at(&waiters[0].granted()), ms(350));
    assert_due(&scene.clock, &mut waiters[1], ms(100));
    assert_due(&scene.clock, &mut waiters[2], ms(100));
}

#[test]
fn burst_charges_whom_it_lets_go_when_they_were_due() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Burst { max: 5 }));
    let mut slow = scene.slow(ms(250));
    let mut waiters = scene.line(&[1; 4]);
    scene.clock.advance(ms(100));
    assert_eq!(at(&slow.granted()), ms(100));
    let wakes: Vec<_> = waiters.iter().map(Waiter::wakes).collect();
    assert_eq!(wakes, [1, 1, 0, 0]);
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    // The rate is as if nothing had been late.
    assert_due(&scene.clock, &mut waiters[2], ms(50));
    assert_due(&scene.clock, &mut waiters[3], ms(100));
}

#[test]
fn burst_makes_up_for_so_much_and_the_rest_is_lost() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Burst { max: 2 }));
    let _slow = scene.slow(ms(1040));
    let mut waiters = scene.line(&[1; 6]);
    scene.clock.advance(ms(100));
    // It is 1140 ms. Nobody is charged at a tick that is longer ago than two take.
    let ticks = charged(&mut waiters[..3]);
    assert_eq!(ticks, [ms(940), ms(1040), ms(1140)]);
    assert!(waiters[3].is_pending());
    assert_due(&scene.clock, &mut waiters[3], ms(100));
    assert_due(&scene.clock, &mut waiters[4], ms(100));
}

#[test]
fn burst_of_nothing_is_delay() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Burst { max: 0 }));
    let _slow = scene.slow(ms(250));
    let mut waiters = scene.line(&[1; 2]);
    scene.clock.advance(ms(100));
    assert_eq!(at(&waiters[0].granted()), ms(350));
    assert_due(&scene.clock, &mut waiters[1], ms(100));
}

#[test]
fn burst_counts_in_units_of_cost() {
    let scene = Scene::new(FIFTY, Some(MissedTickBehavior::Burst { max: 20 }));
    let _slow = scene.slow(ms(1000));
    let mut waiters = scene.line(&[10; 10]);
    // One at 10 ms, and then it is 1010 ms; so from 810 ms on it is made up for.
    scene.clock.advance(ms(10));
    let gone = waiters.iter().filter(|waiter| waiter.wakes() == 1).count();
    let ticks = charged(&mut waiters[..gone]);
    assert!(ticks.iter().all(|tick| *tick >= ms(810)), "{ticks:?}");
    // The burst of fifty had come back, and twenty were made up for.
    assert_eq!(gone, 7);
    assert_limited(&scene.limiter, 1, ms(300 + 10));
}

#[test]
fn by_default_a_hundredth_of_a_second_is_made_up_for() {
    let scene = Scene::new(Quota::per_second(1000), None);
    let _slow = scene.slow(ms(30));
    let mut waiters = scene.line(&[1; 20]);
    scene.clock.advance(ms(1));
    // It is 31 ms, so from 21 ms on, that of now included.
    let gone = waiters.iter().filter(|waiter| waiter.wakes() == 1).count();
    let expected: Vec<_> = (21..=31).map(ms).collect();
    assert_eq!(charged(&mut waiters[..gone]), expected);
}

#[test]
fn by_default_at_least_one_is_made_up_for() {
    let scene = Scene::new(TEN, None);
    let _slow = scene.slow(ms(480));
    let mut waiters = scene.line(&[1; 3]);
    scene.clock.advance(ms(100));
    assert_eq!(charged(&mut waiters[..2]), [ms(480), ms(580)]);
    assert_due(&scene.clock, &mut waiters[2], ms(100));
}

#[test]
fn nobody_is_charged_before_it_came() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Burst { max: 100 }));
    let limiter = Arc::clone(&scene.limiter);
    let clock = scene.clock.clone();
    let late = Arc::new(std::sync::Mutex::new(None));
    // Somebody who joins while the alarm for the one in front is late.
    let mut slow = Waiter::new(Arc::clone(&scene.limiter).acquire_owned());
    let waker = calls_when_woken({
        let late = Arc::clone(&late);
        move || {
            clock.advance(ms(350));
            let waiter = Waiter::new(Arc::clone(&limiter).acquire_owned());
            *late.lock().unwrap() = Some(waiter);
        }
    });
    assert!(slow.poll_with(&waker).is_pending());
    let mut waiting = scene.line(&[1]);
    scene.clock.advance(ms(100));
    assert_eq!(at(&waiting[0].granted()), ms(200));
    // It could have had a slot at 300 ms, but was not there before 450 ms.
    let mut late = late.lock().unwrap().take().unwrap();
    assert_eq!(at(&late.granted()), ms(450));
    assert_limited(&scene.limiter, 1, ms(100));
}

#[test]
fn nobody_is_charged_before_the_quota_that_made_it_due() {
    let scene = Scene::new(
        Quota::per_hour(1),
        Some(MissedTickBehavior::Burst { max: 100 }),
    );
    let mut waiters = scene.line(&[1; 2]);
    scene.clock.advance(ms(5000));
    // Less than one is owed still, of two.
    scene
        .limiter
        .set_quota_with(TEN.burst(2), tollgate::QuotaChange::KeepSpent);
    assert_eq!(at(&waiters[0].granted()), ms(5000));
    let owed = Duration::from_nanos((100_000_000 * 3595_u64).div_ceil(3600));
    assert_due(&scene.clock, &mut waiters[1], owed);
}

/// A refund that gives nothing back makes nobody due, so it takes nothing from those who are
/// overdue.
#[test]
fn a_refund_of_nothing_does_not_change_when_anybody_is_charged() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Burst { max: 5 }));
    let (clock, limiter) = (scene.clock.clone(), Arc::clone(&scene.limiter));
    let mut slow = Waiter::new(Arc::clone(&limiter).acquire_owned());
    let waker = calls_when_woken(move || {
        let nothing = limiter.try_acquire_many(0).unwrap();
        clock.advance(ms(250));
        limiter.refund(nothing);
    });
    assert!(slow.poll_with(&waker).is_pending());
    let mut waiters = scene.line(&[1; 3]);
    scene.clock.advance(ms(100));
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    assert_due(&scene.clock, &mut waiters[2], ms(50));
}

/// Tokio's timer counts in milliseconds, so it is late for a third of a second.
#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_timer_that_counts_in_milliseconds_is_made_up_for_or_not() {
    let thirds = Quota::per_second(3);
    let burst = RateLimiter::new(thirds).clock(Clock::tokio());
    let delay = RateLimiter::new(thirds)
        .clock(Clock::tokio())
        .missed_tick(MissedTickBehavior::Delay);
    for limiter in [&burst, &delay] {
        let first = limiter.try_acquire().unwrap().at();
        let mut after = Vec::new();
        for _ in 0..6 {
            let charge = limiter.acquire().await.unwrap();
            after.push(charge.at().saturating_since(first));
        }
        // From a tick in the midst of a unit it may be one nanosecond less.
        let exact = |n: u64| Duration::from_nanos((n * 1_000_000_000).div_ceil(3));
        let lost: Vec<_> = (1..)
            .zip(&after)
            .map(|(n, at)| (*at + TICK).checked_sub(exact(n)).expect("too early"))
            .collect();
        if std::ptr::eq(limiter, &burst) {
            assert!(lost.iter().all(|lost| *lost <= TICK), "{lost:?}");
        } else {
            assert!(lost.is_sorted() && lost[5] > lost[0], "{lost:?}");
            assert!(lost[0] > TICK && lost[5] <= 6 * ms(2), "{lost:?}");
        }
    }
}

/// Charges that are charged late, and those that are not, together keep the promise.
#[test]
fn whatever_is_late_no_more_than_the_quota_is_charged_by_the_ticks() {
    for max in [0, 1, 3, 1000] {
        let scene = Scene::new(TEN.burst(3), Some(MissedTickBehavior::Burst { max }));
        let mut slow: Vec<_> = (1..60).map(|n| scene.slow(ms(n * 37 % 500))).collect();
        let mut others = scene.line(&[2; 5]);
        // In small steps: a waker that moves the clock on also ends the step that it is called in.
        for _ in 0..40_000 {
            scene.clock.advance(ms(1));
        }
        let mut ticks = charged(&mut slow);
        assert!(ticks.is_sorted());
        for tick in charged(&mut others) {
            ticks.extend([tick; 2]);
        }
        for (first, from) in ticks.iter().enumerate() {
            for (last, to) in ticks.iter().enumerate().skip(first) {
                let most = 3 + (*to - *from + TICK).as_nanos() / ms(100).as_nanos();
                let count = last - first + 1;
                assert!(
                    count as u128 <= most,
                    "{count} in {:?}, max {max}",
                    *to - *from
                );
            }
        }
    }
}

/// Only somebody who has to wait depends on an alarm.
#[test]
fn a_call_that_need_not_wait_is_never_late() {
    let scene = Scene::new(TEN, Some(MissedTickBehavior::Delay));
    scene.clock.advance(ms(1234));
    let charge = scene.limiter.try_acquire().unwrap();
    assert_eq!(at(&charge), ms(1234));
    scene.clock.advance(ms(100));
    let charge = scene.limiter.try_acquire().unwrap();
    assert_eq!(at(&charge), ms(1334));
}
