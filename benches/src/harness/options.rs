//! The command line, the same for every table.

use std::time::Duration;

/// How long to measure, what to leave out and how to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only rows whose name contains this.
    pub filter: Option<String>,
    /// How often every contender of a row takes its turn.
    pub rounds: usize,
    /// How long one turn should take at least.
    pub batch: Duration,
    /// How often a row that missed its target is measured in all.
    pub runs: usize,
    /// Markdown instead of aligned columns.
    pub markdown: bool,
    /// Leave with an error when a target is missed.
    pub check: bool,
}

impl Options {
    /// Reads the process's arguments.
    ///
    /// cargo passes `--bench` when it runs a benchmark. Without it somebody runs the target as a test (`cargo test
    /// --all-targets`): every row is then built and goes through one short round, and its figures mean nothing.
    ///
    /// # Panics
    ///
    /// On an argument that nobody knows.
    #[must_use]
    pub fn from_args() -> Options {
        let mut measuring = false;
        let mut quick = false;
        let mut options = Options {
            filter: None,
            rounds: 25,
            batch: Duration::from_millis(4),
            runs: 5,
            markdown: false,
            check: false,
        };
        for argument in std::env::args().skip(1) {
            match argument.as_str() {
                "--bench" => measuring = true,
                "--quick" => quick = true,
                "--markdown" => options.markdown = true,
                "--check" => options.check = true,
                unknown if unknown.starts_with('-') => panic!(
                    "unknown argument {unknown}: give a part of a row's name, --quick, --markdown or --check"
                ),
                part => options.filter = Some(part.to_owned()),
            }
        }
        if quick {
            options.rounds = 7;
            options.batch = Duration::from_millis(1);
        }
        if !measuring {
            eprintln!("no --bench: one short round, only to see that everything runs");
            options.rounds = 1;
            options.batch = Duration::from_micros(1);
            options.runs = 1;
        }
        options
    }

    /// Whether a row of this name is wanted.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|part| name.contains(part.as_str()))
    }
}
