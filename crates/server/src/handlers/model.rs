//! Models and what their provider can do.

use protocol::{
    InputModality, Model, ModelListParams, ModelListResponse, ModelMethods, ReasoningEffort,
    ReasoningEffortOption,
};

use crate::connection::Caller;
use crate::error::Error;
use crate::handlers::page::PAGE;

use crate::server::Server;

impl ModelMethods<Caller> for Server {
    async fn model_list(
        &self,
        _caller: Caller,
        params: ModelListParams,
    ) -> Result<ModelListResponse, Error> {
        let config = self
            .services
            .configurations
            .in_folder(&self.services.options.cwd, None)
            .await?
            .resolved
            .config;
        let mut models = self.services.models.list(&config, config.provider.id());
        models.retain(|model| params.include_hidden.unwrap_or(false) || !model.hidden);
        let start = match params.cursor.as_deref() {
            None => 0,
            Some(cursor) => models
                .iter()
                .position(|model| model.id == cursor)
                .ok_or_else(|| Error::invalid_params("`cursor` is not a cursor of this list"))?,
        };
        let limit = PAGE.rows(params.limit) as usize;
        let next_cursor = models.get(start + limit).map(|model| model.id.to_string());
        let data = models.into_iter().skip(start).take(limit).map(entry).collect();
        Ok(ModelListResponse { data, next_cursor })
    }
}

fn entry(info: model::catalog::ModelInfo) -> Model {
    let efforts = info.supported_efforts.iter().filter_map(|option| {
        let reasoning_effort = effort(&option.effort)?;
        Some(ReasoningEffortOption {
            reasoning_effort,
            description: option.description.to_string(),
        })
    });
    Model {
        id: info.id.to_string(),
        model: info.id.to_string(),
        display_name: info.display_name.to_string(),
        description: info.description.to_string(),
        hidden: info.hidden,
        supported_reasoning_efforts: efforts.collect(),
        default_reasoning_effort: effort(&info.default_effort).unwrap_or(ReasoningEffort::Medium),
        input_modalities: info.input_modalities.iter().filter_map(|m| modality(m)).collect(),
        supports_personality: info.supports_personality,
        is_default: info.is_default,
        upgrade: info.upgrade.as_ref().map(ToString::to_string),
        upgrade_info: None,
        availability_nux: None,
        additional_speed_tiers: Vec::new(),
        service_tiers: Vec::new(),
    }
}

fn effort(name: &str) -> Option<ReasoningEffort> {
    serde_json::from_value(name.into()).ok()
}

fn modality(name: &str) -> Option<InputModality> {
    serde_json::from_value(name.into()).ok()
}
