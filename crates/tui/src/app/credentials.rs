//! The known facts about the way to a model.

use std::collections::{BTreeMap, BTreeSet};

use protocol::AvailableModelProvider;
use serde_json::Value;

use crate::app::configuration::Configuration;
use crate::app::dialogs::DialogId;
use crate::here::AskedServer;

/// The account, the provider and an open login.
#[derive(Debug, Default)]
pub(super) struct Login {
    configured: Configured,
    /// Providers that a key of the server's environment could be used with.
    available: Vec<AvailableModelProvider>,
    /// Of the thread.
    provider: String,
    hold: Hold,
    /// The message of the command line, until it can be sent.
    first: Option<String>,
    /// A login in a browser that has not ended, with its dialog.
    waiting: Option<(String, DialogId)>,
    /// The dialog that waits for the model servers of this machine.
    looking: Option<DialogId>,
    /// The server that is asked for its models, with the dialog that waits for it.
    asked: Option<(AskedServer, DialogId)>,
}

/// The event that messages wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    None,
    /// The answer of `account/read`.
    Asked,
    /// The user's choice.
    Choosing,
}

/// The values of the configuration.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub(super) provider: String,
    /// Providers that use the account.
    with_account: BTreeSet<String>,
    /// Addresses of the providers that are configured, by id.
    pub(super) addresses: BTreeMap<String, String>,
    pub(super) has_login_service: bool,
    /// `forced_login_method`.
    pub(super) forced: Option<String>,
    pub(super) uses_keyring: bool,
}

impl Login {
    /// Takes what `config/read` answers with.
    pub(super) fn read(&mut self, config: Configuration<'_>) {
        let text = |key: &str| config.text(key).map(str::to_owned);
        let mut with_account = BTreeSet::from(["default".to_owned()]);
        let mut addresses = BTreeMap::new();
        for (id, provider) in config.table("model_providers") {
            let address = provider.get("base_url").and_then(Value::as_str).unwrap_or_default();
            addresses.insert(id.clone(), address.to_owned());
            let needs_account = provider.get("requires_default_auth");
            if needs_account.and_then(Value::as_bool) == Some(true) {
                with_account.insert(id.clone());
            }
        }
        let store = text("cli_auth_credentials_store");
        self.configured = Configured {
            provider: text("model_provider").unwrap_or_else(|| "default".to_owned()),
            with_account,
            addresses,
            has_login_service: text("hosted_base_url").is_some(),
            forced: text("forced_login_method"),
            uses_keyring: store.is_some_and(|store| store != "file"),
        };
    }

    /// True if messages wait until it is known how a model can be asked.
    pub(super) fn holds(&self) -> bool {
        self.hold != Hold::None
    }

    /// True if the first frame waits for the answer of `account/read`.
    pub(super) fn is_asking(&self) -> bool {
        self.hold == Hold::Asked
    }

    /// A thread was opened with this provider; `first` is the message to send in it.
    pub(super) fn thread_opened(&mut self, provider: &str, first: Option<String>) {
        provider.clone_into(&mut self.provider);
        self.first = first.or(self.first.take());
        self.hold = Hold::None;
    }

    /// Takes what `modelProvider/list` answers with.
    pub(super) fn set_available(&mut self, available: Vec<AvailableModelProvider>) {
        self.available = available;
    }

    /// Providers that a key of the server's environment could be used with.
    pub(super) fn available(&self) -> &[AvailableModelProvider] {
        &self.available
    }

    pub(super) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Has messages wait for this.
    pub(super) fn hold(&mut self, hold: Hold) {
        self.hold = hold;
    }

    /// Messages no longer wait. Returns whether they did.
    pub(super) fn release(&mut self) -> bool {
        std::mem::take(&mut self.hold) != Hold::None
    }

    /// The message of the command line, if it is still to be sent.
    pub(super) fn take_first(&mut self) -> Option<String> {
        self.first.take()
    }

    /// A login in a browser has begun, which the dialog shows.
    pub(super) fn wait_for(&mut self, login: String, dialog: DialogId) {
        self.waiting = Some((login, dialog));
    }

    pub(super) fn stop_waiting(&mut self) {
        self.waiting = None;
    }

    /// A login has ended. Returns the dialog that waits for it.
    pub(super) fn completed(&mut self, login: Option<&str>) -> Option<DialogId> {
        let ended = self.waiting.take_if(|(id, _)| login == Some(id.as_str()))?;
        Some(ended.1)
    }

    /// True if messages wait for the user's choice, and no login has begun.
    pub(super) fn awaits_choice(&self) -> bool {
        self.hold == Hold::Choosing && self.waiting.is_none()
    }

    /// The dialog waits for the model servers of this machine.
    pub(super) fn look(&mut self, dialog: DialogId) {
        self.looking = Some(dialog);
    }

    /// Returns the dialog that waits for the model servers, which no longer does.
    pub(super) fn stop_looking(&mut self) -> Option<DialogId> {
        self.looking.take()
    }

    /// A server is asked for its models, for which the dialog waits.
    pub(super) fn ask_server(&mut self, server: AskedServer, dialog: DialogId) {
        self.asked = Some((server, dialog));
    }

    pub(super) fn stop_asking(&mut self) {
        self.asked = None;
    }

    /// A server has answered. Returns the dialog that waits for it.
    pub(super) fn answered(&mut self, server: &AskedServer) -> Option<DialogId> {
        Some(self.asked.take_if(|(asked, _)| asked == server)?.1)
    }

    /// The connection is lost, and with it what was in progress.
    pub(super) fn reset(&mut self) {
        (self.hold, self.waiting, self.looking) = (Hold::None, None, None);
        self.asked = None;
    }

    /// Of the thread.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// True if the thread has the provider of the configuration, whose models `model/list` lists.
    pub(super) fn is_configured_provider(&self) -> bool {
        self.provider == self.configured.provider
    }

    pub(super) fn uses_account(&self) -> bool {
        self.configured.with_account.contains(&self.provider)
    }
}
