//! The front matter of a `SKILL.md`: YAML between two lines `---`, of bounded size and depth. Values are
//! text: the format has no numbers, dates or booleans. Tags, anchors, aliases and duplicate keys are
//! errors.

mod tree;

use std::borrow::Cow;

use crate::problem::Fault;
pub use tree::{Field, Value};

/// Largest front matter.
pub const MAX_FRONT_MATTER_BYTES: usize = 64 << 10;

const DELIMITER: &str = "---";

/// A parsed front matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatter {
    /// In the order of the file.
    pub fields: Vec<Field>,
    /// Offset of the text after it.
    pub body: usize,
    /// The text that the public format forbids and this parser accepts.
    pub deviations: Vec<Fault>,
}

impl FrontMatter {
    /// The field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses the front matter of a file, which may be cut off after [`MAX_FRONT_MATTER_BYTES`].
///
/// # Errors
/// There is none, it is not closed or too large, or it is no mapping of the format.
pub fn parse(text: &str) -> Result<FrontMatter, Fault> {
    let (yaml, body) = split(text)?;
    let mut deviations = Vec::new();
    if text.starts_with('\u{feff}') {
        deviations.push(Fault::at(1, "the file starts with a byte order mark: remove it"));
    }
    let parsed = match tree::parse(yaml) {
        Ok(parsed) => parsed,
        Err(fault) => {
            // Many published skills have a description with an unquoted `: `.
            let (quoted, lines) = quote_plain_values(yaml);
            let Some(parsed) = tree::parse(&quoted).ok().filter(|_| !lines.is_empty()) else {
                return Err(Fault { line: fault.line.map(|line| file_line(yaml, line)), ..fault });
            };
            let message = "a value with `: ` or ` #` must be quoted";
            deviations.extend(lines.into_iter().map(|line| Fault::at(line + 1, message)));
            parsed
        }
    };
    let (mut fields, flow) = parsed;
    put_on_file_lines(&mut fields, yaml);
    let message = "collections in brackets are not part of the format: write one entry a line";
    deviations.extend(flow.into_iter().map(|line| Fault::at(file_line(yaml, line), message)));
    Ok(FrontMatter { fields, body, deviations })
}

/// Gives fields, and those below them, their lines of the file.
fn put_on_file_lines(fields: &mut [Field], yaml: &str) {
    for field in fields {
        field.line = file_line(yaml, field.line);
        if let Value::Map(fields) = &mut field.value {
            put_on_file_lines(fields, yaml);
        }
    }
}

/// The line of the file, from 1, for a line of the front matter, which begins on line 2. In YAML, a
/// carriage return alone ends a line as well; editors do not count it.
fn file_line(yaml: &str, line: usize) -> usize {
    if !yaml.contains('\r') {
        return line + 1;
    }
    let starts_with_break = |rest: &[u8]| match rest {
        [b'\n', ..] => true,
        [b'\r', next @ ..] => !next.starts_with(b"\n"),
        _ => false,
    };
    let bytes = yaml.as_bytes();
    let ends = (0..bytes.len()).filter(|at| bytes.get(*at..).is_some_and(starts_with_break));
    2 + ends.take(line.saturating_sub(1)).filter(|at| bytes.get(*at) == Some(&b'\n')).count()
}

/// The YAML, and the offset of what follows its end.
fn split(text: &str) -> Result<(&str, usize), Fault> {
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    let offset = text.len() - content.len();
    let first = content.split_inclusive('\n').next().unwrap_or_default();
    if first.trim_end() != DELIMITER {
        let message = format!("the file must start with YAML front matter: a line `{DELIMITER}`");
        return Err(Fault::at(1, message));
    }
    let mut at = first.len();
    while let Some(line) = content.get(at..).and_then(|rest| rest.split_inclusive('\n').next()) {
        if line.starts_with(DELIMITER) && line.trim_end() == DELIMITER {
            let yaml = content.get(first.len()..at).unwrap_or_default();
            return Ok((yaml, offset + at + line.len()));
        }
        at += line.len();
        if at > MAX_FRONT_MATTER_BYTES {
            let size = MAX_FRONT_MATTER_BYTES >> 10;
            return Err(Fault::at(1, format!("the front matter is larger than {size} KiB")));
        }
    }
    Err(Fault::at(1, format!("the front matter has no end: add a line `{DELIMITER}` after it")))
}

/// Quotes the plain values of top-level keys that YAML could read in another way. Returns the lines that
/// changed, from 1.
fn quote_plain_values(yaml: &str) -> (String, Vec<usize>) {
    let mut lines = Vec::new();
    let quoted = yaml.lines().enumerate().map(|(at, line)| {
        let quoted = quote_line(line);
        if matches!(quoted, Cow::Owned(_)) {
            lines.push(at + 1);
        }
        quoted
    });
    let quoted: Vec<Cow<'_, str>> = quoted.collect();
    (quoted.join("\n"), lines)
}

fn quote_line(line: &str) -> Cow<'_, str> {
    let Some((key, value)) = line.split_once(':') else { return line.into() };
    let is_key =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let trimmed = value.trim();
    let is_quoted = trimmed.starts_with(['\'', '"', '|', '>', '[', '{', '&', '*', '!']);
    let is_ambiguous = trimmed.contains(": ") || trimmed.ends_with(':') || trimmed.contains(" #");
    if !is_key || !value.starts_with(' ') || is_quoted || !is_ambiguous {
        return line.into();
    }
    format!("{key}: '{}'", trimmed.replace('\'', "''")).into()
}

#[cfg(test)]
mod tests;
