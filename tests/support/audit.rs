//! The auditor: checks that charges, reported in any order, keep the promise in every interval; and finds
//! the fullest period.

use tollgate::Quota;

/// A charge: its tick and its cost.
pub(crate) type Entry = (u64, u64);

/// The changes of the rate: from each tick on, the fastest rate in force.
pub(crate) struct Allowance {
    burst: u64,
    /// The tick, and the quota that may be in force from then on.
    rates: Vec<(u64, Quota)>,
}

/// Returns the parts of a token, chosen so that every allowed rate is a whole number of parts.
fn parts(rates: &[(u64, Quota)]) -> i128 {
    let periods = rates.iter().map(|(_, quota)| period(*quota));
    periods.fold(1, |product, period| product / gcd(product, period) * period)
}

fn period(quota: Quota) -> i128 {
    i128::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Allowance {
    pub(crate) fn of(quota: Quota) -> Self {
        Self {
            burst: quota.max_burst(),
            rates: vec![(0, quota)],
        }
    }

    /// Sets the rate that may be in force from a tick on. The burst stays as it is.
    pub(crate) fn change(&mut self, tick: u64, quota: Quota) {
        assert_eq!(quota.max_burst(), self.burst);
        self.rates.push((tick, quota));
    }

    /// Returns the interval in which more was charged than the burst, plus the rate times the time
    /// and one nanosecond, plus a nanosecond for every change of the rate in it.
    ///
    /// From the first tick `a` to the last tick `b` of an interval, the sum of the charges is the sum
    /// until `b` less the sum before `a`, and the refill is the refill until `b` less that until `a`.
    /// So it is enough to compare each charge with the worst of those before it: one pass.
    pub(crate) fn audit(&self, charges: &[Entry]) -> Result<(), String> {
        let mut charges = charges.to_vec();
        charges.sort_unstable();
        let parts = parts(&self.rates);
        let pace = |quota: Quota| i128::from(quota.count()) * (parts / period(quota));
        let fastest = self.rates.iter().map(|(_, quota)| pace(*quota)).max();
        let fastest = fastest.expect("there is a rate");
        let mut changes = self.rates.iter().skip(1).peekable();
        let (mut since, mut now) = (0, pace(self.rates[0].1));
        let (mut total, mut given) = (0, 0);
        // The least difference, before a charge, between the sum of the charges and the refill.
        let mut least = (i128::MAX, 0);
        for (tick, cost) in charges {
            while let Some((change, quota)) = changes.next_if(|(change, _)| *change <= tick) {
                given += now * i128::from(change - since) + fastest;
                (since, now) = (*change, pace(*quota));
            }
            given += now * i128::from(tick - since);
            since = tick;
            least = least.min((total - given, tick));
            total += i128::from(cost) * parts;
            let most = i128::from(self.burst) * parts + fastest;
            if total - given - least.0 > most {
                return Err(format!("too much from tick {} to tick {tick}", least.1));
            }
        }
        Ok(())
    }
}

/// Returns the greatest sum of charges in a period, without its end.
///
/// The fullest periods begin with a charge, so it is enough to check those: two indices that
/// advance together.
pub(crate) fn fullest(charges: &[Entry], period: u64) -> u64 {
    let mut charges = charges.to_vec();
    charges.sort_unstable();
    let (mut end, mut within, mut most) = (0, 0, 0);
    for (from, cost) in &charges {
        while end < charges.len() && charges[end].0 - from < period {
            within += charges[end].1;
            end += 1;
        }
        most = most.max(within);
        within -= cost;
    }
    most
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::support::random::Random;

    /// Checks every pair of charges, in the most obvious way.
    fn naive(quota: Quota, charges: &[Entry]) -> bool {
        charges.iter().all(|(from, _)| {
            charges.iter().filter(|(to, _)| to >= from).all(|(to, _)| {
                let within = charges.iter().filter(|(at, _)| (from..=to).contains(&at));
                let total: u64 = within.map(|(_, cost)| cost).sum();
                let allowed = i128::from(quota.max_burst()) * period(quota)
                    + i128::from(quota.count()) * i128::from(to - from + 1);
                i128::from(total) * period(quota) <= allowed
            })
        })
    }

    /// Draws random charges; about half of the sets exceed the promise somewhere.
    #[test]
    fn one_pass_finds_what_every_pair_finds() {
        let mut random = Random::new(1);
        let quota = Quota::new(3, Duration::from_nanos(10)).burst(4);
        let (mut kept, mut broken) = (0, 0);
        for _ in 0..3000 {
            let mut tick = 0;
            let mut charges: Vec<Entry> = (0..12)
                .map(|_| {
                    tick += u64::from(random.below(12));
                    (tick, u64::from(random.below(4)))
                })
                .collect();
            let other = random.below(12) as usize;
            charges.swap(0, other);
            let found = Allowance::of(quota).audit(&charges).is_ok();
            assert_eq!(found, naive(quota, &charges), "{charges:?}");
            if found {
                kept += 1;
            } else {
                broken += 1;
            }
        }
        assert!(kept > 300 && broken > 300, "{kept} and {broken}");
    }

    /// A full schedule passes, and with one charge more anywhere it does not.
    #[test]
    fn one_charge_too_many_is_found_wherever_it_is() {
        let quota = Quota::new(1, Duration::from_nanos(10)).burst(5);
        let mut full: Vec<Entry> = vec![(100, 5)];
        full.extend((1..500).map(|number| (100 + 10 * number, 1)));
        assert_eq!(Allowance::of(quota).audit(&full), Ok(()));
        for seed in [0, 1, 250, 498, 499] {
            let mut seeded = full.clone();
            seeded.push((full[seed].0, 1));
            assert!(Allowance::of(quota).audit(&seeded).is_err(), "{seed}");
            // One that comes much too early exceeds the promise as well.
            if seed > 1 {
                let mut seeded = full.clone();
                seeded[seed].0 -= 2;
                assert!(Allowance::of(quota).audit(&seeded).is_err(), "{seed}");
            }
        }
    }

    /// Sums from each charge on, in the obvious way.
    #[test]
    fn fullest_finds_what_every_pair_finds() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let charges: Vec<Entry> = (0..12)
                .map(|_| (u64::from(random.below(100)), u64::from(random.below(4))))
                .collect();
            let period = u64::from(1 + random.below(40));
            let from = |from: u64| {
                let within = charges
                    .iter()
                    .filter(|(at, _)| (from..from + period).contains(at));
                within.map(|(_, cost)| cost).sum()
            };
            let sums = charges.iter().map(|(at, _)| from(*at));
            assert_eq!(Some(fullest(&charges, period)), sums.max());
        }
    }

    #[test]
    fn a_rate_counts_only_while_it_may_be_in_force() {
        let (slow, fast) = (Quota::per_hour(1), Quota::per_second(1_000_000));
        let allowance = || {
            let mut allowance = Allowance::of(slow);
            allowance.change(1_000_000, fast);
            allowance.change(2_000_000, slow);
            allowance
        };
        let mut charges: Vec<Entry> = vec![(0, 1)];
        charges.extend((1..=1000).map(|number| (1_000_000 + 1000 * number, 1)));
        assert_eq!(allowance().audit(&charges), Ok(()));
        charges.push((2_001_000, 1));
        assert!(allowance().audit(&charges).is_err());
    }
}
