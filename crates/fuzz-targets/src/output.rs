//! The output of commands, and diffs: whatever the text and however it arrives, the lines are the same, and
//! nothing in them is for the terminal to act on.

use tui::context::Context;
use tui::diff;
use tui::highlight::{Code, theme_names};
use tui::output::Output;
use tui::text::Line;

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [columns, low, high, rest @ ..] = bytes else { return };
    let (columns, cut, text) = (*columns, u16::from_le_bytes([*low, *high]), text(rest));
    let context = Context { columns: usize::from(columns), ..Context::default() };
    let mut whole = Output::default();
    whole.push(text);
    let mut parts = Output::default();
    let (first, second) = text.split_at(text.floor_char_boundary(usize::from(cut)));
    parts.push(first);
    parts.push(second);
    let lines = whole.lines(&context, 50, 50);
    assert_eq!(lines, parts.lines(&context, 50, 50));
    assert!(parts.tail(&context, 5).len() <= 5);
    visible(&lines);
    visible(&diff::unified(text, &context));

    let language = ["rust", "python", "sh", "html", "sql", "diff", "lua"][usize::from(cut) % 7];
    let theme = theme_names().nth(usize::from(columns) % 30).map(str::to_owned);
    let mut code = Code::new(language, &Context { theme, ..context });
    for line in text.lines() {
        visible(&[Line { spans: code.line(line) }]);
    }
}

fn visible(lines: &[Line]) {
    assert!(lines.iter().all(|line| !line.text().contains(char::is_control)));
}
