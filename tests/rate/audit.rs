//! The auditors of a sliding log and a sliding window: whether charges, in whatever order they are
//! listed, keep the promise.

/// A charge: at which tick, and how much.
pub(crate) type Entry = (u64, u64);

/// How many were charged in the fullest time of a period, without its end.
///
/// The fullest ones begin with a charge, so it is enough to look at those: two ends that go on
/// together.
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

/// Says which charge does not fit by the rule of the sliding window, after all that came before it.
pub(crate) fn estimate(charges: &[Entry], most: u64, period: u64) -> Result<(), String> {
    let mut charges = charges.to_vec();
    charges.sort_unstable();
    let (mut number, mut previous, mut count) = (0, 0, 0);
    for (at, cost) in charges {
        previous = match at / period - number {
            0 => previous,
            1 => count,
            _ => 0,
        };
        count = if at / period == number { count } else { 0 } + cost;
        number = at / period;
        let left = u128::from(previous) * u128::from(period - at % period);
        if left + u128::from(count) * u128::from(period) > u128::from(most) * u128::from(period) {
            return Err(format!("{count} after {previous}, at tick {at}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::random::Random;

    /// From each charge on, as one would write it down.
    fn naive(charges: &[Entry], period: u64) -> u64 {
        let from = |from: u64| {
            let within = charges
                .iter()
                .filter(move |(at, _)| (from..from + period).contains(at));
            within.map(|(_, cost)| cost).sum()
        };
        charges.iter().map(|(at, _)| from(*at)).max().unwrap_or(0)
    }

    #[test]
    fn two_ends_find_what_every_pair_finds() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let charges: Vec<Entry> = (0..12)
                .map(|_| (u64::from(random.below(100)), u64::from(random.below(4))))
                .collect();
            let period = u64::from(1 + random.below(40));
            assert_eq!(fullest(&charges, period), naive(&charges, period));
        }
    }

    #[test]
    fn the_fullest_period_does_not_contain_its_end() {
        let kept = [(0, 2), (9, 1), (10, 1), (18, 1), (19, 1)];
        for (period, most) in [(9, 2), (10, 3), (11, 4), (20, 6)] {
            assert_eq!(fullest(&kept, period), most);
        }
    }

    /// A full schedule passes, and with one charge more anywhere it does not.
    #[test]
    fn one_charge_too_many_is_found_wherever_it_is() {
        let full: Vec<Entry> = (0..500).map(|number| (20 * number, 1)).collect();
        assert_eq!(fullest(&full, 100), 5);
        for seed in [0, 1, 250, 499] {
            let mut seeded = full.clone();
            seeded.push(full[seed]);
            assert_eq!(fullest(&seeded, 100), 6);
            let mut seeded = full.clone();
            seeded[seed.max(5)].0 -= 1;
            assert_eq!(fullest(&seeded, 100), 6);
        }
    }

    #[test]
    fn the_estimate_is_that_of_the_window() {
        // Ten in the first window; half of them count in the middle of the next.
        let mut charges: Vec<Entry> = vec![(30, 10), (150, 5), (160, 1)];
        assert_eq!(estimate(&charges, 10, 100), Ok(()));
        charges[2].0 = 159;
        assert!(estimate(&charges, 10, 100).is_err());
        charges[2] = (300, 10);
        assert_eq!(estimate(&charges, 10, 100), Ok(()));
        charges[2] = (299, 10);
        assert!(estimate(&charges, 10, 100).is_err());
    }
}
