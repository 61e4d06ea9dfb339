//! Keys about accounts, telemetry, files of the agent, and the terminal interface.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::parts::{TELEMETRY, TERMINAL};
use crate::error::Error;
use crate::kind::scope::{ANY, USER};
use crate::kind::{Effect, Kind, Reading, Setting, Url, Whole, error};
use crate::options::{choices, options};
use crate::value::{Node, Value};

choices! {
    /// `forced_login_method`.
    LoginMethod { Hosted = "hosted", Api = "api" }
}
choices! {
    /// Where credentials are kept.
    CredentialsStore { Auto = "auto", File = "file", Keyring = "keyring" }
}
choices! {
    /// `file_opener`: the scheme of links to files.
    FileOpener {
        Editor = "editor",
        EditorInsiders = "editor-insiders",
        Windsurf = "windsurf",
        Cursor = "cursor",
        None = "none",
    }
}
choices! {
    /// `history.persistence`.
    Persistence { SaveAll = "save-all", None = "none" }
}
choices! {
    /// Which exporter is used.
    ExporterName { None = "none", OtlpHttp = "otlp-http", OtlpGrpc = "otlp-grpc" }
}
choices! {
    /// Which exporter of metrics is used.
    MetricsExporter { None = "none", Hosted = "hosted", OtlpHttp = "otlp-http", OtlpGrpc = "otlp-grpc" }
}
choices! {
    /// Encoding of OTLP over HTTP.
    OtlpProtocol { Binary = "binary", Json = "json" }
}
choices! {
    /// `tui.alternate_screen`.
    AlternateScreen { Auto = "auto", Always = "always", Never = "never" }
}
choices! {
    /// `tui.notification_method`.
    NotificationMethod { Auto = "auto", Osc9 = "osc9", Bel = "bel" }
}

options! {
    /// `analytics`.
    pub struct Analytics {
        /// Usage may be reported; unset leaves it to the client. The server reports nothing.
        enabled: Option<bool>, ANY, TELEMETRY;
    }
}
options! {
    /// `feedback`.
    pub struct Feedback {
        /// Feedback can be submitted.
        enabled: bool = true, ANY, Effect::Pending("`feedback/upload`");
    }
}
options! {
    /// `history`.
    pub struct History {
        /// Whether prompts are kept in `history.jsonl` in the agent's home.
        persistence: Persistence = Persistence::SaveAll, USER, Effect::Active;
        /// Largest size of that file in bytes; the oldest prompts are dropped first.
        max_bytes: Option<Whole<0, { i64::MAX as u64 }>>, USER, Effect::Active;
    }
}

options! {
    /// `otel`.
    pub struct Otel {
        /// Tag of the environment that events come from.
        environment: String = "dev".to_owned(), USER, TELEMETRY;
        /// Exporter of log events, with its settings below its name.
        exporter: Exporter = Exporter::Named(ExporterName::None), USER, TELEMETRY;
        /// Exporter of traces, with its settings below its name.
        trace_exporter: Exporter = Exporter::Named(ExporterName::None), USER, TELEMETRY;
        /// Exporter of metrics.
        metrics_exporter: MetricsExporter = MetricsExporter::Hosted, USER, TELEMETRY;
        /// Events carry what the user wrote.
        log_user_prompt: bool = false, USER, TELEMETRY;
    }
}

/// The value of `otel.exporter` and `otel.trace_exporter`.
#[derive(Debug, Clone, PartialEq)]
pub enum Exporter {
    /// One without settings.
    Named(ExporterName),
    /// Settings by the exporter's name.
    Configured(BTreeMap<String, ExporterSettings>),
}

impl Setting for Exporter {
    const KIND: Kind =
        Kind::Either(&[ExporterName::KIND, <BTreeMap<String, ExporterSettings> as Setting>::KIND]);

    fn read(node: &Node, cx: &Reading<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Table(_) => BTreeMap::read(node, cx).map(Self::Configured),
            _ => ExporterName::read(node, cx).map(Self::Named),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Named(name) => name.show(),
            Self::Configured(all) => all.show(),
        }
    }
}

options! {
    /// `otel.exporter.<id>`.
    #[part("<id>")]
    pub struct ExporterSettings {
        /// Where to send.
        endpoint: Option<Url>, USER, TELEMETRY;
        /// Headers of every request.
        headers: BTreeMap<String, String>, USER, TELEMETRY;
        /// Encoding of the payload.
        protocol: Option<OtlpProtocol>, USER, TELEMETRY;
        /// Certificates.
        tls: Option<ExporterTls>, USER, Effect::Group;
    }
}
options! {
    /// `otel.exporter.<id>.tls`.
    pub struct ExporterTls {
        /// Certificate of the authority that signed the collector's.
        ca_certificate as "ca-certificate": Option<PathBuf>, USER, TELEMETRY;
        /// Certificate that we show.
        client_certificate as "client-certificate": Option<PathBuf>, USER, TELEMETRY;
        /// Key of that certificate.
        client_private_key as "client-private-key": Option<PathBuf>, USER, TELEMETRY;
    }
}

options! {
    /// `notice`: what the user has acknowledged.
    pub struct Notice {
        /// The warning about full access is not shown again.
        hide_full_access_warning: bool = false, USER, TERMINAL;
        /// The warning about folders that everybody can write is not shown again.
        hide_world_writable_warning: bool = false, USER, TERMINAL;
        /// The hint to change the model near a rate limit is not shown again.
        hide_rate_limit_model_nudge: bool = false, USER, TERMINAL;
        /// Changes of models that were acknowledged, old name to new.
        model_migrations: BTreeMap<String, String>, USER, TERMINAL;
        rest {
            /// The offer to change to a newer model is not shown again.
            hide_migration_prompts as "hide_<model>_migration_prompt": bool, USER, TERMINAL;
        }
    }
}

options! {
    /// `tui`: the terminal interface.
    pub struct Tui {
        /// Whether the alternate screen is used.
        alternate_screen: AlternateScreen = AlternateScreen::Auto, USER, TERMINAL;
        /// Things move.
        animations: bool = true, USER, TERMINAL;
        /// How to notify while the terminal is not in front.
        notification_method: NotificationMethod = NotificationMethod::Auto, USER, TERMINAL;
        /// Whether to notify, or for which events.
        notifications: Option<Notifications>, USER, TERMINAL;
        /// Hints for newcomers are shown.
        show_tooltips: bool = true, USER, TERMINAL;
        /// Items of the footer; an empty list shows none.
        status_line: Option<Vec<String>>, USER, TERMINAL;
        /// Theme of highlighted code.
        theme: Option<String>, USER, TERMINAL;
        /// How often a new model was announced, by model; kept by the interface itself.
        model_availability_nux: BTreeMap<String, Whole<0, 1_000_000>>, USER, TERMINAL;
    }
}

/// The value of `tui.notifications`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notifications {
    /// All or none.
    Switch(bool),
    /// Names of events.
    Events(Vec<String>),
}

impl Setting for Notifications {
    const KIND: Kind = Kind::Either(&[Kind::Boolean, <Vec<String> as Setting>::KIND]);

    fn read(node: &Node, cx: &Reading<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Boolean(on) => Ok(Self::Switch(*on)),
            Value::Array(_) => Vec::read(node, cx).map(Self::Events),
            _ => Err(error(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Switch(on) => Some((*on).into()),
            Self::Events(events) => events.show(),
        }
    }
}
