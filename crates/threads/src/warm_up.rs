//! Prepares in the background what the first turn of a process would otherwise wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Config;

use services::accounts::Accounts;
use services::command_runner::CommandRunner;
use services::models::Models;
use services::provider::provider;

/// The preparations for the first turn of a process.
pub struct WarmUp {
    has_begun: AtomicBool,
    runner: CommandRunner,
    client: model::Client,
    accounts: Arc<Accounts>,
    models: Arc<Models>,
}

impl WarmUp {
    pub fn new(
        runner: CommandRunner,
        (client, accounts): (model::Client, Arc<Accounts>),
        models: Arc<Models>,
    ) -> Self {
        Self { has_begun: AtomicBool::new(false), runner, client, accounts, models }
    }

    /// Prepares the sandbox and the connection to a provider, once.
    pub fn begin(&self, config: &Config, provider_id: &str) {
        let Some(configured) = config.providers.get(provider_id) else { return };
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let (runner, client) = (self.runner.clone(), self.client.clone());
        let provider = provider(config, configured, None, &self.accounts);
        let listing = self.models.due_listing(config, provider_id);
        tokio::spawn(async move {
            runner.prepare().await;
            // A question for the models opens the connection too.
            let is_open = match listing {
                Some(listing) => listing.refresh().await,
                None => false,
            };
            if !is_open {
                client.warm_up(&provider).await;
            }
        });
    }
}
