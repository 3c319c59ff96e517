//! Defines the command line, which is the same for every table.

use std::time::Duration;

use clap::Parser;

/// Measures operations next to those of other crates.
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

    /// The flag that cargo passes when it runs a benchmark
    #[arg(long, hide = true)]
    bench: bool,

    /// The number of rounds in which every contender of a row takes its turn.
    #[arg(skip = 25_usize)]
    pub rounds: usize,

    /// The minimum duration of one turn.
    #[arg(skip = Duration::from_millis(4))]
    pub batch: Duration,

    /// The total number of measurements of a row that missed its target.
    #[arg(skip = 5_usize)]
    pub runs: usize,
}

impl Options {
    /// Reads the process's arguments.
    ///
    /// Without `--bench` the target runs as a test (`cargo test --all-targets`): every row is then built and
    /// goes through one short round, and its figures are meaningless.
    #[must_use]
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

    /// Returns whether a row of this name is wanted.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Chooses the extent of the measurement: only a run, a quick look, or all of it.
    pub fn choose<T>(&self, [runs, quick, whole]: [T; 3]) -> T {
        match self.rounds {
            0..=1 => runs,
            2..=10 => quick,
            _ => whole,
        }
    }
}
