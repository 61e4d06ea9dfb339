//! What happens beside a turn: the user's prompts are kept, the user's program is told of its end.

use config::table::Persistence;
use session::{Event, Item, TurnStatus, UserContent};

use crate::notify;
use crate::prompt_history::{self, Entry};
use crate::thread::Actor;

/// What `notify` tells of a turn.
#[derive(Default)]
pub(super) struct Heard {
    inputs: Vec<String>,
    answer: Option<String>,
}

impl Actor {
    /// Takes note of what was just told to clients.
    pub(super) fn overhear(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(_) => self.heard = Heard::default(),
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
            Event::TurnCompleted(turn) if turn.status == TurnStatus::Completed => {
                let heard = std::mem::take(&mut self.heard);
                let payload = notify::Payload {
                    kind: "agent-turn-complete",
                    thread_id: &self.id,
                    turn_id: &turn.id,
                    cwd: &self.machine.settings().cwd,
                    client: self.user_agent.as_deref(),
                    input_messages: &heard.inputs,
                    last_assistant_message: heard.answer.as_deref(),
                };
                notify::run(&self.core, &self.config, &payload);
            }
            Event::Error { error, .. } => self.core.warn("model", &error.message),
            _ => {}
        }
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
                core.warn("history", &format!("{}: {error}", prompt_history::FILE));
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
