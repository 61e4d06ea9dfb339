//! One source of configuration, parsed and checked but not resolved: the user's file, the command
//! line, or one thread's overrides. Reading the file is the only effect in this crate.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::check::check_layer;
use crate::error::{Error, Origin, Warning};
use crate::key_path;
use crate::value::{Node, Table, Value, file_table, merge};

/// A larger file is refused: no hand-written configuration comes near.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What one source says. Layers are merged by [`crate::resolve`], later over earlier.
#[derive(Debug, Clone)]
pub struct Layer {
    pub(crate) root: Table,
    /// Profiles lie over files and under everything else.
    pub(crate) is_file: bool,
    warnings: Vec<Warning>,
}

impl Layer {
    /// Reads and parses a `config.toml`; a file that does not exist is an empty layer.
    pub fn read(path: &Path) -> Result<Layer, Error> {
        let read_error = |source| Error::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Layer::parse(path, ""),
            Err(e) => return Err(read_error(e)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Layer::parse(path, text),
            Err(e) => Err(syntax(path, &bytes[..e.valid_up_to()], "a byte that is not UTF-8")),
        }
    }

    /// Parses a file's text; `path` is for messages and for the relative paths in it.
    pub fn parse(path: &Path, text: &str) -> Result<Layer, Error> {
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start).min(text.len());
            syntax(path, &text.as_bytes()[..at], e.message())
        })?;
        Layer::checked(file_table(table.get_ref(), &Arc::from(path), text), true)
    }

    /// The `-c key=value` arguments, in order; a value that is not TOML is a string.
    pub fn command_line<S: AsRef<str>>(arguments: &[S]) -> Result<Layer, Error> {
        let mut root = Table::new();
        for argument in arguments {
            merge(&mut root, &assignment(argument.as_ref())?);
        }
        Layer::checked(root, false)
    }

    /// A thread's `config` map: its keys may be dotted, its values nested; `null` unsets a key.
    pub fn thread(map: &serde_json::Map<String, serde_json::Value>) -> Result<Layer, Error> {
        let mut root = Table::new();
        for (key, json) in map {
            let node = Node::from_json(json, &Origin::Thread);
            let parts = key_path::parse(key).map_err(|message| Error::Refused {
                origin: Origin::Thread,
                key: key.clone(),
                message,
            })?;
            overlay(&mut root, nested(&parts, node));
        }
        Layer::checked(root, false)
    }

    /// What is ignored in this layer, in the order of its keys.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn checked(mut root: Table, is_file: bool) -> Result<Layer, Error> {
        let warnings = check_layer(&mut root)?;
        Ok(Layer { root, is_file, warnings })
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
    let parts = key_path::parse(key).map_err(|message| refused(&message))?;
    let origin = Origin::CommandLine { key: Arc::from(key.trim()) };
    let node = match DeValue::parse(value.trim()) {
        Ok(toml) => Node::from_toml(&toml, 0, &|_| origin.clone()),
        Err(_) => Node { value: Value::Text(value.to_owned()), origin },
    };
    Ok(nested(&parts, node))
}

/// `a.b` and a value as the table `{a = {b = value}}`.
fn nested(parts: &[String], leaf: Node) -> Table {
    let origin = leaf.origin.clone();
    let Some((first, inner)) = parts.split_first() else { return Table::new() };
    let node = inner.iter().rev().fold(leaf, |node, part| Node {
        value: Value::Table(Table::from([(part.clone(), node)])),
        origin: origin.clone(),
    });
    Table::from([(first.clone(), node)])
}

/// As [`merge`], but keeps `null`: inside one layer it still has to reach the layers below.
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

fn syntax(path: &Path, before: &[u8], message: &str) -> Error {
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    Error::Syntax {
        path: path.to_owned(),
        line: 1 + before.iter().filter(|b| **b == b'\n').count(),
        column: 1 + String::from_utf8_lossy(&before[line_start..]).chars().count(),
        message: message.trim().replace('\n', ", "),
    }
}
