//! The plugins and marketplaces of a home: adding, upgrading, installing and removing them.
//!
//! Below the root: `cache/MARKETPLACE/PLUGIN/VERSION` with the files of installed plugins,
//! `installed/ID.json` with their records; `marketplaces/NAME/REVISION` with fetched marketplaces,
//! `configured/NAME.json` with theirs; `.staging` for work in progress. A folder without a record is a
//! leftover of a killed process, and the next operation deletes it.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::beneath;
use crate::contents::{Contents, Plugin};
use crate::error::{Error, io_at};
use crate::fetch::{Wanted, fetch};
use crate::git::Git;
use crate::install;
use crate::lock::Lock;
use crate::marketplace::{Entry, InstallPolicy, Marketplace};
use crate::name::check_name;
use crate::record::{Difference, Installed, difference, digest};
use crate::source::{MarketplaceSource, Source};
use crate::tree::{self, Bytes, Listing};

const WHOLE: &str = "";

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
    /// The folder of the marketplace.
    pub root: PathBuf,
    /// The commit of a git repository.
    pub revision: Option<String>,
}

/// Result of [`Home::add_marketplace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub name: String,
    pub root: PathBuf,
    /// It was there before, from the same source; nothing was fetched.
    pub already: bool,
}

/// Result of [`Home::upgrade_marketplace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    pub name: String,
    pub root: PathBuf,
    /// Whether there is a new revision. Always false for a local folder, which is read in place.
    pub changed: bool,
    /// Names of plugins that the marketplace has gained.
    pub added: Vec<String>,
    /// Names of plugins that the marketplace has lost; those that are installed stay so.
    pub removed: Vec<String>,
}

/// A plugin that is checked and could be installed. Its files are deleted when it is dropped; other
/// operations wait meanwhile, so it must not wait for a user.
#[derive(Debug)]
pub struct Staged {
    /// As it would be recorded, but that `root` is the staging folder.
    pub plugin: Installed,
    pub contents: Contents,
    folder: TempDir,
    _lock: Arc<Lock>,
}

impl Home {
    /// `root` is the folder `plugins` of the agent's home. Absolute; it is created when it is needed.
    #[must_use]
    pub fn new(root: PathBuf, git: Git) -> Self {
        Self { root, git }
    }

    /// The marketplaces that were added, sorted by name.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn marketplaces(&self) -> Result<Vec<Configured>, Error> {
        install::read_records(&self.root.join("configured"))
    }

    /// The installed plugins, sorted by id.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn installed(&self) -> Result<Vec<Installed>, Error> {
        install::read_records(&self.root.join("installed"))
    }

    /// Adds a marketplace; see [`MarketplaceSource::parse`] for the arguments.
    ///
    /// # Errors
    /// The source cannot be used or fetched, breaks a rule or a bound, or another marketplace has its name.
    pub async fn add_marketplace(
        &self,
        source: &str,
        ref_name: Option<&str>,
        sparse_paths: &[String],
    ) -> Result<Added, Error> {
        let source =
            MarketplaceSource::parse(source, ref_name, sparse_paths).map_err(Error::Invalid)?;
        let lock = self.begin().await?;
        let known = self.marketplaces()?;
        if let Some(same) = known.iter().find(|known| known.source == source) {
            return Ok(Added { name: same.name.clone(), root: same.root.clone(), already: true });
        }
        let (added, _) = self
            .bring_marketplace(lock.clone(), source, move |name| {
                match known.iter().find(|known| known.name.eq_ignore_ascii_case(name)) {
                    Some(_) => Err(Error::Invalid(format!(
                        "there is a marketplace `{name}` from another source; remove that one first"
                    ))),
                    None => Ok(()),
                }
            })
            .await?;
        Ok(Added { name: added.name, root: added.root, already: false })
    }

    /// Fetches a marketplace anew. Installed plugins stay as they are.
    ///
    /// # Errors
    /// As [`Home::add_marketplace`]; the marketplace is then as it was.
    pub async fn upgrade_marketplace(&self, name: &str) -> Result<Upgrade, Error> {
        let lock = self.begin().await?;
        let old = self.configured(name)?;
        let names = |marketplace: Marketplace| -> Vec<String> {
            marketplace.plugins.into_iter().map(|entry| entry.name).collect()
        };
        let before = Marketplace::read(&old.root).map(names).unwrap_or_default();
        let expected = old.name.clone();
        let (new, read) = self
            .bring_marketplace(lock.clone(), old.source.clone(), move |name| {
                if name == expected {
                    return Ok(());
                }
                Err(Error::Invalid(format!("the marketplace `{expected}` is now called `{name}`")))
            })
            .await?;
        let after = names(read);
        let missing_in = |list: &[String], other: &[String]| -> Vec<String> {
            list.iter().filter(|name| !other.contains(name)).cloned().collect()
        };
        if new.root != old.root {
            self.clean()?;
        }
        Ok(Upgrade {
            changed: new.revision != old.revision,
            name: new.name,
            root: new.root,
            added: missing_in(&after, &before),
            removed: missing_in(&before, &after),
        })
    }

    /// Removes a marketplace, and returns what it was. Installed plugins stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], or it cannot be removed.
    pub async fn remove_marketplace(&self, name: &str) -> Result<Configured, Error> {
        let _lock = self.begin().await?;
        let removed = self.configured(name)?;
        install::remove_record(&self.marketplace_record(name))?;
        self.clean()?;
        Ok(removed)
    }

    /// Fetches or copies a plugin to a staging folder and checks it. Nothing is installed.
    ///
    /// # Errors
    /// The plugin is unknown, cannot be installed, breaks a rule or a bound, or cannot be fetched.
    pub async fn stage(&self, marketplace: &Marketplace, name: &str) -> Result<Staged, Error> {
        let entry = installable(marketplace, name)?.clone();
        let lock = self.begin().await?;
        let folder = install::staging(&self.root)?;
        let (revision, listing, bytes) = self.plugin_files(marketplace, &entry).await?;
        let marketplace = marketplace.name.clone();
        let target = folder.path().join("plugin");
        let (plugin, contents) = blocking(move || {
            std::fs::create_dir(&target).map_err(io_at(&target))?;
            let files = tree::write(&listing, &bytes, &target)?;
            let contents =
                Plugin::read(&target).map_err(|error| error.moved(&target, listing.origin()))?;
            if contents.manifest.name != entry.name {
                let why = format!(
                    "{}: the manifest names the plugin `{}`, the marketplace `{}`",
                    visible::path(listing.origin()),
                    contents.manifest.name,
                    entry.name
                );
                return Err(Error::Invalid(why));
            }
            let plugin = Installed {
                id: format!("{}@{marketplace}", entry.name),
                name: entry.name,
                marketplace,
                version: contents.manifest.version.clone(),
                revision,
                root: target,
                source: entry.source,
                digest: digest(&files),
                files,
            };
            Ok((plugin, contents))
        })
        .await?;
        Ok(Staged { plugin, contents, folder, _lock: lock })
    }

    /// Installs a plugin, or replaces the installed one. With `expected_digest`, the digest of a
    /// [`Staged`] plugin that the user saw, other contents are refused.
    ///
    /// # Errors
    /// As [`Home::stage`]; the installed plugin is then as it was.
    pub async fn install(
        &self,
        marketplace: &Marketplace,
        name: &str,
        expected_digest: Option<&str>,
    ) -> Result<Installed, Error> {
        let staged = self.stage(marketplace, name).await?;
        if expected_digest.is_some_and(|expected| expected != staged.plugin.digest) {
            return Err(Error::Invalid(format!(
                "the plugin `{}` has changed since it was shown; read it again",
                staged.plugin.id
            )));
        }
        let home = self.clone();
        blocking(move || home.commit(staged)).await
    }

    fn commit(&self, staged: Staged) -> Result<Installed, Error> {
        let Staged { mut plugin, folder, _lock, .. } = staged;
        let short = plugin.digest.get(..12).unwrap_or(&plugin.digest);
        // The digest keeps apart two contents of one version.
        let version = match plugin.version.as_deref().filter(|version| check_name(version).is_ok())
        {
            Some(version) => format!("{version}-{short}"),
            None => short.to_owned(),
        };
        let place = ["cache", &plugin.marketplace, &plugin.name, &version];
        let target = self.root.join(place.iter().collect::<PathBuf>());
        install::place(&plugin.root, &target)?;
        plugin.root = target;
        install::write_record(&self.plugin_record(&plugin.id)?, &plugin, folder.path())?;
        drop(folder);
        // The plugin is installed: what remains of the old one is deleted now or by the next operation.
        let _ = self.clean();
        Ok(plugin)
    }

    /// Removes an installed plugin, and returns what it was.
    ///
    /// # Errors
    /// [`Error::NotFound`], or it cannot be removed.
    pub async fn uninstall(&self, id: &str) -> Result<Installed, Error> {
        let path = self.plugin_record(id)?;
        let _lock = self.begin().await?;
        let Some(removed) = install::read_record::<Installed>(&path)? else {
            return Err(Error::NotFound(format!("the plugin `{id}` is not installed")));
        };
        install::remove_record(&path)?;
        self.clean()?;
        Ok(removed)
    }

    /// How the files of an installed plugin differ from its record: empty if they are as installed.
    ///
    /// # Errors
    /// The files cannot be read, or there are some that could not have been installed.
    pub fn verify(&self, plugin: &Installed) -> Result<Difference, Error> {
        Ok(difference(&plugin.files, &tree::examine(&plugin.root)?))
    }

    /// Waits for other operations, and deletes what killed ones left.
    async fn begin(&self) -> Result<Arc<Lock>, Error> {
        install::create_folder(&self.root)?;
        let lock = Lock::acquire(&self.root.join(".lock")).await?;
        let home = self.clone();
        blocking(move || home.clean()).await?;
        Ok(Arc::new(lock))
    }

    fn clean(&self) -> Result<(), Error> {
        let installed = self.installed()?.into_iter().map(|plugin| plugin.root);
        let configured = self.marketplaces()?.into_iter().map(|marketplace| marketplace.root);
        let kept: HashSet<PathBuf> = installed.chain(configured).collect();
        install::clean(&self.root, &self.root.join("cache"), 3, &kept)?;
        install::clean(&self.root, &self.root.join("marketplaces"), 2, &kept)
    }

    /// Keeps the lock until its work on files is done, also if the caller is dropped meanwhile.
    async fn bring_marketplace(
        &self,
        lock: Arc<Lock>,
        source: MarketplaceSource,
        check: impl FnOnce(&str) -> Result<(), Error> + Send + 'static,
    ) -> Result<(Configured, Marketplace), Error> {
        let folder = install::staging(&self.root)?;
        let fetched = match &source {
            MarketplaceSource::Local { .. } => None,
            MarketplaceSource::Git { url, ref_name, sparse_paths } => {
                let wanted = Wanted {
                    url,
                    ref_name: ref_name.as_deref(),
                    sha: None,
                    folder: Path::new(WHOLE),
                    sparse: sparse_paths,
                };
                let work = self.git.work_folder()?;
                Some(fetch(&self.git, &wanted, work.path()).await?)
            }
        };
        let home = self.clone();
        blocking(move || {
            let _lock = lock;
            let mut root = match &source {
                MarketplaceSource::Local { path } => path.canonicalize().map_err(io_at(path))?,
                MarketplaceSource::Git { .. } => folder.path().join("marketplace"),
            };
            if let Some(fetched) = &fetched {
                std::fs::create_dir(&root).map_err(io_at(&root))?;
                tree::write(&fetched.listing, &fetched.bytes, &root)?;
            }
            let mut read = Marketplace::read(&root)?;
            check(&read.name)?;
            let revision = fetched.map(|fetched| fetched.revision);
            if let Some(revision) = &revision {
                let target = home.root.join("marketplaces").join(&read.name).join(revision);
                install::place(&root, &target)?;
                root = target;
            }
            read.root.clone_from(&root);
            let added = Configured { name: read.name.clone(), source, root, revision };
            install::write_record(&home.marketplace_record(&added.name), &added, folder.path())?;
            Ok((added, read))
        })
        .await
    }

    async fn plugin_files(
        &self,
        marketplace: &Marketplace,
        entry: &Entry,
    ) -> Result<(Option<String>, Listing, Bytes), Error> {
        match &entry.source {
            Source::Git { url, path, ref_name, sha } => {
                let wanted = Wanted {
                    url,
                    ref_name: ref_name.as_deref(),
                    sha: sha.as_deref(),
                    folder: path.as_deref().unwrap_or(Path::new(WHOLE)),
                    sparse: &[],
                };
                let work = self.git.work_folder()?;
                let fetched = fetch(&self.git, &wanted, work.path()).await?;
                Ok((Some(fetched.revision), fetched.listing, fetched.bytes))
            }
            Source::Local { path } => {
                let configured = self.marketplaces()?;
                let of = configured.into_iter().find(|known| known.root == marketplace.root);
                let (root, path) = (marketplace.root.clone(), path.clone());
                let (listing, bytes) = blocking(move || {
                    let place = root.join(&path);
                    let opened = beneath::open_folder(&root)?;
                    let opened =
                        beneath::subfolder(opened.as_fd(), &path).map_err(io_at(&place))?;
                    let listing = tree::list(opened.as_fd(), &place)?;
                    Ok((listing, Bytes::Folder(opened)))
                })
                .await?;
                Ok((of.and_then(|of| of.revision), listing, bytes))
            }
            Source::Remote => Err(Error::Invalid(format!(
                "the plugin `{}` is held by a remote service and cannot be installed from here",
                entry.name
            ))),
        }
    }

    fn configured(&self, name: &str) -> Result<Configured, Error> {
        check_name(name).map_err(Error::Invalid)?;
        let found = install::read_record(&self.marketplace_record(name))?;
        found.ok_or_else(|| Error::NotFound(format!("there is no marketplace `{name}`")))
    }

    fn marketplace_record(&self, name: &str) -> PathBuf {
        self.root.join("configured").join(format!("{name}.json"))
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

fn installable<'m>(marketplace: &'m Marketplace, name: &str) -> Result<&'m Entry, Error> {
    let Some(entry) = marketplace.entry(name) else {
        let name = visible::text(name.get(..200).unwrap_or(name)).into_owned();
        let message = format!("the marketplace `{}` has no plugin `{name}`", marketplace.name);
        return Err(Error::NotFound(message));
    };
    if entry.install_policy == InstallPolicy::NotAvailable {
        let message = format!("the marketplace does not allow to install the plugin `{name}`");
        return Err(Error::Invalid(message));
    }
    Ok(entry)
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
