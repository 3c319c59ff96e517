//! Wakers are foreign code: they are called outside of the lock, and may do anything there. If they panic, all
//! others are granted and woken at their tick, and nothing is poisoned. `tests/contracts/conformance/wakers.rs`
//! checks the properties of every throttle.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use tollgate::wait::Waiting;

use tollgate::rate::{Charge, MissedTickBehavior, QuotaChange};
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, RateLimiter, Throttle};

use crate::setup::{FIFTY, TEN, assert_due, at, charged, ms, queue, spent};
use crate::support::foreign::{calls_when_woken, panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, kind};

type Wait = Waiting<<Arc<RateLimiter> as Throttle>::Enter>;

/// A limiter with nothing left, and wakers that call it back.
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

    /// Returns a callback that uses every method that takes the limiter's lock or might, and
    /// counts.
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

    fn wait(&self, cost: u64) -> Wait {
        self.limiter.clone().cost_owned(cost).acquire()
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

/// Every call that serves waiters behind a head calls their wakers outside of the lock, for 50 calls. A panic
/// there goes no further; whether the panic of its payload does is left open.
#[test]
fn waker_may_use_the_limiter_or_panic_whatever_calls_it() {
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
            (scene.limiter).set_quota_with(larger, QuotaChange::KeepSpent);
        }),
        ("the close", |scene, _, _head| scene.limiter.close()),
    ];
    for ((name, serve), what) in rows
        .into_iter()
        .flat_map(|row| [0, 1, 2].map(|what| (row, what)))
    {
        let scene = Scene::new();
        scene.clock.advance(ms(30));
        let charge = scene.limiter.charge(20);
        let head = Waiter::parked(scene.wait(50));
        let mut waiters = [(); 2].map(|()| {
            let waker = match what {
                0 => calls_when_woken(scene.callback()),
                1 => panics_when_woken(),
                _ => throws_a_bomb_when_woken(),
            };
            parked_with(scene.wait(1), &waker)
        });
        let mut behind = Waiter::parked(scene.wait(1));
        let served = catch_unwind(AssertUnwindSafe(|| serve(&scene, charge, head)));
        assert!(
            served.map_err(std::mem::forget).is_ok() || what == 2,
            "{name}"
        );
        scene.assert_calls(if what == 0 { 2 } else { 0 });
        assert_eq!(behind.wakes(), 1, "{name}");
        for waiter in waiters.iter_mut().chain([&mut behind]) {
            assert_eq!(waiter.output().is_ok(), name != "the close", "{name}");
        }
        assert_eq!(scene.limiter.snapshot().waiting, 0, "{name}");
        scene.limiter.set_quota(TEN);
        scene.limiter.close();
        assert_eq!(kind(scene.limiter.try_acquire()), ErrorKind::Closed);
    }
}

/// Its charge is given back.
#[test]
fn waker_may_drop_the_future_that_it_wakes() {
    let (clock, limiter) = spent(TEN);
    let limiter = Arc::new(limiter);
    let task: Arc<Mutex<Option<Waiter<Wait>>>> = Arc::default();
    let waker = calls_when_woken({
        let task = Arc::clone(&task);
        move || drop(task.lock().unwrap().take().expect("woken once"))
    });
    let waiter = parked_with(Arc::clone(&limiter).acquire_owned(), &waker);
    *task.lock().unwrap() = Some(waiter);
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    assert_eq!(next.wakes(), 1);
    next.granted();
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
    // A waiter that was granted a permit before the close has its charge; no waiter is stranded.
    assert!(first.output().is_ok());
    let outcomes: Vec<_> = queue
        .iter_mut()
        .map(|waiter| waiter.output().is_ok())
        .collect();
    assert!(outcomes.is_sorted_by(|before, after| before >= after));
    assert!(queue.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(limiter.snapshot().waiting, 0);
}

#[test]
fn waker_that_panics_leaves_others_of_the_same_tick_granted_and_woken() {
    let (clock, limiter) = spent(FIFTY);
    let large = Waiter::parked(limiter.acquire_many(50));
    let mut waiters: Vec<_> = (0..40)
        .map(|number| match number % 2 {
            0 => parked_with(limiter.acquire(), &panics_when_woken()),
            _ => Waiter::parked(limiter.acquire()),
        })
        .collect();
    clock.advance(ms(450));
    drop(large);
    for (number, waiter) in waiters.iter().enumerate() {
        assert_eq!(waiter.wakes(), number % 2);
    }
    assert_eq!(charged(&mut waiters), [ms(450); 40]);
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
