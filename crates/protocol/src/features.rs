//! Experimental features, and a method for testing the experimental gate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::methods;

methods! {
    Features, FeaturesMethods;

    /// Lists features and whether they are enabled.
    ExperimentalFeatureList = "experimentalFeature/list",
        experimental_feature_list(ExperimentalFeatureListParams) -> ExperimentalFeatureListResponse,
        Stable, Ordered, [];

    /// Enables or disables features in this process.
    ExperimentalFeatureEnablementSet = "experimentalFeature/enablement/set",
        experimental_feature_enablement_set(ExperimentalFeatureEnablementSetParams) -> ExperimentalFeatureEnablementSetResponse,
        Stable, Ordered, [];

    /// Echoes its parameters, so that a client can test the experimental gate.
    MockExperimentalMethod = "mock/experimentalMethod",
        mock_experimental_method(MockExperimentalMethodParams) -> MockExperimentalMethodResponse,
        Experimental, Ordered, [];
}

/// Parameters of `experimentalFeature/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExperimentalFeatureListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A page of features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeatureListResponse {
    pub data: Vec<ExperimentalFeature>,
    pub next_cursor: Option<String>,
}

/// A feature that can be enabled or disabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeature {
    pub name: String,
    pub stage: ExperimentalFeatureStage,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub announcement: Option<String>,
    pub enabled: bool,
    pub default_enabled: bool,
}

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExperimentalFeatureStage {
    Beta,
    UnderDevelopment,
    Stable,
    Deprecated,
    Removed,
}

/// Parameters of `experimentalFeature/enablement/set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentalFeatureEnablementSetParams {
    /// By feature name.
    pub enablement: BTreeMap<String, bool>,
}

/// Result of `experimentalFeature/enablement/set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExperimentalFeatureEnablementSetResponse {
    /// The new state, by feature name.
    pub enablement: BTreeMap<String, bool>,
}

/// Parameters of `mock/experimentalMethod`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MockExperimentalMethodParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Result of `mock/experimentalMethod`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MockExperimentalMethodResponse {
    pub echoed: Option<String>,
}
