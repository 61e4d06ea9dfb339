//! The parts of a plugin, as configurations take them.

use std::collections::BTreeMap;
use std::path::Path;

use config::PluginParts;
use plugins::Contents;

use super::servers;

/// Bytes of a file of hooks.
const MAX_HOOKS: u64 = 1 << 20;

/// The parts of a plugin, and what is left out of them. `folder` has its files; `root` is its folder as they and
/// the commands of MCP servers name it. Waits for the file system.
pub fn parts(
    (id, digest): (&str, &str),
    (folder, root): (&Path, &Path),
    contents: &Contents,
) -> (PluginParts, Vec<String>) {
    let manifest = &contents.manifest;
    let shown = |path: &Path| match path.strip_prefix(folder) {
        Ok(rest) => root.join(rest),
        Err(_) => path.to_owned(),
    };
    let problems = contents.problems.iter().cloned();
    let mut problems: Vec<String> =
        problems.map(|problem| problem.moved(folder, root).to_string()).collect();
    let mut hooks = Vec::new();
    for file in &contents.hooks {
        match files::read_text(file, MAX_HOOKS) {
            Ok(text) => hooks.push((shown(file), text)),
            Err(error) => {
                problems.push(format!("{}: {}", shown(file).display(), error.into_io()));
            }
        }
    }
    hooks.extend(contents.inline_hooks.iter().map(|one| (shown(&one.file), one.text.clone())));
    let mut entries = BTreeMap::new();
    for (name, definition) in &contents.mcp_servers {
        match servers::entry(definition, root) {
            Ok(entry) => drop(entries.insert(name.clone(), entry)),
            Err(why) => problems.push(format!("the MCP server `{name}` is left out: {why}")),
        }
    }
    let interface = manifest.interface.as_ref();
    let display_name = interface.and_then(|interface| interface.display_name.clone());
    let parts = PluginParts {
        id: id.to_owned(),
        name: manifest.name.clone(),
        display_name: display_name.unwrap_or_else(|| manifest.name.clone()),
        root: root.to_owned(),
        digest: digest.to_owned(),
        skill_folders: contents.skills.iter().map(|path| shown(path)).collect(),
        hooks,
        apps: contents.apps.iter().map(|app| app.id.clone()).collect(),
        servers: entries,
    };
    (parts, problems)
}
