//! Models and what their provider can do.

use std::sync::Arc;

use config::Config;
use config::table::ToolType;
use model::catalog::{self, ModelInfo};
use protocol::common::Empty;
use protocol::{
    AvailableModelProvider, InputModality, Model, ModelAvailabilityNux, ModelListParams,
    ModelListResponse, ModelMethods, ModelProviderCapabilitiesReadResponse, ModelProviderEntry,
    ModelProviderFindParams, ModelProviderFindResponse, ModelProviderListResponse,
    ModelServiceTier, ModelUpgradeInfo, ModelWireApi, ReasoningEffort, ReasoningEffortOption,
};

use crate::handlers::page::PAGE;
use services::error::Error;
use services::peer::Caller;
use services::provider_list;
use services::server_models::{AddressFault, models_at};

use crate::server::Server;

impl ModelMethods<Caller> for Server {
    async fn model_list(
        &self,
        _caller: Caller,
        params: ModelListParams,
    ) -> Result<ModelListResponse, Error> {
        let config = self.default_config().await?;
        let provider = params.model_provider.as_deref().unwrap_or(config.provider.id());
        let models = &self.services.models;
        if !config.providers.contains_key(provider) {
            return Err(Error::invalid_params(format!("there is no model provider `{provider}`"))
                .next_step("`modelProvider/list` names them; others go into `model_providers`"));
        }
        match &params.model_provider {
            Some(_) => models.report(&config, provider).await.map_err(|why| {
                Error::failed(format!(
                    "the models of the provider `{provider}` are not known: {why}"
                ))
            })?,
            // Only the first answer of all waits for it.
            None => models.learn(&config, provider).await,
        }
        let catalog = models.listed(&config, provider);
        let includes_hidden = params.include_hidden.unwrap_or(false);
        let mut models: Vec<&ModelInfo> = catalog.models().iter().collect();
        models.retain(|model| includes_hidden || !model.hidden);
        let which = if includes_hidden { "all" } else { "visible" };
        // Of the list that a cursor belongs to; after it comes the first model of the next page.
        let tag = store::query_tag(&["models", provider, which]);
        let position = |cursor: &str| {
            let id = cursor.strip_prefix(&*tag)?.strip_prefix('.')?;
            models.iter().position(|model| &*model.id == id)
        };
        let start = match params.cursor.as_deref() {
            None => 0,
            Some(cursor) => position(cursor).ok_or_else(|| {
                Error::invalid_params("`cursor` is not a cursor of this list")
                    .next_step("begin the list without a cursor")
            })?,
        };
        let limit = PAGE.rows(params.limit) as usize;
        let next_cursor = models.get(start + limit).map(|model| format!("{tag}.{}", model.id));
        let data = models.into_iter().skip(start).take(limit).map(entry).collect();
        Ok(ModelListResponse { data, next_cursor })
    }

    async fn model_provider_list(
        &self,
        _caller: Caller,
        _: Empty,
    ) -> Result<ModelProviderListResponse, Error> {
        let config = self.default_config().await?;
        let listed = provider_list::providers(&config, &self.services.accounts).await?;
        let entry = |provider: provider_list::ListedProvider| ModelProviderEntry {
            is_default: provider.id == config.provider.id(),
            id: provider.id,
            display_name: provider.name,
            wire_api: provider.api.as_ref().map(|(_, wire)| wire_api(*wire)),
            base_url: provider.api.map(|(base_url, _)| base_url),
            is_local: provider.is_local,
            problem: provider.problem,
        };
        let available = provider_list::available(&self.services.options, &config);
        let offer = |provider: provider_list::AvailableProvider| AvailableModelProvider {
            id: provider.id,
            display_name: provider.name,
            base_url: provider.base_url,
            wire_api: wire_api(provider.wire),
            env_key: provider.env_key,
        };
        Ok(ModelProviderListResponse {
            data: listed.into_iter().map(entry).collect(),
            available: available.into_iter().map(offer).collect(),
        })
    }

    async fn model_provider_find(
        &self,
        _caller: Caller,
        params: ModelProviderFindParams,
    ) -> Result<ModelProviderFindResponse, Error> {
        let ModelProviderFindParams { address, api_key } = params;
        let key = api_key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let found = models_at(&self.services.options, &address, key).await;
        let found = found.map_err(|fault| match fault {
            AddressFault::Malformed(why) => Error::invalid_params(why),
            AddressFault::Address(why) | AddressFault::Key(why) => Error::failed(why),
        })?;
        Ok(ModelProviderFindResponse {
            base_url: found.base_url,
            wire_api: wire_api(found.wire),
            models: found.models,
            default_model: found.default,
        })
    }

    async fn model_provider_capabilities_read(
        &self,
        _caller: Caller,
        _: Empty,
    ) -> Result<ModelProviderCapabilitiesReadResponse, Error> {
        let config = self.default_config().await?;
        Ok(ModelProviderCapabilitiesReadResponse {
            // No request offers the provider's tool; an image that a provider returns is shown.
            image_generation: false,
            // A namespace becomes part of a tool's name, so that every provider takes it.
            namespace_tools: true,
            web_search: config.provider.takes(ToolType::WebSearch),
        })
    }
}

impl Server {
    /// The configuration of the server's own folder.
    async fn default_config(&self) -> Result<Arc<Config>, Error> {
        let services = &self.services;
        let loaded = services.configurations.in_folder(&services.options.cwd, None).await?;
        Ok(Arc::new(loaded.resolved.config))
    }
}

fn entry(info: &ModelInfo) -> Model {
    let efforts = info.supported_efforts.iter().filter_map(|option| {
        let reasoning_effort = effort(&option.effort)?;
        Some(ReasoningEffortOption {
            reasoning_effort,
            description: option.description.to_string(),
        })
    });
    let text = |text: &catalog::Text| text.to_string();
    Model {
        id: text(&info.id),
        model: text(&info.id),
        display_name: text(&info.display_name),
        description: text(&info.description),
        hidden: info.hidden,
        supported_reasoning_efforts: efforts.collect(),
        default_reasoning_effort: effort(&info.default_effort).unwrap_or(ReasoningEffort::Medium),
        input_modalities: info.input_modalities.iter().map(|kind| modality(*kind)).collect(),
        supports_personality: info.supports_personality,
        is_default: info.is_default,
        upgrade: info.upgrade.as_ref().map(text),
        upgrade_info: info.upgrade_info.as_ref().map(|info| ModelUpgradeInfo {
            model: text(&info.model),
            model_link: info.model_link.as_ref().map(text),
            upgrade_copy: info.upgrade_copy.as_ref().map(text),
            migration_markdown: info.migration_markdown.as_ref().map(text),
        }),
        availability_nux: info
            .availability_nux
            .as_ref()
            .map(|nux| ModelAvailabilityNux { message: text(&nux.message) }),
        additional_speed_tiers: info.additional_speed_tiers.iter().map(text).collect(),
        service_tiers: info
            .service_tiers
            .iter()
            .map(|tier| ModelServiceTier {
                id: text(&tier.id),
                name: text(&tier.name),
                description: text(&tier.description),
            })
            .collect(),
    }
}

fn wire_api(wire: model::Wire) -> ModelWireApi {
    match wire {
        model::Wire::Responses => ModelWireApi::Responses,
        model::Wire::Messages => ModelWireApi::Messages,
        model::Wire::Chat => ModelWireApi::Chat,
        model::Wire::Gemini => ModelWireApi::Gemini,
    }
}

fn effort(name: &str) -> Option<ReasoningEffort> {
    serde_json::from_value(name.into()).ok()
}

fn modality(kind: catalog::Modality) -> InputModality {
    match kind {
        catalog::Modality::Text => InputModality::Text,
        catalog::Modality::Image => InputModality::Image,
    }
}
