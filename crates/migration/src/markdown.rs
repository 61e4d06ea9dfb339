//! Commands and sub-agents: Markdown files with front matter, one file each. Commands of other formats become
//! the same skills.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::bounds::{DEPTH, NAME_CHARS};
use crate::error::Error;
use crate::front_matter::{self, Document};
use crate::item::{Change, Item, Roots};
use crate::source;

/// Characters of a description.
const DESCRIPTION_CHARS: usize = 1024;

/// The files below `folder` that end with `ending`, with their names: `a/b.md` is `a-b`.
pub(crate) fn documents(
    root: &Path,
    folder: &Path,
    ending: &str,
) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut found = Vec::new();
    collect((root, folder), ending, ("", 0), &mut found)?;
    Ok(found)
}

fn collect(
    (root, folder): (&Path, &Path),
    ending: &str,
    (prefix, depth): (&str, usize),
    found: &mut Vec<(String, PathBuf)>,
) -> Result<(), Error> {
    for path in source::entries(root, folder)? {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() && depth < DEPTH {
            let prefix = format!("{prefix}{file}-");
            collect((root, &path), ending, (&prefix, depth + 1), found)?;
        } else if let Some(stem) = file.strip_suffix(ending) {
            found.push((format!("{prefix}{stem}"), path));
        }
    }
    Ok(())
}

/// Reads each of the files and passes it on.
fn each(
    (root, folder): (&Path, &Path),
    item: &mut Item,
    mut add: impl FnMut(&str, &Path, Document, &mut Item),
) -> Result<(), Error> {
    for (name, path) in documents(root, folder, ".md")? {
        match source::text(root, &path) {
            Ok(Some(text)) if text.trim().is_empty() => item.leave_out(&name, "its file is empty"),
            Ok(Some(text)) => add(&name, &path, front_matter::parse(&text), item),
            Ok(None) => {}
            Err(error) => item.leave_out(&name, &error.to_string()),
        }
    }
    Ok(())
}

/// A name as skills and roles have them: lower case, digits and single hyphens.
fn plain_name(name: &str) -> Option<String> {
    let mut plain = String::new();
    for c in name.to_lowercase().chars() {
        match c {
            c if c.is_ascii_alphanumeric() => plain.push(c),
            '-' | '_' | ' ' | '.' | ':' if !plain.ends_with('-') => plain.push('-'),
            '-' | '_' | ' ' | '.' | ':' => {}
            _ => return None,
        }
    }
    let plain = plain.trim_matches('-').to_owned();
    (!plain.is_empty() && plain.len() <= NAME_CHARS).then_some(plain)
}

fn cut(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(DESCRIPTION_CHARS).collect()
}

/// Commands become skills, which the user names with `$name`.
pub(crate) fn commands(
    source: (&Path, &Path),
    target: &Path,
    item: &mut Item,
) -> Result<(), Error> {
    each(source, item, |name, _, document, item| {
        if has_shell_lines(&document.body) {
            let why =
                "it runs commands when it is used (`!` and backquotes), which skills never do";
            return item.leave_out(name, why);
        }
        let arguments = match document.body.contains("$ARGUMENTS") || document.body.contains("$1") {
            true => {
                "\nHere `$ARGUMENTS`, `$1`, `$2` … stand for the words that the user wrote after the \
                     skill's name.\n"
            }
            false => "",
        };
        let command = Command {
            name,
            description: document.field("description"),
            arguments,
            text: &document.body,
        };
        add_command(&command, target, item);
    })
}

/// A command of another agent.
pub(crate) struct Command<'c> {
    pub(crate) name: &'c str,
    pub(crate) description: Option<&'c str>,
    /// The instructions for the model about arguments; empty when there are none.
    pub(crate) arguments: &'c str,
    pub(crate) text: &'c str,
}

/// Adds a command as a skill.
pub(crate) fn add_command(command: &Command<'_>, target: &Path, item: &mut Item) {
    let Command { name, description, arguments, text } = command;
    let Some(plain) = plain_name(name) else {
        return item.leave_out(name, "a skill's name has ASCII letters, digits and hyphens");
    };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let description = description.unwrap_or(first.trim_start_matches('#'));
    let description = cut(&format!("Command `/{name}`: {}", description.trim()));
    let template = skills::template(&plain, &description);
    let head = template.find("\n---\n\n").map_or("", |end| &template[..end + 5]);
    let text = format!("{head}{arguments}\n{}\n", text.trim());
    let files = vec![(PathBuf::from(skills::SKILL_FILE), text.into_bytes())];
    let change = Change::Files { at: target.join(&plain), files, from: None, role: None };
    item.add(name, format!("becomes the skill `${plain}`"), change);
}

fn has_shell_lines(body: &str) -> bool {
    body.contains("!`")
}

/// Sub-agents become roles: a file with the instructions, and an entry of the configuration.
pub(crate) fn subagents(
    source: (&Path, &Path),
    (roots, project): (&Roots, Option<&Path>),
    item: &mut Item,
) -> Result<(), Error> {
    let own = roots.own_folder(project);
    each(source, item, |stem, path, document, item| {
        let name = document.field("name").unwrap_or(stem);
        let Some(plain) = plain_name(name) else {
            return item.leave_out(name, "a role's name has ASCII letters, digits and hyphens");
        };
        // The keys of `agents` that are no roles.
        if plain.starts_with("max-") {
            return item.leave_out(name, "roles must not begin with `max`");
        }
        let file = toml::Table::from_iter([(
            "developer_instructions".to_owned(),
            toml::Value::String(document.body.trim().to_owned()),
        )]);
        let Ok(text) = toml::to_string(&file) else {
            return item.leave_out(name, "its text cannot be written as TOML");
        };
        let place = Path::new("roles").join(format!("{plain}.toml"));
        let description = cut(document.field("description").unwrap_or(stem));
        let value = json!({ "description": description, "config_file": &place });
        let mut summary = format!("becomes the role `{plain}`");
        let unmapped = document.others(&["name", "description"]);
        let unmapped: Vec<String> = unmapped.into_iter().map(visible::exact).collect();
        if !unmapped.is_empty() {
            summary = format!("{summary}, without its {}", unmapped.join(", "));
        }
        let files = vec![(PathBuf::new(), text.into_bytes())];
        let role = Some((plain, value));
        let change = Change::Files { at: own.join(place), files, from: None, role };
        item.add(name, format!("{summary} ({})", path.display()), change);
    })
}
