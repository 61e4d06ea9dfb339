//! Changes of files, tools, agents and searches.

use protocol::{
    CollabAgentTool, CollabToolCallItem, CollabToolCallStatus, DynamicToolCallItem,
    DynamicToolCallStatus, FileChangeItem, McpToolCallItem, McpToolCallStatus, PatchApplyStatus,
    WebSearchAction, WebSearchItem,
};
use serde_json::Value;

use crate::cells::parts::{INDENT, MARK, duration, mark, marked, remark};
use crate::context::Context;
use crate::diff;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Characters of a call's arguments on its line.
const ARGUMENTS: usize = 400;
/// Lines of a changed file.
const LINES: usize = 60;
/// Lines of a tool's result.
const RESULT: usize = 6;

/// A cell of one line.
pub(super) fn line(
    label: &'static str,
    text: &str,
    failure: Option<&str>,
    context: &Context,
) -> Vec<Line> {
    let mut lines = marked(mark(failure.is_none()), label, text, context);
    if let Some(why) = failure {
        lines.extend(remark(why, Palette::ERROR, context));
    }
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
    let (style, verb) = match item.status {
        PatchApplyStatus::InProgress => (Palette::ACCENT, "Changes "),
        PatchApplyStatus::Completed => (Palette::GOOD, "Changed "),
        PatchApplyStatus::Failed => (Palette::ERROR, "Not changed: "),
        PatchApplyStatus::Declined => (Palette::WARNING, "Not changed, since it was declined: "),
    };
    let files = match item.changes.as_slice() {
        [change] => change.path.clone(),
        changes => format!("{} files", changes.len()),
    };
    Line::new(MARK, style).with(verb, Style::BOLD).with(files, Style::PLAIN)
}

/// Arguments on one line, cut with a sign where they are long.
fn arguments(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        value => value.to_string(),
    };
    match text.char_indices().nth(ARGUMENTS) {
        Some((end, _)) => format!("{} … {} bytes more", &text[..end], text.len() - end),
        None => text,
    }
}

pub(super) fn mcp_name(item: &McpToolCallItem) -> String {
    format!("{}.{}({})", item.server, item.tool, arguments(&item.arguments))
}

pub(super) fn mcp(item: &McpToolCallItem, context: &Context) -> Vec<Line> {
    let succeeded = item.status == McpToolCallStatus::Completed;
    let mut lines = marked(mark(succeeded), "Called ", &mcp_name(item), context);
    if let Some(error) = &item.error {
        lines.extend(remark(&error.message, Palette::ERROR, context));
    }
    let contents = item.result.iter().flat_map(|result| &result.content);
    let texts: Vec<String> = contents.map(content).collect();
    lines.extend(first_lines(&texts.join("\n"), context));
    lines
}

/// A part of a tool's result.
fn content(value: &Value) -> String {
    let member = |name: &str| value.get(name).and_then(Value::as_str);
    match member("text") {
        Some(text) => text.to_owned(),
        None => format!("[{}]", member("type").unwrap_or("content")),
    }
}

pub(super) fn dynamic(item: &DynamicToolCallItem, context: &Context) -> Vec<Line> {
    let succeeded = item.status == DynamicToolCallStatus::Completed && item.success != Some(false);
    let name = format!("{}({})", item.tool, arguments(&item.arguments));
    let mut lines = marked(mark(succeeded), "Called ", &name, context);
    let texts: Vec<String> = item
        .content_items
        .iter()
        .flatten()
        .filter_map(|part| serde_json::to_value(part).ok())
        .map(|part| content(&part))
        .collect();
    lines.extend(first_lines(&texts.join("\n"), context));
    lines
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

pub(super) fn agents_headline(item: &CollabToolCallItem) -> String {
    let verb = match item.tool {
        CollabAgentTool::SpawnAgent => "Starts an agent",
        CollabAgentTool::SendInput => "Writes to an agent",
        CollabAgentTool::ResumeAgent => "Goes on with an agent",
        CollabAgentTool::Wait => "Waits for agents",
        CollabAgentTool::CloseAgent => "Closes an agent",
    };
    match &item.prompt {
        Some(prompt) => format!("{verb}: {}", prompt.lines().next().unwrap_or_default()),
        None => verb.to_owned(),
    }
}

pub(super) fn agents(item: &CollabToolCallItem, context: &Context) -> Vec<Line> {
    let succeeded = item.status == CollabToolCallStatus::Completed;
    let mut lines = marked(mark(succeeded), "", &agents_headline(item), context);
    for (thread, state) in &item.agents_states {
        let message = state.message.as_deref().unwrap_or_default();
        let text =
            format!("{thread}: {:?}  {}", state.status, message.lines().next().unwrap_or(""));
        lines.extend(remark(text.trim_end(), Palette::QUIET, context));
    }
    if let Some(why) = &item.reason {
        lines.extend(remark(why, Palette::ERROR, context));
    }
    lines
}

pub(super) fn web_search(item: &WebSearchItem, context: &Context) -> Vec<Line> {
    let text = match &item.action {
        Some(WebSearchAction::OpenPage { url: Some(url) }) => format!("opened {url}"),
        Some(WebSearchAction::FindInPage { url, pattern }) => format!(
            "looked for {} in {}",
            pattern.as_deref().unwrap_or_default(),
            url.as_deref().unwrap_or("a page"),
        ),
        _ => item.query.clone(),
    };
    line("Web: ", &text, item.reason.as_deref(), context)
}

/// A headline with the time that has passed.
pub(super) fn running(label: &'static str, text: &str, elapsed_ms: Option<u64>) -> Line {
    let elapsed = elapsed_ms.map(|ms| format!("  {}", duration(ms)));
    Line::new(MARK, Palette::ACCENT)
        .with(label, Style::BOLD)
        .with(text.lines().next().unwrap_or_default().to_owned(), Style::PLAIN)
        .with(elapsed.unwrap_or_default(), Palette::QUIET)
}
