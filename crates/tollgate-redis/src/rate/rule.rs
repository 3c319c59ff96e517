//! A quota as the scripts count: in whole numbers of microseconds.

use std::time::Duration;

use tollgate::{Algorithm, Oversize, Quota};

use crate::script::{Arguments, DEBT, LOG, Script, WINDOW};

/// Debts are less, and so is what a script is told.
pub(super) const MOST: u64 = 1 << 52;

/// Positions of debts go round after so many tokens.
const POSITIONS: u64 = 1 << 46;

/// As many as a log keeps: each takes some 100 bytes of the server.
const LONGEST_LOG: u64 = 1 << 16;

/// What a script is told of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    /// In microseconds.
    pub(crate) period: u64,
    pub(crate) burst: u64,
    step: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Debt,
    Window,
    Log,
}

impl Rule {
    /// # Errors
    ///
    /// Why a store cannot count by it.
    pub(crate) fn new(quota: Quota, algorithm: Algorithm) -> Result<Self, String> {
        algorithm.check(quota).map_err(|error| error.to_string())?;
        let nanos = quota.period().as_nanos();
        let count = quota.count();
        let most = if quota.max_burst() > 1 {
            quota.max_burst()
        } else {
            count
        };
        let rule = match algorithm {
            Algorithm::Gcra => return Self::even(quota),
            Algorithm::TokenBucket => Self::stepped(count.min(most), micros(nanos), most),
            Algorithm::FixedWindow => Self::stepped(count, micros(nanos), count),
            Algorithm::SubInterval { parts } => {
                let part = nanos.div_ceil(u128::from(parts));
                let count = count / (u64::from(parts) + 1);
                Self::stepped(count, micros(part), count)
            }
            Algorithm::SlidingWindow => Self {
                kind: Kind::Window,
                ..Self::stepped(count, micros(nanos), count)
            },
            Algorithm::SlidingLog => {
                if count > LONGEST_LOG {
                    return Err(format!(
                        "a log on a server keeps at most {LONGEST_LOG}, but the quota has a count of {count}"
                    ));
                }
                Self {
                    kind: Kind::Log,
                    ..Self::stepped(count, micros(nanos), count)
                }
            }
            _ => return Err(format!("the algorithm {algorithm} is not known here")),
        };
        // Of a window its count times its period is computed with.
        let product = match rule.kind {
            Kind::Window => u128::from(rule.count) * u128::from(rule.period),
            _ => u128::from(rule.burst.max(rule.period)),
        };
        if product > u128::from(MOST) {
            return Err(format!("a script cannot count {quota} by {algorithm}"));
        }
        Ok(rule)
    }

    /// As the generic cell rate algorithm has it: what the quota says, in whole microseconds.
    fn even(quota: Quota) -> Result<Self, String> {
        let nanos = quota.period().as_nanos();
        let factor = 1000 / greatest_divisor(nanos, 1000);
        let mut count = u128::from(quota.count()) * factor;
        let mut period = nanos * factor / 1000;
        let burst = u128::from(quota.max_burst());
        let fits = |period: u128, count: u128| {
            burst.saturating_mul(period) <= u128::from(MOST) && count <= u128::from(MOST)
        };
        if !fits(period, count) {
            let divisor = greatest_divisor(period, count);
            (count, period) = (count / divisor, period / divisor);
        }
        if !fits(period, count) {
            return Err(format!(
                "a script cannot count {quota}: its burst times its period is more than 2^52 microseconds"
            ));
        }
        Ok(Self {
            kind: Kind::Debt,
            count: count as u64,
            period: period as u64,
            burst: quota.max_burst(),
            step: false,
        })
    }

    fn stepped(count: u64, period: u128, burst: u64) -> Self {
        Self {
            kind: Kind::Debt,
            count,
            period: u64::try_from(period).unwrap_or(u64::MAX),
            burst,
            step: true,
        }
    }

    /// How much may be asked for in one call: of what is more than the burst, if it leaves a debt, as
    /// much as a script can count.
    pub(super) fn most_at_once(&self, oversize: Oversize) -> u64 {
        match (oversize, self.kind) {
            (Oversize::Overdraft, Kind::Log) => LONGEST_LOG,
            (Oversize::Overdraft, Kind::Debt | Kind::Window) => MOST,
            _ => self.burst,
        }
    }

    pub(crate) fn script(&self) -> &'static Script {
        match self.kind {
            Kind::Debt => &DEBT,
            Kind::Window => &WINDOW,
            Kind::Log => &LOG,
        }
    }

    /// What a script is to do, by this rule.
    pub(crate) fn arguments(&self, what: &'static str) -> Arguments {
        self.tell(Arguments::new(what))
    }

    /// As [`arguments`](Self::arguments), where there are several rules.
    pub(crate) fn tell_which(&self, arguments: Arguments) -> Arguments {
        self.tell(arguments.word(match self.kind {
            Kind::Debt => "debt",
            Kind::Window => "window",
            Kind::Log => "log",
        }))
    }

    fn tell(&self, arguments: Arguments) -> Arguments {
        arguments
            .number(self.count)
            .number(self.period)
            .number(self.burst)
            .number(u64::from(self.step))
    }

    /// The ticket of a charge after which so much was charged in the same call.
    pub(crate) fn position(&self, end: u64, after: u64) -> u64 {
        match self.kind {
            Kind::Debt => end.wrapping_sub(after) % POSITIONS,
            Kind::Window => end,
            Kind::Log => end.saturating_sub(after),
        }
    }

    /// How long it takes at least, from when somebody is admitted as early as can be, until so much
    /// more is.
    pub(crate) fn lasting(&self, n: u128) -> Duration {
        let (count, period) = (u128::from(self.count.max(1)), u128::from(self.period));
        let micros = match self.kind {
            // A microsecond may have been rounded up.
            Kind::Debt if !self.step => (n.saturating_mul(period) / count).saturating_sub(1),
            // Less than a step may be left of the one that let them in.
            Kind::Debt | Kind::Log => (n / count).saturating_mul(period),
            // In a period it lets in less than twice the count.
            Kind::Window => (n / (2 * count)).saturating_mul(period),
        };
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Rounded up, so that a period is never shorter than it should be.
fn micros(nanos: u128) -> u128 {
    nanos.div_ceil(1000)
}

fn greatest_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gcra(quota: Quota) -> Rule {
        Rule::new(quota, Algorithm::Gcra).unwrap()
    }

    #[test]
    fn periods_become_whole_microseconds_and_the_rate_stays() {
        let rule = gcra(Quota::new(3, Duration::from_nanos(1_250)).burst(2));
        assert_eq!((rule.count, rule.period, rule.burst), (12, 5, 2));
        let rule = gcra(Quota::per_second(50).burst(10));
        assert_eq!((rule.count, rule.period, rule.burst), (50, 1_000_000, 10));
    }

    #[test]
    fn what_is_too_large_is_cut_by_what_divides_it_or_refused() {
        let rule = gcra(Quota::per_day(1_000_000).burst(1_000_000));
        assert_eq!((rule.count, rule.period), (1, 86_400));
        let prime = Quota::new(1_000_003, Duration::from_secs(86_400)).burst(1_000_000);
        let error = Rule::new(prime, Algorithm::Gcra).unwrap_err();
        assert!(error.contains("2^52"), "{error}");
    }

    /// Of nobody who might be admitted in time it is said that they are not.
    #[test]
    fn what_lasts_is_a_lower_bound() {
        let quota = Quota::per_second(10);
        let lasting = |algorithm, n| {
            let rule = Rule::new(quota, algorithm).unwrap();
            rule.lasting(n).as_millis()
        };
        for (n, even, window, sliding) in [(0, 0, 0, 0), (9, 899, 0, 0), (10, 999, 1000, 0)] {
            assert_eq!(lasting(Algorithm::Gcra, n), even);
            assert_eq!(lasting(Algorithm::FixedWindow, n), window);
            assert_eq!(lasting(Algorithm::SlidingLog, n), window);
            assert_eq!(lasting(Algorithm::SlidingWindow, n), sliding);
        }
        assert_eq!(lasting(Algorithm::SlidingWindow, 20), 1000);
        let huge = Rule::new(quota, Algorithm::FixedWindow).unwrap();
        assert_eq!(huge.lasting(u128::MAX), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn positions_go_round() {
        let rule = gcra(Quota::per_second(5).burst(5));
        assert_eq!(rule.position(0, 2), POSITIONS - 2);
        assert_eq!(rule.position(3, 2), 1);
    }
}
