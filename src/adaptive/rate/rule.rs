//! [`RateRule`]: the rule that finds a rate from refusals, after CUBIC (RFC 9438). It is pure: it reads
//! no clock, takes no lock and knows no limiter.
//!
//! 1. The rate is finite and within the limits, whatever comes.
//! 2. A refusal cuts the rate only if the request began some time after the last cut: before that,
//!    requests show the old rate. So the refusals of one overload cut once. A cut at least keeps the
//!    rate, and at most cuts it to 0.85 of its half.
//! 3. The rate grows only with time in which at least half of it was used. Time in which nothing was
//!    asked, a pause for example, counts neither for the growth nor for what went through.
//!
//! # Where it differs from the RFC
//!
//! - `beta` is 0.85, not 0.7, and `C` is in proportion to `W_max`: see [`Curve`].
//! - `W_max` is not the rate at the cut. A bucket that filled up after the last cut admits more than
//!   the server's rate for a while. Between two refusals it was emptied twice, so what went through
//!   between them is the server's rate if the bucket did not overflow; the truth is between that and
//!   the rate at the cut. If much less went through than that, the server has become slower: then
//!   what went through is `W_max`. It is no measure while the rate searches.
//! - There is no fast convergence (section 4.7). It frees room for newcomers by aiming below the rate
//!   that was found, which a single client of a server would lose for good.
//! - Before the first refusal, as in slow start, the rate doubles every 1.25 seconds, and so it does
//!   where the curve [searches](Curve::searches_at).
//! - There is no Reno-friendly region (section 4.3), since there is no Reno to be fair to.

use std::time::Duration;

use super::curve::{Curve, DOUBLING};
use crate::time::Tick;

/// How much closer `W_max` is to the rate at the cut than to what went through since the last one.
/// Halfway would cost a server without a burst 1 % more of its rate.
const BELOW: f64 = 0.25;

/// The shortest time between two changes of the rate, in seconds. Growth of less than this is not worth
/// the lock.
const STEP: f64 = 0.02;

/// The same at a low rate, in calls: fewer do not tell whether the rate is used.
const STEP_CALLS: f64 = 4.0;

/// The longest time between two changes, in seconds: at rates below 1 a second, every call is one.
pub(super) const LONGEST_STEP: f64 = 1.0;

/// How many steps a call counts for at most, so that idle time does not count.
const STEPS_OF_A_CALL: f64 = 4.0;

/// How long after a cut a request must begin to show the effect of the cut, in seconds: the answers
/// that come meanwhile are a sample of what goes through.
const SAMPLE: f64 = 0.1;

/// The same at a low rate, in calls.
const SAMPLE_CALLS: f64 = 8.0;

/// The state of the rule.
#[derive(Clone, Debug)]
pub(super) struct RateRule {
    /// The lowest and the highest rate, per second.
    limits: (f64, f64),
    /// The rate to begin with, which may be outside of the limits.
    start: f64,
    rate: f64,
    /// `None` before the first refusal.
    curve: Option<Curve>,
    /// The seconds since the last cut in which the rate was used.
    used: f64,
    /// The seconds since the last cut in which there were calls.
    active: f64,
    /// How many requests had succeeded at the last cut.
    at_cut: u64,
    /// How many requests had succeeded at the last step.
    at_step: u64,
    last_step: Tick,
    last_cut: Option<Tick>,
    pub(super) refusals: u64,
    pub(super) cuts: u64,
}

impl RateRule {
    /// Creates a rule that begins at a rate, or at the limit that is closest to it.
    pub(super) const fn new(limits: (f64, f64), start: f64) -> Self {
        Self {
            limits,
            start,
            rate: start.clamp(limits.0, limits.1),
            curve: None,
            used: 0.0,
            active: 0.0,
            at_cut: 0,
            at_step: 0,
            last_step: Tick::from_nanos(0),
            last_cut: None,
            refusals: 0,
            cuts: 0,
        }
    }

    /// Returns the rate to begin with, before the first use.
    pub(super) const fn start(&self) -> f64 {
        self.start
    }

    pub(super) const fn limits(&self) -> (f64, f64) {
        self.limits
    }

    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the seconds after which the next step is due.
    fn step(&self) -> f64 {
        (STEP_CALLS / self.rate).clamp(STEP, LONGEST_STEP)
    }

    /// Returns the tick from which on the rate may grow again.
    pub(super) fn next_step(&self) -> Tick {
        self.last_step
            .saturating_add(Duration::from_secs_f64(self.step()))
    }

    /// Lets the rate grow until `now`, at which a request is admitted, if it was used: `succeeded` is the
    /// number of all requests that have succeeded so far.
    pub(super) fn grow(&mut self, now: Tick, succeeded: u64) {
        self.follow_clock(now);
        let passed = now.saturating_since(self.last_step).as_secs_f64();
        let went_through = succeeded.saturating_sub(self.at_step);
        let is_used = 2.0 * went_through as f64 >= self.rate * passed;
        let counted = self.counted(passed);
        self.active += counted;
        self.last_step = self.last_step.max(now);
        self.at_step = succeeded;
        if is_used {
            self.used += counted;
            let rate = match self.curve {
                Some(curve) => curve.rate_at(self.used),
                None => self.rate * (counted / DOUBLING).exp2(),
            };
            self.set_rate(rate);
        }
    }

    /// Counts a refusal of a request that began at `began`, and cuts the rate unless the request began
    /// too early. Returns whether it did.
    pub(super) fn refuse(&mut self, began: Tick, now: Tick, succeeded: u64) -> bool {
        self.refusals += 1;
        let sample = SAMPLE.max(SAMPLE_CALLS / self.rate);
        let since = |cut| began.saturating_since(cut).as_secs_f64();
        if self.last_cut.is_some_and(|cut| since(cut) < sample) {
            return false;
        }
        let passed = now.saturating_since(self.last_step).as_secs_f64();
        let active = self.active + self.counted(passed);
        let went_through = succeeded.saturating_sub(self.at_cut) as f64 / active.max(1e-9);
        let plateau = self.plateau(went_through);
        let curve = Curve::after_cut(plateau);
        self.set_rate(curve.rate_at(0.0));
        self.curve = Some(curve);
        (self.used, self.active) = (0.0, 0.0);
        (self.last_step, self.last_cut) = (now, Some(now));
        (self.at_step, self.at_cut) = (succeeded, succeeded);
        self.cuts += 1;
        true
    }

    /// Returns `W_max`, if so many went through in each second since the last cut.
    fn plateau(&self, went_through: f64) -> f64 {
        let searches = |curve: Curve| curve.searches_at(self.used);
        let below = self.rate - went_through;
        if self.curve.is_none_or(searches) || below <= 0.0 {
            self.rate
        } else if went_through < Curve::after_cut(self.rate).rate_at(0.0) {
            went_through.max(self.rate / 2.0)
        } else {
            self.rate - BELOW * below
        }
    }

    /// Returns how many of the seconds since the last step count.
    fn counted(&self, seconds: f64) -> f64 {
        seconds.min(STEPS_OF_A_CALL * self.step())
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.limits.0, self.limits.1);
    }

    /// Begins again at `now` if the clock was set back, as when another runtime's time is used. Threads
    /// may be out of step by less.
    fn follow_clock(&mut self, now: Tick) {
        if self.last_step.saturating_since(now).as_secs_f64() > LONGEST_STEP {
            self.last_step = now;
            self.last_cut = self.last_cut.map(|_| now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: (f64, f64) = (1.0, 1e6);

    fn at(seconds: f64) -> Tick {
        Tick::from_nanos((seconds * 1e9) as u64)
    }

    /// Requests at the rate of the rule from one time to another, all of which succeed.
    fn all_succeed(rule: &mut RateRule, from: f64, to: f64, succeeded: &mut u64) {
        let mut now = from;
        while now < to {
            rule.grow(at(now), *succeeded);
            *succeeded += 1;
            now += 1.0 / rule.rate();
        }
    }

    #[test]
    fn grow_before_a_refusal_doubles_four_times_in_five_seconds() {
        let (mut rule, mut succeeded) = (RateRule::new(LIMITS, 100.0), 0);
        all_succeed(&mut rule, 0.0, 5.0, &mut succeeded);
        assert!((1_500.0..1_650.0).contains(&rule.rate()), "{}", rule.rate());
    }

    #[test]
    fn grow_without_use_changes_nothing() {
        let mut rule = RateRule::new(LIMITS, 100.0);
        // A third of the rate.
        for n in 0..1_000 {
            rule.grow(at(n as f64 * 0.03), n);
        }
        assert_eq!(rule.rate(), 100.0);
        // Nothing for an hour.
        rule.grow(at(3_600.0), 1_000);
        assert_eq!(rule.rate(), 100.0);
    }

    #[test]
    fn refuse_cuts_once_for_requests_that_began_before_a_sample_after_the_cut() {
        let mut rule = RateRule::new(LIMITS, 100.0);
        assert!(rule.refuse(at(1.0), at(1.1), 50));
        assert_eq!(rule.rate(), 85.0);
        // Eight calls at 85 per second take 94 ms, and a sample is at least 100 ms.
        for began in [0.5, 1.05, 1.1, 1.199] {
            assert!(!rule.refuse(at(began), at(1.3), 60));
        }
        assert!(rule.refuse(at(1.2), at(1.3), 60));
        assert_eq!((rule.refusals, rule.cuts), (6, 2));
    }

    #[test]
    fn refuse_of_everything_cuts_to_half_each_time() {
        let mut rule = RateRule::new(LIMITS, 1_000.0);
        rule.refuse(at(0.0), at(0.0), 0);
        assert_eq!(rule.rate(), 850.0);
        rule.refuse(at(0.2), at(0.2), 0);
        assert_eq!(rule.rate(), 850.0 / 2.0 * 0.85);
    }

    #[test]
    fn refuse_by_a_slower_server_cuts_to_what_went_through() {
        let mut rule = RateRule::new(LIMITS, 1_000.0);
        rule.refuse(at(0.0), at(0.0), 0);
        // 850 per second, of which 500 go through.
        for ms in 1..=200_u32 {
            rule.grow(at(f64::from(ms) / 1e3), u64::from(ms) / 2);
        }
        assert!(rule.refuse(at(0.15), at(0.2), 100));
        assert!((rule.rate() - 0.85 * 500.0).abs() < 10.0, "{}", rule.rate());
    }

    #[test]
    fn refuse_after_a_bucket_filled_up_aims_below_the_rate_at_the_cut() {
        let mut rule = RateRule::new(LIMITS, 1_000.0);
        rule.refuse(at(0.0), at(0.0), 0);
        let mut succeeded = 0;
        all_succeed(&mut rule, 0.0, 8.0, &mut succeeded);
        let rate = rule.rate();
        let went_through = succeeded as f64 / 8.0;
        assert!(went_through < 0.99 * rate);
        rule.refuse(at(8.0), at(8.0), succeeded);
        let plateau = rate - (rate - went_through) / 4.0;
        assert!((rule.rate() - 0.85 * plateau).abs() < 1.0);
    }

    #[test]
    fn grow_after_a_pause_neither_grows_nor_counts_it() {
        let mut rule = RateRule::new(LIMITS, 1_000.0);
        rule.refuse(at(0.0), at(0.0), 0);
        let mut succeeded = 0;
        all_succeed(&mut rule, 0.0, 5.0, &mut succeeded);
        let (used, active) = (rule.used, rule.active);
        rule.grow(at(65.0), succeeded);
        assert_eq!(rule.used, used);
        assert!(rule.active - active < 0.1);
    }

    #[test]
    fn follow_clock_of_a_clock_that_was_set_back_goes_on() {
        let (mut rule, mut succeeded) = (RateRule::new(LIMITS, 100.0), 0);
        rule.refuse(at(1_000.0), at(1_000.0), 0);
        all_succeed(&mut rule, 0.0, 1.0, &mut succeeded);
        assert!(rule.used > 0.8);
        assert!(rule.refuse(at(1.0), at(1.0), succeeded));
    }

    /// The rule in the most obvious way: it keeps all that has happened since the last cut, and computes
    /// everything anew each time.
    struct Naive {
        rate: f64,
        steps: Vec<(Tick, u64)>,
        begin: (Tick, u64),
        plateau: Option<f64>,
        cut: Option<Tick>,
        start: f64,
    }

    impl Naive {
        fn step(&self, rate: f64) -> f64 {
            (4.0 / rate).clamp(0.02, 1.0)
        }

        /// Returns the seconds that were used, and those in which there were calls, until `now`.
        fn replay(&self, until: Option<Tick>) -> (f64, f64, f64) {
            let (mut before, mut succeeded) = self.begin;
            let mut rate = self.plateau.map_or(self.start, |plateau| 0.85 * plateau);
            rate = rate.clamp(LIMITS.0, LIMITS.1);
            let (mut used, mut active) = (0.0, 0.0);
            for (now, count) in &self.steps {
                let passed = now.saturating_since(before).as_secs_f64();
                let most = passed.min(4.0 * self.step(rate));
                active += most;
                if 2.0 * (count - succeeded) as f64 >= rate * passed {
                    used += most;
                    rate = match self.plateau {
                        None => rate * (most / 1.25).exp2(),
                        Some(plateau) => {
                            let k = 75.0_f64.cbrt();
                            let cubic = |t: f64| plateau + 0.002 * plateau * (t - k).powi(3);
                            let search = (used - 2.0 * k).max(0.0);
                            cubic(used.min(2.0 * k)) * (search / 1.25).exp2()
                        }
                    };
                    rate = rate.clamp(LIMITS.0, LIMITS.1);
                }
                (before, succeeded) = (*now, *count);
            }
            if let Some(until) = until {
                let passed = until.saturating_since(before).as_secs_f64();
                active += passed.min(4.0 * self.step(rate));
            }
            (rate, used, active)
        }

        fn grow(&mut self, now: Tick, succeeded: u64) {
            self.steps.push((now, succeeded));
            self.rate = self.replay(None).0;
        }

        fn refuse(&mut self, began: Tick, now: Tick, succeeded: u64) -> bool {
            let sample = 0.1_f64.max(8.0 / self.rate);
            if let Some(cut) = self.cut {
                if began.saturating_since(cut).as_secs_f64() < sample {
                    return false;
                }
            }
            let (rate, used, active) = self.replay(Some(now));
            let through = (succeeded - self.begin.1) as f64 / active.max(1e-9);
            let found = match self.plateau {
                Some(_) if used <= 2.0 * 75.0_f64.cbrt() && through < rate => {
                    if through < 0.85 * rate {
                        through.max(0.5 * rate)
                    } else {
                        0.75 * rate + 0.25 * through
                    }
                }
                _ => rate,
            };
            self.plateau = Some(found);
            self.rate = (0.85 * found).clamp(LIMITS.0, LIMITS.1);
            (self.begin, self.cut) = ((now, succeeded), Some(now));
            self.steps.clear();
            true
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// Time passes, so many requests succeed meanwhile, and another one is admitted.
        Grow(u64, u64),
        /// A request that began so long ago is refused.
        Refuse(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let nanos = prop_oneof![
            8 => 0..200_000_000_u64,
            1 => Just(0),
            1 => 0..20_000_000_000_u64,
            1 => Just(u64::MAX),
        ];
        prop_oneof![
            4 => (nanos.clone(), 0..200_u64).prop_map(|(after, count)| Event::Grow(after, count)),
            1 => nanos.prop_map(Event::Refuse),
        ]
    }

    proptest! {
        #[test]
        fn any_sequence_keeps_the_rate_within_the_limits_and_agrees_with_the_naive_rule(
            start in 0.1..1e6,
            events in prop::collection::vec(event(), 0..300),
        ) {
            let mut rule = RateRule::new(LIMITS, start);
            let mut naive = Naive {
                rate: rule.rate(),
                steps: Vec::new(),
                begin: (Tick::default(), 0),
                plateau: None,
                cut: None,
                start: rule.rate(),
            };
            let (mut now, mut succeeded) = (Tick::default(), 0);
            for event in events {
                match event {
                    Event::Grow(after, count) => {
                        now = now.saturating_add(Duration::from_nanos(after));
                        succeeded += count;
                        rule.grow(now, succeeded);
                        naive.grow(now, succeeded);
                    }
                    Event::Refuse(ago) => {
                        let began = Tick::from_nanos(now.as_nanos().saturating_sub(ago));
                        let cut = rule.refuse(began, now, succeeded);
                        prop_assert_eq!(naive.refuse(began, now, succeeded), cut);
                    }
                }
                let rate = rule.rate();
                prop_assert!((LIMITS.0..=LIMITS.1).contains(&rate));
                prop_assert!((rate / naive.rate - 1.0).abs() < 1e-6, "{} {}", rate, naive.rate);
                prop_assert!(rule.next_step() >= rule.last_step);
            }
        }

        #[test]
        fn refusals_alone_never_raise_the_rate(gaps in prop::collection::vec(any::<u64>(), 0..100)) {
            let mut rule = RateRule::new(LIMITS, 1e6);
            let mut now = Tick::default();
            for gap in gaps {
                let before = rule.rate();
                now = now.saturating_add(Duration::from_nanos(gap));
                rule.refuse(now, now, 0);
                prop_assert!((LIMITS.0..=before).contains(&rule.rate()));
            }
        }
    }
}
