//! Settings of fair queues that are out of range, and options that are set after the first use, of every type that keeps a state: a row for each option and type,
//! and for each kind of use. Before the first use the same options work.
//!
//! A semaphore and a pool keep nothing of an ended call, so their options are never late.

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Share};
use tollgate::keyed::WhenFull;
use tollgate::rate::{MissedTickBehavior, Oversize};
use tollgate::{Algorithm, Clock, Gate, Keyed, LeakyBucket, Pool, Quota, RateLimiter, Semaphore};
use tollgate_adaptive::{AdaptiveRate, AdaptiveSemaphore};

use super::{FILE, Location, no_panic, row};
use crate::support::Waiter;

const TOO_LATE: &str = "an option must be set before the first use";

const SECOND: Duration = Duration::from_secs(1);

/// Asserts that each option panics after each use, and not before.
fn options<T>(make: fn() -> T, uses: &[fn(&T)], options: &[fn(T) -> T]) {
    for option in options {
        no_panic(|| option(make()));
        for used in uses {
            // An option does not count as a use.
            let value = options.iter().fold(make(), |value, option| option(value));
            used(&value);
            row(TOO_LATE, || option(value));
        }
    }
}

/// Polls a wait once, and drops it.
fn cancel<F: Future>(wait: F) {
    drop(Waiter::parked(wait));
}

#[test]
fn option_of_a_rate_limiter_after_the_first_use_panics() {
    options::<RateLimiter>(
        || RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual()),
        &[
            |limiter| drop(limiter.try_acquire()),
            |limiter| drop(limiter.try_acquire_many(2)),
            |limiter| {
                limiter.charge(1);
                cancel(limiter.acquire());
            },
            |limiter| drop(limiter.local(1)),
            |limiter| limiter.set_quota(Quota::per_hour(2)),
            |limiter| limiter.pause_for(SECOND),
            RateLimiter::close,
            |limiter| assert_eq!(limiter.snapshot().available, 1),
        ],
        &[
            |limiter| limiter.algorithm(Algorithm::FixedWindow),
            |limiter| limiter.max_waiters(1),
            |limiter| limiter.missed_tick(MissedTickBehavior::Delay),
            |limiter| limiter.oversize(Oversize::Overdraft),
            |limiter| limiter.jitter(SECOND),
            |limiter| limiter.clock(Clock::manual()),
        ],
    );
}

/// What reads the clock counts as the first use.
#[test]
fn restore_comes_after_all_options_and_before_the_first_use() {
    let limiter = || {
        let limiter = RateLimiter::new(Quota::per_hour(1)).algorithm(Algorithm::FixedWindow);
        limiter.clock(Clock::manual())
    };
    let users = || Keyed::<u8, _>::new(limiter());
    let state = limiter().state();
    let used = || {
        let (limiter, users) = (limiter(), users());
        limiter.charge(1);
        drop(users.key(&1).try_acquire());
        (limiter, users)
    };
    row(TOO_LATE, || used().0.restore(&state, SECOND));
    row(TOO_LATE, || used().0.window_ends_in(SECOND, 1));
    row(TOO_LATE, || used().1.restore([(1, state.clone())], SECOND));
    row(TOO_LATE, || {
        limiter().window_ends_in(SECOND, 1).jitter(SECOND)
    });
    row(TOO_LATE, || {
        let restored = limiter().restore(&state, SECOND);
        restored.map(|limiter| limiter.max_waiters(1))
    });
    row(TOO_LATE, || {
        let restored = users().restore([(1, state.clone())], SECOND);
        restored.map(|users| users.max_keys(1))
    });
}

#[test]
fn option_of_a_leaky_bucket_after_the_first_use_panics() {
    options::<LeakyBucket>(
        || LeakyBucket::new(Quota::per_hour(1), 1),
        &[
            |bucket| drop(bucket.try_acquire()),
            |bucket| {
                bucket.try_acquire().expect("it is empty");
                cancel(bucket.acquire());
            },
            LeakyBucket::close,
        ],
        &[
            |bucket| bucket.missed_tick(MissedTickBehavior::Delay),
            |bucket| bucket.clock(Clock::manual()),
        ],
    );
}

#[test]
fn option_of_an_adaptive_rate_after_the_first_use_panics() {
    options::<AdaptiveRate>(
        || {
            let rate = AdaptiveRate::new().clock(Clock::manual());
            // Not a use.
            assert_eq!(rate.rate(), 10.0);
            rate
        },
        &[
            |rate| drop(rate.try_acquire()),
            |rate| {
                forget(rate.try_acquire());
                cancel(rate.acquire());
            },
            AdaptiveRate::close,
        ],
        &[
            |rate| rate.limits(1.0..=20.0),
            |rate| rate.initial_rate(11.0),
            |rate| rate.burst(1),
            |rate| rate.max_pause(SECOND),
            |rate| rate.max_waiters(1),
            |rate| rate.clock(Clock::manual()),
        ],
    );
}

#[test]
fn option_of_an_adaptive_semaphore_after_the_first_use_panics() {
    options::<AdaptiveSemaphore>(
        AdaptiveSemaphore::default,
        &[
            |semaphore| drop(semaphore.try_acquire()),
            |semaphore| forget(semaphore.try_acquire()),
            |semaphore| (0..500).for_each(|_| drop(semaphore.try_acquire())),
        ],
        &[
            |semaphore| semaphore.limits(1..=1),
            |semaphore| semaphore.max_waiters(1),
            |semaphore| semaphore.clock(Clock::manual()),
        ],
    );
}

#[test]
fn option_of_a_map_of_rate_limiters_after_the_first_use_panics() {
    options::<Keyed<u8, RateLimiter>>(
        || Keyed::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual())),
        &[
            |users| drop(users.key(&1).try_acquire()),
            |users| {
                while users.key(&1).try_acquire().is_ok() {}
                cancel(users.key(&1).acquire());
            },
            |users| users.set_quota(Quota::per_hour(2)),
        ],
        &[
            |users| users.max_keys(1),
            |users| users.when_full(WhenFull::Reject),
            |users| users.quotas(|_| Quota::per_hour(2)),
            |users| users.hasher(Default::default()),
        ],
    );
}

#[test]
fn option_of_a_map_of_semaphores_after_the_first_use_panics() {
    options::<Keyed<u8, Semaphore>>(
        || Keyed::semaphores(1),
        &[
            |users| drop(users.key(&1).try_acquire()),
            |users| forget(users.key(&1).try_acquire()),
            |users| users.set_permits(2),
        ],
        &[
            |users| users.max_keys(1),
            |users| users.permits(|_| 2),
            |users| users.hasher(Default::default()),
        ],
    );
}

#[test]
fn option_of_a_map_of_gates_after_the_first_use_panics() {
    options::<Keyed<u8, Gate>>(
        Keyed::gates,
        &[
            |chats| drop(chats.key(&1).try_acquire()),
            |chats| drop(chats.key(&1).pause_for(SECOND)),
        ],
        &[
            |chats| chats.max_keys(1),
            |chats| chats.hasher(Default::default()),
        ],
    );
}

#[test]
fn limit_of_keys_after_its_first_use_panics() {
    options::<RateLimiter>(
        || RateLimiter::new(Quota::per_hour(1)),
        &[
            |limiter| drop(limiter.try_acquire()),
            |limiter| limiter.set_quota(Quota::per_hour(2)),
            RateLimiter::close,
        ],
        &[|limiter| {
            drop(Keyed::<u8, _>::new(limiter));
            RateLimiter::new(Quota::per_hour(1))
        }],
    );
    let uses: [fn(&Semaphore); 2] = [Semaphore::close, |semaphore| {
        forget(semaphore.try_acquire());
    }];
    for used in uses {
        let semaphore = Semaphore::new(1);
        used(&semaphore);
        row(TOO_LATE, || Keyed::<u8, _>::new(semaphore));
    }
    options::<Gate>(
        Gate::new,
        &[|gate| forget(gate.clone()), |gate| gate.block_for(SECOND)],
        &[|gate| {
            drop(Keyed::<u8, _>::new(gate));
            Gate::new()
        }],
    );
    // A semaphore keeps nothing of an ended call, except for its limit.
    let semaphore = Semaphore::new(1);
    drop(semaphore.try_acquire());
    semaphore.set_permits(2);
    let users = Keyed::<u8, _>::new(semaphore);
    assert_eq!(users.key(&1).snapshot().limit, 2);
}

#[test]
fn option_of_a_gate_after_the_first_use_panics() {
    options::<Gate>(
        || {
            let gate = Gate::new();
            // A check of an open gate leaves nothing behind.
            gate.check().expect("it is open");
            gate
        },
        &[
            |gate| forget(gate.clone()),
            |gate| gate.block_for(SECOND),
            |gate| {
                gate.block_for(Duration::MAX);
                cancel(gate.acquire());
                gate.open();
            },
        ],
        &[|gate| gate.clock(Clock::manual())],
    );
}

#[test]
fn option_of_a_type_that_keeps_nothing_of_its_calls_is_never_late() {
    let semaphore = Semaphore::new(1);
    drop(semaphore.try_acquire());
    let semaphore = semaphore.max_waiters(0);
    let held = semaphore.try_acquire().unwrap();
    assert!(semaphore.acquire().wait().is_err());
    drop(held);

    let pool = Pool::new([1]);
    drop(pool.try_acquire());
    let pool = pool.check_on_return(|_| false);
    drop(pool.try_acquire());
    assert_eq!(pool.snapshot().available, 0);
}

fn queue() -> FairQueue<Arc<Semaphore>, u32> {
    FairQueue::new(Arc::new(Semaphore::new(1)))
}

#[test]
fn settings_of_classes_and_queues() {
    panics! {
        "the weight of a class must be at least 1, not 0" => Class::new().weight(0);
        "the maximum concurrency of a class must be at least 1, not 0" =>
            Class::new().max_concurrency(0);
        "a fair queue needs at least 1 class, not 0" => queue().max_classes(0);
        "the period of aging must be longer than 0ns" => queue().aging(Duration::ZERO);
    }
    allowed! {
        Class::new().weight(u32::MAX).max_concurrency(1);
        queue().max_classes(1).aging(Duration::MAX).max_waiters(0);
    }
}

#[test]
fn an_option_of_a_fair_queue_that_is_in_use() {
    let shared = queue();
    let class = shared.class(1);
    row(TOO_LATE, || shared.max_waiters(1));
    let permit = class.try_acquire().unwrap();
    row("no class", || {
        queue().classes(|_| panic!("no class")).class(1)
    });
    drop(permit);
}

/// The queue remembers the class, and its bounds.
#[test]
fn an_option_of_a_fair_queue_that_remembers_a_class() {
    options::<FairQueue<Arc<Semaphore>, u32>>(
        || {
            let queue = queue();
            drop(queue.class(1));
            queue
        },
        &[|queue| drop(queue.class(1).try_acquire().unwrap())],
        &[
            |queue| queue.classes(|_| Class::new()),
            |queue| queue.share(Share::ByCost),
            |queue| queue.max_classes(1),
            |queue| queue.max_waiters(1),
            |queue| queue.aging(Duration::MAX),
            |queue| queue.clock(Clock::manual()),
        ],
    );
}
