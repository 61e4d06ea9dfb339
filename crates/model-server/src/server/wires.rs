//! Requests for responses, for counts of tokens and for lists of models, on each wire: from the script where there is
//! one, else from the offline model.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Response, StatusCode, header, http::request::Parts};
use serde_json::{Value, json};
use tokio::time;
use wire::{Failure, FailureKind, Wire};

use super::{
    State,
    offline::Offline,
    reply::{AnswerBody, Refused, Reply, plain},
    responses,
};
use crate::check::{self, Purpose};
use crate::script::{
    engine::{self, Answer, Engine, Refusal},
    player::{Action, Player},
};
use crate::wires::{
    Asked, Faults, InWire, Route, Streams, Translated, Translation, in_responses_form, listing,
    of_failure, of_refusal,
};

/// An unfinished response has no form without a stream.
const CUT: &str = "The script ends before its response does; ask for a stream.";

/// A fault that an answer without events cannot have.
const ONLY_STREAMS: &str =
    "The script's response has a `fault` that only a stream of events has; ask for one.";

impl State {
    /// Answers a request that one of the wires defines; `None` for the other routes of the hosted API.
    pub(super) async fn in_wire(
        &self,
        route: Route,
        head: &Parts,
        body: &Bytes,
    ) -> Option<Response<AnswerBody>> {
        let headers = &head.headers;
        match route {
            Route::Generate { wire: Wire::Responses | Wire::Chat, .. } if self.engine.is_none() => {
                None
            }
            Route::Generate { wire, model, streams } => {
                let asked = Asked::read(
                    wire,
                    (&model, streams),
                    body,
                    headers,
                    (&self.memory, self.offline.now()),
                );
                Some(match asked {
                    Ok(asked) => self.generate(&asked, headers).await,
                    Err(failure) => refused(of_failure(wire, &failure)),
                })
            }
            Route::CountTokens { wire, model } => {
                Some(match self.count(wire, &model, body, headers) {
                    Ok(counted) => Reply::Json(counted).into_response(),
                    Err(failure) => refused(of_failure(wire, &failure)),
                })
            }
            Route::Models { wire, id } => Some(match check::check_headers(wire, headers) {
                Ok(()) => Reply::Json(listing(wire, id.as_deref())).into_response(),
                Err(failure) => refused(of_failure(wire, &failure)),
            }),
            Route::Other => None,
        }
    }

    /// The script's next response, or the offline model's.
    async fn generate(&self, asked: &Asked<'_>, headers: &HeaderMap) -> Response<AnswerBody> {
        let played = match &self.engine {
            Some(engine) => self.scripted(engine, asked, headers).await,
            None => {
                let played = self.offline.play_translated(&asked.responses);
                played.map_err(|refusal| refused(of_failure(asked.wire, &refusal.into_failure())))
            }
        };
        let player = match played {
            Ok(player) => player,
            Err(response) => return response,
        };
        self.memory.cache.write(&asked.writes, self.offline.now());
        if asked.is_kept && self.engine.is_some() {
            self.memory.issued.keep(player.id());
        }
        let faults = Faults::of(player.steps(), asked.wire);
        let is_stream = asked.streams == Streams::Events;
        let of_streams = match faults.as_ref().filter(|_| !is_stream) {
            // The array of Gemini is no stream of events.
            Some(_) if asked.streams == Streams::Array => true,
            Some(faults) => faults.of_streams().is_some(),
            None => false,
        };
        if of_streams {
            let mut failure = Failure::new(FailureKind::Invalid, ONLY_STREAMS);
            "unsupported_step".clone_into(&mut failure.code);
            return refused(of_failure(asked.wire, &failure));
        }
        match (asked.wire, asked.streams) {
            (Wire::Responses, Streams::Whole) => whole(player, faults).await,
            (Wire::Responses, _) => events(faults, player),
            (_, Streams::Whole) => self.whole_in_wire(asked, player, faults).await,
            (_, Streams::Events) => {
                events(faults, Translated::new(asked, player, Arc::clone(&self.memory)))
            }
            (_, Streams::Array) => {
                let translated = Translated::new(asked, player, Arc::clone(&self.memory));
                Reply::Pieces(Box::new(translated)).into_response()
            }
        }
    }

    async fn scripted(
        &self,
        engine: &Engine,
        asked: &Asked<'_>,
        headers: &HeaderMap,
    ) -> Result<Player, Response<AnswerBody>> {
        let now = self.offline.now();
        let given = engine::InWire {
            wire: asked.wire,
            conversation: &asked.conversation,
            responses: &asked.responses,
            body: asked.body,
        };
        match engine.answer_in_wire(&given, headers) {
            Answer::Stream(player) => {
                let input = &asked.input;
                let player = player.with_input(input.input, input.cached, input.written);
                let previous = ("previous_response_id", asked.previous.clone());
                Ok(player.about([("created_at", now.into()), previous]))
            }
            Answer::Refusal(refusal) => Err(self.refuse(asked.wire, &refusal, now).await),
        }
    }

    async fn refuse(&self, wire: Wire, refusal: &Refusal, now: u64) -> Response<AnswerBody> {
        time::sleep(refusal.delay).await;
        refused(of_refusal(wire, refusal, now))
    }

    /// A response without streaming, sent after the time that its stream would take.
    async fn whole_in_wire(
        &self,
        asked: &Asked<'_>,
        player: Player,
        faults: Option<Faults>,
    ) -> Response<AnswerBody> {
        let mut translation = Translation::new(asked, &player, Arc::clone(&self.memory));
        let mut response = wire::Response::default();
        for action in player {
            if let Action::Bytes(bytes) = action {
                translation.feed(&bytes, &mut |event| response.event(&event));
            } else if !wait(&action).await {
                let failure = Failure::new(FailureKind::Server, CUT);
                return refused(of_failure(asked.wire, &failure));
            }
        }
        match wire::whole_response(asked.wire, &response, &asked.context) {
            Ok(body) => plain(StatusCode::OK, with_faults(body, faults).into()),
            Err(failure) => refused(of_failure(asked.wire, &failure)),
        }
    }

    /// The tokens of a request, as `usage` estimates them.
    fn count(
        &self,
        wire: Wire,
        model: &str,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<Value, Failure> {
        let mut value = check::parse(wire, body)?;
        if wire == Wire::Gemini {
            // A request that is counted may stand inside a member.
            let inner = value.get_mut("generateContentRequest").map(Value::take);
            value = inner.filter(Value::is_object).unwrap_or(value);
        }
        check::check(wire, Purpose::CountTokens, model, &value, headers)?;
        let tokens = match &self.engine {
            Some(_) => (body.len() / crate::script::BYTES_PER_TOKEN) as u64,
            None => count_offline(wire, model, value)?,
        };
        Ok(match wire {
            Wire::Gemini => json!({ "totalTokens": tokens }),
            _ => json!({ "input_tokens": tokens }),
        })
    }
}

fn count_offline(wire: Wire, model: &str, mut value: Value) -> Result<u64, Failure> {
    if wire == Wire::Messages {
        // A count has no limit, which a request must have.
        value["max_tokens"] = 1.into();
    }
    let responses = in_responses_form(wire, model, &value)?;
    Ok(Offline::tokens_of_translated(&responses))
}

/// Waits as an action of a script asks. False if the response ends with it.
async fn wait(action: &Action) -> bool {
    match action {
        Action::Pause(pause) => {
            time::sleep(*pause).await;
            true
        }
        Action::Idle => std::future::pending().await,
        Action::Bytes(_) | Action::Raw(_) | Action::Cut => false,
    }
}

/// A response of the Responses API without streaming.
async fn whole(player: Player, faults: Option<Faults>) -> Response<AnswerBody> {
    let mut actions = Vec::new();
    for action in player {
        if matches!(action, Action::Pause(_) | Action::Idle) {
            wait(&action).await;
        } else {
            actions.push(action);
        }
    }
    let response = responses::ended(actions.into_iter());
    response.map_or_else(Refused::into_response, |mut response| {
        if let Some(mut faults) = faults {
            faults.document(&mut response);
        }
        Reply::Json(response).into_response()
    })
}

/// A stream, with the faults of the script.
fn events(
    faults: Option<Faults>,
    actions: impl Iterator<Item = Action> + Send + 'static,
) -> Response<AnswerBody> {
    match faults {
        Some(faults) => Reply::Events(Box::new(faults.stream(actions))).into_response(),
        None => Reply::Events(Box::new(actions)).into_response(),
    }
}

fn with_faults(body: String, faults: Option<Faults>) -> String {
    let Some(mut faults) = faults else { return body };
    match serde_json::from_str(&body) {
        Ok(mut answer) => {
            faults.document(&mut answer);
            answer.to_string()
        }
        // The body was written as JSON.
        Err(_) => body,
    }
}

fn refused(sent: InWire) -> Response<AnswerBody> {
    let status = StatusCode::from_u16(sent.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = plain(status, sent.body);
    for (name, value) in &sent.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes());
        let value = header::HeaderValue::from_str(value);
        // The script's validation rejects invalid ones.
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
