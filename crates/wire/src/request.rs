//! A request in the internal form: the Responses API's, with borrowed texts. Each wire reads its own form to this
//! one and writes it from this one.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// A request to a model.
#[derive(Debug, Default)]
pub struct Request<'a> {
    pub model: Cow<'a, str>,
    pub instructions: Option<Cow<'a, str>>,
    pub input: Vec<Item<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub tool_choice: Option<ToolChoice<'a>>,
    pub parallel_tool_calls: Option<bool>,
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or a later name.
    pub effort: Option<Cow<'a, str>>,
    /// `auto`, `concise` or `detailed`: a summary of the reasoning is wanted.
    pub summary: Option<Cow<'a, str>>,
    pub format: Option<Format<'a>>,
    pub verbosity: Option<Cow<'a, str>>,
    pub max_output_tokens: Option<u64>,
    /// Numbers as they were written.
    pub temperature: Option<&'a RawValue>,
    pub top_p: Option<&'a RawValue>,
    /// Responses has no stop sequences: other wires do.
    pub stop: Vec<Cow<'a, str>>,
    pub stream: bool,
    /// Chat Completions alone makes usage in streams a choice.
    pub stream_usage: bool,
    pub encrypted_reasoning: bool,
    pub store: Option<bool>,
    pub service_tier: Option<Cow<'a, str>>,
    pub prompt_cache_key: Option<Cow<'a, str>>,
    pub user: Option<Cow<'a, str>>,
    pub metadata: Option<&'a RawValue>,
}

/// An item of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    Message(Message<'a>),
    Reasoning(Reasoning<'a>),
    Call(Call<'a>),
    Output(Output<'a>),
    /// A call of a tool that ran at the provider: its results are not text that another provider takes.
    Hosted {
        /// `web_search_call` and the like.
        kind: Cow<'a, str>,
        /// Base64 of a generated image.
        image: Option<Cow<'a, str>>,
    },
    /// Readable by its maker alone: `compaction`, `item_reference` and unknown kinds.
    Opaque {
        kind: Cow<'a, str>,
    },
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub role: Role,
    pub content: Vec<Content<'a>>,
    /// `commentary` or `final_answer`.
    pub phase: Option<Cow<'a, str>>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
}

impl Role {
    /// The name on the Responses and Chat Completions wires.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A part of a message or of a tool's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    Image {
        source: Source<'a>,
        detail: Option<Cow<'a, str>>,
    },
    File {
        source: Source<'a>,
        name: Option<Cow<'a, str>>,
    },
    /// Base64 and its format, `wav` or `mp3`.
    Audio {
        data: Cow<'a, str>,
        format: Cow<'a, str>,
    },
}

/// The bytes of an image or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Base64 with its media type.
    Data {
        media_type: Cow<'a, str>,
        base64: Cow<'a, str>,
    },
    Url(Cow<'a, str>),
    /// A file that the provider stores.
    Id(Cow<'a, str>),
}

impl<'a> Source<'a> {
    /// A URL; data URLs of base64 are taken apart.
    #[must_use]
    pub fn from_url(url: Cow<'a, str>) -> Self {
        let is_data = |url: &str| {
            let rest = url.strip_prefix("data:")?;
            let at = rest.find(";base64,")?;
            // Parameters such as `charset` are no part of the media type.
            let media = rest[..at].split(';').next().unwrap_or_default().len();
            Some(("data:".len(), "data:".len() + media, "data:".len() + at + ";base64,".len()))
        };
        let Some((start, end, data)) = is_data(&url) else { return Self::Url(url) };
        match url {
            Cow::Borrowed(url) => {
                Self::Data { media_type: url[start..end].into(), base64: url[data..].into() }
            }
            Cow::Owned(url) => Self::Data {
                media_type: url[start..end].to_owned().into(),
                base64: url[data..].to_owned().into(),
            },
        }
    }
}

/// Reasoning of an earlier response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning<'a> {
    pub id: Option<Cow<'a, str>>,
    pub summary: Vec<Cow<'a, str>>,
    pub content: Vec<Cow<'a, str>>,
    /// The provider's own, or an [`crate::Envelope`].
    pub encrypted: Option<Cow<'a, str>>,
}

/// The kind of a call that the client carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallKind {
    Function,
    /// With free text as its input.
    Custom,
    ToolSearch,
    /// `local_shell_call`, `shell_call`, `apply_patch_call`: `action` or `operation` is the input.
    Builtin(String),
}

/// A call by the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub kind: CallKind,
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub namespace: Option<Cow<'a, str>>,
    /// JSON text of the arguments, which may be invalid; of a custom tool, free text.
    pub input: Cow<'a, str>,
}

/// The output of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<'a> {
    pub kind: CallKind,
    pub call_id: Cow<'a, str>,
    pub content: Vec<Content<'a>>,
    /// Known on the wires Messages and Gemini alone.
    pub is_error: bool,
}

/// A tool on offer.
#[derive(Debug)]
pub enum Tool<'a> {
    Function(Function<'a>),
    /// Free text, maybe under a grammar.
    Custom {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        format: Option<&'a RawValue>,
    },
    /// Functions under a common name.
    Namespace {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        tools: Vec<Function<'a>>,
    },
    WebSearch(WebSearch<'a>),
    /// The client's search of deferred tools.
    ToolSearch {
        description: Option<Cow<'a, str>>,
        parameters: Option<&'a RawValue>,
    },
    /// Any other tool of the provider.
    Hosted {
        kind: Cow<'a, str>,
    },
}

/// A function on offer.
#[derive(Debug)]
pub struct Function<'a> {
    pub name: Cow<'a, str>,
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema.
    pub parameters: Option<Cow<'a, RawValue>>,
    pub strict: Option<bool>,
    /// Offered only after a search finds it.
    pub is_deferred: bool,
}

/// The provider's web search.
#[derive(Debug, Default)]
pub struct WebSearch<'a> {
    pub allowed_domains: Vec<Cow<'a, str>>,
    pub blocked_domains: Vec<Cow<'a, str>>,
    pub user_location: Option<&'a RawValue>,
    pub context_size: Option<Cow<'a, str>>,
    pub max_uses: Option<u64>,
}

/// The calls that a model may or must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    Auto,
    None,
    Required,
    /// One tool by name; `true` if it is a custom one.
    Tool(Cow<'a, str>, bool),
    /// Some of the tools, and whether one must be called.
    Allowed(Vec<Cow<'a, str>>, bool),
    WebSearch,
}

/// The form of the answer.
#[derive(Debug)]
pub enum Format<'a> {
    JsonObject,
    JsonSchema {
        name: Cow<'a, str>,
        schema: Cow<'a, RawValue>,
        strict: Option<bool>,
        description: Option<Cow<'a, str>>,
    },
}
