//! Reports of users: what they write, the thread and the logs, as JSON in which no string holds a
//! secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The end of each log that is kept, in bytes.
const MAX_LOG: usize = 1 << 20;
/// Largest log of which the end is read. The program's own are smaller.
const MAX_LOG_FILE: u64 = 64 << 20;
/// Largest report, in bytes of JSON.
pub(crate) const MAX_REPORT: usize = 32 << 20;

/// The contents of a report, besides the files.
pub(crate) struct Report {
    pub(crate) id: String,
    pub(crate) at_seconds: i64,
    pub(crate) version: String,
    pub(crate) classification: String,
    pub(crate) reason: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
    /// As `thread/read` answers it.
    pub(crate) thread: Option<Value>,
}

impl Report {
    /// The report with the ends of the logs. Waits for the file system.
    pub(crate) fn with_logs(self, logs: &[PathBuf]) -> Value {
        let logs: Map<String, Value> =
            logs.iter().map(|path| (path.display().to_string(), log(path))).collect();
        let mut report = json!({
            "id": self.id,
            "createdAt": self.at_seconds,
            "version": self.version,
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "classification": self.classification,
            "reason": self.reason,
            "tags": self.tags,
            "thread": self.thread,
            "logs": logs,
        });
        let removed = redact_all(&mut report, None);
        report["redacted"] = removed.into();
        report
    }
}

/// The end of a log, or why it cannot be read.
fn log(path: &Path) -> Value {
    match files::read(path, MAX_LOG_FILE) {
        Ok(contents) => {
            let text = String::from_utf8_lossy(&contents[contents.len().saturating_sub(MAX_LOG)..]);
            json!({ "bytes": contents.len(), "end": text })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// Writes a report into `folder`, which is created; only the user can read it. Returns its path.
pub(crate) fn write(folder: &Path, id: &str, report: &Value) -> Result<PathBuf, String> {
    let text = serde_json::to_vec_pretty(report).map_err(|error| error.to_string())?;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    if let Ok(found) = folder.symlink_metadata()
        && !found.is_dir()
    {
        let what = if found.is_symlink() { "a link" } else { "not a folder" };
        let folder = folder.display();
        return Err(format!("{folder} is {what}, so the report was not written: remove it"));
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| failed(&error))?;
    let path = folder.join(format!("{id}.json"));
    filesystem::write(&path, &text).map_err(|error| failed(&error))?;
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).map_err(|error| failed(&error))?;
    }
    Ok(path)
}

/// Redacts every string below `value`, also names of members; a member whose name says that it is
/// secret loses its value. Returns how many secrets were removed.
fn redact_all(value: &mut Value, name: Option<&str>) -> usize {
    match value {
        Value::String(text) => {
            // The name tells what the value alone does not.
            let named = name.map(|name| format!("{name}={text}"));
            let is_secret = named.is_some_and(|named| {
                !text.contains(char::is_whitespace) && redact::redact(&named).removed > 0
            });
            if is_secret {
                *text = redact::REDACTED.to_owned();
                return 1;
            }
            let redacted = redact::redact(text);
            let removed = redacted.removed;
            if removed > 0 {
                *text = redacted.text.into_owned();
            }
            removed
        }
        Value::Array(list) => list.iter_mut().map(|value| redact_all(value, name)).sum(),
        Value::Object(members) => members
            .iter_mut()
            .filter(|(name, _)| !matches!(name.as_str(), "id" | "sessionId" | "threadId"))
            .map(|(name, value)| redact_all(value, Some(name)))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
