//! What is installed in the home, for configurations: read once, and again when it changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use config::{Config, PluginParts, Resolved};
use plugins::{Configured, Contents, Home, Installed, Plugin, Problem, Records};

use super::parts::parts;
use super::sources;

/// See the module.
pub(crate) struct InstalledPlugins {
    home: Home,
    /// The folder of the home.
    root: PathBuf,
    read: Mutex<Option<Arc<InstalledSet>>>,
}

/// When the folders of records and the damaged records changed.
type Stamp = Vec<Option<SystemTime>>;

/// All installed plugins, as they were when they were read.
pub(crate) struct InstalledSet {
    stamp: Stamp,
    /// The marketplaces of the home.
    pub(crate) marketplaces: Vec<Configured>,
    pub(crate) plugins: Vec<InstalledPlugin>,
    /// Records that cannot be used, and why.
    pub(crate) damaged: Vec<Problem>,
}

/// An installed plugin.
pub(crate) struct InstalledPlugin {
    pub(crate) record: Installed,
    pub(crate) contents: Option<Contents>,
    parts: Option<PluginParts>,
    problems: Vec<String>,
}

impl InstalledPlugins {
    pub(crate) fn new(root: PathBuf, home: Home) -> Self {
        Self { home, root, read: Mutex::default() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Whether plugins were installed or removed since they were read. Waits for the file system.
    pub(crate) fn has_changed(&self) -> bool {
        let read = self.read().clone();
        read.is_some_and(|read| read.stamp != self.stamp(&read.damaged))
    }

    /// All installed plugins. Waits for the file system.
    pub(crate) fn all(&self) -> Arc<InstalledSet> {
        let read = self.read().clone();
        if let Some(read) = read.filter(|read| read.stamp == self.stamp(&read.damaged)) {
            return read;
        }
        // Taken before reading, so that a later change is noticed the next time.
        let mut stamp = self.stamp(&[]);
        let mut damaged = Vec::new();
        let marketplaces = taken(self.home.marketplaces(), &self.root, &mut damaged);
        let records = taken(self.home.installed(), &self.root, &mut damaged);
        stamp.extend(damaged.iter().map(|one| modified(&one.path)));
        let plugins = records.into_iter().map(InstalledPlugin::read).collect();
        let set = Arc::new(InstalledSet { stamp, marketplaces, plugins, damaged });
        *self.read() = Some(set.clone());
        set
    }

    /// Adds what plugins bring to a configuration: those that are switched on and that the requirements
    /// allow. Waits for the file system.
    pub(crate) fn add_to(&self, resolved: &mut Resolved) {
        let set = self.all();
        for damaged in &set.damaged {
            let id = damaged.path.file_stem().unwrap_or_default().to_string_lossy();
            resolved.warn_of_plugin(&damaged.path, &id, damaged.message.clone());
        }
        let mut taken = Vec::new();
        for plugin in &set.plugins {
            let (folder, id) = (&plugin.record.root, &plugin.record.id);
            if !is_enabled(&resolved.config, id) {
                continue;
            }
            if let Some(why) = sources::forbidding_installed(&resolved.config, &plugin.record) {
                let message = match plugin.record.marketplace_source {
                    Some(_) => {
                        format!("the plugin is not used: {why} does not list its marketplace")
                    }
                    None => format!(
                        "the plugin is not used: {why} lists marketplaces, and where it came from is not \
                         recorded; install it again"
                    ),
                };
                resolved.warn_of_plugin(folder, id, message);
                continue;
            }
            for problem in &plugin.problems {
                resolved.warn_of_plugin(folder, id, problem.clone());
            }
            taken.extend(plugin.parts.clone());
        }
        resolved.add_plugins(taken);
    }

    /// Every change of the home renames a record; a damaged one may be mended in place.
    fn stamp(&self, damaged: &[Problem]) -> Stamp {
        let folders = [self.root.join("installed"), self.root.join("configured")];
        let all = folders.iter().chain(damaged.iter().map(|one| &one.path));
        all.map(|path| modified(path)).collect()
    }

    fn read(&self) -> MutexGuard<'_, Option<Arc<InstalledSet>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InstalledPlugin {
    fn read(record: Installed) -> Self {
        let Installed { id, digest, root, .. } = &record;
        match Plugin::read(root) {
            Ok(contents) => {
                let (parts, problems) = parts((id, digest), (root, root), &contents);
                let (contents, parts) = (Some(contents), Some(parts));
                Self { record, contents, parts, problems }
            }
            Err(error) => {
                let problems = vec![error.to_string()];
                Self { record, contents: None, parts: None, problems }
            }
        }
    }
}

impl InstalledSet {
    pub(crate) fn get(&self, id: &str) -> Option<&InstalledPlugin> {
        self.plugins.iter().find(|plugin| plugin.record.id == id)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

/// The records; what cannot be read of them is added to `damaged`.
fn taken<T>(
    read: Result<Records<T>, plugins::Error>,
    folder: &Path,
    damaged: &mut Vec<Problem>,
) -> Vec<T> {
    match read {
        Ok(read) => {
            damaged.extend(read.damaged);
            read.all
        }
        Err(error) => {
            damaged.push(error.into_problem(folder));
            Vec::new()
        }
    }
}

/// Whether the configuration has the plugin on.
pub(super) fn is_enabled(config: &Config, id: &str) -> bool {
    config.plugins.get(id).is_none_or(|plugin| plugin.enabled)
}
