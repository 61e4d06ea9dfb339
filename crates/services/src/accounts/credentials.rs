//! The account as the model client takes it: credentials of requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use account::Error as AccountError;
use http_client::{FailureKind, Retry, Secret};
use model::{Authorization, AuthorizationFuture, Credentials, Failure};

use crate::accounts::{AccountConfig, Accounts};

/// Header with the workspace of a hosted login.
const ACCOUNT_HEADER: &str = "hosted-account-id";

/// The account's credentials for requests.
pub(crate) struct AccountCredentials {
    pub accounts: Arc<Accounts>,
    pub config: AccountConfig,
    /// The other sources of credentials, for a user without a login.
    pub(crate) alternatives: Option<String>,
}

impl fmt::Debug for AccountCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountCredentials").finish_non_exhaustive()
    }
}

impl Credentials for AccountCredentials {
    fn authorization(&self, rejected: Option<Secret>) -> AuthorizationFuture<'_> {
        Box::pin(async move {
            let bearer = self.accounts.bearer(&self.config, rejected.as_ref()).await;
            let bearer = bearer.map_err(|error| self.failure(&error))?;
            let account = bearer.account_id.map(|id| (ACCOUNT_HEADER.to_owned(), id));
            Ok(Authorization {
                token: bearer.token,
                headers: account.into_iter().collect::<BTreeMap<_, _>>(),
            })
        })
    }
}

impl AccountCredentials {
    fn failure(&self, error: &AccountError) -> Failure {
        if error.is_transient() {
            let kind = FailureKind::ResponseStreamConnectionFailed;
            return Failure { retry: Retry::Request, ..Failure::new(kind, error.to_string()) };
        }
        let message = match (error, &self.alternatives) {
            (AccountError::NotLoggedIn, Some(alternatives)) => alternatives.clone(),
            _ => error.to_string(),
        };
        Failure::new(FailureKind::Unauthorized, message)
    }
}
