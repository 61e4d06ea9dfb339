//! What is installed in the home, for configurations: read once, and again when it changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use config::{Config, PluginParts, Resolved};
use plugins::{Configured, Contents, Home, Installed, Plugin};

use super::parts::parts;
use super::sources;

/// See the module.
pub(crate) struct InstalledPlugins {
    home: Home,
    /// The folder of the home.
    root: PathBuf,
    read: Mutex<Option<Arc<InstalledSet>>>,
}

/// When the folders of records changed.
type Stamp = [Option<SystemTime>; 2];

/// All installed plugins, as they were when they were read.
pub(crate) struct InstalledSet {
    stamp: Stamp,
    /// The marketplaces of the home.
    pub(crate) marketplaces: Vec<Configured>,
    pub(crate) plugins: Vec<InstalledPlugin>,
    /// Why the list cannot be read.
    problem: Option<String>,
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
        let stamp = self.read().as_ref().map(|read| read.stamp);
        stamp.is_some_and(|stamp| stamp != self.stamp())
    }

    /// All installed plugins. Waits for the file system.
    pub(crate) fn all(&self) -> Arc<InstalledSet> {
        // Taken before reading, so that a later change is noticed the next time.
        let stamp = self.stamp();
        if let Some(read) = self.read().as_ref().filter(|read| read.stamp == stamp) {
            return read.clone();
        }
        let read = self.home.marketplaces().and_then(|all| Ok((all, self.home.installed()?)));
        let (marketplaces, records, problem) = match read {
            Ok((marketplaces, records)) => (marketplaces, records, None),
            Err(error) => (Vec::new(), Vec::new(), Some(error.to_string())),
        };
        let plugins = records.into_iter().map(InstalledPlugin::read).collect();
        let set = Arc::new(InstalledSet { stamp, marketplaces, plugins, problem });
        *self.read() = Some(set.clone());
        set
    }

    /// Adds what plugins bring to a configuration: those that are switched on and that the requirements
    /// allow. Waits for the file system.
    pub(crate) fn add_to(&self, resolved: &mut Resolved) {
        let set = self.all();
        if let Some(problem) = &set.problem {
            resolved.warn_of_plugin(&self.root, "*", problem.clone());
        }
        let mut taken = Vec::new();
        for plugin in &set.plugins {
            let (folder, id) = (&plugin.record.root, &plugin.record.id);
            if !is_enabled(&resolved.config, id) {
                continue;
            }
            if let Some(why) = set.forbidding(&resolved.config, &plugin.record.marketplace) {
                let message =
                    format!("the plugin is not used: {why} does not list its marketplace");
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

    /// Every change of the home renames a record.
    fn stamp(&self) -> Stamp {
        ["installed", "configured"]
            .map(|name| self.root.join(name).metadata().and_then(|one| one.modified()).ok())
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

    /// Why the home cannot be read.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The requirement that does not list the marketplace of this name, as part of a sentence. One that is
    /// not in the home is in no list.
    pub(crate) fn forbidding(&self, config: &Config, marketplace: &str) -> Option<String> {
        match self.marketplaces.iter().find(|one| one.name == marketplace) {
            Some(marketplace) => sources::forbidding(config, marketplace),
            None => config.requirements.restricting_marketplaces(),
        }
    }
}

/// Whether the configuration has the plugin on.
pub(super) fn is_enabled(config: &Config, id: &str) -> bool {
    config.plugins.get(id).is_none_or(|plugin| plugin.enabled)
}
