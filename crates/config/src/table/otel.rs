//! Keys about telemetry: what is exported, and where to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use crate::error::Error;
use crate::key_path::join;
use crate::kind::scope::USER;
use crate::kind::{Effect, Kind, ReadContext, Setting, Url};
use crate::options::{choices, options};
use crate::value::{Node, Value};

/// Variables whose headers can hold credentials of collectors.
pub(crate) const SECRET_VARIABLES: [&str; 4] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

choices! {
    /// The exporter of logs or traces.
    ExporterName { None = "none", OtlpHttp = "otlp-http", OtlpGrpc = "otlp-grpc" }
}
choices! {
    /// The exporter of metrics.
    MetricsExporterName { None = "none", Hosted = "hosted", OtlpHttp = "otlp-http", OtlpGrpc = "otlp-grpc" }
}
choices! {
    /// Encoding of OTLP over HTTP.
    OtlpProtocol { Binary = "binary", Json = "json" }
}
choices! {
    /// An exporter with settings.
    OtlpTransport { Http = "otlp-http", Grpc = "otlp-grpc" }
}

options! {
    /// `otel`.
    pub struct Otel {
        /// Tag of the environment that sends events: `deployment.environment.name`.
        environment: String = "dev".to_owned(), USER, Effect::Active;
        /// Exporter of log events; its settings are below its name.
        exporter: Exporter = Exporter::Named(ExporterName::None), USER, Effect::Active;
        /// Exporter of traces; its settings are below its name.
        trace_exporter: Exporter = Exporter::Named(ExporterName::None), USER, Effect::Active;
        /// Exporter of metrics; its settings are below its name. `hosted` sends nothing unless
        /// `analytics.enabled` is true.
        metrics_exporter: MetricsExporter = MetricsExporter::Named(MetricsExporterName::Hosted), USER, Effect::Active;
        /// Log events include the user's prompts, without secrets.
        log_user_prompt: bool = false, USER, Effect::Active;
    }
}

/// The value of `otel.exporter` and `otel.trace_exporter`.
pub type Exporter = ExporterChoice<ExporterName>;
/// The value of `otel.metrics_exporter`.
pub type MetricsExporter = ExporterChoice<MetricsExporterName>;

/// An exporter by its name, or with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum ExporterChoice<N> {
    /// An exporter without settings.
    Named(N),
    /// An exporter with settings.
    Configured(OtlpTransport, Box<ExporterSettings>),
}

type ByName = BTreeMap<String, ExporterSettings>;

impl<N: Setting> Setting for ExporterChoice<N> {
    const KIND: Kind = Kind::Either(&[N::KIND, <ByName as Setting>::KIND]);

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        let Value::Table(_) = &node.value else { return N::read(node, cx).map(Self::Named) };
        let refused = |key: String, message: String| Error::refused(&node.origin, key, message);
        let mut settings = BTreeMap::read(node, cx)?.into_iter();
        let Some((name, one)) = settings.next() else {
            // A table without an exporter sends nothing.
            let none = Value::Text(ExporterName::None.as_str().to_owned());
            return N::read(&Node { value: none, origin: node.origin.clone() }, cx)
                .map(Self::Named);
        };
        if let Some((other, _)) = settings.next() {
            let message =
                format!("only one exporter can be used, not `{name}` and `{other}`; remove one");
            return Err(refused(join(&["otel", "…", &other]), message));
        }
        match OtlpTransport::parse(&name) {
            Some(transport) => Ok(Self::Configured(transport, Box::new(one))),
            None => {
                let message =
                    format!("no exporter is called `{name}`; use `otlp-http` or `otlp-grpc`");
                Err(refused(join(&["otel", "…", &name]), message))
            }
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Named(name) => name.show(),
            Self::Configured(transport, settings) => {
                let mut all = serde_json::Map::new();
                all.insert(transport.as_str().to_owned(), settings.show()?);
                Some(Json::Object(all))
            }
        }
    }
}

options! {
    /// `otel.exporter.<id>`.
    #[part("<id>")]
    pub struct ExporterSettings {
        /// Address of the collector: the path `/v1/logs`, `/v1/traces` or `/v1/metrics` is added to one without
        /// a path. When unset, that of `OTEL_EXPORTER_OTLP_ENDPOINT`, or else the standard port on this
        /// machine.
        endpoint: Option<Url>, USER, Effect::Active;
        /// Headers of every request, in addition to those of `OTEL_EXPORTER_OTLP_HEADERS`.
        headers: BTreeMap<String, String>, USER, Effect::Active;
        /// Encoding of the payload over HTTP; `binary` by default.
        protocol: Option<OtlpProtocol>, USER, Effect::Active;
        /// TLS certificates.
        tls: Option<ExporterTls>, USER, Effect::Group;
    }
}
options! {
    /// `otel.exporter.<id>.tls`.
    pub struct ExporterTls {
        /// Certificate of the authority that signed the collector's certificate.
        ca_certificate as "ca-certificate": Option<PathBuf>, USER, Effect::Active;
        /// Client certificate.
        client_certificate as "client-certificate": Option<PathBuf>, USER, Effect::Active;
        /// Private key of the client certificate.
        client_private_key as "client-private-key": Option<PathBuf>, USER, Effect::Active;
    }
}
