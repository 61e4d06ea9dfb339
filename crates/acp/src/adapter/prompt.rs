//! Prompts: how a turn begins, is cancelled and ends.

use jsonrpc::{ErrorObject, RequestId};
use protocol::error::AgentErrorInfo;
use protocol::{
    ReviewDelivery, ReviewStartParams, ReviewTarget, ThreadIdParams, ThreadNameSetParams,
    ThreadRollbackParams, ThreadRollbackResponse, TurnError, TurnInterruptParams, TurnStartParams,
    TurnStatus, UserInput,
};
use serde_json::json;

use super::{Adapter, Running, for_editor, login, read_answer};
use crate::map::commands::Command;
use crate::map::prompt::{self, MAX_LINES, Part};
use crate::schema::session::{PromptRequest, PromptResponse, ReadTextFileResponse, StopReason};
use crate::schema::update::{Chunk, SessionUpdate};
use crate::schema::{Version, code, method};
use crate::session::{Sending, Turn};

/// A prompt whose files are being read.
struct Reading {
    /// A text that the client returned, with its part.
    parts: Vec<(Part, Option<String>)>,
    waiting: usize,
}

impl Reading {
    fn into_input(self) -> Vec<UserInput> {
        self.parts.into_iter().flat_map(|(part, text)| part.into_inputs(text)).collect()
    }
}

impl Adapter {
    pub(super) fn prompt(
        &mut self,
        id: &RequestId,
        params: PromptRequest,
    ) -> Result<(), ErrorObject> {
        let PromptRequest { session_id, prompt } = params;
        let reads_files = self.capabilities().fs.read_text_file;
        let session = self.session(&session_id)?;
        if session.held.is_some() {
            let message = "the session is being opened: wait for the answer";
            return Err(ErrorObject::invalid_request(message));
        }
        if self.version == Version::Second {
            return self.insert(id, session_id, prompt);
        }
        let session = self.session(&session_id)?;
        if session.turn.as_ref().is_some_and(|turn| turn.prompt.is_some()) {
            let message =
                "another prompt of this session is running: wait for its end, or cancel it";
            return Err(ErrorObject::invalid_request(message));
        }
        let command = prompt::command(&prompt);
        let parts = prompt::parts(prompt, &session.skills, reads_files)
            .map_err(ErrorObject::invalid_params)?;
        session.turn = Some(Turn::of_prompt(id.clone()));
        self.requests.insert(id.clone(), Running::Prompt(session_id.clone()));
        match command {
            Some(command) => self.run_command(session_id, command),
            None => self.read_files(session_id, parts),
        }
        Ok(())
    }

    /// Asks the client for the files of a prompt, and begins the turn when they have come.
    fn read_files(&mut self, session_id: String, parts: Vec<Part>) {
        let paths: Vec<(usize, String)> = parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| match part {
                Part::File { path, .. } => Some((at, path.clone())),
                Part::Ready(_) => None,
            })
            .collect();
        let parts = parts.into_iter().map(|part| (part, None)).collect();
        let reading = Reading { parts, waiting: paths.len() };
        if paths.is_empty() {
            return self.begin_turn(session_id, &reading.into_input());
        }
        let reading = std::sync::Arc::new(std::sync::Mutex::new(Some(reading)));
        for (at, path) in paths {
            let params = json!({ "sessionId": session_id, "path": path, "limit": MAX_LINES });
            let (reading, session) = (reading.clone(), session_id.clone());
            let then = move |this: &mut Self, outcome| {
                // Without the text the model gets the address.
                let text = match read_answer::<ReadTextFileResponse>(outcome) {
                    Ok(read) => Some(read.content),
                    Err(error) => {
                        tracing::debug!(target: "acp", "the client did not read {path}: {error}");
                        None
                    }
                };
                let mut shared = reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let Some(open) = shared.as_mut() else { return };
                if let Some(part) = open.parts.get_mut(at) {
                    part.1 = text;
                }
                open.waiting -= 1;
                if open.waiting == 0
                    && let Some(reading) = shared.take()
                {
                    drop(shared);
                    this.begin_turn(session, &reading.into_input());
                }
            };
            let question = self.editor.ask(method::READ_TEXT_FILE, &params, Box::new(then));
            if let Some(turn) = self.turn(&session_id) {
                turn.reading.insert(question);
            }
        }
    }

    pub(super) fn begin_turn(&mut self, session_id: String, input: &[UserInput]) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let params = json!({ "threadId": session_id, "input": input });
        let mut params: TurnStartParams =
            serde_json::from_value(params).expect("these are the members that a turn needs");
        session.settings.apply(&mut params);
        // Another client may have opened the thread in another folder meanwhile.
        params.cwd = Some(session.cwd.clone());
        if let Some(turn) = &mut session.turn {
            turn.reading.clear();
        }
        self.call::<protocol::TurnStart>(&params, move |this, result| match result {
            Ok(started) => {
                if let Some(session) = this.sessions.get_mut(&session_id) {
                    session.settings.sent();
                }
                this.turn_has_id(&session_id, started.turn.id);
            }
            Err(error) => this.end_prompt(&session_id, Err(for_editor(error))),
        });
    }

    pub(super) fn run_command(&mut self, session_id: String, command: Command) {
        let thread_id = session_id.clone();
        match command {
            Command::Compact => {
                let params = ThreadIdParams { thread_id };
                self.call::<protocol::ThreadCompactStart>(&params, move |this, result| {
                    // The notification of the turn that begins has its id.
                    if let Err(error) = result {
                        this.end_prompt(&session_id, Err(for_editor(error)));
                    }
                });
            }
            Command::Review { instructions } => {
                let target = match instructions.is_empty() {
                    true => ReviewTarget::UncommittedChanges {},
                    false => ReviewTarget::Custom { instructions },
                };
                let delivery = Some(ReviewDelivery::Inline);
                let params = ReviewStartParams { thread_id, target, delivery };
                self.call::<protocol::ReviewStart>(&params, move |this, result| match result {
                    Ok(started) => this.turn_has_id(&session_id, started.turn.id),
                    Err(error) => this.end_prompt(&session_id, Err(for_editor(error))),
                });
            }
            Command::Undo => {
                let params = ThreadRollbackParams {
                    thread_id,
                    num_turns: 1,
                    restore_files: true,
                    dry_run: false,
                    overwrite_changes: false,
                };
                self.call::<protocol::ThreadRollback>(&params, move |this, result| match result {
                    Ok(done) => {
                        this.say(&session_id, &undone(&done));
                        this.end_prompt(&session_id, Ok(StopReason::EndTurn));
                    }
                    Err(error) => this.end_prompt(&session_id, Err(for_editor(error))),
                });
            }
            Command::Rename { name } if name.is_empty() => {
                let error = ErrorObject::invalid_params("`/rename` needs a title: /rename TITLE");
                self.end_prompt(&session_id, Err(error));
            }
            Command::Rename { name } => {
                let params = ThreadNameSetParams { thread_id, name };
                self.call::<protocol::ThreadNameSet>(&params, move |this, result| {
                    let ended = result.map(|_| StopReason::EndTurn).map_err(for_editor);
                    this.end_prompt(&session_id, ended);
                });
            }
        }
    }

    /// Cancels the turn of a session, if one runs.
    pub(super) fn interrupt(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let (sent, unsent) = std::mem::take(&mut session.pending)
            .into_iter()
            .partition(|message| message.state != Sending::Unsent);
        session.pending = sent;
        self.refuse_pending(unsent);
        let Some(turn) = self.turn(session_id) else { return };
        let was_cancelled = std::mem::replace(&mut turn.is_cancelled, true);
        if !turn.reading.is_empty() {
            // The turn has not begun.
            for question in std::mem::take(&mut turn.reading) {
                self.editor.withdraw(question);
            }
            return self.end_prompt(session_id, Ok(StopReason::Cancelled));
        }
        // Without an id it is interrupted when the server has said it.
        if let Some(turn_id) = turn.id.clone().filter(|_| !was_cancelled) {
            let params = TurnInterruptParams { thread_id: session_id.to_owned(), turn_id };
            self.call::<protocol::TurnInterrupt>(&params, |_, result| {
                if let Err(error) = result {
                    // It has just ended.
                    tracing::debug!(target: "acp", "turn/interrupt: {error}");
                }
            });
        }
    }

    /// The server has said which turn is the one of the prompt.
    pub(super) fn turn_has_id(&mut self, session_id: &str, id: String) {
        let Some(turn) = self.turn(session_id) else { return };
        turn.id = Some(id);
        if std::mem::take(&mut turn.is_cancelled) {
            return self.interrupt(session_id);
        }
        self.send_pending(session_id);
    }

    /// A turn of the session has started.
    pub(super) fn turn_started(&mut self, session_id: &str, id: String) {
        match self.turn(session_id) {
            Some(turn) if turn.id.is_none() && turn.reading.is_empty() => {
                self.turn_has_id(session_id, id);
            }
            Some(_) => {}
            None => {
                if let Some(session) = self.sessions.get_mut(session_id) {
                    session.turn = Some(Turn::foreign(Some(id)));
                    self.work_begins(session_id);
                }
            }
        }
    }

    pub(super) fn turn_completed(&mut self, session_id: &str, turn: &protocol::Turn) {
        let is_current = self.turn(session_id).is_some_and(|it| it.id.as_ref() == Some(&turn.id));
        if !is_current {
            return;
        }
        self.show_grown();
        let ended = match (turn.status, &turn.error) {
            (TurnStatus::Completed | TurnStatus::InProgress, _) => Ok(StopReason::EndTurn),
            (TurnStatus::Interrupted, _) => Ok(StopReason::Cancelled),
            (TurnStatus::Failed, error) => failed(error.as_ref()),
        };
        if let Some(session) = self.sessions.get_mut(session_id) {
            session.clear_items();
        }
        self.end_prompt(session_id, ended);
    }

    /// Ends the turn of a session, and answers its prompt.
    pub(super) fn end_prompt(&mut self, session_id: &str, ended: Result<StopReason, ErrorObject>) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        if let Some(turn) = session.turn.take() {
            self.end_work(session_id, turn, ended);
        }
    }

    /// Tells the client how a turn has ended.
    pub(super) fn end_work(
        &mut self,
        session_id: &str,
        turn: Turn,
        ended: Result<StopReason, ErrorObject>,
    ) {
        if self.version == Version::Second {
            return self.end_inserted(session_id, turn, ended);
        }
        let Some(prompt) = turn.prompt else { return };
        match ended {
            // Whatever became of it: the protocol wants this answer to a cancelled prompt.
            _ if turn.is_cancelled => self.answer_cancelled(&prompt),
            Ok(stop_reason) => self.answer(&prompt, &PromptResponse { stop_reason }),
            Err(error) => self.refuse(&prompt, &error),
        }
    }

    fn answer_cancelled(&mut self, prompt: &RequestId) {
        self.answer(prompt, &PromptResponse { stop_reason: StopReason::Cancelled });
    }

    pub(super) fn turn(&mut self, session_id: &str) -> Option<&mut Turn> {
        self.sessions.get_mut(session_id)?.turn.as_mut()
    }

    /// The id of a message that is no item of the server.
    pub(super) fn message_id(&mut self) -> String {
        let number = self.said;
        self.said += 1;
        format!("agentd-{number}")
    }

    /// Shows a text of this program as a message.
    pub(super) fn say(&mut self, session_id: &str, text: &str) {
        let chunk = Chunk::text(&self.message_id(), text);
        self.update(session_id, &SessionUpdate::AgentMessageChunk(chunk));
    }
}

/// Returns the end of a failed turn.
fn failed(error: Option<&TurnError>) -> Result<StopReason, ErrorObject> {
    let Some(error) = error else { return Err(ErrorObject::internal("the turn failed")) };
    match error.agent_error_info {
        Some(AgentErrorInfo::ContextWindowExceeded) => Ok(StopReason::MaxTokens),
        Some(AgentErrorInfo::CyberPolicy) => Ok(StopReason::Refusal),
        Some(AgentErrorInfo::Unauthorized) => {
            let required = login::login_required();
            let message = format!("{}; {}", error.message, required.message);
            Err(ErrorObject::new(code::AUTH_REQUIRED, message))
        }
        kind => {
            let details = json!({ "kind": kind, "details": error.additional_details });
            Err(ErrorObject::internal(error.message.clone()).with_data(details))
        }
    }
}

/// Returns the text about a rollback's result.
fn undone(done: &ThreadRollbackResponse) -> String {
    let mut text = "The latest turn was taken back.".to_owned();
    let Some(files) = &done.files else { return text };
    for path in &files.restored {
        text.push_str(&format!("\n- restored: {}", visible::exact_line(path)));
    }
    let conflicts = files.conflicts.iter().map(|path| ("changed since, and left", path));
    let left = files.not_restored.iter().map(|path| ("not restored", path));
    for (what, noted) in conflicts.chain(left) {
        let path = visible::exact_line(&noted.path);
        text.push_str(&format!("\n- {what}: {path} ({})", visible::text(&noted.reason)));
    }
    text
}
