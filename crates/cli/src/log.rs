//! Installs where this process logs to, by the variables `RUST_LOG` and `LOG_FORMAT`.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context;
use logging::{Clock, LogFile, Logging};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;

use crate::commands::eprint;
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

/// Logs to standard error, each line as `redact` leaves it. To be called once in a process.
///
/// # Errors
/// When it was called before.
pub(crate) fn to_stderr(
    environment: &Environment,
    redact: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let logging = settings(environment, LevelFilter::INFO);
    let redact = Arc::new(redact);
    install(logging.subscriber(clock(), move || Redacted(Arc::clone(&redact))))
}

/// Standard error, with secrets redacted.
struct Redacted<R>(Arc<R>);

impl<R: Fn(&[u8]) -> Vec<u8>> Write for Redacted<R> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(&self.0(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A setting that cannot be used is reported, and the default taken: the variables may be meant for
/// another program.
fn settings(environment: &Environment, level: LevelFilter) -> Logging {
    let (filter, format) = (environment.variable("RUST_LOG"), environment.variable("LOG_FORMAT"));
    Logging::from_settings(filter.as_deref(), format.as_deref(), level).unwrap_or_else(|error| {
        eprint(format_args!("agentd: WARNING: {error}; it is ignored"));
        Logging::at(level)
    })
}

fn clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
}

fn install(subscriber: impl Subscriber + Send + Sync) -> anyhow::Result<()> {
    tracing::subscriber::set_global_default(subscriber).context("the log is installed twice")
}
