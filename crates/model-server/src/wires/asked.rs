//! A request for a response, read from any wire: checked, and translated to the form of the Responses API.

use std::borrow::Cow;

use hyper::HeaderMap;
use serde_json::Value;
use wire::{EncodeContext, Error, Failure, FailureKind, Target, Wire};

use super::cache::{Cache, InputTokens, Writes};
use super::issued::Issued;
use super::route::{Streams, conversation_of};
use super::thoughts::Thoughts;
use crate::check::{self, Purpose};

/// Facts of earlier requests and answers.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) thoughts: Thoughts,
    pub(crate) cache: Cache,
    pub(crate) issued: Issued,
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
    /// The response that it continues; `null` for none.
    pub(crate) previous: Value,
    /// Its response may be continued.
    pub(crate) is_kept: bool,
    pub(crate) conversation: String,
    pub(crate) context: EncodeContext,
    /// The request asks for thinking, on wires where the model shows none otherwise.
    pub(crate) thinks: bool,
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
        if wire == Wire::Responses {
            memory.issued.check(&value).map_err(|fault| fault.into_failure(wire))?;
        }
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
            previous: value["previous_response_id"].clone(),
            is_kept: wire == Wire::Responses && value["store"] != false,
            conversation: conversation_of(wire, &value, headers),
            context,
            thinks: thinks(wire, model, &value),
            functions: names.collect(),
            input,
            writes,
        })
    }
}

/// Returns whether the answer shows thinking: Claude and Gemini do where they are asked for it, other models by themselves.
fn thinks(wire: Wire, model: &str, body: &Value) -> bool {
    let model = body["model"].as_str().unwrap_or(model);
    match wire {
        Wire::Messages if model.contains("claude") => {
            !matches!(body["thinking"]["type"].as_str(), None | Some("disabled"))
        }
        Wire::Gemini if model.contains("gemini") => {
            body["generationConfig"]["thinkingConfig"]["includeThoughts"] == Value::Bool(true)
        }
        _ => true,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A request of each wire with most of what it may have.
    fn valid(wire: Wire) -> Value {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false});
        match wire {
            Wire::Responses => {
                json!({"model": "m", "tools": [{"type": "function", "name": "f", "strict": true,
                "parameters": schema}], "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "y"}]})
            }
            Wire::Messages => {
                json!({"model": "m", "max_tokens": 9, "stream": true, "thinking": {"type": "adaptive"},
                "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
                "tools": [{"name": "f", "input_schema": schema, "strict": true}], "tool_choice": {"type": "auto"},
                "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
                "stop_sequences": ["x"], "metadata": {"user_id": "u"}, "messages": [{"role": "user", "content": "x"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
                    "content": [{"type": "text", "text": "y", "cache_control": {"type": "ephemeral"}}]}]}]})
            }
            Wire::Chat => {
                json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": schema}}],
                "tool_choice": "auto", "response_format": {"type": "json_object"}, "stop": ["x"],
                "messages": [{"role": "system", "content": "JSON"}, {"role": "user", "content": [{"type": "text", "text": "x"}]},
                {"role": "assistant", "reasoning_content": "r", "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "y"}]})
            }
            Wire::Gemini => json!({"system_instruction": {"parts": [{"text": "s"}]},
                "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
                "generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {"thinkingLevel": "LOW"}},
                "contents": [{"role": "user", "parts": [{"text": "x"}]},
                {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {}},
                    "thoughtSignature": "skip_thought_signature_validator"}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "y"}}}]}]}),
        }
    }

    fn ask(wire: Wire, body: &[u8]) -> Result<(), Failure> {
        let headers = HeaderMap::from_iter([(
            hyper::header::HeaderName::from_static("anthropic-version"),
            hyper::header::HeaderValue::from_static("2023-06-01"),
        )]);
        Asked::read(wire, ("m", None), body, &headers, (&Memory::default(), 0)).map(|_| ())
    }

    /// The `number`-th value inside of `value`, counted through its parts; `None` past the last.
    fn nth<'v>(value: &'v mut Value, number: &mut usize) -> Option<&'v mut Value> {
        if *number == 0 {
            return Some(value);
        }
        *number -= 1;
        match value {
            Value::Array(values) => values.iter_mut().find_map(|value| nth(value, number)),
            Value::Object(members) => members.values_mut().find_map(|value| nth(value, number)),
            _ => None,
        }
    }

    #[test]
    fn valid_requests_are_taken() {
        for wire in Wire::ALL {
            assert_eq!(ask(wire, valid(wire).to_string().as_bytes()), Ok(()), "{wire}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z_ ]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("(type|role|content|text|parts|id)", inner), 0..3)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_in_the_place_of_another_is_an_answer(
            number in 0..60_usize, other in any_json(), bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            for wire in Wire::ALL {
                let mut body = valid(wire);
                if let Some(place) = nth(&mut body, &mut number.clone()) {
                    *place = other.clone();
                }
                if let Err(failure) = ask(wire, body.to_string().as_bytes()) {
                    prop_assert!(!failure.message.is_empty());
                }
                prop_assert!(ask(wire, &bytes).is_err());
            }
        }
    }
}
