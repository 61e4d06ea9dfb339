//! Addresses of collectors, and headers for them.

use http_client::Secret;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

use crate::settings::{Encoding, Signal, Variables};

/// Headers that belong to the protocol.
const OWN_HEADERS: &[&str] =
    &["content-type", "content-length", "transfer-encoding", "connection", "host", "te"];

/// Why an exporter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error(
        "{source_name} is not the address of a collector: {problem}; write it as `http://host:4318`"
    )]
    Endpoint { source_name: String, problem: String },
    #[error("the header `{name}` of {key} cannot be sent; correct its name or value")]
    Header { key: &'static str, name: String },
}

/// The address to which messages of a signal are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

impl Endpoint {
    /// The configured address, else that of the variables, else the standard one on this machine.
    pub(crate) fn new(
        signal: Signal,
        encoding: Encoding,
        configured: Option<String>,
        variable: &Variables<'_>,
    ) -> Result<Self, SettingsError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable());
        let all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let standard = match encoding {
            Encoding::Grpc => "http://localhost:4317",
            Encoding::Protobuf | Encoding::Json => "http://localhost:4318",
        };
        // Only the variable for all signals is a base whatever its path.
        let (text, is_base, source_name) = if let Some(text) = configured {
            (text, false, format!("the endpoint of {}", signal.key()))
        } else if let Some(text) = set(&own) {
            (text, false, own)
        } else if let Some(text) = set(all) {
            (text, true, all.to_owned())
        } else {
            (standard.to_owned(), true, "the standard endpoint".to_owned())
        };
        let refused = |problem: &str| SettingsError::Endpoint {
            source_name: source_name.clone(),
            problem: problem.to_owned(),
        };
        let uri: Uri = text.trim().parse().map_err(|_| refused("it cannot be parsed"))?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"));
        let scheme = scheme.ok_or_else(|| refused("it does not begin with http:// or https://"))?;
        let authority = uri.authority().ok_or_else(|| refused("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it contains a user name; use a header instead"));
        }
        let path = uri.path();
        let is_base = is_base || path == "/";
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = match encoding {
            Encoding::Grpc => signal.service().to_owned(),
            _ if is_base => format!("{}/v1/{}{query}", path.trim_end_matches('/'), signal.name()),
            _ => format!("{path}{query}"),
        };
        let whole = format!("{scheme}://{authority}{path}");
        whole.parse().map(Self).map_err(|_| refused("it cannot be parsed"))
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// For messages: without the query, which may hold a key.
    pub(crate) fn label(&self) -> String {
        let (scheme, authority) = (self.0.scheme_str(), self.0.authority());
        let authority = authority.map_or("", |authority| authority.as_str());
        format!("{}://{authority}{}", scheme.unwrap_or_default(), self.0.path())
    }
}

impl Signal {
    /// The path of its gRPC method.
    fn service(self) -> &'static str {
        match self {
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

/// Checks that the headers can be sent. No error has a value.
pub(crate) fn check_headers(
    signal: Signal,
    headers: &[(String, Secret)],
) -> Result<(), SettingsError> {
    let bad = headers.iter().find(|(name, value)| {
        let is_own = OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
        is_own || header(name, value).is_none()
    });
    match bad {
        Some((name, _)) => Err(SettingsError::Header { key: signal.key(), name: name.clone() }),
        None => Ok(()),
    }
}

/// A header that is not logged.
pub(crate) fn header(name: &str, value: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        encoding: Encoding,
        configured: Option<&str>,
        variables: &[(&str, &str)],
        expected: Result<&str, &str>,
    ) {
        let find = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        let found = Endpoint::new(Signal::Logs, encoding, configured.map(str::to_owned), &find);
        match (found, expected) {
            (Ok(found), Ok(uri)) => assert_eq!(found.uri().to_string(), uri),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            (found, _) => panic!("{configured:?}: {found:?}"),
        }
    }

    #[test]
    fn addresses_follow_the_specification() {
        let (http, grpc) = (Encoding::Protobuf, Encoding::Grpc);
        let service = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
        check(http, None, &[], Ok("http://localhost:4318/v1/logs"));
        check(grpc, None, &[], Ok(&format!("http://localhost:4317{service}")));
        check(http, Some("https://c"), &[], Ok("https://c/v1/logs"));
        check(http, Some("https://c/"), &[], Ok("https://c/v1/logs"));
        check(http, Some("https://c/own/path?key=1"), &[], Ok("https://c/own/path?key=1"));
        check(grpc, Some("https://c:4317/ignored"), &[], Ok(&format!("https://c:4317{service}")));
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:1/base/");
        check(http, None, &[all], Ok("http://all:1/base/v1/logs"));
        let own = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://own:2/x");
        check(http, None, &[all, own], Ok("http://own:2/x"));
        check(http, Some("http://c:3"), &[all, own], Ok("http://c:3/v1/logs"));
        check(
            http,
            None,
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            Ok("http://localhost:4318/v1/logs"),
        );
    }

    #[test]
    fn addresses_that_cannot_be_used_are_named() {
        let http = Encoding::Json;
        for bad in ["", "localhost:4318", "ftp://c", "http://", "http://a b", "/v1/logs"] {
            check(http, Some(bad), &[], Err("the endpoint of otel.exporter"));
        }
        check(http, Some("http://user:secret@c"), &[], Err("user name"));
        check(
            http,
            None,
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")],
            Err("OTEL_EXPORTER_OTLP_ENDPOINT"),
        );
    }
}
