//! The JSON that the store keeps of a thread. Its shapes are types of their own, because the types of
//! the session and the protocol may change, and what is stored may not. This module alone reads and
//! writes them.
//!
//! Each text has a version. The first has no member for it, since it is that of programs from before
//! there were versions; a later one is the member `version`.

mod agent;
mod extra;
mod policies;
mod settings;
mod totals;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::ThreadRecord;

use crate::error::Error;

pub(crate) use agent::{StoredAgent, StoredLimits};
pub(crate) use extra::{
    StoredApproval, StoredConcession, StoredExtra, StoredGoal, StoredPause, StoredSource,
    StoredTool, StoredWorktree,
};
pub(crate) use policies::StoredBound;
pub(crate) use settings::StoredSettings;
pub use totals::Totals;

/// The version of each shape. A change that an earlier program would misread raises it; then this
/// module reads both.
const VERSION: u64 = 1;

/// The part of a text that is read before its shape.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u64>,
}

/// Reads `json`. `what` names it in errors.
fn read<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, Error> {
    let unreadable =
        |error: serde_json::Error| Error::failed(format!("{what} cannot be read: {error}"));
    let Versioned { version } = serde_json::from_str(json).map_err(unreadable)?;
    if let Some(version) = version.filter(|version| *version > VERSION) {
        return Err(Error::failed(format!(
            "{what} cannot be read: it has version {version}, this program knows versions up to \
             {VERSION}"
        ))
        .next_step("use the newer program"));
    }
    serde_json::from_str(json).map_err(unreadable)
}

/// The settings of a thread as they are stored.
pub fn settings_json(settings: &session::Settings) -> String {
    serde_json::to_string(&StoredSettings(settings.clone())).expect("settings are plain data")
}

/// The stored settings of the thread `id`.
///
/// # Errors
/// They cannot be read.
pub fn settings(id: &str, json: &str) -> Result<session::Settings, Error> {
    let StoredSettings(settings) = read(&format!("the settings of thread {id}"), json)?;
    Ok(settings)
}

/// The stored facts of a thread; the default for a thread without.
///
/// # Errors
/// It cannot be read. Then the thread is not used as if it had none: an agent would come back as a
/// thread of the user, without the bounds of the threads above it.
pub fn extra(record: &ThreadRecord) -> Result<StoredExtra, Error> {
    match &record.extra {
        None => Ok(StoredExtra::default()),
        Some(json) => read(&format!("the stored facts of thread {}", record.id), json),
    }
}

/// The facts of a thread that lists show.
#[derive(Default)]
pub struct Listed {
    /// For whom it was started.
    pub thread_source: Option<protocol::ThreadSource>,
    pub worktree: Option<protocol::ThreadWorktree>,
}

/// The facts of a thread that lists show. A thread whose facts cannot be read is listed
/// all the same, so that it can be read, exported and deleted.
pub fn listed(record: &ThreadRecord) -> Listed {
    let Some(json) = record.extra.as_deref() else { return Listed::default() };
    match serde_json::from_str::<extra::ListedShape>(json) {
        Ok(shape) => shape.into(),
        Err(error) => {
            let id = &record.id;
            tracing::warn!(
                target: "server::store",
                "the stored facts of thread {id} cannot be read: {error}"
            );
            Listed::default()
        }
    }
}

#[cfg(test)]
mod tests;
