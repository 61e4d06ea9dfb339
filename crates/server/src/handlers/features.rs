//! Experimental features.

use jsonrpc::ErrorObject;
use protocol::{
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse, FeaturesMethods,
    MockExperimentalMethodParams, MockExperimentalMethodResponse,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl FeaturesMethods<Cx> for Server {
    not_implemented! {
        experimental_feature_list(ExperimentalFeatureListParams) -> ExperimentalFeatureListResponse = "experimentalFeature/list";
        experimental_feature_enablement_set(ExperimentalFeatureEnablementSetParams) -> ExperimentalFeatureEnablementSetResponse = "experimentalFeature/enablement/set";
    }

    async fn mock_experimental_method(
        &self,
        _cx: Cx,
        params: MockExperimentalMethodParams,
    ) -> Result<MockExperimentalMethodResponse, ErrorObject> {
        Ok(MockExperimentalMethodResponse { echoed: params.value })
    }
}
