//! Prints columns: aligned for a terminal, or as Markdown for a document.

use std::fmt::Write;

/// A table that is printed when it is complete, because a column is as wide as its widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()],
        }
    }

    /// Adds a row, with as many cells as there are headings.
    ///
    /// # Panics
    ///
    /// When the number of cells is another.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "cells and headings");
        self.rows.push(cells);
    }

    /// Prints it: the first column to the left, the others to the right.
    pub fn print(&self, markdown: bool) {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                self.rows
                    .iter()
                    .map(|row| row[at].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let bar = match (markdown, at) {
                    (true, 0) => "| ",
                    (true, _) => " | ",
                    (false, 0) => "",
                    (false, _) => "  ",
                };
                line.push_str(bar);
                // Names read from the left, figures from the right.
                let written = if at < 2 && row[at].parse::<f64>().is_err() {
                    write!(line, "{cell:<width$}")
                } else {
                    write!(line, "{cell:>width$}")
                };
                written.expect("a String takes everything");
            }
            if markdown {
                line.push_str(" |");
            }
            println!("{}", line.trim_end());
            if number == 0 {
                rule(&widths, markdown);
            }
        }
        println!();
    }
}

fn rule(widths: &[usize], markdown: bool) {
    if markdown {
        let cells: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| {
                if at < 2 {
                    "-".repeat(width + 2)
                } else {
                    format!("{}:", "-".repeat(width + 1))
                }
            })
            .collect();
        println!("|{}|", cells.join("|"));
    } else {
        println!(
            "{}",
            "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1))
        );
    }
}
