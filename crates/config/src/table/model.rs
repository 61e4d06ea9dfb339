//! Keys about the model and its providers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::kind::scope::ANY;
use crate::kind::{Effect, Time, Url, Whole};
use crate::options::{choices, options};

/// Milliseconds, at most a day, so that a sum of two cannot overflow.
pub type Milliseconds = Time<1, 0, 86_400_000>;
/// Seconds, perhaps with a fraction.
pub type Seconds<const MIN: u64, const MAX: u64> = Time<1_000, MIN, MAX>;
/// Retries; a higher bound would only hide that a provider is down.
pub type Retries = Whole<0, 100>;
/// Tokens.
pub type Tokens = Whole<0, 1_000_000_000>;

choices! {
    /// `model_reasoning_effort`: how much the model reasons before it answers.
    ReasoningEffort { Minimal = "minimal", Low = "low", Medium = "medium", High = "high", XHigh = "xhigh" }
}
choices! {
    /// `plan_mode_reasoning_effort`: how much the model reasons in plan mode.
    PlanReasoningEffort {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        XHigh = "xhigh",
    }
}
choices! {
    /// `model_reasoning_summary`: how detailed the summaries of its reasoning are.
    ReasoningSummary { Auto = "auto", Concise = "concise", Detailed = "detailed", None = "none" }
}
choices! {
    /// `model_verbosity`: how long answers are.
    Verbosity { Low = "low", Medium = "medium", High = "high" }
}
choices! {
    /// `personality`: the style of answers, for models that have one.
    Personality { None = "none", Friendly = "friendly", Pragmatic = "pragmatic" }
}
choices! {
    /// `service_tier`: the preferred tier at the provider.
    ServiceTier { Flex = "flex", Fast = "fast" }
}
choices! {
    /// `model_providers.<id>.wire_api`.
    WireApi {
        Responses = "responses",
        /// Anthropic's Messages.
        Messages = "messages",
        /// Chat Completions.
        Chat = "chat",
        /// Gemini's `generateContent`.
        Gemini = "gemini",
        /// The one of the address, where that is known; `responses` elsewhere.
        Auto = "auto",
    }
}
choices! {
    /// `model_providers.<id>.auth`.
    ProviderAuth {
        /// Credentials of an AWS account, which sign each request.
        AwsSigV4 = "aws-sigv4",
        /// Tokens of a Google account.
        Google = "google",
    }
}
choices! {
    /// `model_providers.<id>.platform`.
    ProviderPlatform {
        /// The paths of the model's maker.
        Direct = "direct",
        /// Amazon Bedrock's `InvokeModel`.
        Bedrock = "bedrock",
        /// Google Vertex AI.
        Vertex = "vertex",
    }
}
choices! {
    /// `model_providers.<id>.prompt_cache`: the marks of requests for the provider's prompt cache.
    PromptCache {
        /// By the provider and the pauses of a thread.
        Auto = "auto",
        /// No marks.
        Off = "off",
        /// Marks of five minutes.
        Short = "5m",
        /// Marks of an hour for what stays the same for longer, of five minutes for the last turns.
        Long = "1h",
    }
}
choices! {
    /// `model_providers.<id>.tool_types`: a type of tool other than a function.
    ToolType {
        /// `apply_patch` with free text.
        Custom = "custom",
        /// The provider's own search.
        WebSearch = "web_search",
        /// The search of deferred tools.
        ToolSearch = "tool_search",
    }
}
choices! {
    /// `oss_provider`: a model server on this machine.
    OssProvider { Ollama = "ollama", LmStudio = "lmstudio" }
}

options! {
    /// `model_providers.<id>`.
    #[part("<id>")]
    pub struct ModelProvider {
        /// Display name; by default the id.
        name: Option<String>, ANY, Effect::Active;
        /// Address of the API, including its version.
        base_url: Option<Url>, ANY, Effect::Active;
        /// Environment variable with the API key.
        env_key: Option<String>, ANY, Effect::Active;
        /// Instructions for getting an API key, shown to a user who has none.
        env_key_instructions: Option<String>, ANY, Effect::Active;
        /// The bearer token itself. The file holds it in plain text, so prefer `env_key`.
        experimental_bearer_token: Option<String>, ANY, Effect::Active;
        /// Headers of every request.
        http_headers: BTreeMap<String, String>, ANY, Effect::Active;
        /// Headers of every request, with values from these environment variables if they are set.
        env_http_headers: BTreeMap<String, String>, ANY, Effect::Active;
        /// Query parameters of every request.
        query_params: BTreeMap<String, String>, ANY, Effect::Active;
        /// Maximum number of retries of a request that failed before a response began.
        request_max_retries: Retries = Retries::new(4), ANY, Effect::Active;
        /// Maximum number of retries of an interrupted stream.
        stream_max_retries: Retries = Retries::new(5), ANY, Effect::Active;
        /// Idle timeout of a stream, in milliseconds.
        stream_idle_timeout_ms: Milliseconds = Milliseconds::new(300_000), ANY, Effect::Active;
        /// The provider accepts the credential of the default provider.
        requires_default_auth: bool = false, ANY, Effect::Active;
        /// The provider can stream over a WebSocket.
        supports_websockets: bool = false, ANY, Effect::Active;
        /// Types of tools that the provider takes, besides functions. By default all for providers that are known
        /// to serve the hosted API, and none for others.
        tool_types: Option<Vec<ToolType>>, ANY, Effect::Active;
        /// The provider takes one system message, at the beginning of a request: the chat templates of many model
        /// servers do.
        one_system_message: bool = false, ANY, Effect::Active;
        /// The protocol that the provider speaks. With any but `responses`, requests and answers are
        /// translated.
        wire_api: WireApi = WireApi::Responses, ANY, Effect::Active;
        /// Time for which a provider with `wire_api = "messages"` keeps the prompt cache of a thread: `auto` chooses an hour for
        /// threads that pause for longer than five minutes, where the provider takes that; `off` sends no marks.
        prompt_cache: PromptCache = PromptCache::Auto, ANY, Effect::Active;
        /// The provider takes JSON Schemas of answers. By default by `wire_api` and the model: with `messages`, models
        /// other than Claude are not sent any.
        structured_output: Option<bool>, ANY, Effect::Active;
        /// Credentials in place of a key: those of an AWS or a Google account.
        auth: Option<ProviderAuth>, ANY, Effect::Active;
        /// The cloud whose paths requests have. By default that of the address, where it is known.
        platform: Option<ProviderPlatform>, ANY, Effect::Active;
        /// The AWS account of `auth = "aws-sigv4"`.
        aws: ProviderAws, ANY, Effect::Group;
        /// The Google account of `auth = "google"`.
        google: ProviderGoogle, ANY, Effect::Group;
        /// TLS certificates, beyond those that `AGENT_CA_CERTIFICATE` and `SSL_CERT_FILE` name.
        tls: ProviderTls, ANY, Effect::Group;
    }
}
options! {
    /// `model_providers.<id>.aws`.
    pub struct ProviderAws {
        /// Region in signatures; by default that of the address, else `AWS_REGION`.
        region: Option<String>, ANY, Effect::Active;
        /// Profile of `~/.aws/credentials` and `~/.aws/config`. With it, no other source of credentials is asked.
        profile: Option<String>, ANY, Effect::Active;
    }
}
options! {
    /// `model_providers.<id>.google`.
    pub struct ProviderGoogle {
        /// File with the key of a service account, or with a user's login; by default
        /// `GOOGLE_APPLICATION_CREDENTIALS`, else the login of `gcloud`, else the account of the machine.
        credentials_file as "credentials-file": Option<PathBuf>, ANY, Effect::Active;
    }
}
options! {
    /// `model_providers.<id>.tls`: PEM files, read when the provider is first used.
    pub struct ProviderTls {
        /// Certificates of authorities that are trusted for this provider in addition.
        ca_certificate as "ca-certificate": Option<PathBuf>, ANY, Effect::Active;
        /// The client certificate that the provider asks for, followed by its chain.
        client_certificate as "client-certificate": Option<PathBuf>, ANY, Effect::Active;
        /// Private key of the client certificate.
        client_private_key as "client-private-key": Option<PathBuf>, ANY, Effect::Active;
    }
}
