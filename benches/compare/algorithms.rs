//! What each algorithm lets through of the same calls: one picture below the other, with one time
//! axis, and the table that they are drawn from. Nothing is measured, so both are always the same.

use std::time::Duration;

use plotters::prelude::{PathElement, RGBColor, Rectangle};
use plotters::series::AreaSeries;
use plotters::style::Color;

use crate::subject::{self, COUNT, Outcome, SPAN, Subject, arrivals, subjects};
use tollgate_bench::picture::{self, Area, Drawn};
use tollgate_bench::picture::{BLUE, LEFT, ORANGE, PALE_BLUE, PALE_INK, RED};

/// Of the legend.
const HEAD: u32 = 58;
/// Of the line above a picture.
const TITLE: u32 = 22;
/// Of a picture with that.
const ROW: u32 = 106;
/// Of the numbers of the time axis.
const FOOT: u32 = 20;

/// The time that a bar stands for.
const BAR: Duration = Duration::from_millis(50);

/// As high as the highest promise.
const MOST: f64 = 32.0;

/// The calls, and what became of them.
pub(crate) struct Comparison {
    arrivals: Vec<Duration>,
    outcomes: Vec<(Subject, Outcome)>,
}

impl Comparison {
    /// Hands the calls to everybody.
    pub(crate) fn run() -> Comparison {
        let arrivals = arrivals();
        let outcome = |subject: Subject| {
            let outcome = subject.run(&arrivals);
            (subject, outcome)
        };
        let outcomes = subjects().into_iter().map(outcome).collect();
        Comparison { arrivals, outcomes }
    }

    /// A line for each call: when it came, and for each limiter the tick at which it was let
    /// through, or nothing. In nanoseconds.
    pub(crate) fn csv(&self) -> String {
        let mut csv = String::from("arrival");
        for (subject, _) in &self.outcomes {
            // A comma would end the cell.
            csv.push(',');
            csv.push_str(&subject.name.replace(',', ""));
        }
        csv.push('\n');
        for (call, arrival) in self.arrivals.iter().enumerate() {
            csv.push_str(&arrival.as_nanos().to_string());
            for (_, outcome) in &self.outcomes {
                csv.push(',');
                if let Some(at) = outcome.at[call] {
                    csv.push_str(&at.as_nanos().to_string());
                }
            }
            csv.push('\n');
        }
        csv
    }

    /// The pictures. Neighbors that let through the same share one.
    pub(crate) fn svg(&self) -> String {
        let same = |a: &(Subject, Outcome), b: &(Subject, Outcome)| a.1 == b.1;
        let pictures: Vec<_> = self.outcomes.chunk_by(same).collect();
        let height = HEAD + (1 + pictures.len() as u32) * ROW + FOOT;
        picture::draw(height, |area| {
            let (head, below) = area.split_vertically(HEAD);
            legend(&head)?;
            let (row, rest) = below.split_vertically(ROW);
            self.draw_calls(&row)?;
            let sizes = (TITLE, ROW - TITLE, FOOT);
            picture::below(
                &rest,
                pictures.len(),
                sizes,
                |number, above, frame, foot| self.draw_one(above, frame, foot, pictures[number]),
            )
        })
    }

    fn draw_calls(&self, row: &Area<'_>) -> Drawn {
        let (above, below) = row.split_vertically(TITLE);
        let calls = format!("{} calls", self.arrivals.len());
        picture::title(&above, &calls, "the same for all", None)?;
        let bars = bars(&self.arrivals, PALE_INK);
        let mut chart = picture::frame(&below, 0, SPAN.as_secs_f64(), -4.0..45.0, (10, 5))?;
        chart.draw_series(bars)?;
        Ok(())
    }

    fn draw_one(
        &self,
        above: &Area<'_>,
        below: &Area<'_>,
        foot: u32,
        of: &[(Subject, Outcome)],
    ) -> Drawn {
        let Some((subject, outcome)) = of.first() else {
            return Ok(());
        };
        let names: Vec<_> = of
            .iter()
            .map(|(subject, _)| subject.name.as_str())
            .collect();
        let (most, promised) = (outcome.most(), subject.promised);
        let figure = format!("most in any second: {most}, promised: {promised}");
        picture::title(above, &names.join(", "), subject.remark, Some(&figure))?;

        let span = SPAN.as_secs_f64();
        let mut chart = picture::frame(below, foot, span, -4.0..MOST, (10, 4))?;
        let admitted = outcome.admitted();
        let in_last = steps(&subject::in_last_period(&admitted));
        chart.draw_series(AreaSeries::new(in_last, 0.0, PALE_BLUE))?;
        chart.draw_series(bars(&admitted, BLUE))?;
        let quota = vec![(0.0, COUNT as f64), (span, COUNT as f64)];
        chart.draw_series([PathElement::new(quota, RED)])?;
        chart.draw_series(ticks(&self.refused(outcome)))?;
        Ok(())
    }

    fn refused(&self, outcome: &Outcome) -> Vec<Duration> {
        let calls = self.arrivals.iter().zip(&outcome.at);
        let refused = calls.filter(|(_, at)| at.is_none());
        refused.map(|(&arrival, _)| arrival).collect()
    }
}

fn legend(head: &Area<'_>) -> Drawn {
    let title =
        format!("The same calls, {COUNT} a second allowed: what each algorithm lets through");
    picture::head(head, &title, "horizontally: seconds")?;
    picture::entry(head, BLUE, (6, 14), "let through, in 50 ms", (LEFT, 34))?;
    picture::entry(
        head,
        PALE_BLUE,
        (18, 14),
        "in the last second",
        (LEFT + 190, 34),
    )?;
    picture::entry(head, RED, (18, 1), "the quota", (LEFT + 370, 34))?;
    picture::entry(head, ORANGE, (2, 8), "refused", (LEFT + 500, 34))
}

/// In which bar something falls.
fn bar(at: Duration) -> u128 {
    at.as_nanos() / BAR.as_nanos()
}

/// A bar as high as the number of those that fall in it.
fn bars(instants: &[Duration], color: RGBColor) -> Vec<Rectangle<(f64, f64)>> {
    let together = instants.chunk_by(|a, b| bar(*a) == bar(*b));
    let rectangle = |those: &[Duration]| {
        let from = bar(those[0]) as f64 * BAR.as_secs_f64();
        let corners = [(from, 0.0), (from + BAR.as_secs_f64(), those.len() as f64)];
        Rectangle::new(corners, color.filled())
    };
    together.map(rectangle).collect()
}

/// A tick in the middle of each bar in which something falls.
fn ticks(instants: &[Duration]) -> Vec<PathElement<(f64, f64)>> {
    let together = instants.chunk_by(|a, b| bar(*a) == bar(*b));
    let tick = |those: &[Duration]| {
        let middle = (bar(those[0]) as f64 + 0.5) * BAR.as_secs_f64();
        PathElement::new(vec![(middle, -3.2), (middle, -0.8)], ORANGE.stroke_width(2))
    };
    together.map(tick).collect()
}

/// The corners of a line on which each number holds until the next one.
fn steps(numbers: &[(Duration, usize)]) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let mut corners = Vec::with_capacity(2 * numbers.len());
    for &(at, number) in numbers {
        // Something may last beyond the end.
        let at = at.min(SPAN).as_secs_f64();
        corners.push((at, before));
        before = number as f64;
        corners.push((at, before));
    }
    corners
}
