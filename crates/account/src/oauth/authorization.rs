//! The authorization request, with PKCE (RFC 7636), and the exchange of its code.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_client::Secret;
use sha2::{Digest, Sha256};

use super::endpoint::Http;
use super::form;
use super::metadata::Metadata;
use super::tokens::{self, Expected};
use crate::credentials::HostedLogin;
use crate::error::Error;

/// Fills a slice with random bytes.
pub type Random = dyn Fn(&mut [u8]) + Send + Sync;

/// An authorization request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Authorization {
    /// The address for the user's browser.
    pub(crate) url: String,
    pub(crate) state: Secret,
    nonce: String,
    verifier: Secret,
    redirect_uri: String,
    client_id: String,
}

impl Authorization {
    pub(crate) fn new(
        metadata: &Metadata,
        client_id: &str,
        redirect_uri: String,
        random: &Random,
    ) -> Result<Self, Error> {
        let endpoint = metadata.offered(&metadata.authorization, "offers no login in a browser")?;
        let (state, nonce, verifier) = (token(random), token(random), token(random));
        let challenge = challenge(&verifier);
        let scope = metadata.scope();
        let mut members = vec![
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", &redirect_uri),
            ("scope", &scope),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if scope.contains("offline_access") {
            // Required for this scope (OpenID Connect Core 11).
            members.push(("prompt", "consent"));
        }
        let base = endpoint.url();
        let separator = if base.contains('?') { '&' } else { '?' };
        let url = format!("{base}{separator}{}", form::encode(&members));
        Ok(Self {
            url,
            state: Secret::new(state),
            nonce,
            verifier: Secret::new(verifier),
            redirect_uri,
            client_id: client_id.to_owned(),
        })
    }

    /// Exchanges the code of the answer for a login.
    pub(crate) async fn exchange(
        &self,
        http: &Http,
        metadata: &Metadata,
        code: &str,
        now_ms: i64,
    ) -> Result<HostedLogin, Error> {
        let members = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("client_id", &self.client_id),
            ("code_verifier", self.verifier.expose()),
        ];
        let expected = Expected { client_id: &self.client_id, nonce: Some(&self.nonce) };
        tokens::log_in(http, metadata, &members, expected, now_ms).await
    }
}

/// 256 random bits.
fn token(random: &Random) -> String {
    let mut bytes = [0; 32];
    random(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
