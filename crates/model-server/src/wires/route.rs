//! The wire and the kind of a request, by its method, path and headers. Any prefix of the path is skipped.

use std::borrow::Cow;

use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use wire::Wire;

/// The header that names a request's conversation on every wire.
const CONVERSATION: &str = "x-conversation";

/// The first segments of the supported paths.
const ROOTS: [&str; 13] = [
    "audio",
    "chat",
    "completions",
    "embeddings",
    "files",
    "fine_tuning",
    "images",
    "messages",
    "models",
    "moderations",
    "responses",
    "vector_stores",
    "videos",
];

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A response. `model` and `streams` are those of the path, on Gemini.
    Generate {
        wire: Wire,
        model: String,
        streams: Option<Streams>,
    },
    CountTokens {
        wire: Wire,
        model: String,
    },
    /// The list of models, or one of them.
    Models {
        wire: Wire,
        id: Option<String>,
    },
    /// Any other route of the hosted API.
    Other,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    Whole,
    Events,
    /// An array of chunks: `streamGenerateContent` without `alt=sse`.
    Array,
}

/// The route of a request.
pub(crate) fn route(method: &Method, path: &str, query: &str, headers: &HeaderMap) -> Route {
    let generate = |wire| Route::Generate { wire, model: String::new(), streams: None };
    match (method, segments(path).as_slice()) {
        (&Method::POST, ["responses"]) => generate(Wire::Responses),
        (&Method::POST, ["messages"]) => generate(Wire::Messages),
        (&Method::POST, ["chat", "completions"]) => generate(Wire::Chat),
        (&Method::POST, ["messages", "count_tokens"]) => {
            Route::CountTokens { wire: Wire::Messages, model: String::new() }
        }
        (&Method::POST, ["models", rest @ ..]) => verb(&rest.join("/"), query),
        (&Method::GET, ["models", rest @ ..]) => {
            let id = Some(decoded(&rest.join("/"))).filter(|id| !id.is_empty());
            match wire_of_list(path, query, headers) {
                Some(wire) => Route::Models { wire, id },
                None => Route::Other,
            }
        }
        _ => Route::Other,
    }
}

/// The segments from the first known one on; any prefix is skipped.
pub(crate) fn segments(path: &str) -> Vec<&str> {
    let all: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let behind_version = all.iter().position(|segment| *segment == "v1").map(|at| at + 1);
    let known = |segment: &&str| ROOTS.contains(segment);
    let from = behind_version.or_else(|| all.iter().position(known)).unwrap_or(0);
    all[from..].to_vec()
}

/// The wire of a list of models, whose path several wires share; `None` for OpenAI's.
fn wire_of_list(path: &str, query: &str, headers: &HeaderMap) -> Option<Wire> {
    if headers.contains_key("anthropic-version") {
        return Some(Wire::Messages);
    }
    let is_gemini = path.split('/').any(|segment| segment == "v1beta")
        || headers.contains_key("x-goog-api-key")
        || query.split('&').any(|pair| pair.starts_with("key="));
    is_gemini.then_some(Wire::Gemini)
}

/// `{model}:{verb}` of the Gemini API.
fn verb(last: &str, query: &str) -> Route {
    let Some((model, verb)) = last.rsplit_once(':') else { return Route::Other };
    let (wire, model) = (Wire::Gemini, decoded(model));
    let is_sse = query.split('&').any(|pair| pair == "alt=sse");
    let streams = match verb {
        "generateContent" => Streams::Whole,
        "streamGenerateContent" if is_sse => Streams::Events,
        "streamGenerateContent" => Streams::Array,
        "countTokens" => return Route::CountTokens { wire, model },
        _ => return Route::Other,
    };
    Route::Generate { wire, model, streams: Some(streams) }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The conversation of a request: its header, or the member of its wire that is closest. Empty without one.
pub(crate) fn conversation_of(wire: Wire, body: &Value, headers: &HeaderMap) -> String {
    if let Some(Ok(key)) = headers.get(CONVERSATION).map(|value| value.to_str()) {
        return key.to_owned();
    }
    let member = match wire {
        Wire::Responses | Wire::Chat => &body["prompt_cache_key"],
        Wire::Messages => &body["metadata"]["user_id"],
        Wire::Gemini => &body["labels"]["conversation"],
    };
    let key: Cow<'_, str> = member.as_str().unwrap_or_default().into();
    key.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_headers_tell_the_wire() {
        let check = |method: Method, path: &str, header: Option<&'static str>, expected: Route| {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let mut headers = HeaderMap::new();
            if let Some(name) = header {
                headers.insert(name, "x".parse().unwrap());
            }
            assert_eq!(route(&method, path, query, &headers), expected, "{path}");
        };
        let plain = |wire| Route::Generate { wire, model: String::new(), streams: None };
        let gemini = |model: &str, streams| {
            let (model, streams) = (model.to_owned(), Some(streams));
            Route::Generate { wire: Wire::Gemini, model, streams }
        };
        check(Method::POST, "/v1/responses", None, plain(Wire::Responses));
        check(Method::POST, "/v1/messages?beta=true", None, plain(Wire::Messages));
        check(Method::POST, "/anthropic/v1/messages", None, plain(Wire::Messages));
        check(Method::POST, "/v1/chat/completions", None, plain(Wire::Chat));
        check(Method::POST, "/chat/completions", None, plain(Wire::Chat));
        let path = "/v1beta/models/gemini-3-pro:generateContent";
        check(Method::POST, path, None, gemini("gemini-3-pro", Streams::Whole));
        let path = "/v1/models/a%2Fb:streamGenerateContent?alt=sse";
        check(Method::POST, path, None, gemini("a/b", Streams::Events));
        let path = "/v1beta/models/m:streamGenerateContent";
        check(Method::POST, path, None, gemini("m", Streams::Array));
        let path = "/v1beta/models/m:countTokens";
        let count = Route::CountTokens { wire: Wire::Gemini, model: "m".into() };
        check(Method::POST, path, None, count);
        check(Method::POST, "/v1beta/models/m:embedContent", None, Route::Other);
        check(Method::GET, "/v1/models", None, Route::Other);
        let models = |wire, id: Option<&str>| Route::Models { wire, id: id.map(str::to_owned) };
        let version = Some("anthropic-version");
        check(Method::GET, "/v1/models?limit=5", version, models(Wire::Messages, None));
        check(Method::GET, "/v1/models/m", version, models(Wire::Messages, Some("m")));
        check(Method::GET, "/v1beta/models/m", None, models(Wire::Gemini, Some("m")));
        check(Method::GET, "/v1/models?key=k", None, models(Wire::Gemini, None));
        check(Method::GET, "/v1/messages", None, Route::Other);
    }
}
