//! Commands: what ran, how it ended, and the end of what it printed.

use protocol::{CommandExecutionItem, CommandExecutionSource, CommandExecutionStatus};

use crate::cells::parts::{INDENT, MARK, duration, expands, mark, marked, more_lines, remark};
use crate::context::Context;
use crate::output::{Output, amount};
use crate::palette::Palette;
use crate::text::{Color, Line, Style};

/// Lines of output that are displayed of a command that succeeded, and of one that failed or that the user
/// typed. Long lines take more rows: twice as many at most.
const LINES: usize = 5;
const LINES_OF_FAILED: usize = 20;
/// Rows of the command itself, such as a script.
const COMMAND_ROWS: usize = 10;

pub(super) fn finished(item: &CommandExecutionItem, context: &Context) -> Vec<Line> {
    let is_wanted = item.succeeded() && item.source != CommandExecutionSource::UserShell;
    let mut lines = headlines(item, context);
    if lines.len() > COMMAND_ROWS {
        let hidden = lines.len() - COMMAND_ROWS + 1;
        lines.truncate(COMMAND_ROWS - 1);
        let rest = more_lines(hidden, " of the command");
        lines.extend(remark(&rest, Palette::QUIET, context));
    }
    if let Some(last) = lines.last_mut() {
        last.push(end(item), Palette::QUIET);
    }
    lines.extend(last_lines(item, if is_wanted { LINES } else { LINES_OF_FAILED }, context));
    lines
}

/// The same with everything that it printed.
pub(super) fn whole(item: &CommandExecutionItem, context: &Context) -> Vec<Line> {
    let mut lines = headlines(item, context);
    if let Some(last) = lines.last_mut() {
        last.push(end(item), Palette::QUIET);
    }
    let output = output_of(item).lines(context, usize::MAX, usize::MAX);
    lines.extend(output.iter().flat_map(|line| quiet(line, context)));
    lines
}

fn headlines(item: &CommandExecutionItem, context: &Context) -> Vec<Line> {
    let style = match item.status {
        CommandExecutionStatus::InProgress => Palette::ACCENT,
        CommandExecutionStatus::Declined => Palette::WARNING,
        _ => mark(item.succeeded()),
    };
    marked(style, item.label(), &item.command, context)
}

/// The end of the output: at most `most` lines, fewer where they are long.
fn last_lines(item: &CommandExecutionItem, most: usize, context: &Context) -> Vec<Line> {
    let output = output_of(item);
    let left_out = |lines, bytes| expands(&amount(lines, bytes));
    for count in (1..=most).rev() {
        let lines = output.lines_with(context, (0, count), left_out);
        let mut rows: Vec<Line> = lines.iter().flat_map(|line| quiet(line, context)).collect();
        if rows.len() <= 2 * most {
            return rows;
        }
        if count == 1 {
            // The beginning of a line that fills the screen says what it is.
            let hidden = rows.len() - 2 * most;
            rows.truncate(2 * most);
            let rest = expands(&format!("{hidden} more rows of this line"));
            rows.extend(remark(&rest, Palette::QUIET, context));
            return rows;
        }
    }
    Vec::new()
}

fn output_of(item: &CommandExecutionItem) -> Output {
    let mut output = Output::default();
    output.push_item(item);
    output
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

/// A line of output below the command, wrapped at words inside the indentation. Its own colours stay.
fn quiet(line: &Line, context: &Context) -> Vec<Line> {
    dimmed(line).wrapped(context.columns, &Line::plain(INDENT))
}

fn dimmed(line: &Line) -> Line {
    let mut dimmed = Line::plain(INDENT);
    dimmed.spans.extend(line.spans.iter().map(|span| match span.style().fg {
        Color::Default => span.styled(span.style().dim()),
        _ => span.clone(),
    }));
    dimmed
}

/// The last lines of what a running command printed.
pub(super) fn open(output: &Output, rows: usize, context: &Context) -> Vec<Line> {
    let lines = output.lines(context, 0, rows);
    // One more says how much is left out.
    let surplus = lines.len().saturating_sub(rows);
    lines.iter().skip(surplus).map(|line| dimmed(line).truncated(context.columns)).collect()
}
