//! Failures of rates with clocks that go back, jump, or disagree.
//!
//! The clocks of the crate do not go back for one thread. But two runtimes with paused time may have
//! different times, and a limiter that both use, in turn or at once, sees a later time and then an earlier
//! one, by any amount; `tests/clocks/tokio_runtimes.rs` tests each of these alone, and at once.

use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::support::Waiter;

/// Returns the number of single calls that are admitted at once.
fn at_once(limiter: &RateLimiter) -> usize {
    (0..).take_while(|_| limiter.try_acquire().is_ok()).count()
}

/// A clock's numbers are small in tests, but on a real machine they are large, odd and different in
/// two threads.
///
/// Seen in governor#157. Here, every rule runs on the system clock, with threads that take whatever
/// they can.
#[test]
fn bugs_that_only_show_on_real_clocks() {
    const PERIOD: Duration = Duration::from_micros(500);
    let quota = Quota::new(10, PERIOD).burst(10);
    for &algorithm in Algorithm::all() {
        let most = algorithm.most_in(quota, PERIOD) as usize;
        let limiter = RateLimiter::new(quota).algorithm(algorithm);
        let mut ticks = thread::scope(|scope| {
            let tries = || {
                let tries = (0..20_000).filter_map(|_| limiter.try_acquire().ok());
                tries
                    .map(|charge| charge.at().as_nanos())
                    .collect::<Vec<u64>>()
            };
            let threads = [scope.spawn(tries), scope.spawn(tries)];
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        ticks.sort_unstable();
        let nanos = u64::try_from(PERIOD.as_nanos()).unwrap();
        for (number, from) in ticks.iter().enumerate() {
            let within = ticks[number..]
                .iter()
                .take_while(|tick| **tick - from < nanos);
            let count = within.count();
            assert!(count <= most, "{algorithm}: {count} from tick {from}");
        }
        assert!(!ticks.is_empty());
    }
}

/// The clock goes back, the time stamp counter drifts, the machine suspends.
///
/// Seen in tikv/minstant#23, tokio-rs/tokio#2784. Here, a suspension; a counter that drifts is a test of
/// the clock itself, `now_with_a_counter_that_drifts_is_corrected`.
#[test]
fn clock_leaps() {
    // It stops for ten minutes while three wait: each is charged in its turn, none twice, and
    // afterwards at most the burst is admitted.
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(2)).clock(&clock);
    limiter.try_acquire_many(2).unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| Waiter::parked(limiter.acquire())).collect();
    clock.advance(Duration::from_secs(600));
    for (seconds, waiter) in (1..).zip(&mut waiters) {
        assert_eq!(waiter.granted().at().as_nanos(), seconds * 1_000_000_000);
    }
    assert_eq!(at_once(&limiter), 2);
}

/// The same on the system clock.
#[test]
fn clock_goes_back_for_one_thread() {
    let clock = Clock::system();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = clock.now();
                for _ in 0..10_000 {
                    let now = clock.now();
                    assert!(now >= last);
                    last = now;
                }
            });
        }
    });
}

#[cfg(feature = "tokio")]
mod of_runtimes {
    use std::sync::Arc;
    use std::task::Poll;

    use super::*;
    use crate::support::audit::{Allowance, Entry};
    use crate::support::paused_runtime;
    use crate::support::random::Random;
    use tokio::runtime::Runtime;
    use tokio::time::{advance, sleep};

    const HOUR: Duration = Duration::from_secs(3600);
    const QUOTA: Quota = Quota::per_hour(1).burst(3);

    /// Runtimes; each is ahead of the one before.
    fn runtimes<const N: usize>(apart: Duration) -> [Runtime; N] {
        let mut ahead = Duration::ZERO;
        [(); N].map(|()| {
            let runtime = paused_runtime();
            runtime.block_on(advance(ahead));
            ahead += apart;
            runtime
        })
    }

    /// Random steps forward and changes between three runtimes, with tries, and with waits that are
    /// polled in changing runtimes: each runtime keeps the quota by its own time, and no wait is for
    /// a time that does not come.
    #[test]
    fn clock_goes_back_and_forth() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let limiter = Arc::new(RateLimiter::new(QUOTA).clock(Clock::tokio()));
            let runtimes: [Runtime; 3] = runtimes(2 * HOUR);
            let mut charges: [Vec<Entry>; 3] = Default::default();
            let mut waiting = Vec::new();
            for _ in 0..60 {
                let here = random.below(3) as usize;
                runtimes[here].block_on(async {
                    advance(HOUR / 4 * random.below(5)).await;
                    if random.below(3) == 0 {
                        waiting.push((here, Waiter::new(Arc::clone(&limiter).acquire_owned())));
                    } else if let Ok(charge) = limiter.try_acquire() {
                        charges[here].push((charge.at().as_nanos(), 1));
                    }
                    waiting.retain_mut(|(own, waiter)| match waiter.poll() {
                        Poll::Pending => true,
                        Poll::Ready(charge) => {
                            charges[*own].push((charge.unwrap().at().as_nanos(), 1));
                            false
                        }
                    });
                });
            }
            assert!(charges.iter().flatten().count() > 3);
            for charges in &mut charges {
                charges.sort_unstable();
                assert_eq!(Allowance::of(QUOTA).audit(charges), Ok(()));
            }
            for runtime in &runtimes {
                runtime.block_on(async {
                    sleep(HOUR * u32::try_from(waiting.len() + 1).unwrap()).await;
                });
            }
            for (_, waiter) in &mut waiting {
                waiter.granted();
            }
        }
    }
}

/// The timer that ends a wait.
#[cfg(feature = "tokio")]
mod timer {
    use tollgate::{AcquireError, ErrorKind, Semaphore, all};

    use super::*;
    use crate::support::kind;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    }

    /// Asserts that a wait that began in a runtime that has since ended finishes in another one.
    fn ends_elsewhere<T, F>(wait: impl FnOnce() -> F)
    where
        T: std::fmt::Debug,
        F: Future<Output = Result<T, AcquireError>>,
    {
        let driver = runtime();
        let mut waiter = {
            let _inside = driver.enter();
            Waiter::parked(wait())
        };
        drop(driver);
        let result = runtime().block_on(std::future::poll_fn(|context| {
            waiter.poll_with(context.waker())
        }));
        assert_eq!(kind(result), ErrorKind::TimedOut);
    }

    /// The runtime that drove the timer is gone, and every waiter hangs.
    ///
    /// Seen with limiters in statics across tests.
    #[test]
    fn runtime_that_drove_the_timer_is_gone() {
        static SHARED: Semaphore = Semaphore::new(0);
        const SHORT: Duration = Duration::from_millis(2);

        for _ in 0..3 {
            // Each is the first to wait, in a runtime of its own that is gone before the next
            // comes.
            let result = runtime().block_on(SHARED.acquire().timeout(SHORT));
            assert_eq!(kind(result), ErrorKind::TimedOut);
            // Leaves a task behind in the queue.
            let driver = runtime();
            let task = driver.spawn(SHARED.acquire().timeout(Duration::from_secs(3600)));
            driver.block_on(async {
                while SHARED.snapshot().waiting == 0 {
                    tokio::task::yield_now().await;
                }
            });
            drop(driver);
            assert!(task.is_finished());
            let result = SHARED.acquire().timeout(SHORT).wait();
            assert_eq!(kind(result), ErrorKind::TimedOut);
        }
        // A wait that began in a runtime that has since ended finishes elsewhere.
        ends_elsewhere(|| SHARED.acquire().timeout(SHORT));
        assert_eq!(SHARED.snapshot().waiting, 0);

        // The same with several in statics; one of them is tokio's.
        static SLOTS: Semaphore = Semaphore::new(1);
        static TOKIOS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);
        let both = all((&SLOTS, &TOKIOS));
        for _ in 0..3 {
            let result = runtime().block_on(both.acquire().timeout(SHORT));
            assert_eq!(kind(result), ErrorKind::TimedOut);
            ends_elsewhere(|| both.acquire().timeout(SHORT));
            assert_eq!(
                kind(both.acquire().timeout(SHORT).wait()),
                ErrorKind::TimedOut
            );
            assert_eq!(SLOTS.available_permits(), 1);
        }
    }
}
