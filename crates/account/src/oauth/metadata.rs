//! The metadata that a login service publishes about itself.

use hyper::StatusCode;
use serde::Deserialize;

use super::endpoint::{Endpoint, Http};
use crate::error::Error;

/// The endpoints of a login service.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) issuer: String,
    pub(crate) authorization: Option<Endpoint>,
    pub(crate) token: Endpoint,
    pub(crate) device_authorization: Option<Endpoint>,
    pub(crate) userinfo: Option<Endpoint>,
    pub(crate) revocation: Option<Endpoint>,
    scopes: Option<Vec<String>>,
    /// Responses of the authorization endpoint name the issuer (RFC 9207).
    pub(crate) names_issuer: bool,
}

/// The scopes to request, as far as the service offers them.
const SCOPES: [&str; 4] = ["openid", "profile", "email", "offline_access"];

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// An endpoint that not every service has; `problem` is what is missing without it.
    pub(crate) fn offered<'m>(
        &self,
        endpoint: &'m Option<Endpoint>,
        problem: &str,
    ) -> Result<&'m Endpoint, Error> {
        endpoint.as_ref().ok_or_else(|| Error::BadAnswer {
            endpoint: self.issuer.clone(),
            problem: problem.to_owned(),
        })
    }
}

/// Reads the metadata of the service at `issuer` (OpenID Connect Discovery 1.0, else RFC 8414).
pub(crate) async fn discover(http: &Http, issuer: &str) -> Result<Metadata, Error> {
    let issuer = issuer.trim_end_matches('/');
    // Refused before anything is sent.
    Endpoint::parse("`hosted_base_url`", issuer)?;
    let mut last = None;
    for url in addresses(issuer) {
        let answer = http.get(&Endpoint::parse("`hosted_base_url`", &url)?, None).await?;
        match answer.status {
            StatusCode::OK => {
                let document: Document = answer.json()?;
                return metadata(document, issuer, |problem| answer.bad(&problem));
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                last = Some(answer.bad("does not exist: this is not a login service"));
            }
            status if status.is_server_error() => {
                let problem = format!("it answered {}", status.as_u16());
                return Err(Error::Unreachable { endpoint: answer.label, problem });
            }
            status => return Err(answer.bad(&format!("answered {}", status.as_u16()))),
        }
    }
    Err(last.unwrap_or(Error::NoLoginService))
}

/// Where the metadata may be.
fn addresses(issuer: &str) -> Vec<String> {
    let (scheme, rest) = issuer.split_once("://").unwrap_or(("https", issuer));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    vec![
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
    ]
}

fn metadata(
    document: Document,
    issuer: &str,
    bad: impl Fn(String) -> Error,
) -> Result<Metadata, Error> {
    if document.issuer.trim_end_matches('/') != issuer {
        let other = crate::settings::start_of(&document.issuer);
        return Err(bad(format!("describes another service, {other}")));
    }
    let methods = document.code_challenge_methods_supported;
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
        return Err(bad("does not support PKCE with S256, which this program requires".to_owned()));
    }
    let endpoint = |name: &str, url: Option<String>| {
        url.map(|url| Endpoint::parse(name, &url))
            .transpose()
            .map_err(|error| bad(error.to_string()))
    };
    let token = endpoint("token_endpoint", document.token_endpoint)?;
    Ok(Metadata {
        authorization: endpoint("authorization_endpoint", document.authorization_endpoint)?,
        token: token.ok_or_else(|| bad("names no `token_endpoint`".to_owned()))?,
        device_authorization: endpoint(
            "device_authorization_endpoint",
            document.device_authorization_endpoint,
        )?,
        userinfo: endpoint("userinfo_endpoint", document.userinfo_endpoint)?,
        revocation: endpoint("revocation_endpoint", document.revocation_endpoint)?,
        scopes: document.scopes_supported,
        names_issuer: document.authorization_response_iss_parameter_supported,
        issuer: document.issuer,
    })
}

impl Metadata {
    /// The scopes to ask for, separated by spaces.
    pub(crate) fn scope(&self) -> String {
        let is_offered = |scope: &&str| {
            self.scopes.as_ref().is_none_or(|offered| offered.iter().any(|one| one == *scope))
        };
        SCOPES.into_iter().filter(is_offered).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> Result<Metadata, Error> {
        let document = serde_json::from_value(json).unwrap();
        metadata(document, "https://h/p", Error::LoginFailed)
    }

    #[test]
    fn metadata_is_looked_for_where_both_standards_put_it() {
        assert_eq!(
            addresses("https://h/p"),
            [
                "https://h/p/.well-known/openid-configuration",
                "https://h/.well-known/oauth-authorization-server/p"
            ]
        );
    }

    #[test]
    fn metadata_must_be_of_the_service_and_safe() {
        use serde_json::json;
        let token = "https://h/t";
        let good = read(json!({ "issuer": "https://h/p/", "token_endpoint": token })).unwrap();
        assert_eq!(good.scope(), "openid profile email offline_access");
        let scopes = json!(["email", "other", "openid"]);
        let document = json!({ "issuer": "https://h/p", "token_endpoint": token,
            "scopes_supported": scopes });
        assert_eq!(read(document).unwrap().scope(), "openid email");
        let check = |document: serde_json::Value, problem: &str| {
            let message = read(document).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        };
        check(json!({ "issuer": "https://evil", "token_endpoint": token }), "another service");
        check(json!({ "issuer": "https://h/p" }), "token_endpoint");
        check(json!({ "issuer": "https://h/p", "token_endpoint": "http://h/t" }), "https://");
        check(
            json!({ "issuer": "https://h/p", "token_endpoint": token,
                "code_challenge_methods_supported": ["plain"] }),
            "S256",
        );
    }
}
