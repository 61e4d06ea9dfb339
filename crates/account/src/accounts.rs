//! The account of a home: who is logged in, and the token that requests carry.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_client::{Network, Secret};

use crate::credentials::{HostedLogin, Login, Profile, Stored};
use crate::error::Error;
use crate::lock::Locked;
use crate::logins::{BrowserLogin, DeviceLogin};
use crate::oauth::authorization::{Authorization, Random};
use crate::oauth::callback::CallbackListener;
use crate::oauth::device::DeviceAuthorization;
use crate::oauth::endpoint::Http;
use crate::oauth::metadata::{Metadata, discover};
use crate::oauth::tokens::{self, is_token};
use crate::settings::{LoginMethod, Settings};
use crate::vault::Vault;

/// Longest API key or token that a caller provides.
const MAX_TOKEN: usize = 64 << 10;
/// Maximum wait for the login service during a logout.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The time in milliseconds since the Unix epoch.
pub type Clock = dyn Fn() -> i64 + Send + Sync;

/// The parts of the environment that an [`Accounts`] uses.
#[derive(Clone)]
pub struct Options {
    /// The agent's home.
    pub home: PathBuf,
    /// The time in milliseconds since the Unix epoch.
    pub now_ms: Arc<Clock>,
    /// Fills a slice with bytes that no one can predict.
    pub random: Arc<Random>,
    /// Trusted roots and proxies.
    pub network: Network,
}

/// The account of a home. Cheap to clone: all clones are the same. Other processes may change it at
/// any time.
#[derive(Clone)]
pub struct Accounts {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    http: Http,
    vault: Vault,
    /// Tokens that a client provided. They are in memory only.
    external: Mutex<Option<ExternalTokens>>,
}

/// Tokens that a client provides and refreshes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalTokens {
    pub access_token: Secret,
    pub account_id: String,
    pub plan: Option<String>,
}

/// Who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    ApiKey,
    Hosted(Profile),
    /// With tokens that a client provided.
    External(Profile),
    LoggedOut {
        /// Why the last login was ended, if this program ended it.
        reason: Option<String>,
    },
}

/// The credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    pub token: Secret,
    /// The workspace that the request is made for.
    pub account_id: Option<String>,
}

/// The result of reading the stored login.
enum Usable {
    Bearer(Bearer),
    /// The tokens must be refreshed.
    Stale(HostedLogin),
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("home", &self.inner.options.home).finish_non_exhaustive()
    }
}

impl Accounts {
    #[must_use]
    pub fn new(options: Options) -> Self {
        let vault = Vault::new(options.home.clone());
        let http = Http::new(options.network.clone());
        let inner = Inner { options, http, vault, external: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Who is logged in. Sends nothing. A login that the settings no longer permit is ended.
    ///
    /// # Errors
    /// The stored login cannot be read.
    pub async fn status(&self, settings: &Settings) -> Result<Status, Error> {
        if let Some(external) = self.external(settings) {
            let ExternalTokens { account_id, plan, .. } = external;
            let profile = Profile { account_id: Some(account_id), plan, ..Profile::default() };
            return Ok(Status::External(profile));
        }
        Ok(match self.permitted(settings).await {
            Ok(Login::ApiKey(_)) => Status::ApiKey,
            Ok(Login::Hosted(login)) => Status::Hosted(login.profile),
            Err(Error::NotLoggedIn) => Status::LoggedOut { reason: None },
            Err(Error::Ended { reason }) => Status::LoggedOut { reason: Some(reason) },
            Err(error) => return Err(error),
        })
    }

    /// The credentials of the next request: refreshed if they expire soon, or if they are `rejected`, the
    /// ones that the provider has just refused.
    ///
    /// # Errors
    /// There is no login, or its tokens cannot be refreshed. [`Error::ExternalRejected`] if the client
    /// that provided the tokens must refresh them.
    pub async fn bearer(
        &self,
        settings: &Settings,
        rejected: Option<&Secret>,
    ) -> Result<Bearer, Error> {
        if let Some(external) = self.external(settings) {
            let ExternalTokens { access_token: token, account_id, .. } = external;
            return match rejected {
                Some(rejected) if *rejected == token => Err(Error::ExternalRejected { account_id }),
                _ => Ok(Bearer { token, account_id: Some(account_id) }),
            };
        }
        let login = self.permitted(settings).await?;
        match usable(login, self.now_ms(), rejected) {
            Usable::Bearer(bearer) => Ok(bearer),
            Usable::Stale(_) => {
                // In a task of its own: a caller that stops waiting must not lose the new tokens.
                let (accounts, settings) = (self.clone(), settings.clone());
                let rejected = rejected.cloned();
                let task =
                    tokio::spawn(
                        async move { accounts.refresh(&settings, rejected.as_ref()).await },
                    );
                task.await.unwrap_or(Err(Error::Panicked))
            }
        }
    }

    /// Refreshes the tokens of a hosted login, even if they are fresh. Any other login is only read.
    ///
    /// # Errors
    /// As [`Accounts::bearer`].
    pub async fn renew(&self, settings: &Settings) -> Result<Bearer, Error> {
        let bearer = self.bearer(settings, None).await?;
        let is_hosted = matches!(self.status(settings).await?, Status::Hosted(_));
        if is_hosted { self.bearer(settings, Some(&bearer.token)).await } else { Ok(bearer) }
    }

    /// Stores an API key.
    ///
    /// # Errors
    /// The key is invalid, not permitted, or cannot be stored.
    pub async fn login_with_api_key(&self, settings: &Settings, key: &str) -> Result<(), Error> {
        settings.check_method(LoginMethod::Api)?;
        let key = checked_token("the API key", key)?;
        self.store(settings, Login::ApiKey(key)).await
    }

    /// Uses tokens that a client provides, until it logs out or this process ends.
    ///
    /// # Errors
    /// The tokens are invalid or not permitted.
    pub fn use_external(&self, settings: &Settings, tokens: ExternalTokens) -> Result<(), Error> {
        settings.check_method(LoginMethod::Hosted)?;
        checked_token("`accessToken`", tokens.access_token.expose())?;
        checked_token("`hostedAccountId`", &tokens.account_id)?;
        settings.check_workspace(Some(&tokens.account_id))?;
        *self.lock_external() = Some(tokens);
        Ok(())
    }

    /// Begins a login in a browser on this machine. `closes_page`: the browser's last page tries to close
    /// itself.
    ///
    /// # Errors
    /// Hosted logins are not permitted, or the login service cannot be used.
    pub async fn begin_browser_login(
        &self,
        settings: &Settings,
        closes_page: bool,
    ) -> Result<BrowserLogin, Error> {
        let metadata = self.login_service(settings).await?;
        let listener = CallbackListener::bind().await?;
        let (client_id, redirect_uri) = (&settings.client_id, listener.redirect_uri());
        let random = &*self.inner.options.random;
        let authorization = Authorization::new(&metadata, client_id, redirect_uri, random)?;
        let (accounts, settings) = (self.clone(), settings.clone());
        Ok(BrowserLogin { accounts, settings, metadata, listener, authorization, closes_page })
    }

    /// Begins a login with a code that the user enters on any device.
    ///
    /// # Errors
    /// As [`Accounts::begin_browser_login`].
    pub async fn begin_device_login(&self, settings: &Settings) -> Result<DeviceLogin, Error> {
        let metadata = self.login_service(settings).await?;
        let client_id = &settings.client_id;
        let authorization =
            DeviceAuthorization::begin(&self.inner.http, &metadata, client_id).await?;
        let (accounts, settings) = (self.clone(), settings.clone());
        Ok(DeviceLogin { accounts, settings, metadata, authorization })
    }

    /// Deletes the credentials, and then asks the login service to revoke them. Returns whether there
    /// were any.
    ///
    /// # Errors
    /// They cannot be deleted. A service that does not revoke them is only logged.
    pub async fn logout(&self, settings: &Settings) -> Result<bool, Error> {
        let had_external = self.lock_external().take().is_some();
        let (accounts, owned) = (self.clone(), settings.clone());
        let changed = tokio::spawn(async move {
            let vault = &accounts.inner.vault;
            let locked = vault.wait_for_lock(&owned).await.locked().await?;
            // A damaged file is deleted too.
            let stored = vault.read(&owned).await.unwrap_or_default();
            Ok((stored, vault.delete(&owned, &locked).await?))
        });
        let (stored, deleted) = changed.await.unwrap_or(Err(Error::Panicked))?;
        if let Some(Stored::Login(Login::Hosted(login))) = stored {
            self.revoke(&login).await;
        }
        Ok(had_external || deleted)
    }

    /// Waits until no change of the stored login is in progress in this process.
    pub async fn settled(&self) {
        self.inner.vault.settled().await;
    }

    /// The file with the credentials, unless the keyring has them.
    #[must_use]
    pub fn file(&self, settings: &Settings) -> PathBuf {
        self.inner.vault.file(settings)
    }

    pub(crate) fn http(&self) -> &Http {
        &self.inner.http
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.inner.options.now_ms)()
    }

    /// Stores a login in place of any other.
    pub(crate) async fn store(&self, settings: &Settings, login: Login) -> Result<(), Error> {
        let (accounts, owned) = (self.clone(), settings.clone());
        let stored = tokio::spawn(async move {
            let vault = &accounts.inner.vault;
            let locked = vault.wait_for_lock(&owned).await.locked().await?;
            vault.write(&owned, Stored::Login(login), None, &locked).await
        });
        stored.await.unwrap_or(Err(Error::Panicked))?;
        *self.lock_external() = None;
        Ok(())
    }

    async fn login_service(&self, settings: &Settings) -> Result<Metadata, Error> {
        settings.check_method(LoginMethod::Hosted)?;
        let Some(issuer) = &settings.login_service else { return Err(Error::NoLoginService) };
        discover(&self.inner.http, issuer).await
    }

    /// The tokens that a client provided, unless the settings no longer permit them.
    fn external(&self, settings: &Settings) -> Option<ExternalTokens> {
        let mut external = self.lock_external();
        let tokens = external.as_ref()?;
        let permitted = settings
            .check_method(LoginMethod::Hosted)
            .and_then(|()| settings.check_workspace(Some(&tokens.account_id)));
        if let Err(error) = permitted {
            tracing::warn!(target: "account", "the tokens of the client were dropped: {error}");
            *external = None;
        }
        external.clone()
    }

    fn lock_external(&self) -> std::sync::MutexGuard<'_, Option<ExternalTokens>> {
        self.inner.external.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored login. One that the settings no longer permit is ended.
    async fn permitted(&self, settings: &Settings) -> Result<Login, Error> {
        let login = self.inner.vault.login(settings).await?;
        let Err(problem) = settings.check(&login) else { return Ok(login) };
        let (accounts, owned) = (self.clone(), settings.clone());
        let ended = tokio::spawn(async move {
            let vault = &accounts.inner.vault;
            let locked = vault.wait_for_lock(&owned).await.locked().await?;
            // Another process may have stored one that is permitted.
            match vault.login(&owned).await {
                Ok(stored) if stored == login => {
                    Err(vault.end(&owned, problem.to_string(), &locked).await)
                }
                other => other,
            }
        });
        let login = ended.await.unwrap_or(Err(Error::Panicked))?;
        settings.check(&login).map(|()| login)
    }

    /// Refreshes the login, unless another task or process has done so. The lock is held from before the
    /// last read until the new tokens are stored, so no refresh token is sent twice.
    async fn refresh(
        &self,
        settings: &Settings,
        rejected: Option<&Secret>,
    ) -> Result<Bearer, Error> {
        let mut wait = self.inner.vault.wait_for_lock(settings).await;
        let locked = loop {
            if let Usable::Bearer(bearer) = self.read_usable(settings, rejected).await? {
                return Ok(bearer);
            }
            if let Some(locked) = wait.attempt().await? {
                break locked;
            }
        };
        let login = match self.read_usable(settings, rejected).await? {
            Usable::Bearer(bearer) => return Ok(bearer),
            Usable::Stale(login) => login,
        };
        let outcome = self.request_refresh(settings, &login, &locked).await;
        let is_usable = rejected != Some(&login.access_token) && login.is_valid(self.now_ms());
        match outcome {
            Err(error) if error.is_transient() && is_usable => {
                tracing::warn!(target: "account", "the login was not refreshed yet: {error}");
                Ok(bearer_of(&login))
            }
            outcome => outcome,
        }
    }

    async fn read_usable(
        &self,
        settings: &Settings,
        rejected: Option<&Secret>,
    ) -> Result<Usable, Error> {
        let login = self.inner.vault.login(settings).await?;
        settings.check(&login)?;
        Ok(usable(login, self.now_ms(), rejected))
    }

    /// Sends the refresh request and stores its outcome. Called with the lock.
    async fn request_refresh(
        &self,
        settings: &Settings,
        login: &HostedLogin,
        locked: &Locked,
    ) -> Result<Bearer, Error> {
        let vault = &self.inner.vault;
        let Some(refresh_token) = &login.refresh_token else {
            let reason = "the login has expired, and the login service issued no refresh token";
            return Err(vault.end(settings, reason.to_owned(), locked).await);
        };
        let metadata = discover(&self.inner.http, &login.issuer).await?;
        // Before the refresh token is used: a failure to store the new one would end the login.
        let room = vault.reserve(settings, locked).await?;
        let members = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
            ("client_id", &login.client_id),
        ];
        let sent_at = self.now_ms();
        let tokens = match tokens::request(&self.inner.http, &metadata.token, &members).await {
            Ok(tokens) => tokens,
            Err(Error::Refused { code, description, .. }) if is_final(&code) => {
                drop(room);
                let detail = description.map(|text| format!(": {text}")).unwrap_or_default();
                let reason =
                    format!("the login service no longer accepts the login ({code}{detail})");
                return Err(vault.end(settings, reason, locked).await);
            }
            Err(error) => return Err(error),
        };
        // The old refresh token is used up, whatever the new tokens are.
        let renewed = tokens.renew(login, sent_at).and_then(|renewed| {
            settings.check_profile(&renewed.profile)?;
            Ok(renewed)
        });
        let renewed = match renewed {
            Ok(renewed) => renewed,
            Err(error) => {
                drop(room);
                let reason = format!("the login was refreshed and cannot be used: {error}");
                return Err(vault.end(settings, reason, locked).await);
            }
        };
        let bearer = bearer_of(&renewed);
        let stored = Stored::Login(Login::Hosted(renewed));
        vault.write(settings, stored, room, locked).await?;
        Ok(bearer)
    }

    async fn revoke(&self, login: &HostedLogin) {
        let revocation = async {
            let metadata = discover(&self.inner.http, &login.issuer).await?;
            let Some(endpoint) = &metadata.revocation else { return Ok(()) };
            let token = login.refresh_token.as_ref().unwrap_or(&login.access_token);
            let members = [("token", token.expose()), ("client_id", &login.client_id)];
            let answer = self.inner.http.post_form(endpoint, &members).await?;
            match answer.status.is_success() {
                true => Ok(()),
                false => Err(answer.bad(&format!("answered {}", answer.status.as_u16()))),
            }
        };
        let outcome = tokio::time::timeout(REVOCATION_TIMEOUT, revocation).await;
        let problem = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(target: "account", "the login was deleted here but not revoked: {problem}");
    }
}

/// Errors after which a refresh token is worth nothing (RFC 6749, 5.2).
fn is_final(code: &str) -> bool {
    matches!(code, "invalid_grant" | "invalid_client" | "unauthorized_client")
}

fn usable(login: Login, now_ms: i64, rejected: Option<&Secret>) -> Usable {
    match login {
        Login::ApiKey(token) => Usable::Bearer(Bearer { token, account_id: None }),
        Login::Hosted(login) if login.is_fresh(now_ms) && rejected != Some(&login.access_token) => {
            Usable::Bearer(bearer_of(&login))
        }
        Login::Hosted(login) => Usable::Stale(login),
    }
}

fn bearer_of(login: &HostedLogin) -> Bearer {
    Bearer { token: login.access_token.clone(), account_id: login.profile.account_id.clone() }
}

/// A token that a header can carry, without surrounding white space.
fn checked_token(name: &str, token: &str) -> Result<Secret, Error> {
    let token = token.trim();
    let problem = if token.is_empty() {
        "is empty"
    } else if token.len() > MAX_TOKEN {
        "is longer than 64 KiB"
    } else if !is_token(token) {
        "contains characters that no header can carry"
    } else {
        return Ok(Secret::new(token));
    };
    Err(Error::Invalid(format!("{name} {problem}")))
}
