//! Prompts of version 2 of the protocol: each is answered when its message stands in the conversation, also while
//! a turn runs. Updates of the state tell the client what a session does.

use jsonrpc::{ErrorObject, RequestId};
use protocol::{TurnSteerParams, UserInput, UserMessageItem};

use super::{Adapter, Running, for_editor};
use crate::editor::Question;
use crate::map::commands::Command;
use crate::map::prompt;
use crate::schema::content::ContentBlock;
use crate::schema::session::StopReason;
use crate::schema::update::{Chunk, SessionUpdate};
use crate::schema::v2::{Inserted, State, StateUpdate};
use crate::schema::{Version, code};
use crate::session::{Turn, Waiting};

impl Adapter {
    /// Adds a message to the conversation: it begins a turn, or goes to the one that runs.
    pub(super) fn insert(
        &mut self,
        id: &RequestId,
        session_id: String,
        prompt: Vec<ContentBlock>,
    ) -> Result<(), ErrorObject> {
        let session = self.session(&session_id)?;
        let command = prompt::command(&prompt);
        if let Some(turn) = &session.turn {
            let steered = turn.id.clone().filter(|_| command.is_none() && !turn.is_cancelled);
            let expected_turn_id = steered.ok_or_else(|| {
                let message = match command {
                    Some(_) => "a turn of this session is running: wait for its end, or cancel it",
                    None => {
                        "the turn of this session begins or ends: wait for the next state_update"
                    }
                };
                ErrorObject::invalid_request(message)
            })?;
            let input = input(prompt, &session.skills)?;
            self.wait_for_insertion(id, &session_id, input.clone());
            self.steer(id.clone(), session_id, expected_turn_id, input);
            return Ok(());
        }
        match command {
            Some(command) => self.insert_command(id, session_id, prompt, command),
            None => {
                let input = input(prompt, &session.skills)?;
                session.turn = Some(Turn::foreign(None));
                self.work_begins(&session_id);
                self.wait_for_insertion(id, &session_id, input.clone());
                self.begin_turn(session_id, &input);
            }
        }
        Ok(())
    }

    fn wait_for_insertion(&mut self, id: &RequestId, session_id: &str, input: Vec<UserInput>) {
        self.requests.insert(id.clone(), Running::Prompt(session_id.to_owned()));
        if let Some(turn) = self.turn(session_id) {
            turn.waiting.push(Waiting { prompt: id.clone(), input });
        }
    }

    fn steer(&mut self, id: RequestId, session_id: String, turn: String, input: Vec<UserInput>) {
        let params = TurnSteerParams {
            thread_id: session_id.clone(),
            input,
            expected_turn_id: turn,
            responsesapi_client_metadata: None,
        };
        self.call::<protocol::TurnSteer>(&params, move |this, result| {
            let Err(error) = result else { return };
            if let Some(turn) = this.turn(&session_id) {
                turn.waiting.retain(|waiting| waiting.prompt != id);
            }
            this.refuse(&id, &for_editor(error));
        });
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

    /// Ends the work of a session; prompts whose messages were not inserted are refused.
    pub(super) fn end_inserted(
        &mut self,
        session_id: &str,
        turn: Turn,
        ended: Result<StopReason, ErrorObject>,
    ) {
        let ended = if turn.is_cancelled { Ok(StopReason::Cancelled) } else { ended };
        for waiting in turn.waiting {
            let error = match &ended {
                Err(error) => error.clone(),
                Ok(StopReason::Cancelled) => {
                    ErrorObject::new(code::CANCELLED, "cancelled before the message was inserted")
                }
                Ok(_) => ErrorObject::internal(
                    "the turn ended before the message was inserted: send it again",
                ),
            };
            self.refuse(&waiting.prompt, &error);
        }
        self.tell_state(session_id, State::ended(ended));
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
        question: Question,
    ) {
        let waited = self.waits_for_user(session_id);
        self.questions.insert(request.clone(), (session_id.to_owned(), question));
        if !waited && self.is_working(session_id) {
            self.tell_state(session_id, State::RequiresAction);
        }
    }

    /// The user is asked no longer; the question, if it was open.
    pub(super) fn question_closed(&mut self, request: &RequestId) -> Option<Question> {
        let (session_id, question) = self.questions.remove(request)?;
        if !self.waits_for_user(&session_id) && self.is_working(&session_id) {
            self.tell_state(&session_id, State::Running);
        }
        Some(question)
    }

    fn is_working(&self, session_id: &str) -> bool {
        self.sessions.get(session_id).is_some_and(|session| session.turn.is_some())
    }

    fn waits_for_user(&self, session_id: &str) -> bool {
        self.questions.values().any(|(asked, _)| asked == session_id)
    }

    fn tell_state(&self, session_id: &str, state: State) {
        if self.version == Version::Second {
            self.editor.update(session_id, &StateUpdate { state });
        }
    }
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
