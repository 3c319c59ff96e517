//! `AdaptiveSemaphore`: what is measured, when the controller runs, and what becomes of its answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tollgate::adaptive::{AdaptiveSemaphore, Controller, Gradient, Progress, SampleWindow, Target};
use tollgate::{Clock, ErrorKind, ManualClock, Throttle, TryThrottle, all};

use crate::support::random::Random;
use crate::support::{Waiter, kind};

const MS: Duration = Duration::from_millis(1);

/// Answers with the given targets, the last of them for ever, and keeps the windows.
struct Scripted {
    targets: Vec<Target>,
    next: usize,
    seen: Arc<Mutex<Vec<SampleWindow>>>,
}

impl Controller for Scripted {
    fn initial(&self) -> Target {
        self.targets[0]
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.seen.lock().unwrap().push(*window);
        self.next = (self.next + 1).min(self.targets.len() - 1);
        self.targets[self.next]
    }
}

struct Scene {
    semaphore: Arc<AdaptiveSemaphore>,
    clock: ManualClock,
    seen: Arc<Mutex<Vec<SampleWindow>>>,
}

impl Scene {
    fn new<const N: usize>(targets: [(f64, u32); N]) -> Self {
        let (clock, seen) = (Clock::manual(), Arc::default());
        let targets = targets.map(|(limit, samples)| Target { limit, samples });
        let controller = Scripted {
            targets: targets.into(),
            next: 0,
            seen: Arc::clone(&seen),
        };
        Self {
            semaphore: Arc::new(AdaptiveSemaphore::new(controller).clock(&clock)),
            clock,
            seen,
        }
    }

    /// Makes a call that takes this long.
    #[track_caller]
    fn call(&self, latency: Duration) {
        let permit = self.semaphore.try_acquire().unwrap();
        self.clock.advance(latency);
        drop(permit);
    }

    fn windows(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    #[track_caller]
    fn last(&self) -> SampleWindow {
        *self
            .seen
            .lock()
            .unwrap()
            .last()
            .expect("a window has ended")
    }
}

#[test]
fn drop_of_a_permit_adds_the_time_since_it_was_received() {
    let scene = Scene::new([(4.0, 3), (6.0, 1)]);
    scene.call(4 * MS);
    scene.call(8 * MS);
    assert_eq!(
        (scene.semaphore.snapshot().permits.limit, scene.windows()),
        (4, 0)
    );
    scene.call(Duration::ZERO);
    assert_eq!(
        (scene.semaphore.snapshot().permits.limit, scene.windows()),
        (6, 1)
    );

    let window = scene.last();
    assert_eq!((window.limit(), window.samples()), (4.0, 3));
    assert_eq!(window.min_latency(), Some(Duration::from_nanos(1)));
    let sum = 12 * MS + Duration::from_nanos(1);
    assert_eq!(window.mean_latency(), Some(sum / 3));
    assert_eq!((window.max_in_flight(), window.mean_in_flight()), (1, 1.0));
}

#[test]
fn acquire_after_a_wait_does_not_count_the_wait() {
    let scene = Scene::new([(1.0, 2), (1.0, 2)]);
    let held = scene.semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(scene.semaphore.acquire());
    scene.clock.advance(9 * MS);
    drop(held);
    // Granted, and not received yet.
    scene.clock.advance(50 * MS);
    let permit = waiter.granted();
    scene.clock.advance(3 * MS);
    drop(permit);
    let window = scene.last();
    assert_eq!(window.min_latency(), Some(3 * MS));
    assert_eq!(window.mean_latency(), Some(6 * MS));
}

#[test]
fn permit_of_an_earlier_window_says_nothing_about_the_next() {
    let scene = Scene::new([(4.0, 8), (2.0, 1), (9.0, 1)]);
    // Twelve calls may begin in a window of eight samples.
    let slow = scene.semaphore.try_acquire().unwrap();
    (0..8).for_each(|_| scene.call(MS));
    assert_eq!(scene.semaphore.snapshot().permits.limit, 2);
    scene.clock.advance(90 * MS);
    drop(slow);
    assert_eq!(scene.windows(), 1);
    scene.call(2 * MS);
    assert_eq!(scene.last().mean_latency(), Some(2 * MS));
    assert_eq!(scene.semaphore.snapshot().permits.limit, 9);
}

#[test]
fn permit_beyond_the_places_of_the_window_is_not_measured() {
    let scene = Scene::new([(100.0, 8), (100.0, 8)]);
    let measured: Vec<_> = (0..12).map(|_| scene.semaphore.try_acquire()).collect();
    let more: Vec<_> = (0..20).map(|_| scene.semaphore.try_acquire()).collect();
    scene.clock.advance(MS);
    drop(more);
    assert_eq!(
        (scene.semaphore.snapshot().window.samples(), scene.windows()),
        (0, 0)
    );
    measured.into_iter().rev().for_each(drop);
    let window = scene.last();
    assert_eq!((window.samples(), window.max_in_flight()), (8, 12));
}

#[test]
fn ignore_of_a_call_of_an_earlier_window_gives_no_place_in_the_next() {
    let scene = Scene::new([(100.0, 8), (100.0, 8)]);
    let earlier = scene.semaphore.try_acquire().unwrap();
    (0..8).for_each(|_| scene.call(MS));
    assert_eq!(scene.windows(), 1);
    earlier.ignore();
    // All twelve places of the window are taken.
    let measured: Vec<_> = (0..12).map(|_| scene.semaphore.try_acquire()).collect();
    drop(scene.semaphore.try_acquire().unwrap());
    assert_eq!(scene.semaphore.snapshot().window.samples(), 0);
    measured.into_iter().for_each(drop);
    assert_eq!(scene.windows(), 2);
}

#[test]
fn permit_that_hangs_does_not_keep_a_window_from_ending() {
    let scene = Scene::new([(50.0, 16), (60.0, 16)]);
    let hung = [(); 8].map(|()| scene.semaphore.try_acquire().unwrap());
    (0..16).for_each(|_| scene.call(MS));
    assert_eq!(scene.semaphore.snapshot().permits.limit, 60);
    assert_eq!(scene.semaphore.snapshot().permits.in_use, 8);
    hung.into_iter().for_each(std::mem::forget);
    (0..16).for_each(|_| scene.call(MS));
    assert_eq!(scene.windows(), 2);
}

#[test]
fn ignore_gives_the_place_to_another_call() {
    let scene = Scene::new([(5.0, 2), (5.0, 2)]);
    for _ in 0..100 {
        scene.semaphore.try_acquire().unwrap().ignore();
        let throttle = &*scene.semaphore;
        (&throttle).rollback(throttle.try_acquire().unwrap());
    }
    assert_eq!(scene.windows(), 0);
    scene.call(MS);
    scene.call(MS);
    assert_eq!((scene.windows(), scene.last().samples()), (1, 2));
}

#[test]
fn permit_dropped_by_a_panic_is_ignored() {
    let scene = Scene::new([(5.0, 1), (7.0, 1)]);
    let panicked = std::panic::catch_unwind(|| {
        let _permit = scene.semaphore.try_acquire().unwrap();
        panic!("as the test wants it");
    });
    assert!(panicked.is_err());
    assert_eq!(
        (scene.windows(), scene.semaphore.snapshot().permits.in_use),
        (0, 0)
    );
    scene.call(MS);
    assert_eq!(scene.semaphore.snapshot().permits.limit, 7);
}

#[test]
fn overloaded_counts_without_a_latency() {
    let scene = Scene::new([(5.0, 3), (4.0, 3)]);
    scene.semaphore.try_acquire().unwrap().overloaded();
    scene.call(3 * MS);
    scene.clock.advance(MS);
    scene.semaphore.try_acquire().unwrap().overloaded();
    let window = scene.last();
    assert_eq!((window.samples(), window.overloaded()), (3, 2));
    assert_eq!(window.mean_latency(), Some(3 * MS));
    assert_eq!(scene.semaphore.snapshot().permits.limit, 4);
}

#[test]
fn update_with_a_limit_that_is_none_changes_nothing_and_is_counted() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0];
    for limit in bad {
        let scene = Scene::new([(5.0, 2), (limit, 77), (6.0, 1)]);
        scene.call(MS);
        scene.call(MS);
        let snapshot = scene.semaphore.snapshot();
        assert_eq!((snapshot.windows, snapshot.rejected_targets), (1, 1));
        assert_eq!(scene.semaphore.snapshot().permits.limit, 5);
        // The size of the window stays as well.
        scene.call(MS);
        assert_eq!(scene.semaphore.snapshot().permits.limit, 5);
        scene.call(MS);
        assert_eq!(scene.semaphore.snapshot().permits.limit, 6);
        assert_eq!(scene.last().limit(), 5.0);
    }
}

#[test]
fn update_out_of_the_range_is_clamped_and_the_window_says_so() {
    let scene = Scene::new([
        (5.0, 1),
        (1e300, 1),
        (1e-300, 1),
        (2.5, 1),
        (2.4, 0),
        (2.4, 0),
    ]);
    let limits = [5, 1000, 1, 3, 2, 2];
    for limit in limits {
        assert_eq!(scene.semaphore.snapshot().permits.limit, limit);
        scene.call(MS);
    }
    let seen: Vec<f64> = scene
        .seen
        .lock()
        .unwrap()
        .iter()
        .map(SampleWindow::limit)
        .collect();
    assert_eq!(seen, [5.0, 1000.0, 1.0, 2.5, 2.4, 2.4]);
    assert_eq!(scene.semaphore.snapshot().rejected_targets, 0);
}

#[test]
fn limits_apply_to_the_initial_limit() {
    struct Twenty;
    impl Controller for Twenty {
        fn initial(&self) -> Target {
            Target {
                limit: 20.0,
                samples: 1,
            }
        }
        fn update(&mut self, window: &SampleWindow) -> Target {
            Target {
                limit: window.limit() * 2.0,
                samples: 1,
            }
        }
    }
    for (range, first, second) in [(3..=9, 9, 9), (25..=30, 25, 30), (1..=1, 1, 1)] {
        let semaphore = AdaptiveSemaphore::new(Twenty).limits(range);
        assert_eq!(semaphore.snapshot().permits.limit, first);
        drop(semaphore.try_acquire());
        assert_eq!(semaphore.snapshot().permits.limit, second);
    }
    let most = tollgate::Semaphore::MAX_PERMITS;
    let semaphore = AdaptiveSemaphore::new(Twenty).limits(most..=most);
    drop(semaphore.try_acquire());
    assert_eq!(semaphore.snapshot().permits.limit, most as u64);
}

#[test]
fn limits_set_twice_keep_what_the_controller_wants() {
    let semaphore = AdaptiveSemaphore::new(Gradient::default()).limits(1..=5);
    assert_eq!(semaphore.snapshot().permits.limit, 5);
    let semaphore = semaphore.limits(1..=100);
    assert_eq!(semaphore.snapshot().permits.limit, 20);
}

/// A controller whose windows of ten samples go on as is said of each number of samples.
struct Progressing(fn(&SampleWindow) -> Progress);

impl Controller for Progressing {
    fn initial(&self) -> Target {
        Target {
            limit: 5.0,
            samples: 10,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        Target {
            limit: f64::from(window.samples()),
            samples: 10,
        }
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        (self.0)(window)
    }
}

/// Returns the number of the calls that one thread makes until the first window ends, and the samples of
/// that window.
fn first_window(progress: fn(&SampleWindow) -> Progress) -> (usize, u64) {
    let semaphore = AdaptiveSemaphore::new(Progressing(progress)).clock(Clock::manual());
    let calls = (1..100).find(|_| {
        drop(semaphore.try_acquire().unwrap());
        semaphore.snapshot().windows == 1
    });
    (calls.unwrap(), semaphore.snapshot().permits.limit)
}

#[test]
fn progress_is_asked_after_every_fourth_sample_of_a_window_that_is_not_full() {
    assert_eq!(first_window(|_| Progress::Continue), (10, 10));
    assert_eq!(first_window(|_| Progress::End), (4, 4));
    let at_eight = |window: &SampleWindow| {
        assert!([4, 8].contains(&window.samples()), "{window:?}");
        match window.samples() {
            8 => Progress::End,
            _ => Progress::Continue,
        }
    };
    assert_eq!(first_window(at_eight), (8, 8));
}

#[test]
fn progress_that_discards_begins_the_window_again_with_places_for_all() {
    // It is asked about the first four samples, drops them, and then about four others.
    let first_four = |window: &SampleWindow| match window.ended() == Duration::ZERO {
        true => Progress::Discard,
        false => Progress::Continue,
    };
    let semaphore = AdaptiveSemaphore::new(Progressing(first_four));
    let clock = Clock::manual();
    let semaphore = semaphore.clock(&clock);
    for calls in 1..=14 {
        assert_eq!(semaphore.snapshot().windows, 0);
        drop(semaphore.try_acquire().unwrap());
        let counted = if calls < 4 { calls } else { calls - 4 };
        if calls < 14 {
            assert_eq!(semaphore.snapshot().window.samples(), counted);
        }
        if calls == 4 {
            clock.advance(Duration::from_secs(7));
        }
    }
    assert_eq!(semaphore.snapshot().windows, 1);
    assert_eq!(semaphore.snapshot().permits.limit, 10);
}

#[test]
fn progress_that_panics_lets_the_window_go_on() {
    assert_eq!(first_window(|_| panic!("as the test wants it")), (10, 10));
}

#[test]
fn progress_may_use_the_semaphore() {
    static SEMAPHORE: Mutex<Option<Arc<AdaptiveSemaphore>>> = Mutex::new(None);
    let uses = |_: &SampleWindow| {
        let semaphore = SEMAPHORE.lock().unwrap().clone().unwrap();
        drop(semaphore.try_acquire());
        assert_eq!(semaphore.snapshot().windows, 0);
        Progress::Continue
    };
    let semaphore = Arc::new(AdaptiveSemaphore::new(Progressing(uses)));
    *SEMAPHORE.lock().unwrap() = Some(Arc::clone(&semaphore));
    for _ in 0..20 {
        drop(semaphore.try_acquire().unwrap());
    }
    assert!(semaphore.snapshot().windows > 0);
}

/// A controller that does what no controller should.
struct Odd {
    semaphore: Arc<Mutex<Option<Arc<AdaptiveSemaphore>>>>,
    updates: Arc<AtomicUsize>,
}

impl Controller for Odd {
    fn initial(&self) -> Target {
        Target {
            limit: 3.0,
            samples: 1,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.updates.fetch_add(1, Ordering::Relaxed);
        let semaphore = self.semaphore.lock().unwrap().clone().unwrap();
        // Its own call still has a permit, and no window is open.
        assert_eq!(semaphore.snapshot().permits.in_use, 1);
        drop(semaphore.try_acquire());
        assert_eq!(
            semaphore.snapshot().windows as usize,
            self.updates.load(Ordering::Relaxed) - 1
        );
        assert!(window.overloaded() == 0, "as the test wants it");
        Target {
            limit: 5.0,
            samples: 1,
        }
    }
}

#[test]
fn update_may_use_the_semaphore_and_panic() {
    let (own, updates) = (Arc::default(), Arc::default());
    let odd = Odd {
        semaphore: Arc::clone(&own),
        updates: Arc::clone(&updates),
    };
    let semaphore = Arc::new(AdaptiveSemaphore::new(odd));
    *own.lock().unwrap() = Some(Arc::clone(&semaphore));
    semaphore.try_acquire().unwrap().overloaded();
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.windows, snapshot.rejected_targets), (1, 1));
    assert_eq!(
        (
            semaphore.snapshot().permits.limit,
            semaphore.snapshot().permits.in_use
        ),
        (3, 0)
    );
    drop(semaphore.try_acquire());
    assert_eq!(
        (
            semaphore.snapshot().permits.limit,
            updates.load(Ordering::Relaxed)
        ),
        (5, 2)
    );
    own.lock().unwrap().take();
}

#[test]
fn update_that_raises_the_limit_admits_waiters() {
    let scene = Scene::new([(1.0, 1), (3.0, 1)]);
    let held = scene.semaphore.try_acquire().unwrap();
    let mut waiters = [(); 4].map(|()| Waiter::parked(scene.semaphore.acquire()));
    assert_eq!(
        (
            scene.semaphore.snapshot().permits.waiting,
            scene.semaphore.snapshot().permits.in_use
        ),
        (4, 1)
    );
    drop(held);
    let granted: Vec<_> = waiters.iter().map(Waiter::wakes).collect();
    assert_eq!(granted, [1, 1, 1, 0]);
    let _permits: Vec<_> = waiters[..3].iter_mut().map(Waiter::granted).collect();
}

#[test]
fn update_that_lowers_the_limit_takes_no_permit_away() {
    let scene = Scene::new([(3.0, 1), (1.0, 1), (1.0, 1)]);
    let mut permits = [(); 3].map(|()| scene.semaphore.try_acquire().ok());
    permits[0] = None;
    assert_eq!(
        (
            scene.semaphore.snapshot().permits.limit,
            scene.semaphore.snapshot().permits.in_use
        ),
        (1, 2)
    );
    permits[1] = None;
    assert_eq!(kind(scene.semaphore.try_acquire()), ErrorKind::NoPermits);
    permits[2] = None;
    assert!(scene.semaphore.try_acquire().is_ok());
}

#[test]
fn close_refuses_waiters_and_newcomers_and_leaves_samples_alone() {
    let scene = Scene::new([(1.0, 1), (4.0, 1)]);
    let held = scene.semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(scene.semaphore.acquire());
    let mut idle = Waiter::parked(scene.semaphore.wait_idle());
    scene.semaphore.close();
    assert!(scene.semaphore.is_closed());
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(held);
    assert!(idle.poll().is_ready());
    assert_eq!(scene.semaphore.snapshot().permits.limit, 4);
    assert_eq!(kind(scene.semaphore.try_acquire()), ErrorKind::Closed);
}

#[test]
fn timeout_runs_on_the_clock_of_the_semaphore() {
    let scene = Scene::new([(1.0, 1)]);
    let _held = scene.semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(scene.semaphore.acquire().timeout(5 * MS));
    scene.clock.advance(4 * MS);
    assert!(waiter.is_pending());
    scene.clock.advance(MS);
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_eq!(scene.semaphore.snapshot().permits.waiting, 0);
}

#[test]
fn all_refused_later_ignores_the_call() {
    let scene = Scene::new([(2.0, 1), (9.0, 1)]);
    let full = tollgate::Semaphore::new(0);
    let both = all((&*scene.semaphore, &full));
    assert!(both.try_enter().is_err());
    drop(Waiter::parked(both.enter()));
    assert_eq!(
        (scene.windows(), scene.semaphore.snapshot().permits.in_use),
        (0, 0)
    );
    scene.call(MS);
    assert_eq!(scene.semaphore.snapshot().permits.limit, 9);
}

#[test]
fn samples_from_many_threads_are_counted_or_lost_and_permits_are_neither() {
    const CALLS: u64 = 20_000;
    struct Swinging(bool);
    impl Controller for Swinging {
        fn initial(&self) -> Target {
            Target {
                limit: 2.0,
                samples: 10,
            }
        }
        fn update(&mut self, window: &SampleWindow) -> Target {
            assert_eq!(window.samples(), 10);
            self.0 = !self.0;
            let limit = if self.0 { 1.0 } else { 6.0 };
            Target { limit, samples: 10 }
        }
    }
    let semaphore = AdaptiveSemaphore::new(Swinging(false));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let semaphore = &semaphore;
            threads.spawn(move || {
                for call in 0..CALLS {
                    let permit = semaphore.acquire().wait().unwrap();
                    match (call + thread) % 7 {
                        0 => permit.ignore(),
                        1 => permit.overloaded(),
                        _ => drop(permit),
                    }
                }
            });
        }
    });
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.permits.in_use, snapshot.permits.waiting), (0, 0));
    assert_eq!(snapshot.rejected_targets, 0);
    assert!(snapshot.windows > 0);
    assert!(snapshot.windows * 10 + u64::from(snapshot.window.samples()) <= 4 * CALLS);
    // No place was lost: with nothing else under way, each call is a sample.
    for sample in snapshot.window.samples()..10 {
        assert_eq!(semaphore.snapshot().window.samples(), sample);
        drop(semaphore.try_acquire());
    }
    assert_eq!(semaphore.snapshot().windows, snapshot.windows + 1);
}

/// Asks for any number, sensible or not, in windows of any size.
struct Erratic(Random);

impl Controller for Erratic {
    fn initial(&self) -> Target {
        Target {
            limit: 3.0,
            samples: 3,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        assert!((1.0..=12.0).contains(&window.limit()));
        let limits = [
            0.4,
            1.0,
            2.5,
            5.0,
            9.0,
            1e9,
            0.0,
            -1.0,
            f64::NAN,
            f64::INFINITY,
        ];
        let limit = limits[self.0.below(10) as usize];
        let samples = self.0.below(12);
        assert!(self.0.below(50) > 0, "as the test wants it");
        Target { limit, samples }
    }
}

/// So many operations as the environment variable `ADAPTIVE_CASES` says, as in `scripts/nightly`.
#[test]
fn operations_at_random_lose_nothing() {
    let operations = std::env::var("ADAPTIVE_CASES");
    let operations = operations.map_or(100_000, |cases| cases.parse().expect("a number"));
    let mut random = Random::new(14);
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Erratic(Random::new(41))).limits(1..=12);
    let semaphore = semaphore.max_waiters(20).clock(&clock);
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    for _ in 0..operations {
        let limit = semaphore.snapshot().permits.limit;
        match random.below(8) {
            0 | 1 => match semaphore.try_acquire() {
                Ok(permit) => {
                    assert!(semaphore.snapshot().permits.in_use <= limit);
                    held.push(permit);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoPermits),
            },
            2 => {
                let mut waiter = Waiter::new(semaphore.acquire());
                match waiter.poll() {
                    Poll::Ready(Ok(permit)) => held.push(permit),
                    Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::QueueFull),
                    Poll::Pending => waiters.push(waiter),
                }
            }
            3 if !waiters.is_empty() => {
                let one = random.below(waiters.len() as u32) as usize;
                drop(waiters.remove(one));
            }
            4 => clock.advance(random.below(1000) * MS),
            _ if !held.is_empty() => {
                let one = random.below(held.len() as u32) as usize;
                let permit = held.swap_remove(one);
                match random.below(5) {
                    0 => permit.ignore(),
                    1 => permit.overloaded(),
                    _ => drop(permit),
                }
            }
            _ => {}
        }
        // Those at the head that were granted collect their permits; sometimes not at once.
        while random.below(4) > 0 && waiters.first().is_some_and(|first| first.wakes() > 0) {
            held.push(waiters.remove(0).granted());
        }
        let granted = waiters.iter().filter(|waiter| waiter.wakes() > 0).count();
        assert_eq!(
            semaphore.snapshot().permits.in_use,
            (held.len() + granted) as u64
        );
        assert_eq!(
            semaphore.snapshot().permits.waiting,
            waiters.len() - granted
        );
        assert!(
            semaphore.snapshot().permits.waiting == 0
                || semaphore.snapshot().permits.in_use >= semaphore.snapshot().permits.limit
        );
    }
    drop((waiters, held));
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.permits.in_use, snapshot.lost_samples), (0, 0));
    assert!(snapshot.windows > operations / 100 && snapshot.rejected_targets > 0);
}
