//! Commands that only read, list or search, folded into one line: `Explored: api.py, models.py`. The transcript has
//! each of them with its output.

use std::borrow::Cow;

use protocol::{
    CommandAction, CommandExecutionItem, CommandExecutionSource, CommandExecutionStatus, ThreadItem,
};

use crate::cells::parts::{MARK, duration};
use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Style, width};

/// Places that are kept; of more, only their number.
const MAX_PLACES: usize = 100;
/// Characters of a search text.
const MAX_QUERY: usize = 40;
/// The key that shows the output.
const KEY: &str = "  (Ctrl+T expands)";

/// The places that a row of commands looked at, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    places: Vec<String>,
    /// Places beyond the limit.
    more: usize,
}

/// Returns whether the command only looks around, and may be folded with others: while it runs, or when it found what
/// it looked for. One that failed is displayed by itself, but for a search that found nothing.
#[must_use]
pub fn explores(item: &ThreadItem) -> bool {
    let ThreadItem::CommandExecution(item) = item else { return false };
    let is_agents = matches!(
        item.source,
        CommandExecutionSource::Agent | CommandExecutionSource::UnifiedExecStartup
    );
    let is_known = |action: &CommandAction| !matches!(action, CommandAction::Unknown { .. });
    is_agents
        && !item.command_actions.is_empty()
        && item.command_actions.iter().all(is_known)
        && match item.status {
            CommandExecutionStatus::InProgress => !item.awaits_approval,
            CommandExecutionStatus::Completed => item.succeeded() || found_nothing(item),
            CommandExecutionStatus::Failed | CommandExecutionStatus::Declined => false,
        }
}

fn found_nothing(item: &CommandExecutionItem) -> bool {
    let is_search = |action: &CommandAction| matches!(action, CommandAction::Search { .. });
    let is_silent = item.aggregated_output.as_deref().is_none_or(|text| text.trim().is_empty());
    item.exit_code == Some(1) && is_silent && item.command_actions.iter().all(is_search)
}

impl Explored {
    /// Adds the places of a command.
    pub fn add(&mut self, item: &ThreadItem, context: &Context) {
        let ThreadItem::CommandExecution(item) = item else { return };
        for place in item.command_actions.iter().map(|action| place(action, context)) {
            if self.places.contains(&place) {
                continue;
            }
            match self.places.len() < MAX_PLACES {
                true => self.places.push(place),
                false => self.more += 1,
            }
        }
    }

    /// Returns whether there is nothing to display.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// One line with the places.
    #[must_use]
    pub fn line(&self, context: &Context) -> Line {
        let line = Line::new(MARK, Palette::GOOD).with("Explored: ", Style::BOLD);
        self.filled(line, KEY.to_owned(), context)
    }

    /// The same while a command runs, with the time that has passed.
    #[must_use]
    pub fn running(&self, elapsed_ms: Option<u64>, context: &Context) -> Line {
        let line = Line::new(MARK, Palette::ACCENT).with("Exploring: ", Style::BOLD);
        let elapsed = elapsed_ms.map(|ms| format!("  {}", duration(ms)));
        self.filled(line, elapsed.unwrap_or_default(), context)
    }

    /// The line with as many places as fit, and the number of the others.
    fn filled(&self, mut line: Line, end: String, context: &Context) -> Line {
        let room = context.width().saturating_sub(line.width() + width(&end));
        let mut text = String::new();
        let mut shown = 0;
        for place in &self.places {
            let gap = if shown == 0 { "" } else { ", " };
            let after = self.places.len() + self.more - shown - 1;
            let rest = if after == 0 { 0 } else { width(&others(after)) };
            if shown > 0 && width(&text) + width(gap) + width(place) + rest > room {
                break;
            }
            text.push_str(gap);
            text.push_str(place);
            shown += 1;
        }
        let left = self.places.len() + self.more - shown;
        if left > 0 {
            text.push_str(&others(left));
        }
        line.push(text, Style::PLAIN);
        if line.width() + width(&end) <= context.width() {
            line.push(end, Palette::QUIET);
        }
        line.truncated(context.width())
    }
}

fn others(count: usize) -> String {
    format!(" and {count} more")
}

/// A file, a folder or a search, as people write it.
fn place(action: &CommandAction, context: &Context) -> String {
    match action {
        CommandAction::Read { path, .. } => context.short(path).into_owned(),
        CommandAction::ListFiles { path, .. } => match within(path.as_deref(), context) {
            Some(path) => format!("{}/", path.trim_end_matches('/')),
            None => "./".to_owned(),
        },
        CommandAction::Search { query, path, .. } => {
            let query = query.as_deref().unwrap_or("…");
            let shown: String = query.chars().take(MAX_QUERY).collect();
            let cut = if shown.len() < query.len() { "…" } else { "" };
            match within(path.as_deref(), context) {
                Some(path) => format!("\"{shown}{cut}\" in {path}"),
                None => format!("\"{shown}{cut}\""),
            }
        }
        CommandAction::Unknown { command } => command.clone(),
    }
}

/// A path below the folder of the thread, or outside of it; none for the folder itself.
fn within<'p>(path: Option<&'p str>, context: &Context) -> Option<Cow<'p, str>> {
    path.map(|path| context.short(path)).filter(|path| path != ".")
}
