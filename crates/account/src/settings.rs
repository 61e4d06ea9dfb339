//! The configuration's settings for logins, and the check of a login against them.

use crate::credentials::{Login, Profile};
use crate::error::Error;

/// The keys of the configuration about logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `cli_auth_credentials_store`.
    pub store: StoreKind,
    /// `forced_login_method`.
    pub forced_method: Option<LoginMethod>,
    /// `forced_hosted_workspace_id`.
    pub forced_workspace: Option<String>,
    /// `hosted_base_url`.
    pub login_service: Option<String>,
    /// `hosted_client_id`.
    pub client_id: String,
}

/// Where credentials are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    File,
    Keyring,
    /// The keyring where there is one, else the file.
    Auto,
}

/// A way to authenticate a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginMethod {
    /// With an account of the hosted service.
    Hosted,
    /// With an API key.
    Api,
}

impl Settings {
    /// Checks that `method` is permitted.
    ///
    /// # Errors
    /// [`Error::NotPermitted`].
    pub fn check_method(&self, method: LoginMethod) -> Result<(), Error> {
        match (self.forced_method, method) {
            (Some(LoginMethod::Hosted), LoginMethod::Api) => Err(Error::NotPermitted(
                "`forced_login_method = \"hosted\"` does not permit API keys; log in with an account \
                 of the hosted service (`agentd login`)"
                    .to_owned(),
            )),
            (Some(LoginMethod::Api), LoginMethod::Hosted) => Err(Error::NotPermitted(
                "`forced_login_method = \"api\"` does not permit hosted logins; log in with an API key \
                 (`agentd login --with-api-key`)"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a hosted login of this workspace is permitted.
    ///
    /// # Errors
    /// [`Error::NotPermitted`].
    pub fn check_workspace(&self, workspace: Option<&str>) -> Result<(), Error> {
        let Some(forced) = &self.forced_workspace else { return Ok(()) };
        let problem = match workspace {
            Some(workspace) if workspace.eq_ignore_ascii_case(forced) => return Ok(()),
            Some(workspace) => format!("the login is for the workspace {}", start_of(workspace)),
            None => "the login names no workspace".to_owned(),
        };
        Err(Error::NotPermitted(format!(
            "`forced_hosted_workspace_id` permits only the workspace {forced}, and {problem}; choose \
             that workspace when you log in"
        )))
    }

    /// Checks that `login` is permitted.
    ///
    /// # Errors
    /// [`Error::NotPermitted`].
    pub(crate) fn check(&self, login: &Login) -> Result<(), Error> {
        match login {
            Login::ApiKey(_) => self.check_method(LoginMethod::Api),
            Login::Hosted(hosted) => self.check_profile(&hosted.profile),
        }
    }

    pub(crate) fn check_profile(&self, profile: &Profile) -> Result<(), Error> {
        self.check_method(LoginMethod::Hosted)?;
        self.check_workspace(profile.account_id.as_deref())
    }
}

/// The beginning of a text from outside, on one line and with hidden characters as their numbers.
pub(crate) fn start_of(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    visible::line(&start).into_owned()
}
