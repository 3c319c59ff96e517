//! Two front ends of the rows: a table of ratios, which remeasures rows that missed their target, and criterion's
//! groups.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};

use super::rows::Comparison;
use super::{Options, Row, Spread, Table, Work, verdict};

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
/// A row that misses is measured again until there are [`Options::runs`] runs, which a second table
/// summarizes: the minimum, the median and the maximum of the runs' medians.
#[must_use]
pub fn ratios(options: &Options, rows: &[Row]) -> ExitCode {
    let wanted: Vec<&Row> = rows.iter().filter(|row| options.wants(&row.name)).collect();
    let mut table = Table::new(&HEADINGS);
    let mut missed = Vec::new();
    for &row in &wanted {
        eprintln!("measuring: {}", row.name);
        let comparisons = row.measure(options, false);
        for comparison in &comparisons {
            table.push(cells(&row.name, comparison));
        }
        if comparisons.iter().any(Comparison::missed) {
            missed.push((row, comparisons));
        }
    }
    eprintln!();
    // The filter may be meant for another part of the program.
    if !wanted.is_empty() {
        table.print(options.markdown);
    }

    println!("{} of {} rows missed a target", missed.len(), wanted.len());
    let fails = options.check && !missed.is_empty();
    if !missed.is_empty() && options.runs > 1 {
        again(options, missed);
    }
    ExitCode::from(u8::from(fails))
}

/// Measures the rows that missed again, over several runs that alternate with each other, and only against the peers
/// that set a target.
fn again(options: &Options, missed: Vec<(&Row, Vec<Comparison>)>) {
    let with_target = |(row, mut first): (_, Vec<Comparison>)| {
        first.retain(|one| one.target.is_some());
        (row, vec![first])
    };
    let mut all: Vec<(&Row, _)> = missed.into_iter().map(with_target).collect();
    for _ in 1..options.runs {
        for (row, runs) in &mut all {
            eprintln!("measuring again: {}", row.name);
            runs.push(row.measure(options, true));
        }
    }

    println!(
        "\nThe missed rows over {} runs; each figure of the spread is one run's median.\n",
        options.runs
    );
    let mut table = Table::new(&HEADINGS);
    for (row, runs) in &all {
        for (at, comparison) in runs[0].iter().enumerate() {
            let of = |figure: fn(&Comparison) -> f64| {
                Spread::of(runs.iter().map(|run| figure(&run[at])))
            };
            let summed = Comparison {
                ours: of(|one| one.ours).median,
                theirs: of(|one| one.theirs).median,
                ratio: of(|one| one.ratio.median),
                ..comparison.clone()
            };
            table.push(cells(&row.name, &summed));
        }
    }
    table.print(options.markdown);
}

fn cells(name: &str, comparison: &Comparison) -> Vec<String> {
    let ratio = comparison.ratio;
    let mut cells = vec![name.to_owned(), comparison.peer.clone()];
    cells.extend([comparison.ours, comparison.theirs].map(|nanos| format!("{nanos:.1}")));
    cells.extend([ratio.median, ratio.min, ratio.max].map(|ratio| format!("{ratio:.2}")));
    let target = comparison.target.map(|target| format!("<= {target:.2}"));
    let verdict = target.as_ref().map(|_| verdict(!comparison.missed()));
    cells.extend([
        target.unwrap_or_default(),
        verdict.unwrap_or_default().to_owned(),
    ]);
    cells
}

/// Passes rows to criterion: `group/operation/contender`.
///
/// Use these groups for criterion's statistics or its comparison with the previous run. Contenders run one after the
/// other here, so compare them in the table of ratios, where they take turns.
pub fn groups(group: &str, rows: impl Iterator<Item = Row>) {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    let mut group = criterion.benchmark_group(group);
    for Row { name, contenders } in rows {
        for contender in contenders {
            let mut prepared = None;
            group.bench_function(BenchmarkId::new(&name, &contender.name), |bencher| {
                let work = prepared.get_or_insert_with(|| contender.prepare());
                bencher.iter_custom(|times| match &mut *work {
                    Work::Alone(work) => {
                        let start = Instant::now();
                        work(times);
                        start.elapsed()
                    }
                    work => work.time(times),
                });
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
