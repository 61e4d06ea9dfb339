//! Logins at servers by OAuth 2.1: the flow in the browser, the stored credentials, and requests with
//! them. Tokens are refreshed by one process at a time.

mod callback;
mod http;
mod login;
mod place;
mod store;
mod tokens;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::transport::auth::{AuthClient, AuthError, AuthorizationManager, OAuthClientConfig};

use crate::definition::HttpServer;
use crate::error::{Error, ErrorKind, chain};
use crate::http::Http;
use crate::port::Keyring;
use http::OauthHttp;
use store::CredentialFile;
pub(crate) use store::Store;

pub(crate) use login::begin;
pub use login::{Callback, Login};

/// Deletes the login at an endpoint from a folder of logins or the keyring; returns whether there was one.
///
/// # Errors
/// It cannot be deleted.
pub async fn log_out(
    folder: PathBuf,
    keyring: Arc<dyn Keyring>,
    endpoint: &HttpServer,
) -> Result<bool, Error> {
    Store::new(folder, keyring).log_out(endpoint).await
}

/// A manager of the tokens of a server, with what is stored.
async fn manager(
    http: &Http,
    server: &HttpServer,
    file: CredentialFile,
) -> Result<AuthorizationManager, Error> {
    let client = OauthHttp::new(http.clone(), &server.url, server.oauth.resource.clone());
    let manager =
        AuthorizationManager::new_with_oauth_http_client(server.url.as_str(), Arc::new(client));
    let mut manager = manager.await.map_err(|error| failed("cannot log in", &error))?;
    manager.set_credential_store(file);
    Ok(manager)
}

/// The client of a server with a login; `None` without one.
pub(crate) async fn authorized(
    http: &Http,
    server: &HttpServer,
    store: &Store,
) -> Result<Option<AuthClient<Http>>, Error> {
    let file = store.file(server);
    let Some(client) = file.client().await? else { return Ok(None) };
    let mut manager = manager(http, server, file).await?;
    let restored = manager.initialize_from_store().await;
    if !restored.map_err(|error| failed("the login cannot be used", &error))? {
        return Ok(None);
    }
    if let Some(secret) = client.secret {
        let config = OAuthClientConfig::new(client.id, client.redirect_uri);
        let configured = manager.configure_client(config.with_client_secret(secret));
        configured.map_err(|error| failed("the login cannot be used", &error))?;
    }
    Ok(Some(AuthClient::new(http.clone(), manager)))
}

fn failed(what: &str, error: &AuthError) -> Error {
    let kind = match error {
        AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => {
            ErrorKind::Unauthorized
        }
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{what}: {}", chain(error)))
}
