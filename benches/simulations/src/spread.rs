//! The distribution of figures.

/// The median, least and greatest of some figures, and the 99th percentile.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
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
        Spread {
            median: f64::midpoint(figures[rest], figures[half]),
            min: figures[0],
            max: figures[figures.len() - 1],
            p99: figures[((figures.len() - 1) as f64 * 0.99).round() as usize],
        }
    }
}
