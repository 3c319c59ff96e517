//! Random operations of several threads, in front of all kinds of throttles: nothing is lost, and
//! no waiter is stranded in the queue. `FAIR_OPERATIONS` sets the number of operations for each
//! throttle.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::throttle::BoxThrottle;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle};

use crate::support::Waiter;
use crate::support::random::{Random, on_threads};

const THREADS: u64 = 4;
const PERMITS: usize = 3;

fn operations() -> u64 {
    let count = std::env::var("FAIR_OPERATIONS").ok();
    count.map_or(40_000, |count| count.parse().expect("a number"))
}

fn class(key: &u32) -> Class {
    let class = Class::new().priority((key % 3) as u8).weight(1 + key % 4);
    match key % 5 {
        0 => class.adaptive_lifo(Duration::ZERO).max_waiters(3),
        1 => class.max_concurrency(2),
        2 => class.adaptive_lifo(Duration::from_micros(20)),
        _ => class,
    }
}

type Held<T> = Vec<(u32, FairPermit<T, u32>)>;
type Wait<T> = Waiting<<ClassHandle<T, u32> as Throttle>::Enter>;
type Waits<T> = Vec<(u32, Waiter<Wait<T>>)>;

/// Runs one operation.
fn step<T>(
    queue: &FairQueue<T, u32>,
    random: &mut Random,
    waits: &mut Waits<T>,
    held: &mut Held<T>,
    enter: impl Fn(u32, &mut Random) -> Wait<T>,
) where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    let any = |random: &mut Random, len: usize| random.below(len as u32) as usize;
    match random.below(8) {
        0..=2 if waits.len() < 20 => {
            let key = random.below(12);
            waits.push((key, Waiter::new(enter(key, random))));
            poll(waits, held, waits.len() - 1);
        }
        3 | 4 if !waits.is_empty() => poll(waits, held, any(random, waits.len())),
        5 if !waits.is_empty() => drop(waits.swap_remove(any(random, waits.len()))),
        6 if !held.is_empty() => {
            let (key, permit) = held.swap_remove(any(random, held.len()));
            queue.class(key).rollback(permit);
        }
        _ if !held.is_empty() => drop(held.swap_remove(any(random, held.len()))),
        _ => {}
    }
}

fn poll<T>(waits: &mut Waits<T>, held: &mut Held<T>, index: usize)
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    match waits[index].1.poll() {
        Poll::Pending => {}
        Poll::Ready(Ok(permit)) => {
            let (key, _) = waits.swap_remove(index);
            held.push((key, permit));
        }
        Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), ErrorKind::QueueFull);
            waits.swap_remove(index);
        }
    }
}

/// Runs all operations; afterwards there are no waiters, and nothing is held.
fn run<T>(
    queue: &FairQueue<T, u32>,
    enter: impl Fn(u32, &mut Random) -> Wait<T> + Sync,
    between: impl Fn(u64) + Sync,
) where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    on_threads(THREADS, |random| {
        let (mut waits, mut held) = (Vec::new(), Vec::new());
        for operation in 0..operations() / THREADS {
            step(queue, random, &mut waits, &mut held, &enter);
            between(operation);
        }
        // Some leave before they are served, some are served first.
        while !waits.is_empty() {
            drop(held.pop());
            let last = waits.len() - 1;
            poll(&mut waits, &mut held, last);
            if random.below(2) == 0 {
                waits.pop();
            }
        }
    });
    assert_eq!(queue.waiting(), 0);
    assert!(queue.snapshot().is_empty());
}

fn queue<T>(throttle: T) -> FairQueue<T, u32>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    FairQueue::new(throttle)
        .classes(class)
        .max_waiters(40)
        .max_classes(8)
        .aging(Duration::from_micros(50))
}

#[test]
fn random_operations_over_a_semaphore_lose_nothing() {
    for share in [Share::ByConcurrency, Share::ByCost] {
        let semaphore = Arc::new(Semaphore::new(PERMITS));
        let queue = queue(Arc::clone(&semaphore)).share(share);
        let enter = |key, random: &mut Random| {
            let cost = 1 + random.below(PERMITS as u32);
            queue.class(key).acquire_many(cost.into())
        };
        run(&queue, enter, |_| {});
        crate::support::assert_at_rest(&semaphore, PERMITS);
    }
}

/// Other callers wait at the semaphore too, and its limit changes.
#[test]
fn random_operations_over_a_semaphore_that_others_use_lose_nothing() {
    let semaphore = Arc::new(Semaphore::new(PERMITS));
    let queue = queue(Arc::clone(&semaphore));
    let other = Mutex::new(None);
    let between = |operation| match operation % 8 {
        0 => semaphore.set_permits(PERMITS + operation as usize / 8 % 3),
        3 | 6 => {
            let mut waiter = Waiter::new(Arc::clone(&semaphore).acquire_owned());
            drop(waiter.poll());
            *other.lock().unwrap() = Some(waiter);
        }
        _ => {}
    };
    let enter = |key, random: &mut Random| queue.class(key).acquire_many(random.below(3).into());
    run(&queue, enter, between);
    drop(other);
    semaphore.set_permits(PERMITS);
    crate::support::assert_at_rest(&semaphore, PERMITS);
}

#[test]
fn random_operations_over_throttles_whose_entries_take_one_lose_nothing() {
    fn check<T>(throttle: T)
    where
        T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    {
        let queue = queue(throttle.clone());
        run(&queue, |key, _| queue.class(key).acquire(), |_| {});
        let all = [(); PERMITS].map(|()| throttle.enter_now());
        assert!(all.iter().all(Option::is_some) && throttle.enter_now().is_none());
    }
    check(BoxThrottle::new(Arc::new(Semaphore::new(PERMITS))));
    #[cfg(feature = "channel")]
    check(Arc::new(tollgate::ChannelSemaphore::new(PERMITS)));
    #[cfg(feature = "async-lock")]
    check(Arc::new(async_lock::Semaphore::new(PERMITS)));
    #[cfg(feature = "tokio")]
    check(Arc::new(tokio::sync::Semaphore::new(PERMITS)));
}

#[test]
fn random_operations_over_a_rate_limiter_lose_nothing() {
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::per_second(1000).burst(5)).clock(&clock);
    let rate = Arc::new(rate);
    let queue = queue(Arc::clone(&rate)).share(Share::ByCost).clock(&clock);
    let enter = |key, random: &mut Random| {
        queue
            .class(key)
            .acquire_many(1 + u64::from(random.below(5)))
    };
    run(&queue, enter, |operation| {
        if operation % 4 == 0 {
            clock.advance(Duration::from_micros(500));
        }
    });
    assert_eq!(rate.snapshot().waiting, 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(rate.snapshot().available, 5);
}
