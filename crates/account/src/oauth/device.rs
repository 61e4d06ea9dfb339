//! Device authorization (RFC 8628): the user enters a code in a browser on any device.

use std::time::Duration;

use http_client::Secret;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::endpoint::{Endpoint, Http};
use super::metadata::Metadata;
use super::tokens::{self, Expected};
use crate::credentials::HostedLogin;
use crate::error::Error;
use crate::settings::start_of;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Pause between requests when the service names none (RFC 8628, 3.2).
const INTERVAL: Duration = Duration::from_secs(5);
/// The amount that `slow_down` adds to the interval (RFC 8628, 3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// Bounds of pauses, whatever the service names.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Longest time for the user, whatever the service names.
const MAX_LIFE: Duration = Duration::from_secs(30 * 60);

/// A device authorization that waits for the user.
#[derive(Debug)]
pub(crate) struct DeviceAuthorization {
    pub(crate) verification_url: String,
    pub(crate) user_code: String,
    device_code: Secret,
    interval: Duration,
    life: Duration,
    expires: Instant,
    client_id: String,
}

#[derive(Deserialize)]
struct Document {
    device_code: String,
    user_code: String,
    verification_uri: String,
    expires_in: u64,
    interval: Option<u64>,
}

impl DeviceAuthorization {
    pub(crate) async fn begin(
        http: &Http,
        metadata: &Metadata,
        client_id: &str,
    ) -> Result<Self, Error> {
        let missing = "offers no login with a device code; log in with a browser";
        let endpoint = metadata.offered(&metadata.device_authorization, missing)?;
        let scope = metadata.scope();
        let members = [("client_id", client_id), ("scope", &scope)];
        let asked = Instant::now();
        let answer = http.post_form(endpoint, &members).await?;
        if !answer.status.is_success() {
            return Err(tokens::refusal(&answer, &members));
        }
        let document: Document = answer.json()?;
        let verification = Endpoint::parse("`verification_uri`", &document.verification_uri)
            .map_err(|error| answer.bad(&error.to_string()))?;
        let life = Duration::from_secs(document.expires_in).min(MAX_LIFE);
        let interval = document.interval.map_or(INTERVAL, Duration::from_secs);
        Ok(Self {
            verification_url: verification.url(),
            user_code: start_of(&document.user_code),
            device_code: Secret::new(document.device_code),
            interval: interval.clamp(INTERVALS.0, INTERVALS.1),
            life,
            expires: asked + life,
            client_id: client_id.to_owned(),
        })
    }

    /// Waits until the user has decided.
    pub(crate) async fn finish(
        self,
        http: &Http,
        metadata: &Metadata,
        now_ms: impl Fn() -> i64,
    ) -> Result<HostedLogin, Error> {
        let mut interval = self.interval;
        let members = [
            ("grant_type", GRANT),
            ("device_code", self.device_code.expose()),
            ("client_id", &self.client_id),
        ];
        let expected = Expected { client_id: &self.client_id, nonce: None };
        let polling = async {
            loop {
                sleep(interval).await;
                let sent_at = now_ms();
                let granted = tokens::log_in(http, metadata, &members, expected, sent_at).await;
                let error = match granted {
                    Ok(login) => return Ok(login),
                    Err(error) => error,
                };
                match &error {
                    Error::Refused { code, .. } if code == "authorization_pending" => {}
                    Error::Refused { code, .. } if code == "slow_down" => interval += SLOWER,
                    Error::Refused { code, .. } if code == "expired_token" => {
                        return Err(Error::LoginTimedOut(self.life));
                    }
                    Error::Refused { code, .. } if code == "access_denied" => {
                        return Err(Error::LoginFailed("it was denied in the browser".to_owned()));
                    }
                    // A network that does not answer is asked less often (RFC 8628, 3.5).
                    Error::Unreachable { .. } => interval = (interval * 2).min(INTERVALS.1),
                    _ => return Err(error),
                }
            }
        };
        timeout_at(self.expires, polling).await.unwrap_or(Err(Error::LoginTimedOut(self.life)))
    }
}
