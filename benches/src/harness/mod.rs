//! Sets contenders side by side and compares them round by round.
//!
//! The machine is shared and its clock moves, so a time alone says little. In every round each contender runs one batch
//! of a few milliseconds, in an order that rotates; the ratio is taken within the round, and the median of the rounds
//! is what counts. What disturbs one batch spoils one ratio of many, and what slows the whole machine cancels out.
//!
//! Work on one thread is timed by a [`Stopwatch`] that runs only while the thread does, so a neighbour on the same core
//! costs cache lines but no time. Work on several threads is timed by the wall clock, since waiting is part of it: those
//! rows want a machine that is otherwise idle.
//!
//! An operation is written once, as a [`Row`] of a theme. [`ratios`] compares its contenders, [`groups`] hands them to
//! criterion, and `instructions` counts them.

mod report;
mod rows;

use std::time::Duration;

use clap::Parser;
use futures::executor::block_on;

/// Measures the processor time of the thread that started it.
pub use cpu_time::ThreadTime as Stopwatch;
pub use report::{Table, Targets, groups, ratios, verdict};
pub use rows::{Contender, Row, Shared, Work, abreast, alone, made, tasks, together, walled};

/// Measures operations beside those of other crates.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// A part of the names of the rows to measure
    #[arg(default_value = "")]
    filter: String,

    /// Take fewer and shorter rounds
    #[arg(long)]
    quick: bool,

    /// Print Markdown instead of aligned columns
    #[arg(long)]
    pub markdown: bool,

    /// Fail when a target is missed
    #[arg(long)]
    pub check: bool,

    /// As cargo passes it when it runs a benchmark
    #[arg(long, hide = true)]
    bench: bool,

    /// How often every contender of a row takes its turn.
    #[arg(skip = 25_usize)]
    pub rounds: usize,

    /// How long one turn should take at least.
    #[arg(skip = Duration::from_millis(4))]
    pub batch: Duration,

    /// How often a row that missed its target is measured in all.
    #[arg(skip = 5_usize)]
    pub runs: usize,
}

impl Options {
    /// Reads the process's arguments.
    ///
    /// Without `--bench` somebody runs the target as a test (`cargo test --all-targets`): every row is then built and
    /// goes through one short round, and its figures mean nothing.
    pub fn from_args() -> Options {
        let mut options = Options::parse();
        if options.quick {
            options.rounds = 7;
            options.batch = Duration::from_millis(1);
        }
        if !options.bench {
            eprintln!("no --bench: one short round, only to see that everything runs");
            options.rounds = 1;
            options.batch = Duration::from_micros(1);
            options.runs = 1;
        }
        options
    }

    /// Whether a row of this name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Chooses by how much is measured: to see that it runs, for a quick look, or all of it.
    pub fn choose<T>(&self, [runs, quick, whole]: [T; 3]) -> T {
        match self.rounds {
            0..=1 => runs,
            2..=10 => quick,
            _ => whole,
        }
    }
}

/// Median, least and greatest of some figures, and the 99th percentile.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// 99 of 100 are below.
    pub p99: f64,
}

impl Spread {
    /// Sums up the figures.
    ///
    /// # Panics
    ///
    /// When there are none.
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

/// Repeats an operation of something, as often as it is asked to. What it is done with, `black_box` hides before each
/// time.
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

/// Repeats what is awaited, inside of one future on a plain executor.
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

/// Repeats what is awaited with what it owns, inside of one future on a plain executor. It adds some seven instructions,
/// so an operation of a few dozen has a loop of its own.
pub fn awaited(mut once: impl AsyncFnMut() + 'static) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                once().await;
            }
        });
    }
}

/// Contenders that differ in their type alone: how they run, what they do, and the types with their targets, ours first.
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

/// A table of rows. `$how` is a function in the scope of the table, `fn(name, body) -> Contender`, such as `alone`, which
/// says how the body runs; `$work` is `fn::<Type>(arguments..) -> Shared`, which makes the body for a type. So
/// `alone "try" [tries: Ours, Peer: 1.0];` is a row of two contenders, of which the first may take as long as the second.
///
/// A row says how the contenders run, the name of the operation, and who they are, ours first. What is in
/// parentheses is ours by name, what is in brackets are the types that do an operation, and what is in braces are others
/// by name. A number is a target.
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
