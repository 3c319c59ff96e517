//! Draws the course of the job in pictures below one another: the uploads in flight, the requests
//! per second and, if they were limited, the bytes per second.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Color, DrawingArea, IntoDrawingArea, LineSeries, PathElement, RED,
    SVGBackend, SeriesLabelPosition, WHITE,
};
use plotters::series::DashedLineSeries;
use tollgate::Quota;

use crate::app::Finished;
use crate::args::{Args, Bandwidth};
use crate::arrivals::{self, Arrival};
use crate::error::Error;
use crate::gauge::Sample;
use crate::kind::ThrottleKind;

/// The size of each picture.
const SIZE: (u32, u32) = (960, 420);

/// The data of a plot.
#[derive(Debug)]
pub struct Plot<'a> {
    samples: &'a [Sample],
    arrivals: &'a [Arrival],
    cap: usize,
    throttle: ThrottleKind,
    rate: Option<Quota>,
    bandwidth: Option<&'a Bandwidth>,
}

/// One picture: a stepped line, and another line at the limit.
struct Picture {
    title: String,
    unit: &'static str,
    legend: &'static str,
    /// The number at each moment; it holds until the next one.
    numbers: Vec<(Duration, f64)>,
    limit: Option<(f64, String)>,
}

impl<'a> Plot<'a> {
    /// Makes a plot of a finished job.
    pub fn new(args: &'a Args, finished: &'a Finished) -> Plot<'a> {
        Plot {
            samples: &finished.samples,
            arrivals: &finished.arrivals,
            cap: args.max_parallel,
            throttle: args.throttle,
            rate: args.rate,
            bandwidth: args.bandwidth.as_ref(),
        }
    }

    /// Writes an SVG file. Its title contains the name of the throttle.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        // The plot is drawn in memory first: the backend reports a full disk only on drop, where the error is lost.
        fs::write(path, self.draw()).map_err(|source| Error::Plot {
            path: path.to_owned(),
            source,
        })
    }

    fn draw(&self) -> String {
        let mut svg = String::new();
        self.draw_into(&mut svg)
            .expect("drawing into memory does not fail");
        svg
    }

    fn draw_into(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let pictures = self.pictures();
        let moments = || pictures.iter().flat_map(|picture| &picture.numbers);
        let start = moments().map(|(at, _)| *at).min().unwrap_or_default();
        let end = moments().map(|(at, _)| *at).max().unwrap_or_default();
        let end = end.saturating_sub(start).as_secs_f64();

        let size = (SIZE.0, SIZE.1 * pictures.len() as u32);
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (part, picture) in area.split_evenly((pictures.len(), 1)).iter().zip(&pictures) {
            picture.draw(part, start, end)?;
        }
        area.present()?;
        Ok(())
    }

    fn pictures(&self) -> Vec<Picture> {
        let in_flight = |sample: &Sample| (sample.at, sample.in_flight as f64);
        let mut pictures = vec![Picture {
            title: format!("uploads in flight, throttle: {}", self.throttle),
            unit: "uploads",
            legend: "in flight",
            numbers: self.samples.iter().map(in_flight).collect(),
            limit: Some((self.cap as f64, format!("cap: {}", self.cap))),
        }];
        let per_second = |weight, scale| {
            let numbers = arrivals::over_time(self.arrivals, weight).into_iter();
            let scaled = numbers.map(|(at, number)| (at, number as f64 * scale));
            scaled.collect()
        };
        pictures.push(Picture {
            title: "requests per second".to_owned(),
            unit: "requests",
            legend: "in the last second",
            numbers: per_second(Arrival::request, 1.0),
            limit: self
                .rate
                .map(|rate| (in_a_second(rate), format!("limit: {rate}"))),
        });
        if let Some(bandwidth) = self.bandwidth {
            let limit = bandwidth.quota().count() as f64 * 1e-6;
            pictures.push(Picture {
                title: "bytes per second, of requests when they begin".to_owned(),
                unit: "MB",
                legend: "in the last second",
                numbers: per_second(Arrival::bytes, 1e-6),
                limit: Some((limit, format!("limit: {bandwidth}"))),
            });
        }
        pictures
    }
}

/// Returns the most units that a quota allows in one second: its rate, plus its burst minus the one unit
/// with which the second begins.
fn in_a_second(quota: Quota) -> f64 {
    quota.count() as f64 / quota.period().as_secs_f64() + (quota.max_burst() - 1) as f64
}

impl Picture {
    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        start: Duration,
        end: f64,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let peak = self.numbers.iter().map(|&(_, number)| number);
        let peak = peak.fold(0.0, f64::max);
        // A line at a distant limit would flatten the line of the numbers.
        let height = if peak > 0.0 { peak * 1.25 } else { 1.25 };

        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..end.max(f64::EPSILON), 0.0..height)?;
        let digits = usize::from(height < 10.0 && self.unit == "MB");
        chart
            .configure_mesh()
            .x_desc("seconds")
            .y_desc(self.unit)
            .y_label_formatter(&|number| format!("{number:.digits$}"))
            .light_line_style(WHITE)
            .draw()?;
        chart
            .draw_series(LineSeries::new(steps(&self.numbers, start), BLUE))?
            .label(self.legend)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLUE));
        if let Some((limit, label)) = &self.limit
            && *limit <= height
        {
            chart
                .draw_series(DashedLineSeries::new(
                    [(0.0, *limit), (end, *limit)],
                    6,
                    4,
                    RED.stroke_width(1),
                ))?
                .label(label)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED));
        }
        chart
            .configure_series_labels()
            // The height of the chart leaves room for the legend there.
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        Ok(())
    }
}

/// Returns the corners of the line: each number holds until the next one.
fn steps(numbers: &[(Duration, f64)], start: Duration) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * numbers.len());
    let mut before = 0.0;
    for &(at, number) in numbers {
        let at = at.saturating_sub(start).as_secs_f64();
        corners.push((at, before));
        before = number;
        corners.push((at, before));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(numbers: &[usize]) -> Vec<Sample> {
        let at = |second| Duration::from_secs(second as u64);
        let sample = |(second, &in_flight)| Sample {
            at: at(second),
            in_flight,
        };
        numbers.iter().enumerate().map(sample).collect()
    }

    fn arrivals(count: u64) -> Vec<Arrival> {
        let arrival = |n| Arrival {
            at: Duration::from_millis(20 * n),
            bytes: 1_000_000,
        };
        (0..count).map(arrival).collect()
    }

    fn plot<'a>(samples: &'a [Sample], arrivals: &'a [Arrival], cap: usize) -> Plot<'a> {
        Plot {
            samples,
            arrivals,
            cap,
            throttle: ThrottleKind::Pool,
            rate: None,
            bandwidth: None,
        }
    }

    #[test]
    fn line_steps_at_every_change() {
        let numbers = [(7, 1.0), (8, 2.0), (9, 0.0)];
        let numbers = numbers.map(|(second, number)| (Duration::from_secs(second), number));
        assert_eq!(
            steps(&numbers, Duration::from_secs(7)),
            [
                (0.0, 0.0),
                (0.0, 1.0),
                (1.0, 1.0),
                (1.0, 2.0),
                (2.0, 2.0),
                (2.0, 0.0)
            ]
        );
    }

    #[test]
    fn cap_is_drawn_unless_it_is_out_of_sight() {
        let samples = samples(&[1, 2, 0]);
        assert!(plot(&samples, &[], 2).draw().contains("cap: 2"));
        assert!(!plot(&samples, &[], 1000).draw().contains("cap: 1000"));
    }

    #[test]
    fn limits_per_second_are_drawn_if_there_are_any() {
        let (samples, arrivals) = (samples(&[1, 2, 0]), arrivals(100));
        let mut plot = plot(&samples, &arrivals, 2);
        let without = plot.draw();
        assert!(without.contains("requests per second"));
        assert!(!without.contains("limit: ") && !without.contains("bytes per second"));

        let bandwidth = "50MB/s".parse().unwrap();
        plot.rate = Some(Quota::per_second(50));
        plot.bandwidth = Some(&bandwidth);
        let with = plot.draw();
        assert!(with.contains("limit: 50/s") && with.contains("limit: 50MB/s"));
        assert!(with.contains("bytes per second"));
    }

    #[test]
    fn limit_is_what_fits_into_a_second() {
        assert_eq!(in_a_second(Quota::per_second(50)), 50.0);
        assert_eq!(in_a_second(Quota::per_minute(300).burst(11)), 15.0);
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        assert!(plot(&[], &[], 4).draw().contains("</svg>"));
        assert!(plot(&samples(&[0]), &[], 4).draw().contains("</svg>"));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no/plot.svg");
        assert!(plot(&[], &[], 1).write(&path).is_err());
    }
}
