//! Measuring of turns, and their export (`otel.*`): recorders by the configuration that they are
//! for, and the trace that this process is part of. Without an exporter nothing is started.

mod exporters;
mod open_span;
mod turn_trace;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use config::Config;
use config::table::Otel;
use http_client::Network;
use telemetry::{Figures, Recorder, Services, TraceContext};

use crate::options::Options;
use exporters::Exporters;

pub use open_span::{Meter, OpenSpan};
pub use turn_trace::{TurnSpan, TurnTrace, set_usage};

/// Maximum wait of the server's end for unsent records.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Configurations whose recorders are kept; beyond, those that no thread uses are closed.
const KEPT: usize = 4;

/// The recorders, the figures and the trace of this process.
pub struct Telemetry {
    options: Arc<Options>,
    network: Network,
    meter: Meter,
    services: OnceLock<Arc<Services>>,
    /// The trace that this process was started in: `TRACEPARENT`.
    inherited: Option<TraceContext>,
    recorders: Mutex<Vec<Kept>>,
}

/// A recorder, or none where its exporters cannot be used, with the configuration that it is for.
struct Kept {
    configured: Configured,
    recorder: Option<Recorder>,
}

/// The part of a configuration that decides about exporters.
#[derive(Clone, Debug, PartialEq)]
struct Configured {
    otel: Otel,
    /// `analytics.enabled`.
    has_analytics: bool,
    hosted_base_url: Option<String>,
}

impl Telemetry {
    pub fn new(options: Arc<Options>, network: Network) -> Self {
        let inherited = options.variable("TRACEPARENT").as_deref().and_then(TraceContext::parse);
        let (services, recorders) = (OnceLock::new(), Mutex::default());
        let meter = Meter { clock: options.clock.clone(), figures: Arc::default() };
        Self { options, network, meter, services, inherited, recorders }
    }

    /// Returns the meter of operations.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the figures of the server so far.
    pub fn figures(&self) -> &Figures {
        &self.meter.figures
    }

    /// Records that wait for export, of all configurations, and their bytes.
    pub fn queued(&self) -> (usize, usize) {
        let kept = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = kept.iter().filter_map(|kept| kept.recorder.as_ref()).map(Recorder::queued);
        queues.fold((0, 0), |sum, queue| (sum.0 + queue.0, sum.1 + queue.1))
    }

    /// The recorder of a configuration; `None` when it exports nothing.
    pub fn recorder(&self, config: &Config) -> Option<Recorder> {
        let configured = Configured {
            otel: config.otel.clone(),
            has_analytics: config.analytics.enabled == Some(true),
            hosted_base_url: config.hosted_base_url.as_deref().map(str::to_owned),
        };
        if !exporters::are_wanted(&configured) {
            return None;
        }
        let mut kept = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|known| known.configured == configured) {
            return known.recorder.clone();
        }
        if kept.len() >= KEPT {
            kept.retain(|known| known.recorder.as_ref().is_some_and(|one| !one.is_unused()));
        }
        let recorder = self.start(&configured);
        kept.push(Kept { configured, recorder: recorder.clone() });
        recorder
    }

    fn start(&self, configured: &Configured) -> Option<Recorder> {
        let variable = |name: &str| self.options.variable(name);
        let Exporters { settings, problems } =
            exporters::read(configured, &self.options.version, &variable);
        for problem in problems {
            tracing::warn!(target: "server::telemetry", "{problem}; nothing is sent there");
        }
        let settings = settings?;
        let services = self.services.get_or_init(|| Arc::new(self.services())).clone();
        Some(Recorder::start(settings, services))
    }

    fn services(&self) -> Services {
        let (meter, options) = (self.meter.clone(), &self.options);
        let figures = meter.figures.clone();
        let random = options.random.clone();
        Services {
            network: self.network.clone(),
            clock: Arc::new(move || meter.now()),
            random: Arc::new(move |bytes| random(bytes)),
            jitter: options.jitter.clone(),
            user_agent: format!("agentd/{}", options.version),
            figures,
        }
    }

    /// The trace that this process was started in.
    pub fn inherited(&self) -> Option<TraceContext> {
        self.inherited
    }

    /// Sends what is not sent yet, within a short time, and records no more.
    pub async fn close(&self) {
        let kept =
            std::mem::take(&mut *self.recorders.lock().unwrap_or_else(PoisonError::into_inner));
        let all = kept.into_iter().filter_map(|kept| kept.recorder);
        let closing: tokio::task::JoinSet<()> =
            all.map(|recorder| async move { recorder.close(CLOSE_LIMIT).await }).collect();
        closing.join_all().await;
    }
}

/// Returns the exported name of a model: without the folder of a script, which the offline provider
/// has in place of a model, and not at all where its name has the form of a key.
pub fn model_label(model: &str) -> Cow<'_, str> {
    let is_path = Path::new(model).is_absolute();
    let name = match is_path {
        true => model.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default(),
        false => model,
    };
    redact::redact(name).text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_models_have_neither_folders_nor_keys() {
        for (model, expected) in [
            ("meta/llama-3:8b", "meta/llama-3:8b"),
            ("gpt-5.1-2025-11-13", "gpt-5.1-2025-11-13"),
            ("/home/someone/secret/script.json", "script.json"),
            ("/", ""),
            ("", ""),
            ("sk-proj-abcdefgh12345678", "[redacted]"),
            ("/tmp/ghp_0123456789abcdefghijABCD", "[redacted]"),
        ] {
            assert_eq!(model_label(model), expected, "{model}");
        }
    }
}
