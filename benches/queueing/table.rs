//! The table: a line for each scenario and controller, with what was reached, what was wanted, and
//! PASS or FAIL.

use std::fmt::{self, Display};

use crate::scenario::Wanted;

/// What became of a controller in a scenario: the figures of each column for each phase, or once for all
/// phases. NaN if the oracle has no good answer either.
pub(crate) type Outcome = [Vec<f64>; COLUMNS.len()];

/// A kind of figures.
pub(crate) struct Column {
    name: &'static str,
    unit: &'static str,
    scale: f64,
    digits: usize,
    width: usize,
    /// Whether more is better.
    pub(crate) more: bool,
    /// Whether it is printed if nothing is wanted.
    always: bool,
}

#[rustfmt::skip]
pub(crate) const COLUMNS: [Column; 8] = [
    // Good answers in parts of the oracle's.
    Column { name: "", unit: " %", scale: 100.0, digits: 1, width: 20, more: true, always: true },
    // The 99th percentile of the time in service in parts of that in an idle server.
    Column { name: "  p99 ", unit: " ×", scale: 1.0, digits: 2, width: 15, more: false, always: true },
    // The seconds to 90 % of the goodput, and to 1.5 times the idle time in service.
    Column { name: "  settled ", unit: " s", scale: 1.0, digits: 1, width: 15, more: false, always: true },
    Column { name: "  swift ", unit: " s", scale: 1.0, digits: 1, width: 0, more: false, always: true },
    // Jain's index.
    Column { name: "  fair ", unit: "", scale: 1.0, digits: 2, width: 0, more: true, always: false },
    // A part of the calls.
    Column { name: "  refused ", unit: " %", scale: 100.0, digits: 1, width: 0, more: false, always: false },
    // The highest sum of the limits.
    Column { name: "  L ", unit: "", scale: 1.0, digits: 0, width: 0, more: false, always: true },
    // The highest limit since the server answered nothing, in parts of the mean of the phase before.
    Column { name: "  growth ", unit: " ×", scale: 1.0, digits: 2, width: 0, more: false, always: false },
];

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
    let (mut text, mut passed) = (String::new(), true);
    for (index, (column, wanted)) in COLUMNS.iter().zip(wanted.lists()).enumerate() {
        let judged = median[index].iter().zip(wanted.iter().cycle());
        // Where the oracle has no answer nothing is wanted, but a time in service of no call at all is NaN,
        // and not one that is wanted.
        let judged = judged
            .zip(&median[0])
            .filter(|((_, wanted), good)| !wanted.is_nan() && (index == 0 || !good.is_nan()));
        let is_reached = |(figure, wanted): (&f64, &f64)| {
            if column.more {
                figure >= wanted
            } else {
                figure <= wanted
            }
        };
        passed &= judged.map(|(pair, _)| pair).all(is_reached);
        if column.always || !wanted.is_empty() {
            text += &column.text(&median[index], &wanted, &worst[index]);
        }
    }
    (text, passed)
}

impl Column {
    fn text(&self, median: &[f64], wanted: &[f64], worst: &[f64]) -> String {
        let digits = |figure: f64| format!("{figure:.*}", self.digits);
        let reached = self.list(median, digits);
        let bound = if wanted.iter().all(|wanted| wanted.is_nan()) {
            String::new()
        } else {
            let sign = if self.more { "≥" } else { "≤" };
            let rounded = |bound: f64| ((bound * 100.0).round() / 100.0).to_string();
            format!("{sign} {}, ", self.list(wanted, rounded))
        };
        let choose = if self.more { f64::min } else { f64::max };
        let worst = worst.iter().copied().fold(f64::NAN, choose);
        let Self {
            name, unit, width, ..
        } = self;
        let worst = self.list(&[worst], digits);
        format!("{name}{reached:>width$}{unit} ({bound}{worst})")
    }

    /// Joins the figures of all phases. The figures of a phase that is not judged are a dash.
    fn list(&self, figures: &[f64], text: impl Fn(f64) -> String) -> String {
        let text = |figure: &f64| {
            if figure.is_nan() {
                "–".to_owned()
            } else {
                text(figure * self.scale)
            }
        };
        figures.iter().map(text).collect::<Vec<_>>().join(" ")
    }
}
