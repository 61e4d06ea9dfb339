//! The known facts about the way to a model.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::app::configuration::Configuration;
use crate::app::dialogs::DialogId;

/// The known facts about the way to a model.
#[derive(Debug, Default)]
pub(crate) struct Login {
    pub(crate) configured: Configured,
    /// Of the thread.
    pub(crate) provider: String,
    pub(crate) hold: Hold,
    /// The message of the command line, until it can be sent.
    pub(crate) first: Option<String>,
    /// A login in a browser that has not ended, with its dialog.
    pub(crate) waiting: Option<(String, DialogId)>,
    /// The dialog that waits for the model servers of this machine.
    pub(crate) looking: Option<DialogId>,
}

/// The hold on messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    #[default]
    None,
    /// For the server's word on who is logged in.
    Asked,
    /// For the user's choice.
    Choosing,
}

/// The configuration's settings.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) provider: String,
    /// Providers that use the account.
    with_account: BTreeSet<String>,
    pub(crate) has_login_service: bool,
    /// `forced_login_method`.
    pub(crate) forced: Option<String>,
    pub(crate) uses_keyring: bool,
}

impl Login {
    /// Takes what `config/read` answers with.
    pub(in crate::app) fn read(&mut self, config: Configuration<'_>) {
        let text = |key: &str| config.text(key).map(str::to_owned);
        let mut with_account = BTreeSet::from(["default".to_owned()]);
        for (id, provider) in config.table("model_providers") {
            let needs_account = provider.get("requires_default_auth");
            if needs_account.and_then(Value::as_bool) == Some(true) {
                with_account.insert(id.clone());
            }
        }
        let store = text("cli_auth_credentials_store");
        self.configured = Configured {
            provider: text("model_provider").unwrap_or_else(|| "default".to_owned()),
            with_account,
            has_login_service: text("hosted_base_url").is_some(),
            forced: text("forced_login_method"),
            uses_keyring: store.is_some_and(|store| store != "file"),
        };
    }

    /// Returns whether messages wait until the way to a model is known.
    pub(crate) fn holds(&self) -> bool {
        self.hold != Hold::None
    }

    /// Returns whether the first frame waits for the server's answer on who is logged in.
    pub(crate) fn is_asking(&self) -> bool {
        self.hold == Hold::Asked
    }

    /// The connection is lost, and with it what was in progress.
    pub(crate) fn reset(&mut self) {
        (self.hold, self.waiting, self.looking) = (Hold::None, None, None);
    }

    /// Of the thread.
    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns whether the thread has the provider of the configuration, whose models `model/list`
    /// lists.
    pub(crate) fn is_configured_provider(&self) -> bool {
        self.provider == self.configured.provider
    }

    pub(crate) fn uses_account(&self) -> bool {
        self.configured.with_account.contains(&self.provider)
    }
}
