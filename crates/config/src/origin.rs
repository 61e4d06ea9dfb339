//! Where each value was written, and the line of the file with a mark under it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layer_name::LayerName;

/// A file, kept for messages about it.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The layer that the file holds.
    pub layer: LayerName,
}

/// The byte ranges of a value and of its key in a file.
#[derive(Clone)]
pub struct SourceRange {
    pub(crate) file: Arc<SourceFile>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) key: Option<(usize, usize)>,
}

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File(SourceRange),
    /// In a `-c key=value` argument, whose key is kept as typed.
    CommandLine {
        /// The key.
        key: Arc<str>,
    },
    /// Nowhere: the message is about the trust of a folder.
    Folder(PathBuf),
    /// `experimentalFeature/enablement/set`.
    Process,
    /// The `config` map of a `thread/start`, `thread/resume` or `thread/fork` request.
    Thread,
}

impl SourceRange {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Line and column of the start, both from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        self.position(self.start)
    }

    /// Line and column of the end.
    pub fn end_line_column(&self) -> (usize, usize) {
        self.position(self.end)
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let before = self.file.text.get(..at).unwrap_or(&self.file.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        (line, 1 + before[line_start..].chars().count())
    }

    /// The line of the file, with a mark under the range.
    pub fn snippet(&self) -> String {
        let (line, column) = self.line_column();
        let text = self.file.text.lines().nth(line - 1).unwrap_or_default();
        // Of a long line, only the part around the range is shown.
        let skipped = column.saturating_sub(SHOWN / 2);
        let shown: String = text
            .chars()
            .skip(skipped)
            .take(SHOWN)
            .map(|c| if c == '\t' { ' ' } else { c })
            .filter(|c| !c.is_control())
            .collect();
        let room = shown.chars().count().saturating_sub(column - 1 - skipped).max(1);
        let marked = self.file.text.get(self.start..self.end).unwrap_or_default();
        let marks = marked.lines().next().unwrap_or_default().chars().count().clamp(1, room);
        let number = line.to_string();
        let gap = " ".repeat(number.len());
        let indent = " ".repeat(column - 1 - skipped);
        format!("{gap} |\n{number} | {shown}\n{gap} | {indent}{}", "^".repeat(marks))
    }
}

/// Characters of a line that a snippet shows.
const SHOWN: usize = 120;

impl PartialEq for SourceRange {
    fn eq(&self, other: &Self) -> bool {
        (&self.file.path, self.start, self.end) == (&other.file.path, other.start, other.end)
    }
}

impl Eq for SourceRange {}

impl fmt::Debug for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.file.path.display())
    }
}

impl Origin {
    /// The file, for a value written in one.
    pub fn path(&self) -> Option<&Path> {
        self.range().map(|range| range.file.path.as_path())
    }

    /// The range in a file, for a value written in one.
    pub fn range(&self) -> Option<&SourceRange> {
        match self {
            Origin::File(range) => Some(range),
            _ => None,
        }
    }

    /// The layer that the value belongs to.
    pub fn layer(&self) -> LayerName {
        match self {
            Origin::File(range) => range.file.layer.clone(),
            Origin::CommandLine { .. } | Origin::Process | Origin::Folder(_) => {
                LayerName::SessionFlags
            }
            Origin::Thread => LayerName::Thread,
        }
    }

    /// The key as it was written, of a dotted one the last part; `None` where that is not known.
    pub(crate) fn last_key(&self) -> Option<&str> {
        match self {
            Origin::File(range) => {
                let (start, end) = range.key?;
                range.file.text.get(start..end)
            }
            Origin::CommandLine { key } => key.rsplit('.').next(),
            Origin::Folder(_) | Origin::Process | Origin::Thread => None,
        }
    }

    /// The same origin, marking the key instead of the value.
    pub(crate) fn at_key(&self) -> Origin {
        match self {
            Origin::File(range) => {
                let (start, end) = range.key.unwrap_or((range.start, range.end));
                Origin::File(SourceRange { start, end, ..range.clone() })
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(range) => write!(f, "{range:?}"),
            Origin::CommandLine { key } => write!(f, "-c {key}=…"),
            Origin::Folder(folder) => write!(f, "{}", folder.display()),
            Origin::Process => write!(f, "experimentalFeature/enablement/set"),
            Origin::Thread => write!(f, "the thread's `config`"),
        }
    }
}
