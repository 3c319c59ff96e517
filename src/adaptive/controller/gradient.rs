//! prototype
use std::mem;
use std::time::Duration;

use super::{Controller, Progress, SampleWindow, Target, positive};

/// Finds the limit.
#[derive(Clone, Debug)]
pub struct Gradient {
    initial: f64,
    headroom: f64,
    /// The mean latency without a queue, in seconds.
    baseline: Option<f64>,
    /// The cut of the windows, in seconds.
    cut: f64,
    /// The mean time in flight, by Little's law.
    mean: f64,
    /// Windows in a row clearly below the target.
    calm: i32,
    accepted: f64,
    ceiling: f64,
    hold: u32,
    left: u32,
    ended: Duration,
    probe_samples: f64,
    rate: f64,
    wanted: u32,
    is_guess: bool,
    last: Option<Level>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Steady { other: Option<Level> },
    Probing { back: f64, last: Option<Level>, halved: bool, fresh: bool },
}

/// The measurements of one window at one limit.
#[derive(Clone, Copy, Debug)]
struct Level {
    limit: f64,
    in_flight: f64,
    used: f64,
    mean: f64,
    /// Three standard errors.
    error: f64,
    /// The part of the calls below the cut.
    open: f64,
    /// Calls per second.
    rate: f64,
    samples: f64,
}

const FIRST: u32 = 16;
const CUT: f64 = 2.5;
const QUEUE: f64 = 0.45;
const JUMPED: u32 = 24;
const USED: f64 = 0.8;
const MOVE: f64 = 1.27;
const PERIOD: f64 = 10.0;
const SHARE: f64 = 32.0;
const SMOOTHING: f64 = 0.1;
const REFUSED: f64 = 0.03;
const ALL_REFUSED: f64 = 0.9;
const HOLD: u32 = 8;

fn p(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().map_or(default, |v| v.parse().unwrap())
}

impl Default for Gradient {
    fn default() -> Self {
        Self {
            initial: 20.0,
            headroom: 1.1,
            baseline: None,
            cut: 10.0,
            mean: 0.0,
            calm: 0,
            accepted: f64::INFINITY,
            ceiling: f64::INFINITY,
            hold: HOLD,
            left: 0,
            ended: Duration::ZERO,
            probe_samples: 24.0,
            rate: 0.0,
            wanted: JUMPED,
            is_guess: true,
            last: None,
            state: State::Probing { back: 20.0, last: None, halved: false, fresh: true },
        }
    }
}

impl Gradient {
    /// x
    #[must_use]
    #[track_caller]
    pub fn initial_limit(self, limit: f64) -> Self {
        let initial = positive("initial limit", limit);
        Self { initial, ..self }
    }

    /// x
    #[must_use]
    #[track_caller]
    pub fn headroom(self, headroom: f64) -> Self {
        Self { headroom, ..self }
    }

    /// x
    #[must_use]
    pub fn probe_after(self, _samples: u64) -> Self {
        self
    }

    /// The calls that may queue.
    fn target_queue(&self, limit: f64) -> f64 {
        (self.headroom - 1.0) * limit + QUEUE * limit.sqrt()
    }

    /// The calls that queue.
    fn queue(&self, level: Level) -> f64 {
        level.rate * (level.mean - self.baseline.unwrap_or(level.mean)) / level.open.max(0.1)
    }

    fn samples(&self, limit: f64) -> f64 {
        match self.state {
            State::Probing { fresh: true, .. } => p("JUMPED", 48.0),
            State::Probing { back, .. } => p("NP", 1.0) * (p("N", 2.0) * back / self.target_queue(back)).powi(2).max(p("NMIN", 24.0)),
            _ => (p("N", 2.0) * if self.calm > 0 { p("NG", 0.7) } else { 1.0 } * limit / self.target_queue(limit)).powi(2).max(p("NMIN", 24.0)),
        }
    }

    fn is_due(&self, since: Duration, until: Duration) -> bool {
        let limit = self.initial; // replaced below
        let _ = limit;
        if self.rate <= 0.0 {
            return false;
        }
        let share = if self.is_guess { 0.0 } else { p("SHARE", SHARE) };
        let seconds = share * (self.rate * self.mean + self.probe_samples) / self.rate;
        let period = PERIOD * (seconds / PERIOD).max(1.0).log2().ceil().exp2();
        let number = |time: Duration| (time.as_secs_f64() / period).floor();
        number(since) < number(until)
    }

    /// The limit a level implies.
    fn implied(&self, level: Level, part: f64) -> f64 {
        let short = self.target_queue(level.used) - self.queue(level);
        if short < 0.0 { level.used + short * part } else { level.limit }
    }

    fn misses_cut(&self, mean: f64) -> bool {
        self.cut < p("CLO", 1.3) * mean || self.cut > p("CHI", 8.0) * mean
    }

    fn calibrate(&mut self, limit: f64) -> f64 {
        self.state = State::Probing { back: limit, last: None, halved: false, fresh: true };
        self.calm = 0;
        limit
    }

    fn settle(&mut self) {
        self.state = State::Steady { other: None };
        self.calm = 0;
    }

    fn refused(&mut self, window: &SampleWindow) -> Option<f64> {
        let part = f64::from(window.overloaded()) / f64::from(window.samples().max(1));
        let limit = match self.state {
            State::Probing { back, .. } => back,
            _ => window.limit(),
        };
        if part <= REFUSED {
            if limit > self.ceiling {
                self.hold = HOLD;
                self.ceiling = f64::INFINITY;
            }
            self.accepted = limit;
            return None;
        }
        if matches!(self.state, State::Steady { .. }) {
            self.settle();
        } else if let State::Probing { fresh, .. } = self.state {
            if fresh {
                self.calibrate(limit);
            } else {
                self.settle();
            }
        }
        if part > ALL_REFUSED || self.accepted.is_finite() && limit < self.accepted / 2.0 {
            return Some(0.8 * limit);
        }
        let next = if self.accepted < limit { self.accepted } else { (0.9 * limit).min(limit - 1.0).max(1.0) };
        let again = self.ceiling.is_finite() && next >= self.ceiling / 1.25;
        self.hold = if again { (2 * self.hold).min(128) } else { HOLD };
        self.ceiling = next;
        self.left = self.hold;
        Some(next)
    }

    fn measured(&mut self, level: Level, weight: f64) {
        let before = self.baseline.unwrap_or(level.mean);
        if level.mean > 2.0 * before {
            self.baseline = Some(level.mean);
            return;
        }
        let to = before + weight * (level.mean - before);
        self.baseline = Some(to.clamp(before / MOVE, before * MOVE));
    }

    fn answered(&mut self, level: Level, most: f64, since: Duration) -> f64 {
        let little = level.in_flight / level.rate;
        if self.mean == 0.0 {
            self.mean = little;
            self.cut = CUT * little;
            return self.calibrate(level.limit);
        }
        let is_jump = level.open < 0.25;
        if is_jump {
            self.cut *= 4.0;
            self.mean = self.cut / CUT;
            let back = match self.state {
                State::Probing { back, .. } => back,
                State::Steady { .. } => level.used,
            };
            self.calibrate(back);
            return level.limit.min(back / 2.0).max(1.0);
        }
        match self.state {
            State::Probing { back, last, halved, fresh } => {
                let Some(last) = last else {
                    if self.misses_cut(little) {
                        self.mean = little;
                        self.cut = CUT * little;
                        return level.limit;
                    }
                    return self.next_level(back, level, false, fresh);
                };
                if !last.is_elastic(&level, p(if fresh { "EF" } else { "EP" }, if fresh {0.5} else {0.75})) && level.limit > 1.0 {
                    return self.next_level(back, level, true, fresh);
                }
                if fresh {
                    self.mean = little;
                    self.is_guess = true;
                    self.baseline = Some(level.mean);
                } else {
                    let weight = if mem::take(&mut self.is_guess) { 1.0 } else { p("WPROBE", 0.5) };
                    self.measured(level, weight);
                }
                self.calm = 0;
                self.state = State::Steady { other: Some(level) };
                let short = self.target_queue(last.used) - self.queue(last);
                if short >= 0.0 && !halved {
                    return back;
                }
                (last.used + short).max(level.limit).min(back)
            }
            State::Steady { other } => self.steady(other, level, most, since, little),
        }
    }

    fn next_level(&mut self, back: f64, last: Level, halved: bool, fresh: bool) -> f64 {
        if last.limit.round() <= 1.0 {
            self.settle();
            if fresh {
                self.baseline = Some(last.mean);
            } else {
                self.measured(last, 1.0);
            }
            return last.limit;
        }
        self.state = State::Probing { back, last: Some(last), halved, fresh };
        (last.limit.min(last.in_flight) / 2.0).max(1.0)
    }

    fn steady(&mut self, other: Option<Level>, level: Level, most: f64, since: Duration, little: f64) -> f64 {
        let is_early = level.samples < f64::from(self.wanted);
        let from = self.last.filter(|_| is_early).unwrap_or(level);
        if is_early || from.is_used() && self.is_due(since, self.ended) {
            if self.cut > p("CHI", 8.0) * self.mean {
                self.cut = CUT * self.mean;
                return self.calibrate(level.limit);
            }
            return self.next_level(from.limit, from, false, false);
        }
        self.last = Some(level);
        self.mean += SMOOTHING * (little - self.mean);
        self.rate = level.rate;
        if self.cut < p("CLO", 1.3) * self.mean {
            self.cut = CUT * self.mean;
            return self.calibrate(level.limit);
        }
        let baseline = self.baseline.unwrap_or(level.mean);
        self.baseline = Some(baseline.min(level.mean + level.error));
        if level.limit.round() <= 1.0 {
            self.measured(level, 1.0);
        }
        let other = other.unwrap_or(level);
        let ratio = p("RATIO", 1.5);
        let is_below = level.in_flight < other.in_flight / ratio;
        let is_above = level.in_flight > other.in_flight * ratio;
        self.state = State::Steady { other: Some(other) };
        if is_below && level.mean > other.mean + level.error / 2.0 {
            self.state = State::Steady { other: Some(level) };
        } else if is_above || is_below {
            self.state = State::Steady { other: Some(level) };
            let (high, low) = if is_above { (level, other) } else { (other, level) };
            if high.is_elastic(&low, p("EC", 0.5)) {
                self.measured(low, p("WCMP", 0.5));
                if is_below {
                    self.calm = 0;
                    return self.implied(high, 1.0).max(level.limit).min(high.limit);
                }
            }
        }
        let target = self.target_queue(level.used);
        let short = target - self.queue(level);
        if short < 0.0 {
            self.calm = 0;
            return self.implied(level, 0.5).max(level.used / 2.0).max(1.0);
        }
        if most < USED * level.limit.round() {
            self.calm = 0;
            if most <= level.limit / 2.0 {
                self.measured(level, p("WFREE", 0.25));
            }
            return level.limit;
        }
        if short > 0.5 * target {
            self.calm += 1;
            let step = short * 2f64.powi(self.calm - 1);
            return level.limit + step.min(level.limit);
        }
        self.calm = 0;
        level.limit + short / 2.0
    }
}

impl Level {
    fn is_used(&self) -> bool {
        self.used >= USED * self.limit.round()
    }

    /// No queue at the lower level.
    fn is_elastic(&self, low: &Level, part: f64) -> bool {
        let fallen = self.in_flight - low.in_flight;
        let shorter = self.rate * (self.mean - low.mean) / ((self.open + low.open) / 2.0);
        fallen <= 0.0 || shorter <= part * fallen || (low.rate < p("RR", 0.65) * self.rate && shorter <= p("E2", 0.8) * fallen)
    }

    fn of(window: &SampleWindow) -> Option<Self> {
        let mean = window.mean_latency()?.as_secs_f64().max(1e-9);
        let measured = f64::from(window.samples() - window.overloaded());
        let in_flight = window.mean_in_flight();
        let most = in_flight / mean;
        Some(Self {
            limit: window.limit(),
            in_flight,
            used: window.limit().min(window.max_in_flight() as f64).max(1.0),
            mean,
            error: 3.0 * window.error()?.as_secs_f64(),
            open: 1.0 - f64::from(window.censored()) / measured,
            rate: window.rate().map_or(most, |rate| rate.min(most)),
            samples: f64::from(window.samples()),
        })
    }
}

impl Controller for Gradient {
    fn initial(&self) -> Target {
        Target { limit: self.initial, samples: JUMPED }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let since = mem::replace(&mut self.ended, window.ended());
        self.left = self.left.saturating_sub(1);
        let limit = match (self.refused(window), Level::of(window)) {
            (None, Some(level)) => self.answered(level, window.max_in_flight() as f64, since),
            (limit, _) => limit.unwrap_or(window.limit()),
        };
        if std::env::var("TRACE").is_ok() {
            let l = Level::of(window);
            if let Some(l) = l {
                eprintln!("{:.3} L {:.1} n {} in {:.1} m {:.2} f {:.2} X {:.0} q {:.2}/{:.2} b {:.2} C {:.1} mean {:.1} calm {} -> {:.1} {}", window.ended().as_secs_f64(), l.limit, window.samples(), l.in_flight, l.mean*1e3, l.open, l.rate, self.queue(l), self.target_queue(l.limit), self.baseline.unwrap_or(0.0)*1e3, self.cut*1e3, self.mean*1e3, self.calm, limit, match self.state { State::Steady{..} => "steady", State::Probing{last: None, ..} => "fresh", State::Probing{fresh: true, ..} => "calibrate", _ => "probe" });
            }
        }
        let limit = if self.left > 0 { limit.min(self.ceiling) } else { limit.min(self.ceiling + 1.0) };
        let samples = self.samples(limit);
        self.probe_samples = self.samples(limit);
        self.wanted = samples as u32;
        Target { limit, samples: samples as u32 }
    }

    fn progress(&mut self, window: &SampleWindow) -> Progress {
        let samples = window.samples();
        let Some(level) = Level::of(window).filter(|_| samples >= 12) else {
            return Progress::Continue;
        };
        let is_due = matches!(self.state, State::Steady { .. }) && self.last.is_some_and(|it| it.is_used()) && self.is_due(self.ended, window.ended());
        let is_first = self.mean == 0.0 && samples >= FIRST;
        let refused = window.overloaded() > samples / 4;
        if is_due || is_first || refused || level.open < 0.25 {
            return Progress::End;
        }
        Progress::Continue
    }

    fn cut(&self) -> Duration {
        Duration::try_from_secs_f64(self.cut).unwrap_or(Duration::MAX)
    }
}
