//! The strict rules of the public format, for authors of skills. Loading a skill is more lenient.

use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

use crate::definition;
use crate::front_matter::{self, FrontMatter, Value};
use crate::problem::{Fault, Problem};
use crate::skill::{self, SKILL_FILE};

const FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;
const MAX_COMPATIBILITY: usize = 500;
/// Lines of text that a model is sent whole; longer ones belong into further files.
const MAX_BODY_LINES: usize = 500;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Against the format.
    pub errors: Vec<Problem>,
    /// Against its recommendations.
    pub warnings: Vec<Problem>,
}

impl Report {
    /// Returns whether the folder is a valid skill.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Checks the skill in a folder; `path` may also name its `SKILL.md`.
#[must_use]
pub fn validate(path: &Path) -> Report {
    let mut report = Report::default();
    let is_skill_file = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_FILE))
        && !path.is_dir();
    let folder = match is_skill_file {
        true => path.parent().unwrap_or(path),
        false => path,
    };
    let Some(file) = skill_file(folder) else {
        let message = match folder.is_dir() {
            true => format!("the folder has no {SKILL_FILE}"),
            false => "there is no such folder".to_owned(),
        };
        report.errors.push(Fault::new(None, message).within(folder));
        return report;
    };
    let text = match skill::read_start(&file) {
        Ok(text) => text,
        Err(fault) => {
            report.errors.push(fault.within(&file));
            return report;
        }
    };
    match front_matter::parse(&text) {
        Err(fault) => report.errors.push(fault.within(&file)),
        Ok(front) => {
            let faults = faults(&front, Some(folder));
            report.errors.extend(faults.into_iter().map(|fault| fault.within(&file)));
            let advice = advice(&front, text.get(front.body..).unwrap_or_default());
            report.warnings.extend(advice.into_iter().map(|fault| fault.within(&file)));
        }
    }
    report.warnings.extend(definition::read(folder).problems);
    report
}

fn skill_file(folder: &Path) -> Option<PathBuf> {
    let candidates = [SKILL_FILE, "skill.md"].map(|name| folder.join(name));
    candidates.into_iter().find(|file| file.exists())
}

fn faults(front: &FrontMatter, folder: Option<&Path>) -> Vec<Fault> {
    let mut faults = front.deviations.clone();
    for field in front.fields.iter().filter(|field| !FIELDS.contains(&&*field.name)) {
        let message = format!(
            "`{}` is not a field of the format, which has {}",
            field.name,
            FIELDS.join(", ")
        );
        faults.push(Fault::at(field.line, message));
    }
    match front.field("name") {
        None => faults.push(Fault::new(None, "`name` is missing")),
        Some(field) => match field.value.text().map(str::trim).filter(|text| !text.is_empty()) {
            None => faults.push(Fault::at(field.line, "`name` must be a text that is not empty")),
            Some(name) => {
                let found = check_name(name, folder).into_iter();
                faults.extend(found.map(|message| Fault::at(field.line, message)));
            }
        },
    }
    match front.field("description") {
        None => faults.push(Fault::new(None, "`description` is missing")),
        Some(field) => match field.value.text().filter(|text| !text.trim().is_empty()) {
            None => {
                let message = "`description` must be a text that is not empty";
                faults.push(Fault::at(field.line, message));
            }
            Some(text) => {
                faults.extend(too_long("description", text, MAX_DESCRIPTION, field.line));
            }
        },
    }
    if let Some(field) = front.field("compatibility") {
        match field.value.text() {
            None => faults.push(Fault::at(field.line, "`compatibility` must be a text")),
            Some(text) => {
                faults.extend(too_long("compatibility", text, MAX_COMPATIBILITY, field.line));
            }
        }
    }
    faults
}

fn too_long(name: &str, text: &str, most: usize, line: usize) -> Option<Fault> {
    let count = text.chars().count();
    let message = || format!("`{name}` has {count} characters, at most {most} are allowed");
    (count > most).then(|| Fault::at(line, message()))
}

/// Returns the faults of a name; `folder` must have the same one.
#[must_use]
pub fn check_name(name: &str, folder: Option<&Path>) -> Vec<String> {
    let normal: String = name.nfkc().collect();
    let mut found = Vec::new();
    let count = normal.chars().count();
    if count > MAX_NAME {
        found.push(format!("`name` has {count} characters, at most {MAX_NAME} are allowed"));
    }
    if normal != normal.to_lowercase() {
        found.push(format!("`name` must be in lower case: `{}`", normal.to_lowercase()));
    }
    if normal.starts_with('-') || normal.ends_with('-') {
        found.push("`name` must not start or end with a hyphen".to_owned());
    }
    if normal.contains("--") {
        found.push("`name` must not have two hyphens in a row".to_owned());
    }
    if normal.chars().any(|c| !c.is_alphanumeric() && c != '-') {
        found.push("`name` may have letters, digits and hyphens only".to_owned());
    }
    let folder_name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy());
    if let Some(folder) = folder_name.filter(|folder| folder.nfkc().collect::<String>() != normal) {
        found.push(format!("`name` is `{name}`, but the folder is `{folder}`: make them the same"));
    }
    found
}

/// Returns the format's recommendations that a skill does not follow.
fn advice(front: &FrontMatter, body: &str) -> Vec<Fault> {
    let mut found = Vec::new();
    for name in ["license", "allowed-tools"] {
        if let Some(field) = front.field(name).filter(|field| field.value.text().is_none()) {
            found.push(Fault::at(field.line, format!("`{name}` should be a text")));
        }
    }
    if let Some(field) = front.field("metadata") {
        let is_text_map = match &field.value {
            Value::Map(fields) => fields.iter().all(|field| field.value.text().is_some()),
            Value::Text(_) | Value::List(_) => false,
        };
        if !is_text_map {
            found.push(Fault::at(field.line, "`metadata` should map keys to texts"));
        }
    }
    let lines = body.lines().count();
    if lines > MAX_BODY_LINES {
        let message = format!(
            "the text has more than {MAX_BODY_LINES} lines: move details into files of the folder"
        );
        found.push(Fault::new(None, message));
    }
    found
}
