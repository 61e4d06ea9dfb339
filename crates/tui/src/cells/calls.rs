//! Changes of files, and steps that a headline describes.

use protocol::describe::{ItemStatus, Phrase, Step};
use protocol::{FileChangeItem, PatchApplyStatus, ThreadItem};

use crate::cells::parts::{INDENT, MARK, duration, mark, marked, remark};
use crate::context::Context;
use crate::diff;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Lines of a changed file.
const LINES: usize = 60;
/// Lines of a tool's result.
const RESULT: usize = 6;

/// The headline of a step, what it concerned, why it failed, and the beginning of what it returned.
pub(super) fn step(item: &ThreadItem, step: &Step<'_>, context: &Context) -> Vec<Line> {
    let style = match item.status() {
        ItemStatus::InProgress => Palette::ACCENT,
        ItemStatus::Completed => mark(true),
        ItemStatus::Failed | ItemStatus::Declined => mark(false),
    };
    let mut lines = marked(style, step.done.label, &step.done.text, context);
    lines.extend(step.notes.iter().flat_map(|note| remark(note, Palette::QUIET, context)));
    if let Some(why) = item.failure() {
        lines.extend(remark(why, Palette::ERROR, context));
    }
    lines.extend(first_lines(&step.output, context));
    lines
}

/// Returns the changed files, the kind of each change, and the changes.
pub(super) fn file_change(item: &FileChangeItem, context: &Context) -> Vec<Line> {
    with_changes(item, LINES, context)
}

/// The same with all lines that were changed.
pub(super) fn whole_file_change(item: &FileChangeItem, context: &Context) -> Vec<Line> {
    with_changes(item, usize::MAX, context)
}

fn with_changes(item: &FileChangeItem, most: usize, context: &Context) -> Vec<Line> {
    let mut lines = vec![file_change_headline(item)];
    if let Some(why) = &item.reason {
        lines.extend(remark(why, Palette::ERROR, context));
    }
    if item.status != PatchApplyStatus::Declined {
        let changes = item.changes.iter().flat_map(|change| diff::file(change, context, most));
        lines.extend(changes.map(|mut line| {
            line.spans.insert(0, Span::new(INDENT, Style::PLAIN));
            line
        }));
    }
    lines
}

pub(super) fn file_change_headline(item: &FileChangeItem) -> Line {
    let style = match item.status {
        PatchApplyStatus::InProgress => Palette::ACCENT,
        PatchApplyStatus::Completed => Palette::GOOD,
        PatchApplyStatus::Failed => Palette::ERROR,
        PatchApplyStatus::Declined => Palette::WARNING,
    };
    let Phrase { label, text } = item.headline();
    Line::new(MARK, style).with(label, Style::BOLD).with(text.into_owned(), Style::PLAIN)
}

/// The beginning of a result, with the number of lines left out.
fn first_lines(text: &str, context: &Context) -> Vec<Line> {
    let count = text.lines().count();
    let shown: Vec<&str> = text.lines().take(RESULT).collect();
    let mut lines = remark(&shown.join("\n"), Palette::QUIET, context);
    if count > RESULT {
        lines.extend(remark(&format!("… {} more lines", count - RESULT), Palette::QUIET, context));
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
