//! Installs where this process logs to, by the variables `RUST_LOG` and `LOG_FORMAT`.

use std::sync::Arc;

use anyhow::Context;
use logging::{Clock, LogFile, Logging};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;

use crate::commands::tell;
use crate::environment::Environment;

/// Logs to the file of a server; the server sets its folder. To be called once in a process.
///
/// # Errors
/// When it was called before.
pub(crate) fn to_file(environment: &Environment) -> anyhow::Result<LogFile> {
    let file = LogFile::default();
    let logging = settings(environment, LevelFilter::WARN);
    install(logging.subscriber(clock(), file.clone()))?;
    Ok(file)
}

/// A setting that cannot be used is reported, and the default taken: the variables may be meant for
/// another program.
fn settings(environment: &Environment, level: LevelFilter) -> Logging {
    let (filter, format) = (environment.variable("RUST_LOG"), environment.variable("LOG_FORMAT"));
    Logging::from_settings(filter.as_deref(), format.as_deref(), level).unwrap_or_else(|error| {
        tell(format_args!("agentd: WARNING: {error}; it is ignored"));
        Logging::at(level)
    })
}

fn clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
}

fn install(subscriber: impl Subscriber + Send + Sync) -> anyhow::Result<()> {
    tracing::subscriber::set_global_default(subscriber).context("the log is installed twice")
}
