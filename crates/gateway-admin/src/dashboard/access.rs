//! Authentication for the dashboard: Basic with any user name, or the cookie of a session. The
//! secret is the admin token, which grants everything, or an admin key, which grants its
//! organization.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE};
use hyper::http::request::Parts;

use super::context::Context;
use super::credential::Credential;
use super::page::Failure;
use super::session::Session;
use crate::Peer;
use crate::admin::authority::is_admin_token;
use gateway_policy::dates::seconds;
use gateway_policy::settings::Secret;
use gateway_store::records::admin_keys;

/// The cookie of a session.
pub(super) const COOKIE_NAME: &str = "gateway_dashboard";
/// Most cookies of that name that are checked: other sites of the same domain may set some.
const MAX_COOKIES: usize = 4;

/// An authenticated reader.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) credential: Credential,
    /// `None` with Basic authentication.
    pub(super) session: Option<Session>,
}

impl Access {
    /// The only visible organization; `None`: all are visible.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.credential {
            Credential::Token => None,
            Credential::Key { organization, .. } => Some(organization),
        }
    }

    /// Refuses organizations that the credential does not grant, with the same response as for
    /// unknown ones.
    pub(super) fn check_organization(&self, organization: &str) -> Result<(), Failure> {
        match self.only() {
            Some(only) if only != organization => Err(Failure::no_organization(organization)),
            _ => Ok(()),
        }
    }
}

impl FromRequestParts<Arc<Context>> for Access {
    type Rejection = Failure;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Context>,
    ) -> Result<Self, Failure> {
        let token = configured(context)?;
        if let Some(secret) = basic(&parts.headers) {
            let checked = check(context, &secret, address(parts)).await?;
            let credential = checked.ok_or(Failure::WrongPassword)?;
            return Ok(Self { credential, session: None });
        }
        if let Some(session) = session(context, &parts.headers, &token).await? {
            return Ok(Self { credential: session.credential.clone(), session: Some(session) });
        }
        let path = parts.uri.path_and_query().map_or("/dashboard", |path| path.as_str());
        Err(Failure::SignedOut { next: path.to_owned() })
    }
}

/// The admin token.
///
/// # Errors
/// No token is configured: the dashboard is closed.
pub(super) fn configured(context: &Context) -> Result<Secret, Failure> {
    context.services.settings.load().admin_token.clone().ok_or(Failure::Closed)
}

/// Returns the credential that a secret grants. Failures count against the client's address.
///
/// # Errors
/// There were too many failures, or the store is unreachable.
pub(super) async fn check(
    context: &Context,
    secret: &str,
    from: IpAddr,
) -> Result<Option<Credential>, Failure> {
    let services = &context.services;
    let now = services.clock.now();
    context.attempts.begin(from, now).map_err(|seconds| Failure::TooManyAttempts { seconds })?;
    if is_admin_token(&services.settings.load(), secret) {
        context.attempts.succeeded(from, now);
        return Ok(Some(Credential::Token));
    }
    let opened = admin_keys::open(&services.database, secret, now).await;
    if !matches!(opened, Ok(None)) {
        context.attempts.succeeded(from, now);
    }
    let credential =
        |key: admin_keys::AdminKey| Credential::Key { id: key.id, organization: key.organization };
    Ok(opened?.map(credential))
}

/// The client's address.
pub(super) fn address(parts: &Parts) -> IpAddr {
    parts.extensions.get().map_or(Ipv4Addr::UNSPECIFIED.into(), |Peer(address)| *address)
}

/// The session of a request's cookie. A session that was started with an admin key ends with the
/// key.
pub(super) async fn session(
    context: &Context,
    headers: &HeaderMap,
    token: &Secret,
) -> Result<Option<Session>, Failure> {
    let now = context.services.clock.now();
    let values = cookies(headers).take(MAX_COOKIES);
    let mut found = values.filter_map(|value| Session::open(value, token, seconds(now)));
    let Some(session) = found.find(|session| !context.signed_out.holds(session)) else {
        return Ok(None);
    };
    if let Credential::Key { id, organization } = &session.credential {
        let key = admin_keys::get(&context.services.database, organization, id).await?;
        let lasts = key.is_some_and(|key| key.expires_at.is_none_or(|at| at > now));
        return Ok(lasts.then_some(session));
    }
    Ok(Some(session))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| name.trim() == COOKIE_NAME).map(|(_, value)| value.trim())
}

/// The password of `Authorization: Basic …`.
fn basic(headers: &HeaderMap) -> Option<String> {
    let (scheme, text) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    // An unreadable password is a wrong one, not a missing one.
    let decoded = STANDARD.decode(text.trim()).unwrap_or_default();
    let decoded = String::from_utf8(decoded).unwrap_or_default();
    Some(decoded.split_once(':').map(|(_, password)| password.to_owned()).unwrap_or_default())
}
