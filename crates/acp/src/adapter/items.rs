//! Items as updates: while they happen, and from the history.

use protocol::describe::{Body, ItemStatus};
use protocol::{ThreadItem, Turn, TurnStatus};
use tokio::time::Instant;

use super::{Adapter, OUTPUT_INTERVAL};
use crate::map::{item, prompt};
use crate::schema::tool_call::{ToolCall, ToolCallContent, ToolCallStatus, ToolKind};
use crate::schema::update::{Chunk, SessionUpdate};
use crate::session::OpenItem;

/// Makes an update of a part of a message.
type Message = fn(Chunk) -> SessionUpdate;

impl Adapter {
    /// Shows a turn of the history, or the one that runs as far as it has come.
    pub(super) fn show_turn(&mut self, id: &str, turn: &Turn) {
        for (item, may_grow) in items(turn) {
            match may_grow {
                false => self.item_completed(id, item),
                true => self.item_joined(id, item, true),
            }
        }
        if turn.status == TurnStatus::InProgress {
            self.turn_started(id, turn.id.clone());
        }
        if turn.status == TurnStatus::Failed
            && let Some(error) = &turn.error
        {
            self.say(id, &format!("The turn failed: {}", visible::text(&error.message)));
        }
    }

    /// Notes a turn that runs in a session whose history is not shown: what it does at the moment goes on.
    pub(super) fn join_turn(&mut self, id: &str, turn: &Turn) {
        for (item, may_grow) in items(turn) {
            if may_grow {
                self.item_joined(id, item, false);
            }
        }
        self.turn_started(id, turn.id.clone());
    }

    /// An item that began before it was seen. What is there of a message is shown, or left out.
    fn item_joined(&mut self, id: &str, item: &ThreadItem, shows_text: bool) {
        let Some((text, message)) = text(item) else {
            return self.item_started(id, item.clone());
        };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let item = item.id();
        let is_new = session.begin(item, OpenItem::joined(text.len()));
        if is_new && shows_text && !text.is_empty() {
            self.update(id, &message(Chunk::text(item, text)));
        }
    }

    pub(super) fn item_started(&mut self, id: &str, item: ThreadItem) {
        let version = self.version;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let call = item::tool_call(&item, &session.cwd, version);
        let item_id = item.id().to_owned();
        let compacts = matches!(item, ThreadItem::ContextCompaction(_));
        let status = match &item {
            ThreadItem::CommandExecution(command) if command.awaits_approval => {
                ToolCallStatus::Pending
            }
            _ => ToolCallStatus::InProgress,
        };
        let open = OpenItem::of(item);
        if !session.begin(&item_id, open) {
            return;
        }
        if let Some(call) = call {
            let call = ToolCall { status: Some(status), ..call };
            self.update(id, &SessionUpdate::ToolCall(call));
        }
        if compacts {
            self.show_compaction(id, &item_id, None, false);
        }
    }

    /// Shows an item as it ended; what was shown of it before is not repeated.
    pub(super) fn item_completed(&mut self, id: &str, item: &ThreadItem) {
        let version = self.version;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let item_id = item.id();
        let open = session.end(item_id);
        if let Some(call) = item::tool_call(item, &session.cwd, version) {
            let update = match open.is_some() {
                true => SessionUpdate::ToolCallUpdate(call),
                false => SessionUpdate::ToolCall(call),
            };
            return self.update(id, &update);
        }
        match item {
            ThreadItem::UserMessage(message) => {
                for block in message.content.iter().filter_map(prompt::shown) {
                    let chunk = Chunk { content: block, message_id: item_id.to_owned() };
                    self.update(id, &SessionUpdate::UserMessageChunk(chunk));
                }
            }
            ThreadItem::ContextCompaction(compaction) => {
                let has_begun = open.is_some();
                let error = compaction.reason.as_deref();
                if !has_begun {
                    self.show_compaction(id, item_id, None, false);
                }
                self.show_compaction(id, item_id, error, true);
            }
            item => {
                let Some((whole, message)) = text(item) else { return };
                let sent = open.map_or(0, |open| open.sent);
                // Deltas are a prefix of the text; of another text nothing more can be sent.
                if let Some(rest) = whole.get(sent..).filter(|rest| !rest.is_empty()) {
                    self.update(id, &message(Chunk::text(item_id, rest)));
                }
            }
        }
    }

    pub(super) fn text_delta(&mut self, id: &str, item: &str, delta: String, message: Message) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if delta.is_empty() {
            return;
        }
        session.item(item).sent += delta.len();
        self.update(id, &message(Chunk::text(item, delta)));
    }

    pub(super) fn output_delta(&mut self, id: &str, item: &str, delta: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.add_output(item, delta);
        self.flush_at.get_or_insert_with(|| Instant::now() + OUTPUT_INTERVAL);
    }

    pub(super) fn progress(&mut self, id: &str, item: &str, message: &str) {
        let call = ToolCall {
            tool_call_id: item.to_owned(),
            content: Some(vec![ToolCallContent::text(visible::text(message))]),
            ..ToolCall::default()
        };
        self.update(id, &SessionUpdate::ToolCallUpdate(call));
    }

    /// Shows the output of commands that has grown. Each update has the whole content, which is why they
    /// are not sent for each piece.
    pub(super) fn show_grown(&mut self) {
        self.flush_at = None;
        let grown = self.sessions.iter_mut().filter(|(_, session)| session.has_grown());
        let grown: Vec<_> = grown.map(|(id, session)| (id.clone(), session.take_grown())).collect();
        for (id, outputs) in grown {
            for (tool_call_id, text, before) in outputs {
                let content = Some(item::output(before, &text));
                let call = ToolCall { tool_call_id, content, ..ToolCall::default() };
                self.update(&id, &SessionUpdate::ToolCallUpdate(call));
            }
        }
    }

    /// A compaction: an update of its own, or a call for clients that do not know these.
    fn show_compaction(&self, id: &str, item: &str, error: Option<&str>, has_ended: bool) {
        let error = error.map(|error| visible::text(error).into_owned());
        if self.client.as_ref().is_some_and(|client| client.session.compaction.is_some()) {
            let status = match (has_ended, &error) {
                (false, _) => "in_progress",
                (true, None) => "completed",
                (true, Some(_)) => "failed",
            };
            let compaction_id = item.to_owned();
            return self
                .update(id, &SessionUpdate::CompactionUpdate { compaction_id, status, error });
        }
        let call = ToolCall { tool_call_id: item.to_owned(), ..ToolCall::default() };
        self.update(
            id,
            &match has_ended {
                false => SessionUpdate::ToolCall(ToolCall {
                    title: Some("Summarise the conversation".to_owned()),
                    kind: Some(ToolKind::Think),
                    status: Some(ToolCallStatus::InProgress),
                    ..call
                }),
                true => SessionUpdate::ToolCallUpdate(ToolCall {
                    status: Some(match error {
                        None => ToolCallStatus::Completed,
                        Some(_) => ToolCallStatus::Failed,
                    }),
                    content: Some(error.map(ToolCallContent::text).into_iter().collect()),
                    ..call
                }),
            },
        );
    }
}

/// The items of a turn, and whether each of them may not be complete yet.
fn items(turn: &Turn) -> impl Iterator<Item = (&ThreadItem, bool)> {
    let is_running = turn.status == TurnStatus::InProgress;
    turn.items.iter().enumerate().map(move |(at, item)| {
        let is_last = at + 1 == turn.items.len();
        let may_grow = (is_last && text(item).is_some()) || item.status() == ItemStatus::InProgress;
        (item, is_running && may_grow)
    })
}

/// The text of an item that is a message, and how it is shown.
fn text(item: &ThreadItem) -> Option<(String, Message)> {
    match item.body() {
        Body::Answer(text) => Some((text.to_owned(), SessionUpdate::AgentMessageChunk)),
        Body::Reasoning(reasoning) => Some((reasoning.text(), SessionUpdate::AgentThoughtChunk)),
        _ => None,
    }
}
