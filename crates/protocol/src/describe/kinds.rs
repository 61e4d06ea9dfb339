//! Facts that only one kind of item has: what its headline, its title and its output are made of.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;

use super::{Activity, Call, Phrase};
use crate::item::{
    CollabAgentState, CollabAgentTool, CollabToolCallItem, CommandAction, CommandExecutionItem,
    CommandExecutionSource, CommandExecutionStatus, DynamicToolCallItem, FileChangeItem,
    HookPromptItem, McpToolCallItem, PatchApplyStatus, PatchChangeKind, ReasoningItem,
    WebSearchAction, WebSearchItem,
};
use crate::json_text::JsonText;
use crate::tool::DynamicToolCallOutputContentItem;

/// Characters of a call's arguments in a headline.
pub(super) const MAX_ARGUMENTS: usize = 400;

/// Words for what an agent does with another.
pub(super) struct AgentWords {
    pub(super) title: &'static str,
    doing: &'static str,
    /// Of the other agent.
    pub(super) was: &'static str,
}

impl HookPromptItem {
    /// Returns the texts of all the hooks, a paragraph each.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.fragments.iter().map(|it| it.text.as_str()).collect();
        texts.join("\n")
    }
}

impl ReasoningItem {
    /// Separates the sections of [`Self::text`].
    pub const BETWEEN_SECTIONS: &str = "\n\n";

    /// Returns the summary, or the raw reasoning where there is none.
    pub fn text(&self) -> String {
        let sections = if self.summary.is_empty() { &self.content } else { &self.summary };
        sections.join(Self::BETWEEN_SECTIONS)
    }
}

impl CommandExecutionItem {
    /// Returns true if the command ran to its end with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.status == CommandExecutionStatus::Completed && self.exit_code == Some(0)
    }

    /// Returns the words in front of the command while it has not ended.
    pub fn doing(&self) -> &'static str {
        if self.awaits_approval { "Waits for approval: " } else { "Runs " }
    }

    /// Returns the words in front of the command: its outcome.
    pub fn label(&self) -> &'static str {
        match self.status {
            CommandExecutionStatus::InProgress => self.doing(),
            CommandExecutionStatus::Declined => "Not run: ",
            // It could not be started, or was cut off: whether it ran at all is not certain.
            CommandExecutionStatus::Failed if self.exit_code.is_none() => "Failed: ",
            _ if self.source == CommandExecutionSource::UserShell => "You ran: ",
            _ => "Ran ",
        }
    }

    pub(super) fn activity(&self) -> Activity {
        let all = |is: fn(&CommandAction) -> bool| {
            !self.command_actions.is_empty() && self.command_actions.iter().all(is)
        };
        if all(|action| matches!(action, CommandAction::Read { .. })) {
            Activity::Read
        } else if all(|action| !matches!(action, CommandAction::Unknown { .. })) {
            Activity::Search
        } else {
            Activity::Execute
        }
    }
}

impl FileChangeItem {
    /// Returns the outcome, and the file or the number of files.
    pub fn headline(&self) -> Phrase<'_> {
        let label = match self.status {
            PatchApplyStatus::InProgress => "Changes ",
            PatchApplyStatus::Completed => "Changed ",
            PatchApplyStatus::Failed => "Not changed: ",
            PatchApplyStatus::Declined => "Not changed, since it was declined: ",
        };
        match self.changes.as_slice() {
            [change] => Phrase::new(label, &change.path),
            _ => Phrase::new(label, self.files()),
        }
    }

    /// Returns the number of files, as in `2 files`.
    pub fn files(&self) -> String {
        match self.changes.len() {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        }
    }

    /// Returns the change as an imperative, with its paths from `cwd`.
    pub fn title(&self, cwd: &str) -> String {
        let verb = match self.activity() {
            Activity::Delete => "Delete",
            Activity::Move => "Move",
            _ if self.changes.iter().all(|change| change.kind == PatchChangeKind::Add) => "Add",
            _ => "Change",
        };
        let short = |path| match Path::new(path).strip_prefix(cwd) {
            Ok(below) => below.to_string_lossy(),
            Err(_) => Cow::Borrowed(path),
        };
        let names: Vec<_> = self.changes.iter().map(|change| short(&change.path)).collect();
        format!("{verb} {}", names.join(", "))
    }

    /// Returns deleting or moving, if the change does nothing else.
    pub fn activity(&self) -> Activity {
        let all = |is: fn(&PatchChangeKind) -> bool| {
            !self.changes.is_empty() && self.changes.iter().all(|change| is(&change.kind))
        };
        if all(|kind| *kind == PatchChangeKind::Delete) {
            return Activity::Delete;
        }
        let moves = self.changes.iter().all(|change| change.diff.is_empty());
        if moves && all(|kind| matches!(kind, PatchChangeKind::Update { move_path: Some(_) })) {
            return Activity::Move;
        }
        Activity::Edit
    }
}

impl McpToolCallItem {
    pub(super) fn headline(&self) -> String {
        named_call(&format!("{}.{}", self.server, self.tool), &self.arguments)
    }

    /// Returns the texts of the result; of other contents the type.
    pub(super) fn output(&self) -> String {
        let contents = self.result.iter().flat_map(|result| &result.content);
        let text = |content: &Value| match content["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[{}]", content["type"].as_str().unwrap_or("content")),
        };
        contents.map(text).collect::<Vec<_>>().join("\n")
    }
}

impl DynamicToolCallItem {
    pub(super) fn output(&self) -> String {
        let contents = self.content_items.iter().flatten();
        let texts: Vec<&str> = contents
            .map(|content| match content {
                DynamicToolCallOutputContentItem::InputText { text } => text.as_str(),
                DynamicToolCallOutputContentItem::InputImage { .. } => "[inputImage]",
            })
            .collect();
        texts.join("\n")
    }
}

impl CollabToolCallItem {
    pub(super) fn headline(&self) -> Cow<'static, str> {
        let doing = agent_words(self.tool).doing;
        match &self.prompt {
            Some(prompt) => {
                format!("{doing}: {}", prompt.lines().next().unwrap_or_default()).into()
            }
            None => doing.into(),
        }
    }

    /// A line for each agent: its thread, its state, and the beginning of what it says.
    pub(super) fn agents(&self) -> Vec<String> {
        let line = |(thread, state): (&String, &CollabAgentState)| {
            let message = state.message.as_deref().unwrap_or_default();
            let message = message.lines().next().unwrap_or_default();
            format!("{thread}: {:?}  {message}", state.status).trim_end().to_owned()
        };
        self.agents_states.iter().map(line).collect()
    }
}

impl WebSearchItem {
    pub(super) fn done(&self) -> Cow<'_, str> {
        match &self.action {
            Some(WebSearchAction::OpenPage { url: Some(url) }) => format!("opened {url}").into(),
            Some(WebSearchAction::FindInPage { url, pattern }) => format!(
                "looked for {} in {}",
                pattern.as_deref().unwrap_or_default(),
                url.as_deref().unwrap_or("a page"),
            )
            .into(),
            _ => (&self.query).into(),
        }
    }

    pub(super) fn call(&self) -> Call<'static> {
        let (activity, title) = match &self.action {
            Some(WebSearchAction::OpenPage { url: Some(url) }) => {
                (Activity::Fetch, format!("Open {url}"))
            }
            Some(WebSearchAction::FindInPage { url: Some(url), pattern }) => {
                let pattern = pattern.as_deref().unwrap_or_default();
                (Activity::Search, format!("Find {pattern} in {url}"))
            }
            _ => (Activity::Search, format!("Search the web: {}", self.query)),
        };
        Call { title: title.into(), activity, paths: None }
    }
}

impl CollabAgentTool {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::SpawnAgent, Self::SendInput, Self::ResumeAgent, Self::Wait, Self::CloseAgent];

    /// An imperative.
    pub fn title(self) -> &'static str {
        agent_words(self).title
    }
}

pub(super) fn agent_words(tool: CollabAgentTool) -> AgentWords {
    let words = |title, doing, was| AgentWords { title, doing, was };
    match tool {
        CollabAgentTool::SpawnAgent => words("Start an agent", "Starts an agent", "was started"),
        CollabAgentTool::SendInput => {
            words("Write to an agent", "Writes to an agent", "was sent a message")
        }
        CollabAgentTool::ResumeAgent => {
            words("Resume an agent", "Goes on with an agent", "was resumed")
        }
        CollabAgentTool::Wait => words("Wait for agents", "Waits for agents", "was waited for"),
        CollabAgentTool::CloseAgent => words("End an agent", "Closes an agent", "was closed"),
    }
}

/// A call with its arguments on one line, cut where they are long.
pub(super) fn named_call(name: &str, arguments: &JsonText) -> String {
    let text = if arguments.is_null() { "" } else { arguments.as_str() };
    match text.char_indices().nth(MAX_ARGUMENTS) {
        Some((end, _)) => format!("{name}({} … {} bytes more)", &text[..end], text.len() - end),
        None => format!("{name}({text})"),
    }
}
