//! Features: what there is, and switching them while the server runs.

use std::collections::BTreeMap;

use config::Resolved;
use config::table::{Features, Stage, announcement, stage, unknown_feature};
use protocol::features::{ExperimentalFeature, ExperimentalFeatureStage};
use protocol::{
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse, FeaturesMethods,
    MockExperimentalMethodParams, MockExperimentalMethodResponse,
};
use serde_json::Value;

use crate::handlers::page::PAGE;
use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl FeaturesMethods<Caller> for Server {
    /// The cursor is the name of the last feature of the page before.
    async fn experimental_feature_list(
        &self,
        caller: Caller,
        params: ExperimentalFeatureListParams,
    ) -> Result<ExperimentalFeatureListResponse, Error> {
        let resolved = self.services.configurations.own_for(&caller.peer)?.resolved;
        let names: Vec<&str> = Features::SECTION.entries.iter().map(|entry| entry.name).collect();
        let start = match &params.cursor {
            None => 0,
            Some(cursor) => {
                let at = names.iter().position(|name| name == cursor);
                1 + at
                    .ok_or_else(|| Error::invalid_params("`cursor` is not a cursor of this list"))?
            }
        };
        let limit = PAGE.rows(params.limit) as usize;
        let page = &Features::SECTION.entries[start..names.len().min(start + limit)];
        let more = start + page.len() < names.len();
        let data = page.iter().map(|entry| feature(entry, &resolved)).collect();
        let last = page.last().map(|entry| entry.name.to_owned());
        Ok(ExperimentalFeatureListResponse { data, next_cursor: last.filter(|_| more) })
    }

    /// Returns the resulting state of the named features, which a requirement may pin. Switches none
    /// when one of them is unknown.
    async fn experimental_feature_enablement_set(
        &self,
        caller: Caller,
        params: ExperimentalFeatureEnablementSetParams,
    ) -> Result<ExperimentalFeatureEnablementSetResponse, Error> {
        for name in params.enablement.keys() {
            if let Some(message) = unknown_feature(name) {
                return Err(Error::invalid_params(format!("`enablement`: {message}")));
            }
        }
        self.services.configurations.source().switch(params.enablement.clone());
        let resolved = self.services.configurations.own_for(&caller.peer)?.resolved;
        let now = |name: &String| (name.clone(), resolved.feature(name));
        let enablement: BTreeMap<String, bool> = params.enablement.keys().map(now).collect();
        Ok(ExperimentalFeatureEnablementSetResponse { enablement })
    }

    async fn mock_experimental_method(
        &self,
        _caller: Caller,
        params: MockExperimentalMethodParams,
    ) -> Result<MockExperimentalMethodResponse, Error> {
        Ok(MockExperimentalMethodResponse { echoed: params.value })
    }
}

fn feature(entry: &'static config::kind::OptionEntry, resolved: &Resolved) -> ExperimentalFeature {
    let description = entry.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let announcement = announcement(entry.name);
    ExperimentalFeature {
        name: entry.name.to_owned(),
        stage: match stage(entry.name) {
            Stage::Stable => ExperimentalFeatureStage::Stable,
            Stage::Experimental => ExperimentalFeatureStage::Beta,
            Stage::UnderDevelopment => ExperimentalFeatureStage::UnderDevelopment,
            Stage::Deprecated => ExperimentalFeatureStage::Deprecated,
        },
        display_name: announcement.map(|announced| announced.display_name.to_owned()),
        description: Some(description),
        announcement: announcement.map(|announced| announced.text.to_owned()),
        enabled: resolved.feature(entry.name),
        default_enabled: (entry.default)() == Some(Value::Bool(true)),
    }
}
