//! Lists and details of plugins, for clients. Waits for the file system.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use config::Config;
use plugins::{AuthPolicy, Declared, Entry, InstallPolicy, Marketplace, Plugin, Source, Staged};
use protocol::plugin::{
    MarketplaceInterface, MarketplaceLoadErrorInfo, PluginListResponse, PluginMarketplaceEntry,
    PluginSummary,
};

use super::wire::{self, State};
use services::installed_plugins::{InstalledPlugin, InstalledSet, is_enabled, sources};

/// An installed plugin and its configuration.
pub(super) struct Known<'k> {
    pub(super) installed: &'k InstalledSet,
    pub(super) config: &'k Config,
}

impl Known<'_> {
    /// The marketplaces and their plugins; those that cannot be read are in the errors.
    pub(super) fn list(&self, roots: &[PathBuf]) -> PluginListResponse {
        let mut response = PluginListResponse {
            marketplaces: Vec::new(),
            marketplace_load_errors: Vec::new(),
            featured_plugin_ids: Vec::new(),
        };
        for root in roots {
            let marketplace = match Marketplace::read(root) {
                Ok(marketplace) => marketplace,
                Err(why) => {
                    let found = error(root, why.to_string());
                    response.marketplace_load_errors.push(found);
                    continue;
                }
            };
            let problems = marketplace.problems.iter();
            let problems = problems.map(|one| error(&one.path, one.message.clone()));
            response.marketplace_load_errors.extend(problems);
            let refused = marketplace.plugins.iter().filter_map(|entry| {
                let (path, why) = self.obstacle(entry, &marketplace)?;
                let message = format!("the plugin `{}` cannot be installed: {why}", entry.name);
                Some(error(&marketplace.root.join(path), message))
            });
            response.marketplace_load_errors.extend(refused);
            let plugins = marketplace.plugins.iter();
            let plugins = plugins.map(|entry| self.summary(entry, &marketplace)).collect();
            let display_name = marketplace.display_name.clone();
            response.marketplaces.push(PluginMarketplaceEntry {
                name: marketplace.name.clone(),
                path: Some(marketplace.file.display().to_string()),
                interface: display_name
                    .map(|name| MarketplaceInterface { display_name: Some(name) }),
                plugins,
            });
        }
        response
    }

    /// Adds the installed plugins that no listed marketplace has, so that they can be switched off and removed,
    /// and the records that cannot be used. A marketplace that is not listed has no path then.
    pub(super) fn add_rest(&self, response: &mut PluginListResponse) {
        let listed: HashSet<String> = response
            .marketplaces
            .iter()
            .flat_map(|marketplace| marketplace.plugins.iter().map(|plugin| plugin.id.clone()))
            .collect();
        for plugin in &self.installed.plugins {
            let record = &plugin.record;
            if listed.contains(&record.id) {
                continue;
            }
            let all = &mut response.marketplaces;
            let known = all.iter().position(|one| one.name == record.marketplace);
            let index = known.unwrap_or_else(|| {
                all.push(PluginMarketplaceEntry {
                    name: record.marketplace.clone(),
                    path: None,
                    interface: None,
                    plugins: Vec::new(),
                });
                all.len() - 1
            });
            all[index].plugins.push(self.summary_of_installed(plugin));
        }
        let damaged = self.installed.damaged.iter();
        let damaged = damaged.map(|one| error(&one.path, one.message.clone()));
        response.marketplace_load_errors.extend(damaged);
    }

    /// Returns the part of a fetched repository that keeps a plugin from being installed, and the
    /// reason.
    fn obstacle(&self, entry: &Entry, marketplace: &Marketplace) -> Option<(&Path, &str)> {
        let Source::Local { path } = &entry.source else { return None };
        let of_home = self.installed.marketplaces.iter();
        of_home.filter(|one| one.root == marketplace.root).find_map(|one| one.obstacle(path))
    }

    /// The requirement that does not list a marketplace, as part of a sentence.
    pub(super) fn forbidding(&self, marketplace: &Marketplace) -> Option<String> {
        let of_home = self.installed.marketplaces.iter().find(|one| one.root == marketplace.root);
        match of_home {
            Some(of_home) => sources::forbidding(self.config, of_home),
            None => {
                let folder = config::MarketplaceSource::Folder(&marketplace.root);
                self.config.requirements.forbidding_marketplace(folder)
            }
        }
    }

    fn summary(&self, entry: &Entry, marketplace: &Marketplace) -> PluginSummary {
        let id = wire::id(&entry.name, &marketplace.name);
        let installed = self.installed.get(&id);
        let in_folder = folder(entry, marketplace).and_then(|folder| {
            let contents = Plugin::read_declared(&folder, &entry.declared).ok()?;
            Some((folder, contents))
        });
        let found = match (&in_folder, installed) {
            (Some((folder, contents)), _) => Some((folder.as_path(), contents)),
            (None, Some(plugin)) => {
                plugin.contents.as_ref().map(|contents| (plugin.record.root.as_path(), contents))
            }
            (None, None) => None,
        };
        let state = self.state(&id, marketplace);
        let refused = self
            .obstacle(entry, marketplace)
            .map(|_| Entry { install_policy: InstallPolicy::NotAvailable, ..entry.clone() });
        let entry = refused.as_ref().unwrap_or(entry);
        wire::summary(entry, (&marketplace.name, &marketplace.root), found, state)
    }

    /// The summary of a plugin of the marketplace that was read whole.
    pub(super) fn summary_of(&self, marketplace: &Marketplace, staged: &Staged) -> PluginSummary {
        let Staged { plugin, contents, .. } = staged;
        let entry = unlisted(&plugin.name, plugin.source.clone());
        let entry = marketplace.entry(&plugin.name).unwrap_or(&entry);
        let of = (marketplace.name.as_str(), marketplace.root.as_path());
        // Files of the staging folder are gone when the client looks.
        let folder = folder(entry, marketplace);
        let folder = folder.as_deref().unwrap_or(&marketplace.root);
        let state = self.state(&plugin.id, marketplace);
        wire::summary(entry, of, Some((folder, contents)), state)
    }

    /// The summary of an installed plugin, from its record.
    pub(super) fn summary_of_installed(&self, plugin: &InstalledPlugin) -> PluginSummary {
        let record = &plugin.record;
        let source = match &record.source {
            Source::Local { .. } => Source::Local { path: record.root.clone() },
            other => other.clone(),
        };
        let entry = Entry {
            install_policy: InstallPolicy::NotAvailable,
            version: record.version.clone(),
            ..unlisted(&record.name, source)
        };
        let found = plugin.contents.as_ref().map(|found| (record.root.as_path(), found));
        let state = self.state_of(plugin);
        wire::summary(&entry, (&record.marketplace, &record.root), found, state)
    }

    fn state(&self, id: &str, marketplace: &Marketplace) -> State {
        match self.installed.get(id) {
            Some(plugin) => self.state_of(plugin),
            None => State {
                installed: false,
                enabled: false,
                is_allowed: self.forbidding(marketplace).is_none(),
            },
        }
    }

    fn state_of(&self, plugin: &InstalledPlugin) -> State {
        State {
            installed: true,
            enabled: is_enabled(self.config, &plugin.record.id),
            is_allowed: sources::forbidding_installed(self.config, &plugin.record).is_none(),
        }
    }
}

fn error(path: &Path, message: String) -> MarketplaceLoadErrorInfo {
    MarketplaceLoadErrorInfo { marketplace_path: path.display().to_string(), message }
}

/// The entry of a plugin of which no list says more.
fn unlisted(name: &str, source: Source) -> Entry {
    Entry {
        name: name.to_owned(),
        source,
        install_policy: InstallPolicy::default(),
        auth_policy: AuthPolicy::default(),
        category: None,
        description: None,
        version: None,
        keywords: Vec::new(),
        declared: Declared::default(),
    }
}

/// The folder of a plugin whose files the marketplace has.
pub(super) fn folder(entry: &Entry, marketplace: &Marketplace) -> Option<PathBuf> {
    match &entry.source {
        Source::Local { path } => Some(marketplace.root.join(path)),
        Source::Git { .. } | Source::Remote => None,
    }
}

/// The folder of a marketplace that a client names by its folder or by its file.
pub(super) fn root_of(path: &Path) -> PathBuf {
    let by_file = plugins::marketplace::FILES.iter().find_map(|file| {
        path.ends_with(file).then(|| path.ancestors().nth(Path::new(file).components().count()))?
    });
    by_file.unwrap_or(path).to_owned()
}
