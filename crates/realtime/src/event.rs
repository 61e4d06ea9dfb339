//! The messages of a provider that matter to a conversation. Others are read and left aside, so
//! that new ones do no harm.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::audio::{Audio, AudioError};

/// Most characters of a provider's message that are kept.
const MAX_MESSAGE_CHARS: usize = 2000;

/// An event of the realtime API.
#[derive(Debug, Clone)]
pub enum Event {
    /// The session is there, or has new settings.
    Session { id: Option<String> },
    /// An item was added to the conversation, in the form of the API.
    ItemAdded { item: Box<RawValue> },
    /// More of what is said or written.
    TranscriptDelta { role: Role, delta: String },
    /// All of what was said or written.
    TranscriptDone { role: Role, text: String },
    /// More audio of the model.
    Audio { audio: Audio, item_id: Option<String> },
    /// The model has begun a response.
    ResponseStarted,
    /// The model has ended a response; the reason if it failed.
    ResponseDone { failure: Option<String> },
    /// Something failed; most errors do not end the session.
    Error { message: String, code: Option<String> },
    /// An event without a meaning here.
    Other,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    /// Its name in the APIs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Why a message is not an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not a JSON object with a `type`, or one whose members have other types than the API's.
    #[error("not an event of the realtime API: {cause}")]
    Form { cause: serde_json::Error },
    /// A member is missing.
    #[error("the event `{event}` has no `{member}`")]
    Missing { event: String, member: &'static str },
    /// Audio that cannot be used.
    #[error("the event `{event}`: {problem}")]
    Audio { event: String, problem: AudioError },
}

impl From<serde_json::Error> for EventError {
    fn from(cause: serde_json::Error) -> Self {
        Self::Form { cause }
    }
}

#[derive(Deserialize)]
struct Raw<'m> {
    #[serde(rename = "type", borrow)]
    name: Cow<'m, str>,
    #[serde(borrow)]
    session: Option<&'m RawValue>,
    #[serde(borrow)]
    item: Option<&'m RawValue>,
    #[serde(borrow)]
    delta: Option<&'m RawValue>,
    #[serde(borrow)]
    transcript: Option<&'m RawValue>,
    #[serde(borrow)]
    text: Option<&'m RawValue>,
    #[serde(borrow)]
    item_id: Option<&'m RawValue>,
    #[serde(borrow)]
    response: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

#[derive(Deserialize)]
struct Session {
    id: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    status_details: Option<StatusDetails>,
}

#[derive(Deserialize)]
struct StatusDetails {
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    message: Option<String>,
    code: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Event {
    /// Reads a message of the provider. The names of the API's beta are read, too, since other servers
    /// use them.
    ///
    /// # Errors
    /// It is not an event, or one without what belongs to it.
    pub fn parse(message: &str) -> Result<Self, EventError> {
        let raw: Raw<'_> = serde_json::from_str(message)?;
        Ok(match &*raw.name {
            "session.created" | "session.updated" => {
                let session = raw.session.map(read::<Session>).transpose()?;
                Self::Session { id: session.and_then(|session| session.id) }
            }
            "conversation.item.added" | "conversation.item.created" => {
                let item = raw.item.ok_or_else(|| raw.missing("item"))?;
                Self::ItemAdded { item: item.to_owned() }
            }
            "conversation.item.input_audio_transcription.delta" => raw.delta(Role::User)?,
            "conversation.item.input_audio_transcription.completed" => {
                raw.done(Role::User, ("transcript", raw.transcript))?
            }
            "conversation.item.input_audio_transcription.failed" => {
                raw.error("what the user said was not transcribed")?
            }
            "response.output_audio_transcript.delta"
            | "response.output_text.delta"
            | "response.audio_transcript.delta"
            | "response.text.delta" => raw.delta(Role::Assistant)?,
            "response.output_audio_transcript.done" | "response.audio_transcript.done" => {
                raw.done(Role::Assistant, ("transcript", raw.transcript))?
            }
            "response.output_text.done" | "response.text.done" => {
                raw.done(Role::Assistant, ("text", raw.text))?
            }
            "response.output_audio.delta" | "response.audio.delta" => raw.audio()?,
            "response.created" => Self::ResponseStarted,
            "response.done" => raw.response_done()?,
            "error" => raw.error("no message was given")?,
            _ => Self::Other,
        })
    }
}

impl Raw<'_> {
    fn missing(&self, member: &'static str) -> EventError {
        EventError::Missing { event: self.name.to_string(), member }
    }

    fn delta(&self, role: Role) -> Result<Event, EventError> {
        let delta = self.delta.ok_or_else(|| self.missing("delta"))?;
        Ok(Event::TranscriptDelta { role, delta: read(delta)? })
    }

    fn done(
        &self,
        role: Role,
        (member, value): (&'static str, Option<&RawValue>),
    ) -> Result<Event, EventError> {
        let text = value.ok_or_else(|| self.missing(member))?;
        Ok(Event::TranscriptDone { role, text: read(text)? })
    }

    fn audio(&self) -> Result<Event, EventError> {
        let data: String = read(self.delta.ok_or_else(|| self.missing("delta"))?)?;
        // The API ends some streams with a delta without samples.
        if data.is_empty() {
            return Ok(Event::Other);
        }
        let audio = Audio::received(data)
            .map_err(|problem| EventError::Audio { event: self.name.to_string(), problem })?;
        let item_id: Option<Option<String>> = self.item_id.map(read).transpose()?;
        Ok(Event::Audio { audio, item_id: item_id.flatten() })
    }

    fn response_done(&self) -> Result<Event, EventError> {
        let response = self.response.map(read::<Response>).transpose()?;
        let failure = response.filter(|response| response.status.as_deref() == Some("failed"));
        let failure = failure.map(|response| {
            let problem = response.status_details.and_then(|details| details.error);
            describe(problem, "the model's response failed").0
        });
        Ok(Event::ResponseDone { failure })
    }

    fn error(&self, without_message: &str) -> Result<Event, EventError> {
        let problem = self.error.map(read::<Option<Problem>>).transpose()?.flatten();
        let (message, code) = describe(problem, without_message);
        Ok(Event::Error { message, code })
    }
}

fn read<'m, T: Deserialize<'m>>(value: &'m RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(value.get())
}

/// The message of an error with its code, and the code.
fn describe(problem: Option<Problem>, without_message: &str) -> (String, Option<String>) {
    let (message, code) = match problem {
        Some(problem) => (problem.message, problem.code.or(problem.kind)),
        None => (None, None),
    };
    let message = message.filter(|text| !text.is_empty());
    let mut message: String =
        message.as_deref().unwrap_or(without_message).chars().take(MAX_MESSAGE_CHARS).collect();
    if let Some(code) = &code {
        let code: String = code.chars().take(100).collect();
        message.push_str(&format!(" (`{code}`)"));
    }
    (message, code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_by_name() {
        let check = |event: serde_json::Value, expected: &str| {
            let found = match Event::parse(&event.to_string()) {
                Ok(event) => format!("{event:?}"),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{event}: {found}");
        };
        check(
            json!({ "type": "session.created", "session": { "id": "s" } }),
            r#"Session { id: Some("s")"#,
        );
        check(json!({ "type": "session.updated" }), "Session { id: None }");
        check(json!({ "type": "conversation.item.added", "item": { "id": "i" } }), "ItemAdded");
        check(json!({ "type": "conversation.item.added" }), "no `item`");
        for name in ["response.output_text.delta", "response.audio_transcript.delta"] {
            check(json!({ "type": name, "delta": "hé" }), "role: Assistant, delta: \"hé\"");
        }
        let name = "conversation.item.input_audio_transcription.completed";
        check(json!({ "type": name, "transcript": "Hi." }), "role: User, text: \"Hi.\"");
        check(json!({ "type": name }), "no `transcript`");
        check(json!({ "type": name, "transcript": null }), "no `transcript`");
        check(json!({ "type": name, "transcript": 5 }), "not an event");
        let audio = "response.output_audio.delta";
        check(json!({ "type": audio, "delta": "AAAA", "item_id": "i" }), "3 bytes");
        check(json!({ "type": audio, "delta": "AAA=", "item_id": "i" }), "samples: 1");
        check(json!({ "type": audio, "delta": "AAA=", "item_id": null }), "item_id: None");
        check(json!({ "type": audio, "delta": "" }), "Other");
        check(json!({ "type": audio, "delta": "?" }), "not base64");
        check(json!({ "type": "error", "error": { "message": "bad", "code": "c" } }), "bad (`c`)");
        check(json!({ "type": "error", "error": null }), "no message was given");
        check(json!({ "type": "error" }), "no message was given");
        let failed =
            json!({ "status": "failed", "status_details": { "error": { "message": "no" } } });
        check(json!({ "type": "response.done", "response": failed }), "failure: Some(\"no\")");
        check(json!({ "type": "response.done", "response": { "status": "cancelled" } }), "None");
        check(json!({ "type": "from.the.future", "item": 5 }), "Other");
        for bad in [json!(null), json!([]), json!({}), json!({ "type": 5 }), json!("x")] {
            check(bad, "not an event");
        }
    }

    #[test]
    fn a_provider_message_is_bounded() {
        let event = json!({ "type": "error", "error": { "message": "x".repeat(100_000) } });
        let Ok(Event::Error { message, .. }) = Event::parse(&event.to_string()) else { panic!() };
        assert_eq!(message.len(), MAX_MESSAGE_CHARS);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            let _ = Event::parse(&text);
        }

        #[test]
        fn any_members_are_read_without_a_panic(
            name in prop::sample::select(vec![
                "session.created", "conversation.item.added", "response.output_audio.delta",
                "response.done", "error", "response.output_text.done",
            ]),
            member in prop::sample::select(vec![
                "session", "item", "delta", "text", "response", "error", "item_id",
            ]),
            value in prop_oneof![
                Just(json!(null)), Just(json!(5)), Just(json!([])), Just(json!({ "id": 5 })),
                ".*".prop_map(|text| json!(text)),
            ],
        ) {
            let _ = Event::parse(&json!({ "type": name, member: value }).to_string());
        }
    }
}
