//! Typed reads from a merged table. The layers are checked already; a value that does not fit after
//! merging is still reported like any other, never skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::check::wrong_type;
use crate::error::{Error, Origin};
use crate::key_path::join;
use crate::value::{Node, Table, Value};

/// One table, and where it stands in the whole.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'t> {
    table: Option<&'t Table>,
    /// The table's own key; empty at the root.
    at: &'t [&'t str],
}

impl<'t> Reader<'t> {
    pub(crate) fn root(table: &'t Table) -> Self {
        Self { table: Some(table), at: &[] }
    }

    /// The table at `at`, counted from `root`; one that is absent reads as empty.
    pub(crate) fn table(root: &'t Table, at: &'t [&'t str]) -> Self {
        let mut table = Some(root);
        for part in at {
            table = match table.and_then(|t| t.get(*part)).map(|node| &node.value) {
                Some(Value::Table(inner)) => Some(inner),
                _ => None,
            };
        }
        Self { table, at }
    }

    pub(crate) fn node(&self, key: &str) -> Option<&'t Node> {
        self.table?.get(key)
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        self.read(key, "true or false", |value| match value {
            Value::Boolean(b) => Some(*b),
            _ => None,
        })
    }

    pub(crate) fn whole(&self, key: &str) -> Result<Option<u64>, Error> {
        self.read(key, "a whole number", |value| match value {
            Value::Integer(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        self.read(key, "a string", |value| as_text(value).map(str::to_owned))
    }

    /// A string that `parse` knows.
    pub(crate) fn choice<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.read(key, "one of the names of this key", |value| as_text(value).and_then(&parse))
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.read(key, "an array of strings", |value| {
            let Value::Array(all) = value else { return None };
            all.iter().map(|one| as_text(&one.value).map(str::to_owned)).collect()
        })
    }

    pub(crate) fn text_map(&self, key: &str) -> Result<BTreeMap<String, String>, Error> {
        let map = self.read(key, "a table of strings", |value| {
            let Value::Table(all) = value else { return None };
            all.iter().map(|(k, v)| Some((k.clone(), as_text(&v.value)?.to_owned()))).collect()
        })?;
        Ok(map.unwrap_or_default())
    }

    /// A path: `~/` is the user's home, a relative one counts from the declaring file's folder, or
    /// from `cwd` when it comes from the command line or a thread.
    pub(crate) fn path(&self, key: &str, roots: &PathRoots<'_>) -> Result<Option<PathBuf>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        Ok(self.text(key)?.map(|text| roots.absolute(&text, &node.origin)))
    }

    pub(crate) fn paths(&self, key: &str, roots: &PathRoots<'_>) -> Result<Vec<PathBuf>, Error> {
        let Some(Node { value: Value::Array(all), .. }) = self.node(key) else {
            return Ok(self.texts(key)?.unwrap_or_default().into_iter().map(Into::into).collect());
        };
        let texts = self.texts(key)?.unwrap_or_default();
        Ok(texts.iter().zip(all).map(|(text, node)| roots.absolute(text, &node.origin)).collect())
    }

    /// The full dotted key, for messages.
    pub(crate) fn full(&self, key: &str) -> String {
        join(&self.at.iter().copied().chain([key]).collect::<Vec<_>>())
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'t Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(node) = self.node(key) else { return Ok(None) };
        match convert(&node.value) {
            Some(value) => Ok(Some(value)),
            None => Err(wrong_type(node, &self.full(key), expected, None)),
        }
    }
}

/// What relative paths count from.
pub(crate) struct PathRoots<'r> {
    pub(crate) cwd: &'r Path,
    pub(crate) user_home: Option<PathBuf>,
}

impl PathRoots<'_> {
    fn absolute(&self, text: &str, origin: &Origin) -> PathBuf {
        if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), &self.user_home) {
            return home.join(rest);
        }
        match origin {
            Origin::File { path, .. } => path.parent().unwrap_or(self.cwd).join(text),
            Origin::CommandLine { .. } | Origin::Thread => self.cwd.join(text),
        }
    }
}

fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}
