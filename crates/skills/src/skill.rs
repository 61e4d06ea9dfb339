//! A skill as it is read from its folder. Reading is lenient: a skill whose name breaks the rules is
//! loaded with a warning, one without a description is not loaded.

use std::path::{Path, PathBuf};

use crate::definition::{self, Dependencies, Interface};
use crate::front_matter::{self, FrontMatter, MAX_FRONT_MATTER_BYTES, Value};
use crate::problem::{Fault, Problem, unreadable};
use crate::validate;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// Largest `SKILL.md`.
pub const MAX_SKILL_BYTES: u64 = 1 << 20;
/// Kept of a description, in characters. The format allows 1,024.
const MAX_DESCRIPTION: usize = 1_024;
/// Longest name that is loaded, in characters. The format allows 64.
const MAX_NAME: usize = 128;

/// Where a skill comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The project of the working folder.
    Project,
    /// The user's home.
    User,
    /// The administrator.
    Admin,
}

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// Its purpose and when to use it.
    pub description: String,
    pub short_description: Option<String>,
    pub scope: Scope,
    /// The folder searched in which it was found.
    pub root: PathBuf,
    /// Its `SKILL.md`, below the root.
    pub path: PathBuf,
    pub interface: Option<Interface>,
    pub dependencies: Option<Dependencies>,
}

impl Skill {
    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// Reads the skill whose `SKILL.md` is at `path`. What is wrong and does not keep it from being used is
/// added to `problems`.
pub(crate) fn read(
    path: &Path,
    (scope, root): (Scope, &Path),
    problems: &mut Vec<Problem>,
) -> Result<Skill, Problem> {
    let text = read_start(path).map_err(|fault| fault.within(path))?;
    let front = front_matter::parse(&text).map_err(|fault| fault.within(path))?;
    problems.extend(front.deviations.iter().cloned().map(|fault| fault.within(path)));
    let folder = path.parent().unwrap_or(path);
    let name = name(&front, folder).map_err(|fault| fault.within(path))?;
    let line = front.field("name").map(|field| field.line);
    for message in validate::check_name(&name, Some(folder)) {
        problems.push(Fault::new(line, message).within(path));
    }
    let description = description(&front).map_err(|fault| fault.within(path))?;
    if description.chars().count() > MAX_DESCRIPTION {
        let line = front.field("description").map(|field| field.line);
        let message =
            format!("the description is cut: it has more than {MAX_DESCRIPTION} characters");
        problems.push(Fault::new(line, message).within(path));
    }
    let read = definition::read(folder);
    problems.extend(read.problems);
    Ok(Skill {
        name,
        description: description.chars().take(MAX_DESCRIPTION).collect(),
        short_description: short_description(&front),
        scope,
        root: root.to_owned(),
        path: path.to_owned(),
        interface: read.interface,
        dependencies: read.dependencies,
    })
}

/// Checks that the `SKILL.md` at `path` can be loaded; returns the faults of it or its `SKILL.json`
/// that do not keep it from being used.
///
/// # Errors
/// Why it cannot be used.
pub fn check(path: &Path) -> Result<Vec<Problem>, Problem> {
    let mut problems = Vec::new();
    let folder = path.parent().unwrap_or(path);
    read(path, (Scope::User, folder), &mut problems)?;
    Ok(problems)
}

/// The text of a skill after its front matter.
///
/// # Errors
/// The file cannot be read, or is no longer a skill.
pub fn read_body(path: &Path) -> Result<String, Problem> {
    let text = files::read_text(path, MAX_SKILL_BYTES);
    let text = text.map_err(|error| unreadable(error).within(path))?;
    let front = front_matter::parse(&text).map_err(|fault| fault.within(path))?;
    Ok(text.get(front.body..).unwrap_or_default().trim().to_owned())
}

/// The part of the file in which the front matter is.
pub(crate) fn read_start(path: &Path) -> Result<String, Fault> {
    let opened = files::open(path).map_err(unreadable)?;
    if opened.metadata.len() > MAX_SKILL_BYTES {
        let size = MAX_SKILL_BYTES >> 20;
        return Err(Fault::new(None, format!("the file is larger than {size} MiB")));
    }
    // With room for the line that ends it, and for UTF-16, which needs two bytes for what is one here.
    let most = 2 * (MAX_FRONT_MATTER_BYTES as u64 + 1_024);
    let bytes = opened.start(path, most).map_err(unreadable)?;
    if matches!(bytes.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        // The mark stays, so that it is named as a deviation.
        let text = files::decoded(bytes).map(|text| format!("\u{feff}{text}"));
        return text.map_err(|_| Fault::new(None, "the file is not UTF-8 text"));
    }
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // A character that the bound cuts in two.
        Err(error) if error.error_len().is_none() => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(Fault::at(line, "the file is not UTF-8 text"));
        }
    };
    Ok(valid.to_owned())
}

/// Without a name, the folder's is taken.
fn name(front: &FrontMatter, folder: &Path) -> Result<String, Fault> {
    let given = match front.field("name") {
        Some(field) => text(&field.value, "name", field.line)?.trim(),
        None => "",
    };
    let name = match given {
        "" => {
            folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
        given => given.to_owned(),
    };
    let line = front.field("name").map(|field| field.line);
    if name.chars().count() > MAX_NAME {
        return Err(Fault::new(line, format!("`name` has more than {MAX_NAME} characters")));
    }
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || visible::is_hidden(c)) {
        let message = "`name` must be one word of visible characters";
        return Err(Fault::new(line, message));
    }
    Ok(name)
}

fn description(front: &FrontMatter) -> Result<&str, Fault> {
    let missing = |line| {
        Fault::new(line, "`description` is missing: say what the skill does and when to use it")
    };
    let field = front.field("description").ok_or_else(|| missing(None))?;
    let description = text(&field.value, "description", field.line)?.trim();
    if description.is_empty() { Err(missing(Some(field.line))) } else { Ok(description) }
}

fn short_description(front: &FrontMatter) -> Option<String> {
    let Value::Map(metadata) = &front.field("metadata")?.value else { return None };
    let field = metadata.iter().find(|field| field.name == "short-description")?;
    let text = field.value.text().map(str::trim).filter(|text| !text.is_empty())?;
    Some(text.chars().take(MAX_DESCRIPTION).collect())
}

fn text<'v>(value: &'v Value, name: &str, line: usize) -> Result<&'v str, Fault> {
    value.text().ok_or_else(|| Fault::at(line, format!("`{name}` must be a text")))
}
