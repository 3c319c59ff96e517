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

/// Returns the figures, and whether the medians are what is wanted.
pub(crate) fn figures(median: &Outcome, worst: &Outcome, wanted: &Wanted) -> (String, bool) {
    let of_oracle = median.goodput.iter().zip(wanted.goodput);
    // NaN is not wanted.
    let mut passed = of_oracle.fold(true, |passed, (got, least)| {
        passed && (least.is_nan() || got >= least)
    });
    // A time in service of no call at all is NaN, and not one that is wanted.
    let mut most = |figures: &[f64], wanted: Option<f64>| {
        let judged = figures.iter().zip(&median.goodput);
        let mut judged = judged.filter(|(_, goodput)| !goodput.is_nan());
        passed &= wanted.is_none_or(|limit| judged.all(|(figure, _)| *figure <= limit));
    };
    most(&median.p99, wanted.p99);
    most(&median.settled, wanted.settled);
    most(&median.refused, wanted.refused);
    most(&[median.highest_limit], wanted.limit);
    most(&[median.growth], wanted.growth);

    let least_wanted = wanted.goodput.iter().copied().fold(f64::NAN, f64::max);
    let least_wanted = (!least_wanted.is_nan()).then_some(least_wanted * 100.0);
    let least = worst.goodput.iter().copied().fold(f64::NAN, f64::min);
    let highest = |figures: &[f64]| figures.iter().copied().fold(f64::NAN, f64::max);
    let mut text = format!(
        "{:>20} % ({}{:.1})  p99 {:>15} × ({}{:.2})  settled {:>15} s ({}{:.1})  L {} ({}{})",
        list(&median.goodput, 100.0, 1),
        bound(least_wanted, "≥"),
        least * 100.0,
        list(&median.p99, 1.0, 2),
        bound(wanted.p99, "≤"),
        highest(&worst.p99),
        list(&median.settled, 1.0, 1),
        bound(wanted.settled, "≤"),
        highest(&worst.settled),
        median.highest_limit,
        bound(wanted.limit, "≤"),
        worst.highest_limit,
    );
    if wanted.growth.is_some() {
        let bound = bound(wanted.growth, "≤");
        text += &format!(
            "  growth {:.2} × ({bound}{:.2})",
            median.growth, worst.growth
        );
    }
    if let Some(limit) = wanted.refused {
        let bound = bound(Some(limit * 100.0), "≤");
        let worst = highest(&worst.refused) * 100.0;
        let refused = list(&median.refused, 100.0, 1);
        text += &format!("  refused {refused} % ({bound}{worst:.1})");
    }
    (text, passed)
}

/// Joins the figures of all phases. The figures of a phase that is not judged are a dash.
fn list(figures: &[f64], scale: f64, digits: usize) -> String {
    let text = |figure: &f64| match figure.is_nan() {
        true => "–".to_owned(),
        false => format!("{:.digits$}", figure * scale),
    };
    figures.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn bound(wanted: Option<f64>, sign: &str) -> String {
    wanted.map_or(String::new(), |wanted| format!("{sign} {wanted}, "))
}
