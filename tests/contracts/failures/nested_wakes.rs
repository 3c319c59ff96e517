//! An executor that polls a task inside the call of its waker. A queue of waiters that each pass their
//! permit on then becomes one chain of nested calls.
//!
//! Seen with executors that run a task where it is woken, for example those of user interfaces and
//! of some tests.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::wait::Waiting;
use tollgate::{Clock, Gate, Pool, Quota, RateLimiter, Semaphore, Throttle};

use crate::support::{assert_at_rest, ends};

/// A test's stack has two megabytes: 20 bytes for each.
const WAITERS: usize = 100_000;

/// A task that is polled where it is woken, and once more if it is woken inside its poll.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    again: AtomicBool,
}

impl Task {
    fn spawn(future: impl Future<Output = ()> + Send + 'static) {
        let task = Self {
            future: Mutex::new(Some(Box::pin(future))),
            again: AtomicBool::new(false),
        };
        Arc::new(task).wake();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.again.store(true, Ordering::SeqCst);
        let Ok(mut future) = self.future.try_lock() else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self));
        while self.again.swap(false, Ordering::SeqCst) {
            let polled = future
                .as_mut()
                .map(|task| task.as_mut().poll(&mut Context::from_waker(&waker)));
            if polled.is_some_and(|polled| polled.is_ready()) {
                *future = None;
            }
        }
    }
}

/// Parks tasks in the queue of a full throttle, lets the first one in, and returns the order of
/// admission. Each returns its permit before its poll ends.
fn admitted<T>(throttle: T, let_in: impl FnOnce() + Send + 'static) -> Vec<usize>
where
    T: Throttle<Permit: Send, Enter: Send + 'static> + Send + Sync + 'static,
{
    ends(move || {
        let admitted = Arc::new(Mutex::new(Vec::new()));
        for name in 0..WAITERS {
            let (throttle, admitted) = (throttle.clone(), Arc::clone(&admitted));
            Task::spawn(async move {
                let permit = throttle.enter().await.unwrap();
                admitted.lock().unwrap().push(name);
                throttle.rollback(permit);
            });
        }
        assert_eq!(admitted.lock().unwrap().len(), 0, "nobody has come yet");
        let_in();
        std::mem::take(&mut *admitted.lock().unwrap())
    })
}

/// A throttle that does not say where it calls wakers.
#[derive(Clone)]
struct Foreign(Arc<Semaphore>);

impl Throttle for Foreign {
    type Permit = <Arc<Semaphore> as Throttle>::Permit;
    type Enter = <Arc<Semaphore> as Throttle>::Enter;

    fn enter(&self) -> Waiting<Self::Enter> {
        self.0.enter()
    }
}

#[track_caller]
fn assert_in_order(admitted: &[usize]) {
    assert_eq!(admitted.len(), WAITERS);
    assert!(admitted.is_sorted());
}

/// Does the same with wrappers of a semaphore.
#[track_caller]
fn admitted_in_order<T>(make: impl FnOnce(Arc<Semaphore>) -> T)
where
    T: Throttle<Permit: Send, Enter: Send + 'static> + Send + Sync + 'static,
{
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert_in_order(&admitted(make(Arc::clone(&semaphore)), || drop(held)));
    assert_at_rest(&semaphore, 1);
}

#[test]
fn nested_wakes_of_a_semaphore() {
    admitted_in_order(|semaphore| semaphore);
}

#[test]
fn nested_wakes_of_a_fair_queue() {
    admitted_in_order(|semaphore| FairQueue::new(semaphore).class(()));
}

/// The queue wakes its next waiter itself, because it does not know where this throttle calls
/// wakers.
#[test]
fn nested_wakes_of_a_fair_queue_in_front_of_a_foreign_throttle() {
    admitted_in_order(|semaphore| FairQueue::new(Foreign(semaphore)).class(()));
}

#[test]
fn nested_wakes_of_a_pool() {
    let pool = Arc::new(Pool::new([()]));
    let held = Arc::clone(&pool).try_acquire_owned().unwrap();
    assert_in_order(&admitted(Arc::clone(&pool), || drop(held)));
    assert_eq!((pool.snapshot().available, pool.snapshot().waiting), (1, 0));
}

/// Each refunds its charge, so that the next one is due.
#[test]
fn nested_wakes_of_a_rate() {
    let clock = Clock::manual();
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)).clock(&clock));
    limiter.try_acquire().unwrap();
    let hour = Duration::from_secs(3600);
    assert_in_order(&admitted(Arc::clone(&limiter), move || clock.advance(hour)));
    assert_eq!(
        (limiter.snapshot().available, limiter.snapshot().waiting),
        (1, 0)
    );
}

/// Each waiter that checks for its opening serves the queue.
#[test]
fn nested_wakes_of_a_gate() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    gate.block_for(Duration::from_secs(1));
    let mut admitted = admitted(gate.clone(), move || clock.advance(Duration::from_secs(1)));
    // All at once, so in any order.
    admitted.sort_unstable();
    assert_in_order(&admitted);
    assert_eq!(gate.snapshot().waiting, 0);
}
