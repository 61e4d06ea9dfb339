//! `POST …/responses` and its subresources, served by the offline model: the script player creates
//! the events, and a response without streaming is taken from the last event.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{
    moderations,
    objects::Stored,
    offline::{Call, Offline, number, text},
    reply::{Answered, Refused, Reply},
    saying::{chars, deltas, forced_function, last_user_text, say, tokens},
};
use crate::script::{
    ErrorStep, FunctionCall, Message, Scripted, Step, Usage,
    player::{Action, Player},
    request::RequestBody,
};

/// Largest `max_output_tokens`.
pub(super) const MAX_TOKENS: u64 = 1_000_000_000;

impl Offline {
    pub(super) fn create_response(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        text(&body, "model")?;
        self.check_previous(&body)?;
        let scripted = Arc::new(scripted(&body)?);
        let request = RequestBody::parse(call.bytes).map_err(|error| {
            Refused::value("body", format!("The body cannot be read: {error}."))
        })?;
        let (tag, members) = (self.tag(), self.members(&body));
        let play = || {
            let player = Player::new(Arc::clone(&scripted), &request, call.bytes.len(), tag);
            player.about(members.clone())
        };
        let object = ended(play())?;
        let (background, stream) = (body["background"] == true, body["stream"] == true);
        let queued = background && !stream;
        let mut shown = object.clone();
        if queued {
            shown["status"] = "queued".into();
            shown["output"] = json!([]);
            shown["usage"] = Value::Null;
        }
        if body["store"] != false {
            let id = object["id"].as_str().unwrap_or_default().to_owned();
            self.kept().responses.push(id, Stored { object, queued }, call.bytes.len());
        }
        Ok(match stream {
            true => Reply::Events(Box::new(play())),
            false => Reply::Json(shown),
        })
    }

    /// Plays the answer to a request that another wire translated to this form.
    pub(super) fn play_translated(&self, responses: &[u8]) -> Result<Player, Refused> {
        let unreadable = |error: serde_json::Error| {
            Refused::value("body", format!("The body cannot be read: {error}."))
        };
        let body: Value = serde_json::from_slice(responses).map_err(unreadable)?;
        let request = RequestBody::parse(responses).map_err(unreadable)?;
        let scripted = Arc::new(scripted(&body)?);
        let player = Player::new(scripted, &request, responses.len(), self.tag());
        Ok(player.about(self.members(&body)))
    }

    /// The tokens of such a request.
    pub(super) fn tokens_of_translated(responses: &[u8]) -> u64 {
        let body = serde_json::from_slice(responses).unwrap_or_default();
        tokens(input_chars(&body))
    }

    fn check_previous(&self, body: &Value) -> Result<(), Refused> {
        let Some(id) = body["previous_response_id"].as_str() else { return Ok(()) };
        if self.kept().responses.get(id).is_some() {
            return Ok(());
        }
        let message = format!("The offline model has no response `{id}`.");
        Err(Refused::new(StatusCode::BAD_REQUEST, "previous_response_not_found", message))
    }

    /// The members that a response repeats from its request.
    fn members(&self, body: &Value) -> Vec<(&'static str, Value)> {
        const REPEATED: [&str; 14] = [
            "background",
            "instructions",
            "max_output_tokens",
            "metadata",
            "parallel_tool_calls",
            "previous_response_id",
            "prompt_cache_key",
            "prompt_cache_retention",
            "service_tier",
            "store",
            "temperature",
            "tool_choice",
            "tools",
            "top_p",
        ];
        let given = |name: &&str| !body[*name].is_null();
        let repeated = REPEATED.into_iter().filter(given).map(|name| (name, body[name].clone()));
        let mut members: Vec<_> = repeated.collect();
        members.push(("created_at", self.now().into()));
        if body["moderation"].is_object() {
            members.push((
                "moderation",
                moderations::of_response(&body["moderation"], &body["input"]),
            ));
        }
        members
    }

    pub(super) fn response(&self, id: &str) -> Answered {
        let mut kept = self.kept();
        let stored = kept.responses.get_mut(id).ok_or_else(|| Refused::unknown("response", id))?;
        stored.queued = false;
        Ok(Reply::Json(stored.object.clone()))
    }

    pub(super) fn delete_response(&self, id: &str) -> Answered {
        let removed = self.kept().responses.remove(id);
        removed.ok_or_else(|| Refused::unknown("response", id))?;
        Ok(Reply::Json(json!({"id": id, "object": "response", "deleted": true})))
    }

    /// Cancels a background response that has not been retrieved; a finished one stays unchanged.
    pub(super) fn cancel_response(&self, id: &str) -> Answered {
        let mut kept = self.kept();
        let stored = kept.responses.get_mut(id).ok_or_else(|| Refused::unknown("response", id))?;
        if stored.object["background"] != true {
            let message = "Only a response in the background can be cancelled.";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "not_cancellable", message));
        }
        if std::mem::take(&mut stored.queued) {
            stored.object["status"] = "cancelled".into();
            stored.object["output"] = json!([]);
            stored.object["usage"] = Value::Null;
        }
        Ok(Reply::Json(stored.object.clone()))
    }

    /// The user's messages unchanged, and an item that replaces the rest.
    pub(super) fn compact(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        text(&body, "model")?;
        self.check_previous(&body)?;
        let items = match &body["input"] {
            Value::String(text) => vec![json!({"role": "user", "content": text})],
            Value::Array(items) => items.clone(),
            _ => Vec::new(),
        };
        let mut output: Vec<Value> = items
            .iter()
            .filter(|item| item["role"] == "user")
            .map(|item| self.message(item))
            .collect();
        let note = format!("offline model: {} items compacted", items.len() - output.len());
        output
            .push(json!({"id": self.id("cmp_"), "type": "compaction", "encrypted_content": note}));
        let (input, written) = (tokens(input_chars(&body)), tokens(note.len()));
        Ok(Reply::Json(json!({"id": self.id("resp_"), "object": "response.compaction",
            "created_at": self.now(), "output": output, "usage": usage(input, written)})))
    }

    fn message(&self, item: &Value) -> Value {
        let content = match &item["content"] {
            Value::String(text) => json!([{"type": "input_text", "text": text}]),
            other => other.clone(),
        };
        json!({"id": self.id("msg_"), "type": "message", "role": "user", "status": "completed",
            "content": content})
    }

    pub(super) fn input_tokens(&self, call: &Call<'_>) -> Answered {
        let counted = tokens(input_chars(&call.json()?));
        Ok(Reply::Json(json!({"object": "response.input_tokens", "input_tokens": counted})))
    }
}

fn usage(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output})
}

fn input_chars(body: &Value) -> usize {
    chars(&body["input"]) + chars(&body["instructions"])
}

/// The steps of the response to `body`.
fn scripted(body: &Value) -> Result<Scripted, Refused> {
    let most = number(body, "max_output_tokens", MAX_TOKENS)?;
    let (step, written, cut) = match forced_function(body) {
        Some(name) => {
            let call =
                FunctionCall { name, arguments: json!({}), call_id: None, chunk_delay_ms: 0 };
            (Step::FunctionCall(call), 2, false)
        }
        None => {
            let said = say(&last_user_text(&body["input"]), &body["text"]["format"], most)?;
            let phase = Some("final_answer".to_owned());
            let message = Message { chunks: deltas(&said.text), phase, ..Message::default() };
            (Step::Message(message), said.text.chars().count(), said.cut)
        }
    };
    let usage = Usage {
        input_tokens: tokens(input_chars(body)),
        output_tokens: tokens(written),
        ..Usage::default()
    };
    let mut steps = vec![Step::Usage(usage), step];
    if cut {
        let incomplete = Some("max_output_tokens".to_owned());
        steps.push(Step::Error(ErrorStep { incomplete, ..ErrorStep::default() }));
    }
    Ok(Scripted { conversation: None, expect: None, steps })
}

/// The response in the last event of a stream.
pub(super) fn ended(player: impl Iterator<Item = Action>) -> Result<Value, Refused> {
    let mut bytes = Vec::new();
    for action in player {
        if let Action::Bytes(block) = action {
            bytes.extend_from_slice(&block);
        }
    }
    last_response(&bytes).ok_or_else(|| {
        let message = "The script ends before its response does; ask for a stream.";
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "cut_response", message)
    })
}

/// The member `response` of the last event in `stream`, if that event ends a response.
pub(super) fn last_response(stream: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(stream).ok()?;
    let data = text.trim_end().lines().next_back()?.strip_prefix("data: ")?;
    let mut event: Value = serde_json::from_str(data).ok()?;
    let response = event["response"].take();
    let ended = ["completed", "incomplete", "failed"].iter().any(|end| response["status"] == *end);
    ended.then_some(response)
}
