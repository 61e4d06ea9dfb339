//! Translates what lines of standard input say, each a JSON object: `{"from", "to", "stream"}`, the bytes of a stream,
//! or `{"from", "to", "body"}` with `whole` for a response that is no stream, or `request` with the path's `model`.
//! Prints a line of JSON for each: the text, or the error. The judges of `tests/judges` compare them with what the
//! official clients read and send.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use serde_json::{Value, json};
use wire::{
    ChatOptions, Decoder, EncodeContext, Encoder, Response, ResponseContext, Target, Wire,
    read_request, whole_response, write_request,
};

fn main() {
    for line in std::io::stdin().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |name: &str| command[name].as_str().unwrap_or_default();
        let wire = |name: &str| Wire::from_name(text(name)).unwrap();
        let (from, to) = (wire("from"), wire("to"));
        let result = match (command.get("stream"), command.get("whole")) {
            (Some(_), _) => json!({ "text": stream(from, to, text("stream")) }),
            (None, Some(_)) => json!({ "text": whole(from, to, text("whole")) }),
            (None, None) => request(from, to, text("model"), text("request")),
        };
        println!("{result}");
    }
}

fn context() -> (ResponseContext, EncodeContext) {
    let decode = ResponseContext {
        provider: "p".into(),
        model: "m".into(),
        id: "r".into(),
        ..ResponseContext::default()
    };
    let encode = EncodeContext {
        model: "m".into(),
        upstream_model: "m".into(),
        provider: "p".into(),
        created_at: 1_760_000_000,
        stream_usage: true,
        ..EncodeContext::default()
    };
    (decode, encode)
}

fn stream(from: Wire, to: Wire, stream: &str) -> String {
    let (decode, encode) = context();
    let (mut decoder, mut encoder) = (Decoder::new(from, decode), Encoder::new(to, encode));
    let mut out = String::new();
    for line in stream.lines().filter_map(|line| line.strip_prefix("data:")) {
        decoder.event(line.trim().as_bytes(), &mut |event| encoder.event(&event, &mut out));
    }
    decoder.finish(&mut |event| encoder.event(&event, &mut out));
    out
}

fn whole(from: Wire, to: Wire, stream: &str) -> String {
    let (decode, encode) = context();
    let mut decoder = Decoder::new(from, decode);
    let mut response = Response::default();
    for line in stream.lines().filter_map(|line| line.strip_prefix("data:")) {
        decoder.event(line.trim().as_bytes(), &mut |event| response.event(&event));
    }
    decoder.finish(&mut |event| response.event(&event));
    whole_response(to, &response, &encode).unwrap_or_else(|failure| failure.body(to))
}

fn request(from: Wire, to: Wire, model: &str, body: &str) -> Value {
    let chat = ChatOptions { has_files: true, has_web_search: true, ..ChatOptions::default() };
    let target = Target { provider: "p".into(), max_output: Some(4096), chat, ..Target::default() };
    let written = read_request(from, model, body.as_bytes())
        .and_then(|(request, warnings)| Ok((write_request(to, &request, &target)?, warnings)));
    match written {
        Ok((encoded, mut warnings)) => {
            warnings.extend(encoded.warnings);
            let warnings: Vec<String> =
                warnings.as_slice().iter().map(ToString::to_string).collect();
            json!({ "text": encoded.body, "path": encoded.path, "warnings": warnings })
        }
        Err(error) => json!({ "error": error.message, "member": error.member }),
    }
}
