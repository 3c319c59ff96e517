//! The shares, waits and losses that the documentation promises, as figures in manual time: of tasks that come
//! again and again, of weights and aging, and when half of the capacity is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, ClassHandle, FairQueue, Share};
use tollgate::{Clock, ManualClock, Quota, RateLimiter, Semaphore, Throttle, Waiting};

use crate::support::Waiter;
use crate::support::random::Random;

type Waits<T, K> = Waiter<Waiting<<ClassHandle<T, K> as tollgate::Throttle>::Enter>>;

/// Those of a class that wait, oldest first.
fn parked<T, K>(class: &ClassHandle<T, K>, count: usize) -> VecDeque<Waits<T, K>>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    K: std::hash::Hash + Eq + Send + Sync + 'static,
{
    let permits = (0..count).map(|_| Waiter::parked(class.acquire()));
    permits.collect()
}

/// Tasks of three classes hold a permit each for as long, one after the other, and come again.
#[test]
fn acquire_of_400_8_and_8_tasks_shares_8_permits_evenly() {
    let queue = FairQueue::new(slots(8));
    let classes = [0, 1, 2].map(|key| queue.class(key));
    let mut inside: VecDeque<_> = (0..8)
        .map(|_| (0, classes[0].try_acquire().unwrap()))
        .collect();
    let mut waiting = [392, 8, 8].map(|_| VecDeque::new());
    for (class, count) in [392, 8, 8].into_iter().enumerate() {
        waiting[class] = parked(&classes[class], count);
    }
    for turn in 0..10_000 {
        let (class, permit) = inside.pop_front().unwrap();
        drop(permit);
        waiting[class].push_back(Waiter::parked(classes[class].acquire()));
        let entered = waiting.iter_mut().enumerate().find_map(|(class, waiting)| {
            match waiting.front_mut()?.poll() {
                Poll::Ready(permit) => Some((class, permit.unwrap())),
                Poll::Pending => None,
            }
        });
        let (class, permit) = entered.expect("there is room");
        waiting[class].pop_front();
        inside.push_back((class, permit));
        let held = [0, 1, 2].map(|key| inside.iter().filter(|(class, _)| *class == key).count());
        if turn >= 8 {
            // Within 1 of 2.67.
            assert!(held.iter().all(|held| (2..=3).contains(held)), "{held:?}");
        }
    }
}

/// How much each class is admitted in ten seconds, at 1000 units a second; each has two callers
/// that wait at any time.
fn units(costs: [u64; 2], weights: [u32; 2], classes: [usize; 2]) -> [u64; 2] {
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::per_second(1000).burst(costs[1])).clock(&clock);
    let queue = FairQueue::new(Arc::new(rate))
        .classes(move |key| Class::new().weight(weights[*key]))
        .share(Share::ByCost)
        .clock(&clock);
    let handles = classes.map(|class| queue.class(class));
    let mut waiting: Vec<_> = [0, 1, 0, 1]
        .into_iter()
        .map(|caller| {
            (
                caller,
                Waiter::new(handles[caller].acquire_many(costs[caller])),
            )
        })
        .collect();
    let mut units = [0, 0];
    for _ in 0..10_000 {
        for (caller, wait) in &mut waiting {
            while let Poll::Ready(charge) = wait.poll() {
                assert_eq!(charge.unwrap().cost(), costs[*caller]);
                units[*caller] += costs[*caller];
                *wait = Waiter::new(handles[*caller].acquire_many(costs[*caller]));
            }
        }
        clock.advance(MILLISECOND);
    }
    units
}

#[test]
fn acquire_by_cost_with_weights_1_and_3_shares_1000_a_second_by_weight() {
    let [one, three] = units([1, 1], [1, 3], [0, 1]);
    assert!((2499..=2501).contains(&one), "{one}");
    assert!((7499..=7501).contains(&three), "{three}");
}

#[test]
fn acquire_many_by_cost_of_1_and_9_shares_units_evenly() {
    let [small, large] = units([1, 9], [1, 1], [0, 1]);
    let sum = small + large;
    // Within one per cent of a half; first-in first-out, a tenth.
    assert!(
        (49 * sum..=51 * sum).contains(&(100 * small)),
        "{small} of {sum}"
    );
    let [small, large] = units([1, 9], [1, 1], [0, 0]);
    assert_eq!(10 * small / (small + large), 1, "{small} and {large}");
}

/// A permit comes back each ten milliseconds, and five of high priority wait at any time.
#[test]
fn acquire_of_low_priority_under_endless_load_goes_after_its_aging() {
    for (aging, goes_at) in [(Some(100), Some(100)), (None, None)] {
        let clock = Clock::manual();
        let queue = FairQueue::new(slots(1))
            .classes(|is_high| Class::new().priority(u8::from(*is_high)))
            .clock(&clock);
        let queue = match aging {
            Some(aging) => queue.aging(aging * MILLISECOND),
            None => queue,
        };
        let mut inside = queue.class(true).try_acquire().unwrap();
        let mut low = Waiter::parked(queue.class(false).acquire());
        let mut high = parked(&queue.class(true), 5);
        let mut went_at = None;
        for tick in 1..100 {
            clock.advance(10 * MILLISECOND);
            drop(inside);
            if let Poll::Ready(permit) = low.poll() {
                drop(permit);
                went_at = Some(10 * tick);
                break;
            }
            inside = high.pop_front().unwrap().granted();
            high.push_back(Waiter::parked(queue.class(true).acquire()));
        }
        assert_eq!(went_at, goes_at);
    }
}

fn slots(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns a queue of four slots, whose classes are named by their priorities.
fn aging(clock: &ManualClock) -> FairQueue<Arc<Semaphore>, u8> {
    FairQueue::new(slots(4))
        .classes(|key| Class::new().priority(*key))
        .aging(100 * MILLISECOND)
        .clock(clock)
}

/// The semaphore could admit the one of low priority, but the queue waits for more permits.
#[test]
fn drop_of_another_waiter_serves_one_that_has_aged_meanwhile() {
    let clock = Clock::manual();
    let queue = aging(&clock);
    let three = queue.class(3).acquire_many(3).wait().unwrap();
    // Nobody tells the queue when this one returns.
    let one = Arc::clone(queue.throttle()).try_acquire_owned().unwrap();
    let mut low = Waiter::parked(queue.class(0).acquire());
    clock.advance(50 * MILLISECOND);
    let high = Waiter::parked(queue.class(1).acquire_many(4));
    let leaves = Waiter::parked(queue.class(0).acquire());
    clock.advance(60 * MILLISECOND);
    drop(one);
    assert_eq!(low.wakes(), 0);
    drop(leaves);
    drop(low.granted());
    drop((three, high));
}

#[test]
fn acquire_with_aging_at_the_end_of_time_is_served() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1)).aging(Duration::MAX).clock(&clock);
    let permit = queue.class(1).try_acquire().unwrap();
    let mut waits = Waiter::parked(queue.class(2).acquire());
    clock.advance(Duration::MAX);
    drop(permit);
    drop(waits.granted());
}

/// Returns the percentage of grants of a class of weight 3 beside one of weight 1, when each permit
/// is held for the same number of turns and its caller comes again.
fn percent_of_the_heavy(permits: usize, share: Share) -> usize {
    let queue = FairQueue::new(slots(permits))
        .share(share)
        .classes(|weight| Class::new().weight(*weight));
    let mut held: VecDeque<_> = (0..permits)
        .map(|_| (1, queue.class(1).try_acquire().unwrap()))
        .collect();
    let park = |weight| (weight, Waiter::parked(queue.class(weight).acquire()));
    let mut waits: Vec<_> = [1, 3].repeat(2 * permits).into_iter().map(park).collect();
    let mut heavy = 0;
    // The first turns, until no permit is left of those that were there at the beginning.
    let before = 20 * permits;
    for turn in 0..before + 1200 {
        let (weight, permit) = held.pop_front().unwrap();
        drop(permit);
        let next = waits.iter().position(|(_, wait)| wait.wakes() > 0);
        let (served, mut wait) = waits.remove(next.unwrap());
        held.push_back((served, wait.granted()));
        waits.push(park(weight));
        heavy += usize::from(turn >= before && served == 3);
    }
    heavy * 100 / 1200
}

#[test]
fn weight_by_concurrency_holds_with_one_permit_and_multiples_of_the_sum_of_the_weights() {
    let percent = [1, 2, 3, 4, 6, 7, 8, 10, 12]
        .map(|permits| percent_of_the_heavy(permits, Share::ByConcurrency));
    assert_eq!(percent, [75, 50, 66, 75, 66, 71, 75, 70, 75]);
}

#[test]
fn weight_by_cost_holds_with_any_number_of_permits() {
    let percent = [1, 2, 3, 4, 8].map(|permits| percent_of_the_heavy(permits, Share::ByCost));
    assert_eq!(percent, [75; 5]);
}

#[test]
fn acquire_after_a_long_call_shares_evenly_among_three_classes() {
    const NAMES: [&str; 3] = ["slow", "b", "c"];
    let queue = FairQueue::new(slots(2));
    let park = |class: usize| (class, Waiter::parked(queue.class(NAMES[class]).acquire()));
    let slow = queue.class("slow").try_acquire().unwrap();
    let mut held = VecDeque::from([queue.class("b").try_acquire().unwrap()]);
    let mut waits: Vec<_> = [0, 1, 2].repeat(5).into_iter().map(park).collect();
    let mut turns = |held: &mut VecDeque<_>, count| {
        let mut grants = [0; 3];
        for _ in 0..count {
            drop(held.pop_front());
            let next = waits.iter().position(|(_, wait)| wait.wakes() > 0);
            let (class, mut wait) = waits.remove(next.unwrap());
            held.push_back(wait.granted());
            waits.push(park(class));
            grants[class] += 1;
        }
        grants
    };
    assert_eq!(turns(&mut held, 1000)[0], 0);
    held.push_back(slow);
    assert_eq!(turns(&mut held, 600), [200; 3]);
}

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
