//! [`Rule`]: a quota in the units of the scripts, in whole numbers of microseconds.

use std::time::Duration;

use tollgate::rate::Oversize;
use tollgate::{Algorithm, Quota};

use crate::script::{DEBT, LOG, MOST, POSITIONS, STEPS, Script, WINDOW};

/// Waiters of a limit that pays off a unit in this time, or in a longer one, reserve no turns.
const SLOW: Duration = Duration::from_secs(5);

/// The maximum number of charges in a log: each takes about 100 bytes of the server.
const LONGEST_LOG: u64 = 1 << 16;

/// The way in which a script counts a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    /// In microseconds.
    pub(crate) period: u64,
    pub(crate) burst: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A debt that is paid off evenly: GCRA.
    Debt,
    /// A debt that is paid off in steps.
    Steps,
    Window,
    Log,
}

impl Rule {
    /// Returns the rule of a quota.
    ///
    /// # Panics
    ///
    /// Panics if a script cannot count the quota, if the quota is unlimited, or if there is no script
    /// for the algorithm.
    #[track_caller]
    pub(crate) fn of(quota: Quota, algorithm: Algorithm) -> Self {
        if let Err(error) = algorithm.check(quota) {
            panic!("{error}");
        }
        assert!(
            !quota.is_unlimited(),
            "a limit on a server cannot be {quota}"
        );
        let kind = match algorithm {
            Algorithm::Gcra => Kind::Debt,
            Algorithm::SlidingWindow => Kind::Window,
            Algorithm::SlidingLog => Kind::Log,
            // For the other algorithms that keep a word, the batch describes the whole rule.
            _ if algorithm.keeps_a_word() => Kind::Steps,
            _ => panic!("no script counts {quota} with {algorithm}"),
        };
        let batch = algorithm.batch(quota);
        let (nanos, burst) = (batch.period().as_nanos(), u128::from(batch.max_burst()));
        // An even rate stays exact. In steps, a period is rounded up, so that it is never shorter
        // than it should be.
        let is_even = kind == Kind::Debt;
        let unit = if is_even { gcd(nanos, 1000) } else { 1000 };
        let mut count = u128::from(batch.count()) * (1000 / unit);
        let mut period = nanos.div_ceil(unit);
        assert!(
            kind != Kind::Log || count <= u128::from(LONGEST_LOG),
            "a log on a server keeps at most {LONGEST_LOG}, but the quota has a count of {count}"
        );
        // Returns whether the largest number that the script calculates is exact.
        let fits = |count: u128, period: u128| {
            let product = match kind {
                Kind::Window => count.saturating_mul(period),
                Kind::Debt => burst.saturating_mul(period),
                _ => period,
            };
            product.max(burst).max(count) <= u128::from(MOST)
        };
        if is_even && !fits(count, period) {
            let divisor = gcd(period, count);
            (count, period) = (count / divisor, period / divisor);
        }
        assert!(
            fits(count, period),
            "a script cannot count {quota} with {algorithm}: a number would be more than 2^52"
        );
        Self {
            kind,
            count: count as u64,
            period: period as u64,
            burst: batch.max_burst(),
        }
    }

    /// Returns the highest cost of one call: the burst, or the maximum that a script can count if a call
    /// above the burst leaves a debt.
    pub(super) fn most_at_once(&self, oversize: Oversize) -> u64 {
        match (oversize, self.kind) {
            (Oversize::Overdraft, Kind::Log) => LONGEST_LOG,
            (Oversize::Overdraft, _) => MOST,
            _ => self.burst,
        }
    }

    pub(crate) fn script(&self) -> &'static Script {
        match self.kind {
            Kind::Debt => &DEBT,
            Kind::Steps => &STEPS,
            Kind::Window => &WINDOW,
            Kind::Log => &LOG,
        }
    }

    /// Returns the name of this kind of limit in the script for several limits.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Debt => "debt",
            Kind::Steps => "steps",
            Kind::Window => "window",
            Kind::Log => "log",
        }
    }

    /// Returns whether the server keeps the turns of this rule in a key beside it: its debt is paid off evenly.
    pub(crate) fn has_turns(&self) -> bool {
        self.kind == Kind::Debt
    }

    /// Returns whether waiters reserve turns. Those of a slower limit look again and again: each reservation bars refunds
    /// until it is due.
    pub(crate) fn is_reserved(&self) -> bool {
        self.has_turns() && self.lasting(1) < SLOW
    }

    /// Returns the number of units that are paid off within a time, at most [`MOST`].
    pub(super) fn within(&self, time: Duration) -> u64 {
        let units =
            time.as_micros().saturating_mul(self.count.into()) / u128::from(self.period.max(1));
        u64::try_from(units).unwrap_or(MOST).min(MOST)
    }

    /// Returns the arguments of a script that define this rule.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        [self.count, self.period, self.burst]
    }

    /// Returns the position of a charge that was followed by a charge of `after` in the same call.
    pub(crate) fn position(&self, end: u64, after: u64) -> u64 {
        match self.kind {
            Kind::Debt | Kind::Steps => end.wrapping_sub(after) % POSITIONS,
            Kind::Window => end,
            Kind::Log => end.saturating_sub(after),
        }
    }

    /// Returns the work of a refund of `n` for the server: a log has an entry for each unit.
    pub(crate) fn work(&self, n: u64) -> u64 {
        match self.kind {
            Kind::Debt | Kind::Steps | Kind::Window => 1,
            Kind::Log => n.max(1),
        }
    }

    /// Returns a lower bound of the time from the earliest admission of a call until `n` more are
    /// admitted.
    pub(crate) fn lasting(&self, n: u128) -> Duration {
        let (count, period) = (u128::from(self.count.max(1)), u128::from(self.period));
        let micros = match self.kind {
            // The quotient may have been rounded up by a microsecond.
            Kind::Debt => (n.saturating_mul(period) / count).saturating_sub(1),
            // The step that admitted the first call may be nearly over.
            Kind::Steps | Kind::Log => (n / count).saturating_mul(period),
            // A period admits less than twice the count.
            Kind::Window => (n / (2 * count)).saturating_mul(period),
        };
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Returns the greatest common divisor.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use proptest::prelude::*;

    use super::*;

    /// Draws quotas that a script can count, of whole microseconds or not.
    fn quota() -> impl Strategy<Value = Quota> {
        let whole = (1..=1_u64 << 30).prop_map(|micros| micros * 1000);
        let period = prop_oneof![1..=1_u64 << 40, Just(1_000_000_000), whole];
        let burst = prop_oneof![Just(1), 1..=1024_u64];
        (1..=LONGEST_LOG, period, burst).prop_map(|(count, period, burst)| {
            Quota::new(count.min(period), Duration::from_nanos(period)).burst(burst)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// An even rate is that of the core. A step is that of the core, rounded up to a microsecond. The numbers are those
        /// for which `proofs/coq/Lua.v` shows that a script calculates exactly.
        #[test]
        fn of_any_quota_counts_as_the_core_does(quota in quota(), micros in 1..=1_u64 << 40) {
            for &algorithm in Algorithm::all() {
                if algorithm.check(quota).is_err() {
                    continue;
                }
                let (rule, batch) = (Rule::of(quota, algorithm), algorithm.batch(quota));
                prop_assert_eq!(rule.burst, batch.max_burst());
                let [count, period, burst] = rule.numbers().map(u128::from);
                let nanos = batch.period().as_nanos();
                let product = match rule.kind {
                    Kind::Debt => {
                        prop_assert_eq!(count * nanos, u128::from(batch.count()) * period * 1000);
                        let time = Duration::from_micros(micros);
                        let most = algorithm.most_in(quota, time);
                        prop_assert_eq!(rule.within(time) + rule.burst, most);
                        burst * period
                    }
                    _ => {
                        prop_assert_eq!(rule.count, batch.count());
                        prop_assert_eq!(period, nanos.div_ceil(1000));
                        if rule.kind == Kind::Window { count * period } else { period }
                    }
                };
                prop_assert!(product.max(count).max(burst) <= u128::from(MOST));
            }
        }
    }

    fn gcra(quota: Quota) -> Rule {
        Rule::of(quota, Algorithm::Gcra)
    }

    #[test]
    fn of_nanoseconds_keeps_the_rate_in_microseconds() {
        let rule = gcra(Quota::new(3, Duration::from_nanos(1_250)).burst(2));
        assert_eq!((rule.count, rule.period, rule.burst), (12, 5, 2));
        let rule = gcra(Quota::per_second(50).burst(10));
        assert_eq!((rule.count, rule.period, rule.burst), (50, 1_000_000, 10));
    }

    #[test]
    fn of_more_than_one_per_nanosecond_is_exact() {
        let rule = gcra(Quota::bytes_per_second(1_250_000_000));
        assert_eq!((rule.count, rule.period), (1_250_000_000, 1_000_000));
        let rule = gcra(Quota::bytes_per_second(16_000_000_000));
        assert_eq!((rule.count, rule.period), (16_000_000_000, 1_000_000));
        let rule = gcra(Quota::new(3, Duration::from_nanos(2)));
        assert_eq!((rule.count, rule.period), (1_500, 1));
    }

    #[test]
    fn of_a_large_quota_is_reduced() {
        let rule = gcra(Quota::per_day(1_000_000).burst(1_000_000));
        assert_eq!((rule.count, rule.period), (1, 86_400));
    }

    #[test]
    fn of_each_algorithm_is_its_batch() {
        let quota = Quota::per_second(10).burst(10);
        let scripts = [Algorithm::SlidingWindow, Algorithm::SlidingLog];
        for &algorithm in Algorithm::all() {
            // A new rule that keeps more than a word may have no script yet.
            let Ok(rule) = catch_unwind(|| Rule::of(quota, algorithm)) else {
                let has_script = algorithm.keeps_a_word() || scripts.contains(&algorithm);
                assert!(!has_script, "{algorithm}");
                continue;
            };
            let batch = algorithm.batch(quota);
            let micros = u64::try_from(batch.period().as_micros()).unwrap();
            assert_eq!(
                (rule.count, rule.period, rule.burst),
                (batch.count(), micros, batch.max_burst()),
                "{algorithm}"
            );
        }
    }

    #[test]
    #[should_panic(expected = "a limit on a server cannot be unlimited")]
    fn of_no_limit_panics() {
        gcra(Quota::UNLIMITED);
    }

    #[test]
    #[should_panic(expected = "2^52")]
    fn of_a_large_quota_that_cannot_be_reduced_panics() {
        gcra(Quota::new(1_000_003, Duration::from_secs(86_400)).burst(1_000_000));
    }

    #[test]
    fn lasting_of_each_algorithm_is_a_lower_bound() {
        let quota = Quota::per_second(10);
        let lasting = |algorithm, n| Rule::of(quota, algorithm).lasting(n).as_millis();
        for (n, even, window, sliding) in [(0, 0, 0, 0), (9, 899, 0, 0), (10, 999, 1000, 0)] {
            assert_eq!(lasting(Algorithm::Gcra, n), even);
            assert_eq!(lasting(Algorithm::FixedWindow, n), window);
            assert_eq!(lasting(Algorithm::SlidingLog, n), window);
            assert_eq!(lasting(Algorithm::SlidingWindow, n), sliding);
        }
        assert_eq!(lasting(Algorithm::SlidingWindow, 20), 1000);
        let huge = Rule::of(quota, Algorithm::FixedWindow);
        assert_eq!(huge.lasting(u128::MAX), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn position_before_the_first_wraps() {
        let rule = gcra(Quota::per_second(5).burst(5));
        assert_eq!(rule.position(0, 2), POSITIONS - 2);
        assert_eq!(rule.position(3, 2), 1);
    }
}
