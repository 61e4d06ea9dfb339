//! The error of this crate: its kind, the file, the line and the key, the cause, and what to do next.
//! Responses to clients are [`crate::error::ApiError`], which is data of the wire.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a configuration is refused, in one line.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    file: PathBuf,
    line: Option<usize>,
    message: Cow<'static, str>,
    next_step: Option<&'static str>,
    source: Option<Arc<io::Error>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be read.
    Unreadable,
    /// The file is not TOML, or has an unknown key or a value of the wrong type.
    Syntax,
    /// A value is not possible, or contradicts another one.
    InvalidValue,
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

impl Error {
    pub(super) fn unreadable(file: &Path, source: io::Error) -> Self {
        let next_step = Some("check the path and its permissions");
        let source = Some(Arc::new(source));
        Self { next_step, source, ..Self::new(ErrorKind::Unreadable, file, "cannot be read") }
    }

    pub(super) fn syntax(file: &Path, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| line_of(text, span.start));
        let message = error.message().replace('\n', " ");
        Self { line, ..Self::new(ErrorKind::Syntax, file, message) }
    }

    pub(super) fn fault(file: &Path, text: &str, fault: &Fault) -> Self {
        let message = format!("{}: {}", dotted(&fault.key), fault.message);
        let line = find(text, &fault.key);
        Self { line, ..Self::new(ErrorKind::InvalidValue, file, message) }
    }

    fn new(kind: ErrorKind, file: &Path, message: impl Into<Cow<'static, str>>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self { kind, file, line: None, message, next_step: None, source: None }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// `FILE:LINE: `, the message, the cause, and what to do next.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        self.next_step.map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the cause: the cause itself is part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source: &dyn std::error::Error = self.source.as_deref()?;
        source.source()
    }
}

/// The line of the key, or of the table that would contain it. Parts that are numbers name an entry of a list.
fn find(text: &str, key: &[String]) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut at: Option<std::ops::Range<usize>> = None;
    let mut place = Place::Table(document.as_table());
    for part in key {
        let Some((span, next)) = place.member(part) else { break };
        at = span.or(at);
        let Some(next) = next else { break };
        place = next;
    }
    at.map(|span| line_of(text, span.start))
}

/// A place that a part of a key may lead to.
enum Place<'d> {
    Table(&'d dyn toml_edit::TableLike),
    Tables(&'d toml_edit::ArrayOfTables),
    List(&'d toml_edit::Array),
}

impl<'d> Place<'d> {
    /// The span of a member, and the place within it.
    fn member(&self, part: &str) -> Option<(Option<std::ops::Range<usize>>, Option<Self>)> {
        match self {
            Self::Table(table) => {
                let (name, item) = table.get_key_value(part)?;
                let next = item.as_table_like().map(Self::Table);
                let next = next.or_else(|| item.as_array_of_tables().map(Self::Tables));
                let next = next.or_else(|| item.as_array().map(Self::List));
                Some((name.span().or_else(|| item.span()), next))
            }
            Self::Tables(tables) => {
                let table = tables.get(part.parse().ok()?)?;
                Some((table.span(), Some(Self::Table(table))))
            }
            Self::List(list) => {
                let value = list.get(part.parse().ok()?)?;
                Some((value.span(), value.as_inline_table().map(|table| Self::Table(table))))
            }
        }
    }
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
