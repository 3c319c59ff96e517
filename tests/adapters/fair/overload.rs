//! Three times as many requests as there is capacity for: calls at random times and of random
//! lengths, from fixed seeds, in manual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Order};
use tollgate::{Clock, Semaphore};

use crate::support::Waiter;
use crate::support::random::Random;

const SECONDS: u64 = 5;
const DEADLINE: u64 = 200_000_000;
/// The mean time that a request is worked on.
const WORK: f64 = 10_000_000.0;
/// The permits while half of the capacity is lost.
const PERMITS: usize = 5;

/// A random time with this mean, in nanoseconds.
fn exponential(random: &mut Random, mean: f64) -> u64 {
    let uniform = (f64::from(random.below(1 << 31)) + 1.0) / f64::from(1_u32 << 31);
    1 + (-mean * uniform.ln()) as u64
}

enum Event {
    Arrival,
    /// A request gives up if it still waits.
    Deadline(usize),
    Done(usize),
}

/// Returns how many requests were answered within their deadline, and how many in all.
fn answered(order: Order, seed: u64) -> (u64, u64) {
    let clock = Clock::manual();
    let queue = FairQueue::new(Arc::new(Semaphore::new(PERMITS)))
        .classes(move |()| Class::new().order(order))
        .clock(&clock);
    let class = queue.class(());
    let mut random = Random::new(seed);
    let mut events = BTreeMap::from([((0, 0), Event::Arrival)]);
    // The requests that wait, and those that have a permit; each with the time of its arrival.
    let (mut waiting, mut inside) = (BTreeMap::new(), BTreeMap::new());
    let (mut now, mut last) = (0, 0);
    let (mut in_time, mut all) = (0, 0);
    while let Some(((at, _), event)) = events.pop_first() {
        if at > SECONDS * 1_000_000_000 {
            break;
        }
        clock.advance(Duration::from_nanos(at - now));
        now = at;
        match event {
            Event::Arrival => {
                last += 1;
                waiting.insert(last, (now, Waiter::new(class.acquire())));
                events.insert((now + DEADLINE, 2 * last), Event::Deadline(last));
                // Three times the capacity.
                let next = now + exponential(&mut random, WORK / (3.0 * PERMITS as f64));
                events.insert((next, 2 * last + 1), Event::Arrival);
            }
            Event::Deadline(request) => drop(waiting.remove(&request)),
            Event::Done(request) => {
                let (arrived, permit) = inside.remove(&request).expect("it is inside");
                drop(permit);
                all += 1;
                in_time += u64::from(now <= arrived + DEADLINE);
            }
        }
        let mut entered = Vec::new();
        for (request, (arrived, wait)) in &mut waiting {
            if *request == last || wait.wakes() > 0 {
                if let Poll::Ready(permit) = wait.poll() {
                    entered.push((*request, *arrived, permit.expect("nothing is refused")));
                }
            }
        }
        for (request, arrived, permit) in entered {
            waiting.remove(&request);
            inside.insert(request, (arrived, permit));
            let done = now + exponential(&mut random, WORK);
            events.insert((done, 2 * request), Event::Done(request));
        }
    }
    (in_time, all)
}

/// The capacity is 500 a second.
#[test]
fn acquire_in_adaptive_lifo_order_under_overload_answers_in_time() {
    let adaptive = Order::AdaptiveLifo(Duration::from_millis(50));
    for seed in 0..3 {
        let (fifo, of_fifo) = answered(Order::Fifo, seed);
        let (lifo, of_lifo) = answered(adaptive, seed);
        // Whatever is worked on is answered in time, at the capacity.
        assert_eq!(lifo, of_lifo);
        assert!((470..=530).contains(&(lifo / SECONDS)), "{lifo}");
        // Most of the work is for those who no longer want it.
        assert!(fifo < of_fifo / 5, "{fifo} of {of_fifo}");
    }
}
