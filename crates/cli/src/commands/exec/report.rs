//! Progress of a turn, and its final message. Declines all requests of the server, because
//! no user can answer them.

use std::io::{self, ErrorKind, Stderr, Write};

use jsonrpc::Notification;
use protocol::describe::ItemStatus;
use protocol::{
    AgentMessageItem, ItemCompletedNotification, MessagePhase, ReviewModeItem, ThreadItem,
    ThreadStartResponse, WarningNotification,
};
use serde_json::value::RawValue;

use super::thread_events::ThreadEvents;
use crate::commands::eprint;
use crate::commands::local::{self, Observer};
use crate::commands::output::{self, Output};
use crate::commands::transcript::{Style, Transcript, sandbox_name};

/// Follows a turn.
pub(super) struct Report {
    pub(super) answer: Answer,
    /// The end of a review.
    pub(super) review: Option<ReviewModeItem>,
    /// True if something was refused because no approval can be requested.
    pub(super) has_declined: bool,
    /// The last reasons of hooks: why a prompt was not sent, or a turn ended or went on.
    pub(super) hook_reasons: Option<String>,
    progress: Progress,
}

/// The output format.
pub(super) enum Progress {
    Json(Events<Output>),
    ThreadEvents(Box<ThreadEvents<Output, Stderr>>),
    Text(Box<Transcript<Stderr>>),
}

/// The message that a turn ends with: the last final answer, else the last message.
#[derive(Default)]
pub(super) struct Answer {
    last: Option<String>,
    last_final: Option<String>,
}

/// Notifications, one JSON object a line.
pub(super) struct Events<W> {
    out: W,
}

impl Report {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            answer: Answer::default(),
            review: None,
            has_declined: false,
            hook_reasons: None,
            progress,
        }
    }

    /// The thread is there.
    ///
    /// # Errors
    /// When events cannot be written.
    pub(super) fn opened(&mut self, thread: &ThreadStartResponse) -> io::Result<()> {
        let text = match &mut self.progress {
            Progress::Text(text) => text,
            Progress::ThreadEvents(events) => return events.opened(&thread.thread.id),
            Progress::Json(_) => return Ok(()),
        };
        let kept = if thread.thread.ephemeral { " (not kept)" } else { "" };
        let rows = [
            ("thread ", format!("{}{kept}", thread.thread.id)),
            ("model  ", format!("{} ({})", thread.model, thread.model_provider)),
            ("folder ", thread.cwd.clone()),
            ("sandbox", sandbox_name(&thread.sandbox)),
        ];
        for (label, value) in rows {
            // Progress is optional: the work continues without a reader.
            let _ = text.block(Style::Dim, label, &value);
        }
        Ok(())
    }

    /// Shows people a warning of the program itself. The server's own messages stay as they are.
    pub(super) fn warn(&mut self, message: &str) -> io::Result<()> {
        if matches!(self.progress, Progress::Json(_)) {
            return Ok(());
        }
        let warning = WarningNotification { thread_id: None, message: message.to_owned() };
        let params = serde_json::value::to_raw_value(&warning)?;
        self.notified(protocol::Warning::NAME, &params)
    }

    fn note(&mut self, item: ThreadItem) {
        self.has_declined |= item.status() == ItemStatus::Declined;
        match item {
            ThreadItem::AgentMessage(message) => self.answer.note(message),
            ThreadItem::ExitedReviewMode(review) => {
                self.answer.last_final = Some(review.review.clone());
                self.review = Some(review);
            }
            ThreadItem::HookPrompt(prompt) => {
                self.hook_reasons = Some(prompt.text());
            }
            _ => {}
        }
    }

    /// The turn is over. One that is not completed has no final message: what was held back for it is
    /// shown.
    pub(super) fn finish(&mut self, is_completed: bool) {
        if let Progress::Text(text) = &mut self.progress {
            // As above.
            let _ = text.finish(is_completed);
        }
    }
}

impl Observer for Report {
    fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        if method == protocol::ItemCompleted::NAME {
            let received: ItemCompletedNotification = serde_json::from_str(params.get())?;
            self.note(received.item);
        }
        match &mut self.progress {
            Progress::Json(events) => events.write(method, params),
            Progress::ThreadEvents(events) => events.notified(method, params),
            Progress::Text(text) => match text.notified(method, params) {
                // As above.
                Err(error) if error.kind() != ErrorKind::InvalidData => Ok(()),
                other => other,
            },
        }
    }

    async fn asked(&mut self, method: &str, _params: &RawValue) -> io::Result<local::Answer> {
        eprint(format_args!("agentd: declined `{method}`: `exec` cannot ask anyone"));
        Ok(agentd_embed::decline(method))
    }
}

impl Answer {
    /// The text of it.
    pub(super) fn text(&self) -> Option<&str> {
        self.last_final.as_deref().or(self.last.as_deref())
    }

    fn note(&mut self, message: AgentMessageItem) {
        if message.phase == Some(MessagePhase::FinalAnswer) {
            self.last_final = Some(message.text);
        } else {
            self.last = Some(message.text);
        }
    }
}

impl<W: Write> Events<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }

    fn write(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        let method = serde_json::Value::from(method);
        writeln!(self.out, r#"{{"method":{method},"params":{}}}"#, params.get())
            .and_then(|()| self.out.flush())
            .map_err(output_error)
    }
}

/// The error of a write of events. That of a reader who is gone stays what it is: the program ends quietly.
pub(super) fn output_error(error: io::Error) -> io::Error {
    if output::is_reader_gone(&error) {
        return error;
    }
    let why = format!("cannot write to standard output, so the turn was interrupted: {error}");
    io::Error::new(error.kind(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_last_final_message_or_else_the_last_message() {
        let check = |messages: &[(&str, Option<MessagePhase>)], expect: Option<&str>| {
            let mut answer = Answer::default();
            for (text, phase) in messages {
                let (id, text) = ("m".to_owned(), (*text).to_owned());
                answer.note(AgentMessageItem {
                    id,
                    text,
                    phase: *phase,
                    memory_citation: None,
                    reason: None,
                });
            }
            assert_eq!(answer.text(), expect);
        };
        let (way, end) = (Some(MessagePhase::Commentary), Some(MessagePhase::FinalAnswer));
        check(&[], None);
        check(&[("a", None), ("b", None)], Some("b"));
        check(&[("a", way)], Some("a"));
        check(&[("a", end), ("b", way)], Some("a"));
        check(&[("a", end), ("b", end), ("c", None)], Some("b"));
    }

    #[test]
    fn events_are_lines_of_json() {
        let mut out = Vec::new();
        let params = RawValue::from_string(r#"{"a":"\n\""}"#.to_owned()).unwrap();
        Events::new(&mut out).write("x/\"y", &params).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["method"], &line["params"]["a"]), (&"x/\"y".into(), &"\n\"".into()));
    }
}
