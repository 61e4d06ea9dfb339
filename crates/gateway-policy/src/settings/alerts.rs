//! `[alerts]`: the webhook that receives spend alerts, and the secret that signs them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;

use super::Secret;
use super::error::Fault;
use super::file;
use super::secret_file;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// Bytes of a secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A receiver of alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its URL, whose path may be a secret.
    pub url: Secret,
    /// Its host and port, for the log.
    pub host: Box<str>,
    /// The base64 of the key that signs messages.
    secret: Secret,
}

impl Webhook {
    /// The key that signs messages.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        decode(self.secret.reveal()).unwrap_or_default()
    }

    /// Also returns warnings for the operator.
    pub(super) fn resolve(
        written: &file::Alerts,
        folder: &Path,
    ) -> Result<(Option<Self>, Vec<String>), Fault> {
        let (url, file) = match (&written.webhook_url, &written.secret_file) {
            (None, None) => return Ok((None, Vec::new())),
            (Some(url), Some(file)) => (url, folder.join(file)),
            (Some(_), None) => {
                let message = "needs `secret_file`: messages are always signed";
                return Err(Fault::new(&["alerts", "webhook_url"], message));
            }
            (None, Some(_)) => {
                return Err(Fault::new(&["alerts", "secret_file"], "needs `webhook_url`"));
            }
        };
        let host = host(url).map_err(|message| Fault::new(&["alerts", "webhook_url"], message))?;
        let key = ["alerts", "secret_file"];
        let (secret, warning) = secret_file::text(&file, &key)?;
        if decode(&secret).is_none() {
            let message = format!(
                "{} must contain a secret: {PREFIX} and the base64 of 24 to 64 random bytes",
                file.display()
            );
            return Err(Fault::new(&key, message));
        }
        let mut warnings: Vec<String> = warning.into_iter().collect();
        if url.starts_with("http://") {
            warnings
                .push("[alerts] webhook_url is not https: others may read the alerts".to_owned());
        }
        let url = Secret::new(url.as_str());
        Ok((Some(Self { url, host, secret: Secret::new(secret) }), warnings))
    }
}

fn host(url: &str) -> Result<Box<str>, &'static str> {
    let uri: Option<Uri> = url.parse().ok();
    let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.filter(is_http).and_then(|uri| uri.authority().cloned());
    let authority = authority.ok_or("must look like https://host/path")?;
    match authority.as_str().contains('@') {
        true => Err("must not contain a user or a password: messages are signed"),
        false => Ok(authority.as_str().into()),
    }
}

fn decode(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    LENGTHS.contains(&key.len()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_a_prefix_and_enough_bytes() {
        let check = |secret: &str, length| {
            assert_eq!(decode(secret).map(|key| key.len()), length, "{secret}");
        };
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(24));
        check(&format!("whsec_{}", STANDARD.encode([7; 64])), Some(64));
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!", "whsec_AAAA"] {
            check(wrong, None);
        }
        check(&format!("whsec_{}", STANDARD.encode([7; 65])), None);
    }

    #[test]
    fn urls_have_a_host_and_no_password() {
        for (url, expected) in [
            ("https://a.example/x?y", Some("a.example")),
            ("http://127.0.0.1:80", Some("127.0.0.1:80")),
            ("https://u:p@a.example/", None),
            ("ftp://a.example", None),
            ("a.example", None),
            ("/path", None),
            ("", None),
        ] {
            assert_eq!(host(url).ok().as_deref(), expected, "{url}");
        }
    }
}
