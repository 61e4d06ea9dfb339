//! The way to a model: an account, an API key, a model on this machine, or the offline model. The chooser
//! opens by itself while there is none, and with `/login`.

pub(super) mod state;

use jsonrpc::ErrorObject;
use protocol::{
    AccountLoginCancelParams, AccountLoginCompletedNotification, AccountLoginStartParams,
    AccountLoginStartResponse, AccountReadParams, AccountReadResponse, OpeningOverrides,
    ThreadStartParams,
};
use serde_json::{Value, json};

use crate::app::login::state::Hold;
use crate::app::{App, Effect};
use crate::ask::{Ask, Offer};
use crate::composer::Draft;
use crate::here::LocalServer;
use crate::palette::Palette;
use crate::text::{Line, Style};

impl App {
    /// A thread was opened with this provider: finds out whether it can be used, and sends the first message
    /// then.
    pub(super) fn check_login(&mut self, provider: &str, first: Option<String>) {
        provider.clone_into(&mut self.login.provider);
        self.login.first = first.or(self.login.first.take());
        self.login.hold = Hold::None;
        if !self.login.uses_account() {
            return self.can_ask();
        }
        self.login.hold = Hold::Asked;
        self.call::<protocol::AccountRead>(&AccountReadParams::default(), Self::account_known);
    }

    fn account_known(&mut self, result: Result<AccountReadResponse, ErrorObject>) {
        self.login.hold = Hold::None;
        match result {
            Ok(AccountReadResponse { account, requires_default_auth }) => {
                let is_configured = self.login.provider == self.login.configured.provider;
                if account.is_some() || (is_configured && !requires_default_auth) {
                    return self.can_ask();
                }
                self.login.hold = Hold::Choosing;
                self.open_chooser(None, true);
            }
            // The first turn says what is wrong, if anything.
            Err(error) => {
                self.error(&format!("It is not known who is logged in: {}", error.message));
                self.can_ask();
            }
        }
    }

    /// A model can be asked: what waited for that is sent.
    fn can_ask(&mut self) {
        self.login.hold = Hold::None;
        self.check_models();
        if let Some(first) = self.login.first.take() {
            self.start_turn(Draft::plain(first));
        } else if self.session.turn.is_none() && !self.session.is_loading {
            // What was written before there was a thread.
            self.next_queued();
        }
    }

    /// `/login`.
    pub(super) fn log_in(&mut self, _: &str) {
        if self.session.turn.is_some() {
            return self.notice("/login has to wait for the end of the turn. Esc interrupts it.");
        }
        self.open_chooser(None, false);
    }

    /// Opens the chooser, with what went wrong before.
    fn open_chooser(&mut self, problem: Option<String>, by_itself: bool) {
        let mut facts = Vec::new();
        if self.login.holds() {
            let provider = &self.login.provider;
            let text = format!("There is no account and no API key for the provider `{provider}`.");
            facts.push(Line::plain(text));
        }
        facts.push(Line::plain("How should a model be asked?"));
        facts.extend(problem.map(|text| Line::new(text, Palette::ERROR)));
        let ask = Ask::offer("Choose a model's provider", facts, self.ways());
        if by_itself {
            self.open_dialog_later(ask, Self::way_chosen);
        } else {
            self.open_dialog(ask, Self::way_chosen);
        }
    }

    fn ways(&self) -> Vec<Offer> {
        let configured = &self.login.configured;
        let needs_service =
            "needs the address of a login service: `hosted_base_url` in config.toml";
        let with = |offer: Offer, text: &str| match configured.has_login_service {
            true => offer.with_effect(text),
            false => offer.with_effect(needs_service),
        };
        let mut accounts = vec![
            with(
                Offer::new("browser", 'a', "Log in with an account"),
                "in a browser on this machine",
            ),
            with(
                Offer::new("device", 'c', "Log in with a code"),
                "in a browser on any device: the code is shown here",
            ),
        ];
        let mut key = vec![
            Offer::new("key", 'k', "Enter an API key").with_effect("stored, and not shown again"),
        ];
        match configured.forced.as_deref() {
            Some("hosted") => key.clear(),
            Some("api") => accounts.clear(),
            _ => {}
        }
        // What can be used at once comes first.
        let mut ways = match configured.has_login_service {
            true => [accounts, key].concat(),
            false => [key, accounts].concat(),
        };
        ways.push(
            Offer::new("local", 'm', "Use a model on this machine")
                .with_effect("looks for Ollama and LM Studio; needs no key"),
        );
        ways.push(
            Offer::new("offline", 'o', "Use the offline model")
                .with_effect("answers by a script, to try the program: no key, no network"),
        );
        ways.push(Offer::new("later", 'n', "Not now (Esc)").with_effect("/login opens this again"));
        ways
    }

    fn way_chosen(&mut self, reply: Value) {
        match reply.as_str() {
            Some("browser") => self
                .begin_login(&AccountLoginStartParams::Hosted { agent_streamlined_login: false }),
            Some("device") => self.begin_login(&AccountLoginStartParams::HostedDeviceCode),
            Some("key") => self.enter_key(None),
            Some("local") => self.look_for_servers(),
            Some("offline") => self.use_provider("offline", None),
            _ => {
                if std::mem::take(&mut self.login.hold) != Hold::None {
                    self.info("No model provider is set up. /login opens the choice again.");
                    match self.login.first.take() {
                        Some(first) if self.composer.is_empty() => {
                            self.composer.restore(Draft::plain(first));
                        }
                        first => {
                            if let Some(first) = first {
                                self.wait_for_end(Draft::plain(first));
                            }
                            self.give_queue_back();
                        }
                    }
                }
            }
        }
    }

    fn begin_login(&mut self, params: &AccountLoginStartParams) {
        self.notice("Asking the login service …");
        self.call::<protocol::AccountLoginStart>(params, |app, result| {
            app.notice = None;
            match result {
                Ok(begun) => app.wait_for_login(begun),
                Err(error) => app.open_chooser(Some(error.message), false),
            }
        });
    }

    /// Shows where to log in, until the server says that it is done.
    fn wait_for_login(&mut self, begun: AccountLoginStartResponse) {
        let mut facts = Vec::new();
        let (id, address) = match begun {
            AccountLoginStartResponse::Hosted { login_id, auth_url } => {
                facts.push(Line::plain("Log in on the page that opens in the browser:"));
                facts.push(Line::new(auth_url.clone(), Palette::LINK));
                self.effects.push_back(Effect::Browse(auth_url.clone()));
                (login_id, auth_url)
            }
            AccountLoginStartResponse::HostedDeviceCode {
                login_id,
                verification_url,
                user_code,
            } => {
                facts.push(Line::plain("Open this page in a browser on any device:"));
                facts.push(Line::new(verification_url.clone(), Palette::LINK));
                facts.push(Line::plain("and enter the code ").with(user_code, Style::BOLD));
                (login_id, verification_url)
            }
            AccountLoginStartResponse::ApiKey | AccountLoginStartResponse::HostedAuthTokens => {
                return self.logged_in();
            }
        };
        facts.push(Line::new("Waiting for the login …", Palette::QUIET));
        self.show_wait(facts, id, address);
    }

    fn show_wait(&mut self, facts: Vec<Line>, id: String, address: String) {
        let offers = vec![
            Offer::new("open", 'o', "Open the page in the browser of this machine"),
            Offer::new("cancel", 'c', "Cancel the login (Esc)"),
        ];
        let ask = Ask::offer("Log in", facts.clone(), offers);
        let login = id.clone();
        let dialog = self.open_dialog(ask, move |app, reply| {
            if reply == "open" {
                app.effects.push_back(Effect::Browse(address.clone()));
                return app.show_wait(facts, id, address);
            }
            app.login.waiting = None;
            let params = AccountLoginCancelParams { login_id: id };
            app.call_or_report::<protocol::AccountLoginCancel>(
                &params,
                "The login was not canceled",
            );
            app.open_chooser(None, false);
        });
        self.login.waiting = Some((login, dialog));
    }

    /// A login has ended, here or in another client.
    pub(super) fn login_completed(&mut self, it: AccountLoginCompletedNotification) -> bool {
        let Some((id, dialog)) = &self.login.waiting else { return false };
        if it.login_id.as_ref() != Some(id) {
            return false;
        }
        self.dialogs.close(*dialog);
        self.login.waiting = None;
        match it.success {
            true => self.logged_in(),
            false => {
                let why = it.error.unwrap_or_else(|| "the login failed".to_owned());
                self.open_chooser(Some(why), false);
            }
        }
        true
    }

    /// Somebody logged in or out, perhaps elsewhere: there may be a way to a model now.
    pub(super) fn account_updated(&mut self, is_logged_in: bool) -> bool {
        let waits = self.login.hold == Hold::Choosing && self.login.waiting.is_none();
        if !waits || !is_logged_in || self.dialogs.is_empty() {
            return false;
        }
        self.dialogs.close_all();
        self.info("Another program of this home has logged in.");
        self.can_ask();
        true
    }

    fn enter_key(&mut self, problem: Option<String>) {
        let facts = vec![
            Line::plain("Paste or type the key. It is shown as dots, and kept out of the history,"),
            Line::plain(format!("the drafts and the log. It will be stored {}.", self.key_place())),
        ];
        let mut ask = Ask::entry("API key", facts, "key", true);
        if let Some(problem) = problem {
            ask = ask.with_notice(problem);
        }
        self.open_dialog(ask, |app, reply| {
            let Some(key) = reply.as_str().map(str::trim) else {
                return app.open_chooser(None, false);
            };
            let params = AccountLoginStartParams::ApiKey { api_key: key.to_owned() };
            app.call::<protocol::AccountLoginStart>(&params, |app, result| match result {
                Ok(_) => app.logged_in(),
                Err(error) => app.enter_key(Some(error.message)),
            });
        });
    }

    fn key_place(&self) -> String {
        match self.login.configured.uses_keyring {
            true => "as `cli_auth_credentials_store` says, in the keyring of the system".to_owned(),
            false => format!("in {}/credentials.json", self.folder(&self.agent_home)),
        }
    }

    /// The account can be used: by the provider in force, or by the built-in one from now on.
    fn logged_in(&mut self) {
        self.call::<protocol::AccountRead>(&AccountReadParams::default(), |app, result| {
            let account = result.ok().and_then(|read| read.account);
            let who = account.as_ref();
            let who = who.map_or_else(|| "logged in".to_owned(), super::account::described);
            app.info(&format!("{who}; stored {}.", app.key_place()));
            match app.login.uses_account() {
                true => app.can_ask(),
                false => app.use_provider("default", None),
            }
        });
    }

    /// Looks for model servers, which only a program on the same machine can.
    fn look_for_servers(&mut self) {
        if !self.environment.server_is_here {
            let text = "The server runs elsewhere, and this program does not see what runs next to it. \
                        Set `model_provider` to `ollama` or `lmstudio` in its config.toml.";
            return self.open_chooser(Some(text.to_owned()), false);
        }
        let facts = vec![Line::plain("Looking for Ollama and LM Studio on this machine …")];
        let back = vec![Offer::new("back", 'b', "Go back (Esc)")];
        let ask = Ask::offer("A model on this machine", facts, back);
        let dialog = self.open_dialog(ask, |app, _| {
            app.login.looking = None;
            app.open_chooser(None, false);
        });
        self.login.looking = Some(dialog);
        self.effects.push_back(Effect::FindServers);
    }

    /// Takes the found servers, unless the user has gone back in the meantime.
    pub(super) fn servers_found(&mut self, servers: &[LocalServer]) -> bool {
        let Some(dialog) = self.login.looking.take() else { return false };
        self.dialogs.close(dialog);
        let (mut facts, mut offers) = (Vec::new(), Vec::new());
        for server in servers {
            match &server.models {
                Ok(models) => {
                    let count = models.len();
                    let text = format!("{} at {}: {count} models", server.name, server.address);
                    facts.push(Line::plain(text));
                    offers.extend(models.iter().map(|model| {
                        let id = json!([server.id, model]).to_string();
                        Offer::new(id, ' ', model.clone()).with_effect(server.name.clone())
                    }));
                }
                Err(why) => {
                    let looked = format!("Looked for {} at {}: ", server.name, server.address);
                    facts.push(Line::plain(looked).with(why.clone(), Palette::WARNING));
                }
            }
        }
        if offers.is_empty() {
            facts.push(Line::plain("No model was found. Start one of them, or get a model."));
        }
        offers.push(Offer::new("again", 'l', "Look again"));
        offers.push(Offer::new("back", 'b', "Go back (Esc)"));
        let ask = Ask::offer("A model on this machine", facts, offers);
        self.open_dialog(ask, |app, reply| match reply.as_str() {
            Some("again") => app.look_for_servers(),
            Some(chosen) if chosen != "back" => {
                match serde_json::from_str::<(String, String)>(chosen) {
                    Ok((provider, model)) => app.use_provider(&provider, Some(&model)),
                    Err(error) => app.open_chooser(Some(error.to_string()), false),
                }
            }
            _ => app.open_chooser(None, false),
        });
        true
    }

    /// Stores the choice, and opens a thread with it: a thread keeps its provider.
    fn use_provider(&mut self, provider: &str, model: Option<&str>) {
        let values = vec![
            ("model_provider".to_owned(), json!(provider)),
            // Another provider does not have the model of this one.
            ("model".to_owned(), json!(model)),
        ];
        let (provider, model) = (provider.to_owned(), model.map(str::to_owned));
        self.store_settings(values, move |app, stored| {
            let file = match stored {
                Ok(file) => file,
                Err(why) => {
                    return app.open_chooser(Some(format!("It was not stored: {why}")), false);
                }
            };
            let (with, keys) = match &model {
                Some(model) => (format!(" with {model}"), "`model_provider` and `model`"),
                None => (" with its default model".to_owned(), "`model_provider`"),
            };
            app.info(&format!("From now on the provider is `{provider}`{with}: {keys} in {file}."));
            if app.session.has_turns {
                app.info(
                    "This is a new thread, since a thread keeps its provider. /resume goes back.",
                );
            }
            app.read_configuration();
            app.start_with_provider(&provider, model.as_deref());
        });
    }

    fn start_with_provider(&mut self, provider: &str, model: Option<&str>) {
        let overrides = OpeningOverrides {
            model: model.map(str::to_owned),
            model_provider: Some(provider.to_owned()),
            cwd: Some(self.working_folder()),
            ..self.opening.clone()
        };
        // They are of the other provider.
        self.overrides.model = None;
        self.overrides.effort = None;
        self.start_thread(&ThreadStartParams::from(overrides));
    }
}
