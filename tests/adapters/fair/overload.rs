//! Half of the capacity is lost, and then there are three times as many requests as it is enough
//! for: calls at random times from fixed seeds, in manual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue};
use tollgate::{Clock, Semaphore};

use crate::support::Waiter;
use crate::support::random::Random;

/// The seconds before and after half of the capacity is lost.
const SECONDS: u64 = 5;
const DEADLINE: u64 = 200_000_000;
/// The mean time that a request is worked on.
const WORK: f64 = 10_000_000.0;
/// The permits before and after that.
const PERMITS: [usize; 2] = [10, 5];

/// A random time with this mean, in nanoseconds.
fn exponential(random: &mut Random, mean: f64) -> u64 {
    let uniform = (f64::from(random.below(1 << 31)) + 1.0) / f64::from(1_u32 << 31);
    1 + (-mean * uniform.ln()) as u64
}

enum Event {
    Arrival,
    /// The capacity falls.
    Fall,
    /// A request gives up if it still waits.
    Deadline(usize),
    Done(usize),
}

/// Returns how many requests were answered within their deadline, and how many in all, before and
/// after the capacity fell.
fn answered(settings: Class, seed: u64, work: impl Fn(&mut Random) -> u64) -> [(u64, u64); 2] {
    let clock = Clock::manual();
    let queue = FairQueue::new(Arc::new(Semaphore::new(PERMITS[0])))
        .classes(move |()| settings)
        .clock(&clock);
    let class = queue.class(());
    let mut random = Random::new(seed);
    let falls_at = SECONDS * 1_000_000_000;
    let mut events = BTreeMap::from([((0, 0), Event::Arrival), ((falls_at, 0), Event::Fall)]);
    // The requests that wait, and those that have a permit; each with the time of its arrival.
    let (mut waiting, mut inside) = (BTreeMap::new(), BTreeMap::new());
    let (mut now, mut last) = (0, 0);
    let mut answered = [(0, 0); 2];
    while let Some(((at, _), event)) = events.pop_first() {
        if at > 2 * falls_at {
            break;
        }
        clock.advance(Duration::from_nanos(at - now));
        now = at;
        match event {
            Event::Arrival => {
                last += 1;
                waiting.insert(last, (now, Waiter::new(class.acquire())));
                events.insert((now + DEADLINE, 2 * last), Event::Deadline(last));
                // Three times the capacity that is left.
                let next = now + exponential(&mut random, WORK / (3.0 * PERMITS[1] as f64));
                events.insert((next, 2 * last + 1), Event::Arrival);
            }
            Event::Fall => queue.throttle().set_permits(PERMITS[1]),
            Event::Deadline(request) => drop(waiting.remove(&request)),
            Event::Done(request) => {
                let (arrived, permit) = inside.remove(&request).expect("it is inside");
                drop(permit);
                let (in_time, all) = &mut answered[usize::from(now > falls_at)];
                *all += 1;
                *in_time += u64::from(now <= arrived + DEADLINE);
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
            let done = now + work(&mut random);
            events.insert((done, 2 * request), Event::Done(request));
        }
    }
    answered
}

const FIFO: Class = Class::new();
const ADAPTIVE: Class = FIFO.adaptive_lifo(Duration::from_millis(50));

/// The capacity is 1000 and then 500 a second.
#[test]
fn acquire_in_adaptive_lifo_order_after_a_loss_of_capacity_answers_500_a_second_in_time() {
    let work = |_: &mut Random| WORK as u64;
    for seed in 0..3 {
        let [_, (fifo, _)] = answered(FIFO, seed, work);
        let [before, after] = answered(ADAPTIVE, seed, work);
        assert!(before.0 >= 990 * SECONDS, "{before:?}");
        assert!(after.0 >= 500 * SECONDS, "{after:?}");
        // All the work is for those who no longer want it.
        assert_eq!(fifo, 0);
    }
}

#[test]
fn acquire_in_adaptive_lifo_order_of_calls_of_random_lengths_answers_in_time() {
    let work = |random: &mut Random| exponential(random, WORK);
    for seed in 0..3 {
        let [_, (fifo, of_fifo)] = answered(FIFO, seed, work);
        let [_, (lifo, of_lifo)] = answered(ADAPTIVE, seed, work);
        // Whatever is worked on is answered in time, at the capacity.
        assert_eq!(lifo, of_lifo);
        assert!((470..=530).contains(&(lifo / SECONDS)), "{lifo}");
        assert!(fifo < of_fifo / 5, "{fifo} of {of_fifo}");
    }
}
