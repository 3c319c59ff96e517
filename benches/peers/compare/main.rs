//! Draws which of the same calls each algorithm admits, and when a rate limiter releases a queue of
//! waiters, beside other crates.
//!
//! The first picture is computed on a manual clock and is the same each time; the second is
//! measured.

mod algorithms;
mod pacing;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use self::algorithms::Comparison;
use self::pacing::Lines;

/// Draws which of the same calls each algorithm admits (algorithms.svg), and when a rate limiter
/// releases a queue of waiters, beside other crates (pacing.svg)
#[derive(Debug, Parser)]
#[command(name = "compare", version)]
struct Args {
    /// What to draw [default: everything]
    #[arg(value_enum)]
    what: Vec<What>,

    /// Also write the data as a table; times are in nanoseconds
    #[arg(long)]
    csv: bool,

    /// The directory to write to, created if it is missing [default: docs, of this repository]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Algorithms,
    Pacing,
}

impl Args {
    fn wants(&self, what: What) -> bool {
        self.what.is_empty() || self.what.contains(&what)
    }
}

fn main() -> Result<(), String> {
    let args = Args::parse();
    let docs = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let out = args.out.clone().unwrap_or_else(docs);
    write(&args, &out).map_err(|error| format!("cannot write to {}: {error}", out.display()))
}

fn write(args: &Args, out: &Path) -> io::Result<()> {
    fs::create_dir_all(out)?;
    if args.wants(What::Algorithms) {
        let comparison = Comparison::run();
        fs::write(out.join("algorithms.svg"), comparison.svg())?;
        if args.csv {
            fs::write(out.join("algorithms.csv"), comparison.csv())?;
        }
    }
    if args.wants(What::Pacing) {
        let lines = Lines::measure();
        fs::write(out.join("pacing.svg"), lines.svg())?;
        if args.csv {
            fs::write(out.join("pacing.csv"), lines.csv())?;
        }
    }
    Ok(())
}

/// Returns a line of names, and lines of a first cell and of numbers, some of them missing.
fn csv<L: IntoIterator<Item = Option<u128>>>(
    first: &str,
    names: impl IntoIterator<Item = String>,
    lines: impl IntoIterator<Item = (u128, L)>,
) -> String {
    let names: Vec<_> = [first.to_owned()].into_iter().chain(names).collect();
    let mut csv = names.join(",") + "\n";
    for (first, cells) in lines {
        csv += &first.to_string();
        for cell in cells {
            csv.push(',');
            csv += &cell.map_or(String::new(), |cell| cell.to_string());
        }
        csv.push('\n');
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_drawn_unless_something_is_asked_for() {
        let wanted = |arguments: &[&str]| {
            let args = Args::try_parse_from([&["compare"], arguments].concat()).unwrap();
            [args.wants(What::Algorithms), args.wants(What::Pacing)]
        };
        assert_eq!(wanted(&[]), [true, true]);
        assert_eq!(wanted(&["pacing", "--csv"]), [false, true]);
        assert_eq!(wanted(&["pacing", "algorithms"]), [true, true]);
    }
}
