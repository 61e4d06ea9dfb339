//! Tables laid out in columns, or row by row as a list where the screen is too narrow.

use pulldown_cmark::Alignment;

use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Cells that a column is not made narrower than.
const NARROWEST: usize = 5;

/// A table whose cells are lines.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    /// The rows; the first is the head.
    pub(super) rows: Vec<Vec<Line>>,
}

impl Table {
    /// The table within `columns` cells.
    pub(super) fn lines(&self, columns: usize) -> Vec<Line> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let Some(widths) = self.widths(columns) else { return self.as_list(columns) };
        let mut lines = self.row(head, &widths);
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("─┼─");
        lines.push(Line::new(rule, Palette::QUIET));
        lines.extend(rows.iter().flat_map(|row| self.row(row, &widths)));
        lines
    }

    /// Widths of the columns; none if there is not enough space.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.rows.first()?.len();
        let mut widths = vec![1; count];
        for (at, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            if let Some(width) = widths.get_mut(at) {
                *width = cell.width().max(*width);
            }
        }
        let free = columns.checked_sub(3 * count.saturating_sub(1))?;
        if widths.iter().sum::<usize>() <= free {
            return Some(widths);
        }
        // The wide columns share what the narrow ones leave.
        let mut sorted = widths.clone();
        sorted.sort_unstable();
        let mut left = free;
        let mut widest = 0;
        for (at, width) in sorted.iter().enumerate() {
            widest = left / (count - at);
            if *width > widest {
                break;
            }
            left -= width;
        }
        (widest >= NARROWEST).then(|| widths.iter().map(|width| (*width).min(widest)).collect())
    }

    fn row(&self, row: &[Line], widths: &[usize]) -> Vec<Line> {
        let none = Line::default();
        let cells: Vec<_> = (widths.iter().enumerate())
            .map(|(at, width)| row.get(at).unwrap_or(&none).wrapped(*width, &none))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        (0..height).map(|y| self.row_line(&cells, widths, y)).collect()
    }

    fn row_line(&self, cells: &[Vec<Line>], widths: &[usize], y: usize) -> Line {
        let mut line = Line::default();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let cell = cell.get(y);
            let free = width.saturating_sub(cell.map_or(0, Line::width));
            let before = match self.alignments.get(at) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                _ => 0,
            };
            if at > 0 {
                line.push(" │ ", Palette::QUIET);
            }
            line.push(" ".repeat(before), Style::PLAIN);
            line.spans.extend(cell.into_iter().flat_map(|cell| cell.spans.iter().cloned()));
            if at + 1 < cells.len() {
                line.push(" ".repeat(free - before), Style::PLAIN);
            }
        }
        line.spans.retain(|span| !span.text().is_empty());
        line
    }

    /// Each row as lines of `head: cell`.
    fn as_list(&self, columns: usize) -> Vec<Line> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        if rows.is_empty() {
            let separate = |cell: &Line| cell.wrapped(columns, &Line::default());
            return head.iter().flat_map(separate).collect();
        }
        let indent = Line::plain("  ");
        let mut lines = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                lines.push(Line::new("─".repeat(columns.min(8)), Palette::QUIET));
            }
            for (name, cell) in head.iter().zip(row) {
                let mut line = name.clone();
                line.spans.push(Span::new(": ", Palette::STRONG));
                line.spans.extend(cell.spans.iter().cloned());
                lines.extend(line.wrapped(columns, &indent));
            }
        }
        lines
    }
}
