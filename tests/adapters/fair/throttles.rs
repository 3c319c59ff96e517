//! Effects of throttles on a queue: they wake inside their poll, refuse, panic and close, and some
//! wake under their locks.

use std::any::Any;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tollgate::fair::{Class, ClassHandle, FairQueue, Share};
use tollgate::throttle::{Adaptive, BoxThrottle, Feedback, Polling, Weighted};
use tollgate::wait::Waiting;
use tollgate::{
    AcquireError, ChannelSemaphore, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle,
    TryThrottle, all,
};
use tollgate_adaptive::{AdaptiveSemaphore, Gradient, Shared};
use tollgate_observe::Observed;

use crate::support::Waiter;
use crate::support::foreign::panic_message;
use crate::support::scripted::{Log, Script};

type Enter = Pin<Box<dyn Future<Output = Result<u32, AcquireError>> + Send>>;

type Poller = dyn Fn(&Waker, usize) -> Poll<Result<u32, AcquireError>> + Send + Sync;

/// A throttle that calls a function at each poll.
#[derive(Clone)]
struct Polled(Arc<Poller>, Arc<AtomicUsize>);

impl Polled {
    fn new(
        poll: impl Fn(&Waker, usize) -> Poll<Result<u32, AcquireError>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(poll), Arc::default())
    }
}

impl Throttle for Polled {
    type Permit = u32;
    type Enter = Enter;

    fn enter(&self) -> Waiting<Enter> {
        let Self(poll, polls) = self.clone();
        Waiting::new(Box::pin(poll_fn(move |context| {
            poll(context.waker(), polls.fetch_add(1, Ordering::SeqCst))
        })))
    }
}

#[test]
fn acquire_of_a_throttle_that_wakes_inside_its_poll_polls_again() {
    let queue = FairQueue::new(Polled::new(|waker, poll| {
        waker.wake_by_ref();
        match poll % 4 {
            3 => Poll::Ready(Ok(7)),
            _ => Poll::Pending,
        }
    }));
    let permits = [1, 2, 1].map(|key| Waiter::new(queue.class(key).acquire()).granted());
    assert_eq!(permits.map(|permit| *permit), [7; 3]);
}

/// Polling it until it no longer wakes would keep the thread from the event that it waits for.
#[test]
fn acquire_of_a_throttle_that_wakes_inside_each_poll_yields() {
    let is_open = Arc::new(AtomicUsize::new(0));
    let opens = Arc::clone(&is_open);
    let queue = FairQueue::new(Polled::new(move |waker, _| {
        waker.wake_by_ref();
        match opens.load(Ordering::SeqCst) {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(7)),
        }
    }));
    let mut first = Waiter::parked(queue.class(1).acquire());
    assert_eq!(first.wakes(), 1);
    let mut second = Waiter::parked(queue.class(2).acquire());
    assert!(first.is_pending());
    is_open.store(1, Ordering::SeqCst);
    assert!(first.wakes() > 1);
    drop((first.granted(), second.granted()));
    assert_eq!(queue.waiting(), 0);
}

/// A task's tokio budget is used up after 128 polls, and then a poll is pending although there is a
/// permit.
#[cfg(feature = "tokio")]
#[tokio::test]
async fn acquire_of_a_throttle_that_takes_part_in_the_budget_of_tokio_goes_on() {
    #[derive(Clone)]
    struct Budgeted(Arc<tokio::sync::Semaphore>);

    impl Throttle for Budgeted {
        type Permit = tokio::sync::OwnedSemaphorePermit;
        type Enter = Pin<Box<dyn Future<Output = Result<Self::Permit, AcquireError>> + Send>>;

        fn enter(&self) -> Waiting<Self::Enter> {
            let acquire = Arc::clone(&self.0).acquire_owned();
            let closed = |_| AcquireError::new(ErrorKind::Closed);
            Waiting::new(Box::pin(async move { acquire.await.map_err(closed) }))
        }
    }

    let queue = FairQueue::new(Budgeted(Arc::new(tokio::sync::Semaphore::new(1))));
    for key in 0..1000 {
        drop(queue.class(key % 3).acquire().await.unwrap());
    }
}

#[test]
fn acquire_of_a_throttle_that_panics_when_it_is_polled_refuses_the_waiter_that_is_next() {
    let waker = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&waker);
    let queue = FairQueue::new(Polled::new(move |waker, poll| {
        *kept.lock().unwrap() = Some(waker.clone());
        match poll {
            0 => Poll::Pending,
            1 => panic!("the throttle panics on purpose"),
            _ => Poll::Ready(Ok(7)),
        }
    }));
    let [mut first, mut second] = [1, 2].map(|key| Waiter::parked(queue.class(key).acquire()));
    let waker = waker.lock().unwrap().take().unwrap();
    // The waking code is not involved.
    waker.wake();
    assert_eq!(first.refused(), ErrorKind::Closed);
    assert_eq!(*second.granted(), 7);
    assert_eq!(queue.waiting(), 0);
    assert!(queue.snapshot().iter().all(|class| class.held == 0));
}

/// A throttle that wakes outside its locks, and notes which permits are rolled back.
#[derive(Clone)]
struct Undone(Polled, Arc<Mutex<Vec<u32>>>);

impl Throttle for Undone {
    type Permit = u32;
    type Enter = Enter;

    tollgate::forward!(Throttle, self => self.0, except rollback, polling);

    fn rollback(&self, permit: u32) {
        self.1.lock().unwrap().push(permit);
    }

    fn polling(&self) -> Polling {
        Polling::BY_WAKERS
    }
}

#[test]
fn drop_of_the_only_waiter_while_the_throttle_admits_it_rolls_the_permit_back() {
    let waiter = Arc::new(Mutex::new(None::<Box<dyn Any + Send>>));
    let waker = Arc::new(Mutex::new(None));
    let (leaves, kept) = (Arc::clone(&waiter), Arc::clone(&waker));
    let polled = Polled::new(move |waker, poll| {
        *kept.lock().unwrap() = Some(waker.clone());
        if poll == 0 {
            return Poll::Pending;
        }
        drop(leaves.lock().unwrap().take());
        Poll::Ready(Ok(7))
    });
    let throttle = Undone(polled, Arc::default());
    let queue = FairQueue::new(throttle.clone());
    let parked = Waiter::parked(queue.class(1).acquire());
    *waiter.lock().unwrap() = Some(Box::new(parked));
    let waker = waker.lock().unwrap().take();
    waker.into_iter().for_each(Waker::wake);
    assert_eq!(*throttle.1.lock().unwrap(), [7]);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn acquire_of_a_throttle_that_panics_in_the_call_of_the_caller_panics_in_it_and_holds_nothing() {
    let throttle = Log::default().part("a");
    throttle.now(Script::PanicWhenTried);
    let queue = FairQueue::new(throttle);
    let class = queue.class(1);
    let calls: [&dyn Fn(); 2] = [&|| drop(class.try_acquire()), &|| {
        drop(Waiter::new(class.acquire()).poll());
    }];
    for call in calls {
        assert_eq!(panic_message(call).as_deref(), Some("on purpose"));
        assert!(queue.snapshot().is_empty());
    }
}

/// Channels wake under their locks, and so does tokio up to 1.49 when it closes.
#[test]
fn close_of_a_semaphore_that_wakes_under_its_lock_refuses_all_when_the_next_waiter_runs() {
    fn check<T>(throttle: T, close: impl Fn(&T))
    where
        T: TryThrottle<Permit: Debug + Send, Enter: Send> + Send + Sync + 'static,
    {
        let queue = FairQueue::new(throttle);
        let permit = queue.class(1).try_acquire().unwrap();
        let mut waits = [1, 2, 1, 0].map(|key| Waiter::parked(queue.class(key).acquire()));
        close(queue.throttle());
        assert_eq!(waits.iter().map(Waiter::wakes).sum::<usize>(), 1);
        for wait in &mut waits {
            assert_eq!(wait.refused(), ErrorKind::Closed);
            assert!(wait.wakes() <= 1);
        }
        drop(permit);
    }
    check(Arc::new(ChannelSemaphore::new(1)), |slots| slots.close());
    #[cfg(feature = "tokio")]
    check(Arc::new(tokio::sync::Semaphore::new(1)), |it| it.close());
}

/// One permit, whose return wakes under the lock. Calling it meanwhile would deadlock.
#[derive(Clone, Default)]
struct WakesLocked(Arc<Mutex<Option<Waker>>>, Arc<AtomicUsize>);

impl WakesLocked {
    fn taken(&self) -> bool {
        self.1.load(Ordering::SeqCst) > 0
    }

    /// Makes room.
    fn give_back(&self) {
        let mut waker = self.0.lock().unwrap();
        self.1.store(0, Ordering::SeqCst);
        waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Throttle for WakesLocked {
    type Permit = ();
    type Enter = Pin<Box<dyn Future<Output = Result<(), AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let throttle = self.clone();
        Waiting::new(Box::pin(poll_fn(move |context| {
            let mut waker = throttle.0.try_lock().expect("used under its lock");
            if throttle.taken() {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            throttle.1.store(1, Ordering::SeqCst);
            Poll::Ready(Ok(()))
        })))
    }
}

#[test]
fn acquire_of_all_with_a_part_that_wakes_under_its_lock_is_not_polled_under_it() {
    fn check<T>(queue: FairQueue<T, u32>, part: &WakesLocked)
    where
        T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    {
        part.1.store(1, Ordering::SeqCst);
        let mut waits = Waiter::parked(queue.class(1).acquire());
        part.give_back();
        assert_eq!(waits.wakes(), 1);
        // The waiter polled it, and not the waking code.
        assert!(!part.taken());
        assert!(waits.poll().is_ready());
        assert!(part.taken());
    }
    let ours = || Arc::new(Semaphore::new(9));
    let part = WakesLocked::default();
    check(FairQueue::new(part.clone()), &part);
    check(FairQueue::new(all((ours(), part.clone()))), &part);
    check(FairQueue::new(all((part.clone(), ours()))), &part);
    check(FairQueue::new(all((ours(), part.clone(), ours()))), &part);
    check(FairQueue::new(all((ours(), ours(), part.clone()))), &part);
    let nested = all((all((ours(), part.clone())), Some(ours())));
    check(FairQueue::new(nested), &part);
    check(FairQueue::new(Some(part.clone())), &part);
    check(FairQueue::new(BoxThrottle::new(part.clone())), &part);
    let observed = Observed::new(part.clone(), ());
    check(FairQueue::new(observed), &part);
    let class = FairQueue::new(part.clone()).class("inner");
    check(FairQueue::new(class), &part);
}

/// Panics when a caller enters for more than 10, and lets another caller join meanwhile.
#[derive(Clone)]
struct CountsToTen(Arc<Mutex<Option<Meanwhile>>>, u64);

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Throttle for CountsToTen {
    type Permit = u32;
    type Enter = Enter;

    fn enter(&self) -> Waiting<Enter> {
        let n = self.1;
        if let Some(meanwhile) = self.0.lock().unwrap().take().filter(|_| n > 10) {
            meanwhile();
        }
        assert!(n <= 10, "cannot count {n}");
        Waiting::new(Box::pin(async { Ok(7) }))
    }
}

impl Weighted for CountsToTen {
    type Many = Self;

    fn cost(&self, n: u64) -> Self {
        Self(Arc::clone(&self.0), n)
    }

    fn settle(&self, _: u32, _: u64) {}

    fn max_units(&self) -> u64 {
        10
    }
}

#[test]
fn acquire_many_of_a_cost_that_panics_refuses_no_waiter_of_another_cost() {
    let throttle = CountsToTen(Arc::default(), 1);
    let queue = FairQueue::new(throttle.clone()).classes(|key| Class::new().priority(*key));
    let joined = Arc::new(Mutex::new(None));
    let (same, slot) = (queue.clone(), Arc::clone(&joined));
    *throttle.0.lock().unwrap() = Some(Box::new(move || {
        *slot.lock().unwrap() = Some(Waiter::parked(same.class(1).acquire()));
    }));
    let mut large = Waiter::new(queue.class(0).acquire_many(11));
    assert_eq!(large.refused(), ErrorKind::Closed);
    let mut small = joined.lock().unwrap().take().unwrap();
    assert_eq!(*small.granted(), 7);
}

#[test]
fn drop_of_a_granted_wait_of_a_rate_limiter_passes_the_charge_on_or_refunds_it() {
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::per_second(1).burst(3)).clock(&clock);
    let queue = FairQueue::new(Arc::new(rate))
        .share(Share::ByCost)
        .clock(&clock);
    drop(queue.class(1).acquire_many(3).wait().unwrap());
    let first = Waiter::parked(queue.class(1).acquire());
    let second = Waiter::parked(queue.class(2).acquire());
    let large = Waiter::parked(queue.class(2).acquire_many(2));
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    // The next waiter needs another cost, so the charge is refunded.
    assert_eq!(queue.throttle().snapshot().available, 0);
    assert!(large.wakes() == 0);
    drop(large);
    drop(second);
    assert_eq!(queue.throttle().snapshot().available, 1);
    assert_eq!(queue.waiting(), 0);
    drop(queue.class(1).try_acquire().unwrap());
}

#[test]
fn finish_of_a_permit_tells_an_adaptive_throttle_and_serves_the_next() {
    let limit = Shared::from(AdaptiveSemaphore::new(Gradient::default()).limits(1..=1));
    let queue = FairQueue::new(limit.clone()).classes(|_| Class::new().max_concurrency(1));
    let class = queue.class(0);
    let mut held = class.try_acquire().unwrap();
    let mut waiter = Waiter::parked(class.acquire());
    class.learn(&mut held, Feedback::OVERLOADED);
    drop(held);
    class.learn(&mut waiter.granted(), Feedback::Ignored);
    let observed = Observed::new(class, ());
    let mut permit = observed.try_acquire().unwrap();
    observed.learn(&mut permit, Feedback::OVERLOADED);
    assert_eq!(limit.snapshot().permits.in_use, 1);
    drop(permit);
    let window = limit.snapshot().window;
    assert_eq!((window.samples(), window.overloaded()), (2, 2));
    assert_eq!(limit.snapshot().permits.in_use, 0);
}

#[test]
fn class_of_a_map_that_panics_panics_in_the_caller_and_loses_nothing() {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1))).classes(|key| {
        assert!(*key != 13, "no class for 13");
        Class::new()
    });
    let permit = queue.class(1).try_acquire().unwrap();
    let mut waits = Waiter::parked(queue.class(1).acquire());
    assert!(panic_message(|| queue.class(13)).is_some());
    drop(permit);
    drop(waits.granted());
    assert_eq!(queue.throttle().available_permits(), 1);
}

/// The task of the woken waiter does not poll it.
#[test]
fn acquire_of_a_newcomer_serves_the_waiter_that_was_woken_and_not_polled() {
    let queue = FairQueue::new(Arc::new(ChannelSemaphore::new(1)));
    let permit = queue.class(1).try_acquire().unwrap();
    let mut woken = Waiter::parked(queue.class(2).acquire());
    drop(permit);
    assert_eq!((woken.wakes(), queue.waiting()), (1, 1));
    let mut newcomer = Waiter::parked(queue.class(3).acquire());
    // Only the newcomer waits.
    assert_eq!(queue.waiting(), 1);
    drop(woken.granted());
    assert_eq!(newcomer.wakes(), 1);
    drop(newcomer.granted());
}

type Slots = Arc<Semaphore>;

type Crowd = Vec<Waiter<Waiting<<ClassHandle<Slots, u32> as tollgate::Throttle>::Enter>>>;

/// Returns this many waiters behind a semaphore without permits.
fn crowd(waiters: usize) -> (FairQueue<Slots, u32>, Crowd) {
    let queue = FairQueue::new(Arc::new(Semaphore::new(0)));
    let park = |_| Waiter::parked(queue.class(1).acquire());
    let waiters = (0..waiters).map(park).collect();
    (queue, waiters)
}

/// The number of waiters that one call serves.
const AT_ONCE: usize = 1024;

#[test]
fn set_permits_for_many_waiters_serves_a_part_of_them_and_wakes_the_next() {
    let (queue, mut waiters) = crowd(3 * AT_ONCE);
    queue.throttle().set_permits(3 * AT_ONCE);
    assert_eq!(queue.waiting(), 2 * AT_ONCE);
    assert_eq!(waiters[AT_ONCE].wakes(), 1);
    let permits: Vec<_> = waiters.iter_mut().map(Waiter::granted).collect();
    assert_eq!(queue.throttle().available_permits(), 0);
    drop(permits);
    assert_eq!(queue.throttle().available_permits(), 3 * AT_ONCE);
}

/// None of the woken waiters is polled.
#[test]
fn drop_of_any_waiter_after_a_part_was_served_serves_the_others() {
    let (queue, mut waiters) = crowd(2 * AT_ONCE + 1);
    queue.throttle().set_permits(3 * AT_ONCE);
    assert_eq!(queue.waiting(), AT_ONCE + 1);
    drop(waiters.pop());
    assert_eq!(queue.waiting(), 0);
    drop(waiters.swap_remove(AT_ONCE).granted());
}

#[test]
fn close_with_many_waiters_refuses_a_part_of_them_and_wakes_the_next() {
    let (queue, mut waiters) = crowd(3 * AT_ONCE);
    queue.throttle().close();
    assert_eq!(queue.waiting(), 2 * AT_ONCE);
    for waiter in &mut waiters {
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
    assert_eq!(queue.waiting(), 0);
}
