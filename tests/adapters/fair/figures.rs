//! The shares, waits and losses that the documentation promises, as figures in manual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::fair::{Class, ClassHandle, FairQueue, Share};
use tollgate::{Clock, Quota, RateLimiter, Semaphore, Throttle, Waiting};

use crate::support::Waiter;

type Slots = Arc<Semaphore>;
type Waits<T, K> = Waiter<Waiting<<ClassHandle<T, K> as tollgate::Throttle>::Enter>>;

fn slots(permits: usize) -> Slots {
    Arc::new(Semaphore::new(permits))
}

const MILLISECOND: Duration = Duration::from_millis(1);

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
