//! The server that a request is written for: its wire, its model and its switches; and the written request.

use crate::kind::Wire;
use crate::names::ToolTable;
use crate::request::Request;
use crate::warning::Warnings;

/// The server and the model that a request is written for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Id of the provider: reasoning is bound to it.
    pub provider: String,
    /// Name of the model as the server knows it.
    pub model: String,
    /// Largest output of the model, in tokens. Messages requires a limit: it is sent where the request has none.
    pub max_output: Option<u64>,
    /// The use that later requests of the conversation make of this one's prompt cache.
    pub cache: CacheHints,
    /// The cloud that serves the model, if it is not its maker.
    pub platform: Platform,
    pub messages: MessagesOptions,
    pub chat: ChatOptions,
    pub gemini: GeminiOptions,
}

impl Target {
    pub(crate) fn model_of<'t>(&'t self, request: &'t Request<'_>) -> &'t str {
        if self.model.is_empty() { &request.model } else { &self.model }
    }

    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// A target whose model is the request's, unless it names another one.
    pub(crate) fn for_request(&self, request: &Request<'_>) -> Self {
        Self { model: self.model_of(request).to_owned(), ..self.clone() }
    }
}

/// Who serves a model. A cloud has paths of its own, and keeps the model's name out of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// Its maker, or any server with the maker's paths.
    #[default]
    Direct,
    /// Amazon Bedrock's `InvokeModel`, for Messages.
    Bedrock,
    /// Google Vertex AI, for Messages and Gemini, below an address that ends in `/publishers/NAME`.
    Vertex,
}

impl Platform {
    /// `anthropic_version` in a body of Messages; `None` where a header has it.
    #[must_use]
    pub fn messages_version(self) -> Option<&'static str> {
        match self {
            Self::Direct => None,
            Self::Bedrock => Some("bedrock-2023-05-31"),
            Self::Vertex => Some("vertex-2023-10-16"),
        }
    }

    /// The path of a request of Messages.
    #[must_use]
    pub fn messages_path(self, model: &str, stream: bool) -> String {
        let model = crate::shared::escape_path(model);
        match (self, stream) {
            (Self::Direct, _) => "/v1/messages".to_owned(),
            (Self::Bedrock, true) => format!("/model/{model}/invoke-with-response-stream"),
            (Self::Bedrock, false) => format!("/model/{model}/invoke"),
            (Self::Vertex, true) => format!("/models/{model}:streamRawPredict"),
            (Self::Vertex, false) => format!("/models/{model}:rawPredict"),
        }
    }
}

/// The parts of a conversation that later requests repeat, for marks of the prompt cache. Numbers of items count from the
/// beginning of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHints {
    /// Numbers of items up to which the provider still has the input when the latest turns have expired: the end of the
    /// last compaction, or of the history at an earlier pause; ascending, 0 for none. There are two in the
    /// request after a pause: what was kept is read up to the first, and more is kept up to the second.
    pub stable: [usize; 2],
    /// Number of items at the end of the input that only this request has.
    pub passing: usize,
    /// The conversation pauses for longer than the short time to live, and for less than the long one.
    pub is_long: bool,
}

/// Switches of a Messages server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagesOptions {
    /// `anthropic-version`.
    pub version: String,
    /// `anthropic-beta`, in order.
    pub betas: Vec<String>,
    pub thinking: MessagesThinking,
    /// The server takes `output_config.effort`.
    pub has_effort: bool,
    /// The server takes `output_config.format`. Without it a schema is an error.
    pub has_format: bool,
    /// The server takes `strict` in tools.
    pub has_strict: bool,
    /// The server takes messages of the role `system` in the middle of a conversation.
    pub has_system_messages: bool,
    /// The type of the server's web search, such as `web_search_20250305`; without it a search is an error.
    pub web_search: Option<String>,
    /// The server takes `temperature` and `top_p`.
    pub has_sampling: bool,
    pub cache: CacheMarks,
}

/// The form in which a Messages model is asked to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagesThinking {
    /// `{type: adaptive}`, with the effort next to it.
    Adaptive,
    /// `{type: enabled, budget_tokens}`.
    Budget,
    /// The model does not think, or cannot be asked to.
    Unknown,
}

/// Marks for the prompt cache of Messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMarks {
    /// No marks: the server caches by itself, or not at all.
    None,
    /// Up to four marks of five minutes.
    Short,
    /// Marks of one hour for instructions, tools and what is stable, of five minutes for the latest turns.
    Long,
    /// As `Long` for conversations that pause ([`CacheHints::is_long`]), as `Short` for others.
    Adaptive,
}

impl Default for MessagesOptions {
    fn default() -> Self {
        Self {
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            thinking: MessagesThinking::Adaptive,
            has_effort: true,
            has_format: true,
            has_strict: true,
            has_system_messages: false,
            web_search: Some("web_search_20250305".to_owned()),
            has_sampling: false,
            cache: CacheMarks::Adaptive,
        }
    }
}

/// Switches of a Chat Completions server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct ChatOptions {
    /// The role of instructions is `developer`; many servers refuse it.
    pub has_developer: bool,
    /// A system message may stand at the beginning only.
    pub system_first_only: bool,
    pub limit: ChatLimit,
    pub has_stream_usage: bool,
    pub has_strict: bool,
    pub has_parallel: bool,
    /// The server takes `tool_choice` besides `auto`.
    pub has_tool_choice: bool,
    /// The server takes tools of the type `custom`.
    pub has_custom_tools: bool,
    /// OpenAI's own members: `store`, `prompt_cache_key`, `verbosity`, `safety_identifier`, `metadata`, `service_tier`.
    pub is_openai: bool,
    pub has_format: bool,
    pub has_files: bool,
    pub has_sampling: bool,
    pub thinking: ChatThinking,
    pub reasoning: ChatReasoning,
    pub call_ids: ChatCallIds,
    /// A user message after a tool's needs an assistant's in between.
    pub needs_assistant_after_tool: bool,
    /// Tool messages have the name of the tool.
    pub has_tool_name: bool,
    pub has_web_search: bool,
}

/// The name of the output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatLimit {
    MaxTokens,
    MaxCompletionTokens,
}

/// The form of the switch for thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatThinking {
    /// `reasoning_effort`.
    Effort,
    /// `reasoning: {effort}`, as OpenRouter has it.
    Object,
    /// `thinking: {type: enabled|disabled}`: DeepSeek, GLM, Kimi.
    Type,
    /// `enable_thinking` and `thinking_budget`: Qwen.
    Budget,
    /// `chat_template_kwargs: {enable_thinking}`: vLLM, SGLang, llama.cpp.
    Template,
    None,
}

/// The member of an assistant's message that carries reasoning back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatReasoning {
    /// No member is sent back.
    None,
    /// The member that the server used, where it was recorded.
    Recorded,
    /// `reasoning_content` on every assistant message, a space where it is unknown: DeepSeek, Kimi.
    Always,
}

/// The form of call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatCallIds {
    Plain,
    /// Nine letters and digits: Mistral.
    Nine,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            has_developer: false,
            system_first_only: false,
            limit: ChatLimit::MaxTokens,
            has_stream_usage: true,
            has_strict: false,
            has_parallel: true,
            has_tool_choice: true,
            has_custom_tools: false,
            is_openai: false,
            has_format: true,
            has_files: false,
            has_sampling: true,
            thinking: ChatThinking::Effort,
            reasoning: ChatReasoning::Recorded,
            call_ids: ChatCallIds::Plain,
            needs_assistant_after_tool: false,
            has_tool_name: false,
            has_web_search: false,
        }
    }
}

impl ChatOptions {
    /// The switches of a server that is known by its host, such as `api.deepseek.com`. Unknown hosts have the
    /// defaults, which most servers take.
    #[must_use]
    pub fn of_host(host: &str) -> Self {
        let base = Self::default();
        let is = |name: &str| {
            host == name || host.strip_suffix(name).is_some_and(|it| it.ends_with('.'))
        };
        if is("api.openai.com") {
            return Self::openai();
        }
        if is("openai.azure.com") {
            return Self { has_web_search: false, ..Self::openai() };
        }
        if is("api.deepseek.com") {
            let thinking = ChatThinking::Type;
            return Self { thinking, reasoning: ChatReasoning::Always, ..base };
        }
        if is("api.moonshot.ai") || is("api.moonshot.cn") {
            let thinking = ChatThinking::Type;
            return Self {
                thinking,
                reasoning: ChatReasoning::Always,
                has_parallel: false,
                ..base
            };
        }
        if is("api.z.ai") || is("open.bigmodel.cn") {
            let thinking = ChatThinking::Type;
            return Self { thinking, has_tool_choice: false, has_parallel: false, ..base };
        }
        if is("openrouter.ai") {
            return Self { thinking: ChatThinking::Object, ..base };
        }
        if is("aliyuncs.com") {
            return Self { thinking: ChatThinking::Budget, ..base };
        }
        if is("api.mistral.ai") {
            return Self {
                call_ids: ChatCallIds::Nine,
                needs_assistant_after_tool: true,
                has_tool_name: true,
                thinking: ChatThinking::None,
                ..base
            };
        }
        if is("api.x.ai") || is("api.groq.com") {
            return Self { limit: ChatLimit::MaxCompletionTokens, ..base };
        }
        if is("api.minimax.io") || is("api.minimaxi.com") {
            return Self { thinking: ChatThinking::None, ..base };
        }
        base
    }

    fn openai() -> Self {
        Self {
            has_developer: true,
            limit: ChatLimit::MaxCompletionTokens,
            has_strict: true,
            has_custom_tools: true,
            is_openai: true,
            has_files: true,
            reasoning: ChatReasoning::None,
            has_web_search: true,
            ..Self::default()
        }
    }
}

/// Switches of a Gemini model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiOptions {
    /// `v1beta` or `v1`.
    pub version: String,
    pub thinking: GeminiThinking,
    /// The model takes images in the outputs of functions, and searches next to functions: Gemini 3 and later.
    pub is_third: bool,
    /// The server takes `id` in calls and responses.
    pub has_call_ids: bool,
}

/// The form of the switch for thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeminiThinking {
    /// `thinkingLevel`.
    Level,
    /// `thinkingBudget`, in tokens: Gemini 2.5.
    Budget,
    None,
}

impl Default for GeminiOptions {
    fn default() -> Self {
        Self {
            version: "v1beta".to_owned(),
            thinking: GeminiThinking::Level,
            is_third: true,
            has_call_ids: true,
        }
    }
}

/// A written request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Path and query after the base URL, such as `/v1/messages`.
    pub path: String,
    /// Headers besides the key's and `content-type`.
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    pub warnings: Warnings,
    /// The tools' names, for the decoder of the response.
    pub tools: ToolTable,
}

/// Name of the header and of the value's prefix for a provider's key.
#[must_use]
pub fn key_header(wire: Wire) -> (&'static str, &'static str) {
    match wire {
        Wire::Responses | Wire::Chat => ("authorization", "Bearer "),
        Wire::Messages => ("x-api-key", ""),
        Wire::Gemini => ("x-goog-api-key", ""),
    }
}
