//! The details of a plugin, and what an installation would change, in sentences. Waits for the file system.

use std::path::{Path, PathBuf};

use plugins::{Contents, Home, Installed, Marketplace, Staged, difference};
use protocol::plugin::PluginDetail;

use super::actions::{actions, hooks_of};
use super::installed::InstalledPlugin;
use super::list::{Known, folder};
use super::parts::parts;
use super::wire;

/// Stands for a plugin's folder in what is shown of its commands.
const ROOT: &str = "${AGENT_PLUGIN_ROOT}";
/// Files that are listed as changed.
const MAX_FILES: usize = 100;

impl Known<'_> {
    pub(super) fn detail(
        &self,
        marketplace: &Marketplace,
        staged: &Staged,
        home: &Home,
    ) -> PluginDetail {
        let Staged { plugin, contents, .. } = staged;
        let shown = Path::new(ROOT);
        let of = (plugin.id.as_str(), plugin.digest.as_str());
        let (parts, problems) = parts(of, (&plugin.root, shown), contents);
        let mut actions = actions(&parts);
        actions.extend(problems.into_iter().map(|problem| format!("left out: {problem}")));
        let installed = self.installed.get(&plugin.id);
        let changes = installed.map(|installed| changes(installed, plugin, &actions, home));
        let entry = marketplace.entry(&plugin.name);
        // Files of the staging folder are gone when the client looks.
        let place = entry.and_then(|entry| folder(entry, marketplace));
        let description = contents.manifest.description.clone();
        PluginDetail {
            marketplace_name: marketplace.name.clone(),
            marketplace_path: Some(marketplace.file.display().to_string()),
            summary: self.summary_of(marketplace, staged),
            description: description.or_else(|| entry.and_then(|entry| entry.description.clone())),
            skills: wire::skills(contents, &plugin.root, place.as_deref()),
            hooks: hooks_of(&parts).0.iter().map(wire::hook).collect(),
            apps: wire::apps(contents),
            mcp_servers: parts.servers.keys().cloned().collect(),
            actions,
            changes,
        }
    }
}

/// What an installation of `new` changes.
fn changes(old: &InstalledPlugin, new: &Installed, actions: &[String], home: &Home) -> Vec<String> {
    let mut changes = Vec::new();
    if old.record.version != new.version {
        let version =
            |plugin: &Installed| plugin.version.clone().unwrap_or_else(|| "none".to_owned());
        changes.push(format!("version {} becomes {}", version(&old.record), version(new)));
    }
    let before = old.contents.as_ref().map(|contents| actions_of(&old.record, contents));
    let before = before.unwrap_or_default();
    let gained = actions.iter().filter(|action| !before.contains(action));
    changes.extend(gained.map(|action| format!("new: {action}")));
    let lost = before.iter().filter(|action| !actions.contains(action));
    changes.extend(lost.map(|action| format!("no longer: {action}")));
    let files = difference(&old.record.files, &new.files);
    changes.extend(lines([
        ("adds", files.added),
        ("removes", files.removed),
        ("changes", files.changed),
    ]));
    // What somebody did to the installed files is undone.
    match home.verify(&old.record) {
        Ok(files) => changes.extend(lines([
            ("removes, which was added after the installation:", files.added),
            ("brings back, which was removed after the installation:", files.removed),
            ("brings back, which was changed after the installation:", files.changed),
        ])),
        Err(error) => changes.push(format!("replaces the installed files: {error}")),
    }
    changes
}

fn lines(files: [(&str, Vec<PathBuf>); 3]) -> Vec<String> {
    let lines = files.into_iter().flat_map(|(what, paths)| {
        paths.into_iter().map(move |path| format!("{what} {}", path.display()))
    });
    let mut lines: Vec<String> = lines.collect();
    if lines.len() > MAX_FILES {
        let more = lines.len() - MAX_FILES;
        lines.truncate(MAX_FILES);
        lines.push(format!("and {more} more files"));
    }
    lines
}

fn actions_of(plugin: &Installed, contents: &Contents) -> Vec<String> {
    let of = (plugin.id.as_str(), plugin.digest.as_str());
    let (parts, problems) = parts(of, (&plugin.root, Path::new(ROOT)), contents);
    let problems = problems.into_iter().map(|problem| format!("left out: {problem}"));
    actions(&parts).into_iter().chain(problems).collect()
}
