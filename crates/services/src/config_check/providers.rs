//! Model providers and collectors of telemetry: headers, variables, TLS files; and the network of this
//! process.

use std::path::PathBuf;

use config::table::{ExporterChoice, ExporterSettings};
use http_client::{Network, TlsFiles};

use super::{Check, Severity};

/// Largest file with a private key.
const MAX_KEY_BYTES: u64 = 1 << 20;

impl Check<'_> {
    pub(super) fn providers(&mut self) {
        let config = &self.resolved.config;
        let options = self.options;
        let network = Network::from_variables(|name| options.variable(name));
        for error in network.mistakes() {
            self.findings.error(config::Error::Environment { message: error.to_string() });
        }
        for (id, provider) in &config.model_providers {
            let severity = Severity::of_part(*id == config.model_provider);
            let key = |member| ["model_providers", id.as_str(), member];
            self.headers(severity, &key("http_headers"), &provider.http_headers);
            let unset = (Severity::Warning, "the header is not sent");
            let headers = &provider.env_http_headers;
            self.headers_from_variables(severity, unset, &key("env_http_headers"), headers);
            let missing = config.providers.get(id).and_then(|provider| provider.ready().err());
            if let Some(missing) = missing.filter(|_| severity == Severity::Error) {
                // An account that is logged in may replace it.
                let key = config::dotted_key(&key("env_key"));
                self.add(Severity::Warning, &key, missing.to_string());
            }
            let tls = &provider.tls;
            let files = [&tls.ca_certificate, &tls.client_certificate, &tls.client_private_key];
            self.tls(severity, &config::dotted_key(&key("tls")), files);
        }
    }

    pub(super) fn telemetry(&mut self) {
        let otel = &self.resolved.config.otel;
        let metrics = match &otel.metrics_exporter {
            ExporterChoice::Configured(transport, settings) => Some((*transport, settings)),
            ExporterChoice::Named(_) => None,
        };
        let of = |choice: &'_ config::table::Exporter| match choice {
            ExporterChoice::Configured(transport, settings) => Some((*transport, settings.clone())),
            ExporterChoice::Named(_) => None,
        };
        for (key, exporter) in [
            ("exporter", of(&otel.exporter)),
            ("trace_exporter", of(&otel.trace_exporter)),
            (
                "metrics_exporter",
                metrics.map(|(transport, settings)| (transport, settings.clone())),
            ),
        ] {
            let Some((transport, settings)) = exporter else { continue };
            self.exporter(&["otel", key, transport.as_str()], &settings);
        }
    }

    /// Without a collector, the program works all the same.
    fn exporter(&mut self, key: &[&str; 3], settings: &ExporterSettings) {
        let headers = [key[0], key[1], key[2], "headers"];
        self.headers(Severity::Warning, &headers, &settings.headers);
        let Some(tls) = &settings.tls else { return };
        let files = [&tls.ca_certificate, &tls.client_certificate, &tls.client_private_key];
        self.tls(Severity::Warning, &format!("{}.tls", config::dotted_key(key)), files);
    }

    /// Checks an authority's certificate, and a client's certificate with its key, each on its own.
    fn tls(
        &mut self,
        severity: Severity,
        key: &str,
        [authority, certificate, private_key]: [&Option<PathBuf>; 3],
    ) {
        let trusted = TlsFiles { ca_certificate: authority.clone(), ..TlsFiles::default() };
        let identity = TlsFiles {
            client_certificate: certificate.clone(),
            client_private_key: private_key.clone(),
            ..TlsFiles::default()
        };
        // Of a pair, both files can be missing, and the next check names the first one.
        if let (Some(certificate), Some(private_key)) = (certificate, private_key)
            && files::read(certificate, MAX_KEY_BYTES).is_err()
            && let Err(error) = files::read(private_key, MAX_KEY_BYTES)
        {
            self.add(severity, &format!("{key}.client-private-key"), error.to_string());
        }
        for (member, files) in [("ca-certificate", trusted), ("client-certificate", identity)] {
            if let Err(error) = Network::default().check(&files) {
                self.add(severity, &format!("{key}.{member}"), error.to_string());
            }
        }
    }
}
