//! Prompts of version 2 of the protocol: each is answered when its message stands in the conversation, even while
//! a turn runs. Updates of the state tell the client what a session does.

use std::collections::VecDeque;

use jsonrpc::{ErrorObject, RequestId};
use protocol::{TurnSteerParams, UserInput, UserMessageItem};

use super::{Adapter, Running, for_editor};
use crate::editor::{OpenQuestion, Question};
use crate::map::commands::Command;
use crate::map::prompt;
use crate::schema::content::ContentBlock;
use crate::schema::session::StopReason;
use crate::schema::update::{Chunk, SessionUpdate};
use crate::schema::v2::{Inserted, State, StateUpdate};
use crate::schema::{Version, code};
use crate::session::{Sending, Turn, Waiting};

/// Messages of a session that may wait for a turn.
const MAX_PENDING: usize = 100;

impl Adapter {
    /// Adds a message to the conversation: it begins a turn, or goes to the one that runs.
    pub(super) fn insert(
        &mut self,
        id: &RequestId,
        session_id: String,
        prompt: Vec<ContentBlock>,
    ) -> Result<(), ErrorObject> {
        let session = self.session(&session_id)?;
        if let Some(command) = prompt::command(&prompt) {
            if session.turn.is_some() {
                let message = "a turn of this session is running: wait for its end, or cancel it";
                return Err(ErrorObject::invalid_request(message));
            }
            self.insert_command(id, session_id, prompt, command);
            return Ok(());
        }
        if session.pending.len() >= MAX_PENDING {
            let message = format!("{MAX_PENDING} messages wait for this session: wait for answers");
            return Err(ErrorObject::invalid_request(message));
        }
        let input = input(prompt, &session.skills)?;
        session.pending.push_back(Waiting { prompt: id.clone(), input, state: Sending::Unsent });
        self.requests.insert(id.clone(), Running::Prompt(session_id.clone()));
        self.send_pending(&session_id);
        Ok(())
    }

    /// Sends the messages that wait: the first one begins a turn, and those that follow go to it as soon as
    /// the server has said its id. A turn that was cancelled takes none; they begin the next one.
    pub(super) fn send_pending(&mut self, session_id: &str) {
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        let is_unsent = |message: &Waiting| message.state == Sending::Unsent;
        let Some(turn) = &mut session.turn else {
            let Some(first) = session.pending.iter().position(is_unsent) else { return };
            let Some(mut first) = session.pending.remove(first) else { return };
            first.state = Sending::Taken;
            let input = first.input.clone();
            session.turn = Some(Turn { waiting: vec![first], ..Turn::foreign(None) });
            self.work_begins(session_id);
            return self.begin_turn(session_id.to_owned(), &input);
        };
        let Some(turn_id) = turn.id.clone().filter(|_| !turn.is_cancelled) else { return };
        let (unsent, sent): (VecDeque<_>, _) =
            std::mem::take(&mut session.pending).into_iter().partition(is_unsent);
        session.pending = sent;
        for mut message in unsent {
            let (prompt, input) = (message.prompt.clone(), message.input.clone());
            message.state = Sending::Sent;
            if let Some(turn) = self.turn(session_id) {
                turn.waiting.push(message);
            }
            self.steer(prompt, session_id.to_owned(), turn_id.clone(), input);
        }
    }

    fn steer(&mut self, id: RequestId, session_id: String, turn_id: String, input: Vec<UserInput>) {
        let params = TurnSteerParams {
            thread_id: session_id.clone(),
            input,
            expected_turn_id: turn_id.clone(),
            responsesapi_client_metadata: None,
        };
        self.call::<protocol::TurnSteer>(&params, move |this, result| {
            let Some(session) = this.sessions.get_mut(&session_id) else { return };
            let is_it = |message: &&mut Waiting| message.prompt == id;
            let turn = session.turn.as_mut().filter(|turn| turn.id.as_ref() == Some(&turn_id));
            match (turn, result) {
                (Some(turn), Ok(_)) => {
                    if let Some(message) = turn.waiting.iter_mut().find(is_it) {
                        message.state = Sending::Taken;
                    }
                }
                (Some(turn), Err(error)) => {
                    turn.waiting.retain(|message| message.prompt != id);
                    this.refuse(&id, &for_editor(error));
                }
                (None, Ok(_)) => {
                    session.pending.retain(|message| message.prompt != id);
                    this.refuse(&id, &lost());
                }
                // It came too late for that turn: it begins the next one.
                (None, Err(_)) => {
                    if let Some(message) = session.pending.iter_mut().find(is_it) {
                        message.state = Sending::Unsent;
                    }
                    this.send_pending(&session_id);
                }
            }
        });
    }

    /// Cancels the prompt of a message that was not sent yet; `false` if it was.
    pub(super) fn cancel_pending(&mut self, id: &RequestId, session_id: &str) -> bool {
        let Some(session) = self.sessions.get_mut(session_id) else { return false };
        let is_it = |message: &Waiting| message.prompt == *id && message.state == Sending::Unsent;
        let Some(message) = session.pending.iter().position(is_it) else { return false };
        let cancelled = session.pending.remove(message);
        self.refuse_pending(cancelled.into_iter().collect());
        true
    }

    /// Refuses the prompts of messages that will not be inserted.
    pub(super) fn refuse_pending(&mut self, messages: VecDeque<Waiting>) {
        for message in messages {
            let error =
                ErrorObject::new(code::CANCELLED, "cancelled before the message was inserted");
            self.refuse(&message.prompt, &error);
        }
    }

    /// Shows the text of a command as a message of the user, and runs it.
    fn insert_command(
        &mut self,
        id: &RequestId,
        session_id: String,
        prompt: Vec<ContentBlock>,
        command: Command,
    ) {
        let message_id = self.message_id();
        for content in prompt {
            let chunk = Chunk { content, message_id: message_id.clone() };
            self.update(&session_id, &SessionUpdate::UserMessageChunk(chunk));
        }
        self.answer(id, &Inserted { message_id: &message_id });
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.turn = Some(Turn { is_command: true, ..Turn::foreign(None) });
        }
        self.work_begins(&session_id);
        self.run_command(session_id, command);
    }

    /// A message of the user stands in the conversation: the prompt that it comes from is answered.
    pub(super) fn inserted(&mut self, session_id: &str, message: &UserMessageItem) {
        let Some(turn) = self.turn(session_id) else { return };
        // Another client can have sent messages to the turn, too. Images are stored in a form of the server.
        let same = |waiting: &Waiting| texts(&waiting.input).eq(texts(&message.content));
        let Some(at) = turn.waiting.iter().position(same) else { return };
        let waiting = turn.waiting.remove(at);
        self.answer(&waiting.prompt, &Inserted { message_id: &message.id });
    }

    /// Ends the work of a session. Prompts whose messages were not inserted are refused; a message that the
    /// server has not taken by then waits for its answer.
    pub(super) fn end_inserted(
        &mut self,
        session_id: &str,
        turn: Turn,
        ended: Result<StopReason, ErrorObject>,
    ) {
        let ended = if turn.is_cancelled { Ok(StopReason::Cancelled) } else { ended };
        let mut late = VecDeque::new();
        for waiting in turn.waiting {
            let error = match &ended {
                Err(error) => error.clone(),
                Ok(StopReason::Cancelled) => {
                    ErrorObject::new(code::CANCELLED, "cancelled before the message was inserted")
                }
                Ok(_) if waiting.state == Sending::Sent => {
                    late.push_back(waiting);
                    continue;
                }
                Ok(_) => lost(),
            };
            self.refuse(&waiting.prompt, &error);
        }
        self.tell_state(session_id, State::ended(ended));
        match self.sessions.get_mut(session_id) {
            Some(session) => {
                late.append(&mut session.pending);
                session.pending = late;
                self.send_pending(session_id);
            }
            None => self.refuse_pending(late),
        }
    }

    /// A session has begun to work. One that is being opened reports its state when that is done.
    pub(super) fn work_begins(&self, session_id: &str) {
        if self.sessions.get(session_id).is_some_and(|session| session.held.is_none()) {
            self.tell_state(session_id, State::Running);
        }
    }

    /// Tells what a session does at the moment.
    pub(super) fn show_state(&self, session_id: &str) {
        let state = match self.is_working(session_id) {
            false => State::idle(),
            true if self.waits_for_user(session_id) => State::RequiresAction,
            true => State::Running,
        };
        self.tell_state(session_id, state);
    }

    /// The user is asked about a request of the server.
    pub(super) fn question_opened(
        &mut self,
        session_id: &str,
        request: &RequestId,
        (question, call): (Question, Option<String>),
    ) {
        let waited = self.waits_for_user(session_id);
        let session = session_id.to_owned();
        self.questions.insert(request.clone(), OpenQuestion { session, question, call });
        if !waited && self.is_working(session_id) {
            self.tell_state(session_id, State::RequiresAction);
        }
    }

    /// The user is asked no longer; the question, if it was open.
    pub(super) fn question_closed(&mut self, request: &RequestId) -> Option<OpenQuestion> {
        let closed = self.questions.remove(request)?;
        if !self.waits_for_user(&closed.session) && self.is_working(&closed.session) {
            self.tell_state(&closed.session, State::Running);
        }
        Some(closed)
    }

    fn is_working(&self, session_id: &str) -> bool {
        self.sessions.get(session_id).is_some_and(|session| session.turn.is_some())
    }

    fn waits_for_user(&self, session_id: &str) -> bool {
        self.questions.values().any(|open| open.session == session_id)
    }

    fn tell_state(&self, session_id: &str, state: State) {
        if self.version == Version::Second {
            self.editor.update(session_id, &StateUpdate { state });
        }
    }
}

/// The error for a message that the server has taken, and whose turn ended without it.
fn lost() -> ErrorObject {
    ErrorObject::internal("the turn ended before the message was inserted: send it again")
}

fn texts(input: &[UserInput]) -> impl Iterator<Item = &str> {
    input.iter().filter_map(|input| match input {
        UserInput::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// The message of a prompt.
///
/// # Errors
/// Content that this agent does not take.
fn input(
    prompt: Vec<ContentBlock>,
    skills: &[crate::map::commands::Skill],
) -> Result<Vec<UserInput>, ErrorObject> {
    // In this version clients are not asked for files.
    let parts = prompt::parts(prompt, skills, false).map_err(ErrorObject::invalid_params)?;
    Ok(parts.into_iter().flat_map(|part| part.into_inputs(None)).collect())
}
