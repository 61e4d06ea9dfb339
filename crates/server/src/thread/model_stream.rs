//! The response that the model streams to a thread, one at a time.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use http_client::retry::Policy;
use model::ResponseStream;
use session::{Failure, FailureKind, Id, ModelEvent, Prompt};

use crate::allowed::MachineInput;
use crate::convert;
use crate::options::Options;
use crate::provider::{Models, provider};

/// See the module.
pub(crate) struct ModelStream {
    thread: Id,
    client: model::Client,
    models: Arc<Models>,
    options: Arc<Options>,
    current: Option<(u64, ResponseStream)>,
}

impl ModelStream {
    pub(crate) fn new(
        thread: Id,
        client: model::Client,
        models: Arc<Models>,
        options: Arc<Options>,
    ) -> Self {
        Self { thread, client, models, options, current: None }
    }

    /// Sends a prompt; its response replaces the current one. Returns the failure of one that cannot
    /// be sent.
    pub(super) fn start(
        &mut self,
        sample: u64,
        mut prompt: Prompt,
        config: &Config,
        user_agent: Option<&str>,
    ) -> Option<MachineInput> {
        let Some(configured) = config.providers.get(&prompt.provider) else {
            let message = format!(
                "the provider `{}` is not in the configuration; add it to `model_providers`",
                prompt.provider
            );
            let failure = Failure::new(FailureKind::BadRequest, message);
            return Some(MachineInput::Model { sample, events: vec![ModelEvent::Failed(failure)] });
        };
        let provider = provider(configured, user_agent);
        let info = self.models.info(config, &prompt.provider, &prompt.model);
        if !config.features.fast_mode {
            prompt.service_tier.take_if(|tier| tier == "fast");
        }
        let prompt = convert::model::prompt(prompt, &self.thread, &info);
        self.current = Some((sample, self.client.stream_prompt(&provider, &prompt)));
        None
    }

    /// Drops the response, if it is the current one.
    pub(super) fn cancel(&mut self, sample: u64) {
        self.current.take_if(|(current, _)| *current == sample);
    }

    pub(super) fn clear(&mut self) {
        self.current = None;
    }

    /// The next events of the response; none when it has ended. Never resolves without a response.
    pub(super) async fn next(&mut self) -> (u64, Vec<model::Event>) {
        let Some((sample, stream)) = &mut self.current else {
            return std::future::pending().await;
        };
        let sample = *sample;
        match stream.next().await {
            Some(events) => (sample, events),
            None => {
                self.current = None;
                (sample, Vec::new())
            }
        }
    }

    /// How long to wait before a retry: somewhat longer than the machine asks for, so that many
    /// threads do not return to a provider at once.
    pub(super) fn retry_wait(&self, wait_ms: u64) -> Duration {
        let wait = Duration::from_millis(wait_ms);
        Policy::INTERACTIVE.with_jitter(wait, (self.options.jitter)())
    }
}
