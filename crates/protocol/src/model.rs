//! Models, and the capabilities of their provider.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::table::{methods, notifications};

methods! {
    Model, ModelMethods;

    /// Lists the available models.
    ModelList = "model/list",
        model_list(ModelListParams) -> ModelListResponse,
        Stable, Independent, ["modelProvider"];

    /// Lists the configured providers, and those that a key of the environment could be used with.
    ModelProviderList = "modelProvider/list",
        model_provider_list(Empty) -> ModelProviderListResponse,
        Experimental, Independent, [];

    /// Asks the server at an address for its models, and finds out the protocol that it speaks. Nothing is stored.
    ModelProviderFind = "modelProvider/find",
        model_provider_find(ModelProviderFindParams) -> ModelProviderFindResponse,
        Experimental, Concurrent, [];

    /// Returns the capabilities of the configured provider.
    ModelProviderCapabilitiesRead = "modelProvider/capabilities/read",
        model_provider_capabilities_read(Empty) -> ModelProviderCapabilitiesReadResponse,
        Experimental, Independent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A request was routed to another model.
    ModelRerouted = "model/rerouted", ModelReroutedNotification, Stable;

    /// The provider requires the user's verification.
    ModelVerificationRequested = "model/verification", ModelVerificationNotification, Stable;
}

/// Parameters of `model/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_hidden: Option<bool>,
    /// The provider whose models are listed; the configured one when absent. It is asked for them, and the response
    /// waits for its answer: an error says why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub model_provider: Option<String>,
}

/// A page of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListResponse {
    pub data: Vec<Model>,
    pub next_cursor: Option<String>,
}

/// A model (specification, "Model entry").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub id: String,
    /// Name sent to the provider.
    pub model: String,
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    /// Hidden in the default picker.
    pub hidden: bool,
    pub supported_reasoning_efforts: Vec<ReasoningEffortOption>,
    pub default_reasoning_effort: ReasoningEffort,
    /// Text and image when absent.
    #[serde(default = "both_modalities")]
    pub input_modalities: Vec<InputModality>,
    #[serde(default)]
    pub supports_personality: bool,
    /// True if this is the recommended model.
    pub is_default: bool,
    /// Id of the model recommended as a replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_info: Option<ModelUpgradeInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_nux: Option<ModelAvailabilityNux>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_speed_tiers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_tiers: Vec<ModelServiceTier>,
}

fn both_modalities() -> Vec<InputModality> {
    vec![InputModality::Text, InputModality::Image]
}

/// The amount of a model's reasoning before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// The level of detail in the summary of the reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReasoningSummary {
    Auto,
    Concise,
    Detailed,
    None,
}

/// A reasoning effort that a model supports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningEffortOption {
    pub reasoning_effort: ReasoningEffort,
    pub description: String,
}

/// Kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InputModality {
    Text,
    Image,
}

/// Details of the recommended upgrade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelUpgradeInfo {
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_copy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_markdown: Option<String>,
}

/// Notice for users who see a model for the first time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelAvailabilityNux {
    pub message: String,
}

/// A service tier of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelServiceTier {
    pub id: String,
    pub name: String,
    pub description: String,
}

/// Result of `modelProvider/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderListResponse {
    /// The configured providers and the built-in ones: the one of new threads first, the others by id.
    pub data: Vec<ModelProviderEntry>,
    /// Providers that are not configured, and whose key is in the server's environment. None is used unless a client
    /// writes it into the configuration.
    pub available: Vec<AvailableModelProvider>,
}

/// A provider of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderEntry {
    pub id: String,
    pub display_name: String,
    /// Null for the offline model.
    pub base_url: Option<String>,
    /// Null for the offline model.
    pub wire_api: Option<ModelWireApi>,
    /// True for a server that is looked for on the server's machine.
    pub is_local: bool,
    /// True if new threads use it.
    pub is_default: bool,
    /// Why it cannot be used yet; null if it has a key or needs none.
    pub problem: Option<String>,
}

/// A provider that could be configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableModelProvider {
    /// The id for `model_providers`; no provider has it yet.
    pub id: String,
    pub display_name: String,
    pub base_url: String,
    pub wire_api: ModelWireApi,
    /// Name of the variable that holds the key.
    pub env_key: String,
}

/// Parameters of `modelProvider/find`.
#[derive(Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderFindParams {
    /// As the user wrote it, such as `https://models.example.com/v1`.
    pub address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
}

impl std::fmt::Debug for ModelProviderFindParams {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelProviderFindParams")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Result of `modelProvider/find`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderFindResponse {
    /// The address for `model_providers`: the models are below it.
    pub base_url: String,
    pub wire_api: ModelWireApi,
    /// Names of the models, at least one.
    pub models: Vec<String>,
    /// The model that is suggested: a cheap one of a known maker, else the first.
    pub default_model: String,
}

/// A protocol of model servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelWireApi {
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Chat Completions.
    Chat,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Result of `modelProvider/capabilities/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderCapabilitiesReadResponse {
    pub image_generation: bool,
    pub namespace_tools: bool,
    pub web_search: bool,
}

/// Payload of `model/rerouted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReroutedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub from_model: String,
    pub to_model: String,
    pub reason: ModelRerouteReason,
}

/// Why a request was rerouted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelRerouteReason {
    HighRiskCyberActivity,
}

/// Payload of `model/verification`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelVerificationNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub verifications: Vec<ModelVerification>,
}

/// A verification that the provider requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelVerification {
    TrustedAccessForCyber,
}

/// Tone of the model's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Personality {
    None,
    Friendly,
    Pragmatic,
}
