//! The exporters that a configuration describes.

use config::table::{
    Exporter, ExporterChoice, ExporterName, ExporterSettings, MetricsExporterName, OtlpProtocol,
    OtlpTransport,
};
use http_client::{Secret, TlsFiles};
use telemetry::{Encoding, Settings, Signal, Variables};

use super::Configured;

/// Settings with at least one exporter, and why others cannot be used.
pub(super) struct Exporters {
    pub(super) settings: Option<Settings>,
    pub(super) problems: Vec<String>,
}

/// The configured exporters of a signal.
enum Wanted<'c> {
    Nothing,
    Otlp(OtlpTransport, Option<&'c ExporterSettings>),
    /// Metrics for the hosted service, at this address.
    Hosted(Option<&'c str>),
}

/// Returns whether anything must be exported.
pub(super) fn are_wanted(configured: &Configured) -> bool {
    let [logs, traces, metrics] = all(configured);
    [logs, traces, metrics].iter().any(|(_, wanted)| !matches!(wanted, Wanted::Nothing))
}

/// Reads them, with the variables of the OpenTelemetry specification.
pub(super) fn read(configured: &Configured, version: &str, variable: &Variables<'_>) -> Exporters {
    let mut problems = Vec::new();
    let [logs, traces, metrics] =
        all(configured).map(|(signal, wanted)| match exporter(signal, &wanted, variable) {
            Ok(exporter) => exporter,
            Err(problem) => {
                problems.push(problem);
                None
            }
        });
    let resource = telemetry::resource(version, &configured.otel.environment, variable);
    let is_used = [&logs, &traces, &metrics].iter().any(|exporter| exporter.is_some());
    Exporters {
        settings: is_used.then_some(Settings { resource, logs, traces, metrics }),
        problems,
    }
}

fn all<'c>(configured: &'c Configured) -> [(Signal, Wanted<'c>); 3] {
    let otel = &configured.otel;
    let of = |choice: &'c Exporter| match choice {
        ExporterChoice::Named(ExporterName::None) => Wanted::Nothing,
        ExporterChoice::Named(ExporterName::OtlpHttp) => Wanted::Otlp(OtlpTransport::Http, None),
        ExporterChoice::Named(ExporterName::OtlpGrpc) => Wanted::Otlp(OtlpTransport::Grpc, None),
        ExporterChoice::Configured(transport, settings) => {
            Wanted::Otlp(*transport, Some(&**settings))
        }
    };
    let metrics = match &otel.metrics_exporter {
        ExporterChoice::Named(MetricsExporterName::Hosted) if configured.has_analytics => {
            Wanted::Hosted(configured.hosted_base_url.as_deref())
        }
        ExporterChoice::Named(MetricsExporterName::None | MetricsExporterName::Hosted) => {
            Wanted::Nothing
        }
        ExporterChoice::Named(MetricsExporterName::OtlpHttp) => {
            Wanted::Otlp(OtlpTransport::Http, None)
        }
        ExporterChoice::Named(MetricsExporterName::OtlpGrpc) => {
            Wanted::Otlp(OtlpTransport::Grpc, None)
        }
        ExporterChoice::Configured(transport, settings) => {
            Wanted::Otlp(*transport, Some(&**settings))
        }
    };
    [
        (Signal::Logs, of(&otel.exporter)),
        (Signal::Traces, of(&otel.trace_exporter)),
        (Signal::Metrics, metrics),
    ]
}

fn exporter(
    signal: Signal,
    wanted: &Wanted<'_>,
    variable: &Variables<'_>,
) -> Result<Option<telemetry::Exporter>, String> {
    let (encoding, settings) = match wanted {
        Wanted::Nothing => return Ok(None),
        Wanted::Hosted(None) => {
            return Err("`analytics.enabled` and `otel.metrics_exporter = \"hosted\"` need \
                        `hosted_base_url`; set it, or name another exporter"
                .to_owned());
        }
        Wanted::Hosted(Some(base)) => {
            let endpoint = format!("{}/v1/metrics", base.trim_end_matches('/'));
            return hosted(endpoint).map(Some);
        }
        Wanted::Otlp(OtlpTransport::Grpc, settings) => (Encoding::Grpc, *settings),
        Wanted::Otlp(OtlpTransport::Http, settings) => {
            match settings.and_then(|settings| settings.protocol) {
                Some(OtlpProtocol::Json) => (Encoding::Json, *settings),
                Some(OtlpProtocol::Binary) | None => (Encoding::Protobuf, *settings),
            }
        }
    };
    let headers = settings.map(|settings| {
        let pairs = settings.headers.iter();
        pairs.map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect()
    });
    let tls = settings.and_then(|settings| settings.tls.as_ref());
    let configured = telemetry::ExporterSettings {
        signal,
        encoding,
        endpoint: settings.and_then(|settings| settings.endpoint.as_deref()).map(str::to_owned),
        headers: headers.unwrap_or_default(),
        tls: tls.map_or_else(TlsFiles::default, |tls| TlsFiles {
            ca_certificate: tls.ca_certificate.clone(),
            client_certificate: tls.client_certificate.clone(),
            client_private_key: tls.client_private_key.clone(),
        }),
    };
    telemetry::Exporter::new(configured, variable).map(Some).map_err(|error| error.to_string())
}

/// The exporter of the hosted service, to which no variable for other collectors applies.
fn hosted(endpoint: String) -> Result<telemetry::Exporter, String> {
    let configured = telemetry::ExporterSettings {
        signal: Signal::Metrics,
        encoding: Encoding::Protobuf,
        endpoint: Some(endpoint),
        headers: Vec::new(),
        tls: TlsFiles::default(),
    };
    telemetry::Exporter::new(configured, &|_| None).map_err(|error| error.to_string())
}
