//! What one call serves of a long queue: a bounded number of waiters. The timer serves the others.
//! A snapshot is such a call, too.
//!
//! Time that is moved by hand wakes everybody who is due before it goes on. Here the calls are made
//! by a waker that it calls, so they find the queue as if the timer had not gone off yet.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Quota, QuotaChange, RateLimiter};

use crate::setup::{TICK, at, secs};
use crate::support::foreign::calls_when_woken;
use crate::support::{Waiter, ends, kind};

/// The most that one call serves.
const AT_ONCE: usize = 1024;
const MANY: usize = 12 * AT_ONCE;

/// Admits all that wait in a test at once.
const FAST: Quota = Quota::per_second(1_000_000).burst(2 * MANY as u64);

/// Calls back while the clock stands at a tick, a second from now.
fn at_a_tick(clock: &ManualClock, callback: impl FnOnce() + Send + 'static) {
    let other = RateLimiter::new(Quota::per_second(1)).clock(clock);
    other.try_acquire().unwrap();
    let callback = Mutex::new(Some(callback));
    let (sender, ended) = channel();
    let waker = calls_when_woken(move || {
        let callback = callback.lock().unwrap().take();
        callback.expect("it is woken once")();
        sender.send(()).unwrap();
    });
    let mut waiter = Waiter::new(other.acquire());
    assert!(waiter.poll_with(&waker).is_pending());
    clock.advance(secs(1));
    // A panic of a waker is caught.
    ended.try_recv().expect("the callback ran to its end");
}

fn queue(quota: Quota) -> (ManualClock, Arc<RateLimiter>, Vec<Waiter<Owned>>) {
    let clock = Clock::manual();
    let limiter = Arc::new(RateLimiter::new(quota).clock(&clock));
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    let join = |_| Waiter::parked(Arc::clone(&limiter).acquire_owned());
    let waiters = (0..MANY).map(join).collect();
    (clock, limiter, waiters)
}

type Owned = tollgate::Waiting<<Arc<RateLimiter> as tollgate::Throttle>::Enter>;

#[test]
fn set_quota_that_makes_all_due_serves_some_and_leaves_the_others_to_the_timer() {
    let (clock, limiter, mut waiters) = queue(Quota::per_hour(1));
    let shared = Arc::clone(&limiter);
    at_a_tick(&clock, move || {
        shared.set_quota_with(FAST, QuotaChange::KeepSpent);
        assert_eq!(shared.snapshot().waiting, MANY - 2 * AT_ONCE);
        // A bystander goes on with them, is not admitted before them, and is told to come again.
        let refused = shared.try_acquire().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.retry_after(), Some(TICK));
        assert_eq!(shared.snapshot().waiting, MANY - 4 * AT_ONCE);
        assert_eq!(shared.peek().retry_after, TICK);
        let mut behind = Waiter::new(shared.acquire().timeout(Duration::ZERO));
        assert_eq!(behind.refused(), ErrorKind::TimedOut);
        assert_eq!(shared.snapshot().waiting, MANY - 7 * AT_ONCE);
        let charge = shared.charge(1);
        shared.refund(charge);
        assert_eq!(shared.snapshot().waiting, MANY - 10 * AT_ONCE);
    });
    assert_eq!(limiter.snapshot().waiting, 0);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(at(&waiter.granted()), secs(1));
    }
}

#[test]
fn close_releases_some_and_leaves_the_others_to_the_timer() {
    let (clock, limiter, mut waiters) = queue(Quota::per_hour(1));
    let shared = Arc::clone(&limiter);
    at_a_tick(&clock, move || {
        shared.close();
        assert_eq!(shared.snapshot().waiting, MANY - 2 * AT_ONCE);
        assert_eq!(kind(shared.try_acquire()), ErrorKind::Closed);
        assert_eq!(shared.snapshot().waiting, MANY - 4 * AT_ONCE);
    });
    assert_eq!(limiter.snapshot().waiting, 0);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
}

#[test]
fn set_quota_below_the_costs_of_all_refuses_some_and_leaves_the_others_to_the_timer() {
    let clock = Clock::manual();
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(9)).clock(&clock));
    limiter.try_acquire_many(9).unwrap();
    let join = |cost| Waiter::parked(Arc::clone(&limiter).cost_owned(cost).acquire());
    let mut waiters: Vec<_> = (0..MANY).map(|_| join(9)).collect();
    let mut last = join(1);
    let shared = Arc::clone(&limiter);
    at_a_tick(&clock, move || {
        shared.set_quota_with(Quota::per_second(1).burst(8), QuotaChange::KeepSpent);
        assert_eq!(shared.snapshot().waiting, MANY + 1 - 2 * AT_ONCE);
        // They count for nothing already.
        let after = shared.peek_many(8).retry_after;
        assert_eq!(after, secs(9));
        assert_eq!(shared.snapshot().waiting, MANY + 1 - 4 * AT_ONCE);
    });
    assert_eq!(limiter.snapshot().waiting, 1);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::ExceedsCapacity);
    }
    clock.advance(secs(1));
    assert_eq!(at(&last.granted()), secs(2));
}

/// Nobody polls, and nobody else calls.
#[test]
fn close_on_the_system_clock_wakes_every_waiter() {
    ends(|| {
        let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)));
        limiter.try_acquire().unwrap();
        let (sender, woken) = channel();
        let mut waiters: Vec<_> = (0..MANY)
            .map(|number| {
                let sender = sender.clone();
                let waker = calls_when_woken(move || sender.send(number).unwrap());
                let mut waiter = Waiter::new(Arc::clone(&limiter).acquire_owned());
                assert!(waiter.poll_with(&waker).is_pending());
                waiter
            })
            .collect();
        limiter.close();
        let order: Vec<usize> = woken.iter().take(MANY).collect();
        assert_eq!(order.len(), MANY);
        assert_eq!(limiter.snapshot().waiting, 0);
        for waiter in &mut waiters {
            assert_eq!(waiter.refused(), ErrorKind::Closed);
        }
    });
}

/// As many as there are, at one tick: the others do not wait for the next millisecond of the timer.
#[cfg(feature = "tokio")]
#[test]
fn set_quota_on_paused_time_grants_all_before_time_passes() {
    use tokio::time::Instant;

    crate::support::paused_runtime().block_on(async {
        // Not at a whole millisecond of the timer.
        tokio::time::advance(Duration::from_micros(1500)).await;
        let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
        limiter.try_acquire().unwrap();
        let wait = |_| tokio::spawn(Arc::clone(&limiter).acquire_owned());
        let waiters: Vec<_> = (0..MANY).map(wait).collect();
        while limiter.snapshot().waiting < MANY {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        limiter.set_quota_with(FAST, QuotaChange::KeepSpent);
        for waiter in waiters {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Those far in front are not looked at one by one: their sum is known, and what has left of them
/// since counts until few are in front, or few behind.
#[test]
fn delay_behind_many_waiters_is_exact_or_counts_those_who_have_left() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    limiter.try_acquire().unwrap();
    let join = |_| Waiter::parked(limiter.acquire());
    let mut front: Vec<_> = (0..MANY).map(join).collect();
    let middle = limiter.reserve().unwrap();
    let behind: Vec<_> = (0..MANY).map(join).collect();
    let last = limiter.reserve().unwrap();
    let delays = || [&middle, &last].map(|it| it.delay());
    let many = MANY as u64;
    assert_eq!(delays(), [secs(many + 1), secs(2 * many + 2)]);
    // Of those in front every other one leaves. The last one has as many in front as there are.
    let mut stays = false;
    front.retain(|_| {
        stays = !stays;
        stays
    });
    let half = many / 2;
    assert_eq!(delays()[1], secs(half + many + 2));
    // The first thousand of those that stay are known, and they were every other one.
    assert_eq!(delays()[0], secs(many + 1 - AT_ONCE as u64 + 1));
    clock.advance(secs(half - AT_ONCE as u64));
    assert_eq!(delays()[0], secs(AT_ONCE as u64 + 1));
    // No more than all that wait.
    drop(behind);
    assert_eq!(delays(), [1, 2].map(|more| secs(AT_ONCE as u64 + more)));
}
