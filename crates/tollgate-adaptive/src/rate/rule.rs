//! [`RateRule`]: the rule that finds a rate from refusals, after CUBIC (RFC 9438). It is pure: it reads
//! no clock, takes no lock and knows no limiter.
//!
//! 1. The rate is finite and within the limits, for every input.
//! 2. A refusal cuts the rate only if the request began some time after the last cut: before that,
//!    requests show the old rate. So the refusals of one overload cut once. After a cut the rate is
//!    at most 0.85 of the rate before, and at least 0.85 of half of it, unless the server is down.
//! 3. The rate grows only with time in which at least half of it was used. Time without requests, a
//!    pause for example, counts neither for the growth nor for the throughput.
//!
//! # Where it differs from the RFC
//!
//! - `beta` is 0.85, not 0.7, and `C` is proportional to `W_max`: see [`Curve`].
//! - `W_max` is not the rate at the cut. A bucket that filled up after the last cut admits more
//!   than the server's rate for a while. Between two refusals the bucket went from empty to empty,
//!   so the throughput between them is the server's rate if the bucket did not overflow; the truth
//!   is between the throughput and the rate at the cut. If the throughput was much less than the
//!   rate, the server has become slower: then `W_max` is the throughput. The throughput is no
//!   measure while the rate searches.
//! - The rule remembers the highest recent plateau, unlike the RFC. Below a quarter of it the
//!   server counts as one that may become as fast as before: `C` is then proportional to the
//!   remembered rate, so that a search begins sooner, and the search doubles the rate every 0.2
//!   seconds up to there. Until then such a server refuses twice as often. A cut forgets 1 % of the
//!   remembered rate.
//! - If the throughput between two cuts is nearly zero, although a rate was found before or nothing ever
//!   went through, the server is down. Then the rate has no plateau and does not fall below [`DOWN_RATE`],
//!   and the rule forgets nothing: the curve searches as soon as half of the rate goes through.
//! - `K` is longer if the refusal paused the client, or if the rate is low: see [`Curve`].
//! - There is no fast convergence (section 4.7). Fast convergence frees capacity for newcomers by
//!   aiming below the rate that was found, and a single client of a server would lose that capacity
//!   for good.
//! - Before the first refusal, like in slow start, the rate doubles every 1.25 seconds. It does the
//!   same whenever the curve [searches](Curve::searches_at) at or above the remembered rate.
//! - There is no Reno-friendly region (section 4.3), since there is no Reno to be fair to.

use std::time::Duration;

use tollgate::time::Tick;

use super::curve::{Curve, KEPT};

/// How much closer `W_max` is to the rate at the cut than to the throughput since the last one.
/// Halfway would cost a server without a burst 1 % more of its rate.
const BELOW: f64 = 0.25;

/// The factor that a cut applies to the remembered rate. If a server has a tenth of its rate for
/// good, that is a quarter of the remembered rate after 92 cuts, in about six minutes.
const REMEMBERED: f64 = 0.99;

/// If a smaller part of the rate goes through between two cuts, the server is down. It is not 0,
/// because a few requests may have been on their way when the server went down.
const DOWN: f64 = 0.1;

/// While a server is down, the rate does not fall below this, per second, so that it is soon found again.
const DOWN_RATE: f64 = 3.0;

/// The number of calls before the first refusal after which the rate of the search counts as found. Fewer may
/// have gone through only because the server has a burst.
const FOUND_CALLS: f64 = 50.0;

/// The shortest time between two changes of the rate, in seconds. Growth in less time is not worth
/// the lock.
const STEP: f64 = 0.02;

/// The same at a low rate, in calls: fewer do not show whether the rate is used.
const STEP_CALLS: f64 = 4.0;

/// A clock that is behind by more seconds was set back.
pub(super) const SET_BACK: f64 = 1.0;

/// The maximum number of steps that one call accounts for, so that idle time does not count.
const STEPS_OF_A_CALL: f64 = 4.0;

/// The time after a cut at which a request must begin to show the effect of the cut, in seconds:
/// the responses in the meantime are a sample of the throughput.
const SAMPLE: f64 = 0.1;

/// The same at a low rate, in calls.
const SAMPLE_CALLS: f64 = 8.0;

/// The state of the rule.
#[derive(Clone, Debug)]
pub(super) struct RateRule {
    /// The lowest and the highest rate, per second.
    pub(super) limits: (f64, f64),
    /// The initial rate, which may be outside the limits.
    pub(super) initial: f64,
    pub(super) rate: f64,
    curve: Curve,
    /// The highest recent plateau; 0 before the first plateau outside a search.
    remembered: f64,
    /// The seconds since the last cut in which the rate was used.
    used: f64,
    /// The seconds since the last cut in which there were calls.
    active: f64,
    /// The number of requests that had succeeded at the last cut.
    at_cut: u64,
    /// The number of requests that had succeeded at the last step.
    at_step: u64,
    /// The tick of the last step, or the end of a pause after it.
    last_step: Tick,
    last_cut: Option<Tick>,
    /// The tick of the last call.
    last_seen: Tick,
    pub(super) refusals: u64,
    pub(super) cuts: u64,
}

impl RateRule {
    /// Creates a rule that begins at a rate, or at the limit closest to it.
    pub(super) const fn new(limits: (f64, f64), initial: f64) -> Self {
        let rate = initial.clamp(limits.0, limits.1);
        Self {
            limits,
            initial,
            rate,
            curve: Curve::search(rate, 0.0),
            remembered: 0.0,
            used: 0.0,
            active: 0.0,
            at_cut: 0,
            at_step: 0,
            last_step: Tick::from_nanos(0),
            last_cut: None,
            last_seen: Tick::from_nanos(0),
            refusals: 0,
            cuts: 0,
        }
    }

    /// Returns the seconds after which the next step is due.
    fn step(&self) -> f64 {
        (STEP_CALLS / self.rate).max(STEP)
    }

    /// Returns the first tick at which the rate may grow again.
    pub(super) fn next_step(&self) -> Tick {
        self.last_step
            .saturating_add(Duration::from_secs_f64(self.step()))
    }

    /// Lets the rate grow until `now`, before a request is admitted, if it was used: `succeeded` is the
    /// number of all requests that have succeeded so far. Returns whether a step was due.
    pub(super) fn grow(&mut self, now: Tick, succeeded: u64) -> bool {
        self.follow_clock(now);
        let passed = now.saturating_since(self.last_step).as_secs_f64();
        if passed < self.step() {
            return false;
        }
        let went_through = succeeded.saturating_sub(self.at_step);
        let is_used = 2.0 * went_through as f64 >= self.rate * passed;
        let counted = self.counted(passed);
        self.active += counted;
        self.last_step = now;
        self.at_step = succeeded;
        if is_used {
            self.used += counted;
            self.set_rate(self.curve.rate_at(self.used));
        }
        true
    }

    /// Counts a refusal of a request that began at `began`, and cuts the rate unless the request
    /// began too early. Returns whether it cut the rate.
    pub(super) fn refuse(
        &mut self,
        began: Tick,
        now: Tick,
        succeeded: u64,
        pause: Duration,
    ) -> bool {
        self.follow_clock(now);
        self.refusals += 1;
        let passed = now.saturating_since(self.last_step).as_secs_f64();
        let active = self.active + self.counted(passed);
        // In a pause the server goes on: the first call after it finds one more token, so it counts.
        let of_call = Duration::from_secs_f64(1.0 / self.rate);
        let resumes = now.saturating_add(pause.saturating_sub(of_call));
        let sample = SAMPLE.max(SAMPLE_CALLS / self.rate);
        let since = |cut| began.saturating_since(cut).as_secs_f64();
        if self.last_cut.is_some_and(|cut| since(cut) < sample) {
            if resumes > now.max(self.last_step) {
                (self.active, self.at_step, self.last_step) = (active, succeeded, resumes);
            }
            return false;
        }
        let since_cut = succeeded.saturating_sub(self.at_cut) as f64;
        let went_through = since_cut / active.max(1e-9);
        let nothing_goes = self.used == 0.0 && went_through < DOWN * self.rate;
        let plateau = self.plateau(went_through);
        // The server may have been down from the beginning.
        let found = if succeeded == 0 && self.cuts > 0 {
            self.initial
        } else {
            self.remembered
        };
        if nothing_goes && found > 0.0 {
            self.set_rate((KEPT * plateau).max(self.rate.min(DOWN_RATE)));
            self.curve = Curve::search(self.rate, found);
        } else {
            self.remembered *= REMEMBERED;
            let searched = self.curve.searches_at(self.used);
            let plateau = if searched { self.rate } else { plateau };
            let is_known = if searched {
                self.remembered == 0.0 && since_cut >= FOUND_CALLS
            } else {
                !nothing_goes
            };
            if is_known {
                self.remembered = self.remembered.max(plateau);
            }
            self.curve = Curve::after_cut(plateau, self.remembered, pause.as_secs_f64());
            self.set_rate(self.curve.rate_at(0.0));
        }
        (self.used, self.active) = (0.0, 0.0);
        (self.last_step, self.last_cut) = (resumes, Some(now));
        (self.at_step, self.at_cut) = (succeeded, succeeded);
        self.cuts += 1;
        true
    }

    /// Returns `W_max` after a time without a search, for a throughput per second since the last
    /// cut.
    fn plateau(&self, went_through: f64) -> f64 {
        let below = self.rate - went_through;
        if below <= 0.0 {
            self.rate
        } else if went_through < KEPT * self.rate {
            went_through.max(self.rate / 2.0)
        } else {
            self.rate - BELOW * below
        }
    }

    /// Returns the number of seconds since the last step that count.
    fn counted(&self, seconds: f64) -> f64 {
        seconds.min(STEPS_OF_A_CALL * self.step())
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.limits.0, self.limits.1);
    }

    /// Begins again at `now` if the clock was set back, for example because another runtime's time
    /// is used. Threads may differ by less than that.
    fn follow_clock(&mut self, now: Tick) {
        if self.last_seen.saturating_since(now).as_secs_f64() > SET_BACK {
            self.last_step = now;
            self.last_cut = self.last_cut.map(|_| now);
            self.last_seen = now;
        }
        self.last_seen = self.last_seen.max(now);
    }
}

#[cfg(test)]
mod tests;
