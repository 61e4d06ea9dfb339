//! Requests to a login service: bounded in size and time, encrypted unless on this machine, and never
//! redirected, so that no credential reaches another host.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use http_client::{HttpClient, HttpVersions, Network, PoolOptions, TlsFiles, error_chain};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Method, Request, StatusCode, Uri};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::form;
use crate::error::Error;
use crate::settings::start_of;

/// Longest time of a request, including its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest answer.
const MAX_BODY: usize = 256 << 10;

/// Header with the workspace of a login.
const ACCOUNT_HEADER: &str = "hosted-account-id";

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(30),
    max_idle_per_host: 1,
    versions: HttpVersions::Any,
};

/// Sends requests to login services. The HTTP client is built at the first one.
#[derive(Debug)]
pub(crate) struct Http {
    network: Network,
    client: OnceCell<HttpClient>,
}

/// An address that credentials may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    uri: Uri,
}

/// An answer of any status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    body: Bytes,
    /// `POST https://host/path`, for messages.
    pub(crate) label: String,
}

impl Endpoint {
    /// Accepts HTTPS, and HTTP on loopback addresses. `name` is what contains the address, for errors.
    pub(crate) fn parse(name: &str, url: &str) -> Result<Self, Error> {
        let refused = |problem: &str| {
            Error::Invalid(format!("{name}: `{}` {problem}", start_of(without_query(url))))
        };
        let uri: Uri = url.parse().map_err(|_| refused("is not a usable URL"))?;
        let host = uri.host().unwrap_or_default();
        let is_loopback = matches!(host, "127.0.0.1" | "[::1]" | "localhost");
        match uri.scheme_str() {
            _ if host.is_empty() => Err(refused("is not a usable URL: it has no host")),
            _ if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
                Err(refused("contains a user name or password; remove it"))
            }
            Some("https") => Ok(Self { uri }),
            Some("http") if is_loopback => Ok(Self { uri }),
            _ => Err(refused("is not encrypted; it must begin with https://")),
        }
    }

    /// The address itself.
    pub(crate) fn url(&self) -> String {
        self.uri.to_string()
    }

    fn label(&self, method: &Method) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        format!("{method} {scheme}://{host}{}", self.uri.path())
    }
}

fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Http {
    pub(crate) fn new(network: Network) -> Self {
        Self { network, client: OnceCell::new() }
    }

    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        bearer: Option<&str>,
    ) -> Result<Answer, Error> {
        let mut request = Request::new(Full::new(Bytes::new()));
        if let Some(bearer) = bearer {
            let value = authorization(bearer, &endpoint.label(&Method::GET))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        self.send(endpoint, request).await
    }

    pub(crate) async fn post_form(
        &self,
        endpoint: &Endpoint,
        members: &[(&str, &str)],
    ) -> Result<Answer, Error> {
        let mut request = Request::new(Full::new(Bytes::from(form::encode(members))));
        *request.method_mut() = Method::POST;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, form);
        self.send(endpoint, request).await
    }

    /// Sends JSON with the credentials of an account.
    pub(crate) async fn post_json(
        &self,
        endpoint: &Endpoint,
        (token, account_id): (&str, Option<&str>),
        body: &serde_json::Value,
    ) -> Result<Answer, Error> {
        let label = endpoint.label(&Method::POST);
        let mut request = Request::new(Full::new(Bytes::from(body.to_string())));
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, authorization(token, &label)?);
        if let Some(id) = account_id {
            let id = HeaderValue::from_str(id);
            headers.insert(ACCOUNT_HEADER, id.map_err(|_| no_header(&label))?);
        }
        self.send(endpoint, request).await
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, Error> {
        let label = endpoint.label(request.method());
        let unreachable = |problem: String| Error::Unreachable { endpoint: label.clone(), problem };
        let client = self.client().await.map_err(&unreachable)?;
        *request.uri_mut() = endpoint.uri.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let exchange = async {
            let response =
                client.request(request).await.map_err(|error| unreachable(error_chain(&error)))?;
            let (head, body) = response.into_parts();
            if head.status.is_redirection() {
                let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok());
                let to = start_of(without_query(to.unwrap_or("an unnamed address")));
                return Err(bad_answer(
                    &label,
                    &format!("redirects to {to}, and credentials are not sent elsewhere"),
                ));
            }
            let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
                match error.is::<http_body_util::LengthLimitError>() {
                    true => bad_answer(&label, "answered with more than 256 KiB"),
                    false => unreachable(format!("the answer broke off: {error}")),
                }
            })?;
            Ok(Answer { status: head.status, body: body.to_bytes(), label: label.clone() })
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(unreachable(format!("no complete answer within {} s", TIMEOUT.as_secs())))
            }
        }
    }
}

impl Http {
    /// The client, which is built at the first request. An error is not kept: the next request tries
    /// again.
    async fn client(&self) -> Result<&HttpClient, String> {
        let build = async || {
            let network = self.network.clone();
            // Certificates are read from files.
            let built = tokio::task::spawn_blocking(move || {
                network.client(&TlsFiles::default(), &POOL).map_err(|error| error.to_string())
            });
            built.await.unwrap_or_else(|_| Err("setting up TLS ended unexpectedly".to_owned()))
        };
        self.client.get_or_try_init(build).await
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let status = self.status.as_u16();
            let problem = match self.body.trim_ascii_start().first() {
                None => format!("answered {status} with an empty body"),
                Some(b'<') => format!("answered {status} with a web page instead of JSON"),
                Some(_) => format!(
                    "answered {status} with JSON of another form (line {}, column {})",
                    error.line(),
                    error.column()
                ),
            };
            bad_answer(&self.label, &problem)
        })
    }

    pub(crate) fn bad(&self, problem: &str) -> Error {
        bad_answer(&self.label, problem)
    }
}

fn authorization(token: &str, label: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| no_header(label))?;
    value.set_sensitive(true);
    Ok(value)
}

fn no_header(label: &str) -> Error {
    bad_answer(label, "needs a token that no header can carry")
}

fn bad_answer(label: &str, problem: &str) -> Error {
    Error::BadAnswer { endpoint: label.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_sent_encrypted_or_within_this_machine() {
        let check = |url: &str, problem: Option<&str>| match (Endpoint::parse("here", url), problem)
        {
            (Ok(_), None) => {}
            (Err(error), Some(problem)) => {
                let message = error.to_string();
                assert!(message.contains(problem) && message.contains("here"), "{message}");
                assert!(!message.contains("secret"), "{message}");
            }
            (outcome, _) => panic!("{url}: {outcome:?}"),
        };
        check("https://login.test", None);
        check("https://login.test:8443/a?b", None);
        check("http://127.0.0.1:1/x", None);
        check("http://localhost/x", None);
        check("http://[::1]:9/x", None);
        check("http://login.test", Some("https://"));
        check("http://127.0.0.1.evil.test", Some("https://"));
        check("ftp://login.test?secret", Some("https://"));
        check("https://user@login.test", Some("user name"));
        check("/path", Some("URL"));
        check("", Some("URL"));
        check("https://", Some("URL"));
    }
}
