//! The route of a request: the meaning of its method and path (specification: Endpoints, Versioning).
//! The handlers are in `api/`, one file per resource, and in the crate `gateway-admin`;
//! `serve/service.rs` calls them.

use hyper::http::request;
use hyper::{HeaderMap, Method};

use gateway_body::Kind;
use gateway_policy::error::ApiError;
use gateway_store::ledger::Endpoint;
use wire::Wire;

/// The route of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// `GET /healthz`: the process is alive.
    Health,
    /// `GET /readyz`: requests can be served.
    Ready,
    /// `GET /metrics`.
    Metrics,
    /// The dashboard.
    Dashboard,
    /// The administration API.
    Admin,
    /// Everything that requires a project's key.
    Api(Api<'a>),
}

/// A route of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api<'a> {
    /// A model generates output.
    Generate(Generation),
    /// The same on a path of Gemini, which names the model.
    Gemini(Generation, InPath<'a>),
    /// `GET /v1beta/models/{id}`.
    GeminiModel(&'a str),
    /// `GET /v1/models/{id}` of a client of Messages; ids may contain slashes.
    MessagesModel(&'a [&'a str]),
    /// A page that depends only on the configuration and the caller.
    Page(Page),
    /// `GET /v1/models/{id}`; ids may contain slashes.
    Model(&'a [&'a str]),
    /// The method is not supported; the value lists those that are.
    WrongMethod(&'static str),
    /// `/v1/responses/{id}` and what is below it.
    Response(&'a str),
    /// `/v1/files` and below.
    Files(&'a [&'a str]),
    /// `/v1/batches` and below.
    Batches(&'a [&'a str]),
    /// `POST /v1/vector_stores/{id}/files` and `…/file_batches`: ingestion, which has its own
    /// limit.
    Ingest(&'a str),
    /// A retired interface.
    Retired,
    /// `POST /v1/videos/{id}/remix`.
    Remix,
    /// A resource that is known, and generates nothing: forwarded unchanged.
    PassThrough,
    /// A path that is not known, so that its cost is not known either: closed where limits apply.
    Unlisted,
    /// `/v1/realtime` and below: makes keys with which a client reaches the upstream directly. Closed.
    Minting,
    /// `/v1/messages/batches` and below: its requests would run outside of the limits. Closed.
    MessageBatches,
}

/// A page of [`Api::Page`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The models of the caller.
    Models,
    /// The same, as Gemini lists them.
    GeminiModels,
    /// The same, as Messages lists them.
    MessagesModels,
    /// The limits of fine-tuning.
    FineTuningLimits,
}

/// A request that makes a model generate output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The kind of its JSON body.
    pub(crate) kind: Kind,
    /// The usage page that counts it.
    pub(crate) endpoint: Endpoint,
    /// The rule for a form as the body: it may or must be one.
    pub(crate) form: Form,
}

/// The parts of a request that Gemini has in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InPath<'a> {
    /// The model's name, encoded.
    pub(crate) model: &'a str,
    /// The method of the model, such as `generateContent`.
    pub(crate) verb: &'static str,
    /// True if the answer is a stream.
    pub(crate) is_stream: bool,
}

/// The rule for a `multipart/form-data` body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Form {
    Never,
    Maybe,
    Always,
}

/// Longest path, in segments.
const MAX_SEGMENTS: usize = 16;

/// The segments after `/v1/`, validated so that this server and an upstream read the same path.
///
/// # Errors
/// 400 for a path with empty segments, dot segments, encoded slashes, or needlessly encoded
/// characters: `%63hat` would be a chat to the upstream, and something else here.
pub(crate) fn segments(path: &str) -> Result<Vec<&str>, ApiError> {
    segments_below(path, "/v1/")
}

fn segments_below<'a>(path: &'a str, version: &str) -> Result<Vec<&'a str>, ApiError> {
    let is_tricky = !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        || !path.split('%').skip(1).all(is_needed_encoding);
    let rest = path.strip_prefix(version).unwrap_or_default();
    let segments: Vec<&str> = rest.split('/').collect();
    let is_strange = |segment: &&str| matches!(*segment, "" | "." | "..");
    if is_tricky || segments.iter().any(is_strange) || segments.len() > MAX_SEGMENTS {
        let message = "The path is not valid: segments must not be empty or dots, and only what \
                       must be encoded may be; slashes must not.";
        return Err(ApiError::bad_request("invalid_path", message));
    }
    Ok(segments)
}

/// Returns whether the two characters after a `%` are hexadecimal digits of a byte that must be
/// encoded.
fn is_needed_encoding(after: &str) -> bool {
    let digits = after.get(..2).filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
    byte.is_some_and(|byte| {
        !byte.is_ascii_alphanumeric() && !byte.is_ascii_control() && !b"-._~/\\".contains(&byte)
    })
}

/// The wire of a request, whose form its errors have. Clients of three wires ask for `/v1/models`, and tell themselves
/// apart by their headers.
pub(crate) fn wire_of_request(head: &request::Parts) -> Wire {
    let path = head.uri.path();
    let wire = wire_of_path(path);
    let below = path.strip_prefix("/v1/models");
    match below.filter(|below| below.is_empty() || below.starts_with('/')) {
        Some(_) if wire == Wire::Responses => wire_of_headers(&head.headers),
        _ => wire,
    }
}

fn wire_of_headers(headers: &HeaderMap) -> Wire {
    match () {
        () if headers.contains_key("anthropic-version") => Wire::Messages,
        () if headers.contains_key("x-goog-api-key") => Wire::Gemini,
        () => Wire::Responses,
    }
}

/// The wire whose form errors on a path have.
fn wire_of_path(path: &str) -> Wire {
    let is_below = |prefix: &str| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match () {
        () if is_below("/v1/messages") => Wire::Messages,
        () if is_below("/v1beta") || is_gemini_call(path) => Wire::Gemini,
        () if is_below("/v1/chat") => Wire::Chat,
        () => Wire::Responses,
    }
}

/// The methods of a model that Gemini has in the path.
const VERBS: [&str; 3] = ["generateContent", "streamGenerateContent", "countTokens"];

/// Returns whether a path below `/v1/` is a call of Gemini: its clients use this version, too.
fn is_gemini_call(path: &str) -> bool {
    let call = path.strip_prefix("/v1/models/").and_then(|named| named.rsplit_once(':'));
    call.is_some_and(|(_, verb)| VERBS.contains(&verb))
}

/// The routes of Gemini.
fn gemini<'a>(method: &Method, path: &'a str, version: &str) -> Result<Api<'a>, ApiError> {
    segments_below(path, version)?;
    let gets = matches!(*method, Method::GET | Method::HEAD);
    let below = path.strip_prefix(version).unwrap_or_default();
    let named = below.strip_prefix("models/");
    let call = named.and_then(|named| named.rsplit_once(':'));
    Ok(match (named, call) {
        (_, Some((model, verb))) => {
            let (kind, endpoint) = (Kind::Gemini, Endpoint::Completions);
            let (kind, endpoint, verb, is_stream) = match verb {
                "generateContent" => (kind, endpoint, "generateContent", false),
                "streamGenerateContent" => (kind, endpoint, "streamGenerateContent", true),
                "countTokens" => (Kind::GeminiTokens, Endpoint::Other, "countTokens", false),
                _ if gets => return Ok(Api::GeminiModel(named.unwrap_or_default())),
                _ => return Err(nothing(method, path)),
            };
            if *method != Method::POST {
                return Ok(Api::WrongMethod("POST"));
            }
            let generation = Generation { kind, endpoint, form: Form::Never };
            Api::Gemini(generation, InPath { model, verb, is_stream })
        }
        (Some(name), None) if gets => Api::GeminiModel(name),
        (None, None) if gets && below == "models" => Api::Page(Page::GeminiModels),
        _ => return Err(nothing(method, path)),
    })
}

fn nothing(method: &Method, path: &str) -> ApiError {
    ApiError::not_found("not_found", format!("There is nothing at {method} {path}."))
}

/// Forwarded methods.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// Returns whether a `POST` to this path generates output that is counted.
fn makes(segments: &[&str]) -> bool {
    matches!(
        segments,
        ["responses" | "completions" | "embeddings" | "moderations" | "messages"]
            | ["messages", "count_tokens"]
            | ["responses", "compact"]
            | ["chat", "completions"]
            | ["images" | "audio", _]
            | ["videos", "edits"]
    )
}

/// Returns whether a path is of a resource whose requests generate nothing.
fn manages(posts: bool, segments: &[&str]) -> bool {
    let is_known = matches!(
        segments,
        ["conversations" | "containers" | "evals" | "responses" | "uploads", ..]
            | ["vector_stores" | "videos", ..]
            | ["chat", "completions", ..]
            | ["fine_tuning", "jobs", ..]
    );
    let may_generate = posts && matches!(segments, ["videos", ..] | ["evals", _, "runs", ..]);
    is_known && !may_generate
}

/// The route of a request. It borrows from `path` and from `segments`, which this function fills.
///
/// # Errors
/// 400 for a path that other servers could read differently, 404 for an unknown one.
pub(crate) fn find<'a>(
    (method, headers): (&Method, &HeaderMap),
    path: &'a str,
    segments: &'a mut Vec<&'a str>,
) -> Result<Route<'a>, ApiError> {
    let gets = matches!(*method, Method::GET | Method::HEAD);
    match path {
        "/healthz" if gets => Ok(Route::Health),
        "/readyz" if gets => Ok(Route::Ready),
        "/metrics" if gets => Ok(Route::Metrics),
        "/dashboard" => Ok(Route::Dashboard),
        _ if path.starts_with("/dashboard/") => Ok(Route::Dashboard),
        _ if is_gemini_call(path) => gemini(method, path, "/v1/").map(Route::Api),
        _ if path.starts_with("/v1/") => {
            *segments = self::segments(path)?;
            match (api(method, segments), wire_of_headers(headers)) {
                (Route::Api(Api::Page(Page::Models) | Api::Model(_)), Wire::Gemini) => {
                    gemini(method, path, "/v1/").map(Route::Api)
                }
                (Route::Api(Api::Page(Page::Models)), Wire::Messages) => {
                    Ok(Route::Api(Api::Page(Page::MessagesModels)))
                }
                (Route::Api(Api::Model(name)), Wire::Messages) => {
                    Ok(Route::Api(Api::MessagesModel(name)))
                }
                (route, _) => Ok(route),
            }
        }
        _ if path.starts_with("/v1beta/") => gemini(method, path, "/v1beta/").map(Route::Api),
        _ => Err(nothing(method, path)),
    }
}

/// The route of a request below `/v1/`.
#[must_use]
pub(crate) fn api<'a>(method: &Method, segments: &'a [&'a str]) -> Route<'a> {
    let posts = method == Method::POST;
    let gets = matches!(*method, Method::GET | Method::HEAD);
    let generate = |kind, endpoint, form| Api::Generate(Generation { kind, endpoint, form });
    let known = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    Route::Api(match segments {
        ["organization" | "organizations", ..] => return Route::Admin,
        ["assistants" | "threads" | "engines", ..] => Api::Retired,
        // An upstream's response to `TRACE` would contain our key.
        _ if !gets && !known.contains(method) => Api::WrongMethod(METHODS),
        // An upstream that accepts any method must not generate outside of the limits.
        _ if !posts && !gets && makes(segments) => Api::WrongMethod("POST"),
        ["responses"] if posts => generate(Kind::Responses, Endpoint::Completions, Form::Never),
        ["responses", "compact"] if posts => {
            generate(Kind::Compact, Endpoint::Completions, Form::Never)
        }
        ["responses", "input_tokens"] if posts => {
            generate(Kind::InputTokens, Endpoint::Other, Form::Never)
        }
        ["responses", id, ..] => Api::Response(id),
        ["chat", "completions"] if posts => {
            generate(Kind::Chat, Endpoint::Completions, Form::Never)
        }
        ["messages"] if posts => generate(Kind::Messages, Endpoint::Completions, Form::Never),
        ["messages", "count_tokens"] if posts => {
            generate(Kind::MessageTokens, Endpoint::Other, Form::Never)
        }
        ["messages", "batches", ..] => Api::MessageBatches,
        ["completions"] if posts => generate(Kind::Completions, Endpoint::Completions, Form::Never),
        ["embeddings"] if posts => generate(Kind::Embeddings, Endpoint::Embeddings, Form::Never),
        ["images", "generations"] if posts => {
            generate(Kind::ImageGenerations, Endpoint::Images, Form::Never)
        }
        ["images", "edits"] if posts => generate(Kind::ImageEdits, Endpoint::Images, Form::Maybe),
        ["images", _] if posts => generate(Kind::ImageEdits, Endpoint::Images, Form::Maybe),
        ["audio", "speech"] if posts => {
            generate(Kind::Speech, Endpoint::AudioSpeeches, Form::Never)
        }
        ["audio", "transcriptions" | "translations"] if posts => {
            generate(Kind::Other, Endpoint::AudioTranscriptions, Form::Always)
        }
        ["videos"] | ["videos", "edits"] if posts => {
            generate(Kind::VideoEdits, Endpoint::Other, Form::Maybe)
        }
        ["videos", _, "remix"] if posts => Api::Remix,
        ["moderations"] if posts => generate(Kind::Moderations, Endpoint::Moderations, Form::Never),
        ["models"] if gets => Api::Page(Page::Models),
        ["models", name @ ..] if gets => Api::Model(name),
        ["models", ..] => Api::WrongMethod("GET, HEAD"),
        ["fine_tuning", "model_limits"] if gets => Api::Page(Page::FineTuningLimits),
        ["files", rest @ ..] => Api::Files(rest),
        ["batches", rest @ ..] => Api::Batches(rest),
        ["vector_stores", id, "files" | "file_batches"] if posts => Api::Ingest(id),
        ["realtime", ..] => Api::Minting,
        _ if manages(posts, segments) => Api::PassThrough,
        _ => Api::Unlisted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_paths_are_refused() {
        for path in [
            "/v1/",
            "/v1//models",
            "/v1/models/",
            "/v1/x/../organization/projects",
            "/v1/./models",
            "/v1/%2e%2e/admin",
            "/v1/a%2Fb",
            "/v1/a%5cb",
            "/v1/a\\b",
            "/v1/%63hat/completions",
            "/v1/files/file%2Dabc",
            "/v1/files/a%00",
            "/v1/files/a%",
            "/v1/files/a%g0",
            "/v1/files/a%+1",
            "/v1/files/\u{e9}",
        ] {
            assert!(segments(path).is_err(), "{path}");
        }
        assert_eq!(
            segments("/v1/responses/resp_1/cancel").unwrap(),
            ["responses", "resp_1", "cancel"]
        );
    }

    #[test]
    fn paths_are_routed_to_their_handlers() {
        let check = |method: Method, path: &str, expected: Api<'_>| {
            let segments = segments(path).unwrap();
            assert_eq!(api(&method, &segments), Route::Api(expected), "{method} {path}");
        };
        let list = Api::Page(Page::Models);
        check(Method::GET, "/v1/models", list);
        check(Method::GET, "/v1/models/big", Api::Model(&["big"]));
        check(Method::HEAD, "/v1/models", list);
        check(Method::GET, "/v1/models/maker/big", Api::Model(&["maker", "big"]));
        check(Method::DELETE, "/v1/models/big", Api::WrongMethod("GET, HEAD"));
        check(Method::POST, "/v1/assistants", Api::Retired);
        check(Method::PUT, "/v1/chat/completions", Api::WrongMethod("POST"));
        check(Method::TRACE, "/v1/evals", Api::WrongMethod(METHODS));
        check(Method::GET, "/v1/threads/t/runs", Api::Retired);
        check(Method::POST, "/v1/engines/big/completions", Api::Retired);
        let makes_videos =
            Generation { kind: Kind::VideoEdits, endpoint: Endpoint::Other, form: Form::Maybe };
        check(Method::POST, "/v1/videos", Api::Generate(makes_videos));
        check(Method::GET, "/v1/videos", Api::PassThrough);
        check(Method::POST, "/v1/videos/v/remix", Api::Remix);
        check(Method::GET, "/v1/responses/r", Api::Response("r"));
        check(Method::POST, "/v1/responses/r/cancel", Api::Response("r"));
        check(Method::GET, "/v1/responses/input_tokens", Api::Response("input_tokens"));
        let counts =
            Generation { kind: Kind::InputTokens, endpoint: Endpoint::Other, form: Form::Never };
        check(Method::POST, "/v1/responses/input_tokens", Api::Generate(counts));
        check(Method::POST, "/v1/vector_stores/vs/file_batches", Api::Ingest("vs"));
        check(Method::GET, "/v1/vector_stores/vs/files", Api::PassThrough);
        check(Method::GET, "/v1/conversations/c", Api::PassThrough);
        for (method, path) in [
            (Method::POST, "/v1/messages/other"),
            (Method::GET, "/v1/messages"),
            (Method::POST, "/v1/rerank"),
            (Method::GET, "/v1/rerank"),
            (Method::POST, "/v1/audio"),
            (Method::POST, "/v1/audio/speech/x"),
            (Method::POST, "/v1/evals/e/runs"),
            (Method::POST, "/v1/videos/characters"),
            (Method::POST, "/v1/chat/complete"),
            (Method::DELETE, "/v1/x"),
        ] {
            check(method, path, Api::Unlisted);
        }
        let message =
            |kind, endpoint| Api::Generate(Generation { kind, endpoint, form: Form::Never });
        let messages = message(Kind::Messages, Endpoint::Completions);
        check(Method::POST, "/v1/messages", messages);
        let counts = message(Kind::MessageTokens, Endpoint::Other);
        check(Method::POST, "/v1/messages/count_tokens", counts);
        check(Method::PUT, "/v1/messages", Api::WrongMethod("POST"));
        check(Method::POST, "/v1/messages/batches", Api::MessageBatches);
        check(Method::GET, "/v1/messages/batches/b/results", Api::MessageBatches);
        check(Method::POST, "/v1/realtime/client_secrets", Api::Minting);
        check(Method::GET, "/v1/realtime", Api::Minting);
        assert_eq!(api(&Method::GET, &["organization", "projects"]), Route::Admin);
    }

    #[test]
    fn gemini_has_the_model_and_the_stream_in_the_path() {
        let find = |method: Method, path: &'static str| gemini(&method, path, "/v1beta/").ok();
        let call = |kind, endpoint, model, verb, is_stream| {
            let generation = Generation { kind, endpoint, form: Form::Never };
            Some(Api::Gemini(generation, InPath { model, verb, is_stream }))
        };
        let (kind, endpoint) = (Kind::Gemini, Endpoint::Completions);
        for (path, expected) in [
            (
                "/v1beta/models/big:generateContent",
                call(kind, endpoint, "big", "generateContent", false),
            ),
            (
                "/v1beta/models/maker/big:7b:streamGenerateContent",
                call(kind, endpoint, "maker/big:7b", "streamGenerateContent", true),
            ),
            (
                "/v1beta/models/big:countTokens",
                call(Kind::GeminiTokens, Endpoint::Other, "big", "countTokens", false),
            ),
            ("/v1beta/models/big:embedContent", None),
            ("/v1beta/models/big:batchGenerateContent", None),
            ("/v1beta/models/big", None),
            ("/v1beta/models", None),
            ("/v1beta/files", None),
            ("/v1beta/models/../big:generateContent", None),
            ("/v1beta/models/b%69g:generateContent", None),
        ] {
            assert_eq!(find(Method::POST, path), expected, "{path}");
        }
        let big = Some(Api::GeminiModel("maker/big:7b"));
        assert_eq!(find(Method::GET, "/v1beta/models/maker/big:7b"), big);
        assert_eq!(find(Method::GET, "/v1beta/models"), Some(Api::Page(Page::GeminiModels)));
        let wrong = find(Method::PUT, "/v1beta/models/big:generateContent");
        assert_eq!(wrong, Some(Api::WrongMethod("POST")));
        for (path, wire) in [
            ("/v1/messages/count_tokens", Wire::Messages),
            ("/v1/messagesx", Wire::Responses),
            ("/v1beta/models", Wire::Gemini),
            ("/v1beta", Wire::Gemini),
            ("/v1/models", Wire::Responses),
        ] {
            assert_eq!(wire_of_path(path), wire, "{path}");
        }
    }

    #[test]
    fn paths_outside_the_api_are_not_found() {
        let check = |method: Method, path: &str, expected: Option<Route<'_>>| {
            let (mut segments, headers) = (Vec::new(), HeaderMap::new());
            assert_eq!(
                find((&method, &headers), path, &mut segments).ok(),
                expected,
                "{method} {path}"
            );
        };
        check(Method::GET, "/healthz", Some(Route::Health));
        check(Method::HEAD, "/readyz", Some(Route::Ready));
        check(Method::POST, "/metrics", None);
        check(Method::POST, "/dashboard/sign-in", Some(Route::Dashboard));
        let list = Api::Page(Page::Models);
        check(Method::GET, "/v1/models", Some(Route::Api(list)));
        check(Method::GET, "/v2/models", None);
    }
}
