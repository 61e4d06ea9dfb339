//! The way to a model: an account, an API key, a model on this machine, or the offline model. The chooser
//! opens by itself while there is none, and with `/login`.

use jsonrpc::ErrorObject;
use protocol::{
    AccountLoginCancelParams, AccountLoginCompletedNotification, AccountLoginStartParams,
    AccountLoginStartResponse, AccountReadParams, AccountReadResponse, OpeningOverrides,
    ThreadStartParams,
};
use serde_json::{Value, json};

use crate::app::available::find_keys;
use crate::app::credentials::Hold;
use crate::app::events::Effect;
use crate::app::other_server::Around;
use crate::app::program::App;
use crate::app::{available, messages, models, opening, other_server};
use crate::ask::{Ask, Offer};
use crate::composer::Draft;
use crate::here::LocalServer;
use crate::palette::Palette;
use crate::text::{Line, Style};

/// A thread was opened with this provider: finds out whether it can be used, and sends the first message
/// then.
pub(super) fn check_login(app: &mut App, provider: &str, first: Option<String>) {
    app.login.thread_opened(provider, first);
    if !app.login.uses_account() {
        return can_ask(app);
    }
    app.login.hold(Hold::Asked);
    app.call::<protocol::AccountRead>(&AccountReadParams::default(), account_known);
}

fn account_known(app: &mut App, result: Result<AccountReadResponse, ErrorObject>) {
    app.login.release();
    match result {
        Ok(AccountReadResponse { account, requires_default_auth }) => {
            let is_configured = app.login.is_configured_provider();
            if account.is_some() || (is_configured && !requires_default_auth) {
                return can_ask(app);
            }
            app.login.hold(Hold::Asked);
            find_keys(app, |app| {
                app.login.hold(Hold::Choosing);
                open_chooser(app, None, true);
            });
        }
        // The first turn says what is wrong, if anything.
        Err(error) => {
            app.error(&format!("The login state is unknown: {}", error.message));
            can_ask(app);
        }
    }
}

/// A model can be asked: what waited for that is sent.
fn can_ask(app: &mut App) {
    app.login.release();
    models::check_models(app);
    if let Some(first) = app.login.take_first() {
        messages::start_turn(app, Draft::plain(first));
    } else if app.session.turn.is_none() && !app.session.is_loading {
        // What was written before there was a thread.
        app.outbox.release_queue();
    }
}

/// `/login`.
pub(super) fn log_in(app: &mut App, _: &str) {
    if app.session.turn.is_some() {
        return app.notice("/login is not available during a turn. Esc interrupts the turn.");
    }
    find_keys(app, |app| open_chooser(app, None, false));
}

/// The chooser, for the steps to a server at another address.
pub(super) const OTHER_SERVER: Around = Around {
    back: |app| open_chooser(app, None, false),
    fail: |app, why| open_chooser(app, Some(why), false),
    store: |app, values, provider, model| use_provider(app, values, provider, Some(model)),
};

/// Opens the chooser, with what went wrong before.
fn open_chooser(app: &mut App, problem: Option<String>, by_itself: bool) {
    let mut facts = Vec::new();
    if app.login.holds() {
        let provider = app.login.provider();
        let text = format!("The provider `{provider}` has no account and no API key.");
        facts.push(Line::plain(text));
    }
    facts.push(Line::plain("Which provider runs the model?"));
    facts.extend(problem.map(|text| Line::new(text, Palette::ERROR)));
    let ask = Ask::offer("Choose a model provider", facts, ways(app));
    if by_itself {
        app.open_dialog_later(ask, way_chosen);
    } else {
        app.open_dialog(ask, way_chosen);
    }
}

/// The choices that can work here.
fn ways(app: &App) -> Vec<Offer> {
    let configured = app.login.configured();
    let mut ways: Vec<Offer> = app.login.available().iter().map(available::offer).collect();
    if configured.has_login_service && configured.forced.as_deref() != Some("api") {
        ways.extend([
            Offer::new("browser", 'a', "Log in with an account")
                .with_effect("in a browser on this machine"),
            Offer::new("device", 'c', "Log in with a code")
                .with_effect("in a browser on any device: the code is shown here"),
        ]);
    }
    if configured.forced.as_deref() != Some("hosted") {
        ways.push(
            Offer::new("key", 'k', "Enter an API key").with_effect("stored, and not shown again"),
        );
    }
    // A program elsewhere does not see what the server reaches.
    if app.environment.server_is_here {
        ways.extend([
            Offer::new("local", 'm', "Use a model on this machine")
                .with_effect("looks for Ollama and LM Studio; needs no key"),
            Offer::new("address", 'u', "Use another address")
                .with_effect("a model server or a gateway: its URL, a key, and one of its models"),
        ]);
    }
    ways.push(
        Offer::new("offline", 'o', "Use the offline model")
            .with_effect("a script answers, to try the program: no key, no network"),
    );
    ways.push(
        Offer::new("later", 'n', "Not now").on_escape().with_effect("/login opens this again"),
    );
    ways
}

fn way_chosen(app: &mut App, reply: Value) {
    match reply.as_str() {
        Some("browser") => {
            begin_login(app, &AccountLoginStartParams::Hosted { agent_streamlined_login: false });
        }
        Some("device") => begin_login(app, &AccountLoginStartParams::HostedDeviceCode),
        Some("key") => enter_key(app, None),
        Some("local") => look_for_servers(app),
        Some("address") => other_server::enter_address(app, OTHER_SERVER, "", None),
        Some("offline") => use_provider(app, Vec::new(), "offline", None),
        Some(reply) if available::is_offer(reply) => {
            available::choose(app, OTHER_SERVER, reply);
        }
        _ => {
            if app.login.release() {
                app.info("No model provider is set up. /login opens the choice again.");
                match app.login.take_first() {
                    Some(first) if app.writing.composer().is_empty() => {
                        app.writing.composer_mut().restore(Draft::plain(first));
                    }
                    first => {
                        if let Some(first) = first {
                            messages::wait_for_end(app, Draft::plain(first));
                        }
                        messages::give_queue_back(app);
                    }
                }
            }
        }
    }
}

fn begin_login(app: &mut App, params: &AccountLoginStartParams) {
    app.notice("Asking the login service …");
    app.call::<protocol::AccountLoginStart>(params, |app, result| {
        app.output.clear_notice();
        match result {
            Ok(begun) => wait_for_login(app, begun),
            Err(error) => open_chooser(app, Some(error.message), false),
        }
    });
}

/// Shows where to log in, until the server says that it is done.
fn wait_for_login(app: &mut App, begun: AccountLoginStartResponse) {
    let mut facts = Vec::new();
    let (id, address) = match begun {
        AccountLoginStartResponse::Hosted { login_id, auth_url } => {
            facts.push(Line::plain("Log in on the page that opens in the browser:"));
            facts.push(Line::new(auth_url.clone(), Palette::LINK));
            app.output.emit(Effect::Browse(auth_url.clone()));
            (login_id, auth_url)
        }
        AccountLoginStartResponse::HostedDeviceCode { login_id, verification_url, user_code } => {
            facts.push(Line::plain("Open this page in a browser on any device:"));
            facts.push(Line::new(verification_url.clone(), Palette::LINK));
            facts.push(Line::plain("and enter the code ").with(user_code, Style::BOLD));
            (login_id, verification_url)
        }
        AccountLoginStartResponse::ApiKey | AccountLoginStartResponse::HostedAuthTokens => {
            return logged_in(app);
        }
    };
    facts.push(Line::new("Waiting for the login …", Palette::QUIET));
    show_wait(app, facts, id, address);
}

fn show_wait(app: &mut App, facts: Vec<Line>, id: String, address: String) {
    let offers = vec![
        Offer::new("open", 'o', "Open the page in the browser of this machine"),
        Offer::new("cancel", 'c', "Cancel the login").on_escape(),
    ];
    let ask = Ask::offer("Log in", facts.clone(), offers);
    let login = id.clone();
    let dialog = app.open_dialog(ask, move |app, reply| {
        if reply == "open" {
            app.output.emit(Effect::Browse(address.clone()));
            return show_wait(app, facts, id, address);
        }
        app.login.stop_waiting();
        let params = AccountLoginCancelParams { login_id: id };
        app.call_or_report::<protocol::AccountLoginCancel>(&params, "The login was not canceled");
        open_chooser(app, None, false);
    });
    app.login.wait_for(login, dialog);
}

/// A login has ended, here or in another client.
pub(super) fn login_completed(app: &mut App, it: AccountLoginCompletedNotification) -> bool {
    let Some(dialog) = app.login.completed(it.login_id.as_deref()) else { return false };
    app.asks.dialogs_mut().close(dialog);
    match it.success {
        true => logged_in(app),
        false => {
            let why = it.error.unwrap_or_else(|| "the login failed".to_owned());
            open_chooser(app, Some(why), false);
        }
    }
    true
}

/// Somebody logged in or out, perhaps elsewhere: there may be a way to a model now.
pub(super) fn account_updated(app: &mut App, is_logged_in: bool) -> bool {
    let waits = app.login.awaits_choice();
    if !waits || !is_logged_in || app.asks.dialogs().is_empty() {
        return false;
    }
    app.asks.dialogs_mut().close_all();
    app.info("Another program with this home has logged in.");
    can_ask(app);
    true
}

fn enter_key(app: &mut App, problem: Option<String>) {
    let facts = vec![
        Line::plain("Paste or type the key. It is shown as dots, and kept out of the history,"),
        Line::plain(format!("the drafts and the log. It will be stored {}.", key_place(app))),
    ];
    let mut ask = Ask::entry("API key", facts, "key", true);
    if let Some(problem) = problem {
        ask = ask.with_notice(problem);
    }
    app.open_dialog(ask, |app, reply| {
        let Some(key) = reply.as_str().map(str::trim) else {
            return open_chooser(app, None, false);
        };
        let params = AccountLoginStartParams::ApiKey { api_key: key.to_owned() };
        app.call::<protocol::AccountLoginStart>(&params, |app, result| match result {
            Ok(_) => logged_in(app),
            Err(error) => enter_key(app, Some(error.message)),
        });
    });
}

fn key_place(app: &App) -> String {
    match app.login.configured().uses_keyring {
        true => "in the system's keyring, as `cli_auth_credentials_store` says".to_owned(),
        false => format!("in {}/credentials.json", app.folder(app.server.home())),
    }
}

/// The account can be used: by the provider in force, or by the built-in one from now on.
fn logged_in(app: &mut App) {
    app.call::<protocol::AccountRead>(&AccountReadParams::default(), |app, result| {
        let account = result.ok().and_then(|read| read.account);
        let who = account.as_ref();
        let who = who.map_or_else(|| "logged in".to_owned(), super::account::described);
        app.info(&format!("{who}; stored {}.", key_place(app)));
        match app.login.uses_account() {
            true => can_ask(app),
            false => use_provider(app, Vec::new(), "default", None),
        }
    });
}

/// Looks for model servers, which only a program on the same machine can.
fn look_for_servers(app: &mut App) {
    let facts = vec![Line::plain("Looking for Ollama and LM Studio on this machine …")];
    let back = vec![Offer::new("back", 'b', "Go back").on_escape()];
    let ask = Ask::offer("A model on this machine", facts, back);
    let dialog = app.open_dialog(ask, |app, _| {
        app.login.stop_looking();
        open_chooser(app, None, false);
    });
    app.login.look(dialog);
    app.output.emit(Effect::FindServers);
}

/// Shows the servers that were found, unless the user has gone back meanwhile.
pub(super) fn servers_found(app: &mut App, servers: &[LocalServer]) -> bool {
    let Some(dialog) = app.login.stop_looking() else { return false };
    app.asks.dialogs_mut().close(dialog);
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
        facts.push(Line::plain(
            "No model was found. Start one of these programs, or download a \
            model.",
        ));
    }
    offers.push(Offer::new("again", 'l', "Look again"));
    offers.push(Offer::new("back", 'b', "Go back").on_escape());
    let ask = Ask::offer("A model on this machine", facts, offers);
    app.open_dialog(ask, |app, reply| match reply.as_str() {
        Some("again") => look_for_servers(app),
        Some(chosen) if chosen != "back" => {
            match serde_json::from_str::<(String, String)>(chosen) {
                Ok((provider, model)) => use_provider(app, Vec::new(), &provider, Some(&model)),
                Err(error) => open_chooser(app, Some(error.to_string()), false),
            }
        }
        _ => open_chooser(app, None, false),
    });
    true
}

/// Stores the choice, with the values that make the provider, and opens a thread with it: a thread keeps its
/// provider.
fn use_provider(
    app: &mut App,
    mut values: Vec<(String, Value)>,
    provider: &str,
    model: Option<&str>,
) {
    values.push(("model_provider".to_owned(), json!(provider)));
    // Another provider does not have the model of this one.
    values.push(("model".to_owned(), json!(model)));
    let (provider, model) = (provider.to_owned(), model.map(str::to_owned));
    app.store_settings(values, move |app, stored| {
        let file = match stored {
            Ok(file) => file,
            Err(why) => {
                return open_chooser(app, Some(format!("It was not stored: {why}")), false);
            }
        };
        let (with, keys) = match &model {
            Some(model) => (format!(" with {model}"), "`model_provider` and `model`"),
            None => (" with its default model".to_owned(), "`model_provider`"),
        };
        app.info(&format!("From now on the provider is `{provider}`{with}: {keys} in {file}."));
        if app.session.has_turns {
            app.info(
                "This is a new thread, because a thread keeps its provider. /resume returns \
                to the old one.",
            );
        }
        opening::read_configuration(app);
        start_with_provider(app, &provider, model.as_deref());
    });
}

fn start_with_provider(app: &mut App, provider: &str, model: Option<&str>) {
    let overrides = OpeningOverrides {
        model: model.map(str::to_owned),
        model_provider: Some(provider.to_owned()),
        cwd: Some(app.working_folder()),
        ..app.beginning.overrides().clone()
    };
    // They are of the other provider.
    app.outbox.overrides_mut().model = None;
    app.outbox.overrides_mut().effort = None;
    opening::start_thread(app, &ThreadStartParams::from(overrides));
}
