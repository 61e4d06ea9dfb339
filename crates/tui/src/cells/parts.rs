//! The building blocks of cells.

use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Style};

/// The mark before the first line of a cell, and before the others.
pub(super) const MARK: &str = "• ";
pub(super) const INDENT: &str = "  ";

/// A duration in milliseconds, as people write it: `0.4s`, `12s`, `3m 05s`, `2h 10m`.
#[must_use]
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("0.{}s", ms / 100),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A mark and a text after it, with the following lines indented.
pub(super) fn marked(
    style: Style,
    label: &'static str,
    text: &str,
    context: &Context,
) -> Vec<Line> {
    let indent = Line::plain(INDENT);
    let mut lines = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let line = match number {
            0 => {
                Line::new(MARK, style).with(label, Style::BOLD).with(text.to_owned(), Style::PLAIN)
            }
            _ => indent.clone().with(text.to_owned(), Style::PLAIN),
        };
        lines.extend(line.wrapped(context.columns, &indent));
    }
    if lines.is_empty() {
        lines.push(Line::new(MARK, style).with(label, Style::BOLD));
    }
    lines
}

/// A remark below a cell.
pub(super) fn remark(text: &str, style: Style, context: &Context) -> Vec<Line> {
    let indent = Line::plain(INDENT);
    let of_line = |text: &str| {
        indent.clone().with(text.to_owned(), style).wrapped(context.columns, &Line::plain(INDENT))
    };
    text.lines().flat_map(of_line).collect()
}

/// Says what of a cell is left out, and the key that shows it: [`crate::cells::whole`] has all of it.
pub(super) fn expands(what: &str) -> String {
    format!("… {what}, Ctrl+T shows them")
}

/// Says how many lines are left out, and the key that shows them. `of` says of what, after a space.
pub(super) fn more_lines(count: usize, of: &str) -> String {
    match count {
        1 => format!("… 1 more line{of}, Ctrl+T shows it"),
        count => expands(&format!("{count} more lines{of}")),
    }
}

/// The style of a mark: of what succeeded, and what did not.
pub(super) fn mark(succeeded: bool) -> Style {
    if succeeded { Palette::GOOD } else { Palette::ERROR }
}
