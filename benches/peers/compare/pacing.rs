//! Measures when a rate limiter at 1,000 a second releases 200 waiters, beside other crates.
//!
//! The result is measured, so it differs a little each time. The contenders take turns in a few
//! rounds; the picture shows the round of each contender whose last release is the median.

use std::time::Duration;

use peers::limiters::{Governor, LeakyBucket, Limiter, OurLimiter, interval};
use peers::pacing::{self, Plan};
use plotters::prelude::{PathElement, RGBColor};
use plotters::series::LineSeries;
use plotters::style::Color;
use tollgate::Quota;

use simulations::picture::{self, Area, Drawn};
use simulations::picture::{BLUE, LEFT, ORANGE, RED, VIOLET};

const PLAN: Plan = Plan {
    counted: 200,
    ahead: 20,
    quota: Quota::per_second(1_000),
};

/// The part at the beginning that is drawn release by release.
const CLOSE: Duration = Duration::from_millis(50);

/// An odd number.
const ROUNDS: usize = 3;

const HEAD: u32 = 58;
const CURVES: u32 = 260;
const TITLE: u32 = 22;
const ROW: u32 = 54;
const FOOT: u32 = 20;

/// The contenders: the name, the color, and the function to measure.
type Contender = (&'static str, RGBColor, fn(&Plan) -> Vec<Duration>);

const CONTENDERS: [Contender; 3] = [
    (OurLimiter::NAME, BLUE, pacing::releases::<OurLimiter>),
    (Governor::NAME, ORANGE, pacing::releases::<Governor>),
    (LeakyBucket::NAME, VIOLET, pacing::releases::<LeakyBucket>),
];

/// The releases of one contender.
struct Line {
    name: &'static str,
    color: RGBColor,
    /// Since the first release.
    releases: Vec<Duration>,
}

/// The releases of all contenders.
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    /// Releases some queues through each contender.
    pub(crate) fn measure() -> Lines {
        let mut rounds = CONTENDERS.map(|_| Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            for ((_, _, releases), rounds) in CONTENDERS.iter().zip(&mut rounds) {
                rounds.push(releases(&PLAN));
            }
        }
        let line = |((name, color, _), rounds): (Contender, _)| {
            let releases = middle(rounds);
            Line {
                name,
                color,
                releases,
            }
        };
        Lines(CONTENDERS.into_iter().zip(rounds).map(line).collect())
    }

    /// Returns a line for each release: its number, and its time for each contender, in nanoseconds
    /// since the first; or nothing, if it took too long.
    pub(crate) fn csv(&self) -> String {
        let names = self.0.iter().map(|line| line.name.to_owned());
        let lines = (0..PLAN.counted).map(|number| {
            let release = move |line: &Line| line.releases.get(number).map(Duration::as_nanos);
            (number as u128, self.0.iter().map(release))
        });
        crate::csv("release", names, lines)
    }

    /// Draws the pictures.
    pub(crate) fn svg(&self) -> String {
        let rows = self.0.len() as u32;
        let height = HEAD + CURVES + FOOT + rows * (TITLE + ROW) + FOOT;
        picture::draw(height, |area| {
            let (head, below) = area.split_vertically(HEAD);
            self.legend(&head)?;
            let (curves, rest) = below.split_vertically(CURVES + FOOT);
            self.draw_curves(&curves)?;
            let sizes = (TITLE, ROW, FOOT);
            picture::below(&rest, self.0.len(), sizes, |number, above, frame, foot| {
                self.0[number].describe(above)?;
                self.0[number].draw_close(frame, foot)
            })
        })
    }

    fn legend(&self, head: &Area<'_>) -> Drawn {
        let Plan { counted, quota, .. } = PLAN;
        let count = quota.count();
        let title = format!("{counted} waiters at {count} a second: when they are let go");
        let axes = "vertically: how many; horizontally: milliseconds";
        picture::head(head, &title, axes)?;
        let mut left = LEFT;
        for line in &self.0 {
            picture::entry(head, line.color, (18, 3), line.name, (left, 34))?;
            left += 130;
        }
        picture::entry(head, RED, (18, 1), "the quota", (left, 34))
    }

    fn draw_curves(&self, area: &Area<'_>) -> Drawn {
        let last = |line: &Line| line.releases.last().copied();
        let end = self.0.iter().filter_map(last).max().unwrap_or_default();
        let due = interval(PLAN.quota) * PLAN.counted as u32;
        let end = milliseconds(end.max(due));
        let most = PLAN.counted as f64;
        let mut chart = picture::frame(area, FOOT, end, 0.0..most, (10, 4))?;
        for line in &self.0 {
            let points = line.releases.iter().zip(1_u32..);
            let points = points.map(|(&at, number)| (milliseconds(at), f64::from(number)));
            chart.draw_series(LineSeries::new(points, line.color.stroke_width(2)))?;
        }
        // Above the curves, because a curve may hide it.
        let quota = vec![(0.0, 0.0), (milliseconds(due), most)];
        chart.draw_series([PathElement::new(quota, RED)])?;
        Ok(())
    }
}

impl Line {
    fn describe(&self, area: &Area<'_>) -> Drawn {
        let close = CLOSE.as_millis();
        let remark = format!("each release of the first {close} ms");
        let figure = self.releases.last().map(|last| {
            let rate = (self.releases.len() - 1) as f64 / last.as_secs_f64();
            format!("on the whole {rate:.0} a second")
        });
        picture::title(area, self.name, &remark, figure.as_deref())
    }

    fn draw_close(&self, area: &Area<'_>, foot: u32) -> Drawn {
        let mut chart = picture::frame(area, foot, milliseconds(CLOSE), 0.0..1.0, (11, 0))?;
        let drawn = self.releases.iter().filter(|at| **at < CLOSE);
        let ticks = drawn.map(|&at| {
            let at = milliseconds(at);
            PathElement::new(vec![(at, 0.1), (at, 0.9)], self.color.stroke_width(2))
        });
        chart.draw_series(ticks)?;
        Ok(())
    }
}

/// Returns the median round. A round that was cut off counts as a slow one.
fn middle(mut rounds: Vec<Vec<Duration>>) -> Vec<Duration> {
    rounds.sort_by_key(|releases| (PLAN.counted - releases.len(), releases.last().copied()));
    rounds.swap_remove(rounds.len() / 2)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_in_the_middle_is_neither_the_fastest_nor_one_that_was_cut_off() {
        let until = |count: u64, last: u64| {
            let mut releases = vec![Duration::ZERO; count as usize];
            releases.push(Duration::from_millis(last));
            releases
        };
        let [fast, slow, cut_off] = [until(199, 198), until(199, 204), until(20, 800)];
        assert_eq!(middle(vec![cut_off, fast, slow.clone()]), slow);
    }
}
