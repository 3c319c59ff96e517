//! [`Gradient`]: the limit from the ratio of a latency without a queue to the latency now.
//!
//! 1. A latency is the mean of the binary logarithms of a window: one more is twice as long. The
//!    calls that end first in a window are dropped, since too many of them are short.
//! 2. The baseline is a latency at a level at which the other side did not queue. Every latency is an
//!    upper bound for it, because latencies grow with concurrency.
//! 3. Two levels tell a queue from slow work: with a queue, half of the calls take half of the time
//!    (elasticity 0); without one they take the same time (elasticity 1).
//! 4. While a probe is under way the limit is not adjusted. A probe ends with the limit that its
//!    first level implies, so a misleading probe costs a window and not the limit, unless the
//!    latency jumps during it.
//! 5. With several clients before one server, half of one limit empties no queue. So all clients probe at
//!    once, on multiples of a period of the wall clock, and no measurement moves the baseline by more than
//!    [`MOVE`], unless calls have become more than twice as slow or as fast.
//! 6. The limit never stays below a level at which there was no queue: either the limit is in use
//!    and grows, or it falls to half of a higher level without a gain, and that corrects the
//!    baseline.

use std::f64::consts::SQRT_2;
use std::mem;
use std::time::Duration;

use super::{Controller, Explanation, Progress, Reason, SampleWindow, Target, positive};

/// Multiplies the limit by the ratio of the latency without a queue to the latency now, and
/// repeatedly measures the latency without a queue, at half of the limit. This is the default
/// controller.
///
/// The gradient is that of Envoy's [adaptive concurrency filter][filter] and of `Gradient2Limit` of
/// Netflix's [concurrency-limits]. The baseline is different: it is neither a remembered minimum,
/// which drifts, nor measured at a limit of 3, which refuses traffic.
///
/// - A window has `max(96, 2·L)` samples, after the first `L` calls that end. `r` is their mean
///   logarithm, so a heavy tail does not dominate, and differences count if they exceed three
///   standard errors. While the limit grows, a window has `max(48, L)` samples; it has
///   `max(48, 2·L)` at less than 60 calls per second, and if no queue was seen at up to twice the
///   limit.
/// - `g = clamp(headroom·2^(b − r), 0.5, 1.25)`, and the limit moves a third of the way to
///   `L·g + 0.45·√L`; it goes all the way if there is no sign of a queue, that is, if `r ≤ b`.
///   After two such windows, or one that is clearly below `b`, the limit grows by half, repeatedly,
///   until a queue is seen. Below half of the limit of the last queue, and as long as there was no
///   queue, one such window is enough, and the limit doubles.
/// - A limit does not grow while less than 0.8 of it is used. It shrinks in the usual way, and a
///   window that used at most half of it measures the baseline `b` for free.
/// - About every 2,048 samples, later if that confirms the baseline, a window at half of the limit
///   probes it. If the latency fell with the limit, both levels had a queue, and the probe
///   continues at half of the lower one. **Probes begin at multiples of 10 seconds, or of 20, 40
///   and so on, of the machine's clock**, so that all clients of a server probe at once; their
///   clocks may differ by half a second. A measurement moves the baseline by 27 % at most, unless
///   calls have become more than twice as slow or fast.
/// - A limit that has fallen to half of an earlier value is a probe too: if that did not make the
///   calls any faster, the calls themselves take longer, and `r` measures the baseline. Earlier
///   confirmations of the baseline no longer count.
/// - If calls take more than six times as long as the baseline, the window ends early, and two lower
///   limits, with `max(24, L)` samples each, tell a queue from slower work.
/// - If more than 3 % of a window are overloaded, the limit returns to the last one without
///   overload, or to 0.9 of itself, and stays below for eight windows. If more than 90 % are, the
///   limit loses a fifth.
///
/// - Good at: service times, capacities and distributions that are unknown and change, and several
///   clients before one server: in the simulation of this repository, 5 to 20 clients at 1.5 times
///   a server's capacity have 99 % of the goodput of the best fixed limits. This is not a lower
///   bound: single seeds of single clients have less.
/// - Bad at: a server that wastes work as soon as it is overloaded, calls that become slower by a
///   factor below two (a minute at nine tenths of the goodput), and a first-in first-out queue of
///   clients that are at their deadline when they are served. The probes cost one to two percent of
///   the goodput. Latencies must be those of the other side: calls that are cut short by a timeout
///   should end as overloaded or ignored.
///
/// It begins at 20; you can [change](Self::initial_limit) that. In the simulation, with calls of 20
/// ms, a start of 1 before 40 workers has nine tenths of the goodput after two seconds, and a start
/// of 1000 before 10 after one.
///
/// [filter]: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/adaptive_concurrency_filter
/// [concurrency-limits]: https://github.com/Netflix/concurrency-limits
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::{Controller, Gradient, SampleWindow};
///
/// let mut controller = Gradient::default();
/// let mut update = |limit, milliseconds, in_flight| {
///     let mut window = SampleWindow::new(limit);
///     window.record(Duration::from_millis(milliseconds), in_flight);
///     controller.update(&window).limit
/// };
/// assert_eq!(update(20.0, 10, 20), 20.0); // the first few calls
/// assert_eq!(update(20.0, 10, 20), 10.0); // a probe, at half of the limit
/// assert_eq!(update(10.0, 10, 10), 20.0); // as long as before: the baseline is 10 ms
/// assert!(update(20.0, 30, 20) < 20.0); // a queue: less
/// assert!(update(20.0, 10, 20) > 20.0); // no queue: more
/// ```
#[derive(Clone, Debug)]
pub struct Gradient {
    initial: f64,
    headroom: f64,
    probe_after: u64,
    /// The mean log2 of the latency without a queue.
    baseline: Option<f64>,
    /// Whether the baseline is that of the first few calls, before any comparison.
    is_guess: bool,
    /// The measurements in a row that did not differ from it significantly.
    confirmed: i32,
    /// The limit at which a queue was last seen. Far below it the limit grows faster.
    queued_at: f64,
    /// The windows in a row without a sign of a queue.
    calm: u32,
    /// The last limit at which no calls were refused.
    accepted: f64,
    /// The highest permitted limit since calls were refused, and the number of windows for which it
    /// holds.
    ceiling: (f64, u32),
    /// The calls per second of the last window that was long enough to measure them.
    rate: Option<f64>,
    /// The time at which the last window ended.
    ended: Duration,
    /// Whether the calls that ended first in this window have been dropped.
    is_warm: bool,
    state: State,
    explanation: Explanation,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The highest level since this state or the comparison began, and the last level.
    Steady(Option<(Level, Level)>),
    /// The limit grows until there is a queue.
    Growing,
    /// The limit halves until latencies no longer fall. `first` is the level at which the probe
    /// began, and `last` the previous level.
    Probing { first: Level, last: Level },
    /// The limit falls after a jump of the latency, until two levels show the reason. The window
    /// that shows the jump mixes samples from before and after it, so `last` is `None` at first.
    Jumped { before: f64, last: Option<Level> },
}

/// The measurements of one window at one limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    in_flight: f64,
    /// The mean log2.
    latency: f64,
    /// Three standard errors of the latency.
    error: f64,
    /// Calls per second, by Little's law.
    rate: f64,
}

/// The first few calls, whose latency is the baseline until levels have been compared.
const FIRST: u32 = 16;

/// The smallest number of samples with which a window ends early.
const LEAST: u32 = 12;

/// A mean of fewer samples is too noisy: with exponential service times the standard error of this
/// many is 13 %.
const SAMPLES: u32 = 96;

/// The samples of a window while the limit grows, or is far below the limit of the last queue.
const GROWING: u32 = 48;

/// At fewer calls per second than this, a window has as few samples as while the limit grows.
const SLOW: f64 = 60.0;

/// The samples of a window after a jump, because each window costs goodput then.
const JUMPED: u32 = 24;

/// The part of the limit that must be in use, so that the latency depends on the limit.
const USED: f64 = 0.8;

/// The part of a step that is made. Near the limit a queue makes the short calls several times
/// slower, so the mean logarithm reacts up to four times as strongly as the mean; whole steps would
/// oscillate.
const STEP: f64 = 1.0 / 3.0;

/// The number of calls that the server's queue may have, in units of √L, beyond the headroom:
/// random arrivals and departures differ by about √L, and a server without a queue idles.
const QUEUE: f64 = 0.45;

/// A limit has less than this elasticity if calls take longer in proportion to the limit, with
/// noise. A limit just above the capacity, whose half is far below it, has about 0.7.
const ELASTIC: f64 = 0.25;

/// The part of the way that the baseline moves to a latency significantly below it. The minimum of
/// many windows exaggerates, and a baseline that is too low lets the server idle.
const DOWNWARD: f64 = 0.4;

/// The smallest weight of a measurement that does not differ significantly from the baseline. The
/// first few measurements are averaged.
const BLEND: f64 = 0.25;

/// The largest move of the baseline by one measurement. With several clients before one server, a
/// larger move takes the queue of the others for slower work, and the limits of all grow without
/// end.
const MOVE: f64 = 0.35;

/// A latency that differs from the baseline by more than a factor of two shows that the server has
/// changed.
const CHANGED: f64 = 1.0;

/// A latency that exceeds the baseline by this has jumped. The queue of a limit that grew by half
/// adds less.
const JUMP: f64 = 2.6;

/// A latency that exceeds the baseline by less is no queue.
const NOISE: f64 = 0.25;

/// Probes begin at multiples of this number of seconds, or of its doubles.
const PERIOD: f64 = 10.0;

/// A probe at half of the limit takes 2·L samples and loses L responses, so one in 32·L samples
/// loses 3 %. Confirmed baselines are probed after up to 2² times as many samples.
const PROBE_AFTER: u64 = 2048;
const PROBE_AFTER_PER_LIMIT: f64 = 32.0;
const MOST_DOUBLINGS: i32 = 2;

/// If a larger part of a window than this is refused, the limit falls. The second constant means
/// that everything is refused, at any limit.
const REFUSED: f64 = 0.03;
const ALL_REFUSED: f64 = 0.9;

/// The windows for which the limit stays below one at which calls were refused.
const CEILING: u32 = 8;

impl Default for Gradient {
    /// Starts at 20 with a headroom of 1.1, and probes after 2,048 samples or more.
    fn default() -> Self {
        Self {
            initial: 20.0,
            headroom: 1.1,
            probe_after: PROBE_AFTER,
            baseline: None,
            is_guess: true,
            confirmed: 0,
            queued_at: f64::INFINITY,
            calm: 0,
            accepted: f64::INFINITY,
            ceiling: (f64::INFINITY, 0),
            rate: None,
            ended: Duration::ZERO,
            is_warm: false,
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

    /// Sets the factor by which the latency may exceed the baseline before the limit shrinks, by
    /// default 1.1. A larger factor keeps a server with varied calls from idling, and a smaller one
    /// protects a server that slows down under too many calls.
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

    /// Sets the minimum number of samples from one measurement of the baseline to the next, by
    /// default 2,048.
    #[must_use]
    pub fn probe_after(mut self, samples: u64) -> Self {
        self.probe_after = samples;
        self
    }

    /// Returns whether a probe is due between two times.
    fn is_due(&self, level: Level, since: Duration, until: Duration) -> bool {
        let doublings = self.confirmed.min(MOST_DOUBLINGS);
        let least = self.probe_after as f64 * 2f64.powi(doublings);
        let calls = least.max(PROBE_AFTER_PER_LIMIT * level.limit);
        let periods = calls / self.rate.unwrap_or(level.rate) / PERIOD;
        let period = PERIOD * periods.max(1.0).log2().ceil().exp2();
        let number = |time: Duration| (time.as_secs_f64() / period).floor();
        number(since) < number(until)
    }

    /// Returns the amount by which a level exceeds the baseline.
    fn excess(&self, level: Level) -> f64 {
        level.latency - self.baseline.unwrap_or(level.latency)
    }

    /// Returns whether calls suddenly take several times as long as without a queue.
    fn has_jumped(&self, level: Level) -> bool {
        self.excess(level) > JUMP.max(CHANGED + level.error)
    }

    fn is_far_below_queue(&self, limit: f64) -> bool {
        limit < self.queued_at / 2.0
    }

    /// Updates the baseline with the latency of a level without a queue.
    fn measured(&mut self, level: Level) {
        let difference = self.excess(level);
        let is_same = difference.abs() <= level.error;
        self.confirmed = if is_same {
            self.confirmed.saturating_add(1)
        } else {
            0
        };
        if mem::take(&mut self.is_guess) || !is_same && difference.abs() > CHANGED {
            self.baseline = Some(level.latency);
            return;
        }
        let part = match is_same {
            true => (1.0 / (f64::from(self.confirmed) + 1.0)).max(BLEND),
            false if difference < 0.0 => DOWNWARD,
            false => 1.0,
        };
        let step = (part * difference).clamp(-MOVE, MOVE);
        self.baseline = Some(level.latency - difference + step);
    }

    /// Returns the limit that a level implies by the baseline.
    fn implied(&self, level: Level, least: f64) -> f64 {
        let gradient = self.headroom * (-self.excess(level)).exp2();
        level.limit * gradient.clamp(least, 1.25) + QUEUE * level.limit.sqrt()
    }

    /// Returns the limit after the baseline has been measured at a lower level than `from`: the
    /// limit that `from` implies, but at least `least`, where there was no queue, and at most the
    /// limit of `from`, because that measurement is old by now.
    fn restored(&self, from: Level, least: f64) -> f64 {
        self.implied(from, 0.0).max(least).min(from.limit)
    }

    /// Returns the limit after a part of the way to the limit that a level implies.
    fn step(&self, level: Level) -> f64 {
        level.limit + STEP * (self.implied(level, 0.5) - level.limit)
    }

    /// Returns the limit after a window in which too many calls were refused.
    fn refused(&mut self, window: &SampleWindow) -> Option<f64> {
        let part = f64::from(window.overloaded()) / f64::from(window.samples().max(1));
        let limit = match self.state {
            State::Probing { first, .. } => first.limit,
            State::Jumped { before, .. } => before,
            _ => window.limit(),
        };
        if part <= REFUSED {
            self.accepted = limit;
            return None;
        }
        self.settle();
        // If a much higher limit was accepted before, the limit is not the reason.
        if part > ALL_REFUSED || self.accepted.is_finite() && limit < self.accepted / 2.0 {
            return Some(0.8 * limit);
        }
        let limit = if self.accepted < limit {
            self.accepted
        } else {
            (0.9 * limit).min(limit - 1.0).max(1.0)
        };
        self.ceiling = (limit, CEILING);
        Some(limit)
    }

    /// Ends the state under way.
    fn settle(&mut self) {
        self.state = State::Steady(None);
        self.calm = 0;
    }

    /// Returns the next limit after a window whose calls were answered.
    fn answered(&mut self, level: Level, most: f64, since: Duration) -> f64 {
        if self.baseline.is_none() {
            self.baseline = Some(level.latency);
            // One call is not in a queue, whatever the limit.
            if level.limit.round() <= 1.0 {
                return self.grow(1.0);
            }
            return level.limit;
        }
        match self.state {
            State::Jumped { before, last } => self.compared_after_jump(before, last, level),
            _ if self.has_jumped(level) => self.jumped(level, most),
            State::Probing { first, last } => self.probed(first, last, level),
            // A limit of 1.4 admits one call.
            _ if most < USED * level.limit.round() => self.unused(level, most),
            State::Growing => self.grown(level),
            State::Steady(levels) => self.adjusted(levels.unwrap_or((level, level)), level, since),
        }
    }

    /// Continues with a window at half of the limit of `last`.
    fn probe(&mut self, first: Level, last: Level) -> f64 {
        self.state = State::Probing { first, last };
        (last.limit / 2.0).max(1.0)
    }

    /// Ends a probe whose levels `last` and `level` have been measured, or continues with it.
    fn probed(&mut self, first: Level, last: Level, level: Level) -> f64 {
        let is_above = self.is_guess || self.excess(level) > 0.0;
        if is_above && level.limit > 1.0 && !last.is_elastic(&level) {
            return self.probe(first, level);
        }
        self.settle();
        let difference = last.latency - level.latency;
        let mut latency = level.latency;
        if self.is_guess && difference.abs() <= level.error {
            // Neither level had a queue, and two windows measure better than one.
            latency += difference / 2.0;
        }
        self.measured(Level { latency, ..level });
        self.restored(first, level.limit)
    }

    /// Starts to look for the reason of a jump of the latency.
    fn jumped(&mut self, level: Level, most: f64) -> f64 {
        let used = level.limit.min(most).max(1.0);
        self.state = State::Jumped {
            before: used,
            last: None,
        };
        let limit = self.implied(level, 0.0);
        limit.clamp(used / 4.0, used / 2.0).max(1.0)
    }

    /// Tells a queue from slower work after a jump, by two levels that began after it.
    fn compared_after_jump(&mut self, before: f64, last: Option<Level>, level: Level) -> f64 {
        if self.excess(level) <= (2.0 * NOISE).max(level.error * 2.0 / 3.0) {
            self.settle();
            self.queued_at = before;
            return level.limit;
        }
        let is_slow_work = |last: &Level| last.is_elastic(&level) && !level.is_slower(last);
        if level.limit > 1.0 && !last.as_ref().is_some_and(is_slow_work) {
            let last = Some(level);
            self.state = State::Jumped { before, last };
            return (0.6 * level.limit).max(1.0);
        }
        self.settle();
        self.baseline = Some(level.latency);
        self.confirmed = 0;
        before
    }

    /// Returns the next limit after a window that did not use the limit, which does not grow.
    fn unused(&mut self, level: Level, most: f64) -> f64 {
        self.settle();
        let excess = self.excess(level);
        if most <= (level.limit / 2.0).max(1.0) || excess < -level.error {
            self.measured(level);
        }
        if excess > level.error / 2.0 {
            return self.step(level).min(level.limit);
        }
        level.limit
    }

    /// Starts to grow, or continues.
    fn grow(&mut self, limit: f64) -> f64 {
        self.state = State::Growing;
        let is_far = self.is_far_below_queue(limit);
        limit * if is_far { 2.0 } else { 1.5 }
    }

    /// Continues to grow unless there is a queue.
    fn grown(&mut self, level: Level) -> f64 {
        if self.excess(level) < -CHANGED.max(level.error) {
            // The limit may stay here, at the highest one, until the server becomes slower again.
            self.measured(level);
        }
        if self.excess(level) <= NOISE.max(level.error * 2.0 / 3.0) {
            return self.grow(level.limit);
        }
        self.settle();
        self.queued_at = level.limit;
        if self.is_guess {
            return self.probe(level, level);
        }
        // The limit before a step by half had no queue.
        self.implied(level, 0.0).max(level.limit / 1.5)
    }

    /// Returns the next limit after a window in which the limit was used, with the highest and the last level
    /// before.
    fn adjusted(&mut self, (top, last): (Level, Level), level: Level, since: Duration) -> f64 {
        if self.is_guess {
            return self.probe(level, level);
        }
        if self.is_due(level, since, self.ended) {
            // This window may have ended early, with too few samples.
            return self.probe(last, last);
        }
        if level.limit.round() <= 1.0 || self.excess(level) < -level.error {
            self.measured(level);
        }
        if let Some(limit) = self.compared(top, level) {
            return limit;
        }
        let excess = self.excess(level);
        if excess > level.error {
            self.queued_at = level.limit;
        }
        let error = level.error / 3.0;
        self.calm = match excess {
            excess if excess <= -error => self.calm + 2,
            excess if excess <= 1.5 * error => self.calm + 1,
            _ => 0,
        };
        let is_far = self.is_far_below_queue(level.limit);
        if self.calm >= if is_far { 1 } else { 2 } {
            return self.grow(level.limit);
        }
        if excess > 0.0 {
            return self.step(level);
        }
        self.implied(level, 0.5)
    }

    /// Compares a level with the highest one since the baseline was measured. Returns a limit if
    /// the level has fallen to half of the highest one without a gain.
    fn compared(&mut self, top: Level, level: Level) -> Option<f64> {
        // If the latency has risen since, the server has changed, so the comparison begins again.
        let is_below = level.limit < top.limit && !level.is_slower(&top);
        let top = if is_below { top } else { level };
        self.state = State::Steady(Some((top, level)));
        if level.limit > top.limit / 2.0 {
            return None;
        }
        if top.is_elastic(&level) {
            self.settle();
            // The calls have changed, and the confirmations are about the earlier calls.
            self.confirmed = 0;
            self.measured(level);
            return Some(self.restored(top, level.limit));
        }
        // The queue has become shorter. Later levels are compared with this one.
        self.state = State::Steady(Some((level, level)));
        None
    }

    /// Returns why a level was followed by the present state. `before` is the state before.
    fn reason(&self, before: State, level: Level, most: f64) -> Reason {
        match (before, self.state) {
            (_, State::Probing { .. }) => Reason::Probe,
            (_, State::Jumped { .. }) => Reason::Jump,
            (State::Probing { .. } | State::Jumped { .. }, _) => Reason::Measured,
            (_, State::Growing) => Reason::NoQueue,
            _ if most < USED * level.limit.round() => Reason::Unused,
            _ if self.excess(level) > 0.0 => Reason::Queue,
            _ => Reason::NoQueue,
        }
    }

    /// Returns the target for a limit, with the number of samples that its window needs.
    fn windowed(&self, limit: f64) -> Target {
        let is_far = self.is_far_below_queue(limit);
        let is_slow = self.rate.is_some_and(|rate| rate < SLOW);
        let (least, of_limit) = match self.state {
            State::Jumped { .. } => (JUMPED, 1.0),
            State::Growing => (GROWING, 1.0),
            State::Steady(_) if !self.is_guess && (is_far || is_slow) => (GROWING, 2.0),
            _ => (SAMPLES, 2.0),
        };
        // A float is converted with saturation.
        let samples = least.max((of_limit * limit) as u32);
        Target { limit, samples }
    }
}

/// Returns the duration with a binary logarithm in nanoseconds.
fn duration(log2: f64) -> Duration {
    // A float is converted with saturation.
    Duration::from_nanos(log2.exp2() as u64)
}

impl Level {
    /// Returns `None` if no call of the window was answered.
    fn of(window: &SampleWindow) -> Option<Self> {
        let in_flight = window.mean_in_flight();
        Some(Self {
            limit: window.limit(),
            in_flight,
            latency: window.mean_log2()?,
            error: 3.0 * window.error_log2()?,
            rate: in_flight / window.mean_latency()?.as_secs_f64(),
        })
    }

    /// Returns whether the throughput has fallen on the way to a lower level. It falls if the lower
    /// level has no queue. Also returns true if the level is not lower.
    fn is_elastic(&self, lower: &Level) -> bool {
        let fallen = (self.in_flight / lower.in_flight).log2();
        lower.limit >= self.limit || self.latency - lower.latency <= (1.0 - ELASTIC) * fallen
    }

    /// Returns whether calls take significantly longer than at another level. A difference has √2 times
    /// the error of a latency.
    fn is_slower(&self, other: &Level) -> bool {
        self.latency > other.latency + SQRT_2 * self.error
    }
}

impl Controller for Gradient {
    fn initial(&self) -> Target {
        self.windowed(self.initial)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let since = mem::replace(&mut self.ended, window.ended());
        self.is_warm = false;
        self.ceiling.1 = self.ceiling.1.saturating_sub(1);
        let level = Level::of(window);
        self.explanation.latency = level.map(|level| duration(level.latency));
        let limit = match (self.refused(window), level) {
            (None, Some(level)) => {
                if window.samples() >= JUMPED {
                    self.rate = Some(level.rate);
                }
                let before = self.state;
                let most = window.max_in_flight() as f64;
                let limit = self.answered(level, most, since);
                self.explanation.reason = self.reason(before, level, most);
                limit
            }
            (limit, _) => {
                self.explanation.reason = Reason::Refused;
                limit.unwrap_or(window.limit())
            }
        };
        self.explanation.baseline = self.baseline.map(duration);
        if self.ceiling.1 == 0 || limit <= self.ceiling.0 {
            return self.windowed(limit);
        }
        if let State::Growing = self.state {
            self.settle();
        }
        self.explanation.reason = Reason::Refused;
        self.windowed(self.ceiling.0)
    }

    fn explain(&self) -> Explanation {
        self.explanation
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        let samples = window.samples();
        let Some(level) = Level::of(window).filter(|_| samples >= LEAST) else {
            return Progress::Continue;
        };
        let is_due = || self.is_due(level, self.ended, window.ended());
        let ends = window.overloaded() > samples / 2
            || match self.state {
                State::Jumped { .. } => false,
                State::Steady(_) if self.baseline.is_none() => samples >= FIRST,
                State::Steady(_) if is_due() => true,
                _ => self.has_jumped(level),
            };
        if ends {
            return Progress::End;
        }
        let is_first = f64::from(samples) >= level.limit && !self.is_warm;
        if is_first && !matches!(self.state, State::Jumped { .. }) {
            self.is_warm = true;
            return Progress::Discard;
        }
        Progress::Continue
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::controller::tests::{overloaded, window};

    /// A controller whose baseline is 10 ms, at a limit of 20.
    fn measured() -> Gradient {
        let mut gradient = Gradient::default();
        assert_eq!(next(&mut gradient, 20.0, 10), 20.0);
        assert_eq!(next(&mut gradient, 20.0, 10), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 10), 20.0);
        gradient
    }

    fn next(gradient: &mut Gradient, limit: f64, milliseconds: u64) -> f64 {
        let window = window(limit, milliseconds, limit.round() as usize);
        gradient.update(&window).limit
    }

    /// A window of `refused` calls that are overloaded and others that take 10 ms.
    fn refusing(limit: f64, refused: u32, answered: u32) -> SampleWindow {
        let mut window = SampleWindow::new(limit);
        let in_flight = limit.round() as usize;
        (0..refused).for_each(|_| window.record_overloaded(in_flight));
        (0..answered).for_each(|_| window.record(Duration::from_millis(10), in_flight));
        window
    }

    fn baseline(gradient: &Gradient) -> f64 {
        gradient.baseline.map(|log2| log2.exp2() / 1e6).unwrap()
    }

    #[test]
    fn update_with_a_queue_makes_a_third_of_the_step() {
        // A third of the way to 25·1.1/2 + 0.45·5 = 16, and to the clamped 25/2 + 0.45·5 = 14.75.
        let limit = next(&mut measured(), 25.0, 20);
        assert!((limit - 22.0).abs() < 1e-9, "{limit}");
        let limit = next(&mut measured(), 25.0, 40);
        assert!((limit - (25.0 - 10.25 / 3.0)).abs() < 1e-9, "{limit}");
    }

    #[test]
    fn update_without_a_queue_grows_until_there_is_one() {
        let mut gradient = measured();
        // The limit doubles as long as no queue has been seen.
        assert_eq!(next(&mut gradient, 20.0, 10), 40.0);
        assert_eq!(next(&mut gradient, 40.0, 10), 80.0);
        // 80·1.1/1.5 + 0.45·√80
        let limit = next(&mut gradient, 80.0, 15);
        assert!((limit - 62.69).abs() < 0.01, "{limit}");
        assert!(gradient.is_far_below_queue(39.0) && !gradient.is_far_below_queue(40.0));
    }

    #[test]
    fn update_of_a_window_that_does_not_use_the_limit_shrinks_it_or_keeps_it() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&window(20.0, 5, 15)).limit, 20.0);
        let limit = gradient.update(&window(20.0, 30, 15)).limit;
        assert!(limit < 20.0, "{limit}");
        // More than half of the limit was in flight, so the latency may be that of a queue.
        assert!(baseline(&gradient) < 10.0);
    }

    #[test]
    fn update_with_one_call_at_a_time_measures_the_baseline() {
        let mut gradient = measured();
        assert!(next(&mut gradient, 1.4, 40) > 1.4);
        assert!((baseline(&gradient) - 40.0).abs() < 1e-6);
    }

    #[test]
    fn update_with_refusals_goes_back_to_the_last_limit_without() {
        let mut gradient = measured();
        let grown = next(&mut gradient, 20.0, 9);
        assert_eq!(gradient.update(&refusing(grown, 2, 10)).limit, 20.0);
        // The ceiling holds for eight windows.
        for _ in 0..7 {
            assert!(next(&mut gradient, 20.0, 10) <= 20.0);
        }
        assert!(next(&mut gradient, 20.0, 10) > 20.0);
    }

    #[test]
    fn update_with_refusals_at_once_takes_a_tenth_or_a_fifth() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&refusing(20.0, 2, 10)).limit, 18.0);
        // Three of a hundred are not too many.
        assert!(measured().update(&refusing(20.0, 3, 97)).limit > 20.0);
        // A server that refuses everything may be down.
        let mut gradient = measured();
        assert_eq!(gradient.update(&overloaded(20.0)).limit, 16.0);
        assert_eq!(gradient.ceiling.1, 0);
    }

    #[test]
    fn update_in_a_probe_that_is_refused_comes_back_to_the_limit_before_it() {
        let mut gradient = Gradient::default();
        next(&mut gradient, 20.0, 10);
        assert_eq!(next(&mut gradient, 20.0, 10), 10.0);
        assert_eq!(gradient.update(&overloaded(10.0)).limit, 16.0);
    }

    #[test]
    fn update_with_an_unknown_baseline_probes_until_the_latency_stops_falling() {
        // Ten workers, 10 ms each.
        let mut gradient = Gradient::default();
        assert_eq!(next(&mut gradient, 80.0, 80), 80.0);
        assert_eq!(next(&mut gradient, 80.0, 80), 40.0);
        assert_eq!(next(&mut gradient, 40.0, 40), 20.0);
        assert_eq!(next(&mut gradient, 20.0, 20), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 10), 5.0);
        // The first level implies a limit of 80·1.1/8 + 0.45·√80.
        let limit = next(&mut gradient, 5.0, 10);
        assert!((limit - 15.025).abs() < 1e-3, "{limit}");
    }

    #[test]
    fn progress_probes_at_the_multiples_of_ten_seconds() {
        let mut gradient = measured();
        let at = |seconds: f64| {
            let mut window = refusing(20.0, 0, LEAST);
            window.end_at(Duration::from_secs_f64(seconds));
            window
        };
        // 2,000 calls per second, so 2,048 calls take one second.
        gradient.ended = Duration::from_secs(1001);
        assert_eq!(gradient.progress(&at(1009.9)), Progress::Continue);
        assert_eq!(gradient.progress(&at(1010.1)), Progress::End);
        assert_eq!(gradient.update(&at(1010.1)).limit, 10.0);
        // No probe begins during a probe.
        assert_ne!(gradient.progress(&at(1020.1)), Progress::End);
    }

    #[test]
    fn progress_drops_the_calls_that_end_first() {
        let mut gradient = measured();
        assert_eq!(
            gradient.progress(&refusing(20.0, 0, 16)),
            Progress::Continue
        );
        assert_eq!(gradient.progress(&refusing(20.0, 0, 20)), Progress::Discard);
        assert_eq!(
            gradient.progress(&refusing(20.0, 0, 20)),
            Progress::Continue
        );
    }

    #[test]
    fn update_after_a_jump_tells_a_queue_from_slower_work() {
        let jumped = |milliseconds| {
            let mut gradient = measured();
            let mut window = SampleWindow::new(20.0);
            (0..LEAST).for_each(|_| window.record(Duration::from_millis(milliseconds), 20));
            assert_eq!(gradient.progress(&window), Progress::End);
            assert_eq!(gradient.update(&window).limit, 5.0);
            gradient
        };
        // Two workers are left: 5 calls take 25 ms each, and 3 take 14.
        let mut gradient = jumped(100);
        assert_eq!(next(&mut gradient, 5.0, 25), 3.0);
        assert_eq!(next(&mut gradient, 3.0, 14), 3.0);
        assert!((baseline(&gradient) - 10.0).abs() < 1e-6);
        // Calls take 100 ms without a queue.
        let mut gradient = jumped(100);
        assert_eq!(next(&mut gradient, 5.0, 100), 3.0);
        assert_eq!(next(&mut gradient, 3.0, 100), 20.0);
        assert!((baseline(&gradient) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn update_after_a_jump_probes_at_half_of_the_limit_that_is_left() {
        let mut gradient = measured();
        let mut window = SampleWindow::new(20.0);
        (0..LEAST).for_each(|_| window.record(Duration::from_millis(100), 20));
        assert_eq!(gradient.update(&window).limit, 5.0);
        assert_eq!(next(&mut gradient, 5.0, 10), 5.0);
        let mut window = SampleWindow::new(5.0);
        (0..SAMPLES).for_each(|_| window.record(Duration::from_millis(11), 5));
        window.end_at(Duration::from_secs(1_000));
        assert_eq!(gradient.update(&window).limit, 2.5);
    }

    #[test]
    fn update_moves_the_baseline_by_a_bounded_step() {
        // Calls take 16 ms at every limit.
        let mut gradient = measured();
        let mut limit = 20.0;
        let mut moved = Vec::new();
        for _ in 0..40 {
            let before = baseline(&gradient);
            limit = next(&mut gradient, limit, 16);
            moved.push(baseline(&gradient) / before);
        }
        let most = moved.into_iter().fold(0.0, f64::max);
        assert!((most - MOVE.exp2()).abs() < 1e-9, "{most}");
    }

    #[test]
    fn update_with_fewer_workers_keeps_the_baseline_while_it_shrinks() {
        // After twenty workers there are five: the time is proportional to the limit.
        let mut gradient = measured();
        let mut limit: f64 = 20.0;
        for _ in 0..40 {
            limit = next(&mut gradient, limit, (2.0 * limit.round()) as u64);
        }
        assert!((5.0..9.0).contains(&limit), "{limit}");
        assert!(baseline(&gradient) < 11.0);
    }

    #[test]
    fn update_with_faster_work_at_the_highest_limit_lowers_the_baseline() {
        let mut gradient = measured();
        // The limiter admits no more than 20.
        assert_eq!(next(&mut gradient, 20.0, 10), 40.0);
        assert_eq!(next(&mut gradient, 20.0, 2), 40.0);
        assert!((baseline(&gradient) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn update_with_faster_work_lowers_the_baseline() {
        let mut gradient = measured();
        next(&mut gradient, 20.0, 2);
        assert!((baseline(&gradient) - 2.0).abs() < 1e-6);
    }
}
