//! Draws the number of uploads under way over time.

use std::fs;
use std::path::Path;

use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Color, IntoDrawingArea, LineSeries, PathElement, RED, SVGBackend,
    SeriesLabelPosition, WHITE,
};
use plotters::series::DashedLineSeries;

use crate::error::Error;
use crate::gauge::Sample;
use crate::kind::ThrottleKind;

const SIZE: (u32, u32) = (960, 420);

/// Writes an SVG file with a line that steps through `samples`, and another one at the cap. The
/// title has the name of the throttle.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(
    path: &Path,
    samples: &[Sample],
    cap: usize,
    throttle: ThrottleKind,
) -> Result<(), Error> {
    // Drawn in memory first: the backend reports a full disk on drop, which is to nobody.
    let svg = draw(samples, cap, throttle);
    fs::write(path, svg).map_err(|source| Error::Plot {
        path: path.to_owned(),
        source,
    })
}

fn draw(samples: &[Sample], cap: usize, throttle: ThrottleKind) -> String {
    let mut svg = String::new();
    draw_into(&mut svg, samples, cap, throttle).expect("drawing into memory does not fail");
    svg
}

fn draw_into(
    svg: &mut String,
    samples: &[Sample],
    cap: usize,
    throttle: ThrottleKind,
) -> Result<(), Box<dyn std::error::Error>> {
    let start = samples
        .first()
        .map_or(0.0, |sample| sample.at.as_secs_f64());
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()) - start;
    let peak = samples.iter().map(|sample| sample.in_flight).max();
    // A cap that is far away would make the line flat.
    let height = peak.unwrap_or(0).max(1) as f64 * 1.25;

    let title = format!("uploads in flight, throttle: {throttle}");
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..end.max(f64::EPSILON), 0.0..height)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("uploads")
        .y_label_formatter(&|uploads| format!("{uploads:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    chart
        .draw_series(LineSeries::new(steps(samples, start), BLUE))?
        .label("in flight")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLUE));
    if cap as f64 <= height {
        chart
            .draw_series(DashedLineSeries::new(
                [(0.0, cap as f64), (end, cap as f64)],
                6,
                4,
                RED.stroke_width(1),
            ))?
            .label(format!("cap: {cap}"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED));
    }
    chart
        .configure_series_labels()
        // The height leaves room there.
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// The corners of the line: each number holds until the next one.
fn steps(samples: &[Sample], start: f64) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * samples.len());
    let mut before = 0.0;
    for sample in samples {
        let at = sample.at.as_secs_f64() - start;
        corners.push((at, before));
        before = sample.in_flight as f64;
        corners.push((at, before));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn samples(numbers: &[usize]) -> Vec<Sample> {
        let at = |second| Duration::from_secs(second as u64);
        let sample = |(second, &in_flight)| Sample {
            at: at(second),
            in_flight,
        };
        numbers.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn line_steps_at_every_change() {
        assert_eq!(
            steps(&samples(&[1, 2, 0]), 0.0),
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
        assert!(draw(&samples(&[1, 2, 0]), 2, ThrottleKind::Pool).contains("cap: 2"));
        assert!(!draw(&samples(&[1, 2, 0]), 1000, ThrottleKind::Pool).contains("cap: 1000"));
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        assert!(draw(&[], 4, ThrottleKind::Pool).contains("</svg>"));
        assert!(draw(&samples(&[0]), 4, ThrottleKind::Pool).contains("</svg>"));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no/plot.svg");
        assert!(write(&path, &[], 1, ThrottleKind::Pool).is_err());
    }
}
