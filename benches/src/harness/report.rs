//! Two front ends for the rows: a table of ratios, which repeats the rows that missed their targets, and criterion's
//! groups; and tables, aligned for a terminal or in Markdown for a document.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};

use super::rows::{Comparison, by_wall};
use super::{Options, Row, Spread, Work};

const HEADINGS: &str =
    "operation | beside | ours ns | theirs ns | ratio | min | max | target | verdict";

/// Measures every selected row, prints the table, and returns whether every target was met.
///
/// A row that misses is measured again until there are [`Options::runs`] runs, and a second table sums them up:
/// the least, the middle and the greatest of the runs' medians.
pub fn ratios(options: &Options, mut rows: Vec<Row>) -> bool {
    rows.retain(|row| options.wants(&row.name));
    let wanted = rows.len();
    let mut table = Table::new(HEADINGS);
    let mut missed = Vec::new();
    for row in rows {
        eprintln!("measuring: {}", row.name);
        let comparisons = row.measure(options);
        for comparison in &comparisons {
            table.push(line(&row.name, comparison));
        }
        if comparisons.iter().any(Comparison::missed) {
            missed.push((row, comparisons));
        }
    }
    eprintln!();
    // The filter may select another measurement of the program.
    if wanted > 0 {
        table.print(options.markdown);
    }

    println!("{} of {wanted} rows missed a target", missed.len());
    let kept = missed.is_empty();
    if !kept && options.runs > 1 {
        again(options, missed);
    }
    kept
}

/// Measures the rows that missed, over several runs that alternate with each other, and only against the peers
/// that set a target.
fn again(options: &Options, missed: Vec<(Row, Vec<Comparison>)>) {
    let with_target = |(mut row, mut run): (Row, Vec<Comparison>)| {
        row.keep_targets();
        run.retain(|one| one.target.is_some());
        (row, vec![run])
    };
    let mut all: Vec<_> = missed.into_iter().map(with_target).collect();
    for _ in 1..options.runs {
        for (row, runs) in &mut all {
            eprintln!("measuring again: {}", row.name);
            runs.push(row.measure(options));
        }
    }

    println!(
        "\nThe missed rows over {} runs; each figure of the spread is one run's median.\n",
        options.runs
    );
    let mut table = Table::new(HEADINGS);
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
            table.push(line(&row.name, &summed));
        }
    }
    table.print(options.markdown);
}

fn line(name: &str, one: &Comparison) -> String {
    let Spread {
        median, min, max, ..
    } = one.ratio;
    let (peer, ours, theirs) = (&one.peer, one.ours, one.theirs);
    let held = one.target.map_or("|".to_owned(), |target| {
        format!("<= {target:.2} | {}", verdict(!one.missed()))
    });
    format!(
        "{name} | {peer} | {ours:.1} | {theirs:.1} | {median:.2} | {min:.2} | {max:.2} | {held}"
    )
}

/// Passes a theme's rows to criterion: `theme/operation/contender`.
///
/// They offer criterion's statistics and its comparison with the run before. Contenders run one after the other
/// here, so compare them in the table of ratios, where they take turns.
pub fn groups(themes: impl IntoIterator<Item = (&'static str, Vec<Row>)>) {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    for (theme, rows) in themes {
        let mut group = criterion.benchmark_group(theme);
        for Row {
            name, contenders, ..
        } in rows
        {
            for contender in contenders {
                let mut prepared = None;
                group.bench_function(BenchmarkId::new(&name, &contender.name), |bencher| {
                    let work = prepared.get_or_insert_with(|| contender.prepare());
                    bencher.iter_custom(|times| match &mut *work {
                        Work::Alone(work) => by_wall(|| work(times)),
                        work => work.time(times),
                    });
                });
            }
        }
        group.finish();
    }
    criterion.final_summary();
}

/// A table that is printed when it is complete, because a column is as wide as its widest cell. Bars separate the cells
/// of a line: `try | tokio | 5.9`.
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// Returns the note beside a target.
pub fn verdict(reached: bool) -> &'static str {
    if reached { "PASS" } else { "MISS" }
}

impl Table {
    /// Creates a table with these headings.
    pub fn new(headings: &str) -> Table {
        let mut table = Table { rows: Vec::new() };
        table.push(headings);
        table
    }

    /// Adds a line.
    ///
    /// # Panics
    ///
    /// Panics if the number of its cells is not that of the headings.
    pub fn push(&mut self, line: impl AsRef<str>) {
        let cells: Vec<_> = line
            .as_ref()
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect();
        let headings = self.rows.first().map_or(cells.len(), Vec::len);
        assert_eq!(cells.len(), headings, "cells and headings");
        self.rows.push(cells);
    }

    /// Prints the table: the first column flush left, the others flush right.
    pub fn print(&self, markdown: bool) {
        let width = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max();
        let widths: Vec<_> = (0..self.rows[0].len()).filter_map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate();
            // Names are flush left, figures flush right.
            let aligned = cells.map(|(at, (cell, &width))| match cell.parse::<f64>() {
                Err(_) if at < 2 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let aligned: Vec<_> = aligned.collect();
            if markdown {
                println!("| {} |", aligned.join(" | "));
            } else {
                println!("{}", aligned.join("  ").trim_end());
            }
            if number == 0 {
                rule(&widths, markdown);
            }
        }
        println!();
    }
}

/// Figures of ours beside their targets.
pub struct Targets {
    table: Table,
    kept: bool,
}

impl Targets {
    /// Creates an empty table. `what` names the subject of the figures.
    pub fn of(what: &str) -> Targets {
        let table = Table::new(&format!("{what} | figure | target | verdict | how"));
        Targets { table, kept: true }
    }

    /// Adds a figure that must not be above a limit.
    pub fn at_most(&mut self, name: &str, figure: f64, limit: f64, how: &str) {
        self.push(name, figure, "<=", limit, figure <= limit, how);
    }

    /// Adds a figure that must not be below a limit.
    pub fn at_least(&mut self, name: &str, figure: f64, limit: f64, how: &str) {
        self.push(name, figure, ">=", limit, figure >= limit, how);
    }

    /// Adds a figure and its limit. NaN is not within its limit.
    fn push(&mut self, name: &str, figure: f64, sign: &str, limit: f64, kept: bool, how: &str) {
        self.kept &= kept;
        let verdict = verdict(kept);
        let line = format!("{name} | {figure:.3} | {sign} {limit} | {verdict} | {how}");
        self.table.push(line);
    }

    /// Prints the table and returns whether every target was met.
    pub fn print(self, markdown: bool) -> bool {
        self.table.print(markdown);
        self.kept
    }
}

fn rule(widths: &[usize], markdown: bool) {
    let line = |(at, &width): (usize, &usize)| match (markdown, at) {
        (true, 0..2) => "-".repeat(width + 2),
        (true, _) => "-".repeat(width + 1) + ":",
        (false, 0) => "-".repeat(width),
        (false, _) => "-".repeat(width + 2),
    };
    let lines: Vec<_> = widths.iter().enumerate().map(line).collect();
    if markdown {
        println!("|{}|", lines.join("|"));
    } else {
        println!("{}", lines.concat());
    }
}
