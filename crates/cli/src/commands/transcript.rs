//! Renders the notifications of a turn as text. It answers no request and decides nothing.

mod diff;
mod palette;
mod words;

use std::io::{self, Write};
use std::path::PathBuf;

use jsonrpc::Notification;
use protocol::hooks::{HookOutputEntryKind, HookRunSummary};
use protocol::{
    AgentMessageItem, CommandExecutionItem, CommandExecutionStatus, FileChangeItem,
    FileUpdateChange, MessagePhase, PatchApplyStatus, ThreadItem, ThreadTokenUsage,
    TurnPlanStepStatus, TurnPlanUpdatedNotification,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::commands::transcript::diff::Kind;

pub(crate) use palette::{Palette, Style, clean};
pub(crate) use words::{grouped, sandbox_name, seconds, tokens};

/// The amount of detail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    /// Messages as they arrive, changes before they are approved, room between the parts. Else a
    /// log: each part when it is complete, and no final answer.
    pub(crate) is_live: bool,
    /// Most lines of a command's output; the last ones are kept.
    pub(crate) output_lines: usize,
    /// Most lines of a file's diff; the first ones are kept.
    pub(crate) diff_lines: usize,
    /// Summaries of reasoning.
    pub(crate) reasoning: bool,
}

/// Longest line of output or diff, in characters.
const LINE_CHARS: usize = 240;

/// Writes one turn after the other to `out`.
pub(crate) struct Transcript<W> {
    /// The last token usage received.
    pub(crate) usage: Option<ThreadTokenUsage>,
    /// Why the last command that did not start failed.
    pub(crate) not_started: Option<String>,
    out: W,
    palette: Palette,
    detail: Detail,
    cwd: PathBuf,
    /// The item whose block was opened last.
    open: Option<String>,
    /// True if that block is a message in the middle of its text.
    is_streaming: bool,
    /// Newlines at the end of that text, written when more follows.
    newlines: usize,
    /// A message without a phase, or the result of a review: the answer, unless something follows.
    held: Option<(&'static str, String)>,
}

impl<W: Write> Transcript<W> {
    /// A transcript of work in `cwd`, whose paths are shown in short.
    pub(crate) fn new(out: W, palette: Palette, detail: Detail, cwd: PathBuf) -> Self {
        Self {
            usage: None,
            not_started: None,
            out,
            palette,
            detail,
            cwd,
            open: None,
            is_streaming: false,
            newlines: 0,
            held: None,
        }
    }

    /// Renders a notification; skips those that a person does not need.
    ///
    /// # Errors
    /// Of the output, and `InvalidData` for parameters that do not fit their method.
    pub(crate) fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        match method {
            protocol::ItemStarted::NAME => {
                self.started(&read::<protocol::ItemStarted>(params)?.item)
            }
            protocol::ItemCompleted::NAME => {
                self.completed(&read::<protocol::ItemCompleted>(params)?.item)
            }
            protocol::ItemAgentMessageDelta::NAME if self.detail.is_live => {
                let event = read::<protocol::ItemAgentMessageDelta>(params)?;
                self.stream(&event.item_id, &event.delta)
            }
            protocol::TurnPlanUpdated::NAME => {
                self.plan(&read::<protocol::TurnPlanUpdated>(params)?)
            }
            protocol::ThreadTokenUsageUpdated::NAME => {
                self.usage = Some(read::<protocol::ThreadTokenUsageUpdated>(params)?.token_usage);
                Ok(())
            }
            protocol::TurnErrorEvent::NAME => {
                let event = read::<protocol::TurnErrorEvent>(params)?;
                // The last one comes again with the turn's end.
                if event.will_retry {
                    self.warn(&event.error.message, Some("trying again"))
                } else {
                    Ok(())
                }
            }
            protocol::ConfigWarning::NAME => {
                let event = read::<protocol::ConfigWarning>(params)?;
                self.warn(&event.summary, event.details.as_deref())
            }
            protocol::DeprecationNotice::NAME => {
                let event = read::<protocol::DeprecationNotice>(params)?;
                self.warn(&event.summary, event.details.as_deref())
            }
            protocol::HookCompleted::NAME => {
                self.hook_end(&read::<protocol::HookCompleted>(params)?.run)
            }
            protocol::Warning::NAME => self.warn(&read::<protocol::Warning>(params)?.message, None),
            _ => Ok(()),
        }
    }

    /// Opens a block: a label and its text.
    pub(crate) fn block(&mut self, style: Style, label: &str, text: &str) -> io::Result<()> {
        self.separate()?;
        let label = self.palette.paint(style, label);
        let text = clean(text);
        match text.trim_end_matches('\n') {
            "" => writeln!(self.out, "{label}"),
            text => writeln!(self.out, "{label} {}", indented(text)),
        }?;
        self.out.flush()
    }

    /// A line inside the block.
    pub(crate) fn line(&mut self, style: Option<Style>, text: &str) -> io::Result<()> {
        match style {
            Some(style) => writeln!(self.out, "  {}", self.palette.paint(style, text)),
            None => writeln!(self.out, "  {text}"),
        }?;
        self.out.flush()
    }

    /// A line without indent, as it is.
    pub(crate) fn plain(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Writes the last words at the end of a turn. The caller shows the answer of one that is
    /// completed.
    pub(crate) fn finish(&mut self, is_completed: bool) -> io::Result<()> {
        self.end_stream()?;
        if is_completed {
            self.held = None;
        }
        self.release_held()?;
        let Some(usage) = &self.usage else { return Ok(()) };
        let text = tokens(&usage.total);
        self.block(Style::Dim, "tokens", &text)
    }

    /// Writes the facts about a hook for a person: what it refused, why it failed, and what it
    /// says.
    fn hook_end(&mut self, run: &HookRunSummary) -> io::Result<()> {
        let said = |kinds: &[HookOutputEntryKind]| {
            let entries = run.entries.iter().filter(|entry| kinds.contains(&entry.kind));
            entries.map(|entry| entry.text.clone()).collect::<Vec<_>>().join("\n")
        };
        let event = serde_json::to_value(run.event_name).unwrap_or_default();
        let event = event.as_str().unwrap_or_default();
        let refusals = said(&[HookOutputEntryKind::Feedback, HookOutputEntryKind::Stop]);
        if !refusals.is_empty() {
            self.block(Style::Mark, "hook", &format!("{event}: {refusals}"))?;
        }
        let warnings = said(&[HookOutputEntryKind::Error, HookOutputEntryKind::Warning]);
        match warnings.as_str() {
            "" => Ok(()),
            warnings => {
                let about = format!("the hook of {event} in {}: {warnings}", run.source_path);
                self.warn(&about, None)
            }
        }
    }

    fn started(&mut self, item: &ThreadItem) -> io::Result<()> {
        self.release_held_before(item)?;
        match item {
            ThreadItem::CommandExecution(command) => self.command_line(command),
            ThreadItem::FileChange(change) if self.detail.is_live => self.changes(change),
            _ => Ok(()),
        }
    }

    fn completed(&mut self, item: &ThreadItem) -> io::Result<()> {
        match item {
            ThreadItem::AgentMessage(message) => self.message(message),
            ThreadItem::CommandExecution(command) => self.command_end(command),
            ThreadItem::FileChange(change) => self.change_end(change),
            ThreadItem::Reasoning(reasoning) => self.reasoning(&reasoning.summary),
            ThreadItem::ExitedReviewMode(review) if !self.detail.is_live => {
                self.release_held_before(item)?;
                self.held = Some(("review", review.review.clone()));
                Ok(())
            }
            other => match other.line() {
                Some(line) => self.block(Style::Mark, line.label, &line.text),
                None => Ok(()),
            },
        }
    }

    fn stream(&mut self, item: &str, delta: &str) -> io::Result<()> {
        if self.open.as_deref() != Some(item) || !self.is_streaming {
            self.separate()?;
            write!(self.out, "{} ", self.palette.paint(Style::Bold, "agent"))?;
            self.open = Some(item.to_owned());
            self.is_streaming = true;
            self.newlines = 0;
        }
        let text = "\n".repeat(self.newlines) + &clean(delta);
        let shown = text.trim_end_matches('\n');
        self.newlines = text.len() - shown.len();
        write!(self.out, "{}", indented(shown))?;
        self.out.flush()
    }

    fn message(&mut self, message: &AgentMessageItem) -> io::Result<()> {
        let was_streamed = self.is_streaming && self.open.as_deref() == Some(&message.id);
        if was_streamed {
            return self.end_stream();
        }
        self.release_held()?;
        match message.phase {
            _ if self.detail.is_live => self.block(Style::Bold, "agent", &message.text),
            Some(MessagePhase::Commentary) => self.block(Style::Bold, "agent", &message.text),
            Some(MessagePhase::FinalAnswer) => Ok(()),
            None => {
                self.held = Some(("agent", message.text.clone()));
                Ok(())
            }
        }
    }

    fn release_held(&mut self) -> io::Result<()> {
        match self.held.take() {
            Some((label, text)) => self.block(Style::Bold, label, &text),
            None => Ok(()),
        }
    }

    /// As [`Self::release_held`]; the result of a review contains the message before it.
    fn release_held_before(&mut self, item: &ThreadItem) -> io::Result<()> {
        if matches!(item, ThreadItem::ExitedReviewMode(_)) {
            self.held = None;
        }
        self.release_held()
    }

    fn reasoning(&mut self, summary: &[String]) -> io::Result<()> {
        let text = summary.join("\n").replace("**", "");
        if !self.detail.reasoning || text.trim().is_empty() {
            return Ok(());
        }
        self.separate()?;
        for line in clean(&text).lines().filter(|line| !line.trim().is_empty()) {
            writeln!(self.out, "{}", self.palette.paint(Style::Dim, line))?;
        }
        self.out.flush()
    }

    fn plan(&mut self, event: &TurnPlanUpdatedNotification) -> io::Result<()> {
        self.block(Style::Mark, "plan", event.explanation.as_deref().unwrap_or_default())?;
        for step in &event.plan {
            let (mark, style) = match step.status {
                TurnPlanStepStatus::Completed => ("✓", Some(Style::Good)),
                TurnPlanStepStatus::InProgress => ("▸", Some(Style::Bold)),
                TurnPlanStepStatus::Pending => ("·", None),
            };
            self.line(style, &format!("{mark} {}", clean(&step.step)))?;
        }
        Ok(())
    }

    fn command_line(&mut self, command: &CommandExecutionItem) -> io::Result<()> {
        self.block(Style::Mark, "$", &command.command)?;
        self.open = Some(command.id.clone());
        Ok(())
    }

    fn command_end(&mut self, command: &CommandExecutionItem) -> io::Result<()> {
        if self.open.as_deref() != Some(&command.id) {
            self.command_line(command)?;
        }
        let output = clean(command.aggregated_output.as_deref().unwrap_or_default());
        let lines: Vec<&str> = output.lines().collect();
        let hidden = lines.len().saturating_sub(self.detail.output_lines);
        if hidden > 0 {
            self.line(Some(Style::Dim), &format!("… {hidden} lines above"))?;
        }
        for line in &lines[hidden..] {
            self.line(None, cut(line))?;
        }
        let took = command.duration_ms.map(|ms| format!(" in {}", seconds(ms))).unwrap_or_default();
        match (command.status, command.exit_code) {
            (CommandExecutionStatus::Declined, _) => {
                self.line(Some(Style::Warn), "declined: not run")
            }
            (_, Some(0)) => self.line(Some(Style::Good), &format!("exit 0{took}")),
            (_, Some(code)) => self.line(Some(Style::Bad), &format!("exit {code}{took}")),
            (CommandExecutionStatus::Failed, None) => {
                self.not_started = Some(output);
                self.line(Some(Style::Bad), "failed: the command did not finish")
            }
            (_, None) => self.line(Some(Style::Dim), "still running"),
        }
    }

    fn changes(&mut self, item: &FileChangeItem) -> io::Result<()> {
        self.block(Style::Mark, "change", &item.files())?;
        self.open = Some(item.id.clone());
        item.changes.iter().try_for_each(|change| self.change(change))
    }

    fn change(&mut self, change: &FileUpdateChange) -> io::Result<()> {
        let (added, removed) = diff::counts(change);
        let title = clean(&diff::title(change, &self.cwd));
        let added = self.palette.paint(Style::Good, format!("+{added}"));
        let removed = self.palette.paint(Style::Bad, format!("-{removed}"));
        writeln!(self.out, "  {title}  {added} {removed}")?;
        let lines = diff::lines(change);
        for (kind, line) in lines.iter().take(self.detail.diff_lines) {
            let line = clean(line);
            let style = match kind {
                Kind::Added => Some(Style::Good),
                Kind::Removed => Some(Style::Bad),
                Kind::HunkHeader => Some(Style::Mark),
                Kind::Context => None,
            };
            match style {
                Some(style) => writeln!(self.out, "    {}", self.palette.paint(style, cut(&line))),
                None => writeln!(self.out, "    {}", cut(&line)),
            }?;
        }
        let hidden = lines.len().saturating_sub(self.detail.diff_lines);
        if hidden > 0 && self.detail.diff_lines > 0 {
            writeln!(self.out, "    … {hidden} lines more")?;
        }
        self.out.flush()
    }

    fn change_end(&mut self, item: &FileChangeItem) -> io::Result<()> {
        if self.open.as_deref() != Some(&item.id) {
            self.changes(item)?;
        }
        match item.status {
            PatchApplyStatus::Completed => self.line(Some(Style::Good), "applied")?,
            PatchApplyStatus::Failed => {
                self.line(Some(Style::Bad), "failed: no file was changed")?;
            }
            PatchApplyStatus::Declined => {
                self.line(Some(Style::Warn), "declined: no file was changed")?;
            }
            PatchApplyStatus::InProgress => {}
        }
        let reason = clean(item.reason.as_deref().unwrap_or_default());
        reason.lines().try_for_each(|line| self.line(None, cut(line)))
    }

    fn warn(&mut self, what: &str, more: Option<&str>) -> io::Result<()> {
        let more = more.map(|more| format!(" ({more})")).unwrap_or_default();
        self.block(Style::Warn, "warning:", &format!("{what}{more}"))
    }

    fn separate(&mut self) -> io::Result<()> {
        self.end_stream()?;
        self.open = None;
        if self.detail.is_live { writeln!(self.out) } else { Ok(()) }
    }

    fn end_stream(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_streaming) { writeln!(self.out) } else { Ok(()) }
    }
}

fn read<N>(params: &RawValue) -> io::Result<N::Params>
where
    N: Notification<Params: DeserializeOwned>,
{
    serde_json::from_str(params.get()).map_err(|why| {
        io::Error::new(io::ErrorKind::InvalidData, format!("cannot decode `{}`: {why}", N::NAME))
    })
}

/// Later lines under the first one.
fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// `line` within the bound of a line.
fn cut(line: &str) -> &str {
    line.char_indices().nth(LINE_CHARS).map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests;
