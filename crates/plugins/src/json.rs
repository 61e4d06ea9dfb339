//! Reads JSON files of bounded size, with errors that name file and line.

use std::path::Path;

use serde_json::{Map, Value};

use crate::beneath;
use crate::error::{Error, Problem};

/// Largest manifest, in bytes.
pub(crate) const MAX_JSON: u64 = 1 << 20;
/// Longest text for display, in characters.
const MAX_TEXT: usize = 4_096;

/// The object in a file below `root`; `None` if there is no such file.
pub(crate) fn read_object(
    root: &Path,
    relative: &Path,
) -> Result<Option<Map<String, Value>>, Error> {
    let Some(bytes) = beneath::read(root, relative, MAX_JSON)? else { return Ok(None) };
    parse_object(&bytes, &root.join(relative)).map(Some).map_err(Error::Refused)
}

pub(crate) fn parse_object(bytes: &[u8], path: &Path) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Problem::new(path, "the file must hold a JSON object")),
        Err(error) => Err(Problem {
            path: path.to_owned(),
            line: Some(error.line()),
            message: format!("the file is not valid JSON: {error}"),
        }),
    }
}

/// A text for display: trimmed, not empty, of bounded length, with hidden characters as numbers.
pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?.trim();
    let cut: String = text.chars().take(MAX_TEXT).collect();
    (!cut.is_empty()).then(|| visible::text(&cut).into_owned())
}

/// The texts of an array, of bounded number.
pub(crate) fn texts(value: Option<&Value>) -> Vec<String> {
    const MAX: usize = 64;
    let Some(Value::Array(values)) = value else { return Vec::new() };
    values.iter().take(MAX).filter_map(|value| text(Some(value))).collect()
}
