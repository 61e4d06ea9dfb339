//! The flow of a login: finds the authorization server, chooses the client, waits for the browser, and
//! exchanges the code.

use std::time::Duration;

use rmcp::transport::auth::{AuthorizationManager, OAuthClientConfig};
use url::Url;

use crate::auth::callback::Listener;
use crate::auth::http::with_resource;
use crate::auth::store::{Client, CredentialFile};
use crate::auth::{Store, failed, manager};
use crate::definition::{HttpServer, Oauth};
use crate::error::{Error, ErrorKind, quoted};
use crate::http::Http;

/// Longest address of an authorization.
const MAX_URL: usize = 16 << 10;

/// Where the browser returns to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Callback {
    /// 0: a free port.
    pub port: u16,
    /// The address that the authorization server is sent in place of the port's own.
    pub url: Option<String>,
}

/// A login that has begun.
pub struct Login {
    /// The address that the user opens.
    pub url: String,
    state: String,
    manager: AuthorizationManager,
    listener: Listener,
}

/// Begins a login. `challenge`: what the server demanded when it refused a request.
///
/// # Errors
/// The server has no authorization server that can be used, or no port is free.
pub(crate) async fn begin(
    http: &Http,
    server: &HttpServer,
    store: &Store,
    callback: &Callback,
    scopes: Vec<String>,
    challenge: Option<String>,
) -> Result<Login, Error> {
    let listener = Listener::bind(callback.port, callback.url.as_deref()).await?;
    let file = store.file(server);
    // A store that cannot be used shows before the user is asked.
    file.client().await?;
    let mut manager = manager(http, server, file.clone()).await?;
    let resolved = manager.resolve_metadata_from_challenge(challenge.as_deref()).await;
    let resolved = resolved.map_err(|error| failed("no login is possible", &error))?;
    let takes_urls =
        resolved.metadata.additional_fields.get("client_id_metadata_document_supported");
    let takes_urls = takes_urls.and_then(serde_json::Value::as_bool) == Some(true);
    manager.set_metadata(resolved.metadata);
    let scopes = requested_scopes(&manager, server, scopes, challenge.is_some(), &file).await?;
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let config = client(&mut manager, &server.oauth, &listener, &scopes, takes_urls).await?;
    file.set_client(Client {
        id: config.client_id.clone(),
        secret: config.client_secret.clone(),
        redirect_uri: config.redirect_uri.clone(),
    });
    let refused = |error| failed("no login is possible", &error);
    manager.configure_client(config).map_err(refused)?;
    let url = manager.get_authorization_url(&scopes).await.map_err(refused)?;
    let (url, state) = checked(&url, server.oauth.resource.as_deref())?;
    Ok(Login { url, state, manager, listener })
}

impl Login {
    /// Waits for the browser, and stores the tokens.
    ///
    /// # Errors
    /// The login was refused, its answer is of another authorization server, or the browser did not return in time.
    pub async fn finish(self, timeout: Duration) -> Result<(), Error> {
        let redirect = tokio::time::timeout(timeout, self.listener.redirect(&self.state)).await;
        let redirect = redirect.map_err(|_| {
            let seconds = timeout.as_secs();
            Error::new(
                ErrorKind::TimedOut,
                format!("the login was not completed within {seconds} s"),
            )
        })?;
        let code = redirect.outcome.map_err(|reason| {
            let message = format!("the login was refused: {}", quoted(&reason));
            Error::new(ErrorKind::Refused, message)
        })?;
        let issuer = redirect.issuer.as_deref();
        let exchange =
            self.manager.exchange_code_for_token_with_issuer(&code, &redirect.state, issuer);
        exchange.await.map(drop).map_err(|error| failed("the login did not succeed", &error))
    }
}

/// Those that the caller or the configuration names, else those that the server asks for. What was granted
/// before stays granted when the server asks for more.
async fn requested_scopes(
    manager: &AuthorizationManager,
    server: &HttpServer,
    asked: Vec<String>,
    is_challenged: bool,
    file: &CredentialFile,
) -> Result<Vec<String>, Error> {
    if !asked.is_empty() {
        return Ok(asked);
    }
    if !server.oauth.scopes.is_empty() {
        return Ok(server.oauth.scopes.clone());
    }
    let mut scopes = manager.select_initial_scopes(&[]).await;
    if is_challenged && file.client().await?.is_some() {
        for scope in file.granted_scopes().await? {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
    }
    Ok(scopes)
}

/// A registered client, else a metadata document, else a registration now.
async fn client(
    manager: &mut AuthorizationManager,
    oauth: &Oauth,
    listener: &Listener,
    scopes: &[&str],
    takes_urls: bool,
) -> Result<OAuthClientConfig, Error> {
    let redirect = listener.redirect_uri();
    if let Some(id) = &oauth.client_id {
        let config = OAuthClientConfig::new(id, redirect);
        return Ok(match &oauth.client_secret {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        });
    }
    if let Some(url) = oauth.client_metadata_url.as_ref().filter(|_| takes_urls) {
        return Ok(OAuthClientConfig::new(url, redirect));
    }
    let registered = manager.register_client("agentd", redirect, scopes).await;
    registered.map_err(|error| {
        failed(
            "the program cannot register itself at the authorization server; register a client there \
             and set `oauth.client_id`",
            &error,
        )
    })
}

/// An address that the user may be shown, with its state.
fn checked(url: &str, resource: Option<&str>) -> Result<(String, String), Error> {
    let refused = |problem: &str| {
        let message = format!("the authorization endpoint `{}` {problem}", quoted(url));
        Error::new(ErrorKind::Protocol, message)
    };
    let mut parsed = Url::parse(url).map_err(|_| refused("is not an address"))?;
    let is_loopback = matches!(parsed.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    if parsed.scheme() != "https" && !(parsed.scheme() == "http" && is_loopback) {
        return Err(refused("is not encrypted; no login is begun there"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(refused(
            "has a user name or a password, which can make it look like another host; no login is begun there",
        ));
    }
    if url.len() > MAX_URL {
        return Err(refused("is too long"));
    }
    if let Some(resource) = resource {
        let query = with_resource(parsed.query().unwrap_or_default().as_bytes(), resource);
        parsed.set_query(Some(&query));
    }
    let state = parsed.query_pairs().find(|(name, _)| name == "state");
    let state =
        state.map(|(_, value)| value.into_owned()).ok_or_else(|| refused("has no state"))?;
    Ok((parsed.to_string(), state))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_authorization_endpoint_must_be_an_encrypted_page() {
        let check = |url: &str, expect: Result<&str, &str>| match (checked(url, None), expect) {
            (Ok((found, state)), Ok(expect)) => assert_eq!((&*found, &*state), (expect, "s")),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{url}: {:?}", found.map_err(|error| error.to_string())),
        };
        check("https://a/b?state=s", Ok("https://a/b?state=s"));
        check("http://localhost:1/?state=s", Ok("http://localhost:1/?state=s"));
        check("http://a/?state=s", Err("not encrypted"));
        check("file:///bin/sh?state=s", Err("not encrypted"));
        check("https://a/`touch x`;?state=s", Ok("https://a/%60touch%20x%60;?state=s"));
        check("https://a/", Err("no state"));
        check("https://login.example@evil.example/?state=s", Err("a user name or a password"));
        check("https://:secret@a/?state=s", Err("a user name or a password"));
        let replaced = checked("https://a/?state=s&resource=x", Some("https://r")).unwrap().0;
        assert_eq!(replaced, "https://a/?state=s&resource=https%3A%2F%2Fr");
    }
}
