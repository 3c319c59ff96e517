//! Timers that are late, and what is done while the head of the queue is due and the timer has not
//! gone off.
//!
//! Time that is moved by hand is never late by itself. Here a waker takes its time: it moves the
//! clock on while it runs, and only after it the timer can be armed for the next waiter, which is
//! overdue by then. What is done in the midst of the waker finds the queue as a busy thread leaves it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Throttle;
use tollgate::{Algorithm, Clock, ManualClock, MissedTickBehavior, Quota, RateLimiter, Waiting};

use crate::setup::{TEN, assert_due, assert_limited, at, charged, ms, now};
use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;

type Owned = Waiter<Waiting<<Arc<RateLimiter> as Throttle>::Enter>>;

/// A limiter whose whole burst has been taken.
fn spent(quota: Quota, missed: Option<MissedTickBehavior>) -> (ManualClock, Arc<RateLimiter>) {
    let clock = Clock::manual();
    let mut limiter = RateLimiter::new(quota).clock(&clock);
    if let Some(missed) = missed {
        limiter = limiter.missed_tick(missed);
    }
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (clock, Arc::new(limiter))
}

/// One that makes up for a second.
fn makes_up(quota: Quota) -> (ManualClock, Arc<RateLimiter>) {
    spent(quota, Some(MissedTickBehavior::Burst { max: 10 }))
}

fn queue(limiter: &Arc<RateLimiter>, costs: &[u64]) -> Vec<Owned> {
    let join = |cost: &u64| Waiter::parked(Arc::clone(limiter).cost_owned(*cost).acquire());
    costs.iter().map(join).collect()
}

/// A waiter whose waker takes that long, and then does this.
fn slow<R: Send + 'static>(
    clock: &ManualClock,
    limiter: &Arc<RateLimiter>,
    takes: Duration,
    then: impl FnOnce() -> R + Send + 'static,
) -> (Owned, Arc<Mutex<Option<R>>>) {
    let (then, done) = (Mutex::new(Some(then)), Arc::new(Mutex::new(None)));
    let waker = calls_when_woken({
        let (clock, done) = (clock.clone(), Arc::clone(&done));
        move || {
            clock.advance(takes);
            let then = then.lock().unwrap().take().expect("it is woken once");
            let result = then();
            *done.lock().unwrap() = Some(result);
        }
    });
    let mut waiter = Waiter::new(Arc::clone(limiter).acquire_owned());
    assert!(waiter.poll_with(&waker).is_pending());
    (waiter, done)
}

/// As [`slow`], for a waiter that is due at 100 ms. What was done is in the end.
fn busy<R: Send + 'static>(
    clock: &ManualClock,
    limiter: &Arc<RateLimiter>,
    takes: Duration,
    then: impl FnOnce() -> R + Send + 'static,
) -> impl FnOnce() -> R {
    let (mut waiter, done) = slow(clock, limiter, takes, then);
    let clock = clock.clone();
    move || {
        clock.advance(ms(100));
        assert_eq!(at(&waiter.granted()), ms(100));
        assert_eq!(now(&clock), ms(100) + takes);
        let done = done.lock().unwrap().take();
        done.expect("it was woken")
    }
}

/// One that joins while the timer for the head is late could have had a token at 300 ms, but was not
/// there before 450 ms.
#[test]
fn acquire_behind_a_late_timer_is_not_charged_before_it_came() {
    let (clock, limiter) = spent(TEN, Some(MissedTickBehavior::Burst { max: 100 }));
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(350), move || {
        Waiter::new(comes.acquire_owned()).granted()
    });
    let mut waiting = queue(&limiter, &[1]);
    assert_eq!(at(&busy()), ms(450));
    assert_eq!(at(&waiting[0].granted()), ms(200));
    assert_limited(&limiter, 1, ms(100));
}

/// Tokio's timer counts in milliseconds, so it is late for a third of a second.
#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn missed_tick_makes_up_for_a_timer_of_whole_milliseconds_or_not() {
    use crate::setup::TICK;

    let thirds = Quota::per_second(3);
    let burst = RateLimiter::new(thirds).clock(Clock::tokio());
    let delay = RateLimiter::new(thirds)
        .clock(Clock::tokio())
        .missed_tick(MissedTickBehavior::Delay);
    let mut lost = [const { Vec::new() }; 2];
    for (limiter, lost) in [burst, delay].iter().zip(&mut lost) {
        let first = limiter.try_acquire().unwrap().at();
        for n in 1..=6_u64 {
            let after = limiter
                .acquire()
                .await
                .unwrap()
                .at()
                .saturating_since(first);
            let exact = Duration::from_nanos((n * 1_000_000_000).div_ceil(3));
            // From a tick in the midst of a unit it may be one nanosecond less.
            lost.push((after + TICK).checked_sub(exact).expect("too early"));
        }
    }
    let [burst, delay] = lost;
    assert!(burst.iter().all(|lost| *lost <= TICK), "{burst:?}");
    assert!(delay.is_sorted() && delay[5] > delay[0], "{delay:?}");
    assert!(delay[0] > TICK && delay[5] <= 6 * ms(2), "{delay:?}");
}

/// At 500 ms two waiters are overdue, which are charged for 200 and 300, and two tokens are left. All
/// calls that come first find it so.
#[test]
fn calls_that_come_before_a_late_timer_find_those_granted_that_are_due() {
    type Call = fn(Arc<RateLimiter>) -> u64;
    let calls: [(&str, Call, u64); 4] = [
        (
            "try_acquire",
            |it| it.try_acquire().unwrap().at().as_nanos(),
            1,
        ),
        (
            "acquire",
            |it| Waiter::new(it.acquire_owned()).granted().at().as_nanos(),
            1,
        ),
        (
            "peek",
            |it| it.peek().at.as_nanos() + it.peek().remaining - 2,
            2,
        ),
        (
            "available",
            |it| 500_000_000 + it.snapshot().available - 2,
            2,
        ),
    ];
    for (name, call, left) in calls {
        let (clock, limiter) = makes_up(TEN.burst(3));
        let comes = Arc::clone(&limiter);
        let busy = busy(&clock, &limiter, ms(400), move || call(comes));
        let mut waiters = queue(&limiter, &[1, 1]);
        assert_eq!(busy(), 500_000_000, "{name}");
        assert_eq!(
            waiters.iter().map(Waiter::wakes).sum::<usize>(),
            2,
            "{name}"
        );
        assert_eq!(charged(&mut waiters), [ms(200), ms(300)], "{name}");
        assert_eq!(limiter.snapshot().available, left, "{name}");
    }
    // One that is refused gets the time after those that are due: at 330 ms two have gone.
    let (clock, limiter) = makes_up(TEN);
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(230), move || comes.try_acquire());
    let mut waiters = queue(&limiter, &[1; 3]);
    assert_eq!(busy().unwrap_err().retry_after(), Some(ms(170)));
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    assert_due(&clock, &mut waiters[2], ms(70));
}

/// What makes nobody due leaves those that are overdue charged when they were due: a refund of nothing,
/// and an overdue head that leaves.
#[test]
fn what_makes_nobody_due_does_not_change_when_the_overdue_are_charged() {
    type Then = fn(Arc<RateLimiter>, Option<Owned>);
    let rows: [Then; 2] = [
        |limiter, _head| limiter.refund(limiter.try_acquire_many(0).unwrap()),
        |_limiter, head| drop(head),
    ];
    for (then, leaves) in rows.into_iter().zip([false, true]) {
        let (clock, limiter) = makes_up(TEN);
        let head = Arc::new(Mutex::new(None));
        let (acts, taken) = (Arc::clone(&limiter), Arc::clone(&head));
        let busy = busy(&clock, &limiter, ms(250), move || {
            then(acts, taken.lock().unwrap().take());
        });
        if leaves {
            *head.lock().unwrap() = queue(&limiter, &[1]).pop();
        }
        let mut waiters = queue(&limiter, &[1, 1, 1]);
        busy();
        assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
        assert_due(&clock, &mut waiters[2], ms(50));
    }
}

/// Nor does a refund that gives something back change when the head was due before it.
#[test]
fn refund_when_the_head_is_overdue_leaves_it_charged_when_it_was_due() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(3, ms(300)))
        .algorithm(Algorithm::SlidingLog)
        .missed_tick(MissedTickBehavior::Burst { max: 10 })
        .clock(&clock);
    let limiter = Arc::new(limiter);
    limiter.try_acquire().unwrap();
    clock.advance(ms(150));
    limiter.try_acquire().unwrap();
    clock.advance(ms(100));
    let charge = limiter.try_acquire().unwrap();
    let refunds = Arc::clone(&limiter);
    let (mut first, _) = slow(&clock, &limiter, ms(200), move || refunds.refund(charge));
    let mut next = queue(&limiter, &[1]);
    clock.advance(ms(50));
    assert_eq!(at(&first.granted()), ms(300));
    assert_eq!(charged(&mut next), [ms(450)]);
    assert_eq!(now(&clock), ms(500));
}
