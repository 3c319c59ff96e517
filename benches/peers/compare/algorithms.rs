//! Shows which of the same calls each algorithm admits: one picture below the other, with one time
//! axis, and the table behind the pictures. Nothing is measured, so both are always the same.

use std::time::Duration;

use futures::FutureExt;
use plotters::prelude::{PathElement, RGBColor, Rectangle};
use plotters::series::AreaSeries;
use plotters::style::Color;
use simulations::picture::{self, Area, Drawn};
use simulations::picture::{BLUE, LEFT, ORANGE, PALE_BLUE, PALE_INK, RED};
use tollgate::rate::Charge;
use tollgate::time::{ManualClock, Tick};
use tollgate::{AcquireError, Algorithm, Clock, LeakyBucket, Quota, RateLimiter};

/// How long the calls last that every limiter gets.
const SPAN: Duration = Duration::from_secs(9);

/// Evenly spaced calls: the first call and the spacing, in milliseconds, and the number of calls.
const STRETCHES: [(u64, u64, u64); 5] = [
    // A burst at the end of a second, and another at the beginning of the next.
    (952, 4, 12),
    (1000, 4, 12),
    // Five times the quota for two seconds, from the middle of a second on.
    (3500, 20, 105),
    // A long idle time, and then forty calls at once.
    (7300, 0, 40),
    // Exactly the quota.
    (8000, 100, 10),
];

/// Returns the arrival times of the calls, in order, since the epoch of the clock, where windows
/// begin.
fn arrivals() -> Vec<Duration> {
    let of = |&(from, every, count): &(u64, u64, u64)| {
        (0..count).map(move |number| Duration::from_millis(from + number * every))
    };
    STRETCHES.iter().flat_map(of).collect()
}

/// The quota of all limiters in each [`PERIOD`]: `N`.
const COUNT: u64 = 10;

/// `T`.
const PERIOD: Duration = Duration::from_secs(1);

const QUOTA: Quota = Quota::new(COUNT, PERIOD);

/// A limiter, and what became of the calls.
struct Subject {
    /// The name in the table and in the picture.
    name: String,
    /// The remark in the picture.
    remark: &'static str,
    /// The most that it promises to admit in any time `T`.
    promised: usize,
    /// For each call, in order, the tick at which it was charged, if it was.
    at: Vec<Option<Duration>>,
}

/// Returns all of them: each algorithm with a quota or two, and the leaky bucket.
fn subjects(arrivals: &[Duration]) -> Vec<Subject> {
    let quotas = |algorithm| match algorithm {
        Algorithm::Gcra => vec![QUOTA, QUOTA.burst(10)],
        Algorithm::TokenBucket => vec![QUOTA.burst(20)],
        _ => vec![QUOTA],
    };
    let all = Algorithm::all().iter().flat_map(|&algorithm| {
        let quotas = quotas(algorithm).into_iter();
        quotas.map(move |quota| Subject::tried(algorithm, quota, arrivals))
    });
    let bucket = Subject {
        name: "leaky-bucket, capacity 10".to_owned(),
        remark: "ten may wait, and are let go evenly",
        promised: 11,
        at: queued(10, arrivals),
    };
    all.chain([bucket]).collect()
}

/// Returns the remark on an algorithm.
fn remark(algorithm: Algorithm, quota: Quota) -> &'static str {
    match algorithm {
        Algorithm::Gcra if quota.max_burst() == 1 => "one at a time, evenly",
        Algorithm::Gcra => "ten at once, and then evenly",
        Algorithm::TokenBucket => "ten come back at once, twenty can be saved up",
        Algorithm::FixedWindow => "ten before the edge of a window, ten after it",
        Algorithm::SlidingWindow => "the window before fades, as if it had been even",
        Algorithm::SlidingLog => "each comes back when it is a second old",
        Algorithm::SubInterval { .. } => "two in each quarter of a second",
        _ => "",
    }
}

impl Subject {
    /// Admits each call at once, or not at all.
    fn tried(algorithm: Algorithm, quota: Quota, arrivals: &[Duration]) -> Self {
        let name = match quota.max_burst() {
            1 => algorithm.to_string(),
            burst => format!("{algorithm}, burst {burst}"),
        };
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let outcome = |&arrival| {
            go_on_to(&clock, arrival);
            charged(limiter.try_acquire())
        };
        Self {
            name,
            remark: remark(algorithm, quota),
            promised: algorithm.most_in(quota, PERIOD) as usize,
            at: arrivals.iter().map(outcome).collect(),
        }
    }

    /// Returns the ticks of the admitted calls, in order.
    fn admitted(&self) -> Vec<Duration> {
        let mut admitted: Vec<_> = self.at.iter().flatten().copied().collect();
        admitted.sort_unstable();
        admitted
    }
}

/// Lets each call join a queue with room for this many.
fn queued(capacity: usize, arrivals: &[Duration]) -> Vec<Option<Duration>> {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(QUOTA, capacity).clock(&clock);
    let join = |&arrival| {
        go_on_to(&clock, arrival);
        let mut waiter = Box::pin(bucket.acquire());
        (waiter.as_mut().now_or_never(), waiter)
    };
    let calls: Vec<_> = arrivals.iter().map(join).collect();
    // The clock moves the queue, not the observer: the queue is empty by now, and every caller
    // knows its tick.
    go_on_to(&clock, SPAN * 2);
    let calls = calls.into_iter();
    let came = calls.map(|(came, waiter)| came.or_else(|| waiter.now_or_never()));
    let outcome = |came: Option<_>| charged(came.expect("the queue is empty"));
    came.map(outcome).collect()
}

fn charged(came: Result<Charge, AcquireError>) -> Option<Duration> {
    came.ok().map(|charge| since_epoch(charge.at()))
}

fn go_on_to(clock: &ManualClock, arrival: Duration) {
    clock.advance(arrival.saturating_sub(since_epoch(clock.now())));
}

fn since_epoch(tick: Tick) -> Duration {
    Duration::from_nanos(tick.as_nanos())
}

/// Returns the number of admissions in the last time `T`, whenever it changes: an instant counts
/// itself, and no longer counts when `T` has passed.
fn in_last_period(admitted: &[Duration]) -> Vec<(Duration, usize)> {
    let ends = admitted.iter().map(|&at| at + PERIOD);
    let mut changes: Vec<_> = admitted.iter().copied().chain(ends).collect();
    changes.sort_unstable();
    changes.dedup();
    let count = |now: Duration| {
        let counts = |at: &&Duration| **at <= now && now < **at + PERIOD;
        admitted.iter().filter(counts).count()
    };
    changes.into_iter().map(|now| (now, count(now))).collect()
}

/// The height of the legend.
const HEAD: u32 = 58;
/// The height of the line above a picture.
const TITLE: u32 = 22;
/// The height of a picture with that line.
const ROW: u32 = 106;
/// The height of the numbers of the time axis.
const FOOT: u32 = 20;

/// The time that a bar covers.
const BAR: Duration = Duration::from_millis(50);

/// The height of the highest promise.
const MOST: f64 = 32.0;

/// The calls, and what became of them.
pub(crate) struct Comparison {
    arrivals: Vec<Duration>,
    subjects: Vec<Subject>,
}

impl Comparison {
    /// Passes the calls to every limiter.
    pub(crate) fn run() -> Comparison {
        let arrivals = arrivals();
        let subjects = subjects(&arrivals);
        Comparison { arrivals, subjects }
    }

    /// Returns a line for each call: its arrival, and for each limiter the tick of its admission,
    /// or nothing. In nanoseconds.
    pub(crate) fn csv(&self) -> String {
        let nanos = |at: Option<&Option<Duration>>| at.copied().flatten().map(|at| at.as_nanos());
        // A comma would end the cell.
        let names = self
            .subjects
            .iter()
            .map(|subject| subject.name.replace(',', ""));
        let lines = self.arrivals.iter().enumerate().map(|(call, arrival)| {
            let cells = self
                .subjects
                .iter()
                .map(move |subject| nanos(subject.at.get(call)));
            (arrival.as_nanos(), cells)
        });
        crate::csv("arrival", names, lines)
    }

    /// Draws the pictures, one for each limiter.
    pub(crate) fn svg(&self) -> String {
        let subjects = &self.subjects;
        let height = HEAD + (1 + subjects.len() as u32) * ROW + FOOT;
        picture::draw(height, |area| {
            let (head, below) = area.split_vertically(HEAD);
            legend(&head)?;
            let (row, rest) = below.split_vertically(ROW);
            self.draw_calls(&row)?;
            let sizes = (TITLE, ROW - TITLE, FOOT);
            picture::below(
                &rest,
                subjects.len(),
                sizes,
                |number, above, frame, foot| self.draw_one(above, frame, foot, &subjects[number]),
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

    fn draw_one(&self, above: &Area<'_>, below: &Area<'_>, foot: u32, subject: &Subject) -> Drawn {
        let admitted = subject.admitted();
        let in_last = in_last_period(&admitted);
        let most = in_last.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let figure = format!("most in any second: {most}, promised: {}", subject.promised);
        picture::title(above, &subject.name, subject.remark, Some(&figure))?;

        let span = SPAN.as_secs_f64();
        let mut chart = picture::frame(below, foot, span, -4.0..MOST, (10, 4))?;
        chart.draw_series(AreaSeries::new(steps(&in_last), 0.0, PALE_BLUE))?;
        chart.draw_series(bars(&admitted, BLUE))?;
        let quota = vec![(0.0, COUNT as f64), (span, COUNT as f64)];
        chart.draw_series([PathElement::new(quota, RED)])?;
        let calls = self.arrivals.iter().zip(&subject.at);
        let refused = calls.filter_map(|(arrival, at)| at.is_none().then_some(*arrival));
        chart.draw_series(ticks(&refused.collect::<Vec<_>>()))?;
        Ok(())
    }
}

fn legend(head: &Area<'_>) -> Drawn {
    let title =
        format!("The same calls, {COUNT} a second allowed: what each algorithm lets through");
    picture::head(head, &title, "horizontally: seconds")?;
    let entries = [
        (BLUE, (6, 14), "let through, in 50 ms", 0),
        (PALE_BLUE, (18, 14), "in the last second", 190),
        (RED, (18, 1), "the quota", 370),
        (ORANGE, (2, 8), "refused", 500),
    ];
    for (color, size, meaning, left) in entries {
        picture::entry(head, color, size, meaning, (LEFT + left, 34))?;
    }
    Ok(())
}

/// Returns the bar of a tick.
fn bar(at: Duration) -> u128 {
    at.as_nanos() / BAR.as_nanos()
}

/// Draws a bar as high as the number of its ticks.
fn bars(instants: &[Duration], color: RGBColor) -> Vec<Rectangle<(f64, f64)>> {
    let together = instants.chunk_by(|a, b| bar(*a) == bar(*b));
    let rectangle = |those: &[Duration]| {
        let from = bar(those[0]) as f64 * BAR.as_secs_f64();
        let corners = [(from, 0.0), (from + BAR.as_secs_f64(), those.len() as f64)];
        Rectangle::new(corners, color.filled())
    };
    together.map(rectangle).collect()
}

/// Draws a mark in the middle of each bar that has a tick.
fn ticks(instants: &[Duration]) -> Vec<PathElement<(f64, f64)>> {
    let together = instants.chunk_by(|a, b| bar(*a) == bar(*b));
    let tick = |those: &[Duration]| {
        let middle = (bar(those[0]) as f64 + 0.5) * BAR.as_secs_f64();
        PathElement::new(vec![(middle, -3.2), (middle, -0.8)], ORANGE.stroke_width(2))
    };
    together.map(tick).collect()
}

/// Returns the corners of a line on which each number holds until the next one.
fn steps(numbers: &[(Duration, usize)]) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let mut corners = Vec::with_capacity(2 * numbers.len());
    for &(at, number) in numbers {
        // A value may last beyond the end.
        let at = at.min(SPAN).as_secs_f64();
        corners.push((at, before));
        before = number as f64;
        corners.push((at, before));
    }
    corners
}
