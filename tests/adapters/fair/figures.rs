//! The shares, waits and losses that the documentation promises, as figures in manual time: of repeating
//! tasks, of weights and aging, and after the loss of half of the capacity.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::repeat_n;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::wait::Waiting;
use tollgate::{Clock, Quota, RateLimiter, Semaphore, Throttle};

use super::slots;
use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;
use crate::support::random::Random;

const MILLISECOND: Duration = Duration::from_millis(1);

type Slots = Arc<Semaphore>;
type Wait = Waiting<<ClassHandle<Slots, u32> as Throttle>::Enter>;

/// Repeating callers: each holds a permit for as many turns as there are permits.
struct Callers {
    queue: FairQueue<Slots, u32>,
    held: VecDeque<(u32, FairPermit<Slots, u32>)>,
    waits: Vec<(u32, Waiter<Wait>)>,
}

impl Callers {
    /// Creates callers: the first class has all permits, and the given classes wait.
    fn new(
        queue: FairQueue<Slots, u32>,
        first: u32,
        waiting: impl IntoIterator<Item = u32>,
    ) -> Self {
        let permits = queue.throttle().permits();
        let held = (0..permits).map(|_| (first, queue.class(first).try_acquire().unwrap()));
        let (held, waits) = (held.collect(), Vec::new());
        let mut callers = Self { queue, held, waits };
        waiting.into_iter().for_each(|class| callers.park(class));
        callers
    }

    fn park(&mut self, class: u32) {
        let wait = Waiter::parked(self.queue.class(class).acquire());
        self.waits.push((class, wait));
    }

    /// Returns the oldest permit, and lets its caller come again. Returns the served class.
    fn turn(&mut self) -> u32 {
        let (class, permit) = self.held.pop_front().expect("somebody holds one");
        drop(permit);
        self.park(class);
        let next = self.waits.iter().position(|(_, wait)| wait.wakes() > 0);
        let (class, mut wait) = self.waits.remove(next.expect("there is room"));
        self.held.push_back((class, wait.granted()));
        class
    }
}

/// Each task of three classes repeatedly holds a permit for the same time.
#[test]
fn acquire_of_400_8_and_8_tasks_shares_8_permits_evenly() {
    let waiting = [(0, 392), (1, 8), (2, 8)].map(|(class, tasks)| repeat_n(class, tasks));
    let mut callers = Callers::new(FairQueue::new(slots(8)), 0, waiting.into_iter().flatten());
    for turn in 0..10_000 {
        callers.turn();
        let held = |class: u32| callers.held.iter().filter(|held| held.0 == class).count();
        // Within 1 of 2.67.
        let is_fair = (0..3).all(|class| (2..=3).contains(&held(class)));
        assert!(turn < 8 || is_fair, "{turn}");
    }
}

/// Returns the admitted units of each class in ten seconds, at 1000 units a second; each class has
/// two waiting callers at any time.
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
    // Within one per cent of a half; a first-in first-out queue gives a tenth.
    assert!(
        (49 * sum..=51 * sum).contains(&(100 * small)),
        "{small} of {sum}"
    );
    let [small, large] = units([1, 9], [1, 1], [0, 0]);
    assert_eq!(10 * small / (small + large), 1, "{small} and {large}");
}

/// The semaphore could admit the one of low priority, but the queue waits for more permits.
#[test]
fn drop_of_another_waiter_serves_one_that_has_aged_meanwhile() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(4))
        .classes(|key| Class::new().priority(*key))
        .aging(100 * MILLISECOND)
        .clock(&clock);
    let three = queue.class(3).acquire_many(3).wait().unwrap();
    // Its return does not notify the queue.
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

/// Returns the percentage of grants of a class of weight 3 beside one of weight 1.
fn percent_of_the_heavy(permits: usize, share: Share) -> usize {
    let queue = FairQueue::new(slots(permits))
        .share(share)
        .classes(|weight| Class::new().weight(*weight));
    let mut callers = Callers::new(queue, 1, [1, 3].repeat(2 * permits));
    // The first turns, until all permits from the beginning have been returned.
    for _ in 0..20 * permits {
        callers.turn();
    }
    let heavy = (0..1200).filter(|_| callers.turn() == 3);
    heavy.count() * 100 / 1200
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
    let mut callers = Callers::new(FairQueue::new(slots(2)), 0, [0, 1, 2].repeat(5));
    let turns = |callers: &mut Callers, count| {
        let mut grants = [0; 3];
        (0..count).for_each(|_| grants[callers.turn() as usize] += 1);
        grants
    };
    let slow = callers.held.pop_front().unwrap();
    assert_eq!(turns(&mut callers, 1000)[0], 0);
    callers.held.push_back(slow);
    assert_eq!(turns(&mut callers, 600), [200; 3]);
}

/// The seconds before the loss of half of the capacity, and after it.
const SECONDS: u64 = 5;
/// The steps of 0.1 ms in a second, until a request gives up, and during its service.
const SECOND: u64 = 10_000;
const DEADLINE: u64 = 2_000;
const WORK: u64 = 100;

/// Returns the number of requests answered within their deadline, and of all, in the seconds before the loss
/// of capacity and in those after the requests that were in service then.
fn answered(settings: Class, mut work: impl FnMut() -> u64) -> [(u64, u64); 2] {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(10))
        .classes(move |()| settings)
        .clock(&clock);
    let class = queue.class(());
    // The waiting requests by their arrival times, and those with a permit.
    let (mut waiting, mut inside) = (BTreeMap::new(), Vec::new());
    // The arrival times of those that have been woken and not polled since.
    let woken = Arc::new(Mutex::new(BTreeSet::new()));
    let mut answered = [(0, 0); 2];
    for now in 0..=2 * SECONDS * SECOND + WORK {
        clock.advance(MILLISECOND / 10);
        if now == SECONDS * SECOND {
            queue.throttle().set_permits(5);
        }
        inside.retain(|(arrived, done, _permit)| {
            if *done == now {
                let (in_time, all) = &mut answered[usize::from(now > SECONDS * SECOND + WORK)];
                *all += 1;
                *in_time += u64::from(now <= arrived + DEADLINE);
            }
            *done > now
        });
        // At most one arrives at a time.
        let oldest = waiting.first_entry();
        if let Some(late) = oldest.filter(|it| now >= it.key() + DEADLINE) {
            late.remove();
        }
        // 1500 a second: three times the remaining capacity.
        if now * 3 % 20 < 3 {
            waiting.insert(now, Waiter::new(class.acquire()));
            woken.lock().unwrap().insert(now);
        }
        let next = || woken.lock().unwrap().pop_first();
        while let Some(arrived) = next() {
            let Some(wait) = waiting.get_mut(&arrived) else {
                continue;
            };
            let wakes = Arc::clone(&woken);
            let wake = move || wakes.lock().unwrap().extend([arrived]);
            if let Poll::Ready(permit) = wait.poll_with(&calls_when_woken(wake)) {
                waiting.remove(&arrived);
                inside.push((arrived, now + work(), permit.unwrap()));
            }
        }
    }
    answered
}

const FIFO: Class = Class::new();
const ADAPTIVE: Class = FIFO.adaptive_lifo(Duration::from_millis(50));

/// The capacity is 1000 and then 500 a second.
#[test]
fn acquire_in_adaptive_lifo_order_after_a_loss_of_capacity_answers_500_a_second_in_time() {
    let [_, (fifo, _)] = answered(FIFO, || WORK);
    let [before, after] = answered(ADAPTIVE, || WORK);
    assert!(before.0 >= 990 * SECONDS, "{before:?}");
    assert!(after.0 >= 500 * SECONDS, "{after:?}");
    // All the work is for requests that have given up.
    assert_eq!(fifo, 0);
}

#[test]
fn acquire_in_adaptive_lifo_order_of_calls_of_random_lengths_answers_in_time() {
    for seed in 0..3 {
        let work = || {
            let mut random = Random::new(seed);
            move || {
                let uniform = (f64::from(random.below(1 << 31)) + 1.0) / f64::from(1_u32 << 31);
                1 + (WORK as f64 * -uniform.ln()) as u64
            }
        };
        let [_, (fifo, of_fifo)] = answered(FIFO, work());
        let [_, (lifo, of_lifo)] = answered(ADAPTIVE, work());
        // Every request in service is answered in time, at the capacity.
        assert_eq!(lifo, of_lifo);
        assert!((470..=530).contains(&(lifo / SECONDS)), "{lifo}");
        assert!(fifo < of_fifo / 5, "{fifo} of {of_fifo}");
    }
}

/// Returns by how much a class was behind its ideal part of what was admitted, at most, in largest costs. Ten classes with
/// random weights always have two waiting callers with random costs of 1 to 20.
fn lag(seed: u64, most_weight: u32) -> f64 {
    const LARGEST: u32 = 20;
    let mut random = Random::new(seed);
    let weights: Vec<u32> = (0..10).map(|_| 1 + random.below(most_weight)).collect();
    let all: u32 = weights.iter().sum();
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::per_second(1000).burst(LARGEST.into())).clock(&clock);
    drop(rate.try_acquire_many(LARGEST.into()));
    let of = weights.clone();
    let queue = FairQueue::new(Arc::new(rate))
        .classes(move |key: &usize| Class::new().weight(of[*key]))
        .share(Share::ByCost)
        .clock(&clock);
    let mut ask = |class: usize| {
        let cost = 1 + u64::from(random.below(LARGEST));
        (cost, Waiter::parked(queue.class(class).acquire_many(cost)))
    };
    let mut waiting: Vec<_> = (0..10)
        .map(|class| VecDeque::from([ask(class), ask(class)]))
        .collect();
    let (mut admitted, mut behind) = ([0.0; 10], 0.0_f64);
    for _ in 0..20_000 {
        clock.advance(MILLISECOND);
        for class in 0..10 {
            while waiting[class]
                .front()
                .is_some_and(|(_, wait)| wait.wakes() > 0)
            {
                let (cost, mut wait) = waiting[class].pop_front().expect("it waits");
                assert_eq!(wait.granted().cost(), cost);
                admitted[class] += cost as f64;
                waiting[class].push_back(ask(class));
            }
        }
        let sum: f64 = admitted.iter().sum();
        for (weight, admitted) in weights.iter().zip(admitted) {
            behind = behind.max(sum * f64::from(*weight) / f64::from(all) - admitted);
        }
    }
    behind / f64::from(LARGEST)
}

#[test]
fn acquire_by_cost_is_behind_its_ideal_share_by_less_than_the_bound() {
    for (most_weight, bound) in [(4, 2.5), (100, 10.0)] {
        let lags: Vec<f64> = (0..20).map(|seed| lag(seed, most_weight)).collect();
        let most = lags.iter().copied().fold(0.0, f64::max);
        println!("weights of 1 to {most_weight}: {most:.1} largest costs behind");
        assert!(most < bound, "{lags:?}");
    }
}
