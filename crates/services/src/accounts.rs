//! The account of the server: who is logged in, the logins in progress, and the credentials of requests
//! to the default provider. Clients are notified when any of it changes, here or in another process.

mod announcements;
mod credentials;
mod external;
mod pending;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use account::{
    Bearer, CreditKind, CreditsRequest, Error as AccountError, ExternalTokens, LoginMethod,
    Settings, Status, StoreKind,
};
use config::Config;
use config::table::{CredentialsStore, LoginMethod as ForcedMethod};
use http_client::Secret;
use protocol::{
    AccountLoginCompletedNotification, AccountLoginStartResponse, AccountUpdatedNotification,
    AuthMode, PlanType,
};

use crate::account_limits::AccountLimits;
use crate::connections::Connections;
use crate::direct_requests::DirectRequests;
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::peer::{Caller, ConnectionId, Gate};
use announcements::{Announcements, Look, Noticed, OwnChange};
use external::ExternalSource;
use pending::PendingLogins;

pub(crate) use credentials::AccountCredentials;

/// Maximum wait of the server's end for a refresh, whose tokens would be lost otherwise.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The account of the server.
pub struct Accounts {
    account: account::Accounts,
    options: Arc<Options>,
    connections: Arc<Connections>,
    pending: Arc<PendingLogins>,
    external: ExternalSource,
    announcements: Arc<Announcements>,
    limits: Arc<AccountLimits>,
}

/// The configuration's settings for the account.
#[derive(Debug, Clone)]
pub struct AccountConfig {
    pub settings: Settings,
    /// The key of the environment is used instead of an account.
    pub has_environment_key: bool,
}

impl AccountConfig {
    pub fn new(config: &Config) -> Self {
        let settings = account_settings(config);
        Self { settings, has_environment_key: uses_environment_key(config) }
    }
}

/// Who is logged in, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The key in the environment.
    EnvironmentKey,
    Account(Status),
}

/// A login that a client provides at once.
pub enum GivenLogin {
    ApiKey(String),
    Tokens(ExternalTokens),
}

/// Returns the configuration's settings for logins.
pub fn account_settings(config: &Config) -> Settings {
    Settings {
        store: match config.cli_auth_credentials_store {
            None | Some(CredentialsStore::File) => StoreKind::File,
            Some(CredentialsStore::Keyring) => StoreKind::Keyring,
            Some(CredentialsStore::Auto) => StoreKind::Auto,
        },
        forced_method: config.forced_login_method.map(|method| match method {
            ForcedMethod::Hosted => LoginMethod::Hosted,
            ForcedMethod::Api => LoginMethod::Api,
        }),
        forced_workspace: config.forced_hosted_workspace_id.as_deref().map(str::to_owned),
        login_service: config.hosted_base_url.as_deref().map(str::to_owned),
        client_id: config.hosted_client_id.clone(),
    }
}

/// Returns whether the key of the environment is used instead of an account.
pub fn uses_environment_key(config: &Config) -> bool {
    let Some(config::Provider::Http(default)) = config.providers.get("default") else {
        return false;
    };
    let is_permitted = config.forced_login_method != Some(ForcedMethod::Hosted);
    default.credential.is_some() && is_permitted
}

/// The account of a home, for programs that serve no client.
pub fn accounts(options: &Options) -> account::Accounts {
    let clock = options.clock.clone();
    account::Accounts::new(account::Options {
        home: options.home.clone(),
        now_ms: Arc::new(move || clock.now_ms()),
        random: options.random.clone(),
        network: model::Network::from_variables(|name| options.variable(name)),
    })
}

impl Accounts {
    pub fn new(
        options: Arc<Options>,
        connections: Arc<Connections>,
        requests: Arc<DirectRequests>,
    ) -> Self {
        Self {
            account: accounts(&options),
            external: ExternalSource::new(connections.clone(), requests),
            pending: Arc::default(),
            announcements: Arc::default(),
            limits: Arc::new(AccountLimits::new(connections.clone(), options.clone())),
            options,
            connections,
        }
    }

    /// The limits of accounts and keys.
    pub fn limits(&self) -> &Arc<AccountLimits> {
        &self.limits
    }

    /// Who is logged in. With `renews`, the tokens of a hosted login are refreshed first.
    ///
    /// # Errors
    /// The stored login cannot be read, or the login service cannot be reached.
    pub async fn identity(&self, config: &AccountConfig, renews: bool) -> Result<Identity, Error> {
        let settings = &config.settings;
        if renews && let Err(error) = self.account.renew(settings).await {
            match error {
                // The identity says so.
                AccountError::NotLoggedIn | AccountError::Ended { .. } => {}
                error => return Err(error.into()),
            }
        }
        let look = self.announcements.begin_look();
        let status = self.account.status(settings).await?;
        self.notice(config, &status, look);
        Ok(match config.has_environment_key && !matches!(status, Status::External(_)) {
            true => Identity::EnvironmentKey,
            false => Identity::Account(status),
        })
    }

    /// Logs in with what a client provides. Its notifications follow the response.
    ///
    /// # Errors
    /// It is invalid, not permitted, or cannot be stored.
    pub async fn log_in(
        self: &Arc<Self>,
        config: &AccountConfig,
        login: GivenLogin,
        caller: &Caller,
    ) -> Result<(), Error> {
        let settings = &config.settings;
        let change = self.announcements.begin();
        match login {
            GivenLogin::ApiKey(key) => self.account.login_with_api_key(settings, &key).await?,
            GivenLogin::Tokens(tokens) => {
                self.account.use_external(settings, tokens)?;
                self.external.set_owner(caller.peer.id);
            }
        }
        self.limits.clear(None);
        let (accounts, config, gate) = (self.clone(), config.clone(), caller.gate());
        tokio::spawn(
            async move { accounts.completed(&config, None, Ok(Some(change)), gate).await },
        );
        Ok(())
    }

    /// Begins a login in a browser, or with a device code.
    ///
    /// # Errors
    /// It is not permitted, or the login service cannot be used.
    pub async fn begin_login(
        self: &Arc<Self>,
        config: &AccountConfig,
        (with_device_code, closes_page): (bool, bool),
        caller: &Caller,
    ) -> Result<AccountLoginStartResponse, Error> {
        let settings = &config.settings;
        let login_id = self.options.ids.next();
        let slot = self.pending.reserve(&login_id)?;
        let change = Arc::new(Mutex::new(None));
        let (begun, announcements) = (change.clone(), self.announcements.clone());
        let stores = move || {
            let begun: &Mutex<Option<OwnChange>> = &begun;
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(announcements.begin());
        };
        let (response, work): (_, pending::Work) = if with_device_code {
            let login = self.account.begin_device_login(settings).await?;
            let response = AccountLoginStartResponse::HostedDeviceCode {
                login_id: login_id.clone(),
                verification_url: login.verification_url().to_owned(),
                user_code: login.user_code().to_owned(),
            };
            (response, Box::pin(login.finish_with(stores)))
        } else {
            let login = self.account.begin_browser_login(settings, closes_page).await?;
            let auth_url = login.url().to_owned();
            let response =
                AccountLoginStartResponse::Hosted { login_id: login_id.clone(), auth_url };
            (response, Box::pin(login.finish_with(stores)))
        };
        let (accounts, config, gate) = (self.clone(), config.clone(), caller.gate());
        tokio::spawn(async move {
            let outcome = slot.run(work).await;
            let change = change.lock().unwrap_or_else(PoisonError::into_inner).take();
            if outcome.is_ok() {
                accounts.limits.clear(None);
            }
            let outcome = outcome.map(|()| change);
            accounts.completed(&config, Some(login_id), outcome, gate).await;
        });
        Ok(response)
    }

    /// Cancels a login in progress. Returns whether there was one.
    pub fn cancel_login(&self, login_id: &str) -> bool {
        self.pending.cancel(login_id)
    }

    /// Logs out. Its notification follows the response; without a login there is none.
    ///
    /// # Errors
    /// The credentials cannot be deleted.
    pub async fn log_out(
        self: &Arc<Self>,
        config: &AccountConfig,
        caller: &Caller,
    ) -> Result<(), Error> {
        let change = self.announcements.begin();
        let status = self.account.status(&config.settings).await;
        // What cannot be read is deleted too.
        let was_logged_in = !matches!(status, Ok(Status::LoggedOut { .. }));
        self.account.logout(&config.settings).await?;
        if !was_logged_in {
            return Ok(());
        }
        self.limits.clear(None);
        let (accounts, config, gate) = (self.clone(), config.clone(), caller.gate());
        tokio::spawn(async move {
            gate.opened().await;
            accounts.announce(&config, change).await;
        });
        Ok(())
    }

    /// Asks the owner of the workspace for credits.
    ///
    /// # Errors
    /// No hosted account is logged in, or the service does not ask.
    pub async fn request_credits(
        &self,
        config: &AccountConfig,
        kind: CreditKind,
    ) -> Result<CreditsRequest, Error> {
        Ok(self.account.request_credits(&config.settings, kind).await?)
    }

    /// A connection has ended.
    pub fn detach(&self, connection: ConnectionId) {
        self.external.detach(connection);
    }

    /// Waits until no new tokens can be lost.
    pub async fn settled(&self) {
        // A login service that takes longer delays the end of the server no further.
        let _ = tokio::time::timeout(SETTLE_TIMEOUT, self.account.settled()).await;
    }

    /// The credentials of the next request to the default provider. `rejected` is the token that it has
    /// just refused.
    async fn bearer(
        &self,
        config: &AccountConfig,
        rejected: Option<&Secret>,
    ) -> Result<Bearer, AccountError> {
        let settings = &config.settings;
        let bearer = match self.account.bearer(settings, rejected).await {
            Err(AccountError::ExternalRejected { account_id }) => {
                let refreshed =
                    self.external.refresh(account_id, &self.account, settings, rejected);
                refreshed.await
            }
            outcome => outcome,
        };
        // Another process may have logged in or out.
        self.notice_status(config).await;
        bearer
    }

    /// Looks at the account when the server starts and when the file with the credentials has changed,
    /// so that clients are notified of what other processes do.
    pub async fn look(&self, config: &AccountConfig) {
        // A keyring can ask the user to unlock it: it is read when it is needed.
        if config.settings.store == StoreKind::File {
            self.notice_status(config).await;
        }
    }

    async fn notice_status(&self, config: &AccountConfig) {
        let look = self.announcements.begin_look();
        if let Some(status) = self.status(config).await {
            self.notice(config, &status, look);
        }
    }

    /// Notifies all clients of the outcome of a login, with the change that it made.
    async fn completed(
        &self,
        config: &AccountConfig,
        login_id: Option<String>,
        outcome: Result<Option<OwnChange>, AccountError>,
        gate: Gate,
    ) {
        gate.opened().await;
        let (change, error) = match outcome {
            Ok(change) => (change, None),
            Err(error) => (None, Some(error.to_string())),
        };
        self.connections.notify_all::<protocol::AccountLoginCompleted>(
            &AccountLoginCompletedNotification { login_id, success: error.is_none(), error },
        );
        if let Some(change) = change {
            self.announce(config, change).await;
        }
    }

    /// Notifies all clients of who is logged in, after a change by this server.
    async fn announce(&self, config: &AccountConfig, change: OwnChange) {
        let Some(status) = self.status(config).await else { return };
        let update = update(config, &status);
        self.limits.set_plan(update.plan_type);
        change.announced(update.clone());
        self.connections.notify_all::<protocol::AccountUpdated>(&update);
    }

    /// Notifies all clients if `status` is not the one that they know.
    fn notice(&self, config: &AccountConfig, status: &Status, look: Look) {
        let update = update(config, status);
        match self.announcements.notice(&update, look) {
            Noticed::Known => {}
            Noticed::First => self.limits.set_plan(update.plan_type),
            Noticed::Changed => {
                self.limits.clear(update.plan_type);
                self.connections.notify_all::<protocol::AccountUpdated>(&update);
            }
        }
    }

    async fn status(&self, config: &AccountConfig) -> Option<Status> {
        let status = self.account.status(&config.settings).await;
        // The next request that needs the account reports it.
        status.inspect_err(|error| tracing::warn!(target: "server::accounts", "{error}")).ok()
    }
}

fn update(config: &AccountConfig, status: &Status) -> AccountUpdatedNotification {
    let (auth_mode, plan) = match status {
        Status::External(profile) => (Some(AuthMode::HostedAuthTokens), profile.plan.as_deref()),
        _ if config.has_environment_key => (Some(AuthMode::Apikey), None),
        Status::ApiKey => (Some(AuthMode::Apikey), None),
        Status::Hosted(profile) => (Some(AuthMode::Hosted), profile.plan.as_deref()),
        Status::LoggedOut { .. } => (None, None),
    };
    let is_hosted = matches!(auth_mode, Some(AuthMode::Hosted | AuthMode::HostedAuthTokens));
    AccountUpdatedNotification { auth_mode, plan_type: is_hosted.then(|| plan_type(plan)) }
}

/// The plan of that name; `unknown` for any other.
pub fn plan_type(name: Option<&str>) -> PlanType {
    let read = |name: &str| serde_json::from_value(name.into()).ok();
    name.and_then(read).unwrap_or(PlanType::Unknown)
}

impl From<AccountError> for Error {
    fn from(error: AccountError) -> Self {
        let kind = match &error {
            AccountError::Invalid(_) => ErrorKind::InvalidParams,
            AccountError::NotPermitted(_) => ErrorKind::Denied,
            AccountError::NotLoggedIn
            | AccountError::Ended { .. }
            | AccountError::NotHosted
            | AccountError::NoLoginService
            | AccountError::NoKeyring
            | AccountError::ExternalRejected { .. } => ErrorKind::WrongState,
            _ => ErrorKind::Failed,
        };
        Self::worded_by(kind, error)
    }
}
