//! Where events of `tracing` go: which ones are written, in which format, and to which file. The other
//! crates only emit events and spans; `cli` installs the subscriber that this crate builds.
//!
//! A server logs warnings and errors to `<log_dir>/agentd.log`; the gateway logs from level `info`
//! on to standard error, and each line passes through `Gateway::redact`. `RUST_LOG` holds levels
//! by target (`warn,server::turn=debug`; a level without a target leaves libraries at `warn`), and
//! `LOG_FORMAT=json` writes each line as an object. A server's target is the part that an event
//! concerns (`server::store`, `server::notify`). An event is inside the span of its thread and
//! turn and, from level `debug` on, that of the request.

mod file;
mod format;

use std::sync::Arc;

use jiff::Timestamp;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

pub use crate::file::LogFile;
use crate::format::{Text, Timer};

/// The targets of this program's own crates. A level without a target applies to these; libraries, which
/// may log a line for each packet, stay at [`LIBRARIES`] unless the filter names them.
const OWN_TARGETS: &[&str] = &[
    "account",
    "acp",
    "agentd",
    "agentd_embed",
    "cloud",
    "config",
    "file_search",
    "file_watch",
    "files",
    "filesystem",
    "fuzz_targets",
    "gateway",
    "gateway_admin",
    "gateway_body",
    "gateway_policy",
    "gateway_store",
    "hooks",
    "http_client",
    "images",
    "json_schema",
    "jsonrpc",
    "logging",
    "mcp",
    "mcp_server",
    "migration",
    "model",
    "model_server",
    "patch",
    "plugins",
    "policy",
    "protocol",
    "ratelimit",
    "realtime",
    "redact",
    "sandbox",
    "server",
    "services",
    "session",
    "skills",
    "store",
    "telemetry",
    "testkit",
    "threads",
    "transport",
    "tui",
    "undo",
    "updates",
    "visible",
    "web",
    "wire",
];

/// The most that libraries log without being named.
const LIBRARIES: LevelFilter = LevelFilter::WARN;

/// The current time. Tests pass a constant.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The levels and the format of the log.
#[derive(Clone, Debug)]
pub struct Logging {
    filter: Targets,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Text,
    Json,
}

/// A setting of the log that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The value of `RUST_LOG`.
    #[error(
        "RUST_LOG: `{value}` is not a filter: {cause}; write a level (`off`, `error`, `warn`, \
         `info`, `debug`, `trace`), or targets with levels, as in `warn,server=debug`"
    )]
    Filter {
        /// The value of the variable.
        value: String,
        /// The mistake in it.
        cause: tracing_subscriber::filter::ParseError,
    },
    /// The value of `LOG_FORMAT`.
    #[error("LOG_FORMAT: `{0}` is not a format; set it to `text` or `json`")]
    Format(String),
}

impl Logging {
    /// Logs events of `level` and above as text; those of libraries only from `warn` on.
    #[must_use]
    pub fn at(level: LevelFilter) -> Self {
        let filter = for_own_crates(Targets::new().with_default(level));
        Self { filter, format: Format::Text }
    }

    /// Reads the values of `RUST_LOG` and `LOG_FORMAT`. Without a filter, events of `level` and above
    /// are logged; without a format, as text. A level without a target does not let lines of libraries
    /// below `warn` through.
    ///
    /// # Errors
    /// A value that is neither empty nor valid.
    pub fn from_settings(
        filter: Option<&str>,
        format: Option<&str>,
        level: LevelFilter,
    ) -> Result<Self, SettingError> {
        let filter = match filter.filter(|filter| !filter.is_empty()) {
            None => Self::at(level).filter,
            Some(value) => for_own_crates(
                value
                    .parse()
                    .map_err(|cause| SettingError::Filter { value: value.to_owned(), cause })?,
            ),
        };
        let format = match format.unwrap_or_default() {
            "" | "text" => Format::Text,
            "json" => Format::Json,
            other => return Err(SettingError::Format(other.to_owned())),
        };
        Ok(Self { filter, format })
    }

    /// Builds a subscriber that passes each event to `writer` as one line, in one call. An error of
    /// `writer` is dropped: a log that cannot be written stops nothing.
    pub fn subscriber<W>(self, clock: Clock, writer: W) -> impl Subscriber + Send + Sync
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .log_internal_errors(false)
            .with_writer(writer);
        let timer = Timer(clock);
        let layer = match self.format {
            Format::Text => layer.event_format(Text(timer)).boxed(),
            Format::Json => {
                layer.json().with_timer(timer).flatten_event(true).with_current_span(false).boxed()
            }
        };
        tracing_subscriber::registry().with(layer).with(self.filter)
    }
}

/// Applies a level without a target to our own crates, except where the filter names them.
fn for_own_crates(filter: Targets) -> Targets {
    let Some(level) = filter.default_level().filter(|level| *level > LIBRARIES) else {
        return filter;
    };
    let is_named = |own: &str| filter.iter().any(|(named, _)| own.starts_with(named));
    let own = OWN_TARGETS.iter().filter(|own| !is_named(own)).map(|own| (*own, level));
    let own: Vec<_> = own.collect();
    filter.with_default(LIBRARIES).with_targets(own)
}

#[cfg(test)]
#[path = "logging_tests.rs"]
mod tests;
