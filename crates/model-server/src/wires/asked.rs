//! A request for a response, read from any wire: checked, and translated to the form of the Responses API.

use std::borrow::Cow;

use hyper::HeaderMap;
use serde_json::Value;
use wire::{EncodeContext, Error, Failure, FailureKind, Target, Wire};

use super::cache::{Cache, InputTokens, Writes};
use super::route::{Streams, conversation_of};
use super::thoughts::Thoughts;
use crate::check::{self, Purpose};

/// Facts of earlier requests and answers.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) thoughts: Thoughts,
    pub(crate) cache: Cache,
}

/// A request for a response.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) wire: Wire,
    /// The request as it was sent.
    pub(crate) body: &'a [u8],
    /// The same request in the form of the Responses API.
    pub(crate) responses: Cow<'a, [u8]>,
    pub(crate) streams: Streams,
    pub(crate) conversation: String,
    pub(crate) context: EncodeContext,
    /// Names of the functions on offer, on wires that tell functions from free-form tools.
    pub(crate) functions: Vec<String>,
    /// Tokens of the input, estimated, with those that the prompt cache holds.
    pub(crate) input: InputTokens,
    /// Its additions to the prompt cache once it is answered.
    pub(crate) writes: Writes,
}

impl<'a> Asked<'a> {
    /// Reads and checks a request; `model` and `streams` are those of the path.
    ///
    /// # Errors
    /// The provider would refuse it, or the script's model cannot answer it.
    pub(crate) fn read(
        wire: Wire,
        (model, streams): (&str, Option<Streams>),
        body: &'a [u8],
        headers: &HeaderMap,
        (memory, now): (&Memory, u64),
    ) -> Result<Self, Failure> {
        let value = check::parse(wire, body)?;
        check::check(wire, Purpose::Generate, model, &value, headers)?;
        if wire == Wire::Messages
            && let Some(fault) = memory.thoughts.missing(&value)
        {
            return Err(fault.into_failure(wire));
        }
        let given = if value["stream"] == true { Streams::Events } else { Streams::Whole };
        let streams = streams.unwrap_or(given);
        let (responses, mut context) = translated(wire, model, body, &value)?;
        context.created_at = now;
        let listed = value["tools"].as_array().into_iter().flatten();
        let (input, writes) = memory.cache.input(wire, &value, body.len(), now);
        let names = listed.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned));
        Ok(Self {
            wire,
            body,
            responses,
            streams,
            conversation: conversation_of(wire, &value, headers),
            context,
            functions: names.collect(),
            input,
            writes,
        })
    }
}

/// The request in the form of the Responses API, and the context of its answer.
fn translated<'a>(
    wire: Wire,
    model: &str,
    body: &'a [u8],
    value: &Value,
) -> Result<(Cow<'a, [u8]>, EncodeContext), Failure> {
    if wire == Wire::Responses {
        return Ok((Cow::Borrowed(body), EncodeContext::default()));
    }
    let rewritten = (wire == Wire::Gemini).then(|| value.to_string());
    let body = rewritten.as_ref().map_or(body, |text| text.as_bytes());
    let (responses, context) = rewrite(wire, model, body)?;
    Ok((Cow::Owned(responses), context))
}

/// A request of another wire in the form of the Responses API.
///
/// # Errors
/// It has what that form cannot carry.
pub(crate) fn in_responses_form(wire: Wire, model: &str, body: &Value) -> Result<Vec<u8>, Failure> {
    Ok(rewrite(wire, model, body.to_string().as_bytes())?.0)
}

fn rewrite(wire: Wire, model: &str, body: &[u8]) -> Result<(Vec<u8>, EncodeContext), Failure> {
    let refused = |error: Error| failure_of(&error.in_wire(wire));
    let (mut request, _) = wire::read_request(wire, model, body).map_err(refused)?;
    // The script decides where its texts end.
    request.stop.clear();
    let context = EncodeContext::of_request(&request);
    let target = Target::default();
    let written = wire::write_request(Wire::Responses, &request, &target).map_err(refused)?;
    Ok((written.body.into_bytes(), context))
}

/// A request that the provider may take, and the scripted model does not.
fn failure_of(error: &Error) -> Failure {
    let kind = match error.code {
        wire::Code::TooLarge => FailureKind::TooLarge,
        _ => FailureKind::Invalid,
    };
    let mut failure = Failure::new(kind, &format!("This server cannot answer that: {error}"));
    error.code.as_str().clone_into(&mut failure.code);
    failure.param = Some(error.member.clone()).filter(|member| !member.is_empty());
    failure
}
