//! The status line: the items of `tui.status_line`.

use crate::app::notices;
use crate::app::program::{App, word};
use crate::palette::Palette;
use crate::text::Line;

/// Every item, with what it shows.
pub(crate) const ITEMS: &[(&str, &str)] = &[
    ("model", "the model and its effort"),
    ("mode", "what the agent may do"),
    ("folder", "the working folder"),
    ("branch", "the git branch"),
    ("context", "remaining context window"),
    ("limits", "remaining account limits"),
    ("tokens", "tokens of the thread"),
    ("cost", "what the thread cost"),
    ("approvals", "when the agent asks"),
    ("sandbox", "what commands may access"),
    ("agents", "how many agents work"),
    ("thread", "the thread's name, or its id"),
];

/// Other names of items.
const ALIASES: &[(&str, &str)] = &[
    ("model-with-reasoning", "model"),
    ("current-dir", "folder"),
    ("git-branch", "branch"),
    ("context-remaining", "context"),
    ("used-tokens", "tokens"),
    ("session-id", "thread"),
];

/// True if both names are of the same item.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    usual(one) == usual(other)
}

/// The description of an item; none where there is no such item.
pub(super) fn detail(item: &str) -> Option<&'static str> {
    let name = usual(item);
    ITEMS.iter().find(|(id, _)| *id == name).map(|(_, detail)| *detail)
}

/// Checks that an item of `tui.status_line` exists.
///
/// # Errors
/// What is wrong, with the names of the items.
pub fn check_status_item(item: &str) -> Result<(), String> {
    match detail(item) {
        Some(_) => Ok(()),
        None => {
            let names: Vec<&str> = ITEMS.iter().map(|(id, _)| *id).collect();
            Err(format!("the status line has no item {item:?}; it has {}", names.join(", ")))
        }
    }
}

pub(super) fn status_line(app: &App) -> Option<Line> {
    let items = &app.settings.status_line;
    if items.is_empty() {
        return None;
    }
    let plans = app.session.plans.then(|| "plan mode".to_owned());
    let shown = items.iter().filter_map(|item| status_item(app, usual(item)));
    let shown: Vec<String> = plans.into_iter().chain(shown).collect();
    Some(Line::new(format!("  {}", shown.join(" · ")), Palette::QUIET))
}

/// None where there is nothing to show.
fn status_item(app: &App, item: &str) -> Option<String> {
    let session = &app.session;
    let text = match item {
        "model" => match &session.effort {
            Some(effort) => format!("{} {}", session.model, word(effort)),
            None => session.model.clone(),
        },
        "folder" => {
            let cwd = app.cwd();
            app.folder(&cwd.to_string_lossy())
        }
        "branch" => session.branch.clone()?,
        "context" => {
            let usage = session.usage.as_ref()?;
            let window = usage.model_context_window.filter(|window| *window > 0)?;
            let left = (window - usage.last.total_tokens).clamp(0, window);
            format!("{}% context left", left.saturating_mul(100) / window)
        }
        "tokens" => {
            let total = session.usage.as_ref()?.total.total_tokens;
            format!("{} tokens", count(total))
        }
        "limits" => notices::limits_left(app)?,
        "cost" => {
            let cost = session.usage.as_ref()?.cost.as_ref()?;
            format!("{} {}", cost.thread.as_ref()?, cost.currency)
        }
        "approvals" => format!("asks: {}", session.approval),
        "mode" => session.mode.to_owned(),
        "sandbox" => session.sandbox.to_owned(),
        "agents" => {
            let running = session.agents.values();
            let running = running.filter(|it| it.status == protocol::CollabAgentStatus::Running);
            match running.count() {
                0 => return None,
                1 => "1 agent".to_owned(),
                more => format!("{more} agents"),
            }
        }
        "thread" => session.name.clone().or_else(|| session.id.clone())?,
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

fn usual(item: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == item).map_or(item, |(_, name)| name)
}

/// A number of tokens, short.
fn count(tokens: i64) -> String {
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}
