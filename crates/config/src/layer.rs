//! Parses and checks one source of configuration without resolving it: a file, the command line, or
//! a thread's overrides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use toml::de::{DeTable, DeValue};

use crate::check::{Checked, check_layer, check_section};
use crate::error::{Error, Warning};
use crate::key_path;
use crate::kind::Section;
use crate::layer_name::LayerName;
use crate::origin::{Origin, SourceFile, SourceRange};
use crate::syntax::recover;
use crate::value::{Node, OriginSource, Table, Value, merge, table_from_toml, table_to_json};

/// Largest configuration file; no hand-written one comes near it.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The values of one source.
#[derive(Debug, Clone)]
pub struct Layer {
    pub(crate) name: LayerName,
    pub(crate) root: Table,
    /// As written, before the checks remove or rename keys.
    raw: Json,
    version: String,
    pub(crate) warnings: Vec<Warning>,
}

impl Layer {
    /// Reads and parses the file of `name`; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a value that its key does not accept.
    pub fn read(name: LayerName) -> Result<Option<Layer>, Error> {
        match Layer::read_usable(name)? {
            Some((_, Some(error))) => Err(error),
            Some((layer, None)) => Ok(Some(layer)),
            None => Ok(None),
        }
    }

    /// As [`Layer::read`], but without the values that cannot be read or that their keys do not accept,
    /// and the error about these.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_usable(name: LayerName) -> Result<Option<(Layer, Option<Error>)>, Error> {
        let Some(path) = name.file() else { return Ok(None) };
        let Some(bytes) = read_file(&path)? else { return Ok(None) };
        match text_of(bytes) {
            Ok(text) => Ok(Some(Layer::parse_usable(name, text))),
            Err(error) => Err(not_utf8(name, path, error)),
        }
    }

    /// Parses the text of the file of `name`.
    ///
    /// # Errors
    /// As for [`Layer::read`].
    pub fn parse(name: LayerName, text: impl Into<String>) -> Result<Layer, Error> {
        let (layer, error) = Layer::parse_usable(name, text);
        error.map_or(Ok(layer), Err)
    }

    /// As [`Layer::parse`], but without the values that cannot be read or that their keys do not accept,
    /// and the error about these.
    pub fn parse_usable(name: LayerName, text: impl Into<String>) -> (Layer, Option<Error>) {
        let (mut root, text, syntax) = parse_file(&name, text.into());
        let raw = table_to_json(&root);
        let Checked { warnings, error } = check_layer(&mut root, &name);
        let version = version(text.text.as_bytes());
        let error = Error::of_all(syntax.into_iter().chain(error));
        (Layer { version, name, root, raw, warnings }, error)
    }

    /// The mistakes in the syntax of a file with this text.
    #[must_use]
    pub fn syntax_mistakes(name: &LayerName, text: &str) -> Vec<Error> {
        parse_file(name, text.to_owned()).2
    }

    /// Parses `-c key=value` arguments; later ones override earlier ones, `null` unsets a key, and a
    /// value that is not TOML is a string.
    ///
    /// # Errors
    /// A malformed argument, or a value that its key does not accept.
    pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> Result<Layer, Error> {
        let mut root = Table::new();
        for argument in arguments {
            overlay(&mut root, assignment(argument.as_ref())?);
        }
        Layer::from_table(LayerName::SessionFlags, root)
    }

    /// The features that were switched while the process runs.
    ///
    /// # Errors
    /// See [`Layer::read`].
    pub fn switched<'f>(
        features: impl IntoIterator<Item = (&'f str, bool)>,
    ) -> Result<Layer, Error> {
        let mut root = Table::new();
        for (name, on) in features {
            let parts = ["features".to_owned(), name.to_owned()];
            let leaf = Node { value: Value::Boolean(on), origin: Origin::Process };
            merge(&mut root, &nested(&parts, leaf));
        }
        Layer::from_table(LayerName::SessionFlags, root)
    }

    /// A thread's `config` map. Keys may be dotted, values nested; `null` unsets a key.
    ///
    /// # Errors
    /// A malformed key, or a value that its key does not accept.
    pub fn thread(map: &serde_json::Map<String, Json>) -> Result<Layer, Error> {
        let mut root = Table::new();
        for (key, json) in map {
            let node = Node::from_json(json, &Origin::Thread);
            let parts = key_path::parse(key)
                .map_err(|why| Error::refused(&Origin::Thread, key.clone(), why.to_string()))?;
            overlay(&mut root, nested(&parts, node));
        }
        Layer::from_table(LayerName::Thread, root)
    }

    /// The source.
    pub fn name(&self) -> &LayerName {
        &self.name
    }

    /// The values as JSON, as written.
    pub fn to_json(&self) -> Json {
        self.raw.clone()
    }

    /// `sha256:` and a digest of the content; for a file, of its bytes.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The warnings about this layer, in the order of its keys.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns whether it sets no key.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    fn from_table(name: LayerName, mut root: Table) -> Result<Layer, Error> {
        let raw = table_to_json(&root);
        let Checked { warnings, error } = check_layer(&mut root, &name);
        let version = version(raw.to_string().as_bytes());
        error.map_or(Ok(Layer { name, root, raw, version, warnings }), Err)
    }
}

/// `sha256:` and the digest of a file's bytes, the form of `expectedVersion`.
pub fn version(bytes: &[u8]) -> String {
    format!("sha256:{}", const_hex::encode(Sha256::digest(bytes)))
}

/// Reads a file that is not a layer, and checks it against `section`.
pub(crate) fn read_section(
    name: LayerName,
    section: &Section,
) -> Result<Option<(Table, Vec<Warning>)>, Error> {
    let Some(path) = name.file() else { return Ok(None) };
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let text = text_of(bytes).map_err(|error| not_utf8(name.clone(), path, error))?;
    let (mut root, _, syntax) = parse_file(&name, text);
    let Checked { warnings, error } = check_section(&mut root, section);
    Error::of_all(syntax.into_iter().chain(error)).map_or(Ok(Some((root, warnings))), Err)
}

/// The text of a configuration file, in whatever encoding an editor stored it. The mark of UTF-8 stays in the
/// text: its version is that of the file, and an edit keeps it. UTF-16 becomes UTF-8 with the first edit.
pub(crate) fn text_of(bytes: Vec<u8>) -> Result<String, std::string::FromUtf8Error> {
    let is_utf16 = matches!(bytes.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    match is_utf16 {
        true => files::decoded(bytes).or_else(String::from_utf8),
        false => String::from_utf8(bytes),
    }
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match files::read(path, MAX_FILE_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(files::Error::TooLarge { path, max_bytes }) => {
            Err(Error::TooLarge { path, limit: max_bytes })
        }
        Err(files::Error::NotRegular { path, kind }) => Err(Error::NotAFile { path, kind }),
        Err(error) => Err(Error::Read { path: path.to_owned(), cause: Arc::new(error.into_io()) }),
    }
}

/// Parses what can be read of a text, and names the mistakes in its syntax.
fn parse_file(name: &LayerName, text: String) -> (Table, Arc<SourceFile>, Vec<Error>) {
    let path = name.file().unwrap_or_default();
    let file = Arc::new(SourceFile { path, text, layer: name.clone() });
    let read = |table: &DeTable<'_>| table_from_toml(table, &OriginSource::File(&file));
    let (root, mistakes) = recover(&file.text, read);
    let errors = mistakes.into_iter().map(|(span, message)| syntax(&file, span, message));
    (root, file.clone(), errors.collect())
}

fn not_utf8(name: LayerName, path: PathBuf, error: std::string::FromUtf8Error) -> Error {
    let at = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
    let file = Arc::new(SourceFile { path, text, layer: name });
    syntax(&file, at..at + 1, "a byte that is not UTF-8; save the file as UTF-8 text".to_owned())
}

fn syntax(file: &Arc<SourceFile>, span: std::ops::Range<usize>, message: String) -> Error {
    let start = span.start.min(file.text.len());
    let place = SourceRange { file: file.clone(), start, end: span.end.max(start), key: None };
    Error::Syntax { origin: Origin::File(place), message }
}

/// Parses the value of an argument: TOML, `null`, or else a string.
pub fn value_of_argument(text: &str) -> Json {
    argument_value(text, Origin::CommandLine { key: Arc::from("value") }).value.to_json()
}

fn argument_value(text: &str, origin: Origin) -> Node {
    match DeValue::parse(text.trim()) {
        Ok(toml) => Node::from_toml(&toml, &OriginSource::Elsewhere(&origin)),
        // TOML has no `null`, and this text is hardly ever meant.
        Err(_) if text.trim() == "null" => Node { value: Value::Unset, origin },
        Err(_) => Node { value: Value::Text(text.to_owned()), origin },
    }
}

/// One `key=value` as a table.
fn assignment(argument: &str) -> Result<Table, Error> {
    let refused = |message: &str| Error::Argument {
        argument: argument.to_owned(),
        message: message.to_owned(),
    };
    let (key, value) =
        key_path::split_assignment(argument).ok_or_else(|| refused("there is no `=`"))?;
    let parts = key_path::parse(key).map_err(|why| refused(&why.to_string()))?;
    let origin = Origin::CommandLine { key: Arc::from(key.trim()) };
    Ok(nested(&parts, argument_value(value, origin)))
}

/// `a.b` and a value as the table `{a = {b = value}}`.
pub(crate) fn nested(parts: &[String], leaf: Node) -> Table {
    let origin = leaf.origin.clone();
    let Some((first, inner)) = parts.split_first() else { return Table::new() };
    let node = inner.iter().rev().fold(leaf, |node, part| Node {
        value: Value::Table(Table::from([(part.clone(), node)])),
        origin: origin.clone(),
    });
    Table::from([(first.clone(), node)])
}

/// As [`merge`], but keeps `null`, which must unset the key in lower layers.
fn overlay(lower: &mut Table, upper: Table) {
    for (key, node) in upper {
        let Node { value, origin } = node;
        match (lower.get_mut(&key).map(|below| &mut below.value), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => {
                lower.insert(key, Node { value, origin });
            }
        }
    }
}
