//! The table: a line for each scenario and controller, with what was reached, what was wanted, and
//! PASS or FAIL.

use std::fmt::{self, Display};

use crate::judge::Outcome;
use crate::scenario::Wanted;

/// A line of the table.
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) controller: String,
    /// What was reached, and what was wanted.
    pub(crate) figures: String,
    pub(crate) passed: bool,
    /// Whether a failure is one of the program.
    pub(crate) decides: bool,
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            controller,
            figures,
            passed,
            ..
        } = self;
        let verdict = if *passed { "PASS" } else { "FAIL" };
        write!(f, "{verdict}  {scenario:<30} {controller:<14} {figures}")
    }
}

/// Returns the figures of an outcome, and whether they are what is wanted.
pub(crate) fn figures(outcome: &Outcome, wanted: &Wanted) -> (String, bool) {
    let most = |figures: &[f64]| figures.iter().copied().fold(0.0, f64::max);
    let list = |figures: &[f64], scale: f64, digits: usize| {
        let texts: Vec<_> = figures
            .iter()
            .map(|figure| format!("{:.digits$}", figure * scale))
            .collect();
        texts.join(" ")
    };
    // NaN is neither reached nor wanted.
    let enough = |(got, least): (&f64, &f64)| least.is_nan() || got >= least;
    let mut passed = outcome.goodput.iter().zip(wanted.goodput).all(enough);
    passed &= wanted.p99.is_none_or(|limit| most(&outcome.p99) <= limit);
    passed &= wanted
        .settled
        .is_none_or(|limit| most(&outcome.settled) <= limit);
    passed &= wanted
        .limit
        .is_none_or(|limit| outcome.highest_limit <= limit as f64);
    let text = format!(
        "{:>20} %{}  p99 {:>15} ×{}  settled {:>15} s{}  L ≤ {}{}",
        list(&outcome.goodput, 100.0, 1),
        bound(
            wanted
                .goodput
                .iter()
                .copied()
                .reduce(f64::max)
                .map(|part| part * 100.0),
            "≥"
        ),
        list(&outcome.p99, 1.0, 2),
        bound(wanted.p99, "≤"),
        list(&outcome.settled, 1.0, 1),
        bound(wanted.settled, "≤"),
        outcome.highest_limit,
        bound(wanted.limit.map(|limit| limit as f64), "≤"),
    );
    (text, passed)
}

fn bound(wanted: Option<f64>, sign: &str) -> String {
    wanted.map_or(String::new(), |wanted| format!(" ({sign} {wanted})"))
}
