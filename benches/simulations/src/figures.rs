//! The figures of a row over all seeds, and how they are computed on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The mean of some figures, and the best of the worst tenth.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// The mean.
    pub mean: f64,
    /// The best of the worst tenth.
    pub worst: f64,
}

impl Figures {
    /// Summarizes the figures.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    pub fn of(mut figures: Vec<f64>, greater_is_worse: bool) -> Self {
        figures.sort_by(f64::total_cmp);
        if greater_is_worse {
            figures.reverse();
        }
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            worst: figures[figures.len() / 10],
        }
    }
}

/// Computes a value for each index below `count` on all processors, which changes no value.
///
/// # Panics
///
/// Panics if the closure does.
pub fn on_all_processors<T: Send>(count: usize, value: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut values = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return values;
            }
            values.push((index, value(index)));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut values: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let values = workers.into_iter().map(|it| it.join());
        values.flat_map(|it| it.expect("no value panics")).collect()
    });
    values.sort_by_key(|(index, _)| *index);
    values.into_iter().map(|(_, value)| value).collect()
}
