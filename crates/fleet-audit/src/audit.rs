//! What was admitted beside what was promised.
//!
//! The promise: in every window of `w` seconds at most `burst + rate * w`, and a burst more for each
//! time that the server lost all it knew in that window. Whether it holds for every window between
//! two admissions is seen in one pass: what is owed, if each admission owes one and `rate` are paid
//! off in a second, is at its most what the fullest window that ends there has beyond `rate * w`.

use std::fmt;

/// Microseconds of a second.
const SECOND: u128 = 1_000_000;

pub(crate) struct Promise {
    /// So many in a second.
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    /// When the server lost what it knew, in microseconds of its clock; rising.
    pub(crate) losses: Vec<u64>,
}

/// The window that is fullest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Worst {
    from: u64,
    to: u64,
    count: u64,
    /// In millionths: what it has beyond the rate.
    beyond: u128,
}

#[derive(Debug)]
pub(crate) struct Audit {
    admitted: u64,
    first: u64,
    last: u64,
    rate: u64,
    burst: u64,
    losses: usize,
    worst: Worst,
}

impl Audit {
    /// Of admissions at these microseconds of the server's clock.
    pub(crate) fn of(mut ticks: Vec<u64>, promise: &Promise) -> Self {
        ticks.sort_unstable();
        let (mut owed, mut at, mut from, mut count) = (0_u128, 0_u64, 0_u64, 0_u64);
        let mut worst = Worst::default();
        let mut losses = promise.losses.iter().peekable();
        for tick in &ticks {
            while losses.next_if(|loss| *loss <= tick).is_some() {
                owed = 0;
            }
            owed = owed.saturating_sub(u128::from(tick - at) * u128::from(promise.rate));
            if owed == 0 {
                (from, count) = (*tick, 0);
            }
            owed += SECOND;
            count += 1;
            at = *tick;
            if owed > worst.beyond {
                worst = Worst {
                    from,
                    to: at,
                    count,
                    beyond: owed,
                };
            }
        }
        Self {
            admitted: ticks.len() as u64,
            first: ticks.first().copied().unwrap_or_default(),
            last: ticks.last().copied().unwrap_or_default(),
            rate: promise.rate,
            burst: promise.burst,
            losses: promise.losses.len(),
            worst,
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.worst.beyond <= u128::from(self.burst) * SECOND
    }

    /// Of what was promised for the time from the first to the last.
    pub(crate) fn utilisation(&self) -> f64 {
        let seconds = (self.last - self.first) as f64 / 1e6;
        let promised = self.burst as f64 + self.rate as f64 * seconds;
        self.admitted as f64 / promised
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |micros: u64| micros as f64 / 1e6;
        writeln!(
            f,
            "{} admitted in {:.3} s, {:.1} % of what was promised",
            self.admitted,
            seconds(self.last - self.first),
            100.0 * self.utilisation()
        )?;
        writeln!(
            f,
            "bound: {} + {} a second in every window, and {} more for each of {} losses of all that the server knew",
            self.burst, self.rate, self.burst, self.losses
        )?;
        writeln!(
            f,
            "worst window: {} in {:.6} s, which is {:.3} beyond the rate, of {}",
            self.worst.count,
            seconds(self.worst.to - self.worst.from),
            self.worst.beyond as f64 / 1e6,
            self.burst
        )?;
        write!(
            f,
            "{}",
            if self.is_kept() {
                "kept"
            } else {
                "NOT KEPT: more was admitted than was promised"
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(ticks: &[u64], losses: &[u64]) -> Audit {
        let promise = Promise {
            rate: 1000,
            burst: 3,
            losses: losses.to_vec(),
        };
        Audit::of(ticks.to_vec(), &promise)
    }

    #[test]
    fn as_much_as_was_promised_is_kept_and_one_more_is_not() {
        assert!(audit(&[5, 5, 5], &[]).is_kept());
        assert!(!audit(&[5, 5, 5, 5], &[]).is_kept());
        assert!(audit(&[5, 5, 5, 1005], &[]).is_kept());
        assert!(!audit(&[5, 5, 5, 1004], &[]).is_kept());
        // In the middle of others, and out of order.
        assert!(!audit(&[9_000_000, 5, 5, 1004, 5], &[]).is_kept());
    }

    #[test]
    fn a_loss_allows_one_more_burst() {
        assert!(audit(&[5, 5, 5, 6, 6, 6], &[6]).is_kept());
        assert!(!audit(&[5, 5, 5, 6, 6, 6, 6], &[6]).is_kept());
        assert!(!audit(&[5, 5, 5, 6, 6, 6], &[7]).is_kept());
    }

    #[test]
    fn every_window_is_looked_at() {
        // As one would count.
        let naive = |ticks: &[u64]| {
            (0..ticks.len()).all(|from| {
                (from..ticks.len()).all(|to| {
                    let micros = u128::from(ticks[to] - ticks[from]);
                    (to - from + 1) as u128 * SECOND <= 3 * SECOND + micros * 1000
                })
            })
        };
        let mut state = 7_u64;
        for _ in 0..2000 {
            let mut ticks: Vec<u64> = (0..12)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) % 9000
                })
                .collect();
            ticks.sort_unstable();
            assert_eq!(audit(&ticks, &[]).is_kept(), naive(&ticks), "{ticks:?}");
        }
    }
}
