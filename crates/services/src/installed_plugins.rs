//! The installed plugins of the home, for configurations: read once, and again when they change.

pub mod parts;
pub mod servers;
pub mod sources;
mod stamp;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::{Config, PluginParts, Resolved};
use plugins::{Configured, Contents, Home, Installed, Plugin, Problem, Records};

use parts::parts;
use stamp::Stamp;

/// The installed plugins of the home.
pub struct InstalledPlugins {
    home: Home,
    /// The folder of the home.
    root: PathBuf,
    read: Mutex<Option<Arc<InstalledSet>>>,
}

/// Readings in a row while files are changed.
const MAX_READINGS: usize = 3;

/// All installed plugins, as they were when they were read.
pub struct InstalledSet {
    /// The files that were read, and their state before that.
    watched: Vec<PathBuf>,
    stamp: Stamp,
    /// The marketplaces of the home.
    pub marketplaces: Vec<Configured>,
    pub plugins: Vec<InstalledPlugin>,
    /// Records that cannot be used, and why.
    pub damaged: Vec<Problem>,
}

/// An installed plugin.
pub struct InstalledPlugin {
    pub record: Installed,
    pub contents: Option<Contents>,
    parts: Option<PluginParts>,
    pub problems: Vec<String>,
}

impl InstalledPlugins {
    pub fn new(root: PathBuf, home: Home) -> Self {
        Self { home, root, read: Mutex::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Returns whether something of the plugins was changed since they were read, in whatever way.
    /// Waits for the file system.
    pub fn has_changed(&self) -> bool {
        let read = self.read().clone();
        read.is_some_and(|read| read.has_changed())
    }

    /// All installed plugins. Waits for the file system.
    pub fn all(&self) -> Arc<InstalledSet> {
        let read = self.read().clone();
        let mut watched = match read {
            Some(read) if !read.has_changed() => return read,
            Some(read) => read.watched.clone(),
            None => self.folders().into(),
        };
        let mut readings = 0;
        let set = loop {
            // Taken before reading, so that a later change is noticed the next time.
            let stamp = Stamp::of(&watched);
            let mut set = self.read_all(stamp);
            readings += 1;
            if set.watched == watched || readings == MAX_READINGS {
                set.watched = watched;
                break Arc::new(set);
            }
            watched = set.watched;
        };
        *self.read() = Some(set.clone());
        set
    }

    fn read_all(&self, stamp: Stamp) -> InstalledSet {
        let mut damaged = Vec::new();
        let marketplaces = taken(self.home.marketplaces(), &self.root, &mut damaged);
        let records = taken(self.home.installed(), &self.root, &mut damaged);
        let plugins: Vec<InstalledPlugin> =
            records.into_iter().map(InstalledPlugin::read).collect();
        let [installed, configured] = self.folders();
        let of_marketplaces =
            marketplaces.iter().map(|one| configured.join(format!("{}.json", one.name)));
        let of_plugins = plugins.iter().flat_map(|plugin| {
            let record = installed.join(format!("{}.json", plugin.record.id));
            std::iter::once(record).chain(plugin.files())
        });
        let of_damaged = damaged.iter().map(|one| one.path.clone());
        let mut watched = Vec::from(self.folders());
        watched.extend(of_marketplaces.chain(of_plugins).chain(of_damaged));
        InstalledSet { watched, stamp, marketplaces, plugins, damaged }
    }

    /// Those with the records: installing and removing changes them.
    fn folders(&self) -> [PathBuf; 2] {
        ["installed", "configured"].map(|name| self.root.join(name))
    }

    /// Adds what plugins bring to a configuration: those that are switched on and that the requirements
    /// allow. Waits for the file system.
    pub fn add_to(&self, resolved: &mut Resolved) {
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

    /// The files that were looked for.
    fn files(&self) -> Vec<PathBuf> {
        match &self.contents {
            Some(contents) => contents.files.clone(),
            None => {
                let root = &self.record.root;
                let manifests = plugins::manifest::FILES.iter().map(|file| root.join(file));
                std::iter::once(root.clone()).chain(manifests).collect()
            }
        }
    }
}

impl InstalledSet {
    fn has_changed(&self) -> bool {
        Stamp::of(&self.watched) != self.stamp
    }

    pub fn get(&self, id: &str) -> Option<&InstalledPlugin> {
        self.plugins.iter().find(|plugin| plugin.record.id == id)
    }
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

/// Returns whether the configuration has the plugin on.
pub fn is_enabled(config: &Config, id: &str) -> bool {
    config.plugins.get(id).is_none_or(|plugin| plugin.enabled)
}
