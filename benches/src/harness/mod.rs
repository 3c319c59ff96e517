//! Compares contenders round by round.
//!
//! The machine is shared and its clock varies, so a time alone says little. In every round each contender runs one
//! batch of a few milliseconds, in an order that rotates; the ratio is taken within the round, and the result is the
//! median of the rounds. A disturbance of one batch spoils one ratio of many, and a slowdown of the whole machine
//! cancels out.
//!
//! A [`Stopwatch`] that runs only while the thread does times the work on one thread, so a neighbour on the same core
//! costs cache lines but no time. The wall clock times the work on several threads, because waiting is part of it:
//! those rows need a machine that is otherwise idle.
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
pub use rows::{
    Comparison, Contender, Row, Shared, Work, abreast, alone, made, tasks, together, walled,
};
pub use simulations::spread::Spread;

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

    /// Measure the rows of BENCHMARKS.md alone, and print its table
    #[arg(long)]
    pub page: bool,

    /// Fail when a target is missed
    #[arg(long)]
    pub check: bool,

    /// Passed by cargo when it runs a benchmark
    #[arg(long, hide = true)]
    bench: bool,

    /// The number of turns of each contender of a row.
    #[arg(skip = 25_usize)]
    pub rounds: usize,

    /// The least duration of a turn.
    #[arg(skip = Duration::from_millis(4))]
    pub batch: Duration,

    /// The total number of measurements of a row that missed its target; with `--page`, the passes over all rows.
    #[arg(skip = 5_usize)]
    pub runs: usize,
}

impl Options {
    /// Reads the process's arguments.
    ///
    /// Without `--bench`, the target runs as a test (`cargo test --all-targets`): every row is then built and goes
    /// through one short round, and its figures mean nothing.
    pub fn from_args() -> Options {
        let mut options = Options::parse();
        if options.quick {
            options.rounds = 7;
            options.batch = Duration::from_millis(1);
        }
        if options.page {
            // In each pass.
            options.rounds = options.choose([1, 3, 7]);
        }
        if !options.bench {
            eprintln!("no --bench: one short round, only to see that everything runs");
            (options.rounds, options.runs) = (1, 1);
            options.batch = Duration::from_micros(1);
        }
        options
    }

    /// Returns whether a row of this name is selected.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Chooses by the extent of the run: a test, a quick look, or the full run.
    pub fn choose<T>(&self, [runs, quick, whole]: [T; 3]) -> T {
        match self.rounds {
            0..=1 => runs,
            2..=10 => quick,
            _ => whole,
        }
    }
}

/// Repeats an operation on a value. `black_box` hides the value before each repetition.
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

/// Repeats an asynchronous operation, inside one future on a plain executor.
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

/// Repeats an asynchronous operation on an owned value, inside one future on a plain executor. It adds some seven
/// instructions, so an operation of a few dozen instructions has a loop of its own.
pub fn awaited(mut once: impl AsyncFnMut() + 'static) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                once().await;
            }
        });
    }
}

/// Contenders that differ only in their type: their runner, their operation, and the types with
/// their targets, ours first.
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

/// A table of rows. `$how` is a function in the scope of the table, `fn(name, body) -> Contender`, such as `alone`,
/// which runs the body; `$work` is `fn::<Type>(arguments..) -> Shared`, which makes the body for a type. So `alone
/// "try" [tries: Ours, Peer: 1.0];` is a row of two contenders, and the first may take as long as the second.
///
/// A row gives the runner of the contenders, the name of the operation, and the contenders, ours first. Parentheses
/// hold ours by name, brackets hold the types that do an operation, and braces hold others by name. A number is a
/// target.
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
