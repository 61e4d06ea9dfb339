//! Makes the requests of a turn: with the provider and the account of the configuration, and within the
//! turn's budgets.

use std::sync::Arc;

use config::Config;
use session::{Failure, FailureKind, Prompt};

use super::meter::Meter;
use super::response::{Response, Unsent};
use services::accounts::Accounts;
use services::budget::Budgets;
use services::image_reader;
use services::models::Models;
use services::provider::provider;
use services::telemetry::TurnTrace;

/// The sender of a turn's requests.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: model::Client,
    pub(super) models: Arc<Models>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) budgets: Budgets,
    pub(super) trace: TurnTrace,
}

/// Sends requests in parallel with the response of the thread, even after the step that made it.
#[derive(Clone)]
pub(in crate::thread) struct Asker {
    pub(super) sender: Sender,
    pub(super) cache_key: String,
    pub(super) config: Arc<Config>,
    pub(super) user_agent: Option<String>,
}

impl Asker {
    /// Sends a request.
    ///
    /// # Errors
    /// The configuration does not allow it.
    pub(in crate::thread) fn ask(&self, prompt: Prompt) -> Result<Response, Failure> {
        let with = (&*self.config, self.user_agent.as_deref());
        self.sender.request(prompt, self.cache_key.clone(), with).map(Response::begin)
    }
}

impl Sender {
    pub(super) fn request(
        &self,
        mut prompt: Prompt,
        cache_key: String,
        (config, user_agent): (&Config, Option<&str>),
    ) -> Result<Unsent, Failure> {
        let Some(configured) = config.providers.get(&prompt.provider) else {
            let message = format!(
                "the provider `{}` is not in the configuration; add it to `model_providers`",
                prompt.provider
            );
            return Err(Failure::new(FailureKind::BadRequest, message));
        };
        let info = self.models.info(config, &prompt.provider, &prompt.model);
        if info.accepts_images() {
            prompt.bound_images(image_reader::request_bytes(&info));
        } else {
            prompt.leave_out_images();
        }
        if matches!(configured, config::Provider::Http(http) if http.one_system_message) {
            prompt.use_one_system_message();
        }
        if !config.features.fast_mode {
            prompt.service_tier.take_if(|tier| tier == "fast");
        }
        let provider = provider(config, configured, user_agent, &self.accounts);
        let uses_account = matches!(provider.api_key, model::KeySource::Account(_));
        let limits = self.accounts.limits();
        let meter = Meter::new(
            self.models.catalog(config, &prompt.provider),
            limits.source(&prompt.provider, &prompt.model, uses_account),
            info.clone(),
            prompt.service_tier.clone(),
            config.show_raw_agent_reasoning,
        );
        Ok(Unsent {
            client: self.client.clone(),
            arrival: self.client.arrival(),
            provider,
            prompt,
            cache_key,
            info,
            meter,
            budgets: self.budgets.clone(),
            takes_notice: false,
            trace: self.trace.clone(),
        })
    }
}
