//! The server's parameters from its environment, given by its caller.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use logging::LogFile;
use protocol::Translator;
use session::Millis;

/// A source of the time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> Millis;
    /// Today in the user's time zone, `YYYY-MM-DD`.
    fn today(&self) -> String;
    /// Name of the user's time zone.
    fn time_zone(&self) -> String;
}

/// Makes ids that never repeat: a thread's sort in the order of their making.
pub trait Ids: Send + Sync {
    /// A new id.
    fn next(&self) -> String;
}

/// The parameters of a server's start.
#[derive(Clone)]
pub struct Options {
    /// The agent's home: configuration and stored threads. Absolute.
    pub home: PathBuf,
    /// The administrator's folder: `config.toml` and `requirements.toml` for all users. Absolute.
    pub system_dir: PathBuf,
    /// Where threads work when the client names no folder. Absolute.
    pub cwd: PathBuf,
    /// The program's version.
    pub version: String,
    /// `-c key=value` arguments.
    pub config_overrides: Vec<String>,
    /// Keys that do not exist are errors.
    pub strict_config: bool,
    /// The environment that commands start from.
    pub environment: Vec<(OsString, OsString)>,
    /// The user's shell.
    pub shell: PathBuf,
    /// The source of threads started over this server: `editor`, `exec`, `cli`, `appServer`.
    pub session_source: String,
    /// The dialect that clients of this server speak; `None` for the names of the specification.
    pub dialect: Option<Arc<Translator>>,
    /// The log file of the subscriber that the program has installed. The server sets its folder.
    pub log_file: LogFile,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// Uniform in 0..1, for the jitter of retries.
    pub jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// Fills a slice with bytes that no one can predict, for the secrets of logins.
    pub random: Arc<account::Random>,
}

impl Options {
    /// Looks up a variable of the environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.environment.iter().find(|(key, _)| key == name)?;
        value.to_str().map(str::to_owned)
    }
}
