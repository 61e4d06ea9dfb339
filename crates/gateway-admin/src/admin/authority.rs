//! Authorization: the configured bearer token grants everything, an admin key its organization. A
//! project's key grants nothing here.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::Services;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Settings;
use gateway_policy::tenants::Organization;
use gateway_store::records::{DEFAULT_ORGANIZATION, admin_keys, organizations};

/// The authority that the request's credential grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// Everything: the configured token.
    Everything,
    /// One organization: an admin key.
    Organization(Box<str>),
}

impl Authority {
    /// Refuses all credentials but the configured token.
    pub(super) fn require_everything(&self) -> Result<(), ApiError> {
        match self {
            Self::Everything => Ok(()),
            Self::Organization(_) => Err(insufficient()),
        }
    }

    /// Refuses admin keys of other organizations.
    pub(super) fn require_organization(&self, organization: &str) -> Result<(), ApiError> {
        match self {
            Self::Organization(id) if **id != *organization => Err(insufficient()),
            _ => Ok(()),
        }
    }
}

impl FromRequestParts<Arc<Services>> for Authority {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Services>,
    ) -> Result<Self, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer).ok_or_else(|| {
            refuse("You didn't provide an admin key. Send it as: Authorization: Bearer ADMIN_KEY.")
        })?;
        if is_admin_token(&context.settings.load(), token) {
            return Ok(Self::Everything);
        }
        let key = admin_keys::open(&context.database, token, context.clock.now()).await?;
        key.map(|key| Self::Organization(key.organization)).ok_or_else(|| {
            refuse("Incorrect admin key provided. A project's API key is not valid for the administration API.")
        })
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
        let named = match parts.headers.get("openai-organization").map(|value| value.to_str()) {
            None => None,
            Some(Ok(named)) => Some(named),
            Some(Err(_)) => return Err(missing("?")),
        };
        let id = match (&authority, named) {
            (Authority::Organization(id), Some(named)) if **id != *named => {
                let message = "OpenAI-Organization does not name the organization that the \
                               admin key belongs to.";
                return Err(ApiError::unauthorized("mismatched_organization", message));
            }
            (Authority::Organization(id), _) => id,
            (Authority::Everything, named) => named.unwrap_or(DEFAULT_ORGANIZATION),
        };
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
    settings.admin_token.as_ref().is_some_and(|known| is_same(known.reveal(), presented))
}

/// Compares digests, so that the duration reveals nothing about the token, not even its length.
fn is_same(known: &str, presented: &str) -> bool {
    !known.is_empty() && Sha256::digest(known).ct_eq(&Sha256::digest(presented)).into()
}

fn refuse(message: &'static str) -> ApiError {
    ApiError::unauthorized("invalid_api_key", message)
}

fn insufficient() -> ApiError {
    let message = "An admin key administers its own organization only; this needs the gateway's \
                   admin token.";
    ApiError::new(StatusCode::FORBIDDEN, "insufficient_permissions", message)
}
