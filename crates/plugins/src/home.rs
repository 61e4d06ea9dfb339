//! The plugins and marketplaces of a home: adding, upgrading, installing and removing them.
//!
//! Below the root: `cache/MARKETPLACE/PLUGIN/VERSION` with the files of installed plugins,
//! `installed/ID.json` with their records; `marketplaces/NAME/REVISION` with fetched marketplaces,
//! `configured/NAME.json` with theirs; `.staging` for work in progress. A folder without a record is a
//! leftover of a killed process, and the next operation deletes it.
//!
//! `.lock` is held only while records are changed, and never while something is fetched or copied: that
//! happens in a claimed folder of `.staging`, and what it was based on is checked again under the lock.

mod installing;
mod marketplaces;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::claimed::Claimed;
use crate::contents::Contents;
use crate::error::{Error, Problem};
use crate::git::Git;
use crate::install::{self, Record, Records};
use crate::lock::Lock;
use crate::marketplace::Marketplace;
use crate::name::check_name;
use crate::record::Installed;
use crate::source::MarketplaceSource;
use crate::tree::LeftOut;

/// The plugins of a home. Cheap to clone. Asynchronous methods do their work on files on blocking
/// threads; the others block on the file system.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    git: Git,
}

/// A marketplace that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configured {
    pub name: String,
    pub source: MarketplaceSource,
    /// The folder of the marketplace, without links.
    pub root: PathBuf,
    /// The commit of a git repository.
    pub revision: Option<String>,
    /// Where the repository has submodules, which are not fetched; relative to the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submodules: Vec<PathBuf>,
    /// Links of the repository that are not fetched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

impl Configured {
    /// Why a plugin in this folder of the marketplace cannot be installed: the place, relative to the root, and
    /// a sentence.
    #[must_use]
    pub fn obstacle(&self, folder: &Path) -> Option<(&Path, &str)> {
        let submodules = self.submodules.iter();
        let submodules = submodules
            .map(|path| (path.as_path(), "it is a submodule, which plugins cannot contain"));
        let left_out = self.left_out.iter().map(|one| (one.path.as_path(), one.why.as_str()));
        let mut all = submodules.chain(left_out);
        all.find(|(path, _)| path.starts_with(folder) || folder.starts_with(path))
    }
}

impl Record for Configured {
    const REPAIR: &'static str = "remove the marketplace, and add it again";

    fn stem(&self) -> &str {
        &self.name
    }
}

/// Result of [`Home::add_marketplace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub name: String,
    pub root: PathBuf,
    /// It was there before, from the same source; nothing has changed.
    pub already: bool,
}

/// Result of [`Home::upgrade_marketplace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    pub name: String,
    pub root: PathBuf,
    /// True if there is a new revision, or files that were lost or changed are as fetched again.
    /// Always false for a local folder, which is read in place.
    pub changed: bool,
    /// Names of plugins that the marketplace has gained.
    pub added: Vec<String>,
    /// Names of plugins that the marketplace has lost; those that are installed stay so.
    pub removed: Vec<String>,
}

/// Result of [`Home::remove_marketplace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub name: String,
    /// Where it was; `None` if its record was damaged.
    pub root: Option<PathBuf>,
    /// The ids of plugins from it that stay installed, sorted.
    pub installed: Vec<String>,
}

/// A plugin that is checked and could be installed. Its files are deleted when it is dropped.
#[derive(Debug)]
pub struct Staged {
    /// As it would be recorded, but that `root` is the staging folder.
    pub plugin: Installed,
    /// Paths lead into the staging folder.
    pub contents: Contents,
    folder: Claimed,
}

impl Home {
    /// `root` is the folder `plugins` of the agent's home. Absolute; it is created when it is needed.
    #[must_use]
    pub fn new(root: PathBuf, git: Git) -> Self {
        Self { root, git }
    }

    /// The marketplaces that were added.
    ///
    /// # Errors
    /// The folder with the records cannot be read.
    pub fn marketplaces(&self) -> Result<Records<Configured>, Error> {
        install::read_records(&self.root.join("configured"))
    }

    /// The installed plugins.
    ///
    /// # Errors
    /// The folder with the records cannot be read.
    pub fn installed(&self) -> Result<Records<Installed>, Error> {
        install::read_records(&self.root.join("installed"))
    }

    /// Waits for other operations, and deletes what killed ones left.
    async fn begin(&self) -> Result<Lock, Error> {
        install::create_folder(&self.root)?;
        let lock = Lock::acquire(&self.root.join(".lock")).await?;
        let home = self.clone();
        blocking(move || home.clean()).await?;
        Ok(lock)
    }

    /// A folder for work that others need not wait for.
    async fn staging(&self) -> Result<Claimed, Error> {
        let _lock = self.begin().await?;
        install::staging(&self.root)
    }

    /// Requires the lock.
    fn clean(&self) -> Result<(), Error> {
        let (installed, configured) = (self.installed()?, self.marketplaces()?);
        let (cache, marketplaces) = (self.root.join("cache"), self.root.join("marketplaces"));
        let roots = installed.all.into_iter().map(|plugin| plugin.root);
        let roots = roots.chain(configured.all.into_iter().map(|marketplace| marketplace.root));
        let mut kept: HashSet<PathBuf> = roots.collect();
        // Which files are those of a damaged record is not known: all that could be stay.
        let name = |problem: &Problem| {
            problem.path.file_stem().map(|name| name.to_string_lossy().into_owned())
        };
        for name in installed.damaged.iter().filter_map(name) {
            kept.extend(name.split_once('@').map(|(one, two)| cache.join(two).join(one)));
        }
        kept.extend(configured.damaged.iter().filter_map(name).map(|name| marketplaces.join(name)));
        install::clean_staging(&self.root)?;
        install::clean(&cache, 3, &kept)?;
        install::clean(&marketplaces, 2, &kept)
    }

    fn configured(&self, name: &str) -> Result<Configured, Error> {
        let found = install::read_record(&self.marketplace_record(name)?);
        found.map_err(Error::Refused)?.ok_or_else(|| no_marketplace(name))
    }

    /// The added marketplace in this folder.
    fn configured_at(&self, root: &Path) -> Result<Option<Configured>, Error> {
        Ok(self.marketplaces()?.all.into_iter().find(|known| known.root == root))
    }

    fn marketplace_record(&self, name: &str) -> Result<PathBuf, Error> {
        check_name(name).map_err(Error::Invalid)?;
        Ok(self.root.join("configured").join(format!("{name}.json")))
    }

    fn plugin_record(&self, id: &str) -> Result<PathBuf, Error> {
        let names = id.split_once('@');
        if !names.is_some_and(|(one, two)| check_name(one).is_ok() && check_name(two).is_ok()) {
            let shown = visible::text(id.get(..200).unwrap_or(id)).into_owned();
            return Err(Error::Invalid(format!(
                "`{shown}` is not of the form `plugin@marketplace`"
            )));
        }
        Ok(self.root.join("installed").join(format!("{id}.json")))
    }
}

fn no_marketplace(name: &str) -> Error {
    Error::NotFound(format!("there is no marketplace `{name}`"))
}

fn names(marketplace: Marketplace) -> Vec<String> {
    marketplace.plugins.into_iter().map(|entry| entry.name).collect()
}

/// Runs work on files on a thread that may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Invalid(format!("the program failed; please report it: {error}"))),
    }
}
