//! Side effects of a turn: the machine is kept awake, the user's prompts are kept in the history
//! file, and the user's program is started at the turn's end.

use std::path::Path;
use std::sync::Arc;

use config::Config;
use config::table::Persistence;
use session::{Event, Id, Item, TurnStatus, UserContent};
use tracing::Span;

use services::idle_sleep::{Awake, IdleSleep};
use services::notify::{Notifier, TurnPayload};
use services::options::Options;
use services::prompt_history::{self, HistoryEntry, PromptHistory};

/// The side effects of a turn.
pub struct TurnHooks {
    thread: Id,
    /// Ephemeral threads leave no prompts in the history file.
    ephemeral: bool,
    /// An agent's input is not a user prompt, and its turn end does not notify the user.
    is_agent: bool,
    options: Arc<Options>,
    notifier: Arc<Notifier>,
    idle_sleep: Arc<IdleSleep>,
    prompts: Arc<PromptHistory>,
    /// While a turn runs that wants it.
    awake: Option<Awake>,
    /// Of the running turn, for the user's program.
    inputs: Vec<String>,
    answer: Option<String>,
    /// Around what is logged of the turn.
    span: Option<Span>,
}

impl TurnHooks {
    pub fn new(
        thread: Id,
        (ephemeral, is_agent): (bool, bool),
        options: Arc<Options>,
        (notifier, idle_sleep, prompts): (Arc<Notifier>, Arc<IdleSleep>, Arc<PromptHistory>),
    ) -> Self {
        Self {
            thread,
            ephemeral,
            is_agent,
            options,
            notifier,
            idle_sleep,
            prompts,
            awake: None,
            inputs: Vec::new(),
            answer: None,
            span: None,
        }
    }

    /// Observes an event that was sent to clients; `client` is the user agent of the last one.
    pub(super) fn observe(
        &mut self,
        event: &Event,
        config: &Arc<Config>,
        cwd: &Path,
        client: Option<&str>,
    ) {
        match event {
            Event::TurnStarted(turn) => {
                let span = tracing::error_span!(target: "server::turn", "turn", turn = %turn.id);
                span.in_scope(|| tracing::debug!(target: "server::turn", "started"));
                self.awake = config.features.prevent_idle_sleep.then(|| self.idle_sleep.prevent());
                self.inputs.clear();
                self.answer = None;
                self.span = Some(span);
            }
            Event::ItemCompleted { item: Item::UserMessage { content, .. }, .. } => {
                let text = plain_text(content);
                self.keep_prompt(&text, config);
                if !config.notify.is_empty() {
                    self.inputs.push(text);
                }
            }
            Event::ItemCompleted { item: Item::AgentMessage { text, .. }, .. }
                if !config.notify.is_empty() =>
            {
                self.answer = Some(text.clone());
            }
            Event::TurnCompleted(turn) => {
                self.awake = None;
                let (span, status) = (self.turn_span(), turn.status);
                span.in_scope(|| tracing::debug!(target: "server::turn", ?status, "ended"));
                if status != TurnStatus::Completed || self.is_agent {
                    return;
                }
                let (inputs, answer) = (std::mem::take(&mut self.inputs), self.answer.take());
                let payload = TurnPayload {
                    kind: "agent-turn-complete",
                    thread_id: &self.thread,
                    turn_id: &turn.id,
                    cwd,
                    client,
                    input_messages: &inputs,
                    last_assistant_message: answer.as_deref(),
                };
                span.in_scope(|| self.notifier.run(config, &payload));
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
        self.span.clone().unwrap_or_else(Span::current)
    }

    fn keep_prompt(&self, text: &str, config: &Config) {
        let history = &config.history;
        if self.ephemeral
            || self.is_agent
            || text.is_empty()
            || history.persistence == Persistence::None
        {
            return;
        }
        let prompts = self.prompts.clone();
        let (thread, text) = (self.thread.clone(), text.to_owned());
        let max_bytes = history.max_bytes.map(|bytes| *bytes);
        let ts = self.options.clock.now_ms() / 1000;
        tokio::task::spawn_blocking(move || {
            let entry = HistoryEntry { session_id: &thread, ts, text: &text };
            if let Err(error) = prompts.append(&entry, max_bytes) {
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
