//! Runs the rows of all themes, prints one table, and looks again at what missed its target.

use std::process::ExitCode;

use super::{Comparison, Options, Row, Spread, Table};

/// A row's name, and how to build it. It is built only when its turn has come, so a row does not measure the memory of
/// its neighbours.
pub type Entry = (&'static str, fn() -> Row);

const HEADINGS: [&str; 9] = [
    "operation",
    "beside",
    "ours ns",
    "theirs ns",
    "ratio",
    "min",
    "max",
    "target",
    "verdict",
];

/// Measures every wanted row and prints the table.
///
/// A row that misses is measured again until there are [`Options::runs`] runs, and those are summed up in a second
/// table: the least, the middle and the greatest of the runs' medians.
#[must_use]
pub fn run(options: &Options, entries: &[Entry]) -> ExitCode {
    let wanted: Vec<&Entry> = entries
        .iter()
        .filter(|(name, _)| options.wants(name))
        .collect();
    let mut table = Table::new(&HEADINGS);
    let mut missed = Vec::new();
    for &entry in &wanted {
        let (name, build) = *entry;
        eprintln!("measuring: {name}");
        let comparisons = build().measure(options);
        for comparison in &comparisons {
            table.push(cells(name, comparison));
        }
        if comparisons.iter().any(Comparison::missed) {
            missed.push((*entry, comparisons));
        }
    }
    eprintln!();
    // The filter may be for something else that the program measures.
    if !wanted.is_empty() {
        table.print(options.markdown);
    }

    let targets = wanted.len();
    println!("{} of {targets} rows missed a target", missed.len());
    if !missed.is_empty() && options.runs > 1 {
        again(options, &missed);
    }
    if options.check && !missed.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The rows that missed, over several runs that alternate with each other, and only against those peers that set a
/// target.
fn again(options: &Options, missed: &[(Entry, Vec<Comparison>)]) {
    let mut runs: Vec<Vec<Vec<Comparison>>> = missed
        .iter()
        .map(|(_, first)| vec![with_target(first)])
        .collect();
    for _ in 1..options.runs {
        for (((name, build), _), runs) in missed.iter().zip(&mut runs) {
            eprintln!("measuring again: {name}");
            runs.push(build().targets_only().measure(options));
        }
    }

    println!(
        "\nThe missed rows over {} runs; each figure of the spread is one run's median.\n",
        options.runs
    );
    let mut table = Table::new(&HEADINGS);
    for (((name, _), _), runs) in missed.iter().zip(&runs) {
        for (at, comparison) in runs[0].iter().enumerate() {
            let of = |figure: fn(&Comparison) -> f64| {
                Spread::of(runs.iter().map(|run| figure(&run[at])).collect())
            };
            let summed = Comparison {
                peer: comparison.peer.clone(),
                ours: of(|one| one.ours).median,
                theirs: of(|one| one.theirs).median,
                ratio: of(|one| one.ratio.median),
                target: comparison.target,
            };
            table.push(cells(name, &summed));
        }
    }
    table.print(options.markdown);
}

fn with_target(comparisons: &[Comparison]) -> Vec<Comparison> {
    comparisons
        .iter()
        .filter(|one| one.target.is_some())
        .cloned()
        .collect()
}

fn cells(name: &str, comparison: &Comparison) -> Vec<String> {
    let Comparison {
        peer,
        ours,
        theirs,
        ratio,
        target,
    } = comparison;
    let verdict = match target {
        None => "",
        Some(_) if comparison.missed() => "MISS",
        Some(_) => "PASS",
    };
    vec![
        name.to_owned(),
        peer.clone(),
        format!("{ours:.1}"),
        format!("{theirs:.1}"),
        format!("{:.2}", ratio.median),
        format!("{:.2}", ratio.min),
        format!("{:.2}", ratio.max),
        target.map_or_else(String::new, |target| format!("<= {target:.2}")),
        verdict.to_owned(),
    ]
}
