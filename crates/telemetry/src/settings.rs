//! The signals to export and their destinations, from the configuration and the variables of the
//! OpenTelemetry specification. The configuration wins; a variable gives what it leaves open.

use std::time::Duration;

use http_client::{Secret, TlsFiles};
use percent_encoding::percent_decode_str;

pub use crate::endpoint::{Endpoint, SettingsError};

/// Looks up a variable of the environment.
pub type Variables<'v> = dyn Fn(&str) -> Option<String> + 'v;

/// The time limit of an attempt to send, unless `OTEL_EXPORTER_OTLP_TIMEOUT` names another.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that the variable can ask for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a recorder. Recorders with the same settings are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Attributes of the resource: who sends.
    pub resource: Vec<(String, String)>,
    pub logs: Option<Exporter>,
    pub traces: Option<Exporter>,
    pub metrics: Option<Exporter>,
}

/// Where the messages of a signal go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    pub encoding: Encoding,
    pub endpoint: Endpoint,
    /// Of every request, in addition to those of the protocol.
    pub headers: Vec<(String, Secret)>,
    pub tls: TlsFiles,
    /// Of one attempt.
    pub timeout: Duration,
}

/// The encoding and transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Protobuf over HTTP.
    Protobuf,
    /// JSON over HTTP.
    Json,
    /// Protobuf over gRPC.
    Grpc,
}

/// One of the three kinds of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Logs,
    Traces,
    Metrics,
}

/// The configuration's settings for an exporter.
#[derive(Clone, Debug)]
pub struct ExporterSettings {
    pub signal: Signal,
    pub encoding: Encoding,
    /// Its address: of the collector, to which the signal's path is added, or with a path of its own.
    pub endpoint: Option<String>,
    pub headers: Vec<(String, Secret)>,
    pub tls: TlsFiles,
}

impl Exporter {
    /// Completes what the configuration says.
    ///
    /// # Errors
    /// An address or a header cannot be used; the message names its key or its variable.
    pub fn new(
        configured: ExporterSettings,
        variable: &Variables<'_>,
    ) -> Result<Self, SettingsError> {
        let ExporterSettings { signal, encoding, endpoint, mut headers, tls } = configured;
        let endpoint = Endpoint::new(signal, encoding, endpoint, variable)?;
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let own = format!("OTEL_EXPORTER_OTLP_{}_HEADERS", signal.variable());
        let all = "OTEL_EXPORTER_OTLP_HEADERS";
        for name in [own.as_str(), all] {
            for (header, value) in pairs(&set(name).unwrap_or_default()) {
                if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&header)) {
                    headers.push((header, Secret::new(value)));
                }
            }
        }
        crate::endpoint::check_headers(signal, &headers)?;
        let own = format!("OTEL_EXPORTER_OTLP_{}_TIMEOUT", signal.variable());
        let asked = set(&own).or_else(|| set("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let asked = asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
        let asked = asked.filter(|timeout| !timeout.is_zero());
        let timeout = asked.map_or(TIMEOUT, |timeout| timeout.min(LONGEST_TIMEOUT));
        Ok(Self { encoding, endpoint, headers, tls, timeout })
    }
}

/// The attributes of the resource: the program, its version, the environment of `otel.environment`, and
/// those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`, which are the operator's.
#[must_use]
pub fn resource(
    version: &str,
    environment: &str,
    variable: &Variables<'_>,
) -> Vec<(String, String)> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| {
        attributes.retain(|(known, _)| known != name);
        attributes.push((name.to_owned(), value));
    };
    set("service.name", crate::names::SCOPE.to_owned());
    set("service.version", version.to_owned());
    set("deployment.environment.name", environment.to_owned());
    for (name, value) in pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()) {
        set(&name, value);
    }
    if let Some(name) = variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        set("service.name", name);
    }
    attributes
}

/// `a=b,c=d` with values in percent encoding. A part without a name or `=` is left out, as the specification
/// says.
fn pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split(',').filter_map(|part| part.split_once('='));
    let decode = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    parts
        .map(|(name, value)| (decode(name), decode(value)))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

impl Signal {
    /// Its part of the names of variables.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Logs => "LOGS",
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }

    /// The key of its exporter.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Logs => "otel.exporter",
            Self::Traces => "otel.trace_exporter",
            Self::Metrics => "otel.metrics_exporter",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter(
        endpoint: Option<&str>,
        headers: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Result<Exporter, String> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        let configured = ExporterSettings {
            signal: Signal::Traces,
            encoding: Encoding::Json,
            endpoint: endpoint.map(str::to_owned),
            headers: headers.collect(),
            tls: TlsFiles::default(),
        };
        let find = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        Exporter::new(configured, &find).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_give_what_the_configuration_leaves_open() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, Y-Key = c,broken,=d"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-own=1,x-key=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ];
        let found = exporter(Some("http://c:1"), &[("Y-KEY", "mine")], &variables).unwrap();
        let headers: Vec<_> =
            found.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(headers, [("Y-KEY", "mine"), ("x-own", "1"), ("x-key", "2")]);
        assert_eq!(found.timeout, Duration::from_millis(2500));
        for (text, expected) in [("0", TIMEOUT), ("soon", TIMEOUT), ("99999999", LONGEST_TIMEOUT)] {
            let found = exporter(None, &[], &[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", text)]);
            assert_eq!(found.unwrap().timeout, expected, "{text}");
        }
    }

    #[test]
    fn headers_that_cannot_be_sent_are_refused_without_their_value() {
        for (name, value) in
            [("bad name", "secret1"), ("x", "secret1\nx: y"), ("content-type", "secret1")]
        {
            let message = exporter(None, &[(name, value)], &[]).unwrap_err();
            assert!(message.contains("otel.trace_exporter") && message.contains(name), "{message}");
            assert!(!message.contains("secret1"), "{message}");
        }
    }

    #[test]
    fn the_resource_is_that_of_the_program_and_the_operator() {
        let variables = |name: &str| match name {
            "OTEL_RESOURCE_ATTRIBUTES" => Some("team=a%2Cb,service.version=9".to_owned()),
            "OTEL_SERVICE_NAME" => Some("mine".to_owned()),
            _ => None,
        };
        let found = resource("1.2.3", "prod", &variables);
        let expected = [
            ("deployment.environment.name", "prod"),
            ("team", "a,b"),
            ("service.version", "9"),
            ("service.name", "mine"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
