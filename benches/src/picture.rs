//! What the pictures have in common: colors that can be told apart on white, whatever is around it,
//! texts in whatever font there is, and a frame.

use std::error::Error;
use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, DrawingArea, IntoDrawingArea, IntoFont, RGBColor, Rectangle,
    SVGBackend, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, TextStyle};

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A frame with its axes.
pub type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// The result of drawing.
pub type Drawn<T = ()> = Result<T, Box<dyn Error>>;

/// As wide as a page.
pub const WIDTH: u32 = 960;
/// On the right of a frame.
pub const MARGIN: u32 = 12;
/// Where a frame begins; its numbers are on the left of that.
pub const LEFT: u32 = 44;

/// Of titles.
pub const INK: RGBColor = RGBColor(36, 41, 47);
/// Of remarks and numbers.
pub const PALE_INK: RGBColor = RGBColor(87, 96, 106);
/// Of the grid.
pub const GRID: RGBColor = RGBColor(221, 226, 232);
/// Of ours.
pub const BLUE: RGBColor = RGBColor(9, 80, 174);
/// Of what lies below.
pub const PALE_BLUE: RGBColor = RGBColor(190, 218, 250);
/// Of a peer.
pub const ORANGE: RGBColor = RGBColor(200, 90, 0);
/// Of another peer.
pub const VIOLET: RGBColor = RGBColor(130, 80, 200);
/// Of a quota, or of a third peer.
pub const RED: RGBColor = RGBColor(190, 30, 45);

/// Of letters, as the library counts them.
const SIZE: u32 = 16;
const SMALL: u32 = 14;

/// Draws in memory: the backend reports a full disk on drop, which is to nobody.
pub fn draw(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let drawn = area
        .fill(&WHITE)
        .map_err(Into::into)
        .and_then(|()| draw(&area))
        .and_then(|()| Ok(area.present()?));
    drawn.expect("drawing into memory does not fail");
    drop(area);
    // Inside of a page that is narrower, it shrinks and is not cut.
    svg.replacen("<svg ", "<svg style=\"max-width:100%;height:auto\" ", 1)
}

/// A text of one line, that begins or ends there.
pub fn text(
    area: &Area<'_>,
    text: &str,
    color: RGBColor,
    style: FontStyle,
    side: HPos,
    at: (u32, u32),
) -> Drawn {
    let font = ("sans-serif", SIZE).into_font().style(style);
    let style = TextStyle::from(font)
        .color(&color)
        .pos(Pos::new(side, VPos::Top));
    area.draw_text(text, &style, (at.0 as i32, at.1 as i32))?;
    Ok(())
}

/// A remark, as [`text`].
pub fn remark(area: &Area<'_>, remark: &str, side: HPos, at: (u32, u32)) -> Drawn {
    text(area, remark, PALE_INK, FontStyle::Normal, side, at)
}

/// The title of all, and a remark at the right below it.
pub fn head(area: &Area<'_>, title: &str, axes: &str) -> Drawn {
    text(area, title, INK, FontStyle::Bold, HPos::Left, (LEFT, 10))?;
    remark(area, axes, HPos::Right, (WIDTH - MARGIN, 34))
}

/// Draws frames one below the other, each with a line above it: `draw` gets its number, that line, the frame, and what
/// is below it for the time axis, which is that of the last.
pub fn below(
    area: &Area<'_>,
    count: usize,
    (title, frame, foot): (u32, u32, u32),
    mut draw: impl FnMut(usize, &Area<'_>, &Area<'_>, u32) -> Drawn,
) -> Drawn {
    let mut rest = area.clone();
    for number in 0..count {
        let (above, under) = rest.split_vertically(title);
        let foot = if number + 1 == count { foot } else { 0 };
        let (frame, next) = under.split_vertically(frame + foot);
        draw(number, &above, &frame, foot)?;
        rest = next;
    }
    Ok(())
}

/// The line above a frame: what it is, what is to be seen, and perhaps a figure.
pub fn title(area: &Area<'_>, name: &str, remark: &str, figure: Option<&str>) -> Drawn {
    let normal = FontStyle::Normal;
    text(area, name, INK, FontStyle::Bold, HPos::Left, (LEFT, 4))?;
    self::remark(area, remark, HPos::Left, (LEFT + 270, 4))?;
    match figure {
        Some(figure) => text(area, figure, INK, normal, HPos::Right, (WIDTH - MARGIN, 4)),
        None => Ok(()),
    }
}

/// An entry of a legend: a sign of so many pixels, and what it means.
pub fn entry(
    area: &Area<'_>,
    color: RGBColor,
    size: (u32, u32),
    meaning: &str,
    at: (u32, u32),
) -> Drawn {
    let (x, y) = (at.0 as i32, at.1 as i32);
    let (width, height) = (size.0 as i32, size.1 as i32);
    let top = y + 7 - height / 2;
    let corners = [(x, top), (x + width, top + height)];
    area.draw(&Rectangle::new(corners, color.filled()))?;
    let beside = (at.0 + size.0 + 8, at.1);
    text(area, meaning, INK, FontStyle::Normal, HPos::Left, beside)
}

/// A frame with its grid. What is below it, if anything, are the numbers of its horizontal axis.
pub fn frame<'a, 'b>(
    area: &'a Area<'b>,
    foot: u32,
    width: f64,
    height: Range<f64>,
    lines: (usize, usize),
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin_right(MARGIN)
        .x_label_area_size(foot)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..width, height)?;
    let label = ("sans-serif", SMALL).into_font().color(&PALE_INK);
    chart
        .configure_mesh()
        .x_labels(lines.0)
        .y_labels(lines.1)
        .max_light_lines(0)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(label)
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .draw()?;
    Ok(chart)
}

fn whole(number: &f64) -> String {
    // What is below nought has no number.
    if *number < 0.0 {
        String::new()
    } else {
        format!("{number:.0}")
    }
}
