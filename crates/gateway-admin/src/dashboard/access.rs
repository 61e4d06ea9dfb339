//! Authentication for the dashboard: Basic with any user name, or the cookie of a session. The
//! secret is the admin token, which grants everything, or an admin key, which grants its
//! organization.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, USER_AGENT};
use hyper::http::request::Parts;
use ratelimit::SteadyTime;
use serde_json::json;

use super::context::Context;
use super::credential::Credential;
use super::form_token::FormKey;
use super::page::{Failure, SIGN_OUT};
use super::session::Session;
use crate::admin::authority::{Authority, is_admin_token};
use crate::{Peer, Services, Surface};
use gateway_policy::dates::seconds;
use gateway_policy::settings::Secret;
use gateway_store::records::admin_keys;
use gateway_store::records::audit::{self, ADMIN_TOKEN, Act, Actor};

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
    /// The key of the reader's forms.
    pub(super) forms: FormKey,
    /// The token of the form that ends the session.
    pub(super) sign_out: String,
    client: Client,
}

impl Access {
    fn new(
        context: &Context,
        parts: &Parts,
        token: &Secret,
        credential: Credential,
        session: Option<Session>,
    ) -> Self {
        let forms = match (&session, &credential) {
            (Some(session), _) => FormKey::new(token, &session.id),
            // Ids of sessions have no colon.
            (None, Credential::Token) => FormKey::new(token, "basic:"),
            (None, Credential::Key { id, .. }) => FormKey::new(token, &format!("basic:{id}")),
        };
        let (clock, random) = (&context.services.clock, &*context.services.random);
        let sign_out = forms.issue(SIGN_OUT, seconds(clock.now()), random);
        Self { credential, session, forms, sign_out, client: Client::of(parts) }
    }

    /// The only visible organization; `None`: all are visible.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.credential {
            Credential::Token => None,
            Credential::Key { organization, .. } => Some(organization),
        }
    }

    /// The authority that the reader has at the administration API.
    pub(super) fn authority(&self) -> Authority {
        let (only, id) = match &self.credential {
            Credential::Token => (None, ADMIN_TOKEN),
            Credential::Key { id, organization } => (Some(organization.clone()), &**id),
        };
        let actor = match self.session {
            Some(_) => Actor::Session(id.into()),
            None => Actor::Key(id.into()),
        };
        Authority::of_reader(only, actor, (self.client.address, self.client.user_agent.clone()))
    }

    /// Refuses admin keys where the API needs the admin token.
    pub(super) fn require_everything(&self) -> Result<(), Failure> {
        self.only().map_or(Ok(()), |_| Err(Failure::Forbidden))
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
            let checked = check(context, &secret, &Client::of(parts)).await?;
            let credential = checked.ok_or(Failure::WrongPassword)?;
            return Ok(Self::new(context, parts, &token, credential, None));
        }
        if let Some(session) = session(context, &parts.headers, &token).await? {
            let credential = session.credential.clone();
            return Ok(Self::new(context, parts, &token, credential, Some(session)));
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
    client: &Client,
) -> Result<Option<Credential>, Failure> {
    let services = &context.services;
    let (now, from) = (services.clock.steady(), client.attempts_from());
    if let Err(seconds) = context.attempts.begin(from, now) {
        services.sign_ins.failed(Surface::Dashboard, TOO_MANY, client.address, now);
        return Err(Failure::TooManyAttempts { seconds });
    }
    if is_admin_token(&services.settings.load(), secret) {
        context.attempts.succeeded(from, now);
        return Ok(Some(Credential::Token));
    }
    let opened = admin_keys::open(&services.database, secret, services.clock.now()).await;
    match &opened {
        Ok(None) => client.failed(services, now).await,
        _ => context.attempts.succeeded(from, now),
    }
    let credential =
        |key: admin_keys::AdminKey| Credential::Key { id: key.id, organization: key.organization };
    Ok(opened?.map(credential))
}

/// The reason of failures without a check of the secret.
const TOO_MANY: &str = "too_many_attempts";
/// The reason of all other failures.
const WRONG: &str = "invalid_credentials";

/// The client of a request, as the audit log shows it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: Option<IpAddr>,
    user_agent: Option<String>,
}

impl Client {
    pub(super) fn of(parts: &Parts) -> Self {
        let user_agent = parts.headers.get(USER_AGENT);
        Self {
            address: parts.extensions.get().map(|Peer(address)| *address),
            user_agent: user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()).into()),
        }
    }

    fn attempts_from(&self) -> IpAddr {
        self.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }

    /// An act of this client.
    fn act(&self, actor: Actor, services: &Services) -> Act {
        let act = Act::new(actor, services.clock.now(), &*services.random);
        act.from(self.address.map(|address| address.to_string()), self.user_agent.as_deref())
    }

    /// Adds the start or the end of a session to the audit log.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn note(
        &self,
        services: &Services,
        kind: &'static str,
        credential: &Credential,
    ) -> Result<(), gateway_store::Error> {
        let (id, organization) = match credential {
            Credential::Token => (ADMIN_TOKEN, ""),
            Credential::Key { id, organization } => (&**id, &**organization),
        };
        let act = self.act(Actor::Session(id.into()), services);
        audit::note(&services.database, act, kind, organization, &json!({})).await
    }

    /// Counts, logs and records that a secret was wrong.
    async fn failed(&self, services: &Services, now: SteadyTime) {
        services.sign_ins.failed(Surface::Dashboard, WRONG, self.address, now);
        if !services.sign_ins.takes_row(now) {
            return;
        }
        let message = "This is not the admin token or a valid admin key.";
        let details = json!({ "error_code": WRONG, "error_message": message });
        let act = self.act(Actor::Unknown, services);
        let noted = audit::note(&services.database, act, "login.failed", "", &details).await;
        if let Err(error) = noted {
            tracing::warn!("a failed sign-in is not in the audit log: {error}");
        }
    }
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
