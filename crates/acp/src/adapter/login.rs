//! Logging in and out at the hosted service.

use std::collections::BTreeMap;

use jsonrpc::{ErrorObject, RequestId};
use protocol::{
    AccountLoginCancelParams, AccountLoginCompletedNotification, AccountLoginStartParams,
    AccountLoginStartResponse, AccountReadParams, AccountReadResponse, ConfigReadParams, Empty,
};
use serde_json::{Value, json};

use super::{Adapter, Running, read_answer};
use crate::editor::Question;
use crate::schema::initialize::{AuthMethod, AuthenticateRequest, ClientCapabilities};
use crate::schema::permission::{ElicitationMode, ElicitationRequest, ElicitationResponse, Scope};
use crate::schema::{code, method};

/// The login in a browser.
const HOSTED: &str = "hosted";
/// The login on a terminal, which the client starts.
const TERMINAL: &str = "terminal";

/// A login in progress.
pub(super) struct Login {
    request: RequestId,
    /// `None` until the server has said it.
    id: Option<String>,
    /// The address that the client shows, if it does.
    shown: Option<Question>,
    is_cancelled: bool,
}

/// The ways to log in that the client can use.
pub(super) fn methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    let mut methods = vec![AuthMethod {
        kind: None,
        id: HOSTED,
        name: "Log in in a browser",
        description: "Log in at the hosted service, in a browser on the machine of the agent",
        args: &[],
    }];
    if client.auth.terminal {
        methods.push(AuthMethod {
            kind: Some("terminal"),
            id: TERMINAL,
            name: "Log in on a terminal",
            description: "Log in at the hosted service; the terminal shows an address",
            args: &["--login"],
        });
    }
    methods
}

impl Adapter {
    pub(super) fn authenticate(
        &mut self,
        id: &RequestId,
        params: &AuthenticateRequest,
    ) -> Result<(), ErrorObject> {
        if params.method_id != HOSTED {
            let message = format!(
                "`methodId`: there is no login `{}` to start here; there is `{HOSTED}`",
                params.method_id
            );
            return Err(ErrorObject::invalid_params(message));
        }
        if self.login.is_some() {
            let message = "a login is in progress: wait for its end, or cancel it";
            return Err(ErrorObject::invalid_request(message));
        }
        self.requests.insert(id.clone(), Running::Login);
        self.login =
            Some(Login { request: id.clone(), id: None, shown: None, is_cancelled: false });
        let params = AccountLoginStartParams::Hosted { agent_streamlined_login: false };
        self.call::<protocol::AccountLoginStart>(&params, |this, result| match result {
            Ok(AccountLoginStartResponse::Hosted { login_id, auth_url }) => {
                this.login_started(login_id, auth_url);
            }
            Ok(_) => this.end_login(Err(ErrorObject::internal("the server began another login"))),
            Err(error) => this.end_login(Err(error)),
        });
        Ok(())
    }

    fn login_started(&mut self, login_id: String, url: String) {
        let shows = self.capabilities().elicitation.url.is_some();
        let Some(login) = &mut self.login else { return };
        login.id = Some(login_id.clone());
        if login.is_cancelled {
            return self.cancel_login();
        }
        if shows {
            let request = ElicitationRequest {
                scope: Scope::Request { request_id: login.request.clone() },
                message: "Log in at the hosted service.".to_owned(),
                mode: ElicitationMode::Url { elicitation_id: login_id, url },
            };
            let then = |this: &mut Self, outcome| {
                let answered: Result<ElicitationResponse, _> = read_answer(outcome);
                if answered.is_ok_and(|answer| answer.action != "accept") {
                    this.cancel_login();
                }
            };
            let question = self.editor.ask(method::ELICITATION_CREATE, &request, Box::new(then));
            if let Some(login) = &mut self.login {
                login.shown = Some(question);
            }
        } else if !(self.options.browse)(&url) {
            self.cancel_login_with(ErrorObject::new(
                code::AUTH_REQUIRED,
                "no browser can be opened here: run `agentd login` on a terminal, then try again",
            ));
        }
    }

    /// A login has ended; one of another client is not ours.
    pub(super) fn login_completed(&mut self, ended: &AccountLoginCompletedNotification) {
        let Some(login) = &self.login else { return };
        if login.id.is_none() || login.id != ended.login_id {
            return;
        }
        if let (Some(_), Some(id)) = (login.shown, &login.id) {
            let params = json!({ "elicitationId": id });
            self.editor.notify(method::ELICITATION_COMPLETE, &params);
        }
        let result = match (ended.success, &ended.error) {
            (true, _) => Ok(()),
            (false, error) => {
                let why = error.as_deref().unwrap_or("the login failed");
                Err(ErrorObject::new(code::AUTH_REQUIRED, why))
            }
        };
        self.end_login(result);
    }

    pub(super) fn cancel_login(&mut self) {
        self.cancel_login_with(ErrorObject::new(code::CANCELLED, "the login was cancelled"));
    }

    fn cancel_login_with(&mut self, error: ErrorObject) {
        let Some(login) = &mut self.login else { return };
        login.is_cancelled = true;
        // Without an id it is cancelled when the server has begun it.
        let Some(login_id) = login.id.clone() else { return };
        let params = AccountLoginCancelParams { login_id };
        self.call::<protocol::AccountLoginCancel>(&params, |_, result| {
            if let Err(error) = result {
                tracing::warn!(target: "acp", "account/login/cancel: {error}");
            }
        });
        self.end_login(Err(error));
    }

    fn end_login(&mut self, result: Result<(), ErrorObject>) {
        let Some(login) = self.login.take() else { return };
        if let Some(question) = login.shown {
            self.editor.withdraw(question);
        }
        match result {
            Ok(()) => self.answer(&login.request, &json!({})),
            Err(error) => self.refuse(&login.request, &error),
        }
    }

    pub(super) fn log_out(&mut self, id: &RequestId) {
        let id = id.clone();
        self.call::<protocol::AccountLogout>(&Empty {}, move |this, result| match result {
            Ok(_) => this.answer(&id, &json!({})),
            Err(error) => this.refuse(&id, &error),
        });
    }

    /// Goes on when the provider of a session needs no login, or there is one; else the request gets the
    /// protocol's error. Without a provider it is the configured one.
    pub(super) fn when_logged_in(
        &mut self,
        id: &RequestId,
        provider: Option<String>,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let id = id.clone();
        // `account/read` speaks of the configured provider alone.
        let Some(provider) = provider else {
            return self.when_account_suffices(id, |read| read.requires_default_auth, then);
        };
        let params = ConfigReadParams::default();
        self.call::<protocol::ConfigRead>(&params, move |this, result| match result {
            Ok(read) if uses_account(&provider, &read.config) => {
                this.when_account_suffices(id, |_| true, then);
            }
            Ok(_) => then(this),
            Err(error) => this.refuse(&id, &error),
        });
    }

    fn when_account_suffices(
        &mut self,
        id: RequestId,
        needs_one: impl FnOnce(&AccountReadResponse) -> bool + Send + 'static,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let params = AccountReadParams::default();
        self.call::<protocol::AccountRead>(&params, move |this, result| match result {
            Ok(read) if read.account.is_none() && needs_one(&read) => {
                this.refuse(&id, &login_required());
            }
            Ok(_) => then(this),
            Err(error) => this.refuse(&id, &error),
        });
    }
}

/// Returns whether a provider uses the account, by the configuration.
fn uses_account(provider: &str, config: &BTreeMap<String, Value>) -> bool {
    provider == "default"
        || config.get("model_providers").is_some_and(|providers| {
            providers[provider]["requires_default_auth"].as_bool() == Some(true)
        })
}

/// Returns the error for a request that needs a login.
pub(super) fn login_required() -> ErrorObject {
    let message =
        "the model's provider needs a login: log in, or set an API key in the agent's environment";
    ErrorObject::new(code::AUTH_REQUIRED, message)
}
