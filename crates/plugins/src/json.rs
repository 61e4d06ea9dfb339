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

/// The object in a text. A member that is there twice is an error, because only one of them would count.
pub(crate) fn parse_object(bytes: &[u8], path: &Path) -> Result<Map<String, Value>, Problem> {
    let Ok(text) = files::decoded(bytes.to_vec()) else {
        return Err(Problem::new(path, "the file is not text in UTF-8 or UTF-16"));
    };
    match hooks::read_json(text.as_bytes()) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Problem::new(path, "the file must hold a JSON object")),
        Err(error) => Err(Problem {
            path: path.to_owned(),
            line: Some(error.line()),
            message: format!("the file is not valid JSON: {error}"),
        }),
    }
}

/// The members that are not known, and look like a misspelt one of `known`: what to say of each. `others` are
/// members that other programs read.
pub(crate) fn misspelt(
    members: &Map<String, Value>,
    known: &[&str],
    others: &[&str],
) -> Vec<String> {
    const MAX: usize = 16;
    let is_known = |name: &str| known.contains(&name) || others.contains(&name);
    let unknown = members.keys().filter(|name| name.len() <= 64 && !is_known(name));
    let said = unknown.filter_map(|name| {
        let near = known.iter().find(|known| is_near(name, known))?;
        let name = visible::line(name);
        Some(format!("the member `{name}` is not known and not read; `{near}` may be meant"))
    });
    said.take(MAX).collect()
}

/// Returns whether two names differ in case and separators, and in at most one letter, or two of
/// long names.
fn is_near(one: &str, other: &str) -> bool {
    let plain = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    strsim::levenshtein(&plain(one), &plain(other)) <= if other.len() < 6 { 1 } else { 2 }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_is_there_twice_is_an_error_with_its_line() {
        for (text, name) in [
            ("{\"a\": 1,\n\"a\": 2}", "a"),
            ("{\"a\": {\"b\": [{\"c\": 1,\n\"c\": 2}]}}", "c"),
            ("{\"hooks\": {},\n\"hooks\": {}}", "hooks"),
        ] {
            let problem = parse_object(text.as_bytes(), Path::new("/f.json")).unwrap_err();
            assert_eq!((problem.path.as_path(), problem.line), (Path::new("/f.json"), Some(2)));
            assert!(problem.message.contains(&format!("`{name}` is there twice")), "{problem:?}");
        }
    }

    #[test]
    fn misspelt_members_are_named() {
        let known = ["name", "skills", "hooks", "mcpServers", "apps"];
        for (member, expected) in [
            ("mcpservers", Some("mcpServers")),
            ("mcp_servers", Some("mcpServers")),
            ("hook", Some("hooks")),
            ("Skills", Some("skills")),
            ("skils", Some("skills")),
            ("hooks", None),
            ("author", None),
            ("tags", None),
            ("$schema", None),
        ] {
            let members = json!({ member: 1 });
            let said = misspelt(members.as_object().unwrap(), &known, &["author"]);
            assert_eq!(said.is_empty(), expected.is_none(), "{member}: {said:?}");
            if let (Some(said), Some(expected)) = (said.first(), expected) {
                assert!(said.contains(&format!("`{expected}` may be meant")), "{said}");
            }
        }
    }
}
