//! Authorization: the configured bearer token grants everything, an admin key its organization. A
//! project's key grants nothing here.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use hyper::header::{AUTHORIZATION, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Peer, Services, Surface};
use gateway_policy::error::ApiError;
use gateway_policy::settings::{Secret, Settings};
use gateway_policy::tenants::Organization;
use gateway_store::records::audit::{ADMIN_TOKEN, Act, Actor};
use gateway_store::records::conditions::Conditions;
use gateway_store::records::{DEFAULT_ORGANIZATION, admin_keys, organizations};

/// The authority that the request's credential grants, and where the request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The only organization, with an admin key; `None`: everything, with the configured token.
    only: Option<Box<str>>,
    actor: Actor,
    address: Option<IpAddr>,
    user_agent: Option<String>,
}

impl Authority {
    /// The authority of a signed-in reader of the dashboard, who acts by requests inside of this
    /// program: it stands among their extensions instead of a credential in their headers.
    pub(crate) fn of_reader(
        only: Option<Box<str>>,
        actor: Actor,
        (address, user_agent): (Option<IpAddr>, Option<String>),
    ) -> Self {
        Self { only, actor, address, user_agent }
    }

    /// Refuses all credentials but the configured token.
    pub(super) fn require_everything(&self) -> Result<(), ApiError> {
        match &self.only {
            None => Ok(()),
            Some(_) => Err(self.insufficient("the gateway as a whole")),
        }
    }

    /// Refuses admin keys of other organizations.
    pub(super) fn require_organization(&self, organization: &str) -> Result<(), ApiError> {
        match &self.only {
            Some(id) if **id != *organization => Err(self.insufficient(organization)),
            _ => Ok(()),
        }
    }

    /// Returns whether it grants everything.
    pub(super) fn is_everything(&self) -> bool {
        self.only.is_none()
    }

    /// The id of the organization that a request with these headers is about.
    pub(super) fn organization<'a>(&'a self, headers: &'a HeaderMap) -> Result<&'a str, ApiError> {
        let named = match headers.get("openai-organization").map(|value| value.to_str()) {
            None => None,
            Some(Ok(named)) => Some(named),
            Some(Err(_)) => return Err(missing("?")),
        };
        match (self.only.as_deref(), named) {
            (Some(id), Some(named)) if *id != *named => {
                self.log_refusal(named);
                let message = "OpenAI-Organization does not name the organization that the \
                               admin key belongs to.";
                Err(ApiError::unauthorized("mismatched_organization", message))
            }
            (Some(id), _) => Ok(id),
            (None, named) => Ok(named.unwrap_or(DEFAULT_ORGANIZATION)),
        }
    }

    /// A refused act changes nothing: it is in the log, and not in the audit log.
    fn insufficient(&self, wanted: &str) -> ApiError {
        self.log_refusal(wanted);
        let message = "An admin key administers its own organization only; this needs the gateway's \
                       admin token.";
        ApiError::new(StatusCode::FORBIDDEN, "insufficient_permissions", message)
    }

    fn log_refusal(&self, wanted: &str) {
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        let wanted: String = wanted.chars().take(128).collect();
        let actor = self.actor.id();
        tracing::warn!(
            actor,
            address,
            wanted,
            "an admin key was refused: it administers another organization"
        );
    }

    async fn check(parts: &Parts, context: &Services) -> Result<Self, ApiError> {
        let address = parts.extensions.get().map(|Peer(address)| *address);
        let now = context.clock.now();
        let refuse = |code: &'static str, message: &'static str| {
            context.sign_ins.failed(Surface::Administration, code, address, context.clock.steady());
            ApiError::unauthorized("invalid_api_key", message)
        };
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer).ok_or_else(|| {
            refuse(
                "missing_api_key",
                "You didn't provide an admin key. Send it as: Authorization: Bearer ADMIN_KEY.",
            )
        })?;
        let user_agent = parts.headers.get(USER_AGENT);
        let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
        if is_admin_token(&context.settings.load(), token) {
            let actor = Actor::Key(ADMIN_TOKEN.into());
            return Ok(Self { only: None, actor, address, user_agent });
        }
        let key = admin_keys::open(&context.database, token, now).await?;
        let key = key.ok_or_else(|| {
            refuse("invalid_api_key", "Incorrect admin key provided. A project's API key is not valid for the administration API.")
        })?;
        Ok(Self { only: Some(key.organization), actor: Actor::Key(key.id), address, user_agent })
    }
}

impl FromRequestParts<Arc<Services>> for Authority {
    type Rejection = ApiError;

    /// Checks the credential once per request.
    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Services>,
    ) -> Result<Self, ApiError> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let authority = Self::check(parts, context).await?;
        parts.extensions.insert(authority.clone());
        Ok(authority)
    }
}

/// The act of a request that changes something. Its conditions are an extension of a request of the
/// dashboard.
pub(super) struct By(pub(super) Act);

impl FromRequestParts<Arc<Services>> for By {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Services>,
    ) -> Result<Self, ApiError> {
        let authority = Authority::from_request_parts(parts, context).await?;
        let Authority { actor, address, user_agent, .. } = authority;
        let act = Act::new(actor, context.clock.now(), &*context.random);
        let address = address.map(|address| address.to_string());
        let act = act.from(address, user_agent.as_deref());
        let conditions = parts.extensions.get::<Conditions>().cloned().unwrap_or_default();
        Ok(Self(act.provided(conditions)))
    }
}

/// The organization that a request under `/v1/organization/` is about.
pub(super) struct Subject(pub(super) Organization);

impl FromRequestParts<Arc<Services>> for Subject {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Services>,
    ) -> Result<Self, ApiError> {
        let authority = Authority::from_request_parts(parts, context).await?;
        let id = authority.organization(&parts.headers)?;
        let found = organizations::get(&context.database, id).await?;
        found.map(Subject).ok_or_else(|| missing(id))
    }
}

/// 404 for an unknown organization.
pub(super) fn missing(id: &str) -> ApiError {
    ApiError::not_found("organization_not_found", format!("There is no organization `{id}`."))
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns whether `presented` is the configured token.
pub(crate) fn is_admin_token(settings: &Settings, presented: &str) -> bool {
    settings.admin_token.as_ref().is_some_and(|known| is_secret(known, presented))
}

/// Returns whether a client presented a secret. Compares digests, so that the duration reveals
/// nothing about the secret, not even its length.
#[must_use]
pub fn is_secret(known: &Secret, presented: &str) -> bool {
    let known = known.reveal();
    !known.is_empty() && Sha256::digest(known).ct_eq(&Sha256::digest(presented)).into()
}
