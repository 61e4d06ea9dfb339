//! Commands: what ran, how it ended, and the end of what it printed.

use protocol::{CommandExecutionItem, CommandExecutionSource, CommandExecutionStatus};

use crate::cells::parts::{INDENT, MARK, duration, mark, marked};
use crate::context::Context;
use crate::output::Output;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Lines of output that are displayed of a command that succeeded, and of one that failed or that the user
/// typed.
const LINES: usize = 5;
const LINES_OF_FAILED: usize = 20;

pub(super) fn finished(item: &CommandExecutionItem, context: &Context) -> Vec<Line> {
    let is_wanted = item.succeeded() && item.source != CommandExecutionSource::UserShell;
    with_output(item, (0, if is_wanted { LINES } else { LINES_OF_FAILED }), context)
}

/// The same with everything that it printed.
pub(super) fn whole(item: &CommandExecutionItem, context: &Context) -> Vec<Line> {
    with_output(item, (usize::MAX, usize::MAX), context)
}

/// With the first and the last lines of what it printed.
fn with_output(
    item: &CommandExecutionItem,
    (first, last): (usize, usize),
    context: &Context,
) -> Vec<Line> {
    let style = match item.status {
        CommandExecutionStatus::InProgress => Palette::ACCENT,
        CommandExecutionStatus::Declined => Palette::WARNING,
        _ => mark(item.succeeded()),
    };
    let mut lines = marked(style, item.label(), &item.command, context);
    if let Some(last) = lines.last_mut() {
        last.push(end(item), Palette::QUIET);
    }
    let mut output = Output::default();
    output.push_item(item);
    lines.extend(indented(output.lines(context, first, last)));
    lines
}

/// Exit code and duration, where they say something.
fn end(item: &CommandExecutionItem) -> String {
    let mut words = Vec::new();
    if let Some(code) = item.exit_code.filter(|code| *code != 0) {
        words.push(format!("exit code {code}"));
    }
    if let Some(ms) =
        item.duration_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms >= 1_000)
    {
        words.push(duration(ms));
    }
    if words.is_empty() { String::new() } else { format!("  ({})", words.join(", ")) }
}

pub(super) fn headline(item: &CommandExecutionItem, elapsed_ms: Option<u64>) -> Line {
    let first = item.command.lines().next().unwrap_or_default();
    let more = item.command.lines().count().saturating_sub(1);
    let mut line = Line::new(MARK, Palette::ACCENT)
        .with(item.doing(), Style::BOLD)
        .with(first.to_owned(), Style::PLAIN);
    if more > 0 {
        line.push(format!(" … {more} more lines"), Palette::QUIET);
    }
    if let Some(elapsed) = elapsed_ms {
        line.push(format!("  {}", duration(elapsed)), Palette::QUIET);
    }
    line
}

/// Lines of output below the command.
fn indented(lines: Vec<Line>) -> impl Iterator<Item = Line> {
    lines.into_iter().map(|mut line| {
        line.spans.insert(0, Span::new(INDENT, Style::PLAIN));
        line
    })
}

/// The last lines of what a running command printed.
pub(super) fn open(output: &Output, rows: usize, context: &Context) -> Vec<Line> {
    let lines = output.lines(context, 0, rows);
    // One more says how much is left out.
    let surplus = lines.len().saturating_sub(rows);
    indented(lines).skip(surplus).map(|line| line.truncated(context.columns)).collect()
}
