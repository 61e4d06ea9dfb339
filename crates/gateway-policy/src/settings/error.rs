//! Errors of a configuration file: the file, the line, the key, and the remedy.

use std::path::{Path, PathBuf};

/// The complete error, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {message}", file.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct SettingsError {
    file: PathBuf,
    line: Option<usize>,
    message: String,
}

/// An error before its line is located.
#[derive(Debug)]
pub(super) struct Fault {
    /// `models.big.aliases`, as path segments.
    pub(super) key: Vec<String>,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(key: &[&str], message: impl Into<String>) -> Self {
        let key = key.iter().map(|part| (*part).to_owned()).collect();
        Self { key, message: message.into() }
    }
}

impl SettingsError {
    pub(super) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot be read: {error}");
        Self { file: file.to_owned(), line: None, message }
    }

    pub(super) fn syntax(file: &Path, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| line_of(text, span.start));
        let message = error.message().replace('\n', " ");
        Self { file: file.to_owned(), line, message }
    }

    pub(super) fn fault(file: &Path, text: &str, fault: &Fault) -> Self {
        let message = format!("{}: {}", dotted(&fault.key), fault.message);
        Self { file: file.to_owned(), line: find(text, &fault.key), message }
    }
}

/// The line of the key, or of the table that would contain it.
fn find(text: &str, key: &[String]) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut at: Option<std::ops::Range<usize>> = None;
    let mut table: Option<&dyn toml_edit::TableLike> = Some(document.as_table());
    for part in key {
        let Some((name, item)) = table.and_then(|table| table.get_key_value(part)) else { break };
        at = name.span().or_else(|| item.span()).or(at);
        table = item.as_table_like();
    }
    at.map(|span| line_of(text, span.start))
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn dotted(key: &[String]) -> String {
    let is_bare = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let shown =
        key.iter().map(|part| if is_bare(part) { part.clone() } else { format!("\"{part}\"") });
    shown.collect::<Vec<_>>().join(".")
}
