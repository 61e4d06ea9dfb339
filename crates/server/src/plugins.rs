//! Plugins and marketplaces: what is installed, for configurations, and the work on them that clients ask
//! for. The crate `plugins` reads, fetches and installs; here its work is bounded, kept within the
//! requirements, and made known to threads.

mod actions;
mod changes;
mod installed;
mod list;
mod parts;
mod servers;
mod sources;
mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Config;
use files::Pool;
use plugins::{Home, Marketplace, MarketplaceSource, Staged};
use protocol::marketplace::{
    MarketplaceAddParams, MarketplaceAddResponse, MarketplaceRemoveResponse,
    MarketplaceUpgradeErrorInfo, MarketplaceUpgradeResponse,
};
use protocol::plugin::{PluginDetail, PluginInstallResponse, PluginListResponse};

use crate::configurations::Configurations;
use crate::error::{Error, ErrorKind};
use crate::skills::Skills;
pub(crate) use installed::InstalledPlugins;
use list::{Known, root_of};

/// Time limit of work that may fetch a repository, with the wait for other such work.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Plugins whose contents are remembered as they were shown.
const MAX_SHOWN: usize = 1_000;

/// See the module.
pub(crate) struct Plugins {
    installed: Arc<InstalledPlugins>,
    files: Pool,
    configurations: Arc<Configurations>,
    skills: Arc<Skills>,
    /// The digests of plugins that were shown last, by marketplace and name: nothing else is installed.
    shown: Mutex<HashMap<(PathBuf, String), String>>,
}

impl Plugins {
    pub(crate) fn new(
        installed: Arc<InstalledPlugins>,
        files: Pool,
        configurations: Arc<Configurations>,
        skills: Arc<Skills>,
    ) -> Self {
        Self { installed, files, configurations, skills, shown: Mutex::default() }
    }

    /// Adds a marketplace to the home.
    ///
    /// # Errors
    /// It cannot be fetched or read; the administrator does not allow it.
    pub(crate) async fn add_marketplace(
        &self,
        params: MarketplaceAddParams,
    ) -> Result<MarketplaceAddResponse, Error> {
        let MarketplaceAddParams { source, ref_name, sparse_paths } = params;
        let (ref_name, sparse) = (ref_name.as_deref(), sparse_paths.unwrap_or_default());
        let parsed = MarketplaceSource::parse(&source, ref_name, &sparse);
        let parsed = parsed.map_err(Error::invalid_params)?;
        let config = self.config()?;
        let folder = match &parsed {
            MarketplaceSource::Local { path } => self.real_path(path).await?,
            MarketplaceSource::Git { .. } => PathBuf::new(),
        };
        if let Some(requirement) = sources::forbidding_source(&config, &parsed, &folder) {
            return Err(sources::refusal(&requirement));
        }
        let added = bounded(self.home().add_marketplace(&source, ref_name, &sparse)).await?;
        let known = self.on_files(|installed| installed.all()).await?;
        // The commit is known now.
        if let Some(requirement) = known.forbidding(&config, &added.name) {
            if !added.already {
                bounded(self.home().remove_marketplace(&added.name)).await?;
            }
            return Err(sources::refusal(&requirement));
        }
        Ok(MarketplaceAddResponse {
            marketplace_name: added.name,
            installed_root: added.root.display().to_string(),
            already_added: added.already,
        })
    }

    /// Removes a marketplace from the home.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) async fn remove_marketplace(
        &self,
        name: String,
    ) -> Result<MarketplaceRemoveResponse, Error> {
        let removed = bounded(self.home().remove_marketplace(&name)).await?;
        self.announce();
        let installed_root = Some(removed.root.display().to_string());
        Ok(MarketplaceRemoveResponse { marketplace_name: removed.name, installed_root })
    }

    /// Fetches what one marketplace, or each, has now.
    ///
    /// # Errors
    /// There is none of this name; the list of marketplaces cannot be read.
    pub(crate) async fn upgrade_marketplaces(
        &self,
        name: Option<String>,
    ) -> Result<MarketplaceUpgradeResponse, Error> {
        let config = self.config()?;
        let home = self.home().clone();
        let all = self.files.run(self.installed.root(), move || home.marketplaces()).await?;
        let mut all = all.map_err(engine)?;
        if let Some(name) = &name {
            all.retain(|one| one.name == *name);
            if all.is_empty() {
                return Err(Error::not_found(format!("there is no marketplace `{name}`"))
                    .next_step("choose one that `plugin/list` names"));
            }
        }
        let mut response = MarketplaceUpgradeResponse {
            selected_marketplaces: all.iter().map(|one| one.name.clone()).collect(),
            upgraded_roots: Vec::new(),
            errors: Vec::new(),
        };
        for one in all {
            let requirement = sources::forbidding_source(&config, &one.source, &one.root);
            let upgraded = match requirement {
                Some(requirement) => Err(sources::refusal(&requirement)),
                None => bounded(self.home().upgrade_marketplace(&one.name)).await,
            };
            match upgraded {
                Ok(upgrade) if upgrade.changed => {
                    response.upgraded_roots.push(upgrade.root.display().to_string());
                }
                Ok(_) => {}
                Err(error) => response.errors.push(MarketplaceUpgradeErrorInfo {
                    marketplace_name: one.name,
                    message: error.to_string(),
                }),
            }
        }
        self.announce();
        Ok(response)
    }

    /// The marketplaces of the home, if they are asked for, and of projects.
    ///
    /// # Errors
    /// The home cannot be read; the file system does not answer.
    pub(crate) async fn list(
        &self,
        of_home: bool,
        projects: Vec<PathBuf>,
    ) -> Result<PluginListResponse, Error> {
        let config = self.config()?;
        let listed = self.on_files(move |plugins| {
            let installed = plugins.all();
            let mut roots = Vec::new();
            if of_home {
                roots.extend(installed.marketplaces.iter().map(|one| one.root.clone()));
            }
            let has_list = |folder: &PathBuf| {
                ::plugins::marketplace::FILES.iter().any(|file| folder.join(file).is_file())
            };
            roots.extend(projects.into_iter().filter(has_list));
            match installed.problem() {
                Some(problem) => Err(Error::failed(problem.to_owned())),
                None => Ok(Known { installed: &installed, config: &config }.list(&roots)),
            }
        });
        listed.await?
    }

    /// The details of a plugin, installed or not.
    ///
    /// # Errors
    /// There is no such plugin, or it cannot be fetched or read.
    pub(crate) async fn read(&self, path: PathBuf, name: String) -> Result<PluginDetail, Error> {
        let (root, marketplace) = self.marketplace(path).await?;
        let config = self.config()?;
        let staged: Staged = bounded(self.home().stage(&marketplace, &name)).await?;
        let digest = staged.plugin.digest.clone();
        let detail = self.on_files(move |plugins| {
            let installed = plugins.all();
            Known { installed: &installed, config: &config }.detail(&marketplace, &staged)
        });
        let detail = detail.await?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() >= MAX_SHOWN {
            shown.clear();
        }
        shown.insert((root, name), digest);
        Ok(detail)
    }

    /// Installs a plugin: what was shown of it, if it was.
    ///
    /// # Errors
    /// There is no such plugin, it has changed since it was shown, it cannot be fetched or installed, or the
    /// administrator does not allow its marketplace.
    pub(crate) async fn install(
        &self,
        path: PathBuf,
        name: String,
    ) -> Result<PluginInstallResponse, Error> {
        let (root, marketplace) = self.marketplace(path).await?;
        let config = self.config()?;
        let of = marketplace.clone();
        let requirement = self.on_files(move |plugins| {
            Known { installed: &plugins.all(), config: &config }.forbidding(&of)
        });
        if let Some(requirement) = requirement.await? {
            return Err(sources::refusal(&requirement));
        }
        let expected = self.shown_digest(&(root, name.clone()));
        bounded(self.home().install(&marketplace, &name, expected.as_deref())).await?;
        self.announce();
        let auth_policy = marketplace.entry(&name).map(wire::auth_policy);
        Ok(PluginInstallResponse {
            auth_policy: auth_policy.unwrap_or(protocol::PluginAuthPolicy::OnInstall),
            apps_needing_auth: Vec::new(),
        })
    }

    /// Removes an installed plugin.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) async fn uninstall(&self, id: String) -> Result<(), Error> {
        bounded(self.home().uninstall(&id)).await?;
        self.announce();
        Ok(())
    }

    fn shown_digest(&self, plugin: &(PathBuf, String)) -> Option<String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.get(plugin).cloned()
    }

    fn home(&self) -> &Home {
        self.installed.home()
    }

    /// The server's own configuration: no project has a say in plugins.
    fn config(&self) -> Result<Config, Error> {
        Ok(self.configurations.own()?.resolved.config)
    }

    /// Makes threads take over what has changed with their next turn, and informs clients.
    fn announce(&self) {
        self.configurations.source().reload();
        self.skills.announce_change();
    }

    /// The folder of the marketplace that a client names, and the marketplace.
    async fn marketplace(&self, path: PathBuf) -> Result<(PathBuf, Marketplace), Error> {
        let root = self.real_path(&root_of(&path)).await?;
        let folder = root.clone();
        let read = self.files.run(&root, move || Marketplace::read(&folder)).await?;
        Ok((root, read.map_err(engine)?))
    }

    /// The path without links, where it exists.
    async fn real_path(&self, path: &Path) -> Result<PathBuf, Error> {
        let given = path.to_owned();
        Ok(self.files.run(path, move || given.canonicalize().unwrap_or(given)).await?)
    }

    /// Runs work on the files of the home.
    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&InstalledPlugins) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let installed = self.installed.clone();
        Ok(self.files.run(self.installed.root(), move || work(&installed)).await?)
    }
}

/// Waits for work that may fetch a repository, within its time.
async fn bounded<T>(work: impl Future<Output = Result<T, plugins::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(done) => done.map_err(engine),
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            Err(Error::failed(format!("the work on plugins did not end within {seconds} s")))
        }
    }
}

/// An error of the crate `plugins`.
fn engine(error: plugins::Error) -> Error {
    let kind = match &error {
        plugins::Error::Invalid(_) => ErrorKind::InvalidParams,
        plugins::Error::NotFound(_) => ErrorKind::NotFound,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
