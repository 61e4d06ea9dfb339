//! Messages of the user, the agent and hooks.

use protocol::{ReasoningItem, TextElement, UserInput, UserMessageItem};

use crate::cells::parts::{INDENT, more_lines, remark};
use crate::context::Context;
use crate::markdown::Stream;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Rows of a message of the user.
const USER_ROWS: usize = 40;
/// Lines or characters from which pasted text is displayed by its label.
const FOLDED_LINES: usize = 2;
const FOLDED_CHARACTERS: usize = 200;

/// A message of the user: what was pasted by its label, and of a long one the beginning.
pub(super) fn user(item: &UserMessageItem, context: &Context) -> Vec<Line> {
    let text = written(item, folded, context);
    let mut lines = Vec::new();
    let mut hidden = 0;
    for (number, line) in text.lines().enumerate() {
        if lines.len() < USER_ROWS {
            lines.extend(user_lines(number, line, context));
        } else {
            hidden += 1;
        }
    }
    if lines.len() > USER_ROWS {
        lines.truncate(USER_ROWS);
        hidden += 1;
    }
    if hidden > 0 {
        let rest = more_lines(hidden, "");
        lines.extend(remark(&rest, Palette::QUIET, context));
    }
    lines
}

/// The same with all of its text.
pub(super) fn whole_user(item: &UserMessageItem, context: &Context) -> Vec<Line> {
    let text = written(item, |text, _| text.to_owned(), context);
    text.lines().enumerate().flat_map(|(number, line)| user_lines(number, line, context)).collect()
}

fn user_lines(number: usize, line: &str, context: &Context) -> Vec<Line> {
    let mark = if number == 0 { "› " } else { INDENT };
    let mut line_of = Line::new(mark, Palette::ACCENT);
    line_of.spans.push(Span::prose(line.to_owned(), Style::BOLD));
    line_of.wrapped(context.columns, &Line::plain(INDENT))
}

fn written(
    item: &UserMessageItem,
    shown: impl Fn(&str, &[TextElement]) -> String,
    context: &Context,
) -> String {
    let parts = item.content.iter().map(|input| match input {
        UserInput::Text { text, text_elements } => shown(text, text_elements),
        UserInput::Image { url } => format!("[image {}]", short(url)),
        UserInput::LocalImage { path } => format!("[image {}]", context.short(path)),
        UserInput::Skill { name, .. } => format!("[skill {name}]"),
        UserInput::Mention { name, .. } => format!("[{name}]"),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The text with the label of each long element in its place. Elements that are not where they should be are text.
fn folded(text: &str, elements: &[TextElement]) -> String {
    let mut folded = String::new();
    let mut done = 0;
    for element in elements {
        let Some(label) = &element.placeholder else { continue };
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let (start, end) = (place(element.byte_range.start), place(element.byte_range.end));
        let (Some(before), Some(long)) = (text.get(done..start), text.get(start..end)) else {
            continue;
        };
        let is_long = long.lines().nth(FOLDED_LINES - 1).is_some()
            || long.chars().nth(FOLDED_CHARACTERS).is_some();
        if is_long {
            folded.push_str(before);
            folded.push_str(label.lines().next().unwrap_or("[pasted text]"));
            done = end;
        }
    }
    folded.push_str(&text[done..]);
    folded
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
