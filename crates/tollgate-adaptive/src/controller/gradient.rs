//! [`Gradient`]: the limit from the calls that queue, by Little's law. `docs/design/adaptive.md` derives it.
//!
//! 1. A queue is throughput × (mean latency now − mean latency without a queue). Both means are cut at the
//!    same age, and the difference is divided by the part of the calls below the cut, because only they show a wait.
//! 2. While a probe is under way the limit is not adjusted. A probe ends with the limit before it, or with the
//!    one that the lowest level with a queue implies.
//! 3. With several clients before one server, half of one limit empties no queue. So all clients probe at once, on
//!    multiples of a period of the wall clock, and no measurement moves the baseline by more than [`MOVE`], unless
//!    calls have become more than twice as slow.

use std::mem;
use std::time::Duration;

use super::{Controller, Explanation, Progress, Reason, SampleWindow, Target, positive};

/// The cut, in mean times in flight. With less, calls of one length reach it when a short queue is added; with
/// more, slow calls dominate the mean, and the window waits for them.
const CUT: f64 = 2.5;

/// The calls that may queue, in units of √L, beyond the headroom: random arrivals and departures differ by
/// about √L, and a server without a queue idles.
const QUEUE: f64 = 0.45;

/// The relative standard error of a latency is about 0.7/√n, whatever the law is, because of the cut. With
/// (2·L/q)² samples that of the queue is a third of its target.
const NOISE: f64 = 2.0;

/// The least samples of a window: a mean of them has an error of a seventh.
const LEAST: f64 = 24.0;

/// The part that counts as most: of the limit in use, so that the latency depends on it; of the wait that a queue
/// would save a lower level; and of the calls that reach the cut after a jump.
const MOST: f64 = 0.75;

/// The largest move of the baseline by one measurement. With several clients before one server, a larger move takes
/// the queue of the others for slower work.
const MOVE: f64 = 1.27;

/// Probes begin at multiples of this number of seconds, or of its doubles. A wrong baseline lasts that long.
const PERIOD: f64 = 10.0;

/// The price of a trial: a probe takes about one in this many calls, as many may be refused before the limit falls,
/// and a limit at which calls were refused is tried again after this many windows.
const SHARE: f64 = 32.0;

/// Levels are compared if the calls in flight differ by this factor: with less, the noise of two windows is more
/// than the wait that a queue would add.
const APART: f64 = 1.5;

/// Keeps the number of calls that queue near a tenth of the limit and its square root, and repeatedly
/// measures the latency without a queue, at half of the limit. This is the default controller.
///
/// The idea is that of TCP Vegas (Brakmo and Peterson, 1995) and of `VegasLimit` in Netflix's
/// [concurrency-limits]: `queue = throughput × (latency − baseline)`. The baseline is not a remembered minimum,
/// which drifts: **at multiples of 10 seconds, or of 20, 40 and so on, of the machine's clock**, a probe halves
/// the limit until that no longer makes calls faster. So all clients of a server probe at once; their clocks may
/// differ by half a second. Probes take about a thirty-second of the calls. If calls seldom meet, at less than 1.5
/// in flight, there is no queue, and the limit stays.
///
/// If more than one in 32 calls of a window is refused, the limit returns to the last one without overload, and stays
/// below for 32 windows.
///
/// - Good at: service times, capacities and distributions that are unknown and change, heavy tails, servers that
///   refuse, and several clients before one server.
/// - Bad at: processor sharing with a heavy tail, where most calls show little of the queue; a server that wastes
///   work as soon as it is overloaded; clients whose clocks differ by seconds; and a first-in first-out queue
///   of clients that are at their deadline when they are served. A client yields to greedy ones. The
///   probes cost one to two percent of the goodput. Latencies must be those of the other side: calls that are cut
///   short by a timeout should end as overloaded or ignored.
///
/// It begins at 20; you can [change](Self::initial_limit) that.
///
/// [concurrency-limits]: https://github.com/Netflix/concurrency-limits
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::{Controller, Gradient, SampleWindow};
///
/// let mut controller = Gradient::default();
/// let mut update = |limit: f64, milliseconds| {
///     let mut window = SampleWindow::new(limit);
///     for _ in 0..200 {
///         window.record(Duration::from_millis(milliseconds), limit as usize);
///     }
///     controller.update(&window).limit
/// };
/// assert_eq!(update(20.0, 10), 20.0); // the first few calls
/// assert_eq!(update(20.0, 10), 10.0); // a probe, at half of the limit
/// assert_eq!(update(10.0, 10), 20.0); // as long as before: the baseline is 10 ms
/// assert!(update(20.0, 20) < 20.0); // a queue: less
/// assert!(update(20.0, 10) > 20.0); // no queue: more
/// ```
#[derive(Clone, Debug)]
pub struct Gradient {
    headroom: f64,
    /// The mean latency without a queue, in seconds, with calls cut at `cut`; 0 at first.
    baseline: f64,
    /// Whether few calls have measured it.
    is_guess: bool,
    /// The age at which a call counts, and the smoothed mean time in flight, in seconds.
    cut: f64,
    mean: f64,
    /// The windows in a row far below the target.
    calm: i32,
    /// The last level at which the limit was adjusted, unless a probe is under way.
    last: Option<Level>,
    /// The level with which others are compared.
    reference: Option<Level>,
    probe: Option<Probe>,
    /// The last limit without refusals; the highest one since there were, and the windows for which that holds.
    accepted: f64,
    ceiling: f64,
    left: u32,
    /// The time at which the last window ended.
    ended: Duration,
    explanation: Explanation,
}

/// The limit halves until latencies no longer fall.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The limit before it.
    back: f64,
    /// Whether the baseline is unknown.
    is_new: bool,
    /// The last level, and whether one before it had a queue.
    last: Option<Level>,
    is_lower: bool,
}

/// The measurements of one window at one limit, in seconds.
#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    in_flight: f64,
    /// The most calls in flight, or the limit.
    used: f64,
    /// The mean latency, and its standard error.
    mean: f64,
    error: f64,
    /// The part of the calls below the cut.
    open: f64,
    rate: f64,
}

impl Default for Gradient {
    /// Starts at 20 with a headroom of 1.1.
    fn default() -> Self {
        Self {
            headroom: 1.1,
            baseline: 0.0,
            is_guess: true,
            cut: 10.0,
            mean: 0.0,
            calm: 0,
            last: None,
            reference: None,
            probe: Some(Probe::new(20.0, true)),
            accepted: f64::INFINITY,
            ceiling: f64::INFINITY,
            left: 0,
            ended: Duration::ZERO,
            explanation: Explanation::default(),
        }
    }
}

impl Gradient {
    /// Sets the initial limit, by default 20.
    ///
    /// # Panics
    ///
    /// Panics if `limit` is not a finite number above 0.
    #[must_use]
    #[track_caller]
    pub fn initial_limit(self, limit: f64) -> Self {
        let probe = Some(Probe::new(positive("initial limit", limit), true));
        Self { probe, ..self }
    }

    /// Sets the headroom, by default 1.1: one more than the part of the limit that may queue. A larger one keeps
    /// a server with varied calls from idling, and a smaller one protects a server that slows down
    /// under too many calls.
    ///
    /// # Panics
    ///
    /// Panics if `headroom` is not a finite number of at least 1.
    #[must_use]
    #[track_caller]
    pub fn headroom(self, headroom: f64) -> Self {
        assert!(
            headroom.is_finite() && headroom >= 1.0,
            "the headroom must be a finite number of at least 1, but it is {headroom}"
        );
        Self { headroom, ..self }
    }

    /// Returns the number of calls that should queue.
    fn target(&self, limit: f64) -> f64 {
        (self.headroom - 1.0) * limit + QUEUE * limit.sqrt()
    }

    /// Returns how many calls fewer than the target queue.
    fn shortage(&self, level: Level) -> f64 {
        let wait = level.mean - self.baseline;
        self.target(level.used) - level.rate * wait / level.open.max(0.1)
    }

    /// Returns the number of samples that show the queue at a limit.
    fn needed(&self, limit: f64) -> f64 {
        (NOISE * limit / self.target(limit)).powi(2).max(LEAST)
    }

    /// Returns the last level if a probe is due by a time.
    fn due(&self, until: Duration) -> Option<Level> {
        let level = self.last.filter(Level::is_used)?;
        let calls = SHARE * (self.needed(level.limit) + level.in_flight);
        let periods = (calls / level.rate / PERIOD).max(1.0);
        let period = PERIOD * periods.log2().ceil().exp2();
        let number = |time: Duration| (time.as_secs_f64() / period).floor();
        (number(self.ended) < number(until)).then_some(level)
    }

    /// Measures the baseline anew, with this limit afterwards.
    fn calibrate(&mut self, back: f64) {
        // A level before a jump says nothing about the server since.
        (self.calm, self.last, self.probe) = (0, None, Some(Probe::new(back, true)));
    }

    /// Continues a probe at half of a level.
    fn halve(&mut self, mut probe: Probe, level: Level) -> f64 {
        if level.limit.round() <= 1.0 {
            // One call is not in a queue.
            return self.probed(probe, level, level);
        }
        self.explanation.reason = Reason::Probe;
        (probe.is_lower, probe.last) = (probe.last.is_some(), Some(level));
        (self.probe, self.last, self.calm) = (Some(probe), None, 0);
        (level.limit.min(level.in_flight) / 2.0).max(1.0)
    }

    /// Ends a probe: the lower level has no queue. Returns the limit before it, or the one that the other implies.
    fn probed(&mut self, probe: Probe, last: Level, level: Level) -> f64 {
        self.explanation.reason = Reason::Measured;
        if probe.is_new {
            (self.baseline, self.mean) = (level.mean, level.time_in_flight());
        } else {
            self.measured(level);
        }
        (self.is_guess, self.reference, self.probe) = (probe.is_new, Some(level), None);
        let short = self.shortage(last);
        if short >= 0.0 && !probe.is_lower {
            return probe.back;
        }
        (last.used + short).max(level.limit).min(probe.back)
    }

    /// Moves the baseline half of the way to a level without a queue.
    fn measured(&mut self, level: Level) {
        let before = self.baseline;
        self.baseline = if level.mean > 2.0 * before {
            level.mean
        } else {
            f64::midpoint(before, level.mean).clamp(before / MOVE, before * MOVE)
        };
    }

    /// Returns whether the cut suits this mean time in flight. After a fall of the capacity it is ten of them.
    fn is_cut_near(&self, mean: f64) -> bool {
        (CUT / 2.0..6.0 * CUT).contains(&(self.cut / mean))
    }

    /// Compares a level with an earlier one that had more calls in flight, or fewer.
    fn compare(&mut self, level: Level) {
        let other = *self.reference.get_or_insert(level);
        let times = level.in_flight / other.in_flight;
        if (1.0 / APART..APART).contains(&times) {
            return;
        }
        self.reference = Some(level);
        // Other moves would let several clients learn each other's queue.
        let is_slow = times < 1.0 && level.mean > 2.0 * self.baseline;
        if (is_slow || times > 1.0 && self.is_guess) && !level.queues_as(&other) {
            self.measured(level);
        }
    }

    /// Returns the limit after a window in which too many calls were refused.
    fn refused(&mut self, window: &SampleWindow) -> Option<f64> {
        let is_refused = SHARE * f64::from(window.overloaded()) > f64::from(window.samples());
        let (limit, is_new) = match self.probe {
            // The limit before a jump says nothing about the server since.
            Some(probe) if probe.is_new && is_refused => (window.limit(), true),
            probe => (probe.map_or(window.limit(), |it| it.back), false),
        };
        if !is_refused {
            if limit > self.ceiling {
                self.ceiling = f64::INFINITY;
            }
            self.accepted = limit;
            return None;
        }
        let mut lower = (0.9 * limit).min(limit - 1.0).max(1.0);
        // If all are refused, or twice the limit was accepted before, the limit is not the reason, and was not before.
        let is_down = window.overloaded() == window.samples()
            || self.accepted.is_finite() && limit < self.accepted / 2.0;
        if !is_down && self.accepted < limit {
            lower = self.accepted;
        }
        (self.ceiling, self.left) = (if is_down { f64::INFINITY } else { lower }, SHARE as u32);
        if is_new {
            self.calibrate(lower);
        } else {
            (self.calm, self.probe, self.reference) = (0, None, None);
        }
        Some(lower)
    }

    /// Returns the next limit after a window in which calls were answered.
    fn answered(&mut self, level: Level, due: Option<Level>) -> f64 {
        if level.in_flight < 1.5 && !level.is_used() {
            // Calls that seldom meet show no queue.
            self.explanation.reason = Reason::Unused;
            return level.limit;
        }
        if level.open < 1.0 - MOST {
            // Calls that take up to ten times as long are within the new cut.
            self.cut *= 4.0;
            let back = self.probe.map_or(level.used, |probe| probe.back);
            self.explanation.reason = Reason::Jump;
            self.calibrate(back);
            return level.limit.min(back / 2.0).max(1.0);
        }
        let Some(probe) = self.probe else {
            return match due {
                Some(last) => self.halve(Probe::new(level.limit, false), last),
                None => self.adjusted(level),
            };
        };
        match probe.last {
            None if !self.is_cut_near(level.time_in_flight()) => {
                self.cut = CUT * level.time_in_flight();
                level.limit
            }
            Some(last) if !last.queues_as(&level) => self.probed(probe, last, level),
            _ => self.halve(probe, level),
        }
    }

    /// Returns the next limit after a window in which the limit was not low for a probe.
    fn adjusted(&mut self, level: Level) -> f64 {
        self.last = Some(level);
        self.mean += 0.1 * (level.time_in_flight() - self.mean);
        if !self.is_cut_near(self.mean) {
            self.cut = CUT * self.mean;
            self.calibrate(level.limit);
            return level.limit;
        }
        // Every latency is an upper bound.
        self.baseline = self.baseline.min(level.mean + 3.0 * level.error);
        self.compare(level);
        let short = self.shortage(level);
        let calm = mem::take(&mut self.calm);
        if short < 0.0 {
            self.explanation.reason = Reason::Queue;
            return (level.used + short / 2.0).max(level.used / 2.0).max(1.0);
        }
        if !level.is_used() {
            self.explanation.reason = Reason::Unused;
            return level.limit;
        }
        self.explanation.reason = Reason::NoQueue;
        if short <= self.target(level.limit) / 2.0 {
            return level.limit + short / 2.0;
        }
        self.calm = calm + 1;
        level.limit + (short * 2f64.powi(calm)).min(level.limit)
    }
}

impl Probe {
    const fn new(back: f64, is_new: bool) -> Self {
        Self {
            back,
            is_new,
            last: None,
            is_lower: false,
        }
    }
}

impl Level {
    /// Returns `None` if no call of the window was answered.
    fn of(window: &SampleWindow) -> Option<Self> {
        let mean = window.mean_latency()?.as_secs_f64().max(1e-9);
        let in_flight = window.mean_in_flight();
        // By Little's law, since a mean that is cut is too short. Calls that begin at once because the limit has
        // grown have no rate.
        let most = in_flight / mean;
        Some(Self {
            limit: window.limit(),
            in_flight,
            used: window.limit().min(window.max_in_flight() as f64).max(1.0),
            mean,
            error: window.error()?.as_secs_f64(),
            open: 1.0
                - f64::from(window.censored()) / f64::from(window.samples() - window.overloaded()),
            rate: window.rate().map_or(most, |rate| rate.min(most)),
        })
    }

    /// Returns whether the latency depends on the limit. A limit of 1.4 admits one call.
    fn is_used(&self) -> bool {
        self.used + 0.5 >= MOST * self.limit
    }

    /// Returns the mean time in flight, in seconds, by Little's law, which holds for calls that are cut too.
    fn time_in_flight(&self) -> f64 {
        self.in_flight / self.rate
    }

    /// Returns whether calls queue at two levels: if all that one lacks did, each waited for one call less.
    fn queues_as(&self, other: &Self) -> bool {
        let wait = (self.mean - other.mean) / f64::midpoint(self.open, other.open);
        self.rate.max(other.rate) * wait / (self.in_flight - other.in_flight) > MOST
    }
}

impl Controller for Gradient {
    fn initial(&self) -> Target {
        // The first window only shows how long calls take.
        let limit = self.probe.map_or(20.0, |probe| probe.back);
        Target { limit, samples: 16 }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let due = self.due(window.ended());
        self.ended = window.ended();
        self.left = self.left.saturating_sub(1);
        let level = Level::of(window);
        let refused = self.refused(window);
        let mut limit = match level {
            Some(level) if refused.is_none() => self.answered(level, due),
            _ => refused.unwrap_or(window.limit()),
        };
        let ceiling = self.ceiling + if self.left > 0 { 0.0 } else { 1.0 };
        if refused.is_some() || limit > ceiling {
            self.explanation.reason = Reason::Refused;
            limit = limit.min(ceiling);
        }
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.explanation.latency = level.map(|level| duration(level.mean));
        self.explanation.baseline = Some(self.baseline).filter(|it| *it > 0.0).map(duration);
        let samples = match self.probe {
            Some(Probe { is_new: true, .. }) => 2.0 * LEAST,
            probe => self.needed(probe.map_or(limit, |it| it.back)),
        };
        // A float is converted with saturation.
        Target {
            limit,
            samples: samples as u32,
        }
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        let samples = window.samples();
        let ends = window.overloaded() > samples / 4
            || self.due(window.ended()).is_some()
            || Level::of(window).is_some_and(|level| level.open < 1.0 - MOST);
        if f64::from(samples) >= LEAST / 2.0 && ends {
            Progress::End
        } else {
            Progress::Continue
        }
    }

    fn cut(&self) -> Duration {
        Duration::try_from_secs_f64(self.cut).unwrap_or(Duration::MAX)
    }

    fn explain(&self) -> Explanation {
        self.explanation
    }
}

#[cfg(test)]
mod tests {
    use tollgate::time::Tick;

    use super::*;
    use crate::controller::tests::overloaded;

    /// A window of 400 calls that take this many milliseconds.
    fn window(limit: f64, milliseconds: f64, in_flight: usize) -> SampleWindow {
        let mut window = SampleWindow::new(limit);
        let latency = Duration::from_secs_f64(milliseconds / 1e3);
        (0..400).for_each(|_| window.record(latency, in_flight));
        window
    }

    fn next(gradient: &mut Gradient, limit: f64, milliseconds: f64) -> f64 {
        let window = window(limit, milliseconds, limit.round() as usize);
        gradient.update(&window).limit
    }

    /// A controller whose baseline is 10 ms, at a limit of 20.
    fn measured() -> Gradient {
        let mut gradient = Gradient::default();
        assert_eq!(next(&mut gradient, 20.0, 10.0), 20.0);
        assert_eq!(next(&mut gradient, 20.0, 10.0), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 10.0), 20.0);
        gradient
    }

    fn baseline(gradient: &Gradient) -> f64 {
        gradient.baseline * 1e3
    }

    #[track_caller]
    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value}, not {expected}");
    }

    /// A window of `refused` calls that are overloaded and others that take 10 ms.
    fn refusing(limit: f64, refused: u32, answered: u32) -> SampleWindow {
        let mut window = SampleWindow::new(limit);
        let in_flight = limit.round() as usize;
        (0..refused).for_each(|_| window.record_overloaded(in_flight));
        (0..answered).for_each(|_| window.record(Duration::from_millis(10), in_flight));
        window
    }

    #[test]
    fn update_with_a_queue_moves_half_of_the_way_to_its_target() {
        // 25 calls of 12.5 ms are 2,000 a second, so 5 of them queue.
        let target = 0.1 * 25.0 + QUEUE * 5.0;
        let mut gradient = Gradient {
            is_guess: false,
            ..measured()
        };
        let limit = next(&mut gradient, 25.0, 12.5);
        assert_near(limit, 25.0 - (5.0 - target) / 2.0);
    }

    #[test]
    fn update_without_a_queue_grows_ever_faster_until_there_is_one() {
        let mut gradient = measured();
        let target = |limit: f64| 0.1 * limit + QUEUE * limit.sqrt();
        let first = next(&mut gradient, 20.0, 10.0);
        assert_near(first, 20.0 + target(20.0));
        let second = next(&mut gradient, first, 10.0);
        assert_near(second, first + 2.0 * target(24.0));
        // Half of the calls queue.
        assert!(next(&mut gradient, second, 20.0) < second);
        assert_eq!(gradient.calm, 0);
        assert_eq!(gradient.explain().reason, Reason::Queue);
    }

    #[test]
    fn update_of_a_higher_level_without_a_queue_corrects_a_guess() {
        // A fifth more than at 10 is no queue: twice as many calls would take twice as long.
        let mut gradient = measured();
        next(&mut gradient, 20.0, 12.0);
        assert_near(baseline(&gradient), 11.0);
        // With a queue it stays, and so does a baseline that a probe has confirmed.
        let mut gradient = measured();
        next(&mut gradient, 20.0, 20.0);
        assert_near(baseline(&gradient), 10.0);
        let mut gradient = Gradient {
            is_guess: false,
            ..measured()
        };
        next(&mut gradient, 20.0, 12.0);
        assert_near(baseline(&gradient), 10.0);
    }

    #[test]
    fn update_of_a_lower_level_without_a_gain_finds_calls_that_are_twice_as_slow() {
        // The limit has fallen from 20 to 10.
        let fallen = |before: f64, milliseconds: f64| {
            let mut gradient = measured();
            next(&mut gradient, 20.0, before);
            next(&mut gradient, 10.0, milliseconds);
            baseline(&gradient)
        };
        assert_near(fallen(30.0, 30.0), 30.0);
        // Half of the calls in half of the time were in a queue.
        assert_near(fallen(60.0, 30.0), 10.0);
        // A smaller difference is left to a probe.
        assert_near(fallen(20.0, 19.0), 10.0);
    }

    #[test]
    fn update_of_a_window_that_does_not_use_the_limit_never_raises_it() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&window(20.0, 10.0, 14)).limit, 20.0);
        assert_eq!(gradient.explain().reason, Reason::Unused);
        assert!(gradient.update(&window(20.0, 20.0, 15)).limit < 15.0);
    }

    #[test]
    fn update_of_a_window_with_fewer_calls_that_does_not_use_the_limit_never_raises_it() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 10.0);
        // Half of the calls, as long as before.
        assert_eq!(gradient.update(&window(15.0, 10.0, 10)).limit, 15.0);
        assert_eq!(gradient.explain().reason, Reason::Unused);
    }

    #[test]
    fn update_with_refusals_at_one_level_holds_below_it_for_some_windows() {
        let mut gradient = measured();
        let grown = next(&mut gradient, 20.0, 10.0);
        for _ in 0..3 {
            let refused = gradient.update(&refusing(grown, 20, 100)).limit;
            assert_eq!(refused, 20.0);
            assert_eq!(gradient.explain().reason, Reason::Refused);
            for _ in 1..SHARE as u32 {
                assert!(next(&mut gradient, 20.0, 10.0) <= 20.0);
            }
            assert_eq!(next(&mut gradient, 20.0, 10.0), 21.0);
        }
    }

    /// A controller that calibrates at a limit of 50 after a jump at 100.
    fn calibrating() -> Gradient {
        let mut gradient = measured();
        next(&mut gradient, 100.0, 10.0);
        let mut window = SampleWindow::new(100.0).with_cut(gradient.cut());
        (0..12).for_each(|_| window.record(Duration::from_millis(100), 100));
        assert_eq!(gradient.update(&window).limit, 50.0);
        assert_eq!(gradient.explain().reason, Reason::Jump);
        gradient
    }

    #[test]
    fn update_with_refusals_during_a_calibration_falls_until_there_are_none() {
        let mut gradient = calibrating();
        let mut limit = 50.0;
        while limit > 30.0 {
            let next = gradient.update(&refusing(limit, 40, 60)).limit;
            assert!(next < limit, "{next} after {limit}");
            assert_eq!(gradient.explain().reason, Reason::Refused);
            limit = next;
        }
        // The calibration goes on, and returns to the limit that was accepted.
        let low = next(&mut gradient, limit, 10.0);
        assert!(low < limit);
        assert_eq!(next(&mut gradient, low, 10.0), limit);
        assert_near(baseline(&gradient), 10.0);
    }

    #[test]
    fn update_without_refusals_during_a_calibration_keeps_the_ceiling() {
        let mut gradient = calibrating();
        let limit = gradient.update(&refusing(50.0, 40, 60)).limit;
        assert_eq!((limit, gradient.ceiling), (45.0, 45.0));
        for milliseconds in [100.0, 100.0] {
            next(&mut gradient, limit, milliseconds);
            assert_eq!((gradient.accepted, gradient.ceiling), (45.0, 45.0));
        }
    }

    #[test]
    fn update_with_refusals_at_once_takes_a_tenth() {
        assert_eq!(
            measured().update(&refusing(18.0, 20, 100)).limit,
            0.9 * 18.0
        );
        // Three of a hundred are not too many.
        assert!(measured().update(&refusing(20.0, 3, 97)).limit >= 20.0);
        // A server that refuses everything may be down.
        let mut gradient = measured();
        assert_eq!(gradient.update(&overloaded(20.0)).limit, 18.0);
        assert_eq!(gradient.ceiling, f64::INFINITY);
    }

    #[test]
    fn update_with_all_refused_forgets_the_limit_of_a_window_with_some() {
        // A server goes down in the first window, which has some answers.
        let mut gradient = measured();
        assert_eq!(gradient.update(&refusing(20.0, 80, 20)).limit, 18.0);
        assert_eq!(gradient.ceiling, 18.0);
        assert_eq!(gradient.update(&overloaded(18.0)).limit, 0.9 * 18.0);
        assert_eq!(gradient.ceiling, f64::INFINITY);
    }

    #[test]
    fn update_with_an_unknown_baseline_halves_until_the_latency_stops_falling() {
        // Ten workers, 10 ms each.
        let mut gradient = Gradient::default();
        assert_eq!(next(&mut gradient, 80.0, 80.0), 80.0);
        assert_eq!(next(&mut gradient, 80.0, 80.0), 40.0);
        assert_eq!(next(&mut gradient, 40.0, 40.0), 20.0);
        assert_eq!(next(&mut gradient, 20.0, 20.0), 10.0);
        assert_eq!(gradient.explain().reason, Reason::Probe);
        assert_eq!(next(&mut gradient, 10.0, 10.0), 5.0);
        // 10 had no queue, so the limit is that and the target.
        assert_near(
            next(&mut gradient, 5.0, 10.0),
            10.0 + 1.0 + QUEUE * 10f64.sqrt(),
        );
        assert_near(baseline(&gradient), 10.0);
    }

    #[test]
    fn update_of_calls_that_are_alone_keeps_the_limit() {
        // One call each second.
        let alone = |milliseconds: f64, cut: Duration| {
            let mut window = SampleWindow::new(20.0).with_cut(cut);
            let latency = Duration::from_secs_f64(milliseconds / 1e3);
            (0..48).for_each(|_| window.record(latency, 1));
            window.began_at(Tick::from_nanos(0));
            window.began_at(Tick::from_nanos(47_000_000_000));
            window.end_at(Duration::from_secs(47), 48);
            window
        };
        let mut gradient = Gradient::default();
        for milliseconds in [10.0, 10.0, 10.0, 50.0, 50.0] {
            let window = alone(milliseconds, gradient.cut());
            assert_eq!(gradient.update(&window).limit, 20.0);
            assert_eq!(gradient.explain().reason, Reason::Unused);
            assert_eq!(gradient.explain().baseline, None);
        }
    }

    #[test]
    fn progress_probes_at_the_multiples_of_ten_seconds() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 10.0);
        let at = |seconds: f64| {
            let mut window = refusing(20.0, 0, 12);
            window.end_at(Duration::from_secs_f64(seconds), 12);
            window
        };
        gradient.ended = Duration::from_secs(1001);
        assert_eq!(gradient.progress(&at(1009.9)), Progress::Continue);
        assert_eq!(gradient.progress(&at(1010.1)), Progress::End);
        assert_eq!(gradient.update(&at(1010.1)).limit, 10.0);
        assert_eq!(gradient.explain().reason, Reason::Probe);
        // No probe begins during a probe.
        assert_eq!(gradient.progress(&at(1020.1)), Progress::Continue);
    }

    #[test]
    fn progress_after_a_calibration_begins_no_probe_before_a_whole_window() {
        let mut gradient = calibrating();
        for limit in [50.0, 50.0, 25.0] {
            next(&mut gradient, limit, 100.0);
        }
        assert_eq!(gradient.explain().reason, Reason::Measured);
        let at = |seconds: f64| {
            let mut window = refusing(100.0, 0, 12);
            window.end_at(Duration::from_secs_f64(seconds), 12);
            window
        };
        gradient.ended = Duration::from_secs(1001);
        assert_eq!(gradient.progress(&at(1010.1)), Progress::Continue);
        next(&mut gradient, 100.0, 100.0);
        gradient.ended = Duration::from_secs(1011);
        assert_eq!(gradient.progress(&at(1020.1)), Progress::End);
    }

    #[test]
    fn update_after_a_jump_tells_a_queue_from_slower_work() {
        let jumped = |milliseconds: f64| {
            let mut gradient = measured();
            let jumped = window(20.0, milliseconds, 20).with_cut(gradient.cut());
            let mut cut = SampleWindow::new(20.0).with_cut(gradient.cut());
            (0..12).for_each(|_| cut.record(Duration::from_millis(100), 20));
            assert!(jumped.censored() == 0);
            assert_eq!(gradient.progress(&cut), Progress::End);
            assert_eq!(gradient.update(&cut).limit, 10.0);
            assert_eq!(gradient.explain().reason, Reason::Jump);
            assert_eq!(gradient.cut(), Duration::from_millis(100));
            gradient
        };
        // Two workers are left: ten calls take 50 ms each, five 25, 2.5 and one 10.
        let mut gradient = jumped(20.0);
        for (limit, milliseconds, lower) in [(10.0, 50.0, 5.0), (5.0, 25.0, 2.5), (2.5, 12.5, 1.25)]
        {
            assert_eq!(next(&mut gradient, limit, milliseconds), lower);
        }
        assert!(next(&mut gradient, 1.25, 10.0) < 4.0);
        assert_near(baseline(&gradient), 10.0);
        // Calls take 50 ms without a queue.
        let mut gradient = jumped(20.0);
        assert_eq!(next(&mut gradient, 10.0, 50.0), 5.0);
        assert_eq!(next(&mut gradient, 5.0, 50.0), 20.0);
        assert_near(baseline(&gradient), 50.0);
    }

    #[test]
    fn measured_moves_the_baseline_by_a_bounded_step() {
        let mut gradient = measured();
        let level = |milliseconds| Level::of(&window(20.0, milliseconds, 20)).unwrap();
        gradient.measured(level(19.0));
        assert_near(baseline(&gradient), 10.0 * MOVE);
        // Calls that are more than twice as slow are other work.
        gradient.measured(level(60.0));
        assert_near(baseline(&gradient), 60.0);
    }

    #[test]
    fn update_with_faster_work_lowers_the_baseline() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 2.0);
        assert_near(baseline(&gradient), 2.0);
    }
}
