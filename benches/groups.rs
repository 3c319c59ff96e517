//! `cargo bench`: criterion's groups of the rows of BENCHMARKS.md that run in a process; a regular expression for
//! parts of `theme/operation/contender` runs only those.

use tollgate_bench::{harness, page};

fn main() {
    let themes = page::themes().into_iter();
    harness::groups(themes.filter(|(theme, _)| *theme != "redis"));
}
