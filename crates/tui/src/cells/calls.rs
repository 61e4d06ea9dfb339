//! Changes of files, and steps that a headline describes.

use std::borrow::Cow;

use protocol::describe::{ItemStatus, Phrase, Step};
use protocol::{FileChangeItem, PatchApplyStatus, ThreadItem};

use crate::cells::parts::{INDENT, MARK, duration, mark, marked, more_lines, remark};
use crate::context::Context;
use crate::diff::{self, Shown};
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Lines of a tool's result, and the rows that they may take.
const RESULT: usize = 6;
const RESULT_ROWS: usize = 2 * RESULT;

/// The headline of a step, what it concerned, why it failed, and the beginning of what it returned.
pub(super) fn step(item: &ThreadItem, step: &Step<'_>, context: &Context) -> Vec<Line> {
    with_result(item, step, first_lines(&step.output, context), context)
}

/// The same with all that it returned.
pub(super) fn whole_step(item: &ThreadItem, step: &Step<'_>, context: &Context) -> Vec<Line> {
    with_result(item, step, remark(&step.output, Palette::QUIET, context), context)
}

fn with_result(
    item: &ThreadItem,
    step: &Step<'_>,
    result: Vec<Line>,
    context: &Context,
) -> Vec<Line> {
    let style = match item.status() {
        ItemStatus::InProgress => Palette::ACCENT,
        ItemStatus::Completed => mark(true),
        ItemStatus::Failed | ItemStatus::Declined => mark(false),
    };
    let text = match item {
        ThreadItem::ImageView(_) | ThreadItem::ImageGeneration(_) => context.short(&step.done.text),
        _ => Cow::Borrowed(&*step.done.text),
    };
    let mut lines = marked(style, step.done.label, &text, context);
    lines.extend(step.notes.iter().flat_map(|note| remark(note, Palette::QUIET, context)));
    if let Some(why) = item.failure() {
        lines.extend(remark(why, Palette::ERROR, context));
    }
    lines.extend(result);
    lines
}

/// Returns the changed files, the kind of each change, and the beginning of the changes.
pub(super) fn file_change(item: &FileChangeItem, context: &Context) -> Vec<Line> {
    with_changes(
        item,
        diff::within(&item.changes, &indented(context), context.change_rows),
        context,
    )
}

/// The same with all lines that were changed.
pub(super) fn whole_file_change(item: &FileChangeItem, context: &Context) -> Vec<Line> {
    with_changes(item, diff::within(&item.changes, &indented(context), usize::MAX), context)
}

/// Room for what is indented.
fn indented(context: &Context) -> Context {
    Context { columns: context.width().saturating_sub(INDENT.len()), ..context.clone() }
}

fn with_changes(item: &FileChangeItem, changes: Shown, context: &Context) -> Vec<Line> {
    let headline = file_change_headline(item, context);
    let mut lines = headline.wrapped(context.columns, &Line::plain(INDENT));
    if let Some(why) = &item.reason {
        lines.extend(remark(why, Palette::ERROR, context));
    }
    if item.status == PatchApplyStatus::Declined {
        return lines;
    }
    lines.extend(changes.lines.into_iter().map(|mut line| {
        line.spans.insert(0, Span::new(INDENT, Style::PLAIN));
        line
    }));
    if changes.hidden > 0 {
        let rest = more_lines(changes.hidden, "");
        lines.extend(remark(&rest, Palette::QUIET, context));
    }
    lines
}

pub(super) fn file_change_headline(item: &FileChangeItem, context: &Context) -> Line {
    let style = match item.status {
        PatchApplyStatus::InProgress => Palette::ACCENT,
        PatchApplyStatus::Completed => Palette::GOOD,
        PatchApplyStatus::Failed => Palette::ERROR,
        PatchApplyStatus::Declined => Palette::WARNING,
    };
    let Phrase { label, text } = item.headline();
    let text = match item.changes.as_slice() {
        [_] => context.short(&text).into_owned(),
        _ => text.into_owned(),
    };
    Line::new(MARK, style).with(label, Style::BOLD).with(text, Style::PLAIN)
}

/// The beginning of a result, with the number of lines left out.
fn first_lines(text: &str, context: &Context) -> Vec<Line> {
    let count = text.lines().count();
    let mut shown = 0;
    let mut lines = Vec::new();
    for line in text.lines().take(RESULT) {
        let of_line = remark(line, Palette::QUIET, context);
        let free = RESULT_ROWS - lines.len();
        let fits = of_line.len() <= free;
        lines.extend(of_line.into_iter().take(free));
        if !fits {
            break;
        }
        shown += 1;
    }
    if count > shown {
        let rest = more_lines(count - shown, "");
        lines.extend(remark(&rest, Palette::QUIET, context));
    }
    lines
}

/// A headline with the time that has passed.
pub(super) fn running(doing: &Phrase<'_>, elapsed_ms: Option<u64>) -> Line {
    let elapsed = elapsed_ms.map(|ms| format!("  {}", duration(ms)));
    Line::new(MARK, Palette::ACCENT)
        .with(doing.label, Style::BOLD)
        .with(doing.text.lines().next().unwrap_or_default().to_owned(), Style::PLAIN)
        .with(elapsed.unwrap_or_default(), Palette::QUIET)
}
