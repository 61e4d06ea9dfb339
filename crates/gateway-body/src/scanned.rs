//! The result of a scan, and why a request is refused. Contains no parser.

use std::borrow::Cow;

use super::json::{Malformed, Span};

/// The kind of a JSON request; determines the fields that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/responses/compact`.
    Compact,
    /// `POST /v1/responses/input_tokens`.
    InputTokens,
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    MessageTokens,
    /// `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
    Gemini,
    /// `POST /v1beta/models/{model}:countTokens`.
    GeminiTokens,
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/images/generations`.
    ImageGenerations,
    /// `POST /v1/images/edits` with a JSON body.
    ImageEdits,
    /// `POST /v1/audio/speech`.
    Speech,
    /// `POST /v1/moderations`.
    Moderations,
    /// `POST /v1/videos/edits`.
    VideoEdits,
    /// Any other path. Only `model`, `stream` and file ids are read, and only if they have the
    /// usual type; the body need not be an object.
    Other,
}

impl Kind {
    pub(super) fn is_images(self) -> bool {
        matches!(self, Kind::ImageGenerations | Kind::ImageEdits)
    }

    /// Returns whether it makes something that has a size.
    pub(super) fn has_size(self) -> bool {
        self.is_images() || self == Kind::VideoEdits
    }

    pub(super) fn is_messages(self) -> bool {
        matches!(self, Kind::Messages | Kind::MessageTokens)
    }

    pub(super) fn is_gemini(self) -> bool {
        matches!(self, Kind::Gemini | Kind::GeminiTokens)
    }

    /// The output limits, of `max_output_tokens`, `max_completion_tokens` and `max_tokens`, that servers of this kind
    /// follow: they ignore the others.
    fn follows(self) -> [bool; 3] {
        match self {
            Kind::Responses | Kind::Compact | Kind::Gemini => [true, false, false],
            Kind::Chat => [false, true, true],
            Kind::Completions | Kind::Messages => [false, false, true],
            _ => [true; 3],
        }
    }

    /// Returns whether numbers in `input` and `prompt` are token ids.
    pub(super) fn has_token_ids(self) -> bool {
        matches!(self, Kind::Embeddings | Kind::Completions)
    }
}

/// A string value of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The range, quotes included.
    pub span: Span,
    pub(super) escaped: bool,
}

impl Text {
    /// The decoded string. `body` must be the scanned one.
    pub fn read(self, body: &[u8]) -> Cow<'_, str> {
        let quoted = self.span.bytes_in(body);
        let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if !self.escaped {
            return std::str::from_utf8(plain).map_or(Cow::Borrowed(""), Cow::Borrowed);
        }
        Cow::Owned(serde_json::from_slice(quoted).unwrap_or_default())
    }
}

/// A member of the top-level object that an edit may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Member {
    /// Absent.
    #[default]
    Absent,
    /// Present and `null`.
    Null(Span),
    /// Present.
    Value(Span),
}

/// The end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectEnd {
    /// Offset of its `}`.
    pub at: usize,
    /// True if it has no members.
    pub empty: bool,
}

/// A member of the top-level object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMember {
    /// Its name.
    pub name: Text,
    /// From its name to the end of its value.
    pub span: Span,
}

/// A request's limit on its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTokens {
    /// The field that sets it.
    pub param: &'static str,
    /// From 1 to 10⁹.
    pub tokens: u32,
}

/// The fields that limit the output, in order of precedence.
pub(super) const MAX_TOKENS: [&str; 3] =
    ["max_output_tokens", "max_completion_tokens", "max_tokens"];

/// The one of Gemini.
pub(super) const GEMINI_MAX_TOKENS: &str = "generationConfig.maxOutputTokens";

/// Seconds of the longest video that a request may ask for.
pub const MOST_SECONDS: u32 = 3600;

/// The field `background`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Absent, null, or of another type.
    #[default]
    Absent,
    /// Of responses: whether to run in the background.
    Mode(bool),
    /// Of images: the backdrop, such as `transparent`.
    Fill(Text),
}

/// The field `stream_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// The whole value.
    pub member: Member,
    /// Its member `include_usage`.
    pub include_usage: Member,
    /// The value of `include_usage`; false when absent.
    pub wants_usage: bool,
    pub(super) end: Option<ObjectEnd>,
}

/// The longest time for which a request of Messages writes its prompt to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheMark {
    /// It marks nothing.
    #[default]
    Absent,
    /// Five minutes, or a time that is not known.
    FiveMinutes,
    /// An hour.
    Hour,
}

/// The tools that servers run themselves, and whose calls cost something.
pub const SERVER_TOOLS: [&str; 4] =
    ["web_search", "file_search", "code_interpreter", "image_generation"];

/// The calls of a tool that a request lets the server make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// It does not offer the tool.
    #[default]
    Absent,
    /// At most this many, by `max_uses` of the tool or `max_tool_calls`.
    AtMost(u32),
    /// Any number.
    Unbounded,
}

impl Calls {
    /// Adds another tool of the same kind; `None` is one without a maximum.
    pub(super) fn add(&mut self, most: Option<u32>) {
        *self = match (*self, most) {
            (Self::Unbounded, _) | (_, None) => Self::Unbounded,
            (Self::Absent, Some(most)) => Self::AtMost(most),
            (Self::AtMost(sum), Some(most)) => Self::AtMost(sum.saturating_add(most)),
        };
    }
}

/// The fields of a request that the gateway needs. `null` counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// `model`.
    pub model: Option<Text>,
    /// `stream`.
    pub stream: bool,
    /// The output limits `max_output_tokens` (of Gemini `generationConfig.maxOutputTokens`), `max_completion_tokens` and
    /// `max_tokens`, if present.
    pub limits: [Option<u32>; 3],
    /// The ranges of these.
    pub limit_members: [Member; 3],
    /// Unicode scalar values of the text in `input`, `instructions`, `prompt` and of the contents, calls and reasoning in
    /// `messages`; of Messages in `system`, `messages`, `tools` and `output_config`; of Gemini in `systemInstruction`,
    /// `contents`, `tools` and the schemas of `generationConfig`. Reasoning that a model's maker alone can read counts as its text. Images, audio
    /// and files count 0, each token id 4.
    pub chars: u64,
    /// The mark for the prompt cache, of Messages.
    pub cache_mark: CacheMark,
    /// The calls of the server's own tools, by [`SERVER_TOOLS`].
    pub calls: [Calls; SERVER_TOOLS.len()],
    /// `max_tool_calls`, of responses.
    pub max_tool_calls: Option<u32>,
    /// True if a chat searches the web whatever its model says: `web_search_options`.
    pub searches: bool,
    /// True if a chat has audio in its input or asks for it.
    pub has_audio: bool,
    /// `size`, of images and videos.
    pub size: Option<Text>,
    /// `quality`, of images.
    pub quality: Option<Text>,
    /// `seconds` of a video, from 1 to [`MOST_SECONDS`].
    pub seconds: Option<u32>,
    /// True if the server keeps the message in a `thread`.
    pub is_kept: bool,
    /// A member that names other models to try, such as `fallbacks`.
    pub other_models: Option<&'static str>,
    /// `n`, from 1 to 1000.
    pub n: Option<u32>,
    /// `best_of` of completions, from 1 to 1000: the number generated, of which `n` are returned.
    pub best_of: Option<u32>,
    /// Prompts of completions: each is answered on its own, with `n` choices.
    pub prompts: u32,
    /// `background`.
    pub background: Background,
    /// `output_format`.
    pub output_format: Option<Text>,
    /// `service_tier`.
    pub service_tier: Option<Text>,
    /// `prompt_cache_key`, if it is a string.
    pub prompt_cache_key: Option<Text>,
    /// `prompt_cache_retention`.
    pub prompt_cache_retention: Option<Text>,
    /// The range of that field.
    pub prompt_cache_retention_member: Member,
    /// `previous_response_id`.
    pub previous_response_id: Option<Text>,
    /// The id in `conversation`.
    pub conversation: Option<Text>,
    /// `stream_options`.
    pub stream_options: StreamOptions,
    /// `generationConfig`, of Gemini.
    pub generation_config: Member,
    pub(super) generation_config_end: Option<ObjectEnd>,
    /// Ids that the body refers to: `file_id`, `input_file_id`, `training_file`, `validation_file`
    /// and the entries of `file_ids` and `vector_store_ids`, and the `id` next to a `type` of `file_id`, at any depth
    /// except in `metadata`, `parameters` and `schema`; `conversation`, and `previous_message_id` of `thread`; of Gemini
    /// `cachedContent` and the files of its server. At most 2000.
    pub file_ids: Vec<Text>,
    /// Ids of containers and videos that the body refers to, likewise: `container` and `video`, as a string or with a
    /// member `id`, `container_id` and `video_id`. The server makes some containers itself. At most 2000.
    pub other_ids: Vec<Text>,
    /// The members of the top-level object, in order.
    pub members: Vec<NamedMember>,
    /// The end of the top-level object; `None` when the body is another value.
    pub end: Option<ObjectEnd>,
}

impl Scanned {
    /// The first of `max_output_tokens`, `max_completion_tokens` and `max_tokens` that is present.
    pub fn max_tokens(&self) -> Option<MaxTokens> {
        let of = |(param, tokens): (&&'static str, &Option<u32>)| {
            tokens.map(|tokens| MaxTokens { param, tokens })
        };
        MAX_TOKENS.iter().zip(&self.limits).find_map(of)
    }

    /// The most output tokens of one answer, for a request of that kind: the largest of the three, if there is one that
    /// its servers follow. A limit that they ignore limits nothing.
    pub fn output_bound(&self, kind: Kind) -> Option<u32> {
        let is_bound = kind
            .follows()
            .iter()
            .zip(&self.limits)
            .any(|(follows, limit)| *follows && limit.is_some());
        self.limits.iter().flatten().max().copied().filter(|_| is_bound)
    }
}

/// Why a body is refused. The messages are sentences for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The body is not JSON.
    #[error("The body is not valid JSON: {0}.")]
    Malformed(Malformed),
    /// The body is not an object.
    #[error("The body must be a JSON object.")]
    NotAnObject,
    /// A key occurs twice, in any escaping.
    #[error("The body contains the key `{key}` more than once.")]
    DuplicateKey {
        /// The key, cut to its first characters.
        key: String,
    },
    /// More than 1024 top-level keys.
    #[error("The body has more than 1024 keys.")]
    TooManyKeys,
    /// More than 2000 file ids.
    #[error("The body refers to more than 2000 files.")]
    TooManyFiles,
    /// A value of the wrong type.
    #[error("Invalid type for `{param}`: expected {expected}.")]
    Type {
        /// The field.
        param: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// An output limit that is not an integer from 1 to 10⁹.
    #[error("Invalid value for `{param}`: expected an integer from 1 to 1000000000.")]
    MaxTokens {
        /// One of the three fields.
        param: &'static str,
    },
    /// A required field is absent.
    #[error("You must provide `{param}`.")]
    Missing {
        /// The field.
        param: &'static str,
    },
    /// A count that is not an integer from 1 to 1000.
    #[error("Invalid value for `{param}`: expected an integer from 1 to 1000.")]
    Count {
        /// The field: `n` or `best_of`.
        param: &'static str,
    },
    /// A duration that is not an integer from 1 to [`MOST_SECONDS`].
    #[error("Invalid value for `seconds`: expected an integer from 1 to {MOST_SECONDS}.")]
    Seconds,
}

impl From<Malformed> for Invalid {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Invalid {
    /// The field at fault; `None` for the whole body.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            Invalid::Type { param, .. }
            | Invalid::MaxTokens { param }
            | Invalid::Missing { param }
            | Invalid::Count { param } => Some(param),
            Invalid::Seconds => Some("seconds"),
            _ => None,
        }
    }

    /// The error's code: `invalid_json` for the whole body; `invalid_type`, `invalid_value` and
    /// `missing_required_parameter` for a field.
    pub fn code(&self) -> &'static str {
        match self {
            Invalid::Malformed(_)
            | Invalid::NotAnObject
            | Invalid::DuplicateKey { .. }
            | Invalid::TooManyKeys => "invalid_json",
            Invalid::Type { .. } => "invalid_type",
            Invalid::Missing { .. } => "missing_required_parameter",
            Invalid::TooManyFiles
            | Invalid::MaxTokens { .. }
            | Invalid::Count { .. }
            | Invalid::Seconds => "invalid_value",
        }
    }
}
