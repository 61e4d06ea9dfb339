//! The details of a plugin, and what an installation would change, in sentences. Waits for the file system.

use std::path::{Path, PathBuf};

use config::PluginParts;
use plugins::{Contents, Home, Installed, Marketplace, Staged, difference};
use protocol::plugin::PluginDetail;

use super::actions::{actions, hooks_of};
use super::list::{Known, folder};
use super::skills_of::PluginSkills;
use super::wire;
use services::error::Error;
use services::installed_plugins::InstalledPlugin;
use services::installed_plugins::parts::parts;

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
        let skills = PluginSkills::read(contents, &plugin.root, shown);
        let actions = sentences(&parts, problems, &skills, contents);
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
            skills: skills.summaries(&plugin.root, place.as_deref()),
            hooks: hooks_of(&parts).0.iter().map(wire::hook).collect(),
            apps: wire::apps(contents),
            mcp_servers: parts.servers.keys().cloned().collect(),
            actions,
            changes,
        }
    }
}

impl Known<'_> {
    /// The details of an installed plugin as it is installed. What would change is not known.
    pub(super) fn detail_of_installed(&self, id: &str, home: &Home) -> Result<PluginDetail, Error> {
        let damaged = self.installed.damaged.iter();
        let mut damaged = damaged.filter(|one| one.path.file_stem().is_some_and(|stem| stem == id));
        let Some(plugin) = self.installed.get(id) else {
            return Err(match damaged.next() {
                Some(problem) => Error::failed(problem.to_string()),
                None => {
                    let id = visible::text(id);
                    Error::not_found(format!("the plugin `{id}` is not installed"))
                        .next_step("choose one from `plugin/list`, with its `marketplacePath`")
                }
            });
        };
        let Some(contents) = &plugin.contents else {
            let why = plugin.problems.join("; ");
            return Err(Error::failed(why).next_step("install the plugin again, or uninstall it"));
        };
        let record = &plugin.record;
        let (parts, problems) =
            parts((&record.id, &record.digest), (&record.root, Path::new(ROOT)), contents);
        let skills = PluginSkills::read(contents, &record.root, Path::new(ROOT));
        let mut actions = sentences(&parts, problems, &skills, contents);
        actions.extend(tampering(record, home));
        Ok(PluginDetail {
            marketplace_name: record.marketplace.clone(),
            marketplace_path: None,
            summary: self.summary_of_installed(plugin),
            description: contents.manifest.description.clone(),
            skills: skills.summaries(&record.root, Some(&record.root)),
            hooks: hooks_of(&parts).0.iter().map(wire::hook).collect(),
            apps: wire::apps(contents),
            mcp_servers: parts.servers.keys().cloned().collect(),
            actions,
            changes: None,
        })
    }
}

/// Returns the differences between the installed files and the installation.
fn tampering(plugin: &Installed, home: &Home) -> Vec<String> {
    match home.verify(plugin) {
        Ok(files) => lines([
            ("was added after the installation:", files.added),
            ("was removed after the installation:", files.removed),
            ("was changed after the installation:", files.changed),
        ]),
        Err(error) => vec![one_line(format!("the installed files cannot be compared: {error}"))],
    }
}

/// Returns the changes that an installation of `new` makes.
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
    changes.into_iter().map(one_line).collect()
}

fn lines(files: [(&str, Vec<PathBuf>); 3]) -> Vec<String> {
    let lines = files.into_iter().flat_map(|(what, paths)| {
        paths.into_iter().map(move |path| format!("{what} {}", visible::path(&path)))
    });
    let mut lines: Vec<String> = lines.collect();
    if lines.len() > MAX_FILES {
        let more = lines.len() - MAX_FILES;
        lines.truncate(MAX_FILES);
        lines.push(format!("and {more} more files"));
    }
    lines
}

fn one_line(sentence: String) -> String {
    visible::line(&sentence).into_owned()
}

fn actions_of(plugin: &Installed, contents: &Contents) -> Vec<String> {
    let of = (plugin.id.as_str(), plugin.digest.as_str());
    let (parts, problems) = parts(of, (&plugin.root, Path::new(ROOT)), contents);
    let skills = PluginSkills::read(contents, &plugin.root, Path::new(ROOT));
    sentences(&parts, problems, &skills, contents)
}

/// Returns the possible actions and requests of a plugin, then its faults. Each is one line, so
/// that no text of the plugin looks like a sentence of its own.
fn sentences(
    parts: &PluginParts,
    problems: Vec<String>,
    skills: &PluginSkills,
    contents: &Contents,
) -> Vec<String> {
    let problems = problems.iter().map(|problem| format!("left out: {problem}"));
    let faults = skills.problems.iter().map(|problem| format!("a skill has an error: {problem}"));
    let unused = contents.unused.iter();
    let unused = unused.map(|part| format!("not used: its `{part}` (for other agents)"));
    let all = actions(parts).into_iter().chain(skills.needs.iter().cloned());
    all.chain(problems).chain(faults).chain(unused).map(one_line).collect()
}
