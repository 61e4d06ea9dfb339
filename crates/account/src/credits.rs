//! Requests to the owner of a workspace for more credits. The address and the members are this program's
//! own: no standard describes them.

use hyper::StatusCode;
use serde_json::json;

use crate::accounts::{Accounts, Bearer, Status};
use crate::error::Error;
use crate::oauth::endpoint::{Answer, Endpoint};
use crate::settings::Settings;

/// Below the address of the login service.
const PATH: &str = "/accounts/send_add_credits_nudge_email";

/// The resource that a workspace has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditKind {
    Credits,
    UsageLimit,
}

/// The outcome of a request for credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditsRequest {
    /// The owner gets an email.
    Sent,
    /// One was sent a short time ago.
    TooSoon,
}

impl Accounts {
    /// Asks the login service to send the owner of the workspace an email. Tokens that the service
    /// refuses are refreshed once.
    ///
    /// # Errors
    /// No hosted account is logged in, or the service does not send it.
    pub async fn request_credits(
        &self,
        settings: &Settings,
        kind: CreditKind,
    ) -> Result<CreditsRequest, Error> {
        if !matches!(self.status(settings).await?, Status::Hosted(_) | Status::External(_)) {
            return Err(Error::NotHosted);
        }
        let Some(service) = &settings.login_service else { return Err(Error::NoLoginService) };
        let url = format!("{}{PATH}", service.trim_end_matches('/'));
        let endpoint = Endpoint::parse("`hosted_base_url`", &url)?;
        let kind = match kind {
            CreditKind::Credits => "credits",
            CreditKind::UsageLimit => "usage_limit",
        };
        let body = json!({ "credit_type": kind });
        let mut bearer = self.bearer(settings, None).await?;
        let mut answer = self.http().post_json(&endpoint, credentials(&bearer), &body).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            bearer = self.bearer(settings, Some(&bearer.token)).await?;
            answer = self.http().post_json(&endpoint, credentials(&bearer), &body).await?;
        }
        outcome(&answer)
    }
}

fn credentials(bearer: &Bearer) -> (&str, Option<&str>) {
    (bearer.token.expose(), bearer.account_id.as_deref())
}

fn outcome(answer: &Answer) -> Result<CreditsRequest, Error> {
    match answer.status {
        status if status.is_success() => Ok(CreditsRequest::Sent),
        StatusCode::TOO_MANY_REQUESTS => Ok(CreditsRequest::TooSoon),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            Err(answer.bad("does not exist: this service sends no emails to owners of workspaces"))
        }
        status => Err(answer.bad(&format!("answered {}", status.as_u16()))),
    }
}
