//! `AdaptiveSemaphore`: the measurements, the calls of the controller, and the use of its targets.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, Throttle, TryThrottle, all};
use tollgate_adaptive::{
    AdaptivePermit, AdaptiveSemaphore, Aimd, Controller, Explanation, Gradient, Progress, Reason,
    SampleWindow, Shared, Target,
};

use crate::support::scenarios::{Words, check};
use crate::support::{Waiter, kind};

const MS: Duration = Duration::from_millis(1);

fn target(limit: f64, samples: u32) -> Target {
    Target { limit, samples }
}

fn limit(semaphore: &AdaptiveSemaphore) -> u64 {
    semaphore.snapshot().permits.limit
}

/// A controller that returns the given targets, the last of them for ever, and keeps the windows.
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
    semaphore: Shared<AdaptiveSemaphore>,
    clock: ManualClock,
    seen: Arc<Mutex<Vec<SampleWindow>>>,
    held: Vec<AdaptivePermit<Shared<AdaptiveSemaphore>>>,
    waiting: Vec<Waiter<Waiting<<Shared<AdaptiveSemaphore> as Throttle>::Enter>>>,
}

/// Each row has the controller's targets (a limit and a number of samples, at first and after each window), and
/// calls. `enter` and `wait` append a permit and a waiter to their lists; `leave`, `ignore`, `undo`, `overload`,
/// `panic` (of the holder) and `leak` name a permit, and `granted`, `refused` and `pending` a waiter, by
/// position; `call` is a call of this many milliseconds. The other calls state observable values; `last` states
/// them for the last finished window.
const SCENARIOS: &str = "
a call is a sample of the time since its permit was received | 4:3 6:1 | call 4, call 8, limit 4, windows 0, call 0,
    limit 6, windows 1, last limit 4 samples 3 min 0 sum 12 most-in-flight 1
a wait is no part of the time | 1:2 1:2 | enter, wait, advance 9, leave 0, advance 50, granted 0, advance 3,
    leave 0, last min 3 sum 12
a permit of an earlier window says nothing about the next | 4:8 2:1 9:1 | enter, 7 x call 1, call 10001, limit 2,
    advance 90, leave 0, windows 1, call 2, last sum 2, limit 9
a permit beyond the places of the window is not measured | 100:8 100:8 | 12 x enter, 20 x enter, advance 1,
    20 x leave 12, samples 0, windows 0, leave 11, 11 x leave 0, last samples 8 most-in-flight 8
an ignored call of an earlier window gives no place in the next | 100:8 100:8 | enter, 7 x call 1, call 10001,
    windows 1, ignore 0, 8 x enter, call 0, samples 0, 8 x leave 0, windows 2
a permit that hangs does not keep a window from ending | 50:16 60:16 | 8 x enter, 8 x call 1, windows 0, call 10001,
    limit 60, in-use 8, last samples 16, 8 x leak 0, 16 x call 1, windows 2
a call that is as old as the cut counts with it | 50:3 60:1 | 2 x enter, call 1, advance 9999, call 0, windows 0,
    advance 2, call 0, windows 1, last samples 3 sum 20001
a call that watches leaves a window with a free place alone | 50:3 60:1 | 5 x enter, advance 1, leave 4, ignore 0,
    advance 10001, leave 2, windows 0, 2 x enter, leave 3, windows 0, advance 10001, call 0, windows 1, last samples 3
an ignored call gives its place to another one | 5:2 5:2 | 100 x enter + ignore 0 + enter + undo 0, windows 0,
    call 1, call 1, windows 1, last samples 2
a permit that is dropped by a panic is ignored | 5:1 7:1 | enter, panic 0, windows 0, in-use 0, call 1, limit 7
an overload counts without a latency | 5:3 4:3 | enter, overload 0, call 3, advance 1, enter, overload 0,
    last samples 3 overloaded 2 sum 3, limit 4
a limit that is not a number changes nothing and is counted | 5:2 NaN:77 6:1 | call 1, call 1, windows 1,
    rejected 1, limit 5, call 1, limit 5, call 1, limit 6, last limit 5
a limit that is infinite changes nothing and is counted | 5:2 inf:77 6:1 | 2 x call 1, rejected 1, limit 5,
    2 x call 1, limit 6
a limit of minus infinity changes nothing and is counted | 5:2 -inf:77 6:1 | 2 x call 1, rejected 1, limit 5,
    2 x call 1, limit 6
a limit of zero changes nothing and is counted | 5:2 0:77 6:1 | 2 x call 1, rejected 1, limit 5, 2 x call 1, limit 6
a limit below zero changes nothing and is counted | 5:2 -3:77 6:1 | 2 x call 1, rejected 1, limit 5, 2 x call 1,
    limit 6
a limit out of the range is clamped and the window says so | 5:1 1e300:1 1e-300:1 2.5:1 2.4:0 2.4:0 | limit 5,
    call 1, last limit 5, limit 1000, call 1, last limit 1000, limit 1, call 1, last limit 1, limit 3, call 1,
    last limit 2.5, limit 2, call 1, last limit 2.4, limit 2, call 1, last limit 2.4, rejected 0
a higher limit admits waiters | 1:1 3:1 | enter, 4 x wait, waiting 4, in-use 1, leave 0, waiting 1,
    3 x granted 0, pending 0
a lower limit takes no permit away | 3:1 1:1 1:1 | 3 x enter, leave 0, limit 1, in-use 2, leave 0, full, leave 0,
    enter
a close leaves samples alone | 1:1 4:1 | enter, wait, close, refused 0, leave 0, limit 4
";

impl Scene {
    fn new(targets: Vec<Target>) -> Self {
        let (clock, seen) = (Clock::manual(), Arc::default());
        let controller = Scripted {
            targets,
            next: 0,
            seen: Arc::clone(&seen),
        };
        Self {
            semaphore: Shared::from(AdaptiveSemaphore::new(controller).clock(&clock)),
            clock,
            seen,
            held: Vec::new(),
            waiting: Vec::new(),
        }
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) {
        let milliseconds = |words: &mut Words<'_>| MS.mul_f64(words.parse());
        let snapshot = self.semaphore.snapshot();
        match call {
            "enter" => {
                self.held.push(self.semaphore.try_enter().unwrap());
            }
            "full" => assert_eq!(kind(self.semaphore.try_acquire()), ErrorKind::NoPermits),
            "call" => {
                let permit = self.semaphore.try_acquire().unwrap();
                self.clock.advance(milliseconds(words));
                drop(permit);
            }
            "advance" => self.clock.advance(milliseconds(words)),
            "wait" => {
                let wait = self.semaphore.enter();
                self.waiting.push(Waiter::parked(wait));
            }
            "granted" => {
                let mut waiter = self.waiting.remove(words.parse());
                assert_eq!(waiter.wakes(), 1);
                self.held.push(waiter.granted());
            }
            "pending" => assert!(self.waiting[words.parse::<usize>()].is_pending()),
            "refused" => {
                let mut waiter = self.waiting.remove(words.parse());
                assert_eq!(waiter.refused(), ErrorKind::Closed);
            }
            "close" => self.semaphore.close(),
            "limit" => assert_eq!(snapshot.permits.limit, words.parse()),
            "in-use" => assert_eq!(snapshot.permits.in_use, words.parse()),
            "waiting" => assert_eq!(snapshot.permits.waiting, words.parse()),
            "windows" => assert_eq!(self.seen.lock().unwrap().len(), words.parse()),
            "samples" => assert_eq!(snapshot.window.samples(), words.parse()),
            "rejected" => assert_eq!(snapshot.rejected_targets, words.parse()),
            "last" => {
                let window = *self
                    .seen
                    .lock()
                    .unwrap()
                    .last()
                    .expect("a window has ended");
                while let Some(what) = words.maybe::<String>() {
                    self.assert_last(&window, &what, words);
                }
            }
            _ => self.give_back(call, words.parse()),
        }
    }

    fn assert_last(&self, window: &SampleWindow, what: &str, words: &mut Words<'_>) {
        let milliseconds = |words: &mut Words<'_>| MS.mul_f64(words.parse());
        match what {
            "limit" => assert_eq!(window.limit(), words.parse::<f64>()),
            "samples" => assert_eq!(window.samples(), words.parse()),
            "overloaded" => assert_eq!(window.overloaded(), words.parse()),
            "most-in-flight" => assert_eq!(window.max_in_flight(), words.parse()),
            "min" => assert_eq!(window.min_latency(), Some(milliseconds(words))),
            "sum" => {
                let measured = window.samples() - window.overloaded();
                let mean = milliseconds(words) / measured;
                assert_eq!(window.mean_latency(), Some(mean));
            }
            _ => panic!("no figure of a window: {what:?}"),
        }
    }

    fn give_back(&mut self, how: &str, which: usize) {
        let permit = self.held.remove(which);
        match how {
            "leave" => drop(permit),
            "ignore" => permit.ignore(),
            "undo" => self.semaphore.rollback(permit),
            "overload" => permit.overloaded(),
            "leak" => std::mem::forget(permit),
            "panic" => {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    let _permit = permit;
                    resume_unwind(Box::new("as the test wants it"));
                }));
                assert!(panicked.is_err());
            }
            _ => panic!("no call: {how:?}"),
        }
    }
}

#[test]
fn windows_and_updates_are_in_each_scenario_as_it_says() {
    check(SCENARIOS, |row| {
        let targets = row.setup.split(' ').map(|one| {
            let (limit, samples) = one.split_once(':').expect("a limit and samples");
            target(limit.parse().unwrap(), samples.parse().unwrap())
        });
        let mut scene = Scene::new(targets.collect());
        for text in row.texts() {
            let mut words = Words::new(&text);
            scene.call(words.word(), &mut words);
            words.end();
        }
        Ok::<(), String>(())
    });
}

#[test]
fn timeout_runs_on_the_clock_of_the_semaphore() {
    let scene = Scene::new(vec![target(1.0, 1)]);
    let _held = scene.semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(scene.semaphore.acquire().timeout(5 * MS));
    scene.clock.advance(4 * MS);
    assert!(waiter.is_pending());
    scene.clock.advance(MS);
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_eq!(scene.semaphore.snapshot().permits.waiting, 0);
}

#[test]
fn snapshot_after_a_window_explains_the_limit() {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Aimd::default()).clock(&clock);
    let explanation = || semaphore.snapshot().explanation;
    assert_eq!(explanation(), Explanation::default());
    for _ in 0..64 {
        let permit = semaphore.try_acquire().unwrap();
        clock.advance(MS);
        drop(permit);
    }
    assert_eq!(explanation().reason, Reason::Unused);
    assert_eq!(explanation().latency, Some(MS));
    for _ in 0..64 {
        semaphore.try_acquire().unwrap().overloaded();
    }
    assert_eq!(explanation(), Explanation::new(Reason::Refused));
}

#[test]
fn limits_apply_to_the_initial_limit() {
    let twenty_and_more = || Scripted {
        targets: vec![target(20.0, 1), target(1e300, 1)],
        next: 0,
        seen: Arc::default(),
    };
    for (range, first, second) in [(3..=9, 9, 9), (25..=30, 25, 30), (1..=1, 1, 1)] {
        let semaphore = AdaptiveSemaphore::new(twenty_and_more()).limits(range);
        assert_eq!(limit(&semaphore), first);
        drop(semaphore.try_acquire());
        assert_eq!(limit(&semaphore), second);
    }
    let most = tollgate::Semaphore::MAX_PERMITS;
    let semaphore = AdaptiveSemaphore::new(twenty_and_more()).limits(most..=most);
    drop(semaphore.try_acquire());
    assert_eq!(limit(&semaphore), most as u64);
}

#[test]
fn limits_set_twice_keep_what_the_controller_wants() {
    let semaphore = AdaptiveSemaphore::new(Gradient::default()).limits(1..=5);
    assert_eq!(limit(&semaphore), 5);
    let semaphore = semaphore.limits(1..=100);
    assert_eq!(limit(&semaphore), 20);
}

/// A controller whose windows of ten samples go on as is said of each number of samples.
struct Progressing(fn(&SampleWindow) -> Progress);

impl Controller for Progressing {
    fn initial(&self) -> Target {
        target(5.0, 10)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        target(f64::from(window.samples()), 10)
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        (self.0)(window)
    }
}

/// Returns the number of calls that one thread makes until the first window ends, and the samples of
/// that window.
fn first_window(progress: fn(&SampleWindow) -> Progress) -> (usize, u64) {
    let semaphore = AdaptiveSemaphore::new(Progressing(progress)).clock(Clock::manual());
    let calls = (1..100).find(|_| {
        drop(semaphore.try_acquire().unwrap());
        semaphore.snapshot().windows == 1
    });
    (calls.unwrap(), limit(&semaphore))
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

/// A controller that keeps how many calls of each incomplete window have reached the cut of 100 ms.
struct Counting(Arc<Mutex<Vec<u32>>>);

impl Controller for Counting {
    fn initial(&self) -> Target {
        target(50.0, 100)
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        self.initial()
    }

    fn cut(&self) -> Duration {
        100 * MS
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        self.0.lock().unwrap().push(window.censored());
        Progress::Continue
    }
}

/// Returns the calls that have reached the cut after 8 calls that take 1 ms, if 20 calls began one cut and 50 ms
/// before, this number of them was ignored since, and as many others began.
fn hanging_after(ignored: usize) -> u32 {
    let (seen, clock) = (Arc::default(), Clock::manual());
    let controller = Counting(Arc::clone(&seen));
    let semaphore = AdaptiveSemaphore::new(controller).clock(&clock);
    let call = || {
        let permit = semaphore.try_acquire().unwrap();
        clock.advance(MS);
        drop(permit);
    };
    let mut held: Vec<_> = (0..20).map(|_| semaphore.try_acquire().unwrap()).collect();
    clock.advance(100 * MS);
    // The call sets the mark.
    call();
    clock.advance(50 * MS);
    held.drain(..ignored).for_each(AdaptivePermit::ignore);
    held.extend((0..ignored).map(|_| semaphore.try_acquire().unwrap()));
    clock.advance(50 * MS);
    (0..7).for_each(|_| call());
    drop(held);
    let counts = seen.lock().unwrap();
    counts[1]
}

#[test]
fn progress_after_ignored_calls_counts_no_others_as_old() {
    // Of the 21 first calls, 8 count as ended, since any 8 samples may be theirs.
    assert_eq!(hanging_after(0), 13);
    assert_eq!(hanging_after(10), 3);
    assert_eq!(hanging_after(20), 0);
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

/// A controller that misbehaves in every way.
struct Odd {
    semaphore: Arc<Mutex<Option<Arc<AdaptiveSemaphore>>>>,
    updates: Arc<AtomicUsize>,
}

impl Controller for Odd {
    fn initial(&self) -> Target {
        target(3.0, 1)
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
        target(5.0, 1)
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
        (limit(&semaphore), semaphore.snapshot().permits.in_use),
        (3, 0)
    );
    drop(semaphore.try_acquire());
    assert_eq!((limit(&semaphore), updates.load(Ordering::Relaxed)), (5, 2));
    own.lock().unwrap().take();
}

#[test]
fn all_refused_later_ignores_the_call() {
    let mut scene = Scene::new(vec![target(2.0, 1), target(9.0, 1)]);
    let full = tollgate::Semaphore::new(0);
    let both = all((scene.semaphore.clone(), &full));
    assert!(both.try_enter().is_err());
    drop(Waiter::parked(both.enter()));
    for text in ["windows 0", "in-use 0", "call 1", "limit 9"] {
        let mut words = Words::new(text);
        scene.call(words.word(), &mut words);
    }
}

/// A controller with one limit, that adds up the means of its windows.
struct Fixed {
    limit: usize,
    cut: Duration,
    seen: Arc<Mutex<(f64, u32)>>,
}

impl Controller for Fixed {
    fn initial(&self) -> Target {
        target(self.limit as f64, 48)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let mean = window.mean_latency().expect("all calls were answered");
        let mut seen = self.seen.lock().unwrap();
        *seen = (seen.0 + mean.as_secs_f64(), seen.1 + 1);
        self.initial()
    }

    fn cut(&self) -> Duration {
        self.cut
    }
}

/// Numbers between 0 and 1, by SplitMix64.
struct Uniform(u64);

impl Uniform {
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.draw()).ln()).sqrt() * (std::f64::consts::TAU * self.draw()).cos()
    }

    /// Draws a call of mean 1 of a lognormal law.
    fn lognormal(&mut self, cv: f64) -> f64 {
        let variance = (1.0 + cv * cv).ln();
        (variance.sqrt() * self.normal() - variance / 2.0).exp()
    }

    /// Draws a call of mean 1, of which a part takes a hundred times as long as the others.
    fn cache(&mut self, slow: f64) -> f64 {
        let work = if self.draw() < slow { 100.0 } else { 1.0 };
        work / (1.0 + 99.0 * slow)
    }
}

/// Draws the duration of a call.
type Law = fn(&mut Uniform) -> f64;

/// Returns the mean of the windows at a limit that is always in use, without a queue.
fn mean_of_windows(limit: usize, cut: f64, law: Law) -> f64 {
    let (seen, clock) = (Arc::default(), Clock::manual());
    let cut = Duration::from_secs_f64(cut);
    let controller = Fixed {
        limit,
        cut,
        seen: Arc::clone(&seen),
    };
    let semaphore = AdaptiveSemaphore::new(controller).clock(&clock);
    let (mut random, mut now) = (Uniform(7), 0);
    let mut calls = std::collections::BTreeMap::new();
    for number in 0..limit + 150_000 {
        if number >= limit {
            let ((end, _), permit) = calls.pop_first().expect("a call is open");
            clock.advance(Duration::from_nanos(end - now));
            now = end;
            drop(permit);
        }
        let end = now + (law(&mut random) * 1e9) as u64;
        calls.insert((end, number), semaphore.try_acquire().unwrap());
    }
    let (sum, windows) = *seen.lock().unwrap();
    sum / f64::from(windows)
}

#[test]
fn window_shows_the_censored_mean_of_each_law_at_each_limit() {
    let laws: [(&str, Law); 5] = [
        ("exponential", |it| -(1.0 - it.draw()).ln()),
        ("5 % slow", |it| it.cache(0.05)),
        ("20 % slow", |it| it.cache(0.2)),
        ("lognormal, CV 3", |it| it.lognormal(3.0)),
        ("lognormal, CV 10", |it| it.lognormal(10.0)),
    ];
    // The default controller cuts at two and a half means.
    let cut = 2.5;
    for (name, law) in laws {
        let mut random = Uniform(1);
        let expected = (0..400_000).map(|_| law(&mut random).min(cut)).sum::<f64>() / 4e5;
        println!(
            "{name}: cut at {cut} means, shows {:.0} % of the mean",
            100.0 * expected
        );
        let means: [f64; 5] = [5, 10, 20, 40, 80].map(|limit| mean_of_windows(limit, cut, law));
        for (limit, mean) in [5, 10, 20, 40, 80].into_iter().zip(means) {
            assert!(
                (mean / expected - 1.0).abs() < 0.03,
                "{name}, {limit}: {mean} for {expected}"
            );
        }
        for pair in means.windows(2) {
            assert!((pair[0] / pair[1] - 1.0).abs() < 0.03, "{name}: {means:?}");
        }
    }
}
