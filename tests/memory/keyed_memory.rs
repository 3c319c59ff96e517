//! The memory of a map of many keys, against the figures of its documentation; and a crawler with a
//! key for each host.

use std::env;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stats_alloc::Region;
use tollgate::keyed::WhenFull;
use tollgate::{Clock, Gate, Keyed, Quota, RateLimiter, Semaphore};

use crate::support::poll_once;
use crate::{COUNTED, alone, held};

/// At least 78 keys for each shard on up to 64 threads, so its table grows several times.
const CAP: usize = 20_000;

/// Returns the bytes that the documentation of `Keyed` allows for this many keys, with `size` bytes
/// per key and slot: slots, with a byte for each; shards, each with the last bytes of its table;
/// and the prototype of new limiters.
fn stated(keys: usize, size: usize) -> f64 {
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    let most = (4 * threads).clamp(16, 1024).next_power_of_two();
    let shards = most.min(1 << (CAP / 64).ilog2());
    32.0 / 7.0 * (keys * (size + 1)) as f64 + (shards * (256 + 64) + 1024) as f64
}

fn users(max_keys: usize, when_full: WhenFull) -> Keyed<u64, RateLimiter> {
    Keyed::<u64, _>::new(RateLimiter::new(Quota::per_hour(10).burst(10)).clock(Clock::manual()))
        .max_keys(max_keys)
        .when_full(when_full)
}

/// Holds the bytes of a key that is not counted: the first use may initialize process-wide state.
fn warm() {
    let _ = users(1, WhenFull::Reject).key(&1).try_acquire();
}

#[test]
fn keys_without_bound_take_no_more_than_was_said() {
    let _alone = alone();
    warm();
    for when_full in [WhenFull::Evict, WhenFull::Reject] {
        let region = Region::new(COUNTED);
        let users = users(CAP, when_full);
        // `DISTINCT_KEYS` sets how many use the map while old ones are evicted, in two threads.
        let count = env::var("DISTINCT_KEYS").map(|count| count.parse().unwrap());
        let distinct: u64 = match when_full {
            WhenFull::Evict => count.unwrap_or(10 * CAP as u64),
            _ => 4 * CAP as u64,
        };
        thread::scope(|scope| {
            for half in [0..distinct / 2, distinct / 2..distinct] {
                let users = &users;
                scope.spawn(move || {
                    for key in half {
                        let _ = users.key(&key).try_acquire();
                    }
                });
            }
        });
        let (held, bound) = (held(&region), stated(CAP, 24));
        assert!((held as f64) < bound, "{when_full:?}: {held} of {bound}");
        assert_eq!(users.len(), CAP);
    }
    few_keys_take_less_and_shrink_gives_back();
    nothing_is_left_of_queues();
    nothing_is_allocated_for_keys_that_are_there();
    keys_that_are_not_paused_take_nothing_and_paused_ones_a_gate();
    #[cfg(feature = "tokio")]
    keys_on_tokios_time_take_a_limiter_and_a_state_for_each_runtime();
}

/// About 900 bytes and 720, in addition to the 55 of a key on every clock.
#[cfg(feature = "tokio")]
fn keys_on_tokios_time_take_a_limiter_and_a_state_for_each_runtime() {
    let users = Keyed::<u64, _>::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
    let runtimes = [(); 3].map(|()| crate::support::paused_runtime());
    let use_all = |runtime: &tokio::runtime::Runtime| {
        let region = Region::new(COUNTED);
        runtime.block_on(async { (0..1000).for_each(|key| drop(users.key(&key).try_acquire())) });
        held(&region) / 1000
    };
    let each = runtimes.each_ref().map(use_all);
    assert!(each[0] < 1_750, "{each:?}");
    assert!(each[1] < 750 && each[2] < 750, "{each:?}");
}

fn few_keys_take_less_and_shrink_gives_back() {
    let clock = Clock::manual();
    let region = Region::new(COUNTED);
    let users = Keyed::<u64, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .hasher(BuildHasherDefault::<DefaultHasher>::default());
    for key in 0..1000 {
        users.key(&key).try_acquire().unwrap();
    }
    let few = held(&region);
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    // With more shards they take more.
    assert!(threads > 16 || few < 80_000, "{few}");
    clock.advance(Duration::from_secs(1));
    users.shrink();
    let none = held(&region);
    assert!((none as f64) < stated(0, 24), "{none}");
}

/// Queues of many keys, one after the other, leave as much as those of few.
fn nothing_is_left_of_queues() {
    let clock = Clock::manual();
    let users =
        Keyed::<u64, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock)).max_keys(1000);
    let users = Arc::new(users);
    let wait = |from: u64| {
        for key in from..from + 2000 {
            let user = users.key(&key);
            user.try_acquire().unwrap();
            let reserved = user.reserve().unwrap();
            clock.advance(Duration::from_secs(1));
            reserved.wait().unwrap();
            clock.advance(Duration::from_secs(3));
        }
    };
    wait(0);
    let region = Region::new(COUNTED);
    wait(10_000);
    wait(20_000);
    let change = region.change();
    let more = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    assert!(more < 64 * 1024, "{more}");
}

/// About 100 bytes, and 900 with waiters, in addition to the 55 of a key.
fn keys_that_are_not_paused_take_nothing_and_paused_ones_a_gate() {
    let (clock, slots) = (Clock::manual(), Semaphore::new(1));
    let chats = Keyed::<u64, _>::new(Gate::new().clock(&clock));
    chats.key(&0).pause_for(Duration::from_secs(1)).unwrap();
    let passes = || {
        let region = Region::new(COUNTED);
        for key in 0..100 {
            let gated = chats.key(&key).before(&slots);
            drop(gated.try_acquire().unwrap());
            drop(gated.acquire().wait().unwrap());
        }
        region.change().allocations
    };
    clock.advance(Duration::from_secs(1));
    assert_eq!(passes(), 0);
    let region = Region::new(COUNTED);
    for key in 0..1000 {
        chats.key(&key).pause_for(Duration::from_secs(1)).unwrap();
    }
    let paused = held(&region) / 1000;
    assert!(paused < 55 + 100, "{paused}");
    let opened = Region::new(COUNTED);
    for key in 0..1000 {
        chats.key(&key).open();
        assert!(chats.key(&key).is_open());
        chats.key(&key).pause_for(Duration::from_secs(1)).unwrap();
    }
    assert_eq!(opened.change().allocations, 0);
    let keys: Vec<u64> = (0..1000).collect();
    let mut waits: Vec<_> = keys.iter().map(|key| chats.key(key).acquire()).collect();
    let region = Region::new(COUNTED);
    for wait in &mut waits {
        assert!(poll_once(wait).is_pending());
    }
    let waited_for = held(&region) / 1000;
    assert!(waited_for < 1000, "{waited_for}");
}

fn nothing_is_allocated_for_keys_that_are_there() {
    let clock = Clock::manual();
    let users =
        Keyed::<String, _>::new(RateLimiter::new(Quota::per_hour(1).burst(2)).clock(&clock))
            .max_keys(1);
    users.key("ann").try_acquire().unwrap();
    let allocated = || {
        let region = Region::new(COUNTED);
        clock.advance(Duration::from_secs(3600));
        users.key("ann").try_acquire().unwrap();
        users.key("ann").try_acquire().map(drop).unwrap_or_default();
        assert!(users.key("ann").try_acquire().is_err());
        assert!(users.key("bob").try_acquire().is_err());
        users.key("bob").peek();
        let change = region.change();
        change.allocations + change.reallocations
    };
    assert_eq!((0..10).map(|_| allocated()).min(), Some(0));
}

/// A crawler: one request to a host at once, two seconds between two of them, 64 in total. `CRAWL_HOSTS` sets the
/// number of hosts.
#[cfg(feature = "tokio")]
mod crawler {
    use std::cell::{Cell, RefCell};

    use tokio::time::{Instant, sleep};
    use tollgate::{Semaphore, all};

    use super::*;
    use crate::support::paused_runtime;
    use crate::support::random::Random;

    const PAUSE: Duration = Duration::from_secs(2);
    const WORKERS: usize = 1000;

    /// Three requests to each host. Those of 200 hosts are mixed, so most of them wait for another one to their host.
    fn requests(hosts: usize) -> impl Iterator<Item = usize> {
        let blocks = (0..hosts).step_by(200);
        blocks.flat_map(move |first| (first..hosts.min(first + 200)).cycle().take(600))
    }

    /// The entry of a host goes away when its permit is released: a new host takes its place.
    #[test]
    fn release_after_of_each_host_spaces_its_requests_in_bounded_memory() {
        let _alone = alone();
        let count = std::env::var("CRAWL_HOSTS").ok();
        let count = count.map_or(6_000, |count| count.parse().unwrap());
        paused_runtime().block_on(async {
            let (hosts, total) = (Keyed::<usize, _>::semaphores(1), Semaphore::new(64));
            let next = RefCell::new((requests(count), Random::new(1)));
            // The end of the last request to each host, so that no host waits for the first; a busy host
            // has none.
            let before = Instant::now() - PAUSE;
            let ends = vec![Cell::new(Some(before)); count];
            let (most_keys, most_bytes) = (Cell::new(0), Cell::new(0));
            let region = Region::new(COUNTED);
            let take_next = || {
                let (requests, random) = &mut *next.borrow_mut();
                let duration = Duration::from_millis(random.below(300).into());
                requests.next().map(|host| (host, duration))
            };
            let work = async |_| {
                while let Some((host, duration)) = take_next() {
                    let both = all((hosts.key(&host), &total));
                    let (permit, _slot) = both.acquire().await.unwrap();
                    let _permit = permit.release_after(PAUSE).clock(Clock::tokio());
                    let ended = ends[host].take().expect("the host has no request now");
                    let since = ended.elapsed();
                    assert!(since >= PAUSE, "{since:?}");
                    sleep(duration).await;
                    ends[host].set(Some(Instant::now()));
                    most_keys.set(hosts.len().max(most_keys.get()));
                    most_bytes.set(held(&region).max(most_bytes.get()));
                }
            };
            futures::future::join_all((0..WORKERS).map(work)).await;
            assert!(ends.iter().all(|end| end.get() > Some(before)));
            // There is no room for all hosts, and there is none for a million hosts.
            assert!(most_keys.get() <= (count * 3 / 4).min(20_000));
            assert!(most_bytes.get() <= 20 << 20);

            // All of them have rested.
            sleep(2 * PAUSE).await;
            hosts.shrink();
            assert!(hosts.is_empty());
        });
    }
}
