//! Messages of the user, the agent and hooks.

use protocol::{ReasoningItem, UserInput, UserMessageItem};

use crate::cells::parts::{INDENT, remark};
use crate::context::Context;
use crate::markdown::Stream;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// A message of the user, as it was written.
pub(super) fn user(item: &UserMessageItem, context: &Context) -> Vec<Line> {
    let mut text = String::new();
    for input in &item.content {
        let part = match input {
            UserInput::Text { text, .. } => text.clone(),
            UserInput::Image { url } => format!("[image {}]", short(url)),
            UserInput::LocalImage { path } => format!("[image {path}]"),
            UserInput::Skill { name, .. } => format!("[skill {name}]"),
            UserInput::Mention { name, .. } => format!("[{name}]"),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&part);
    }
    let indent = Line::plain(INDENT);
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mark = if number == 0 { "› " } else { INDENT };
        let mut line_of = Line::new(mark, Palette::ACCENT);
        line_of.spans.push(Span::prose(line.to_owned(), Style::BOLD));
        lines.extend(line_of.wrapped(context.columns, &indent));
    }
    lines
}

/// An address; the contents of `data:` ones are left out.
fn short(url: &str) -> &str {
    match url.starts_with("data:") {
        true => url.split([',', ';']).next().unwrap_or(url),
        false => url,
    }
}

/// Markdown that is complete.
pub(super) fn whole(text: &str, context: &Context) -> Vec<Line> {
    let mut stream = Stream::default();
    stream.push(text);
    stream.end();
    stream.finished(context)
}

/// The sections of a summary.
pub(super) fn reasoning(item: &ReasoningItem, context: &Context) -> Vec<Line> {
    if context.hide_reasoning {
        return Vec::new();
    }
    quiet("", &item.summary.join("\n\n").replace("**", ""), context)
}

/// Text of less importance.
pub(super) fn quiet(label: &'static str, text: &str, context: &Context) -> Vec<Line> {
    let mut lines = Vec::new();
    if !label.is_empty() {
        lines.push(Line::new(label, Palette::QUIET));
    }
    let style = Palette::QUIET.italic();
    lines.extend(remark(text.trim(), style, context));
    lines
}
