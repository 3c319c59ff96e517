//! Wakers are foreign code: they are called and dropped outside of the lock, and may do there what
//! they like. If they panic, all others are granted and woken at their tick, and nothing is poisoned.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tollgate::Waiting;

use tollgate::Throttle;
use tollgate::{Charge, Clock, ErrorKind, ManualClock, MissedTickBehavior, RateLimiter};

use crate::setup::{FIFTY, TEN, assert_due, assert_limited, at, charged, ms, queue, spent};
use crate::support::foreign::{
    calls_when_dropped, calls_when_woken, panics_when_woken, throws_a_bomb_when_woken,
};
use crate::support::{Waiter, kind, poll_once};

type Wait = Waiting<<Arc<RateLimiter> as Throttle>::Enter>;

/// A limiter that has nothing left, and wakers that call it back.
struct Scene {
    clock: ManualClock,
    limiter: Arc<RateLimiter>,
    calls: Arc<AtomicUsize>,
}

impl Scene {
    fn new() -> Self {
        let (clock, limiter) = spent(FIFTY);
        Self {
            clock,
            limiter: Arc::new(limiter),
            calls: Arc::default(),
        }
    }

    /// Uses every entrance of the limiter that takes its lock or might, and counts.
    fn callback(&self) -> impl Fn() + Send + Sync + 'static {
        let (clock, limiter) = (self.clock.clone(), Arc::clone(&self.limiter));
        let calls = Arc::clone(&self.calls);
        move || {
            if let Ok(charge) = limiter.try_acquire() {
                limiter.refund(charge);
            }
            drop(limiter.reserve());
            drop(Waiter::new(limiter.acquire()).poll());
            let charge = limiter.charge(1);
            limiter.settle(charge, 0);
            limiter.set_quota(limiter.quota());
            let seen = (limiter.snapshot(), limiter.snapshot().waiting, clock.now());
            assert!(!format!("{limiter:?} {seen:?}").is_empty());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A waiter whose waker calls back when it is woken.
    fn heard(&self, cost: u64) -> Waiter<Wait> {
        let waker = calls_when_woken(self.callback());
        parked_with(self.limiter.clone().cost_owned(cost).acquire(), &waker)
    }

    /// A waiter that has the only clone of a waker, which calls back when it is dropped.
    fn mourned(&self, cost: u64) -> Waiter<Wait> {
        let waker = calls_when_dropped(self.callback());
        parked_with(self.limiter.clone().cost_owned(cost).acquire(), &waker)
    }

    #[track_caller]
    fn assert_calls(&self, expected: usize) {
        assert_eq!(self.calls.load(Ordering::SeqCst), expected);
    }
}

fn parked_with<F: Future>(future: F, waker: &Waker) -> Waiter<F> {
    let mut waiter = Waiter::new(future);
    assert!(waiter.poll_with(waker).is_pending());
    waiter
}

/// Whatever serves two waiters behind a head for 50 calls their wakers outside of the lock.
#[test]
fn wakers_are_called_outside_of_the_lock() {
    type Head = Waiter<Wait>;
    type Serve = fn(&Scene, Charge, Head);
    let rows: [(&str, Serve); 5] = [
        ("the timer", |scene, _, _head| scene.clock.advance(ms(720))),
        ("a refund", |scene, charge, head| {
            drop(head);
            scene.assert_calls(0);
            scene.limiter.refund(charge);
        }),
        ("a head that leaves", |scene, _, head| {
            scene.clock.advance(ms(300));
            scene.assert_calls(0);
            drop(head);
        }),
        ("another quota", |scene, _, head| {
            drop(head);
            scene.assert_calls(0);
            let larger = FIFTY.burst(100);
            let how = tollgate::QuotaChange::KeepSpent;
            scene.limiter.set_quota_with(larger, how);
        }),
        ("the close", |scene, _, _head| scene.limiter.close()),
    ];
    for (name, serve) in rows {
        let scene = Scene::new();
        scene.clock.advance(ms(20));
        let charge = scene.limiter.charge(20);
        let head = Waiter::parked(Arc::clone(&scene.limiter).cost_owned(50).acquire());
        let waiters = [1, 1].map(|cost| scene.heard(cost));
        serve(&scene, charge, head);
        assert_eq!(scene.calls.load(Ordering::SeqCst), 2, "{name}");
        for mut waiter in waiters {
            assert_eq!(waiter.output().is_ok(), name != "the close", "{name}");
        }
        assert_eq!(scene.limiter.snapshot().waiting, 0, "{name}");
    }
}

#[test]
fn wakers_are_dropped_outside_of_the_lock() {
    let scene = Scene::new();
    let head = scene.mourned(1);
    let middle = scene.mourned(1);
    let mut displaced = scene.mourned(1);
    let mut served = scene.mourned(1);
    drop(middle);
    scene.assert_calls(1);
    drop(head);
    scene.assert_calls(2);
    assert!(displaced.is_pending());
    scene.assert_calls(3);
    drop(displaced);
    scene.clock.advance(ms(10));
    scene.assert_calls(4);
    served.granted();
}

/// As an executor does that runs a task on the spot when it is woken; or the future is dropped from
/// inside of the wake, and its charge given back.
#[test]
fn waker_may_poll_or_drop_the_future_that_it_wakes() {
    for polls in [true, false] {
        let (clock, limiter) = spent(TEN);
        let limiter = Arc::new(limiter);
        let task: Arc<Mutex<Option<Wait>>> = Arc::default();
        let charge: Arc<Mutex<Option<Charge>>> = Arc::default();
        let waker = calls_when_woken({
            let (task, charge) = (Arc::clone(&task), Arc::clone(&charge));
            move || {
                let mut future = task.lock().unwrap().take().expect("woken once");
                if polls {
                    match poll_once(&mut future) {
                        Poll::Ready(granted) => *charge.lock().unwrap() = granted.ok(),
                        Poll::Pending => panic!("woken for nothing"),
                    }
                }
            }
        });
        let mut future = Arc::clone(&limiter).acquire_owned();
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        *task.lock().unwrap() = Some(future);
        let mut next = Waiter::parked(limiter.acquire());
        clock.advance(ms(100));
        let charge = charge.lock().unwrap().take().map(|charge| at(&charge));
        assert_eq!(charge, polls.then_some(ms(100)));
        assert_eq!(next.wakes(), usize::from(!polls));
        clock.advance(ms(100));
        next.granted();
    }
}

#[test]
fn waker_may_close_the_limiter_in_the_midst_of_a_batch() {
    let (clock, limiter) = spent(FIFTY);
    let limiter = Arc::new(limiter);
    let large = Waiter::parked(limiter.acquire_many(50));
    let waker = calls_when_woken({
        let limiter = Arc::clone(&limiter);
        move || limiter.close()
    });
    let mut first = parked_with(limiter.acquire(), &waker);
    let mut queue: Vec<_> = (0..39).map(|_| Waiter::parked(limiter.acquire())).collect();
    clock.advance(ms(400));
    drop(large);
    // A waiter that was granted before the close has its charge; none is left waiting.
    assert!(first.output().is_ok());
    let outcomes: Vec<_> = queue
        .iter_mut()
        .map(|waiter| waiter.output().is_ok())
        .collect();
    assert!(outcomes.is_sorted_by(|before, after| before >= after));
    assert!(queue.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(limiter.snapshot().waiting, 0);
}

/// One after the other, and forty at one tick: which wakers of them panic.
#[test]
fn waker_that_panics_leaves_the_others_granted_and_woken() {
    for (count, each, at_once) in [(30, 3, false), (40, 2, true)] {
        let (clock, limiter) = spent(FIFTY);
        let large = Waiter::parked(limiter.acquire_many(50));
        let mut waiters: Vec<_> = (0..count)
            .map(|name| {
                let mut waiter = Waiter::new(limiter.acquire());
                match name % each {
                    0 => assert!(waiter.poll_with(&panics_when_woken()).is_pending()),
                    _ => assert!(waiter.is_pending()),
                }
                waiter
            })
            .collect();
        let ticks: Vec<_> = if at_once {
            clock.advance(ms(450));
            drop(large);
            vec![ms(450); count]
        } else {
            drop(large);
            clock.advance(ms(3000));
            (1..=count as u64).map(|n| ms(10 * n)).collect()
        };
        for (name, waiter) in waiters.iter().enumerate() {
            assert_eq!(waiter.wakes(), usize::from(name % each != 0));
        }
        assert_eq!(charged(&mut waiters), ticks);
    }
}

/// Not out of the timer, a refund, a head that leaves, another quota, or the close.
#[test]
fn panic_of_a_waker_goes_no_further() {
    let (clock, limiter) = spent(TEN);
    let panicking = || {
        let mut waiter = Waiter::new(limiter.acquire());
        assert!(waiter.poll_with(&panics_when_woken()).is_pending());
        waiter
    };
    let mut first = panicking();
    clock.advance(ms(100));
    let charge = first.granted();
    let mut second = panicking();
    limiter.refund(charge);
    second.granted();
    let head = Waiter::parked(limiter.acquire());
    let mut third = panicking();
    clock.advance(ms(150));
    drop(head);
    third.granted();
    let mut fourth = panicking();
    limiter.set_quota_with(TEN.burst(2), tollgate::QuotaChange::KeepSpent);
    fourth.granted();
    limiter.charge(1);
    let mut fifth = panicking();
    limiter.close();
    assert_eq!(fifth.refused(), ErrorKind::Closed);
}

#[test]
fn panic_of_a_waker_and_of_its_payload_poisons_nothing() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::new(limiter.acquire());
    assert!(waiter.poll_with(&throws_a_bomb_when_woken()).is_pending());
    let mut next = Waiter::parked(limiter.acquire());
    // Whether the panic of its payload goes further is left open.
    let advance = std::panic::AssertUnwindSafe(|| clock.advance(ms(100)));
    let _ = std::panic::catch_unwind(advance).map_err(std::mem::forget);
    assert_eq!(at(&waiter.granted()), ms(100));
    assert_due(&clock, &mut next, ms(100));
    assert_limited(&limiter, 1, ms(100));
    let mut waiters = queue(&limiter, &[1, 1]);
    assert_eq!(limiter.snapshot().waiting, 2);
    limiter.set_quota(FIFTY);
    limiter.close();
    assert_eq!(waiters[0].refused(), ErrorKind::Closed);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

/// An overdue head that leaves does not change when those behind it are charged.
#[test]
fn overdue_head_that_leaves_in_a_waker_leaves_the_others_charged_when_they_were_due() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN)
        .missed_tick(MissedTickBehavior::Burst { max: 10 })
        .clock(&clock);
    let limiter = Arc::new(limiter);
    limiter.try_acquire().unwrap();
    let head: Arc<Mutex<Option<Waiter<Wait>>>> = Arc::default();
    let waker = calls_when_woken({
        let (clock, head) = (clock.clone(), Arc::clone(&head));
        move || {
            clock.advance(ms(250));
            drop(head.lock().unwrap().take());
        }
    });
    let mut first = parked_with(Arc::clone(&limiter).acquire_owned(), &waker);
    *head.lock().unwrap() = Some(Waiter::parked(Arc::clone(&limiter).acquire_owned()));
    let mut waiters = queue(&limiter, &[1; 3]);
    clock.advance(ms(100));
    assert_eq!(at(&first.granted()), ms(100));
    assert!(head.lock().unwrap().is_none());
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    assert_due(&clock, &mut waiters[2], ms(50));
}
