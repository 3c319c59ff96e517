//! Sets contenders side by side and compares them round by round.
//!
//! The machine is shared and its clock speed changes, so a single time means little. In every round each contender
//! runs one batch of a few milliseconds, in an order that rotates. The ratio is taken within the round, and the
//! median of the rounds is the result. A disturbance of one batch spoils one ratio of many, and a slowdown of the
//! whole machine cancels out.
//!
//! Work on one thread is timed by a [`Stopwatch`] that runs only while the thread does, so a neighbour on the same
//! core costs cache lines but no time. Work on several threads is timed by the wall clock, since waiting is part of
//! it: those rows need a machine that is otherwise idle.
//!
//! An operation is written once, as a [`Row`] of a theme. [`ratios`] compares its contenders, [`groups`] passes them
//! to criterion, and `instructions` counts them.

mod options;
mod report;
mod rows;
mod table;

use std::time::Duration;

use cpu_time::ThreadTime;

pub use options::Options;
pub use report::{groups, ratios};
pub use rows::{Contender, Row, Shared, Work, abreast, alone, made, together};
pub use table::{Table, Targets, verdict};

/// Measures the processor time of the thread that started it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(ThreadTime);

impl Stopwatch {
    /// Starts at zero.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch(ThreadTime::now())
    }

    /// Returns how long the thread has run since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The median, minimum and maximum of some figures.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Summarizes the figures.
    ///
    /// # Panics
    ///
    /// If there are no figures.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[middle]
        } else {
            f64::midpoint(figures[middle - 1], figures[middle])
        };
        Spread {
            median,
            min: figures[0],
            max: figures[figures.len() - 1],
        }
    }
}

/// Repeats an operation on an object as often as requested. `black_box` hides the object before each
/// repetition.
#[macro_export]
macro_rules! repeat {
    ($what:expr, |$it:ident| $once:expr) => {{
        let what = $what;
        let work: $crate::harness::Shared = Box::new(move |times| {
            for _ in 0..times {
                let $it = std::hint::black_box(&what);
                $once;
            }
        });
        work
    }};
}

/// Repeats an awaited operation, inside one future on a plain executor.
#[macro_export]
macro_rules! repeat_async {
    ($what:expr, |$it:ident| $once:expr) => {{
        let what = $what;
        let work: $crate::harness::Shared = Box::new(move |times| {
            futures::executor::block_on(async {
                for _ in 0..times {
                    let $it = std::hint::black_box(&what);
                    $once;
                }
            });
        });
        work
    }};
}

/// Makes contenders that differ only in their type: how they run, their work, and the types with their targets, ours
/// first.
#[macro_export]
macro_rules! each {
    ($how:ident, $work:ident; $($peers:tt)*) => {
        $crate::each!($how, $work(); $($peers)*)
    };
    ($how:ident, $work:ident $arguments:tt; $($type:ty $(: $target:literal)?),+ $(,)?) => {
        vec![$(
            $how(<$type>::NAME, move || $work::<$type> $arguments)$(.at_most($target))?
        ),+]
    };
}

/// Makes a table of rows. `$how` is a function in the scope of the table, `fn(name, body) -> Contender`, such as
/// `alone`, which determines how the body runs. `$work` is `fn::<Type>(arguments..) -> Shared`, which makes the body
/// for a type. So `alone "try" [tries: Ours, Peer: 1.0];` is a row of two contenders, where the first may take as
/// long as the second.
///
/// A row states how the contenders run, the name of the operation, and the contenders, ours first. Parentheses
/// contain ours by name, brackets contain the types that do an operation, and braces contain others by name. A number
/// is a target.
#[macro_export]
macro_rules! rows {
    ($(
        $how:ident $name:literal
        $(($first:literal => $ours:expr))?
        $([$work:ident $(($($argument:expr),*))?: $($type:ty $(: $target:literal)?),+])?
        $({$($peer:literal $(: $limit:literal)? => $other:expr),+})?
    ;)*) => {
        vec![$($crate::harness::Row::new($name, {
            use $crate::harness::Contender;
            let ours: Vec<Contender> = vec![$($how($first, $ours))?];
            let typed: Vec<Vec<Contender>> = vec![$(
                $crate::each!($how, $work($($($argument),*)?); $($type $(: $target)?),+)
            )?];
            let named: Vec<Contender> = vec![$($($how($peer, $other)$(.at_most($limit))?),+)?];
            ours.into_iter().chain(typed.into_iter().flatten()).chain(named)
        })),*]
    };
}
