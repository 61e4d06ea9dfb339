//! Plugins and marketplaces: what is installed, for configurations, and the work on them that clients ask
//! for. The crate `plugins` reads, fetches and installs; here its work is bounded, kept within the
//! requirements, and made known to threads.

mod actions;
mod changes;
mod list;
mod marketplaces;
mod skills_of;
mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Config;
use files::Pool;
use plugins::{Home, Marketplace, Staged};
use protocol::plugin::{PluginDetail, PluginInstallResponse, PluginListResponse};

use list::{Known, root_of};
use services::configurations::Configurations;
use services::error::{Error, ErrorKind};
use services::installed_plugins::{InstalledPlugins, sources};
use services::skills::Skills;

/// Time limit of work that may fetch a repository, with the wait for other such work.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Plugins whose contents are remembered as they were shown.
const MAX_SHOWN: usize = 1_000;

/// The installed plugins and marketplaces, and the work on them.
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

    /// The marketplaces of the home, if they are asked for, and of projects.
    ///
    /// # Errors
    /// The file system does not answer.
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
            for project in projects.into_iter().filter(has_list) {
                if !roots.contains(&project) {
                    roots.push(project);
                }
            }
            let known = Known { installed: &installed, config: &config };
            let mut response = known.list(&roots);
            if of_home {
                known.add_rest(&mut response);
            }
            response
        });
        listed.await
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
            let known = Known { installed: &installed, config: &config };
            known.detail(&marketplace, &staged, plugins.home())
        });
        let detail = detail.await?;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() >= MAX_SHOWN {
            shown.clear();
        }
        shown.insert((root, name), digest);
        Ok(detail)
    }

    /// The details of an installed plugin by its id, from its record and its installed files: its marketplace
    /// need not exist.
    ///
    /// # Errors
    /// It is not installed, or its files cannot be read.
    pub(crate) async fn read_installed(&self, id: String) -> Result<PluginDetail, Error> {
        let config = self.config()?;
        let read = self.on_files(move |plugins| {
            let installed = plugins.all();
            let known = Known { installed: &installed, config: &config };
            known.detail_of_installed(&id, plugins.home())
        });
        read.await?
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

    /// The folder of the marketplace that a client names, and the marketplace: one of the home, or of a trusted
    /// project.
    async fn marketplace(&self, path: PathBuf) -> Result<(PathBuf, Marketplace), Error> {
        let given = root_of(&path);
        let root = self.real_path(&given).await?;
        let of_home = root.clone();
        let is_known = self.on_files(move |plugins| {
            let (all, fetched) = (plugins.all(), plugins.root().join("marketplaces"));
            let known = all.marketplaces.iter().any(|one| one.root == of_home);
            (known, of_home.starts_with(fetched))
        });
        let (is_added, was_fetched) = is_known.await?;
        if !is_added && was_fetched {
            let message = format!(
                "the marketplace in {} was upgraded or removed since it was listed",
                visible::path(&root)
            );
            return Err(Error::not_found(message).next_step("call `plugin/list` again"));
        }
        if !is_added {
            let loaded = self.configurations.in_folder(&given, None).await?;
            let folders = &loaded.resolved.config.project_folders;
            if !folders.contains(&given) && !folders.contains(&root) {
                let message = format!(
                    "{} is neither a marketplace that was added nor one of a trusted project",
                    visible::path(&root)
                );
                return Err(Error::invalid_params(message).next_step(
                    "add it with `marketplace/add`, or give the `path` of one from `plugin/list`",
                ));
            }
        }
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
        plugins::Error::Forbidden(requirement) => return sources::refusal(requirement),
        plugins::Error::Invalid(_) => ErrorKind::InvalidParams,
        plugins::Error::NotFound(_) => ErrorKind::NotFound,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, error.to_string()).with_source(error)
}
