//! Manual time: it advances step by step, and only when a test advances it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tollgate::rate::MissedTickBehavior;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};

use crate::support::foreign::calls_when_woken;
use crate::support::{Counter, Waiter};
use crate::{SECOND, ends, millis};

/// Returns a limiter of one per `interval`, whose token is taken, so that the next is due after it.
fn limiter(clock: &ManualClock, interval: Duration) -> RateLimiter {
    let limiter = RateLimiter::new(Quota::new(1, interval)).clock(clock);
    limiter.try_acquire().unwrap();
    limiter
}

/// The woken waiters, and the ticks of their wakes.
type Log = Arc<Mutex<Vec<(usize, u64)>>>;

fn logs(log: &Log, clock: &ManualClock, name: usize) -> Waker {
    let (log, clock) = (Arc::clone(log), clock.clone());
    calls_when_woken(move || log.lock().unwrap().push((name, clock.now().as_nanos())))
}

#[test]
fn clock_begins_at_zero_and_stands_still() {
    let clock = Clock::manual();
    assert_eq!(clock.now().as_nanos(), 0);
    assert_eq!(Clock::from(&clock).now(), clock.now());
    clock.advance(Duration::ZERO);
    assert_eq!(clock.now().as_nanos(), 0);
    let clone = clock.clone();
    clone.advance(SECOND);
    assert_eq!(clock.now().as_nanos(), 1_000_000_000);
    assert_eq!(
        Clock::manual().now().as_nanos(),
        0,
        "another one is another time"
    );
}

#[test]
fn advance_steps_through_the_due_times_of_many_limiters_in_their_order() {
    let clock = Clock::manual();
    let log = Log::default();
    let limiters = [7, 3, 11, 5].map(|interval| limiter(&clock, millis(interval)));
    // Three of each, and from each limiter in turn, so that no order of joining helps.
    let mut waiters = Vec::new();
    for _ in 0..3 {
        for (name, limiter) in limiters.iter().enumerate() {
            waiters.push(Waiter::parked_with(
                limiter.acquire(),
                &logs(&log, &clock, name),
            ));
        }
    }
    clock.advance(millis(100));
    let names = [1, 3, 1, 0, 1, 3, 2, 0, 3, 0, 2, 2];
    let in_millis = [3, 5, 6, 7, 9, 10, 11, 14, 15, 21, 22, 33];
    let expected = in_millis.map(|at| at * 1_000_000);
    let woken = names.into_iter().zip(expected).collect::<Vec<_>>();
    assert_eq!(*log.lock().unwrap(), woken);
    assert_eq!(clock.now().as_nanos(), 100_000_000);
    // All collected late; each was charged at its own tick.
    let mut ticks: Vec<_> = waiters
        .iter_mut()
        .map(|waiter| waiter.granted().at().as_nanos())
        .collect();
    ticks.sort_unstable();
    assert_eq!(ticks, expected);
}

#[test]
fn advance_after_late_timers_advances_by_its_duration() {
    let clock = Clock::manual();
    let limiter = limiter(&clock, millis(100));
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance_late(millis(100), || millis(30));
    let _charge = waiter.granted();
    assert_eq!(clock.now().as_nanos(), 130_000_000);
    clock.advance(millis(10));
    assert_eq!(clock.now().as_nanos(), 140_000_000);
    // A panic counts as no lateness.
    let _parked = Waiter::parked(limiter.acquire());
    clock.advance_late(SECOND, || panic!("no lateness"));
    assert_eq!(clock.now().as_nanos(), 1_140_000_000);
}

#[test]
fn advance_wakes_at_one_tick_in_the_order_in_which_waiters_came() {
    let clock = Clock::manual();
    let log = Log::default();
    let limiters = [(); 8].map(|()| limiter(&clock, millis(10)));
    let mut waiters = Vec::new();
    for name in [5, 2, 7, 0, 1, 6, 3, 4] {
        waiters.push(Waiter::parked_with(
            limiters[name].acquire(),
            &logs(&log, &clock, name),
        ));
    }
    clock.advance(millis(10));
    let names: Vec<_> = log.lock().unwrap().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [5, 2, 7, 0, 1, 6, 3, 4]);
}

#[test]
fn advance_reaches_the_end_of_time_and_does_not_pass_it() {
    let clock = Clock::manual();
    let limiter = limiter(&clock, millis(10));
    let mut waiters = [(); 3].map(|()| Waiter::parked(limiter.acquire()));
    clock.advance(Duration::MAX);
    assert_eq!(clock.now().as_nanos(), u64::MAX);
    let ticks = waiters
        .each_mut()
        .map(|waiter| waiter.granted().at().as_nanos());
    assert_eq!(ticks, [10_000_000, 20_000_000, 30_000_000]);
    clock.advance(Duration::MAX);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(clock.now().as_nanos(), u64::MAX);
}

/// A dropped wait leaves nothing, nor does a finished one whose future still exists.
#[test]
fn wait_that_is_dropped_or_over_leaves_no_waker_behind() {
    let clock = Clock::manual();
    let limiter = limiter(&clock, SECOND);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waiters: Vec<_> = (0..100)
        .map(|number| Waiter::new(limiter.acquire().timeout(millis(200_000 + number))))
        .collect();
    for waiter in &mut waiters {
        assert!(waiter.poll_with(&waker).is_pending());
    }
    let weak = Arc::downgrade(&counter);
    drop(counter);
    assert!(weak.strong_count() > 200, "the queue and the clock know it");
    waiters.truncate(50);
    clock.advance(50 * SECOND);
    for waiter in &mut waiters {
        assert!(waiter.poll_with(&waker).is_ready());
    }
    drop(waker);
    assert_eq!(weak.strong_count(), 0);
    let mut left = Waiter::parked(limiter.acquire().timeout(Duration::MAX));
    clock.advance(SECOND);
    left.granted();
}

/// A moved timeout wakes the waker of the last poll.
#[test]
fn timeout_wakes_the_waker_that_polled_last() {
    let clock = Clock::manual();
    let semaphore = Semaphore::new(1);
    let limiter = limiter(&clock, SECOND);
    let both = all((&limiter, &semaphore));
    let _held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(both.acquire().timeout(2 * SECOND));
    clock.advance(SECOND);
    assert_eq!(waiter.wakes(), 1);
    assert!(waiter.is_pending());
    let other = Arc::new(Counter::default());
    assert!(
        waiter
            .poll_with(&Waker::from(Arc::clone(&other)))
            .is_pending()
    );
    clock.advance(SECOND);
    assert_eq!((waiter.wakes(), other.count()), (1, 1));
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
}

#[test]
fn advance_by_two_threads_reaches_the_sum_and_passes_nobody() {
    for _ in 0..50 {
        let clock = Clock::manual();
        // One thread may go past while the other one wakes: then that much is to be made up for.
        let limiter = RateLimiter::new(Quota::per_second(1000))
            .missed_tick(MissedTickBehavior::Burst { max: 100 })
            .clock(&clock);
        limiter.try_acquire().unwrap();
        let mut waiters: Vec<_> = (0..100)
            .map(|_| Waiter::parked(limiter.acquire()))
            .collect();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let before = clock.now();
                        clock.advance(millis(1));
                        assert!(clock.now().saturating_since(before) >= millis(1));
                    }
                });
            }
        });
        assert_eq!(clock.now().as_nanos(), 100_000_000);
        for (waiter, number) in waiters.iter_mut().zip(1..) {
            assert_eq!(waiter.wakes(), 1);
            assert_eq!(waiter.granted().at().as_nanos(), number * 1_000_000);
        }
    }
}

/// A waiter is queued a moment before its timer is armed; time that advances in between must not
/// strand it.
#[test]
fn advance_by_a_single_step_wakes_a_waiter_that_has_just_joined() {
    const ROUNDS: u64 = 1000;
    ends(|| {
        let clock = Clock::manual();
        let limiter = limiter(&clock, millis(1));
        let rounds = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    let charge = limiter.acquire().wait().unwrap();
                    assert_eq!(charge.at().as_nanos(), round * 1_000_000);
                    rounds.store(round, Ordering::SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                while limiter.snapshot().waiting == 0 {
                    thread::yield_now();
                }
                clock.advance(millis(1));
                // No step but this one: a stranded waiter would stay queued for ever.
                while rounds.load(Ordering::SeqCst) < round {
                    thread::yield_now();
                }
            }
        });
        assert_eq!(clock.now().as_nanos(), ROUNDS * 1_000_000);
    });
}

/// Wakers that use the clock or the limiter themselves, at the tick of their call.
mod reentrant {
    use tollgate::wait::Waiting;

    use super::*;
    use crate::support::foreign::panics_when_woken;

    fn limiter(clock: &ManualClock) -> Arc<RateLimiter> {
        Arc::new(super::limiter(clock, millis(10)))
    }

    fn advances(clock: &ManualClock, by: Duration) -> Waker {
        let clock = clock.clone();
        calls_when_woken(move || clock.advance(by))
    }

    #[test]
    fn waker_that_advances_adds_to_where_time_is_going() {
        let clock = Clock::manual();
        let limiter = limiter(&clock);
        let mut waiter = Waiter::parked_with(limiter.acquire(), &advances(&clock, millis(7)));
        clock.advance(millis(15));
        assert_eq!(clock.now().as_nanos(), 22_000_000);
        assert_eq!(waiter.granted().at().as_nanos(), 10_000_000);
    }

    /// When something other than time made the first waiter due, the next is overdue before its
    /// timer is armed.
    #[test]
    fn waker_that_advances_when_the_head_has_left_strands_nobody() {
        let clock = Clock::manual();
        let limiter = Arc::new(RateLimiter::new(Quota::per_second(100).burst(5)).clock(&clock));
        limiter.try_acquire_many(3).unwrap();
        let head = Waiter::parked(limiter.acquire_many(5));
        let mut second =
            Waiter::parked_with(limiter.acquire_many(2), &advances(&clock, millis(15)));
        let mut third = Waiter::parked(limiter.acquire());
        drop(head);
        assert_eq!(clock.now().as_nanos(), 15_000_000);
        assert_eq!(third.wakes(), 1);
        second.granted();
        third.granted();
    }

    #[test]
    fn what_a_waker_does_is_done_at_its_tick() {
        let clock = Clock::manual();
        let limiters = [limiter(&clock), limiter(&clock)];
        let seen = Arc::new(Mutex::new(Vec::new()));
        let waker = {
            let (clock, seen) = (clock.clone(), Arc::clone(&seen));
            let other = RateLimiter::new(Quota::per_second(100)).clock(&clock);
            calls_when_woken(move || {
                let charge = other.try_acquire().unwrap();
                seen.lock().unwrap().push((clock.now(), charge.at()));
            })
        };
        let _first = Waiter::parked_with(limiters[0].acquire(), &waker);
        clock.advance(millis(3));
        let mut second = Waiter::new(limiters[1].acquire_many(1));
        limiters[1].charge(1);
        assert!(second.poll_with(&waker).is_pending());
        clock.advance(millis(500));
        let seen = seen.lock().unwrap();
        let ticks: Vec<_> = seen
            .iter()
            .map(|(now, at)| (now.as_nanos(), at.as_nanos()))
            .collect();
        assert_eq!(ticks, [(10_000_000, 10_000_000), (20_000_000, 20_000_000)]);
    }

    /// It joins the queue again when it is woken, and is due one tick later, which is before the
    /// end.
    #[test]
    fn waker_that_joins_again_is_due_before_the_end_of_the_step() {
        type Rejoined =
            Mutex<Vec<Waiter<Waiting<<Arc<RateLimiter> as tollgate::Throttle>::Enter>>>>;
        let clock = Clock::manual();
        let limiter = limiter(&clock);
        let rejoined = Arc::new(Rejoined::default());
        let waker = {
            let (limiter, rejoined) = (Arc::clone(&limiter), Arc::clone(&rejoined));
            calls_when_woken(move || {
                let waiter = Waiter::parked(Arc::clone(&limiter).acquire_owned());
                rejoined.lock().unwrap().push(waiter);
            })
        };
        let mut first = Waiter::parked_with(limiter.acquire(), &waker);
        clock.advance(millis(100));
        assert_eq!(first.granted().at().as_nanos(), 10_000_000);
        let mut rejoined = rejoined.lock().unwrap();
        assert_eq!(rejoined.len(), 1);
        assert_eq!(rejoined[0].wakes(), 1);
        assert_eq!(rejoined[0].granted().at().as_nanos(), 20_000_000);
    }

    /// This holds for the waker of a waiter and for that of a timeout, which is set on the clock
    /// itself.
    #[test]
    fn waker_that_panics_delays_nobody() {
        for timeout in [Duration::MAX, millis(10)] {
            let clock = Clock::manual();
            let limiters = [limiter(&clock), limiter(&clock)];
            let mut bad =
                Waiter::parked_with(limiters[0].acquire().timeout(timeout), &panics_when_woken());
            let mut behind = Waiter::parked(limiters[0].acquire());
            let mut elsewhere = Waiter::parked(limiters[1].acquire());
            clock.advance(millis(20));
            assert_eq!(clock.now().as_nanos(), 20_000_000);
            assert_eq!((behind.wakes(), elsewhere.wakes()), (1, 1));
            let ticks = [bad.granted(), behind.granted(), elsewhere.granted()];
            let ticks = ticks.map(|charge| charge.at().as_nanos());
            assert_eq!(ticks, [10_000_000, 20_000_000, 10_000_000]);
        }
    }
}
