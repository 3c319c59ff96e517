//! [`Gradient`]: the limit from the calls that queue, by Little's law.
//!
//! 1. A queue is throughput × (mean latency now − mean latency without a queue). Both means are cut at the
//!    same age, so the part of the law that neither shows cancels out, and the difference is divided by
//!    the part of the calls below the cut, because only they show a wait. So the gain is 1 for every law.
//! 2. Two levels tell a queue from slow work: if all calls that the lower one lacks were in a queue, each of
//!    them waited for one call less; without a queue, latencies are the same and the throughput falls.
//! 3. While a probe is under way the limit is not adjusted. A probe ends with the limit before it, or with the
//!    one that the lowest level with a queue implies.
//! 4. With several clients before one server, half of one limit empties no queue. So all clients probe at
//!    once, on multiples of a period of the wall clock, and no measurement moves the baseline by more than
//!    [`MOVE`], unless calls have become more than twice as slow.

use std::mem;
use std::time::Duration;

use super::{Controller, Explanation, Progress, Reason, SampleWindow, Target, positive};

/// Keeps the number of calls that queue near a tenth of the limit and its square root, and repeatedly
/// measures the latency without a queue, at half of the limit. This is the default controller.
///
/// The idea is that of TCP Vegas (Brakmo and Peterson, 1995) and of `VegasLimit` in Netflix's
/// [concurrency-limits]: `queue = throughput × (latency − baseline)`. The baseline is different: it is not
/// a remembered minimum, which drifts.
///
/// - The target is `q = (headroom − 1)·L + 0.45·√L` calls in the queue. If there are more, the limit moves half of
///   the way to `L − queue + q`. If there are less than half of that, it grows by the difference, by twice
///   the difference in the next such window, and so on, at most to twice the limit. A limit does not
///   grow while less than 0.8 of it is used.
/// - A window has `(2·L/q)²` samples, at least 24, so that the standard error of the queue is about a third of `q`;
///   half as many while the limit grows. Its cut is 2.5 times the mean time in flight: a call
///   that takes longer counts as this long, so rare slow calls neither dominate a mean nor delay a
///   window.
/// - A probe halves the limit until that no longer makes calls faster; the latency then is the
///   baseline `b`. **Probes begin at multiples of 10 seconds, or of 20, 40 and so on, of the machine's
///   clock**, so that all clients of a server probe at once; their clocks may differ by half a second. They take
///   about a thirty-second of the calls. A measurement moves `b` by 27 % at most, unless calls
///   have become more than twice as slow. If calls seldom meet, at less than 1.5 in flight, there is no queue, and
///   the limit stays.
/// - If more than three quarters of a window reach the cut, the window ends early, the cut grows by four, and
///   a probe with windows of 48 samples measures `b` anew. The same happens at the start. Until the next probe, a level
///   with half as many calls again and no queue moves `b` half of the way to its latency.
/// - A limit whose calls in flight have fallen by a third without a gain is a probe too: if calls have become more than
///   twice as slow, it measures `b`.
/// - If more than 3 % of a window are overloaded, the limit returns to the last one without overload, or to
///   0.9 of itself, and stays below for eight windows; for twice as many if the next one is refused again, up
///   to 128. If more than 90 % are, or the limit was twice as high before, it loses a fifth.
///
/// - Good at: service times, capacities and distributions that are unknown and change, heavy tails, and
///   several clients before one server.
/// - Bad at: processor sharing with a heavy tail, where most calls show little of the queue; a server that wastes
///   work as soon as it is overloaded; clients whose clocks differ by seconds; and a first-in first-out queue
///   of clients that are at their deadline when they are served. A client yields to greedy ones. The
///   probes cost one to two percent of the goodput. Latencies must be those of the other side: calls that are cut short
///   by a timeout should end as overloaded or ignored.
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
    initial: f64,
    headroom: f64,
    /// The mean latency without a queue, in seconds, with calls cut at `cut`.
    baseline: Option<f64>,
    /// Whether it was measured by few calls, and no probe has confirmed it.
    is_guess: bool,
    /// The age at which a call counts, in seconds.
    cut: f64,
    /// The smoothed mean time in flight, in seconds; 0 at first.
    mean: f64,
    /// The windows in a row far below the target.
    calm: i32,
    /// The last level of a whole window in which the limit was not changed for a probe.
    last: Option<Level>,
    /// The last limit at which no calls were refused.
    accepted: f64,
    /// The highest limit since calls were refused, the windows for which it holds, and those that are left.
    ceiling: f64,
    hold: u32,
    left: u32,
    /// The samples of this window.
    samples: f64,
    /// The time at which the last window ended.
    ended: Duration,
    state: State,
    explanation: Explanation,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The limit is adjusted. Levels are compared with this one.
    Steady(Option<Level>),
    /// The limit halves until latencies no longer fall. It was `back` before, and `last` is the previous level.
    Probing {
        back: f64,
        last: Option<Level>,
        /// Whether `last` is not the first level.
        is_lower: bool,
        /// Whether the baseline is unknown.
        is_new: bool,
    },
}

/// The measurements of one window at one limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    in_flight: f64,
    /// The most calls in flight, or the limit.
    used: f64,
    /// The mean latency and three standard errors, in seconds.
    mean: f64,
    error: f64,
    /// The part of the calls below the cut.
    open: f64,
    /// Calls per second.
    rate: f64,
    samples: f64,
}

/// The cut, in mean times in flight. With less, calls of one length reach it when a short queue is added; with more, slow
/// calls dominate the mean, and the window waits for them.
const CUT: f64 = 2.5;

/// A cut of fewer mean times in flight shows no queue.
const LEAST_CUT: f64 = 1.3;

/// After a jump, the factor of the cut: calls that take up to ten times as long are within it.
const JUMP: f64 = 4.0;

/// The calls that may queue, in units of √L, beyond the headroom: random arrivals and departures
/// differ by about √L, and a server without a queue idles.
const QUEUE: f64 = 0.45;

/// The relative standard error of a latency is about 0.7/√n, whatever the law is, because of the cut. With
/// (2·L/q)² samples that of the queue is a third of its target.
const NOISE: f64 = 2.0;

/// The least samples of a window.
const LEAST: f64 = 24.0;

/// The part of the limit that must be in use, so that the latency depends on the limit.
const USED: f64 = 0.8;

/// Calls queued at two levels if the wait falls by this part of the calls that the lower one lacks. A limit just above
/// the capacity, whose half is far below it, has less than a half.
const QUEUED: f64 = 0.75;

/// The throughput falls by half without a queue at the lower level, and stays the same with one.
const FALLEN: f64 = 0.65;

/// Levels are compared if the calls in flight differ by this factor.
const APART: f64 = 1.5;

/// The largest move of the baseline by one measurement. With several clients before one server, a
/// larger move takes the queue of the others for slower work.
const MOVE: f64 = 1.27;

/// Probes begin at multiples of this number of seconds, or of its doubles.
const PERIOD: f64 = 10.0;

/// A probe takes about one in this many calls.
const SHARE: f64 = 32.0;

/// If a larger part of a window than the first is refused, the limit falls. The second means
/// that everything is refused, at any limit.
const REFUSED: f64 = 0.03;
const ALL_REFUSED: f64 = 0.9;

/// The windows for which the limit stays below one at which calls were refused, at first and at most.
const HOLD: u32 = 8;
const LONGEST_HOLD: u32 = 128;

impl Default for Gradient {
    /// Starts at 20 with a headroom of 1.1.
    fn default() -> Self {
        Self {
            initial: 20.0,
            headroom: 1.1,
            baseline: None,
            is_guess: true,
            cut: 10.0,
            mean: 0.0,
            calm: 0,
            last: None,
            accepted: f64::INFINITY,
            ceiling: f64::INFINITY,
            hold: HOLD,
            left: 0,
            samples: 2.0 * LEAST,
            ended: Duration::ZERO,
            state: State::Steady(None),
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
        let initial = positive("initial limit", limit);
        Self { initial, ..self }
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
        let wait = level.mean - self.baseline.unwrap_or(level.mean);
        self.target(level.used) - level.rate * wait / level.open.max(0.1)
    }

    /// Returns the number of samples that show the queue at a limit.
    fn needed(&self, limit: f64) -> f64 {
        (NOISE * limit / self.target(limit)).powi(2).max(LEAST)
    }

    /// Returns whether a probe is due between two times.
    fn is_due(&self, since: Duration, until: Duration) -> bool {
        let is_steady = matches!(self.state, State::Steady(_));
        let Some(level) = self.last.filter(|level| is_steady && level.is_used()) else {
            return false;
        };
        let calls = SHARE * (self.needed(level.limit) + level.in_flight);
        let periods = (calls / level.rate / PERIOD).max(1.0);
        let period = PERIOD * periods.log2().ceil().exp2();
        let number = |time: Duration| (time.as_secs_f64() / period).floor();
        number(since) < number(until)
    }

    /// Measures the baseline anew, with this limit afterwards.
    fn calibrate(&mut self, back: f64) {
        self.calm = 0;
        // A level before a jump says nothing about the server since.
        self.last = None;
        self.state = State::Probing {
            back,
            last: None,
            is_lower: false,
            is_new: true,
        };
    }

    /// Measures the baseline anew at this limit, with a cut that fits the mean time in flight.
    fn recalibrate(&mut self, limit: f64) -> f64 {
        self.cut = CUT * self.mean;
        self.calibrate(limit);
        limit
    }

    /// Continues a probe at half of a level.
    fn halve(&mut self, back: f64, last: Level, is_lower: bool, is_new: bool) -> f64 {
        self.explanation.reason = if is_new && self.mean > 0.0 && self.baseline.is_some() {
            Reason::Jump
        } else {
            Reason::Probe
        };
        if last.limit.round() <= 1.0 || last.is_alone() {
            // One call is not in a queue.
            return self.probed(back, last, last, is_lower, is_new);
        }
        self.state = State::Probing {
            back,
            last: Some(last),
            is_lower,
            is_new,
        };
        (last.limit.min(last.in_flight) / 2.0).max(1.0)
    }

    /// Ends a probe: the lower level has no queue. Returns the limit before it, or the one that the other implies.
    fn probed(
        &mut self,
        back: f64,
        last: Level,
        level: Level,
        is_lower: bool,
        is_new: bool,
    ) -> f64 {
        self.explanation.reason = Reason::Measured;
        if is_new {
            self.mean = level.time_in_flight();
            self.baseline = Some(level.mean);
        } else {
            self.measured(level, if self.is_guess { 1.0 } else { 0.5 });
        }
        self.is_guess = is_new;
        self.calm = 0;
        self.state = State::Steady(Some(level));
        let short = self.shortage(last);
        if short >= 0.0 && !is_lower && last.limit > 1.0 {
            return back;
        }
        (last.used + short).max(level.limit).min(back)
    }

    /// Moves the baseline by a part of the way to a level without a queue.
    fn measured(&mut self, level: Level, part: f64) {
        let before = self.baseline.unwrap_or(level.mean);
        let to = before + part * (level.mean - before);
        let is_changed = level.mean > 2.0 * before;
        self.baseline = Some(if is_changed {
            level.mean
        } else {
            to.clamp(before / MOVE, before * MOVE)
        });
    }

    /// Returns the limit after a window in which too many calls were refused.
    fn refused(&mut self, window: &SampleWindow) -> Option<f64> {
        let part = f64::from(window.overloaded()) / f64::from(window.samples().max(1));
        let (limit, is_new) = match self.state {
            State::Probing { back, is_new, .. } => (back, is_new),
            State::Steady(_) => (window.limit(), false),
        };
        if part <= REFUSED {
            if limit > self.ceiling {
                (self.ceiling, self.hold) = (f64::INFINITY, HOLD);
            }
            self.accepted = limit;
            return None;
        }
        // The limit before a jump says nothing about the server since.
        let limit = if is_new { window.limit() } else { limit };
        let lower = self.lowered(limit, part);
        self.calm = 0;
        if is_new {
            self.calibrate(lower);
        } else {
            self.state = State::Steady(None);
        }
        Some(lower)
    }

    /// Returns a limit below one at which this part of the calls was refused, and holds it.
    fn lowered(&mut self, limit: f64, part: f64) -> f64 {
        // If a much higher limit was accepted before, the limit is not the reason.
        if part > ALL_REFUSED || self.accepted.is_finite() && limit < self.accepted / 2.0 {
            return 0.8 * limit;
        }
        let lower = (0.9 * limit).min(limit - 1.0).max(1.0);
        let next = if self.accepted < limit {
            self.accepted
        } else {
            lower
        };
        // Refusals that return at one level are a limit of the server.
        let is_known = self.ceiling.is_finite() && next >= self.ceiling / 1.25;
        self.hold = if is_known {
            (2 * self.hold).min(LONGEST_HOLD)
        } else {
            HOLD
        };
        (self.ceiling, self.left) = (next, self.hold);
        next
    }

    /// Returns the next limit after a window whose calls were answered.
    fn answered(&mut self, level: Level, since: Duration) -> f64 {
        let mean = level.time_in_flight();
        if self.mean == 0.0 {
            self.mean = mean;
            return self.recalibrate(level.limit);
        }
        if level.has_jumped() {
            self.cut *= JUMP;
            self.mean = self.cut / CUT;
            let back = match self.state {
                State::Probing { back, .. } => back,
                State::Steady(_) if level.is_alone() => level.limit,
                State::Steady(_) => level.used,
            };
            self.explanation.reason = Reason::Jump;
            self.calibrate(back);
            if level.is_alone() {
                return level.limit;
            }
            return level.limit.min(back / 2.0).max(1.0);
        }
        match self.state {
            State::Probing { last: None, .. } if !(LEAST_CUT..8.0).contains(&(self.cut / mean)) => {
                (self.mean, self.cut) = (mean, CUT * mean);
                level.limit
            }
            State::Probing {
                back,
                last: None,
                is_new,
                ..
            } => self.halve(back, level, false, is_new),
            State::Probing {
                back,
                last: Some(last),
                is_lower,
                is_new,
            } => {
                let least = if is_new { 0.5 } else { QUEUED };
                if last.queues_as(&level, least) && level.limit > 1.0 {
                    return self.halve(back, level, true, is_new);
                }
                self.probed(back, last, level, is_lower, is_new)
            }
            State::Steady(other) => self.adjusted(other.unwrap_or(level), level, since),
        }
    }

    /// Returns the next limit after a window in which the limit was not low for a probe.
    fn adjusted(&mut self, other: Level, level: Level, since: Duration) -> f64 {
        let is_early = level.samples < self.samples;
        let from = self.last.filter(|_| is_early).unwrap_or(level);
        if is_early || self.is_due(since, self.ended) {
            // After a drop of the capacity it is ten times the mean, and few calls would make a worse baseline.
            if self.cut > 16.0 * self.mean {
                return self.recalibrate(level.limit);
            }
            return self.halve(level.limit, from, false, false);
        }
        self.last = Some(level);
        self.mean += 0.1 * (level.time_in_flight() - self.mean);
        if self.cut < LEAST_CUT * self.mean {
            return self.recalibrate(level.limit);
        }
        // Every latency is an upper bound.
        self.baseline = self
            .baseline
            .map(|baseline| baseline.min(level.mean + level.error));
        if let Some(limit) = self.compared(other, level) {
            return limit;
        }
        let short = self.shortage(level);
        let calm = mem::take(&mut self.calm);
        self.explanation.reason = if short < 0.0 {
            Reason::Queue
        } else {
            Reason::NoQueue
        };
        if short < 0.0 {
            return (level.used + short / 2.0).max(level.used / 2.0).max(1.0);
        }
        if !level.is_used() {
            self.explanation.reason = Reason::Unused;
            if level.used <= level.limit / 2.0 {
                self.measured(level, 0.25);
            }
            return level.limit;
        }
        if short > self.target(level.limit) / 2.0 {
            self.calm = calm + 1;
            return level.limit + (short * 2f64.powi(calm)).min(level.limit);
        }
        level.limit + short / 2.0
    }

    /// Compares a level with an earlier one. Returns a limit if the calls in flight have fallen without a gain.
    fn compared(&mut self, other: Level, level: Level) -> Option<f64> {
        if level.limit.round() <= 1.0 {
            self.measured(level, 1.0);
        }
        let is_below = level.in_flight * APART < other.in_flight;
        let is_above = level.in_flight > other.in_flight * APART;
        let is_apart = is_below || is_above;
        self.state = State::Steady(Some(if is_apart { level } else { other }));
        // A higher level without a queue is another measurement. Later, it would teach several clients each
        // other's queue.
        if is_above && self.is_guess && !level.queues_as(&other, 0.5) {
            self.measured(level, 0.5);
        }
        // If calls have become slower at a lower level, the server has changed.
        let is_other_work = is_below && level.mean > other.mean + level.error / 2.0;
        if !is_below || is_other_work || other.queues_as(&level, 0.5) {
            return None;
        }
        // A bounded move here would let several clients learn each other's queue.
        if level.mean > 2.0 * self.baseline.unwrap_or(level.mean) {
            self.baseline = Some(level.mean);
        }
        self.explanation.reason = Reason::Measured;
        self.calm = 0;
        let short = self.shortage(other);
        let limit = if short < 0.0 {
            other.used + short
        } else {
            other.limit
        };
        let most = if level.is_used() {
            other.limit
        } else {
            level.limit.min(other.limit)
        };
        Some(limit.max(level.limit).min(most))
    }
}

impl Level {
    /// Returns `None` if no call of the window was answered.
    fn of(window: &SampleWindow) -> Option<Self> {
        let mean = window.mean_latency()?.as_secs_f64().max(1e-9);
        let answered = f64::from(window.samples() - window.overloaded());
        let in_flight = window.mean_in_flight();
        // By Little's law, since a mean that is cut is too short. Calls that begin at once because the limit has grown
        // have no rate.
        let most = in_flight / mean;
        Some(Self {
            limit: window.limit(),
            in_flight,
            used: window.limit().min(window.max_in_flight() as f64).max(1.0),
            mean,
            error: 3.0 * window.error()?.as_secs_f64(),
            open: 1.0 - f64::from(window.censored()) / answered,
            rate: window.rate().map_or(most, |rate| rate.min(most)),
            samples: f64::from(window.samples()),
        })
    }

    /// Returns whether the latency depends on the limit. A limit of 1.4 admits one call.
    fn is_used(&self) -> bool {
        self.used + 0.5 >= USED * self.limit
    }

    /// Returns whether a call seldom meets another. It counts itself.
    fn is_alone(&self) -> bool {
        self.in_flight.round() <= 1.0
    }

    /// Returns the mean time in flight, in seconds: by Little's law, which holds for calls that are cut too, unless that
    /// is no more than the time between two calls.
    fn time_in_flight(&self) -> f64 {
        if self.is_alone() {
            self.mean / self.open.max(0.25)
        } else {
            self.in_flight / self.rate
        }
    }

    /// Returns whether most calls reach the cut.
    fn has_jumped(&self) -> bool {
        self.open < 0.25
    }

    /// Returns whether calls queue here and at a lower level: this part, at least, of the calls that it lacks.
    fn queues_as(&self, low: &Self, least: f64) -> bool {
        let fewer = self.in_flight - low.in_flight;
        let shorter = self.rate * (self.mean - low.mean) / ((self.open + low.open) / 2.0);
        let has_fallen = low.rate < FALLEN * self.rate;
        fewer > 0.0 && shorter > if has_fallen { least.max(0.8) } else { least } * fewer
    }
}

impl Controller for Gradient {
    fn initial(&self) -> Target {
        Target {
            limit: self.initial,
            samples: self.samples as u32,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let since = mem::replace(&mut self.ended, window.ended());
        self.left = self.left.saturating_sub(1);
        let level = Level::of(window);
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.explanation.latency = level.map(|level| duration(level.mean));
        let mut limit = match (self.refused(window), level) {
            (None, Some(level)) => self.answered(level, since),
            (limit, _) => {
                self.explanation.reason = Reason::Refused;
                limit.unwrap_or(window.limit())
            }
        };
        self.explanation.baseline = self.baseline.map(duration);
        let ceiling = if self.left > 0 {
            self.ceiling
        } else {
            self.ceiling + 1.0
        };
        if limit > ceiling {
            self.explanation.reason = Reason::Refused;
            limit = ceiling;
        }
        self.samples = match self.state {
            State::Probing { is_new: true, .. } => 2.0 * LEAST,
            State::Probing { back, .. } => self.needed(back),
            State::Steady(_) if self.calm > 0 => (self.needed(limit) / 2.0).max(LEAST),
            State::Steady(_) => self.needed(limit),
        };
        self.samples = self.samples.floor();
        // A float is converted with saturation.
        Target {
            limit,
            samples: self.samples as u32,
        }
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        let samples = window.samples();
        let is_enough = f64::from(samples) >= LEAST / 2.0;
        let ends = window.overloaded() > samples / 4
            || self.mean == 0.0 && samples >= 16
            || self.is_due(self.ended, window.ended())
            || Level::of(window).is_some_and(|level| level.has_jumped());
        if is_enough && ends {
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
        gradient.baseline.unwrap() * 1e3
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
    fn update_of_a_window_that_does_not_use_the_limit_never_raises_it() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&window(20.0, 10.0, 15)).limit, 20.0);
        assert_eq!(gradient.explain().reason, Reason::Unused);
        assert!(gradient.update(&window(20.0, 20.0, 15)).limit < 15.0);
    }

    #[test]
    fn update_of_a_window_with_fewer_calls_that_does_not_use_the_limit_never_raises_it() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 10.0);
        // Half of the calls, as long as before.
        assert_eq!(gradient.update(&window(15.0, 10.0, 10)).limit, 15.0);
        assert_eq!(gradient.explain().reason, Reason::Measured);
    }

    #[test]
    fn update_with_refusals_at_one_level_holds_longer_each_time() {
        let mut gradient = measured();
        let grown = next(&mut gradient, 20.0, 10.0);
        for hold in [8, 16, 32, 64, 128, 128] {
            let refused = gradient.update(&refusing(grown, 20, 100)).limit;
            assert_eq!(refused, 20.0);
            assert_eq!(gradient.explain().reason, Reason::Refused);
            for _ in 1..hold {
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
        // The calibration goes on, first with the cut, and returns to the limit that was accepted.
        assert_eq!(next(&mut gradient, limit, 10.0), limit);
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
    fn update_with_refusals_at_once_takes_a_tenth_or_a_fifth() {
        assert_eq!(
            measured().update(&refusing(18.0, 20, 100)).limit,
            0.9 * 18.0
        );
        // Three of a hundred are not too many.
        assert!(measured().update(&refusing(20.0, 3, 97)).limit >= 20.0);
        // A server that refuses everything may be down.
        assert_eq!(measured().update(&overloaded(20.0)).limit, 16.0);
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
        for _ in 0..4 {
            let window = alone(10.0, gradient.cut());
            assert_eq!(gradient.update(&window).limit, 20.0);
            assert_near(gradient.cut, 0.025);
        }
        assert_near(baseline(&gradient), 10.0);
        // The server becomes slower.
        let window = alone(50.0, gradient.cut());
        assert_eq!(gradient.update(&window).limit, 20.0);
        assert_eq!(gradient.explain().reason, Reason::Jump);
        let window = alone(50.0, gradient.cut());
        assert_eq!(gradient.update(&window).limit, 20.0);
        assert_near(baseline(&gradient), 50.0);
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
        gradient.measured(level(19.0), 1.0);
        assert_near(baseline(&gradient), 10.0 * MOVE);
        // Calls that are more than twice as slow are other work.
        gradient.measured(level(60.0), 1.0);
        assert_near(baseline(&gradient), 60.0);
    }

    #[test]
    fn update_with_faster_work_lowers_the_baseline() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 2.0);
        assert_near(baseline(&gradient), 2.0);
    }
}
