//! Prints columns: aligned for a terminal, or as Markdown for a document.

/// A table that is printed when it is complete, because a column is as wide as its widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

/// Makes the cells of a row from displayable values.
#[macro_export]
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}

/// Returns the text next to a target.
#[must_use]
pub fn verdict(reached: bool) -> &'static str {
    if reached { "PASS" } else { "MISS" }
}

impl Table {
    /// Creates a table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Table {
        let headings = headings.iter().map(|&heading| heading.to_owned());
        Table {
            rows: vec![headings.collect()],
        }
    }

    /// Adds a row, with as many cells as there are headings.
    ///
    /// # Panics
    ///
    /// If the number of cells differs.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "cells and headings");
        self.rows.push(cells);
    }

    /// Prints the table: the first column left-aligned, the others right-aligned.
    pub fn print(&self, markdown: bool) {
        let width = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max();
        let widths: Vec<_> = (0..self.rows[0].len()).filter_map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).enumerate();
            // Names are aligned to the left, figures to the right.
            let aligned = cells.map(|(at, (cell, &width))| match cell.parse::<f64>() {
                Err(_) if at < 2 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let aligned: Vec<_> = aligned.collect();
            if markdown {
                println!("| {} |", aligned.join(" | "));
            } else {
                println!("{}", aligned.join("  ").trim_end());
            }
            if number == 0 {
                rule(&widths, markdown);
            }
        }
        println!();
    }
}

/// Our figures next to their limits.
pub struct Targets {
    table: Table,
    kept: bool,
}

impl Targets {
    /// Creates an empty list. `what` names the subject of the figures.
    #[must_use]
    pub fn of(what: &str) -> Targets {
        Targets {
            table: Table::new(&[what, "figure", "target", "verdict", "how"]),
            kept: true,
        }
    }

    /// Adds a figure that must not be above a limit.
    pub fn at_most(&mut self, name: &str, figure: f64, limit: f64, how: &str) {
        self.push(name, figure, format!("<= {limit}"), figure <= limit, how);
    }

    /// Adds a figure that must not be below a limit.
    pub fn at_least(&mut self, name: &str, figure: f64, limit: f64, how: &str) {
        self.push(name, figure, format!(">= {limit}"), figure >= limit, how);
    }

    /// NaN counts as outside its limit.
    fn push(&mut self, name: &str, figure: f64, limit: String, kept: bool, how: &str) {
        self.kept &= kept;
        let figure = format!("{figure:.3}");
        self.table
            .push(cells![name, figure, limit, verdict(kept), how]);
    }

    /// Prints the figures, and returns whether all limits were met.
    pub fn print(self, markdown: bool) -> bool {
        self.table.print(markdown);
        self.kept
    }
}

fn rule(widths: &[usize], markdown: bool) {
    let line = |(at, &width): (usize, &usize)| match (markdown, at) {
        (true, 0..2) => "-".repeat(width + 2),
        (true, _) => "-".repeat(width + 1) + ":",
        (false, 0) => "-".repeat(width),
        (false, _) => "-".repeat(width + 2),
    };
    let lines: Vec<_> = widths.iter().enumerate().map(line).collect();
    if markdown {
        println!("|{}|", lines.join("|"));
    } else {
        println!("{}", lines.concat());
    }
}
