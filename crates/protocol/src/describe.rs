//! Facts of the items of a turn, for programs that show them: how an item stands, and how it reads as a
//! step, as a line of a log, as a call in an editor, as a note on a page and as Markdown. A kind of item is
//! described here and nowhere else: the matches are exhaustive, and programs have code of their own only for
//! the kinds that they draw in a special way.
//!
//! Only Markdown is escaped. Otherwise, a text may hold whatever the model or a tool wrote, on many lines.

mod kinds;
mod markdown;

use std::borrow::Cow;

use crate::item::{
    CollabToolCallStatus, CommandExecutionItem, CommandExecutionStatus, DynamicToolCallStatus,
    FileChangeItem, ItemKind, McpToolCallStatus, PatchApplyStatus, ReasoningItem, ThreadItem,
    UserMessageItem, WebSearchAction,
};
use kinds::{agent_words, named_call};
use markdown::{Page, code, on_one_line};

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    /// It runs, or waits for an approval.
    InProgress,
    /// It succeeded. Messages always did.
    Completed,
    Failed,
    Declined,
}

/// A label and what it is about, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase<'a> {
    /// Ends with a space, or with the phrase, where it stands in front of a text in one sentence.
    pub label: &'static str,
    pub text: Cow<'a, str>,
}

/// Content of an item that has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Body<'a> {
    /// The user's input.
    Input(&'a UserMessageItem),
    /// Markdown for the user.
    Answer(&'a str),
    Reasoning(&'a ReasoningItem),
    /// Text from another source than the user and the model, and the name of the source.
    Aside(Phrase<'a>),
    Command(&'a CommandExecutionItem),
    Changes(&'a FileChangeItem),
    Step(Step<'a>),
}

/// A step of the agent that a headline describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<'a> {
    pub done: Phrase<'a>,
    /// Lines about the agents or things that it concerned.
    pub notes: Vec<String>,
    /// The text that it returned.
    pub output: String,
}

/// A step of the agent as a call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// An imperative.
    pub title: Cow<'a, str>,
    pub activity: Activity,
    /// The files that it concerns; `None` where the kind concerns none.
    pub paths: Option<Vec<&'a str>>,
}

/// The activity of a call, for a symbol next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    Other,
}

/// A kind of item as one line of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    pub title: &'static str,
    /// The item's member on the wire that follows the title.
    pub member: Option<&'static str>,
}

impl ThreadItem {
    /// Returns the item's status. A kind without one is complete, or failed where it has a reason.
    pub fn status(&self) -> ItemStatus {
        match self {
            Self::CommandExecution(it) => match it.status {
                CommandExecutionStatus::InProgress => ItemStatus::InProgress,
                CommandExecutionStatus::Completed => ItemStatus::Completed,
                CommandExecutionStatus::Failed => ItemStatus::Failed,
                CommandExecutionStatus::Declined => ItemStatus::Declined,
            },
            Self::FileChange(it) => match it.status {
                PatchApplyStatus::InProgress => ItemStatus::InProgress,
                PatchApplyStatus::Completed => ItemStatus::Completed,
                PatchApplyStatus::Failed => ItemStatus::Failed,
                PatchApplyStatus::Declined => ItemStatus::Declined,
            },
            Self::McpToolCall(it) => match it.status {
                McpToolCallStatus::InProgress => ItemStatus::InProgress,
                McpToolCallStatus::Completed => ItemStatus::Completed,
                McpToolCallStatus::Failed => ItemStatus::Failed,
            },
            Self::DynamicToolCall(it) => match it.status {
                DynamicToolCallStatus::InProgress => ItemStatus::InProgress,
                DynamicToolCallStatus::Completed if it.success != Some(false) => {
                    ItemStatus::Completed
                }
                DynamicToolCallStatus::Completed | DynamicToolCallStatus::Failed => {
                    ItemStatus::Failed
                }
            },
            Self::CollabToolCall(it) => match it.status {
                CollabToolCallStatus::InProgress => ItemStatus::InProgress,
                CollabToolCallStatus::Completed => ItemStatus::Completed,
                CollabToolCallStatus::Failed => ItemStatus::Failed,
            },
            Self::ImageGeneration(it) if it.status == "in_progress" => ItemStatus::InProgress,
            Self::UserMessage(_)
            | Self::HookPrompt(_)
            | Self::AgentMessage(_)
            | Self::Plan(_)
            | Self::Reasoning(_)
            | Self::WebSearch(_)
            | Self::ImageView(_)
            | Self::ImageGeneration(_)
            | Self::EnteredReviewMode(_)
            | Self::ExitedReviewMode(_)
            | Self::ContextCompaction(_) => match self.failure() {
                None => ItemStatus::Completed,
                Some(_) => ItemStatus::Failed,
            },
        }
    }

    /// Returns why the item failed or was declined, where the item says so.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::FileChange(it) => it.reason.as_deref(),
            Self::McpToolCall(it) => it.error.as_ref().map(|error| error.message.as_str()),
            Self::CollabToolCall(it) => it.reason.as_deref(),
            Self::WebSearch(it) => it.reason.as_deref(),
            Self::ImageView(it) => it.reason.as_deref(),
            Self::ImageGeneration(it) => it.reason.as_deref(),
            Self::ContextCompaction(it) => it.reason.as_deref(),
            Self::UserMessage(_)
            | Self::HookPrompt(_)
            | Self::AgentMessage(_)
            | Self::Plan(_)
            | Self::Reasoning(_)
            | Self::CommandExecution(_)
            | Self::DynamicToolCall(_)
            | Self::EnteredReviewMode(_)
            | Self::ExitedReviewMode(_) => None,
        }
    }

    /// Returns the headline while the item is in progress.
    pub fn doing(&self) -> Phrase<'_> {
        match self {
            Self::CommandExecution(it) => Phrase::new(it.doing(), &it.command),
            Self::FileChange(it) => it.headline(),
            Self::McpToolCall(it) => Phrase::new("Calls ", it.headline()),
            Self::DynamicToolCall(it) => Phrase::new("Calls ", &it.tool),
            Self::CollabToolCall(it) => Phrase::new("", it.headline()),
            Self::WebSearch(it) => Phrase::new("Searches the web: ", &it.query),
            Self::ImageView(it) => Phrase::new("Looks at ", &it.path),
            Self::ImageGeneration(_) => Phrase::new("Makes an image", ""),
            Self::EnteredReviewMode(it) => Phrase::new("Reviews ", &it.review),
            Self::ExitedReviewMode(_) => Phrase::new("Ends the review", ""),
            Self::ContextCompaction(_) => Phrase::new("Summarises the conversation", ""),
            Self::UserMessage(_) | Self::HookPrompt(_) => Phrase::new("Message", ""),
            Self::AgentMessage(_) | Self::Plan(_) | Self::Reasoning(_) => Phrase::new("Writes", ""),
        }
    }

    /// Returns the content to show when the item has ended.
    pub fn body(&self) -> Body<'_> {
        match self {
            Self::UserMessage(it) => Body::Input(it),
            Self::HookPrompt(it) => Body::Aside(Phrase::new("Hook", it.text())),
            Self::AgentMessage(it) => Body::Answer(&it.text),
            Self::Plan(it) => Body::Answer(&it.text),
            Self::Reasoning(it) => Body::Reasoning(it),
            Self::CommandExecution(it) => Body::Command(it),
            Self::FileChange(it) => Body::Changes(it),
            Self::McpToolCall(it) => {
                Body::Step(Step { output: it.output(), ..Step::new("Called ", it.headline()) })
            }
            Self::DynamicToolCall(it) => Body::Step(Step {
                output: it.output(),
                ..Step::new("Called ", named_call(&it.tool, &it.arguments))
            }),
            Self::CollabToolCall(it) => {
                Body::Step(Step { notes: it.agents(), ..Step::new("", it.headline()) })
            }
            Self::WebSearch(it) => Body::Step(Step::new("Web: ", it.done())),
            Self::ImageView(it) => Body::Step(Step::new("Looked at ", &it.path)),
            Self::ImageGeneration(it) => {
                let what = it.saved_path.as_deref().or(it.revised_prompt.as_deref());
                Body::Step(Step::new("Made an image: ", what.unwrap_or_default()))
            }
            Self::EnteredReviewMode(it) => Body::Step(Step::new("Reviews ", &it.review)),
            Self::ExitedReviewMode(it) => Body::Answer(&it.review),
            Self::ContextCompaction(_) => {
                Body::Step(Step::new("Summarised the conversation to free the context", ""))
            }
        }
    }

    /// Returns the item in a log, with the reason of its failure. `None` for texts that a log shows without a label.
    pub fn line(&self) -> Option<Phrase<'_>> {
        let with_reason = |text: &str| match self.failure() {
            None => text.to_owned(),
            Some(reason) => format!("{text}: {reason}"),
        };
        Some(match self {
            Self::UserMessage(_) | Self::Reasoning(_) => return None,
            Self::HookPrompt(it) => Phrase::new("hook", it.text()),
            Self::AgentMessage(it) => Phrase::new("agent", &it.text),
            Self::Plan(it) => Phrase::new("plan", &it.text),
            Self::CommandExecution(it) => Phrase::new("$", &it.command),
            Self::FileChange(it) => Phrase::new("change", it.files()),
            Self::McpToolCall(it) => {
                Phrase::new("tool", with_reason(&format!("{}/{}", it.server, it.tool)))
            }
            Self::DynamicToolCall(it) => match it.success {
                Some(false) => Phrase::new("tool", format!("{}: failed", it.tool)),
                _ => Phrase::new("tool", &it.tool),
            },
            Self::CollabToolCall(it) => {
                let what = it.prompt.as_deref().unwrap_or(agent_words(it.tool).title);
                Phrase::new("agents", with_reason(what))
            }
            Self::WebSearch(it) => Phrase::new("search", with_reason(&it.query)),
            Self::ImageView(it) => Phrase::new("image", with_reason(&it.path)),
            Self::ImageGeneration(it) => {
                let prompt = it.revised_prompt.as_deref().unwrap_or("generated");
                Phrase::new("image", with_reason(prompt))
            }
            Self::EnteredReviewMode(it) | Self::ExitedReviewMode(it) => {
                Phrase::new("review", &it.review)
            }
            Self::ContextCompaction(it) => match &it.reason {
                None => Phrase::new("history", "replaced by a summary, to fit the model's context"),
                Some(reason) => Phrase::new("history", format!("left as it is: {reason}")),
            },
        })
    }

    /// Returns the item as a call of a tool; `None` for messages and for what only concerns the conversation. Paths
    /// in the title are shown from `cwd`.
    pub fn call(&self, cwd: &str) -> Option<Call<'_>> {
        let call = |title: Cow<'static, str>, activity| Call { title, activity, paths: None };
        Some(match self {
            Self::HookPrompt(_) => call("A hook added text".into(), Activity::Other),
            Self::CommandExecution(it) => {
                Call { title: (&it.command).into(), activity: it.activity(), paths: None }
            }
            Self::FileChange(it) => call(it.title(cwd).into(), it.activity()),
            Self::McpToolCall(it) => {
                call(format!("{}: {}", it.server, it.tool).into(), Activity::Other)
            }
            Self::DynamicToolCall(it) => {
                Call { title: (&it.tool).into(), activity: Activity::Other, paths: None }
            }
            Self::CollabToolCall(it) => call(agent_words(it.tool).title.into(), Activity::Think),
            Self::WebSearch(it) => it.call(),
            Self::ImageView(it) => Call {
                title: format!("View {}", it.path).into(),
                activity: Activity::Read,
                paths: Some(vec![&it.path]),
            },
            Self::ImageGeneration(it) => Call {
                title: match &it.revised_prompt {
                    Some(prompt) => format!("Draw {prompt}").into(),
                    None => "Draw an image".into(),
                },
                activity: Activity::Other,
                paths: Some(it.saved_path.iter().map(String::as_str).collect()),
            },
            Self::EnteredReviewMode(it) => {
                call(format!("Review {}", it.review).into(), Activity::Think)
            }
            Self::UserMessage(_)
            | Self::AgentMessage(_)
            | Self::Plan(_)
            | Self::Reasoning(_)
            | Self::ExitedReviewMode(_)
            | Self::ContextCompaction(_) => return None,
        })
    }

    fn write(&self, page: &mut Page) {
        match self {
            Self::UserMessage(it) => {
                page.paragraph("## User");
                it.content.iter().for_each(|input| page.input(input));
            }
            Self::HookPrompt(it) => page.section("### Hook", [it.text()]),
            Self::AgentMessage(it) => page.section("## Agent", [&it.text]),
            Self::Plan(it) => page.section("### Plan", [&it.text]),
            Self::Reasoning(it) if it.summary.is_empty() => return,
            Self::Reasoning(it) => page.section("### Reasoning", &it.summary),
            Self::CommandExecution(it) => page.command(it),
            Self::FileChange(it) => page.changes(it),
            Self::McpToolCall(it) => page.tool(it),
            Self::DynamicToolCall(it) => {
                page.paragraph(&format!("### Tool {}", code(&it.tool)));
                page.fenced("json", &it.arguments.pretty());
            }
            Self::CollabToolCall(it) => {
                page.paragraph(&format!("### A sub-agent {}", agent_words(it.tool).was));
                it.prompt.iter().for_each(|prompt| page.fenced("", prompt));
            }
            Self::WebSearch(it) => page.paragraph(&match &it.action {
                Some(WebSearchAction::OpenPage { url: Some(url) }) => {
                    format!("Opened {}", code(url))
                }
                _ => format!("Searched the web for {}", code(&it.query)),
            }),
            Self::ImageView(it) => {
                page.paragraph(&format!("Looked at the image {}", code(&it.path)));
            }
            Self::ImageGeneration(it) => {
                let path = it.saved_path.as_ref().map(|path| format!(" {}", code(path)));
                page.paragraph(&format!("Made an image{}", path.unwrap_or_default()));
            }
            Self::EnteredReviewMode(it) => {
                page.paragraph(&format!("### Review of {}", on_one_line(&it.review)));
            }
            Self::ExitedReviewMode(it) => page.section("### Result of the review", [&it.review]),
            Self::ContextCompaction(_) => page.paragraph("*The context was compacted.*"),
        }
        if let Some(reason) = self.cut_off() {
            page.paragraph(&format!("*Cut off:* {}", on_one_line(reason)));
        }
        if let Some(reason) = self.failure() {
            page.paragraph(&format!("*Failed:* {}", on_one_line(reason)));
        }
    }
}

impl ItemKind {
    /// Returns the kind's note on a page; `None` for kinds that a page needs code of its own for.
    pub fn note(self) -> Option<Note> {
        let note = |title, member| Some(Note { title, member });
        match self {
            Self::HookPrompt => note("A hook says", None),
            Self::WebSearch => note("Searched the web", Some("query")),
            Self::ImageView => note("Looked at an image", Some("path")),
            Self::ImageGeneration => note("Made an image", Some("revisedPrompt")),
            Self::EnteredReviewMode => note("Review", Some("review")),
            Self::ContextCompaction => note("The context was compacted", None),
            Self::UserMessage
            | Self::AgentMessage
            | Self::Plan
            | Self::Reasoning
            | Self::CommandExecution
            | Self::FileChange
            | Self::McpToolCall
            | Self::DynamicToolCall
            | Self::CollabToolCall
            | Self::ExitedReviewMode => None,
        }
    }
}

/// Returns the items as Markdown, in their order, below `title`. What commands and
/// tools wrote is put into fences that it cannot end.
#[must_use]
pub fn markdown(title: Option<&str>, items: &[ThreadItem]) -> String {
    let mut page = Page::default();
    if let Some(title) = title {
        page.paragraph(&format!("# {}", on_one_line(title)));
    }
    items.iter().for_each(|item| item.write(&mut page));
    page.into_text()
}

impl<'a> Step<'a> {
    fn new(label: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self { done: Phrase::new(label, text), notes: Vec::new(), output: String::new() }
    }
}

impl<'a> Phrase<'a> {
    fn new(label: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        Self { label, text: text.into() }
    }
}

#[cfg(test)]
mod tests;
