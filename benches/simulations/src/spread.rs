//! The distribution of figures.

/// The median, least and greatest of some figures, and three percentiles.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The tenth percentile.
    pub p10: f64,
    /// The ninetieth percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Spread {
    /// Summarizes the figures.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (half, rest) = (figures.len() / 2, (figures.len() - 1) / 2);
        let percentile =
            |part: f64| figures[((figures.len() - 1) as f64 * part / 100.0).round() as usize];
        Spread {
            median: f64::midpoint(figures[rest], figures[half]),
            min: figures[0],
            max: figures[figures.len() - 1],
            p10: percentile(10.0),
            p90: percentile(90.0),
            p99: percentile(99.0),
        }
    }
}
