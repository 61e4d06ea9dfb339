//! The state of a conversation. It performs no I/O: events and inputs go in, effects come out.

use serde_json::value::RawValue;

use crate::audio::Audio;
use crate::event::{Event, EventError, Role};
use crate::outgoing;

/// The settings of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub model: String,
    /// Writes down what the user says.
    pub transcription_model: String,
    pub modality: Modality,
    pub voice: String,
    /// Instructions for the model; without them the provider's apply.
    pub prompt: Option<String>,
}

/// The modality of the model's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modality {
    Text,
    /// With its transcript.
    Audio,
}

/// A contribution of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Audio(Audio),
    Text(String),
}

/// An effect of an event or an input.
#[derive(Debug)]
pub enum Effect {
    /// A message goes to the provider.
    Send(String),
    Report(Report),
}

/// A report to those who follow the conversation.
#[derive(Debug)]
pub enum Report {
    /// The session is there: inputs are taken. With the provider's id of it.
    Started { session: Option<String> },
    /// An item of the conversation, in the form of the API.
    ItemAdded { item: Box<RawValue> },
    /// The user wrote this.
    Written { text: String },
    /// More of what is said.
    TranscriptDelta { role: Role, delta: String },
    /// All of what was said.
    TranscriptDone { role: Role, text: String },
    /// The model's audio.
    Audio { audio: Audio, item_id: Option<String> },
    /// The provider reports an error; the session goes on.
    Error { message: String },
}

/// The response of the model, of which the API allows one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Response {
    None,
    /// It was asked for.
    Requested,
    /// It has begun.
    Running,
}

/// The state of a conversation.
#[derive(Debug)]
pub struct Conversation {
    /// The settings to send once the provider is ready to receive them; `None` when the session has
    /// them.
    settings: Option<Settings>,
    is_started: bool,
    response: Response,
    /// A text came during a response: the API refuses a second one at the same time.
    wants_response: bool,
}

impl Conversation {
    /// A conversation over a new WebSocket.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with(Some(settings))
    }

    /// A conversation in a call, whose session has its settings already.
    #[must_use]
    pub fn in_call() -> Self {
        Self::with(None)
    }

    fn with(settings: Option<Settings>) -> Self {
        Self { settings, is_started: false, response: Response::None, wants_response: false }
    }

    /// Begins. A session in a call is there; any other has to be set up.
    pub fn begin(&mut self) -> Vec<Effect> {
        match &self.settings {
            Some(settings) => vec![Effect::Send(outgoing::session_update(settings))],
            None => self.started(None),
        }
    }

    /// Returns whether the session has started.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Takes what the user contributes. Returns 2 effects that send, at most.
    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Audio(audio) => vec![Effect::Send(outgoing::audio(&audio))],
            Input::Text(text) => {
                let mut effects = vec![Effect::Send(outgoing::text(&text))];
                effects.push(Effect::Report(Report::Written { text }));
                self.wants_response = true;
                effects.extend(self.respond());
                effects
            }
        }
    }

    /// Takes a message of the provider. Returns 1 effect that sends, at most.
    ///
    /// # Errors
    /// It is not an event of the API: the connection cannot be trusted.
    pub fn receive(&mut self, message: &str) -> Result<Vec<Effect>, EventError> {
        Ok(match Event::parse(message)? {
            Event::Session { id } => self.started(id),
            Event::ItemAdded { item } => report(Report::ItemAdded { item }),
            Event::TranscriptDelta { role, delta } => {
                report(Report::TranscriptDelta { role, delta })
            }
            Event::TranscriptDone { role, text } => report(Report::TranscriptDone { role, text }),
            Event::Audio { audio, item_id } => report(Report::Audio { audio, item_id }),
            Event::ResponseStarted => {
                self.response = Response::Running;
                Vec::new()
            }
            Event::ResponseDone { failure } => {
                self.response = Response::None;
                let mut effects: Vec<Effect> = self.respond().into_iter().collect();
                effects.extend(failure.map(|message| Effect::Report(Report::Error { message })));
                effects
            }
            Event::Error { message, code } => {
                // The model answers the user's voice at this moment: the text is answered next.
                if code.as_deref() == Some("conversation_already_has_active_response") {
                    self.wants_response = true;
                    self.response = Response::Running;
                    return Ok(Vec::new());
                }
                // It may be the answer to the request, of which nothing comes then.
                if self.response == Response::Requested {
                    self.response = Response::None;
                }
                report(Report::Error { message })
            }
            Event::Other => Vec::new(),
        })
    }

    fn started(&mut self, session: Option<String>) -> Vec<Effect> {
        if self.is_started {
            return Vec::new();
        }
        self.is_started = true;
        report(Report::Started { session })
    }

    /// Asks for the response that is wanted, unless one is in progress.
    fn respond(&mut self) -> Option<Effect> {
        if self.response != Response::None || !self.wants_response {
            return None;
        }
        self.wants_response = false;
        self.response = Response::Requested;
        Some(Effect::Send(outgoing::response()))
    }
}

fn report(report: Report) -> Vec<Effect> {
    vec![Effect::Report(report)]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings() -> Settings {
        Settings {
            model: "m".to_owned(),
            transcription_model: "t".to_owned(),
            modality: Modality::Text,
            voice: "marin".to_owned(),
            prompt: None,
        }
    }

    fn sent(effects: &[Effect]) -> Vec<String> {
        let sent = effects.iter().filter_map(|effect| match effect {
            Effect::Send(text) => Some(serde_json::from_str::<Value>(text).unwrap()),
            Effect::Report(_) => None,
        });
        sent.map(|message| message["type"].as_str().unwrap().to_owned()).collect()
    }

    fn receive(conversation: &mut Conversation, event: Value) -> Vec<Effect> {
        conversation.receive(&event.to_string()).unwrap()
    }

    #[test]
    fn a_session_starts_once() {
        let mut conversation = Conversation::new(settings());
        assert_eq!(sent(&conversation.begin()), ["session.update"]);
        assert!(!conversation.is_started());
        let created = json!({ "type": "session.created", "session": { "id": "s" } });
        let effects = receive(&mut conversation, created.clone());
        let [Effect::Report(Report::Started { session })] = &effects[..] else { panic!() };
        assert_eq!(session.as_deref(), Some("s"));
        assert!(receive(&mut conversation, created).is_empty());
    }

    #[test]
    fn a_call_needs_no_settings() {
        let effects = Conversation::in_call().begin();
        assert!(matches!(&effects[..], [Effect::Report(Report::Started { session: None })]));
    }

    #[test]
    fn texts_during_a_response_get_one_response_after_it() {
        let mut conversation = Conversation::new(settings());
        let text = || Input::Text("Hello?".to_owned());
        let effects = conversation.input(text());
        assert_eq!(sent(&effects), ["conversation.item.create", "response.create"]);
        for _ in 0..2 {
            assert_eq!(sent(&conversation.input(text())), ["conversation.item.create"]);
        }
        let done = json!({ "type": "response.done", "response": { "status": "completed" } });
        assert_eq!(sent(&receive(&mut conversation, done.clone())), ["response.create"]);
        assert!(receive(&mut conversation, done).is_empty());
    }

    #[test]
    fn a_response_that_the_provider_refuses_because_of_another_follows_it() {
        let mut conversation = Conversation::new(settings());
        conversation.input(Input::Text("Hello?".to_owned()));
        let busy = json!({ "code": "conversation_already_has_active_response" });
        let effects = receive(&mut conversation, json!({ "type": "error", "error": busy }));
        assert!(effects.is_empty());
        let done = json!({ "type": "response.done", "response": { "status": "cancelled" } });
        assert_eq!(sent(&receive(&mut conversation, done)), ["response.create"]);
    }

    #[test]
    fn a_refused_request_for_a_response_keeps_no_later_one_back() {
        let mut conversation = Conversation::new(settings());
        conversation.input(Input::Text("Hello?".to_owned()));
        receive(&mut conversation, json!({ "type": "error", "error": { "code": "no_quota" } }));
        let effects = conversation.input(Input::Text("Again?".to_owned()));
        assert_eq!(sent(&effects), ["conversation.item.create", "response.create"]);
    }

    #[test]
    fn a_failed_response_is_reported_and_the_next_one_is_asked_for() {
        let mut conversation = Conversation::new(settings());
        conversation.input(Input::Text("Hello?".to_owned()));
        let failed = json!({ "status": "failed", "status_details": null });
        let event = json!({ "type": "response.done", "response": failed });
        let effects = receive(&mut conversation, event);
        assert!(matches!(&effects[..], [Effect::Report(Report::Error { .. })]), "{effects:?}");
        let effects = conversation.input(Input::Text("Again?".to_owned()));
        assert_eq!(sent(&effects), ["conversation.item.create", "response.create"]);
    }
}
