//! [`Gradient`]: the limit from the ratio of a latency without a queue to the latency now.
//!
//! 1. A latency is the mean of the binary logarithms of a window: one more is twice as long.
//! 2. The baseline is a latency at a level at which the other side did not queue. Every latency is an
//!    upper bound for it, because latencies grow with concurrency.
//! 3. Two levels tell a queue from slow work: over a queue, half of the calls take half of the time
//!    (elasticity 0); without one they take the same time (elasticity 1).
//! 4. While a probe is under way the limit is not adjusted. A probe ends with the limit that its
//!    first level implies, so a probe that was misled costs a window and not the limit.

use super::{Controller, SampleWindow, Target, positive, target};

/// Multiplies the limit by the ratio of the latency without a queue to the latency now, and measures
/// the latency without a queue again and again, at half of the limit. The default.
///
/// The gradient is that of Envoy's [adaptive concurrency filter][filter] and of `Gradient2Limit`
/// of Netflix's [concurrency-limits]. What is different is where the baseline comes from: it is
/// neither a remembered minimum, which drifts, nor measured at a limit of 3, which refuses traffic.
///
/// - A window has `max(96, 2·L)` samples. `r` is their mean logarithm, so a heavy tail does not
///   dominate, and differences count if they exceed three standard errors.
/// - A window that used less than 0.8 of the limit leaves the limit alone. One that used at most
///   half measures the baseline `b` for free.
/// - Otherwise `g = clamp(headroom·2^(b − r), 0.5, 1.5)`, and a third of the way is gone to
///   `L·g + 0.3·√L`; all of it if there is no sign of a queue, which is `r ≤ b`.
/// - After `max(4096, 64·L)` samples a window at half of the limit probes the baseline. If the
///   latency fell with the limit, both levels had a queue, and the probe goes on at half of
///   that. Each probe that confirms the baseline doubles the time to the next one, up to 8 times.
/// - A limit that has been shrunk to half is a probe as well: if that did not make the calls any
///   faster, the calls take longer by themselves, and `r` is the new baseline.
/// - A window of which more than a tenth was overloaded takes a fifth of the limit instead.
///
/// - Good at: service times, capacities and laws that are not known and change. In the simulation
///   of this repository it has 94 % of the goodput of the best fixed limit or more, at a queue that
///   is barely noticed.
/// - Bad at: a server that has collapsed under a few calls too many. The probes cost one
///   to two percent of the goodput. Latencies must be those of the other side: calls that are
///   cut short by a timeout should end as overloaded or ignored.
///
/// [filter]: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/adaptive_concurrency_filter
/// [concurrency-limits]: https://github.com/Netflix/concurrency-limits
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::adaptive::{Controller, Gradient, SampleWindow};
///
/// let mut controller = Gradient::default();
/// let mut update = |limit, milliseconds, in_flight| {
///     let mut window = SampleWindow::new(limit);
///     window.record(Duration::from_millis(milliseconds), in_flight);
///     controller.update(&window).limit
/// };
/// assert_eq!(update(20.0, 10, 10), 20.0); // half of the limit is used: the baseline is 10 ms
/// assert!(update(20.0, 10, 20) > 20.0); // no queue: more
/// assert!(update(20.0, 30, 20) < 20.0); // a queue: less
/// ```
#[derive(Clone, Debug)]
pub struct Gradient {
    initial: f64,
    headroom: f64,
    probe_after: u64,
    /// The mean log2 of the latency without a queue.
    baseline: Option<f64>,
    /// The samples since the baseline was measured, and the factor of the time to the next probe.
    samples: u64,
    patience: f64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Steady,
    /// The limit has been shrinking since this level.
    Shrinking(Level),
    /// The level at which the probe began, and the last one that had a queue.
    Probing {
        first: Level,
        last: Level,
    },
}

/// What a window says of a limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    in_flight: f64,
    /// The mean log2.
    latency: f64,
}

/// A mean of fewer samples is too noisy: with exponential service times the standard error of this
/// many is 13 %.
const SAMPLES: u32 = 96;

/// The part of the limit that must be in use for its latency to say something about the limit.
const USED: f64 = 0.8;

/// The part of a step that is made. Near the limit a queue makes the short calls several times
/// slower, so the mean logarithm reacts up to four times as strongly as the mean; whole steps
/// would swing.
const STEP: f64 = 1.0 / 3.0;

/// The calls that the server's queue may have, in units of √L, beyond those that the headroom
/// allows: random arrivals and departures differ by about √L, and a server without a queue idles.
const QUEUE: f64 = 0.3;

/// A limit has less than this elasticity if calls take longer in proportion to the limit, with
/// noise. A limit just above the capacity, of which the half is far below, has about 0.7.
const ELASTIC: f64 = 0.25;

/// The part of a measurement that goes into a baseline from which it does not differ significantly.
const BLEND: f64 = 0.4;

/// A probe costs half a window, so one in 64·L samples, of which a probe takes 2·L, costs under 2 %.
const PROBE_AFTER: u64 = 4096;
const PROBE_AFTER_PER_LIMIT: f64 = 64.0;
const MAX_PATIENCE: f64 = 8.0;

impl Default for Gradient {
    /// Starts at 20 with a headroom of 1.1, and probes after 4,096 samples or more.
    fn default() -> Self {
        Self {
            initial: 20.0,
            headroom: 1.1,
            probe_after: PROBE_AFTER,
            baseline: None,
            samples: 0,
            patience: 1.0,
            state: State::Steady,
        }
    }
}

impl Gradient {
    /// Sets the limit to begin with, by default 20.
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

    /// Sets by which factor the latency may exceed the baseline before the limit shrinks, by default
    /// 1.1. More gives a server with varied calls a queue from which it is never idle, and
    /// less keeps one that suffers from too many calls farther from that.
    ///
    /// # Panics
    ///
    /// Panics if `factor` is not a finite number of at least 1.
    #[must_use]
    #[track_caller]
    pub fn headroom(self, factor: f64) -> Self {
        assert!(
            factor.is_finite() && factor >= 1.0,
            "the headroom must be a finite number of at least 1, and this one is {factor}"
        );
        Self {
            headroom: factor,
            ..self
        }
    }

    /// Sets the least number of samples from one measurement of the baseline to the next, by default
    /// 4,096.
    #[must_use]
    pub fn probe_after(self, samples: u64) -> Self {
        Self {
            probe_after: samples,
            ..self
        }
    }

    /// Continues with a window at half of the limit of `last`.
    fn probe(&mut self, first: Level, last: Level) -> f64 {
        self.state = State::Probing { first, last };
        (last.limit / 2.0).max(1.0)
    }

    /// Ends a probe whose levels `last` and `level` have been measured, or goes on with it.
    fn probed(&mut self, first: Level, last: Level, level: Level, error: f64) -> f64 {
        if level.limit > 1.0 && last.elasticity(&level).is_some_and(|e| e < ELASTIC) {
            return self.probe(first, level);
        }
        let is_confirmed = self.measured(level.latency, error);
        self.patience = match is_confirmed {
            true => (self.patience * 2.0).min(MAX_PATIENCE),
            false => 1.0,
        };
        // A probe never raises the limit: what was measured at its first level is old by now.
        self.implied(first, 0.0).min(first.limit)
    }

    /// Takes a latency without a queue. Returns whether it confirms the baseline.
    fn measured(&mut self, latency: f64, error: f64) -> bool {
        self.samples = 0;
        let confirmed = self
            .baseline
            .filter(|baseline| (latency - baseline).abs() <= error);
        self.baseline = Some(match confirmed {
            Some(baseline) => baseline + BLEND * (latency - baseline),
            None => latency,
        });
        confirmed.is_some()
    }

    /// Returns the limit that a level implies by the baseline.
    fn implied(&self, level: Level, least: f64) -> f64 {
        let baseline = self.baseline.unwrap_or(level.latency);
        let gradient = self.headroom * (baseline - level.latency).exp2();
        level.limit * gradient.clamp(least, 1.5) + QUEUE * level.limit.sqrt()
    }

    /// Returns the next limit after a window in which the limit was used.
    fn adjust(&mut self, level: Level, error: f64) -> f64 {
        let Some(baseline) = self.baseline else {
            return self.probe(level, level);
        };
        if level.latency < baseline - error {
            // Not all of the way: of many windows, the least is an exaggeration.
            self.baseline = Some(baseline + BLEND * (level.latency - baseline));
            self.patience = 1.0;
        }
        let implied = self.implied(level, 0.5);
        if implied < level.limit {
            if let Some(limit) = self.shrinking(level, error) {
                return limit;
            }
        } else {
            self.state = State::Steady;
        }
        let due = self.probe_after as f64;
        let due = due.max(PROBE_AFTER_PER_LIMIT * level.limit);
        if self.samples as f64 >= due * self.patience {
            return self.probe(level, level);
        }
        let is_idle = self.baseline.is_some_and(|least| level.latency <= least);
        let part = if is_idle { 1.0 } else { STEP };
        level.limit + part * (implied - level.limit)
    }

    /// Keeps the level at which a shrinking limit began. Returns a limit if it has come to half of
    /// that in vain.
    fn shrinking(&mut self, level: Level, error: f64) -> Option<f64> {
        let top = match self.state {
            // A latency that has risen since is of another server, so the comparison begins anew.
            State::Shrinking(top) if level.latency <= top.latency + error => top,
            _ => level,
        };
        self.state = State::Shrinking(top);
        if level.limit > top.limit / 2.0 {
            return None;
        }
        let is_elastic = top.elasticity(&level).is_some_and(|e| e >= ELASTIC);
        let baseline = self.baseline?;
        if is_elastic && level.latency > baseline + error {
            self.state = State::Steady;
            self.measured(level.latency, error);
            self.patience = 1.0;
            return Some(self.implied(top, 0.0).min(top.limit));
        }
        self.state = State::Shrinking(level);
        None
    }
}

impl Level {
    /// Returns by how much the throughput has fallen on the way to a lower level, in parts of how much
    /// the concurrency has, on a logarithmic scale. `None` if the levels are too close.
    fn elasticity(&self, lower: &Level) -> Option<f64> {
        let fallen = (self.in_flight / lower.in_flight).log2();
        (fallen > 0.15).then(|| 1.0 - (self.latency - lower.latency) / fallen)
    }
}

impl Controller for Gradient {
    fn initial(&self) -> Target {
        windowed(self.initial)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let limit = window.limit();
        self.samples = self.samples.saturating_add(u64::from(window.samples()));
        let is_overloaded = window.overloaded() > window.samples() / 10;
        let latency = window.mean_log2().zip(window.error_log2());
        let Some((latency, error)) = latency.filter(|_| !is_overloaded) else {
            let limit = match self.state {
                State::Probing { first, .. } => first.limit,
                _ => limit,
            };
            self.state = State::Steady;
            return windowed(0.8 * limit);
        };
        let error = 3.0 * error;
        let level = Level {
            limit,
            in_flight: window.mean_in_flight(),
            latency,
        };
        if let State::Probing { first, last } = self.state {
            self.state = State::Steady;
            return windowed(self.probed(first, last, level, error));
        }
        let most = window.max_in_flight() as f64;
        if most <= limit / 2.0 {
            self.measured(latency, error);
        }
        if most < USED * limit {
            self.state = State::Steady;
            return windowed(limit);
        }
        windowed(self.adjust(level, error))
    }
}

fn windowed(limit: f64) -> Target {
    let Target { limit, samples } = target(limit);
    Target {
        limit,
        samples: samples.max(SAMPLES),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::adaptive::controller::tests::{overloaded, window};

    /// A controller whose baseline is 10 ms.
    fn measured() -> Gradient {
        let mut gradient = Gradient::default();
        assert_eq!(gradient.update(&window(20.0, 10, 10)).limit, 20.0);
        gradient
    }

    fn next(gradient: &mut Gradient, limit: f64, milliseconds: u64) -> f64 {
        let window = window(limit, milliseconds, limit.round() as usize);
        gradient.update(&window).limit
    }

    #[test]
    fn update_without_a_queue_follows_the_closed_form() {
        // 25·1.1 + 0.3·5
        let limit = next(&mut measured(), 25.0, 10);
        assert!((limit - 29.0).abs() < 1e-9, "{limit}");
    }

    #[test]
    fn update_with_a_queue_makes_a_third_of_the_step() {
        // A third of the way to 25·1.1/2 + 0.3·5 = 15.25, and to the clamped 25/2 + 0.3·5 = 14.
        assert_eq!(next(&mut measured(), 25.0, 20), 21.75);
        assert!((next(&mut measured(), 25.0, 40) - (25.0 - 11.0 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn update_of_a_window_that_does_not_use_the_limit_keeps_it() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&window(20.0, 500, 15)).limit, 20.0);
        assert_ne!(gradient.update(&window(20.0, 500, 16)).limit, 20.0);
    }

    #[test]
    fn update_with_a_tenth_overloaded_takes_a_fifth() {
        let mut gradient = measured();
        assert_eq!(gradient.update(&overloaded(20.0)).limit, 16.0);
        let mut window = window(20.0, 10, 20);
        (0..9).for_each(|_| window.record(Duration::from_millis(10), 20));
        window.record_overloaded(20);
        assert!(gradient.update(&window).limit > 20.0);
        window.record_overloaded(20);
        assert_eq!(gradient.update(&window).limit, 16.0);
    }

    #[test]
    fn update_with_an_unknown_baseline_probes_until_the_latency_stops_falling() {
        // Ten workers, 10 ms each.
        let mut gradient = Gradient::default();
        assert_eq!(next(&mut gradient, 80.0, 80), 40.0);
        assert_eq!(next(&mut gradient, 40.0, 40), 20.0);
        assert_eq!(next(&mut gradient, 20.0, 20), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 10), 5.0);
        // The first level implies 80·1.1/8 + 0.3·√80.
        let limit = next(&mut gradient, 5.0, 10);
        assert!((limit - 13.683).abs() < 1e-3, "{limit}");
    }

    #[test]
    fn update_after_enough_samples_probes_at_half_and_comes_back() {
        let mut gradient = measured().probe_after(3);
        for _ in 0..1279 {
            assert_eq!(
                next(&mut gradient, 20.0, 10),
                20.0 * 1.1 + 0.3 * 20f64.sqrt()
            );
        }
        assert_eq!(next(&mut gradient, 20.0, 10), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 10), 20.0);
    }

    #[test]
    fn update_with_slower_work_finds_the_baseline_while_it_shrinks() {
        let mut gradient = measured();
        let mut limit = 20.0;
        let mut least = limit;
        for _ in 0..12 {
            limit = next(&mut gradient, limit, 40);
            least = limit.min(least);
        }
        assert!(least >= 7.0 && limit > 20.0, "{least}, {limit}");
    }

    #[test]
    fn update_with_fewer_workers_keeps_the_baseline_while_it_shrinks() {
        // From twenty workers to five: the time is in proportion to the limit.
        let mut gradient = measured();
        let mut limit: f64 = 20.0;
        for _ in 0..40 {
            limit = next(&mut gradient, limit, (2.0 * limit.round()) as u64);
        }
        assert!((5.0..7.0).contains(&limit), "{limit}");
    }

    #[test]
    fn update_with_faster_work_lowers_the_baseline() {
        let mut gradient = measured();
        let baseline = |gradient: &Gradient| gradient.baseline.map(f64::exp2);
        next(&mut gradient, 20.0, 2);
        assert!(baseline(&gradient) < Some(6e6));
        for _ in 0..20 {
            next(&mut gradient, 20.0, 2);
        }
        assert!(baseline(&gradient) < Some(2.1e6));
    }
}
