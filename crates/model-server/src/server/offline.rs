//! The offline model with the routes of the hosted API: its router, and what the handlers share.
//! It stores objects in bounded memory, and makes no requests.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    form::Form,
    kept::Kept,
    objects::{File, Stored, VectorStore},
    query::Query,
    reply::{Answered, Refused, Reply},
    saying::mixed,
};
use crate::wires::segments;

/// Seconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Most stored objects of each kind. When full, the oldest response or video is dropped, and a new
/// file or vector store is refused.
const MAX_KEPT: usize = 1000;

/// The identity that distinguishes one server's responses from another's.
#[derive(Clone)]
pub struct OfflineModel {
    /// The seed of ids.
    pub seed: u64,
    /// The clock for creation times.
    pub clock: Clock,
}

/// A request, without the headers that no handler uses.
pub(super) struct Call<'a> {
    pub(super) query: Query<'a>,
    content_type: &'a str,
    pub(super) bytes: &'a Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn new(query: &'a str, content_type: &'a str, bytes: &'a Bytes) -> Self {
        Self { query: Query(query), content_type, bytes }
    }

    pub(super) fn is_form(&self) -> bool {
        self.content_type.starts_with("multipart/")
    }

    pub(super) fn form(&self) -> Result<Form<'a>, Refused> {
        Form::read(self.content_type, self.bytes)
    }

    /// The body, which must be an object.
    pub(super) fn json(&self) -> Result<Value, Refused> {
        let refused =
            |message: String| Refused::new(StatusCode::BAD_REQUEST, "invalid_json", message);
        let body: Value = serde_json::from_slice(self.bytes)
            .map_err(|error| refused(format!("The request body cannot be read: {error}.")))?;
        if !body.is_object() {
            return Err(refused("The request body is not an object.".to_owned()));
        }
        Ok(body)
    }
}

pub(super) struct Offline {
    pub(super) model: OfflineModel,
    made: AtomicU64,
    kept: Mutex<Objects>,
}

pub(super) struct Objects {
    pub(super) responses: Kept<Stored>,
    pub(super) files: Kept<File>,
    pub(super) vector_stores: Kept<VectorStore>,
    pub(super) videos: Kept<Value>,
}

impl Offline {
    pub(super) fn new(model: OfflineModel) -> Self {
        let kept = Objects {
            responses: Kept::new(MAX_KEPT),
            files: Kept::new(MAX_KEPT),
            vector_stores: Kept::new(MAX_KEPT),
            videos: Kept::new(MAX_KEPT),
        };
        Self { model, made: AtomicU64::new(0), kept: Mutex::new(kept) }
    }

    /// A number for the next object's id.
    pub(super) fn tag(&self) -> u64 {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        // A bijection: different numbers stay different.
        mixed(self.model.seed.wrapping_add(made))
    }

    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:016x}", self.tag())
    }

    pub(super) fn now(&self) -> u64 {
        (self.model.clock)()
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Objects> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self, method: &Method, path: &str, call: &Call<'_>) -> Answered {
        let segments = segments(path);
        match (method.as_str(), segments.as_slice()) {
            ("POST", ["responses"]) => self.create_response(call),
            ("POST", ["responses", "compact"]) => self.compact(call),
            ("POST", ["responses", "input_tokens"]) => self.input_tokens(call),
            ("GET", ["responses", id]) => self.response(id),
            ("DELETE", ["responses", id]) => self.delete_response(id),
            ("POST", ["responses", id, "cancel"]) => self.cancel_response(id),
            ("POST", ["chat", "completions"]) => self.chat(call),
            ("POST", ["completions"]) => self.completion(call),
            ("POST", ["embeddings"]) => self.embeddings(call),
            ("POST", ["images", "generations" | "edits" | "variations"]) => self.images(call),
            ("POST", ["audio", "transcriptions"]) => self.transcription(call, "transcribe"),
            ("POST", ["audio", "translations"]) => self.transcription(call, "translate"),
            ("POST", ["audio", "speech"]) => self.speech(call),
            ("POST", ["moderations"]) => self.moderations(call),
            ("GET", ["models"]) => Ok(Reply::Json(json!({"object": "list",
                "data": [self.described_model("offline")]}))),
            ("GET", ["models", id @ ..]) => Ok(Reply::Json(self.described_model(&id.join("/")))),
            ("GET", ["fine_tuning", "jobs"]) => {
                Ok(Reply::Json(json!({"object": "list", "data": [], "has_more": false})))
            }
            ("POST", ["fine_tuning", "jobs"]) => {
                let message = "The offline model cannot be trained.";
                Err(Refused::new(StatusCode::BAD_REQUEST, "not_supported", message))
            }
            (method, ["files", rest @ ..]) => self.files(method, rest, call),
            (method, ["vector_stores", rest @ ..]) => self.vector_stores(method, rest, call),
            (method, ["videos", rest @ ..]) => self.videos(method, rest, call),
            (method, _) => Err(not_served(method, path)),
        }
    }

    fn described_model(&self, id: &str) -> Value {
        json!({"id": id, "object": "model", "created": self.now(), "owned_by": "offline"})
    }
}

pub(super) fn not_served(method: &str, path: &str) -> Refused {
    let message = format!("{method} {path} is not served by the offline model.");
    Refused::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// The value of a required string field.
pub(super) fn text<'a>(body: &'a Value, name: &'static str) -> Result<&'a str, Refused> {
    let text = body[name].as_str();
    text.ok_or_else(|| Refused::value(name, format!("`{name}` is missing, or is not text.")))
}

/// The value of an optional integer field from 1 to `most`.
pub(super) fn number(body: &Value, name: &'static str, most: u64) -> Result<Option<u64>, Refused> {
    match &body[name] {
        Value::Null => Ok(None),
        value => match value.as_u64() {
            Some(number) if (1..=most).contains(&number) => Ok(Some(number)),
            _ => {
                let message = format!("`{name}` is a whole number from 1 to {most}.");
                Err(Refused::value(name, message))
            }
        },
    }
}
