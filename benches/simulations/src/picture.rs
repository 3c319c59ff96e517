//! The shared parts of the pictures: colors, texts in whatever font is available, and a frame.
//!
//! A picture is drawn in its light form. Its style sheet has the dark one, for two places: a page of
//! rustdoc, which names its theme in `data-theme`, and an image, which follows the reader's system. A
//! program that ignores style sheets shows the light form.

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

/// The drawing area.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// A frame with its axes.
pub type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
/// The result of drawing.
pub type Drawn<T = ()> = Result<T, Box<dyn Error>>;

/// The width of a page.
pub const WIDTH: u32 = 960;
/// The margin on the right of a frame.
pub const MARGIN: u32 = 12;
/// The left edge of a frame; its numbers are to the left of that.
pub const LEFT: u32 = 44;

/// The color of titles.
pub const INK: RGBColor = RGBColor(36, 41, 47);
/// The color of remarks and numbers.
pub const PALE_INK: RGBColor = RGBColor(87, 96, 106);
/// The color of the grid.
pub const GRID: RGBColor = RGBColor(221, 226, 232);
/// The color of ours.
pub const BLUE: RGBColor = RGBColor(9, 80, 174);
/// The color of the background curve.
pub const PALE_BLUE: RGBColor = RGBColor(190, 218, 250);
/// The color of a peer.
pub const ORANGE: RGBColor = RGBColor(200, 90, 0);
/// The color of another peer.
pub const VIOLET: RGBColor = RGBColor(130, 80, 200);
/// The color of a quota, or of a third peer.
pub const RED: RGBColor = RGBColor(190, 30, 45);

/// The dark form of each color. On a page of rustdoc, the background and the titles have the page's
/// own colors. All others are distinct on the backgrounds of its dark themes, `#353535` and
/// `#0f1419`.
const DARK: [(RGBColor, &str); 9] = [
    (WHITE, "var(--main-background-color,#0d1117)"),
    (INK, "var(--main-color,#e6edf3)"),
    (PALE_INK, "#b4bdc7"),
    (GRID, "#4b535d"),
    (BLUE, "#6cb6ff"),
    (PALE_BLUE, "#2f5a8c"),
    (ORANGE, "#f2ae49"),
    (VIOLET, "#c9a5ff"),
    (RED, "#ff7b72"),
];

/// The font size, in the library's unit.
const SIZE: u32 = 16;
const SMALL: u32 = 14;

/// Draws in memory: on drop, the backend would report a full disk to nobody.
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
    with_style(&svg)
}

/// Adds the style sheet to a drawn picture. On a narrower page, the picture shrinks and is not cut.
fn with_style(svg: &str) -> String {
    let root = "<svg class=\"tollgate-picture\" style=\"max-width:100%;height:auto\" ";
    let svg = svg.replacen("<svg ", root, 1);
    svg.replacen(">\n", &format!(">\n{}", style()), 1)
}

/// Returns the element with the style sheet: the dark forms, as variables that are set where the page is
/// dark, and a rule for each color. Within a page it concerns pictures only, and a blank line would end
/// it in the documentation.
pub fn style() -> String {
    let hex = |RGBColor(red, green, blue)| format!("{red:02X}{green:02X}{blue:02X}");
    let forms = DARK.map(|(color, dark)| format!("--dark-{}:{dark};", hex(color)));
    let forms = forms.concat();
    let rule = |(color, _)| {
        let color = hex(color);
        let rule = |what| {
            format!(
                ".tollgate-picture [{what}=\"#{color}\"]{{{what}:var(--dark-{color},#{color})}}\n"
            )
        };
        ["fill", "stroke"].map(rule).concat()
    };
    let rules = DARK.map(rule).concat();
    format!(
        "<style>\n\
         @media (prefers-color-scheme:dark){{.tollgate-picture:not([data-theme] *){{{forms}}}}}\n\
         [data-theme=dark] .tollgate-picture,[data-theme=ayu] .tollgate-picture{{{forms}}}\n\
         {rules}</style>\n"
    )
}

/// Draws a text of one line that begins or ends at a point.
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

/// Draws a remark, like [`text`].
pub fn remark(area: &Area<'_>, remark: &str, side: HPos, at: (u32, u32)) -> Drawn {
    text(area, remark, PALE_INK, FontStyle::Normal, side, at)
}

/// Draws the title of the picture, and a remark at the right below it.
pub fn head(area: &Area<'_>, title: &str, axes: &str) -> Drawn {
    text(area, title, INK, FontStyle::Bold, HPos::Left, (LEFT, 10))?;
    remark(area, axes, HPos::Right, (WIDTH - MARGIN, 34))
}

/// Draws frames one below the other, each with a line above it: `draw` gets its number, that line, the frame, and the
/// area below it for the time axis, which only the last frame has.
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

/// Draws the line above a frame: its name, a remark, and perhaps a figure.
pub fn title(area: &Area<'_>, name: &str, remark: &str, figure: Option<&str>) -> Drawn {
    let normal = FontStyle::Normal;
    text(area, name, INK, FontStyle::Bold, HPos::Left, (LEFT, 4))?;
    self::remark(area, remark, HPos::Left, (LEFT + 270, 4))?;
    match figure {
        Some(figure) => text(area, figure, INK, normal, HPos::Right, (WIDTH - MARGIN, 4)),
        None => Ok(()),
    }
}

/// Draws an entry of a legend: a sign of this many pixels, and its meaning.
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

/// Draws a frame with its grid. Below it are the numbers of its horizontal axis, if any.
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
    // Values below zero have no number.
    if *number < 0.0 {
        String::new()
    } else {
        format!("{number:.0}")
    }
}
