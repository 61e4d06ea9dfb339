//! What happens beside a turn: the user's prompts are kept, the user's program is told of its end.

use config::table::Persistence;
use session::{Event, Item, TurnStatus, UserContent};
use tracing::Span;

use crate::notify;
use crate::prompt_history::{self, Entry};
use crate::thread::Actor;

/// What `notify` tells of a turn.
#[derive(Default)]
pub(super) struct Heard {
    inputs: Vec<String>,
    answer: Option<String>,
    /// Around what is logged of the turn.
    span: Option<Span>,
}

impl Actor {
    /// Takes note of what was just told to clients.
    pub(super) fn overhear(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(turn) => {
                let span = tracing::error_span!(target: "server::turn", "turn", turn = %turn.id);
                span.in_scope(|| tracing::debug!(target: "server::turn", "started"));
                self.heard = Heard { span: Some(span), ..Heard::default() };
            }
            Event::ItemCompleted { item: Item::UserMessage { content, .. }, .. } => {
                let text = plain_text(content);
                self.keep_prompt(&text);
                if !self.config.notify.is_empty() {
                    self.heard.inputs.push(text);
                }
            }
            Event::ItemCompleted { item: Item::AgentMessage { text, .. }, .. }
                if !self.config.notify.is_empty() =>
            {
                self.heard.answer = Some(text.clone());
            }
            Event::TurnCompleted(turn) => {
                let span = self.turn_span();
                let status = turn.status;
                span.in_scope(|| tracing::debug!(target: "server::turn", ?status, "ended"));
                let heard = std::mem::take(&mut self.heard);
                if status != TurnStatus::Completed {
                    return;
                }
                let payload = notify::Payload {
                    kind: "agent-turn-complete",
                    thread_id: &self.id,
                    turn_id: &turn.id,
                    cwd: &self.machine.settings().cwd,
                    client: self.user_agent.as_deref(),
                    input_messages: &heard.inputs,
                    last_assistant_message: heard.answer.as_deref(),
                };
                span.in_scope(|| notify::run(&self.core, &self.config, &payload));
            }
            Event::Error { error, .. } => {
                let message = &error.message;
                self.turn_span().in_scope(|| tracing::warn!(target: "server::model", "{message}"));
            }
            _ => {}
        }
    }

    /// The span of the turn, or of the thread between turns.
    pub(super) fn turn_span(&self) -> Span {
        self.heard.span.clone().unwrap_or_else(Span::current)
    }

    /// Threads that are not stored leave no prompts either.
    fn keep_prompt(&self, text: &str) {
        let history = &self.config.history;
        if self.ephemeral || text.is_empty() || history.persistence == Persistence::None {
            return;
        }
        let (core, id, text) = (self.core.clone(), self.id.clone(), text.to_owned());
        let max_bytes = history.max_bytes.map(|bytes| *bytes);
        let ts = core.options.clock.now_ms() / 1000;
        tokio::task::spawn_blocking(move || {
            let entry = Entry { session_id: &id, ts, text: &text };
            if let Err(error) = prompt_history::append(&core.options.home, &entry, max_bytes) {
                tracing::warn!(target: "server::history", "{}: {error}", prompt_history::FILE);
            }
        });
    }
}

fn plain_text(content: &[UserContent]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        UserContent::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
