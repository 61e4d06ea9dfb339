//! Where Cursor keeps its configuration. Its rules of the user are in its own settings, in no file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::Agent;
use crate::bounds::DEPTH;
use crate::error::Error;
use crate::item::{Detected, Item, Kind, Roots};
use crate::{front_matter, instructions, markdown, mcp, skill_folders, source};

const AGENT: Agent = Agent::Cursor;

/// See [`crate::detect`].
pub(crate) fn detect(roots: &Roots, project: Option<&Path>, detected: &mut Detected) {
    let base = project.unwrap_or(&roots.user_home);
    let mut add = |kind, read: &dyn Fn(&mut Item) -> Result<(), Error>| {
        let mut item = Item::new(kind, AGENT, project);
        if let Err(error) = read(&mut item) {
            detected.problems.push(error);
        }
        detected.items.push(item);
    };
    if let Some(root) = project {
        // Its `AGENTS.md` is read where it is.
        add(Kind::Instructions, &|item| rules(root, item));
    }
    add(Kind::McpServers, &|item| servers(base, &base.join(".cursor/mcp.json"), item));
    let (folder, skills) = (base.join(".cursor"), roots.own_folder(project).join("skills"));
    add(Kind::Skills, &|item| skill_folders::add(base, &folder.join("skills"), &skills, item));
    add(Kind::Commands, &|item| {
        markdown::commands((base, &folder.join("commands")), &skills, item)
    });
    add(Kind::Settings, &|item| {
        for name in ["cli-config.json", "cli.json", "hooks.json"] {
            let Some(read) = source::json(base, &folder.join(name))? else { continue };
            for member in read.as_object().into_iter().flatten().map(|(member, _)| member) {
                item.leave_out(&format!("{member} of {name}"), "it has no counterpart here");
            }
        }
        Ok(())
    });
}

fn servers(root: &Path, file: &Path, item: &mut Item) -> Result<(), Error> {
    let Some(read) = source::json(root, file)? else { return Ok(()) };
    match &read["mcpServers"] {
        Value::Null => Ok(()),
        Value::Object(servers) => {
            mcp::add_json(servers, item);
            Ok(())
        }
        _ => Err(Error::contents(file, "its member `mcpServers` must be an object")),
    }
}

/// The rules that always apply become blocks of `AGENTS.md`.
fn rules(root: &Path, item: &mut Item) -> Result<(), Error> {
    let old = root.join(".cursorrules");
    if let Some(text) = source::text(root, &old)? {
        add_rule(root, &old, &text, item);
    }
    let mut found = Vec::new();
    documents(root, &root.join(".cursor/rules"), 0, &mut found)?;
    for path in found {
        let name = relative(root, &path);
        match source::text(root, &path) {
            Ok(Some(text)) => {
                let document = front_matter::parse(&text);
                match document.field("alwaysApply") {
                    Some("true") => add_rule(root, &path, &document.body, item),
                    _ => item.leave_out(
                        &name,
                        "it does not always apply (`alwaysApply`); make it a skill, or an `AGENTS.md` \
                         of the folder that it is about",
                    ),
                }
            }
            Ok(None) => {}
            Err(error) => item.leave_out(&name, &error.to_string()),
        }
    }
    Ok(())
}

fn add_rule(root: &Path, path: &Path, text: &str, item: &mut Item) {
    let name = relative(root, path);
    instructions::add(&name, text.trim(), Some(&root.join("AGENTS.md")), item);
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn documents(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for path in source::entries(root, folder)? {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() && depth < DEPTH {
            documents(root, &path, depth + 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "mdc") {
            found.push(path);
        }
    }
    Ok(())
}
