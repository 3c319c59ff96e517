//! A queue in front of a rate whose timer is late: the charges are those of the rate alone, with the
//! same callers.
//!
//! Manual time is never late by itself. Here a waker advances it while it runs, and tokio's paused
//! time jumps past due ticks before its timers fire.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::rate::MissedTickBehavior;
use tollgate::throttle::{BoxThrottle, Weighted};
use tollgate::time::{ManualClock, Tick};
use tollgate::{
    AcquireError, Algorithm, Clock, Gate, Keyed, LeakyBucket, Quota, RateLimiter, Semaphore,
    Throttle, all,
};
use tollgate_adaptive::{AdaptiveRate, Shared};
use tollgate_observe::Observed;

use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;

fn limiter(
    quota: Quota,
    algorithm: Algorithm,
    missed: Option<MissedTickBehavior>,
    clock: impl Into<Clock>,
) -> RateLimiter {
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(clock);
    match missed {
        Some(missed) => limiter.missed_tick(missed),
        None => limiter,
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn millis(ticks: &[Tick]) -> Vec<u64> {
    let millis = ticks.iter().map(|tick| tick.as_nanos() / 1_000_000);
    millis.collect()
}

/// Lets five callers wait, the first of which takes 150 ms when it is woken, and returns the milliseconds at which
/// they are woken.
fn woken_behind_a_slow_waker<P: Debug, F>(clock: &ManualClock, acquire: impl Fn() -> F) -> [u64; 5]
where
    F: Future<Output = Result<P, AcquireError>>,
{
    let woken = [(); 5].map(|()| Arc::new(Mutex::new(None)));
    let mut waiters = [0, 1, 2, 3, 4].map(|at| {
        let (clock, woken) = (clock.clone(), Arc::clone(&woken[at]));
        let waker = calls_when_woken(move || {
            *woken.lock().unwrap() = Some(clock.now());
            if at == 0 {
                clock.advance(ms(150));
            }
        });
        Waiter::parked_with(acquire(), &waker)
    });
    for _ in 0..300 {
        clock.advance(ms(10));
    }
    waiters.iter_mut().for_each(|it| drop(it.granted()));
    let ticks = woken.map(|at| at.lock().unwrap().expect("it was woken"));
    let [a, b, c, d, e] = &millis(&ticks)[..] else {
        unreachable!("there are five");
    };
    [*a, *b, *c, *d, *e]
}

/// The caller that joins while the timer is late could have had a token at 300 ms, but it was not
/// there before 450 ms.
#[test]
fn acquire_behind_a_late_timer_is_not_charged_before_it_came() {
    let clock = Clock::manual();
    let burst = Some(MissedTickBehavior::Burst { max: 100 });
    let quota = Quota::per_second(10);
    let queue = FairQueue::new(Arc::new(limiter(quota, Algorithm::Gcra, burst, &clock)));
    drop(queue.class("a").try_acquire().unwrap());
    let comes = Arc::new(Mutex::new(None));
    let slow = calls_when_woken({
        let (clock, same, comes) = (clock.clone(), queue.clone(), Arc::clone(&comes));
        move || {
            clock.advance(ms(350));
            *comes.lock().unwrap() = Some(Waiter::parked(same.class("a").acquire()));
        }
    });
    let mut first = Waiter::new(queue.class("a").acquire());
    assert!(first.poll_with(&slow).is_pending());
    let mut waits = Waiter::parked(queue.class("a").acquire());
    clock.advance(ms(100));
    let mut comes = comes.lock().unwrap().take().expect("it was woken");
    let at = [&mut first, &mut waits, &mut comes].map(|waiter| waiter.granted().at());
    assert_eq!(millis(&at), [100, 200, 450]);
}

/// Asserts that callers behind a slow waker, alone and in a queue, are woken when they are due: the third one and
/// those after it as if the timer had not been late.
fn assert_makes_up<T>(name: &str, make: impl Fn(&ManualClock) -> T)
where
    T: Throttle<Permit: Debug + Send, Enter: Send> + Send + Sync + 'static,
{
    const DUE: [u64; 5] = [100, 250, 300, 400, 500];
    let clock = Clock::manual();
    let throttle = make(&clock);
    drop(throttle.enter_now().expect("nobody came before"));
    let alone = woken_behind_a_slow_waker(&clock, || throttle.enter());
    assert_eq!(alone, DUE, "{name}");
    assert_makes_up_behind_a_queue(name, make);
}

/// Asserts it only for callers in a queue.
fn assert_makes_up_behind_a_queue<T>(name: &str, make: impl Fn(&ManualClock) -> T)
where
    T: Throttle<Permit: Debug + Send, Enter: Send> + Send + Sync + 'static,
{
    let clock = Clock::manual();
    let class = FairQueue::new(make(&clock)).class("a");
    drop(class.enter_now().expect("nobody came before"));
    let behind = woken_behind_a_slow_waker(&clock, || class.acquire());
    assert_eq!(behind, [100, 250, 300, 400, 500], "{name}");
}

#[test]
fn acquire_of_each_rate_and_wrapper_makes_up_for_a_late_timer() {
    const TEN: Quota = Quota::per_second(10);
    const TWENTY: Quota = Quota::per_second(20).burst(2);
    let rate = |clock: &ManualClock| Arc::new(RateLimiter::new(TEN).clock(clock));
    let twice = |clock: &ManualClock| Arc::new(RateLimiter::new(TWENTY).clock(clock));
    assert_makes_up("a rate limiter", rate);
    assert_makes_up("borrowed", |clock| &*Box::leak(Box::new(rate(clock))));
    assert_makes_up("shared twice", |clock| Arc::new(rate(clock)));
    assert_makes_up("with a cost", |clock| twice(clock).cost_owned(2));
    assert_makes_up("optional", |clock| Some(rate(clock)));
    assert_makes_up("observed", |clock| Observed::new(rate(clock), ()));
    assert_makes_up("boxed", |clock| {
        BoxThrottle::new(BoxThrottle::new(rate(clock)))
    });
    assert_makes_up("a key", |clock| {
        let rates = Keyed::<u64, _>::new(RateLimiter::new(TEN).clock(clock));
        Arc::new(rates).key_owned(7)
    });
    assert_makes_up("a leaky bucket", |clock| {
        Arc::new(LeakyBucket::new(TEN, 9).clock(clock))
    });
    assert_makes_up("a borrowed leaky bucket", |clock| {
        &*Box::leak(Box::new(LeakyBucket::new(TEN, 9).clock(clock)))
    });
    let adaptive = |clock: &ManualClock| AdaptiveRate::new().limits(10.0..=10.0).clock(clock);
    assert_makes_up("an adaptive rate", |clock| Shared::from(adaptive(clock)));
    assert_makes_up("a borrowed adaptive rate", |clock| {
        &*Box::leak(Box::new(adaptive(clock)))
    });
    assert_makes_up("costs of a rate limiter", |clock| {
        Weighted::cost(&twice(clock), 2)
    });
    let lent = |clock: &ManualClock| &*Box::leak(Box::new(twice(clock)));
    assert_makes_up("costs of a borrowed one", |clock| {
        Weighted::cost(&&**lent(clock), 2)
    });
    assert_makes_up("costs, shared twice", |clock| {
        Weighted::cost(&Arc::new(twice(clock)), 2)
    });
    assert_makes_up("costs, optional", |clock| Some(twice(clock)).cost(2));
    assert_makes_up("costs, observed", |clock| {
        Observed::new(twice(clock), ()).cost(2)
    });
    assert_makes_up("costs of a key", |clock| {
        let rates = Keyed::<u64, _>::new(RateLimiter::new(TWENTY).clock(clock));
        Weighted::cost(&Arc::new(rates).key_owned(7), 2)
    });
}

/// Alone, a composition and a queue lose the lateness: their callers come one by one.
#[test]
fn acquire_of_compositions_and_queues_makes_up_for_a_late_timer_behind_a_queue() {
    const TEN: Quota = Quota::per_second(10);
    let rate = |clock: &ManualClock| Arc::new(RateLimiter::new(TEN).clock(clock));
    let slots = || Arc::new(Semaphore::new(9));
    assert_makes_up_behind_a_queue("all, the rate last", |clock| all((slots(), rate(clock))));
    assert_makes_up_behind_a_queue("all, the rate first", |clock| all((rate(clock), slots())));
    assert_makes_up_behind_a_queue("all of two rates", |clock| {
        let faster = RateLimiter::new(Quota::per_second(20)).clock(clock);
        all((rate(clock), slots(), Arc::new(faster)))
    });
    assert_makes_up_behind_a_queue("all of all", |clock| {
        all((all((slots(), rate(clock))), slots()))
    });
    assert_makes_up_behind_a_queue("a box of all", |clock| {
        BoxThrottle::new(all((slots(), rate(clock))))
    });
    assert_makes_up_behind_a_queue("a queue", |clock| FairQueue::new(rate(clock)).class(7));
    assert_makes_up_behind_a_queue("a queue of all", |clock| {
        FairQueue::new(all((slots(), rate(clock)))).class(7)
    });
    assert_makes_up_behind_a_queue("all of a queue", |clock| {
        all((slots(), FairQueue::new(rate(clock)).class(7)))
    });
    assert_makes_up_behind_a_queue("a queue of a queue", |clock| {
        FairQueue::new(FairQueue::new(rate(clock)).class(7)).class(8)
    });
    assert_makes_up_behind_a_queue("behind a gate", |clock| {
        Gate::new().clock(clock).before(rate(clock))
    });
}

/// A slot that is free too late is no lateness of a timer: the rate keeps nothing for the caller that waits for it.
#[test]
fn acquire_of_all_that_waits_for_a_slot_is_charged_as_of_then() {
    let clock = Clock::manual();
    let burst = Some(MissedTickBehavior::Burst { max: 100 });
    let rate = Arc::new(limiter(
        Quota::per_second(10),
        Algorithm::Gcra,
        burst,
        &clock,
    ));
    let slots = Arc::new(Semaphore::new(1));
    let queue = FairQueue::new(all((Arc::clone(&slots), Arc::clone(&rate))));
    let first = queue.class("a").try_acquire().unwrap();
    let mut waits = [(); 3].map(|()| Waiter::parked(queue.class("a").acquire()));
    clock.advance(ms(1_000));
    drop(first);
    let second = waits[0].granted();
    assert_eq!(millis(&[second.1.at()]), [1_000]);
    drop(second);
    assert!(waits[1].is_pending());
    clock.advance(ms(100));
    assert_eq!(millis(&[waits[1].granted().1.at()]), [1_100]);
    assert!(waits[2].is_pending());
}

/// Tokio's paused time jumps past due ticks, and only then do the timers fire.
#[cfg(feature = "tokio")]
mod jumps {
    use std::task::Poll;

    use tollgate::fair::{Class, FairPermit};
    use tollgate::rate::Charge;

    use super::*;
    use crate::support::audit::Allowance;
    use crate::support::paused_runtime;
    use crate::support::random::Random;

    const MISSED: [Option<MissedTickBehavior>; 6] = [
        None,
        Some(MissedTickBehavior::Delay),
        Some(MissedTickBehavior::Burst { max: 0 }),
        Some(MissedTickBehavior::Burst { max: 2 }),
        Some(MissedTickBehavior::Burst { max: 30 }),
        Some(MissedTickBehavior::Burst { max: u64::MAX }),
    ];

    /// The number of waiters that one call serves.
    const AT_ONCE: usize = 1024;

    async fn settle() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
        of[random.next() as usize % of.len()]
    }

    fn random_limiter(
        random: &mut Random,
        algorithm: Algorithm,
    ) -> (Quota, impl Fn() -> Arc<RateLimiter> + use<>) {
        let count = 2 * (3 + u64::from(random.below(150)));
        let quota = Quota::new(count, ms(1 + u64::from(random.below(60))));
        let quota = match algorithm {
            Algorithm::Gcra => quota.burst(1 + u64::from(random.below(6))),
            _ => quota,
        };
        let missed = one_of(random, &MISSED);
        (quota, move || {
            Arc::new(limiter(quota, algorithm, missed, Clock::tokio()))
        })
    }

    /// Jumps by whole milliseconds, to which tokio rounds timers up: afterwards, no due timer is
    /// left.
    fn random_jump(random: &mut Random) -> Duration {
        let most = one_of(random, &[3, 3, 100, 1_000]);
        ms(1 + u64::from(random.below(most)))
    }

    /// A caller of the limiter, and the same caller of a queue in front of another such limiter.
    struct Caller<A, B> {
        alone: Option<Waiter<A>>,
        behind: Option<Waiter<B>>,
        ticks: [Option<Tick>; 2],
    }

    /// Once in this many times, lets one of the waiters leave both.
    fn one_leaves<A, B>(random: &mut Random, callers: &mut [Caller<A, B>], one_in: u32) -> bool {
        let waits = callers.iter_mut().filter(|it| it.waits());
        let mut waiting: Vec<_> = waits.collect();
        let leaves = !waiting.is_empty() && random.below(one_in) == 0;
        if leaves {
            let at = random.next() as usize % waiting.len();
            (waiting[at].alone, waiting[at].behind) = (None, None);
        }
        leaves
    }

    impl<A, B> Caller<A, B> {
        fn waits(&self) -> bool {
            self.alone.is_some() || self.behind.is_some()
        }
    }

    impl<A, B> Caller<A, B>
    where
        A: Future<Output = Result<Charge, AcquireError>>,
        B: Future<Output = Result<FairPermit<Arc<RateLimiter>, &'static str>, AcquireError>>,
    {
        fn poll(&mut self) {
            if let Some(Poll::Ready(charge)) = self.alone.as_mut().map(Waiter::poll) {
                (self.ticks[0], self.alone) = (Some(charge.unwrap().at()), None);
            }
            if let Some(Poll::Ready(charge)) = self.behind.as_mut().map(Waiter::poll) {
                (self.ticks[1], self.behind) = (Some(charge.unwrap().at()), None);
            }
        }
    }

    #[test]
    fn acquire_at_random_behind_late_timers_is_charged_at_the_ticks_of_the_limiter() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let all = Algorithm::all();
            let algorithm = all[seed as usize % all.len()];
            paused_runtime().block_on(async {
                let (quota, make) = random_limiter(&mut random, algorithm);
                let (alone, queue) = (make(), FairQueue::new(make()));
                let most = alone.snapshot().limit.min(5);
                let mut callers = Vec::new();
                let mut steps = 0..40;
                loop {
                    let joins = random.below(8);
                    for _ in (0..joins).take_while(|_| !steps.is_empty()) {
                        let cost = 1 + random.next() % most;
                        let mut caller = Caller {
                            alone: Some(Waiter::new(Arc::clone(&alone).cost_owned(cost).acquire())),
                            behind: Some(Waiter::new(queue.class("a").acquire_many(cost))),
                            ticks: [None; 2],
                        };
                        caller.poll();
                        callers.push(caller);
                    }
                    if one_leaves(&mut random, &mut callers, 3) {
                        // The next waiter receives the charge now: a waiter that left with its charge
                        // would refund it to a limiter, and pass it on in a queue.
                        callers.iter_mut().for_each(Caller::poll);
                    }
                    if steps.next().is_none() && !callers.iter().any(Caller::waits) {
                        break;
                    }
                    tokio::time::advance(random_jump(&mut random)).await;
                    // Timers are late now, and a caller leaves. A limiter without a queue then serves
                    // the others, so a caller that left after that would leave with its charge.
                    one_leaves(&mut random, &mut callers, 2);
                    settle().await;
                    callers.iter_mut().for_each(Caller::poll);
                }
                for Caller {
                    ticks: [alone, behind],
                    ..
                } in &callers
                {
                    assert_eq!(behind, alone, "{seed}: {algorithm:?}, {quota:?}");
                }
            });
        }
    }

    /// Others use the limiter directly, callers leave while the timer is late, even with an
    /// uncollected charge, and some charges are refunded.
    #[test]
    fn acquire_at_random_beside_others_never_exceeds_the_quota_by_the_ticks() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            paused_runtime().block_on(async {
                let (quota, make) = random_limiter(&mut random, Algorithm::Gcra);
                let queue = FairQueue::new(make());
                let limiter = Arc::clone(queue.throttle());
                let burst = quota.max_burst();
                let (mut direct, mut behind, mut charges) = (Vec::new(), Vec::new(), Vec::new());
                for step in 0..80 {
                    for _ in 0..random.below(if step < 40 { 8 } else { 1 }) {
                        let cost = 1 + random.next() % burst;
                        match random.below(3) {
                            0 => charges.extend(limiter.try_acquire_many(cost)),
                            1 => {
                                direct
                                    .push(Waiter::new(limiter.clone().cost_owned(cost).acquire()));
                            }
                            _ => behind.push(Waiter::new(queue.class("a").acquire_many(cost))),
                        }
                    }
                    tokio::time::advance(random_jump(&mut random)).await;
                    let leaves = random.below(20) as usize;
                    if leaves < behind.len() {
                        drop(behind.remove(leaves));
                    }
                    if random.below(2) == 0 {
                        settle().await;
                    }
                    direct.retain_mut(|waiter| match waiter.poll() {
                        Poll::Ready(charge) => {
                            charges.push(charge.unwrap());
                            false
                        }
                        Poll::Pending => true,
                    });
                    behind.retain_mut(|waiter| match waiter.poll() {
                        Poll::Ready(charge) => {
                            charges.push(charge.unwrap().into_inner());
                            false
                        }
                        Poll::Pending => true,
                    });
                    if random.below(4) == 0 {
                        charges
                            .pop()
                            .into_iter()
                            .for_each(|charge| limiter.refund(charge));
                    }
                }
                let charged = charges
                    .iter()
                    .map(|charge| (charge.at().as_nanos(), charge.cost()));
                let audited = Allowance::of(quota).audit(&charged.collect::<Vec<_>>());
                assert_eq!(audited, Ok(()), "{seed}: {quota:?}, {charges:?}");
            });
        }
    }

    /// Returns a limiter of 10/s that has spent its burst of 2.
    fn spent() -> Arc<RateLimiter> {
        let burst = Some(MissedTickBehavior::Burst { max: 100 });
        let quota = Quota::per_second(10).burst(2);
        let limiter = limiter(quota, Algorithm::Gcra, burst, Clock::tokio());
        limiter.try_acquire_many(2).unwrap();
        Arc::new(limiter)
    }

    /// The waiter of higher priority goes first, and takes no more than its cost from the others,
    /// which were waiting all the time.
    #[test]
    fn acquire_of_a_higher_class_behind_a_late_timer_takes_only_its_cost_from_the_lower() {
        for cost in [1, 2] {
            paused_runtime().block_on(async {
                let queue = FairQueue::new(spent())
                    .classes(|key| Class::new().priority(u8::from(*key == "high")));
                let low = || Waiter::parked(queue.class("low").acquire());
                let mut low: Vec<_> = (0..40).map(|_| low()).collect();
                for _ in 0..3 {
                    tokio::time::advance(ms(1000)).await;
                    let mut high = Waiter::new(queue.class("high").acquire_many(cost));
                    let permit = high.poll();
                    settle().await;
                    if permit.is_pending() {
                        drop(high.granted());
                    }
                }
                let mut admitted = 0;
                for waiter in &mut low {
                    admitted += u64::from(waiter.poll().is_ready());
                }
                assert_eq!(admitted, 30 - 3 * cost);
            });
        }
    }

    /// Returns a limiter of 100,000/s that has spent its burst.
    fn fast() -> Arc<RateLimiter> {
        let burst = Some(MissedTickBehavior::Burst { max: u64::MAX });
        let quota = Quota::per_second(100_000);
        let limiter = limiter(quota, Algorithm::Gcra, burst, Clock::tokio());
        limiter.try_acquire().unwrap();
        Arc::new(limiter)
    }

    #[test]
    fn try_acquire_by_a_bystander_of_a_late_timer_serves_a_part_of_the_queue() {
        paused_runtime().block_on(async {
            let queue = FairQueue::new(fast());
            let park = |_| Waiter::parked(queue.class("a").acquire());
            let waiters: Vec<_> = (0..3 * AT_ONCE).map(park).collect();
            tokio::time::advance(ms(1000)).await;
            drop(queue.throttle().try_acquire());
            assert_eq!(queue.waiting(), 2 * AT_ONCE);
            // One more is served.
            let woken = waiters.iter().filter(|waiter| waiter.wakes() > 0);
            assert_eq!(woken.count(), AT_ONCE + 1);
        });
    }

    /// A waiter that is served later enters at the tick of the last charge.
    #[test]
    fn acquire_of_many_behind_a_late_timer_is_charged_without_a_gap() {
        paused_runtime().block_on(async {
            let queue = FairQueue::new(fast());
            let park = |_| Waiter::parked(queue.class("a").acquire());
            let mut waiters: Vec<_> = (0..3 * AT_ONCE).map(park).collect();
            tokio::time::advance(ms(1000)).await;
            settle().await;
            assert_eq!(queue.waiting(), 2 * AT_ONCE);
            let at: Vec<_> = waiters.iter_mut().map(|it| it.granted().at()).collect();
            for next in at.windows(2) {
                assert_eq!(next[1].as_nanos() - next[0].as_nanos(), 10_000);
            }
        });
    }
}
