//! The rate limiter with two or three threads, under every interleaving within the bound of
//! [`model`], on a manual clock.
//!
//! Time moves only where a model moves it, so each can say exactly what must be admitted by then.
//! Each waiter counts its wakes: a waiter that is due must have been woken, or have found out by
//! itself.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

mod follow;
mod holds;
mod local;
mod pauses;
mod quota_changes;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use tollgate::Throttle;
use tollgate::{AcquireError, Charge, Clock, ErrorKind, ManualClock, Quota, RateLimiter};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    model_with(3, run);
}

fn model_with(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(run);
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A limiter of so many a second on a clock of its own, at a tick that is not zero.
fn limiter(quota: Quota) -> (Arc<RateLimiter>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(Duration::from_secs(100));
    let limiter = Arc::new(RateLimiter::new(quota).clock(&clock));
    // Its state is made at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(limiter.snapshot().waiting, 0);
    (limiter, clock)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Somebody who waits.
struct Waiter {
    future: tollgate::Waiting<<Arc<RateLimiter> as Throttle>::Enter>,
    wakes: Arc<Wakes>,
    waits: bool,
}

impl Waiter {
    fn new(limiter: &Arc<RateLimiter>, cost: u64) -> Self {
        Self {
            future: Arc::clone(limiter).cost_owned(cost).acquire(),
            wakes: Arc::default(),
            waits: false,
        }
    }

    fn poll(&mut self) -> Poll<Result<Charge, AcquireError>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let polled = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker));
        self.waits = polled.is_pending();
        polled
    }

    /// Joins the queue, for one that must wait.
    fn queued(mut self) -> Self {
        assert!(self.poll().is_pending());
        self
    }

    /// What it came to by now: it has been woken, if it had to wait.
    fn output(mut self) -> Result<Charge, AcquireError> {
        assert!(self.wakes.0.load(Ordering::SeqCst) > 0, "not woken");
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("woken for nothing"),
        }
    }
}

/// Waits in a thread, as far as it gets.
fn join(limiter: &Arc<RateLimiter>, cost: u64) -> thread::JoinHandle<Result<Charge, Waiter>> {
    let mut waiter = Waiter::new(limiter, cost);
    thread::spawn(move || match waiter.poll() {
        Poll::Ready(charge) => Ok(charge.unwrap()),
        Poll::Pending => Err(waiter),
    })
}

fn charge_of(joined: Result<Charge, Waiter>) -> Charge {
    joined.or_else(Waiter::output).unwrap()
}

/// There is room for every try at every moment. A tick that is older than the word would miss what has
/// been paid off meanwhile.
#[test]
fn a_try_beside_passing_time_is_admitted_if_there_is_always_room() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire())
        };
        // Before the time passes, so that loom knows that it matters which of the two is first.
        limiter.try_acquire().unwrap();
        clock.advance(SECOND);
        limiter.try_acquire().unwrap();
        let other = other.join().unwrap();
        assert!(other.is_ok(), "{other:?}");
    });
}

#[test]
fn of_two_tries_and_one_slot_one_is_admitted() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_second(1));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        let mine = limiter.try_acquire().is_ok();
        assert!(mine != other.join().unwrap());
        assert_eq!(limiter.peek().retry_after, SECOND);
    });
}

#[test]
fn a_try_and_a_joiner_share_what_there_is() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        let joiner = join(&limiter, 1);
        let tried = limiter.try_acquire().is_ok();
        let joined = joiner.join().unwrap();
        assert!(tried != joined.is_ok());
        clock.advance(SECOND);
        let charge = charge_of(joined);
        assert_eq!(
            charge.at().as_nanos(),
            if tried { 101 } else { 100 } * 1_000_000_000
        );
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

#[test]
fn a_deadline_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let first = Waiter::new(&limiter, 1).queued();
        let joiner = join(&limiter, 1);
        clock.advance(SECOND);
        let joined = joiner.join().unwrap();
        clock.advance(SECOND);
        assert_eq!(first.output().unwrap().at().as_nanos(), 101_000_000_000);
        assert_eq!(charge_of(joined).at().as_nanos(), 102_000_000_000);
    });
}

#[test]
fn a_deadline_and_the_first_joiner_do_not_miss_each_other() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let joiner = join(&limiter, 1);
        clock.advance(SECOND);
        let joined = joiner.join().unwrap();
        // If it joined after that, it took at once.
        charge_of(joined);
        assert_eq!(limiter.snapshot().waiting, 0);
        assert_eq!(limiter.peek().retry_after, SECOND);
    });
}

#[test]
fn a_refund_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        let charge = limiter.try_acquire().unwrap();
        let joiner = join(&limiter, 1);
        limiter.refund(charge);
        // No time has passed.
        charge_of(joiner.join().unwrap());
        assert_eq!(limiter.peek().retry_after, HOUR);
    });
}

#[test]
fn a_refund_and_a_try_lose_nothing() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1).burst(2));
        let charge = limiter.try_acquire().unwrap();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().unwrap())
        };
        limiter.refund(charge);
        let other = other.join().unwrap();
        assert_eq!(limiter.snapshot().available, 1);
        limiter.refund(other);
        assert_eq!(limiter.snapshot().available, 2);
    });
}

/// The backlog is the same number again when as much was taken as was given back, but what was given
/// back before is not.
#[test]
fn a_take_beside_a_refund_can_be_given_back_in_full() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1).burst(3));
        let first = limiter.try_acquire().unwrap();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().unwrap())
        };
        limiter.refund(first);
        let mine = limiter.try_acquire().unwrap();
        limiter.refund(other.join().unwrap());
        limiter.refund(mine);
        assert_eq!(limiter.snapshot().available, 3);
    });
}

/// Where a charge ends, and from when on that can be told, are two numbers.
#[test]
fn a_try_beside_the_same_quota_again_gives_back_no_more_than_it_took() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(4));
        let first = limiter.try_acquire_many(2).unwrap();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().unwrap())
        };
        limiter.refund(first);
        limiter.set_quota(Quota::new(60, 60 * SECOND).burst(4));
        let other = other.join().unwrap();
        clock.advance(SECOND);
        limiter.try_acquire_many(2).unwrap();
        // By now it is paid off.
        limiter.refund(other);
        assert_eq!(limiter.snapshot().available, 2);
    });
}

#[test]
fn a_head_that_leaves_lets_the_next_go_whenever_the_deadline_comes() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(10));
        limiter.try_acquire_many(10).unwrap();
        let large = Waiter::new(&limiter, 10).queued();
        let small = Waiter::new(&limiter, 1).queued();
        let leaves = thread::spawn(move || drop(large));
        clock.advance(SECOND);
        leaves.join().unwrap();
        small.output().unwrap();
        assert_eq!(limiter.snapshot().waiting, 0);
        assert_eq!(limiter.snapshot().available, 0);
    });
}

#[test]
fn a_granted_waiter_that_leaves_gives_back_what_it_was_granted() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let waiter = Waiter::new(&limiter, 1).queued();
        let leaves = thread::spawn(move || drop(waiter));
        clock.advance(SECOND);
        leaves.join().unwrap();
        assert_eq!(limiter.peek().retry_after, Duration::ZERO);
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

#[test]
fn a_close_reaches_everybody() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let first = Waiter::new(&limiter, 1).queued();
        let mut second = Waiter::new(&limiter, 1);
        let joiner = thread::spawn(move || match second.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => {
                while second.wakes.0.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                second.output()
            }
        });
        limiter.close();
        let kind = |output: Result<Charge, AcquireError>| output.unwrap_err().kind();
        assert_eq!(kind(first.output()), ErrorKind::Closed);
        assert_eq!(kind(joiner.join().unwrap()), ErrorKind::Closed);
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
    });
}

#[test]
fn a_reservation_that_is_dropped_as_its_turn_comes_leaves_nothing() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let reservation = limiter.reserve().unwrap();
        let next = Waiter::new(&limiter, 1).queued();
        let other = thread::spawn(move || drop(reservation));
        clock.advance(SECOND);
        other.join().unwrap();
        // It was next in the queue, or got what was given back.
        next.output().unwrap();
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

/// Time passes beside a refund or a dropped reservation, and others decide: what time has paid off
/// meanwhile is not given back. With a burst so large that the limiter has no reason to doubt its
/// clock.
#[test]
fn refund_beside_passing_time_gives_back_only_what_is_owed() {
    for reserved in [false, true] {
        model(move || {
            let (limiter, clock) = limiter(Quota::per_second(1).burst(4));
            let reservation = reserved.then(|| limiter.reserve_many(2).unwrap());
            let charge = (!reserved).then(|| limiter.try_acquire_many(2).unwrap());
            let other = {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || {
                    clock.advance(2 * SECOND);
                    // The first two are paid off, or were given back.
                    limiter.try_acquire_many(2).unwrap();
                    clock
                })
            };
            drop(reservation);
            charge.into_iter().for_each(|charge| limiter.refund(charge));
            let _clock = other.join().unwrap();
            assert_eq!(limiter.snapshot().available, 2);
        });
    }
}

/// The same for a waiter that was granted and leaves, and a reservation that is dropped.
#[test]
fn leaving_beside_passing_time_gives_back_only_what_is_owed() {
    for reserved in [false, true] {
        model(move || {
            let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
            limiter.try_acquire_many(2).unwrap();
            let waiter = (!reserved).then(|| Waiter::new(&limiter, 2).queued());
            let reservation = reserved.then(|| limiter.reserve_many(2).unwrap());
            clock.advance(2 * SECOND);
            let other = {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || {
                    clock.advance(2 * SECOND);
                    limiter.try_acquire_many(2).is_ok()
                })
            };
            drop((waiter, reservation));
            assert!(other.join().unwrap());
            assert_eq!(limiter.snapshot().available, 0);
        });
    }
}

/// A waiter whose waker is exchanged just as it is granted: the old one may have been called, so it
/// has to look again.
#[test]
fn poll_with_another_waker_beside_the_deadline_finds_the_grant() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let mut waiter = Waiter::new(&limiter, 1).queued();
        let timer = thread::spawn(move || clock.advance(SECOND));
        // As when a future is moved to another task.
        waiter.wakes = Arc::default();
        let polled = waiter.poll();
        timer.join().unwrap();
        match polled {
            Poll::Ready(charge) => drop(charge.unwrap()),
            Poll::Pending => drop(waiter.output().unwrap()),
        }
    });
}
