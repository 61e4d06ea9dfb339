//! Hosted logins in progress. Dropping one cancels it.

use std::time::Duration;

use crate::accounts::Accounts;
use crate::credentials::{HostedLogin, Login};
use crate::error::Error;
use crate::oauth::authorization::Authorization;
use crate::oauth::callback::{CallbackListener, ExpectedRedirect, Page};
use crate::oauth::device::DeviceAuthorization;
use crate::oauth::metadata::Metadata;
use crate::settings::Settings;

/// Maximum time for the user to finish a browser login.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A login in a browser on this machine.
#[derive(Debug)]
pub struct BrowserLogin {
    pub(crate) accounts: Accounts,
    pub(crate) settings: Settings,
    pub(crate) metadata: Metadata,
    pub(crate) listener: CallbackListener,
    pub(crate) authorization: Authorization,
    /// The last page tries to close itself.
    pub(crate) closes_page: bool,
}

/// A login with a code that the user enters on any device.
#[derive(Debug)]
pub struct DeviceLogin {
    pub(crate) accounts: Accounts,
    pub(crate) settings: Settings,
    pub(crate) metadata: Metadata,
    pub(crate) authorization: DeviceAuthorization,
}

impl BrowserLogin {
    /// The address for the user's browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.authorization.url
    }

    /// Waits for the user, for 10 minutes at most, and stores the login.
    ///
    /// # Errors
    /// The login failed, is not permitted, or cannot be stored.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_with(|| ()).await
    }

    /// [`Self::finish`] that calls `stores` right before the login is stored.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub async fn finish_with(self, stores: impl FnOnce() + Send) -> Result<(), Error> {
        let Self { accounts, settings, metadata, listener, authorization, closes_page } = self;
        let expected = ExpectedRedirect {
            state: authorization.state.clone(),
            issuer: metadata.issuer.clone(),
            names_issuer: metadata.names_issuer,
        };
        let redirect = tokio::time::timeout(BROWSER_TIMEOUT, listener.redirect(expected)).await;
        let Ok(redirect) = redirect else { return Err(Error::LoginTimedOut(BROWSER_TIMEOUT)) };
        let (redirect, pages) = redirect?;
        let outcome = match &redirect.outcome {
            Err(reason) => Err(Error::LoginFailed(reason.clone())),
            Ok(code) => {
                let http = accounts.http();
                let now = accounts.now_ms();
                match authorization.exchange(http, &metadata, code.expose(), now).await {
                    Ok(login) => complete(&accounts, &settings, login, stores).await,
                    Err(error) => Err(error),
                }
            }
        };
        redirect.show(match &outcome {
            Ok(()) => Page::Complete { closes: closes_page },
            Err(error) => Page::Failed { reason: error.to_string() },
        });
        pages.finish().await;
        outcome
    }
}

impl DeviceLogin {
    /// Where the user enters the code.
    #[must_use]
    pub fn verification_url(&self) -> &str {
        &self.authorization.verification_url
    }

    /// The code.
    #[must_use]
    pub fn user_code(&self) -> &str {
        &self.authorization.user_code
    }

    /// Waits for the user, until the code expires, and stores the login.
    ///
    /// # Errors
    /// The login failed, is not permitted, or cannot be stored.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_with(|| ()).await
    }

    /// [`Self::finish`] that calls `stores` right before the login is stored.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub async fn finish_with(self, stores: impl FnOnce() + Send) -> Result<(), Error> {
        let Self { accounts, settings, metadata, authorization } = self;
        let clock = accounts.clone();
        let login =
            authorization.finish(accounts.http(), &metadata, move || clock.now_ms()).await?;
        complete(&accounts, &settings, login, stores).await
    }
}

/// Stores a login, if it is permitted.
async fn complete(
    accounts: &Accounts,
    settings: &Settings,
    login: HostedLogin,
    stores: impl FnOnce() + Send,
) -> Result<(), Error> {
    settings.check_profile(&login.profile)?;
    stores();
    accounts.store(settings, Login::Hosted(login)).await
}
