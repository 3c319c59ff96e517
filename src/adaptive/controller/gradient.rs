//! [`Gradient`]: the limit from the ratio of a latency without a queue to the latency now.
//!
//! 1. A latency is the mean of the binary logarithms of a window: one more is twice as long.
//! 2. The baseline is a latency at a level at which the other side did not queue. Every latency is an
//!    upper bound for it, because latencies grow with concurrency.
//! 3. Two levels tell a queue from slow work: over a queue, half of the calls take half of the time
//!    (elasticity 0); without one they take the same time (elasticity 1).
//! 4. While a probe is under way the limit is not adjusted. A probe ends with the limit that its
//!    first level implies, so a probe that was misled costs a window and not the limit.
//! 5. The limit never stays below a level at which there was no queue: either the limit is in use
//!    and grows, or it has come to half of a higher level without a gain, which corrects the baseline.

use std::f64::consts::SQRT_2;

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
/// - Otherwise `g = clamp(headroom·2^(b − r), 0.5, 1.5)`, and the limit goes a third of the way to
///   `L·g + 0.3·√L`; all of it if there is no sign of a queue, which is `r ≤ b`.
/// - After `max(4096, 64·L)` samples a window at half of the limit probes the baseline. If the
///   latency fell with the limit, both levels had a queue, and the probe goes on at half of
///   that. Each probe that confirms the baseline doubles the time to the next one, up to 4 times.
/// - A limit that has come to half of what it was is a probe as well: if that did not make the calls
///   any faster, they take longer by themselves, and `r` measures the baseline.
/// - A window with more than a tenth of its calls overloaded takes a fifth of the limit instead.
///
/// - Good at: service times, capacities and laws that are not known and change. In most rows of the
///   simulation of this repository, the median of five seeds is 94 % or more of the goodput of the
///   best fixed limit, at a queue that is barely noticed. It is no floor: single seeds have less.
/// - Bad at: a server that wastes work as soon as it has too much (83 to 95 %), one that refuses
///   what is above its capacity (89 % in the worst phase), and a first-in first-out queue of
///   clients that are at their deadline when they are served (46 %). From a start of 200 at ten
///   workers, it takes about a second to be near the best limit, but 20 s at a server that wastes
///   work; from a start of 1, 5 s. The probes cost one to two percent of the goodput. Latencies must be
///   those of the other side: calls that are cut short by a timeout should end as overloaded or
///   ignored.
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
    /// The samples since the baseline was measured.
    samples: u64,
    /// The measurements in a row that did not differ from it significantly.
    confirmed: i32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The highest level since the baseline was measured.
    Steady(Option<Level>),
    /// The level at which the probe began, and the last one that had a queue.
    Probing { first: Level, last: Level },
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
/// noise. A limit just above the capacity, whose half is far below it, has about 0.7.
const ELASTIC: f64 = 0.25;

/// Concurrencies are too close to compare if their binary logarithms differ by less.
const CLOSE: f64 = 0.15;

/// The part of the way to a latency that is significantly below the baseline. Of many windows, the
/// least is an exaggeration, and a baseline that is too low lets the server idle.
const DOWNWARD: f64 = 0.4;

/// The least part of a measurement that goes into a baseline from which it does not differ
/// significantly. The first few are averaged.
const BLEND: f64 = 0.25;

/// A probe of 2·L samples at half of the limit loses L answers, so one in 64·L samples loses under
/// 2 %. Confirmed baselines are probed after up to 2² times as many.
const PROBE_AFTER: u64 = 4096;
const PROBE_AFTER_PER_LIMIT: f64 = 64.0;
const MOST_DOUBLINGS: i32 = 2;

impl Default for Gradient {
    /// Starts at 20 with a headroom of 1.1, and probes after 4,096 samples or more.
    fn default() -> Self {
        Self {
            initial: 20.0,
            headroom: 1.1,
            probe_after: PROBE_AFTER,
            baseline: None,
            samples: 0,
            confirmed: 0,
            state: State::Steady(None),
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
        let Level { limit, latency, .. } = level;
        if self.baseline.is_some_and(|least| latency < least - error) {
            // The server has become faster meanwhile, so the levels are of two servers, and the first
            // one says nothing about this one.
            self.measured(latency, error);
            return first.limit;
        }
        if limit > 1.0 && !last.is_elastic(&level) {
            return self.probe(first, level);
        }
        let difference = last.latency - latency;
        if last.limit < first.limit && difference.abs() <= error {
            // Neither level had a queue, and two windows measure better than one.
            self.measured(latency + difference / 2.0, error);
            return self.restored(first, last.limit);
        }
        self.measured(latency, error);
        self.restored(first, limit)
    }

    /// Returns the limit after the baseline has been measured at a lower level than `from`: what
    /// `from` implies, but at least `least`, at which there was no queue, and at most as it was,
    /// because what `from` says is old by now.
    fn restored(&self, from: Level, least: f64) -> f64 {
        self.implied(from, 0.0).max(least).min(from.limit)
    }

    /// Takes a latency without a queue.
    fn measured(&mut self, latency: f64, error: f64) {
        self.samples = 0;
        self.baseline = Some(match self.baseline {
            Some(baseline) if (latency - baseline).abs() <= error => {
                self.confirmed = self.confirmed.saturating_add(1);
                let part = 1.0 / (f64::from(self.confirmed) + 1.0);
                baseline + part.max(BLEND) * (latency - baseline)
            }
            Some(baseline) if latency < baseline => self.lowered(baseline, latency),
            _ => {
                self.confirmed = 0;
                latency
            }
        });
    }

    /// Returns the baseline after a latency that is significantly below it.
    fn lowered(&mut self, baseline: f64, latency: f64) -> f64 {
        self.confirmed = 0;
        baseline + DOWNWARD * (latency - baseline)
    }

    /// Returns the limit that a level implies by the baseline.
    fn implied(&self, level: Level, least: f64) -> f64 {
        let baseline = self.baseline.unwrap_or(level.latency);
        let gradient = self.headroom * (baseline - level.latency).exp2();
        level.limit * gradient.clamp(least, 1.5) + QUEUE * level.limit.sqrt()
    }

    /// Returns the next limit after a window in which the limit was used.
    fn adjust(&mut self, level: Level, error: f64) -> f64 {
        let Some(mut baseline) = self.baseline else {
            return self.probe(level, level);
        };
        if level.latency < baseline - error {
            baseline = self.lowered(baseline, level.latency);
            self.baseline = Some(baseline);
        }
        if let Some(limit) = self.compared(level, error) {
            return limit;
        }
        let due = PROBE_AFTER_PER_LIMIT * level.limit;
        let due = due.max(self.probe_after as f64) * 2f64.powi(self.confirmed.min(MOST_DOUBLINGS));
        if self.samples as f64 >= due {
            return self.probe(level, level);
        }
        let part = if level.latency <= baseline { 1.0 } else { STEP };
        level.limit + part * (self.implied(level, 0.5) - level.limit)
    }

    /// Compares a level with the highest one since the baseline was measured. Returns a limit if it
    /// has come to half of that without a gain.
    fn compared(&mut self, level: Level, error: f64) -> Option<f64> {
        let top = match self.state {
            // A latency that has risen since is of another server, so the comparison begins again.
            // A difference has √2 times the error of a latency.
            State::Steady(Some(top))
                if level.limit < top.limit && level.latency <= top.latency + SQRT_2 * error =>
            {
                top
            }
            _ => level,
        };
        self.state = State::Steady(Some(top));
        if level.limit > top.limit / 2.0 {
            return None;
        }
        if top.is_elastic(&level) {
            self.state = State::Steady(None);
            self.measured(level.latency, error);
            return Some(self.restored(top, level.limit));
        }
        // The queue has become shorter. What comes is compared with this level.
        self.state = State::Steady(Some(level));
        None
    }
}

impl Level {
    /// Returns whether the throughput has fallen on the way to a lower level, as it does if that has
    /// no queue. Levels too close to tell count as such.
    fn is_elastic(&self, lower: &Level) -> bool {
        let fallen = (self.in_flight / lower.in_flight).log2();
        let elasticity = 1.0 - (self.latency - lower.latency) / fallen;
        fallen < CLOSE || elasticity >= ELASTIC
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
            self.state = State::Steady(None);
            return windowed(0.8 * limit);
        };
        let error = 3.0 * error;
        let level = Level {
            limit,
            in_flight: window.mean_in_flight(),
            latency,
        };
        if let State::Probing { first, last } = self.state {
            self.state = State::Steady(None);
            return windowed(self.probed(first, last, level, error));
        }
        let most = window.max_in_flight() as f64;
        // One call is not in a queue, whatever the limit.
        if most <= (limit / 2.0).max(1.0) {
            self.measured(latency, error);
        }
        // A limit of 1.4 admits one call.
        if most < USED * limit.round() {
            self.state = State::Steady(None);
            return windowed(limit);
        }
        windowed(self.adjust(level, error))
    }
}

fn windowed(limit: f64) -> Target {
    target(limit, SAMPLES)
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
    fn update_in_a_probe_that_is_overloaded_takes_a_fifth_of_the_limit_before_it() {
        let mut gradient = measured().probe_after(0);
        gradient.samples = 1280;
        assert_eq!(next(&mut gradient, 20.0, 12), 10.0);
        assert_eq!(gradient.update(&overloaded(10.0)).limit, 16.0);
        // The probe has ended.
        assert_eq!(gradient.update(&overloaded(16.0)).limit, 12.8);
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
    fn update_in_a_probe_with_faster_work_ends_the_probe() {
        let mut gradient = measured().probe_after(0);
        gradient.samples = 1280;
        assert_eq!(next(&mut gradient, 20.0, 12), 10.0);
        assert_eq!(next(&mut gradient, 10.0, 3), 20.0);
        // 0.4 of the way from 10 ms to 3 ms.
        let baseline = gradient.baseline.map(|log2| (log2.exp2() / 1e4).round());
        assert_eq!(baseline, Some((1e3 * 0.3f64.powf(0.4)).round()));
    }

    #[test]
    fn update_with_one_call_at_a_time_measures_the_baseline() {
        let mut gradient = measured();
        assert!(next(&mut gradient, 1.4, 40) > 1.4);
        assert_eq!(gradient.baseline.map(|log2| log2.exp2().round()), Some(4e7));
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
