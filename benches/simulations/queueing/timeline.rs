//! Pictures of a run: the limit, the goodput and the time in service of each controller while the
//! server changes, beside the best fixed limit of each phase.

use std::ops::Range;

use plotters::prelude::{PathElement, RGBColor};
use plotters::series::LineSeries;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, FontStyle};
use simulations::picture::{self, Area, Drawn};
use simulations::picture::{BLUE, GRID, INK, LEFT, ORANGE, PALE_BLUE, PALE_INK, RED, VIOLET};

use crate::jobs::{Job, Nanos, SECOND, jobs};
use crate::judge::{CONTROLLERS, fixed, good, oracle_limits};
use crate::scenarios::{SPAN, Scenario};
use crate::simulation::{Trace, run};

/// The time that a point covers.
const POINT: usize = 5;

const HEAD: u32 = 108;
const TITLE: u32 = 24;
const FRAME: u32 = 170;
const FOOT: u32 = 20;

/// The oracle's curve lies below the others, and is broad, so that it stays visible.
const ORACLE: (&str, RGBColor, u32) = ("best fixed limit of each phase (*)", PALE_BLUE, 6);

/// In the order of the controllers.
const LINES: [(RGBColor, u32); 5] = [(BLUE, 3), (ORANGE, 1), (VIOLET, 1), (RED, 1), (PALE_INK, 1)];

/// The points of a controller, one for each `POINT` spans.
struct Line {
    name: &'static str,
    color: RGBColor,
    width: u32,
    limit: Vec<f64>,
    /// Per second.
    goodput: Vec<f64>,
    /// In milliseconds.
    latency: Vec<f64>,
}

/// Draws a scenario. `title` says what changes in it.
pub(crate) fn svg(scenario: &Scenario, seed: u64, title: &str) -> String {
    let jobs = jobs(scenario, seed);
    let mut lines = vec![oracle(scenario, &jobs)];
    for ((name, make), (color, width)) in CONTROLLERS.iter().zip(LINES) {
        let make = |_, clock: &_| make(scenario.start, clock);
        let trace = run(scenario, &jobs, make, true);
        lines.push(Line::new((name, color, width), &trace));
    }
    let good = "answers per second within 20 mean service times";
    let panels: [Panel; 3] = [
        ("limit", "calls at once", 2.0, |line| &line.limit),
        ("goodput", good, 1.2, |line| &line.goodput),
        ("time in service", "mean, in milliseconds", 1.5, |line| {
            &line.latency
        }),
    ];
    let height = HEAD + 3 * (TITLE + FRAME) + FOOT;
    picture::draw(height, |area| {
        let (head, rest) = area.split_vertically(HEAD);
        draw_head(&head, title, &lines)?;
        let sizes = (TITLE, FRAME, FOOT);
        picture::below(&rest, panels.len(), sizes, |number, above, frame, foot| {
            let panel = &panels[number];
            picture::title(above, panel.0, panel.1, None)?;
            draw_panel(frame, foot, scenario, &lines, panel)
        })
    })
}

/// The name, the remark, the height in units of the highest point of the oracle and the default,
/// and the values to draw.
type Panel = (&'static str, &'static str, f64, fn(&Line) -> &Vec<f64>);

/// Joins the phases of the runs that have their best fixed limits.
fn oracle(scenario: &Scenario, jobs: &[Job]) -> Line {
    let (name, color, width) = ORACLE;
    let mut line = Line::empty((name, color, width));
    let limits = oracle_limits(scenario, jobs).into_iter();
    for (limit, (_, span)) in limits.zip(scenario.spans()) {
        let trace = run(scenario, jobs, fixed(scenario, limit), true);
        line.extend(&trace, &span);
    }
    line
}

impl Line {
    fn empty((name, color, width): (&'static str, RGBColor, u32)) -> Self {
        Self {
            name,
            color,
            width,
            limit: Vec::new(),
            goodput: Vec::new(),
            latency: Vec::new(),
        }
    }

    fn new(style: (&'static str, RGBColor, u32), trace: &Trace) -> Self {
        let mut line = Self::empty(style);
        line.extend(trace, &(0..trace.answers.len() as Nanos * SPAN));
        line
    }

    /// Adds the points of a time range.
    fn extend(&mut self, trace: &Trace, time: &Range<Nanos>) {
        let point = POINT as Nanos * SPAN;
        for start in (time.start..time.end).step_by(point as usize) {
            let time = start..start + point;
            let seconds = point as f64 / SECOND as f64;
            let calls = trace.calls_in(&time);
            let total: f64 = calls.iter().map(|call| call.1).sum();
            let last = (time.end / SPAN) as usize - 1;
            self.limit.push(trace.limits[last] as f64);
            self.goodput.push(good(trace, &time) as f64 / seconds);
            self.latency.push(total / calls.len().max(1) as f64 * 1e3);
        }
    }
}

fn draw_head(head: &Area<'_>, title: &str, lines: &[Line]) -> Drawn {
    picture::text(head, title, INK, FontStyle::Bold, HPos::Left, (LEFT, 10))?;
    let axes =
        "seconds; what is higher than a frame is cut; (*) the least with 99 % of the best goodput";
    picture::remark(head, axes, HPos::Left, (LEFT, 32))?;
    for (index, line) in lines.iter().enumerate() {
        let (column, row) = (index as u32 % 3, index as u32 / 3);
        let at = (LEFT + column * 290, 56 + row * 22);
        picture::entry(head, line.color, (18, line.width.max(2)), line.name, at)?;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    foot: u32,
    scenario: &Scenario,
    lines: &[Line],
    &(_, _, height, values): &Panel,
) -> Drawn {
    let seconds = |time: Nanos| time as f64 / SECOND as f64;
    let spans = scenario.spans();
    let end = spans.last().map_or(0.0, |(_, span)| seconds(span.end));
    // The first two are the oracle and the default, which must be visible in full.
    let shown = lines.iter().take(2).flat_map(values).copied();
    let top = height * shown.fold(0.0, f64::max);
    let mut chart = picture::frame(area, foot, end, 0.0..top, (10, 4))?;
    for (_, span) in &spans[1..] {
        let change = vec![(seconds(span.start), 0.0), (seconds(span.start), top)];
        chart.draw_series([PathElement::new(change, GRID.stroke_width(3))])?;
    }
    // The default lies on top.
    let (oracle, rest) = lines.split_at(1);
    for line in oracle.iter().chain(rest.iter().rev()) {
        let time = |index| seconds(index as Nanos * POINT as Nanos * SPAN);
        let points = values(line).iter().enumerate();
        let points = points.map(|(index, value)| (time(index), value.min(top)));
        let style = line.color.stroke_width(line.width);
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(())
}
