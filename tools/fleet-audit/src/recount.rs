//! Defines the bound that each algorithm promises, and recounts the admissions with it.
//!
//! One pass over the ticks covers every window between two of them: a load rises with each
//! admission and falls with time, and equals at its maximum the fullest window that ends there. A
//! limit is kept if no load exceeds the maximum.

use std::collections::VecDeque;
use std::fmt;

use tollgate::{Algorithm, Quota};

/// A promised bound, with periods in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// In any interval of length `w`, at most `burst + count * w / period`.
    Even { count: u64, period: u64, burst: u64 },
    /// In any interval, at most `capacity`, and `count` more for each multiple of the period in it.
    Steps {
        count: u64,
        period: u64,
        capacity: u64,
    },
    /// At most `count` in total in a window that begins at a multiple of the period, and in the part of the window
    /// before that lies in the last period, as if its admissions had been evenly spaced.
    Estimate { count: u64, period: u64 },
    /// In any interval of one period, at most `count`.
    Log { count: u64, period: u64 },
}

impl Bound {
    /// Returns the bound that [`Algorithm`] states.
    pub(crate) fn of(algorithm: Algorithm, quota: Quota) -> Result<Self, String> {
        algorithm.check(quota).map_err(|error| error.to_string())?;
        let count = quota.count();
        let period = crate::fleet::micros(quota.period());
        let burst = quota.max_burst();
        Ok(match algorithm {
            Algorithm::Gcra => Self::Even {
                count,
                period,
                burst,
            },
            Algorithm::TokenBucket => {
                let capacity = if burst > 1 { burst } else { count };
                Self::Steps {
                    // Tokens that do not fit into the bucket are lost.
                    count: count.min(capacity),
                    period,
                    capacity,
                }
            }
            Algorithm::FixedWindow => Self::Steps {
                count,
                period,
                capacity: count,
            },
            Algorithm::SlidingWindow => Self::Estimate { count, period },
            Algorithm::SlidingLog => Self::Log { count, period },
            Algorithm::SubInterval { parts } => {
                let count = count / (u64::from(parts) + 1);
                Self::Steps {
                    count,
                    period: period.div_ceil(u64::from(parts)),
                    capacity: count,
                }
            }
            // These are the batches that the algorithm states itself.
            other if other.keeps_a_word() => {
                let batch = other.batch(quota);
                Self::Steps {
                    count: batch.count(),
                    period: crate::fleet::micros(batch.period()),
                    capacity: batch.max_burst(),
                }
            }
            other => return Err(format!("of {other} no promise is known here")),
        })
    }

    /// Returns the load of one admission.
    pub(crate) fn unit(&self) -> u128 {
        match self {
            Self::Even { period, .. } | Self::Estimate { period, .. } => u128::from(*period),
            Self::Steps { .. } | Self::Log { .. } => 1,
        }
    }

    /// Returns the maximum load in admissions.
    pub(crate) fn most(&self) -> u64 {
        match self {
            Self::Even { burst, .. } => *burst,
            Self::Steps { capacity, .. } => *capacity,
            Self::Estimate { count, .. } | Self::Log { count, .. } => *count,
        }
    }

    /// Returns the part of an interval that consists of whole windows: only for these the number of admissions
    /// is known.
    pub(crate) fn whole(&self, from: u64, to: u64) -> (u64, u64) {
        let (from, to) = match *self {
            Self::Even { .. } => (from, to),
            Self::Steps { period, .. } | Self::Estimate { period, .. } => {
                (from.next_multiple_of(period), to - to % period)
            }
            Self::Log { period, .. } => (from, to - to.saturating_sub(from) % period),
        };
        (from, to.max(from))
    }

    /// Returns the number of admissions in such a part, if there is always demand.
    pub(crate) fn flows(&self, from: u64, to: u64) -> f64 {
        let (Self::Even { count, period, .. }
        | Self::Steps { count, period, .. }
        | Self::Estimate { count, period }
        | Self::Log { count, period }) = *self;
        count as f64 * (to - from) as f64 / period as f64
    }

    /// Returns the number admitted once, beyond that.
    pub(crate) fn at_first(&self) -> f64 {
        match self {
            Self::Even { burst, .. } => *burst as f64,
            _ => 0.0,
        }
    }

    /// Returns the minimum share of that which must have been admitted. A bucket waits for a late process, and a
    /// window is open for its whole time. But where each token comes back at an instant of its own, a token not
    /// requested at that instant is lost, and a process is some milliseconds late.
    pub(crate) fn share(&self) -> f64 {
        match self {
            Self::Even { .. } | Self::Steps { .. } => 0.95,
            Self::Estimate { .. } | Self::Log { .. } => 0.8,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |micros: u64| micros as f64 / 1e3;
        match *self {
            Self::Even {
                count,
                period,
                burst,
            } => write!(
                f,
                "{burst} in every window, and {count} for each {} ms of it",
                millis(period)
            ),
            Self::Steps {
                count,
                period,
                capacity,
            } => write!(
                f,
                "{capacity} in every window, and {count} for each multiple of {} ms in it",
                millis(period)
            ),
            Self::Estimate { count, period } => write!(
                f,
                "{count} by estimate in every window of {} ms",
                millis(period)
            ),
            Self::Log { count, period } => {
                write!(f, "{count} in every window of {} ms", millis(period))
            }
        }
    }
}

/// The load after an admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// The load in [units](Bound::unit) of an admission.
    pub(crate) parts: u128,
    /// The beginning of the window with this load.
    pub(crate) from: u64,
    pub(crate) count: u64,
}

pub(crate) struct Recount {
    bound: Bound,
    load: u128,
    /// The tick of the last admission.
    at: u64,
    from: u64,
    count: u64,
    /// The counts of a window and the one before.
    current: u64,
    previous: u64,
    log: VecDeque<u64>,
}

impl Recount {
    pub(crate) fn new(bound: Bound) -> Self {
        Self {
            bound,
            load: 0,
            at: 0,
            from: 0,
            count: 0,
            current: 0,
            previous: 0,
            log: VecDeque::new(),
        }
    }

    /// Adds an admission, which must not be before the last one.
    pub(crate) fn admit(&mut self, tick: u64) -> Load {
        match self.bound {
            Bound::Even { count, .. } => {
                self.pay(tick, u128::from(tick - self.at) * u128::from(count));
            }
            Bound::Steps { count, period, .. } => {
                let steps = tick / period - self.at / period;
                self.pay(tick, u128::from(steps) * u128::from(count));
            }
            Bound::Estimate { period, .. } => self.estimate(tick, period),
            Bound::Log { period, .. } => self.look_back(tick, period),
        }
        self.at = tick;
        Load {
            parts: self.load,
            from: self.from,
            count: self.count,
        }
    }

    fn pay(&mut self, tick: u64, paid: u128) {
        self.load = self.load.saturating_sub(paid);
        if self.load == 0 {
            (self.from, self.count) = (tick, 0);
        }
        self.load += self.bound.unit();
        self.count += 1;
    }

    fn estimate(&mut self, tick: u64, period: u64) {
        let (window, last) = (tick / period, self.at / period);
        if window != last {
            self.previous = if window == last + 1 { self.current } else { 0 };
            self.current = 0;
        }
        self.current += 1;
        let rest = u128::from(period - tick % period);
        self.load =
            u128::from(self.current) * u128::from(period) + u128::from(self.previous) * rest;
        let windows_before = u64::from(self.previous > 0);
        self.from = (window - windows_before) * period;
        self.count = self.current + self.previous;
    }

    fn look_back(&mut self, tick: u64, period: u64) {
        self.log.push_back(tick);
        while self.log.front().is_some_and(|first| tick - first >= period) {
            self.log.pop_front();
        }
        self.count = self.log.len() as u64;
        self.load = u128::from(self.count);
        self.from = self.log.front().copied().unwrap_or(tick);
    }

    /// Forgets all admissions.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(bound: Bound, ticks: &[u64]) -> bool {
        let mut recount = Recount::new(bound);
        let most = u128::from(bound.most()) * bound.unit();
        ticks.iter().all(|tick| recount.admit(*tick).parts <= most)
    }

    /// Counts in the most obvious way: every window between two admissions.
    fn naive(bound: Bound, ticks: &[u64]) -> bool {
        let windows =
            || (0..ticks.len()).flat_map(|from| (from..ticks.len()).map(move |to| (from, to)));
        let within = |from: u64, to: u64| {
            ticks
                .iter()
                .filter(|tick| (from..=to).contains(*tick))
                .count() as u64
        };
        match bound {
            Bound::Even {
                count,
                period,
                burst,
            } => windows().all(|(from, to)| {
                let here = (to - from + 1) as u64;
                here * period <= burst * period + (ticks[to] - ticks[from]) * count
            }),
            Bound::Steps {
                count,
                period,
                capacity,
            } => windows().all(|(from, to)| {
                let multiples = ticks[to] / period - ticks[from] / period;
                (to - from + 1) as u64 <= capacity + multiples * count
            }),
            Bound::Estimate { count, period } => ticks.iter().enumerate().all(|(index, tick)| {
                let start = tick - tick % period;
                let here = ticks[..=index].iter().filter(|at| **at >= start).count() as u64;
                let before = if start == 0 {
                    0
                } else {
                    within(start - period, start - 1)
                };
                here * period + before * (start + period - tick) <= count * period
            }),
            Bound::Log { count, period } => ticks
                .iter()
                .all(|tick| within(*tick, tick + period - 1) <= count),
        }
    }

    #[test]
    fn every_window_is_looked_at() {
        let bounds = [
            Bound::Even {
                count: 2,
                period: 1000,
                burst: 3,
            },
            Bound::Steps {
                count: 1,
                period: 1000,
                capacity: 4,
            },
            Bound::Steps {
                count: 4,
                period: 1000,
                capacity: 4,
            },
            Bound::Estimate {
                count: 4,
                period: 1000,
            },
            Bound::Log {
                count: 4,
                period: 1000,
            },
        ];
        let mut state = 7_u64;
        for bound in bounds {
            let mut kept = 0;
            for _ in 0..2000 {
                let mut ticks: Vec<u64> = (0..10)
                    .map(|_| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        (state >> 33) % 7000
                    })
                    .collect();
                ticks.sort_unstable();
                let is_kept = is_kept(bound, &ticks);
                assert_eq!(is_kept, naive(bound, &ticks), "{bound:?} {ticks:?}");
                kept += u32::from(is_kept);
            }
            assert!((50..1950).contains(&kept), "{bound:?}: {kept} of 2000");
        }
    }

    #[test]
    fn as_much_flows_as_comes_back_in_whole_windows() {
        let even = Bound::Even {
            count: 2,
            period: 10,
            burst: 3,
        };
        assert_eq!(even.whole(5, 26), (5, 26));
        assert_eq!(even.flows(5, 25), 4.0);
        let window = Bound::Estimate {
            count: 2,
            period: 10,
        };
        assert_eq!(window.whole(5, 26), (10, 20));
        assert_eq!(window.whole(10, 20), (10, 20));
        assert_eq!(window.whole(11, 19), (20, 20));
        assert_eq!(window.flows(10, 20), 2.0);
        let log = Bound::Log {
            count: 2,
            period: 10,
        };
        assert_eq!(log.whole(5, 26), (5, 25));
        assert_eq!(log.whole(5, 8), (5, 5));
    }
}
