//! Lines that say what is asked about.

use crate::palette::Palette;
use crate::text::{Line, Style};

/// A named fact on one line.
pub(super) fn fact(name: &str, value: &str) -> Line {
    Line::new(format!("{name}: "), Palette::QUIET).with(value.to_owned(), Style::PLAIN)
}

/// Text of several lines, the first after `label` and the others indented.
pub(super) fn text_lines(label: &str, text: &str, style: Style) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, part) in text.trim_end_matches('\n').split('\n').enumerate() {
        let head = if index == 0 { label.to_owned() } else { "  ".to_owned() };
        lines.push(Line::new(head, Palette::QUIET).with(part.to_owned(), style));
    }
    lines
}

/// The beginning of a text, for a summary.
pub(super) fn short(text: &str) -> String {
    const MAX: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    match line.chars().count() > MAX || line.len() < text.trim_end().len() {
        true => line.chars().take(MAX).collect::<String>() + "…",
        false => line.to_owned(),
    }
}
