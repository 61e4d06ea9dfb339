//! Helpers of the tests: streams as events, events as readable lines, and the composition of two wires.

use serde_json::Value;
use wire::{
    Decoder, EncodeContext, Encoded, Encoder, Event, Failure, OutputItem, Response,
    ResponseContext, Target, Wire, read_request, write_request,
};

/// The data of each event of a stream.
pub(crate) fn events(stream: &str) -> Vec<String> {
    let stream = stream.replace("\r\n", "\n");
    let data = |event: &str| -> Option<String> {
        let lines: Vec<&str> =
            event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        (!lines.is_empty()).then(|| lines.join("\n").trim_start().to_owned())
    };
    stream.split("\n\n").filter_map(data).collect()
}

/// A context with the tools of a request.
pub(crate) fn context(encoded: &Encoded) -> ResponseContext {
    ResponseContext {
        provider: "p".into(),
        model: "m".into(),
        tools: encoded.tools.clone(),
        id: "r".into(),
    }
}

pub(crate) fn plain_context() -> ResponseContext {
    ResponseContext {
        provider: "p".into(),
        model: "m".into(),
        id: "r".into(),
        ..ResponseContext::default()
    }
}

/// Decodes a stream to the response and to readable lines, one an event.
pub(crate) fn decode(
    wire: Wire,
    context: ResponseContext,
    stream: &str,
) -> (Response, Vec<String>) {
    let mut decoder = Decoder::new(wire, context);
    let (mut response, mut lines) = (Response::default(), Vec::new());
    let mut sink = |event: Event<'_>| {
        response.event(&event);
        lines.push(line(&event));
    };
    for data in events(stream) {
        decoder.event(data.as_bytes(), &mut sink);
    }
    decoder.finish(&mut sink);
    (response, lines)
}

/// Translates a stream of one wire to another one.
pub(crate) fn translate(
    from: Wire,
    to: Wire,
    context: ResponseContext,
    encode: EncodeContext,
    stream: &str,
) -> String {
    let mut decoder = Decoder::new(from, context);
    let mut encoder = Encoder::new(to, encode);
    let mut out = String::new();
    for data in events(stream) {
        decoder.event(data.as_bytes(), &mut |event| encoder.event(&event, &mut out));
    }
    decoder.finish(&mut |event| encoder.event(&event, &mut out));
    out
}

pub(crate) fn encode_context() -> EncodeContext {
    EncodeContext {
        model: "m".into(),
        upstream_model: "m".into(),
        provider: "p".into(),
        created_at: 1,
        stream_usage: true,
        ..EncodeContext::default()
    }
}

pub(crate) fn target() -> Target {
    Target { provider: "p".into(), model: "m".into(), max_output: Some(1000), ..Target::default() }
}

/// The translated body of a request, with its warnings.
pub(crate) fn request(
    from: Wire,
    to: Wire,
    target: &Target,
    body: &Value,
) -> Result<(Value, Vec<String>), String> {
    let text = body.to_string();
    let (request, mut warnings) =
        read_request(from, "m", text.as_bytes()).map_err(|error| error.to_string())?;
    let encoded = write_request(to, &request, target).map_err(|error| error.to_string())?;
    warnings.extend(encoded.warnings);
    let body = serde_json::from_str(&encoded.body).unwrap();
    Ok((body, warnings.as_slice().iter().map(ToString::to_string).collect()))
}

pub(crate) fn line(event: &Event<'_>) -> String {
    match event {
        Event::Created { id, model, .. } => format!("created {id} {model}"),
        Event::ItemAdded { index, item } => format!("added {index} {}", kind(item)),
        Event::TextDelta { index, text } => format!("text {index} {text}"),
        Event::RefusalDelta { index, text } => format!("refusal {index} {text}"),
        Event::Annotation { index, json } => format!("annotation {index} {json}"),
        Event::SummaryDelta { index, text, .. } => format!("summary {index} {text}"),
        Event::ReasoningDelta { index, text, .. } => format!("reasoning {index} {text}"),
        Event::ArgumentsDelta { index, text } => format!("arguments {index} {text}"),
        Event::InputDelta { index, text } => format!("input {index} {text}"),
        Event::ItemDone { index, item } => format!("done {index} {}", whole(item)),
        Event::Warning { member, reason } => format!("warning {member}: {reason}"),
        Event::Ended(end) => format!(
            "ended {:?} in {} cached {} written {} out {} thought {}",
            end.stop,
            end.usage.input,
            end.usage.cached,
            end.usage.written,
            end.usage.output,
            end.usage.reasoning
        ),
        Event::Failed { failure, .. } => failed(failure),
    }
}

fn failed(failure: &Failure) -> String {
    format!("failed {:?} {}", failure.kind, failure.message)
}

fn kind(item: &OutputItem) -> &'static str {
    match item {
        OutputItem::Message { .. } => "message",
        OutputItem::Reasoning { .. } => "reasoning",
        OutputItem::FunctionCall { .. } => "function_call",
        OutputItem::CustomToolCall { .. } => "custom_tool_call",
        OutputItem::ToolSearchCall { .. } => "tool_search_call",
        OutputItem::WebSearchCall { .. } => "web_search_call",
        OutputItem::ImageCall { .. } => "image_generation_call",
        OutputItem::Other { .. } => "other",
    }
}

fn whole(item: &OutputItem) -> String {
    let text = match item {
        OutputItem::Message { text, refusal, .. } => format!("{text}{refusal}"),
        OutputItem::Reasoning { summary, content, encrypted, .. } => {
            let sealed = if encrypted.is_some() { " sealed" } else { "" };
            format!("{}{}{sealed}", summary.join("|"), content.join("|"))
        }
        OutputItem::FunctionCall { call_id, name, arguments, .. } => {
            format!("{call_id} {name} {arguments}")
        }
        OutputItem::CustomToolCall { call_id, name, input, .. } => {
            format!("{call_id} {name} {input}")
        }
        OutputItem::ToolSearchCall { call_id, arguments, .. } => format!("{call_id} {arguments}"),
        OutputItem::WebSearchCall { query, is_failed, .. } => format!("{query} {is_failed}"),
        OutputItem::ImageCall { result, .. } => result.clone(),
        OutputItem::Other { json, .. } => json.clone(),
    };
    format!("{} {text}", kind(item)).trim_end().to_owned()
}
