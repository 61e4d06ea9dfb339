//! Adding, upgrading and removing marketplaces.

use std::path::{Path, PathBuf};

use super::{Added, Configured, Home, Removed, Upgrade, blocking, names, no_marketplace};
use crate::claimed::Claimed;
use crate::error::{Error, io_at};
use crate::fetch::{Fetched, Wanted, fetch};
use crate::install;
use crate::installed_file::InstalledFile;
use crate::lock::Lock;
use crate::marketplace::{FILES, Marketplace, no_marketplace_in};
use crate::source::MarketplaceSource;
use crate::tree;

/// A marketplace that was fetched and read, but is not in the home yet.
struct Brought {
    /// As it will be recorded, but that `root` may be in the staging folder.
    marketplace: Configured,
    /// Names of its plugins.
    plugins: Vec<String>,
    /// The files that were written; `None` for a folder, which is read in place.
    files: Option<Vec<InstalledFile>>,
    folder: Claimed,
}

impl Home {
    /// Adds a marketplace, if `allow` has nothing against it when its commit is known.
    ///
    /// # Errors
    /// The source cannot be fetched, breaks a rule or a bound, or another marketplace has its name; the
    /// error of `allow`.
    pub async fn add_marketplace(
        &self,
        source: MarketplaceSource,
        allow: impl FnOnce(&Configured) -> Result<(), Error> + Send + 'static,
    ) -> Result<Added, Error> {
        if let Some(same) = self.same(&source)? {
            allow(&same)?;
            return Ok(Added { name: same.name, root: same.root, already: true });
        }
        let brought = self.bring_marketplace(source).await?;
        allow(&brought.marketplace)?;
        let lock = self.begin().await?;
        let home = self.clone();
        blocking(move || {
            // Others may have added marketplaces meanwhile.
            if let Some(same) = home.same(&brought.marketplace.source)? {
                return Ok(Added { name: same.name, root: same.root, already: true });
            }
            let name = &brought.marketplace.name;
            let known = home.marketplaces()?.all;
            if let Some(other) = known.iter().find(|known| known.name.eq_ignore_ascii_case(name)) {
                return Err(Error::Invalid(format!(
                    "there is a marketplace `{name}` from another source, {}; remove that one first",
                    other.source
                )));
            }
            let added = home.put(brought, &lock)?;
            Ok(Added { name: added.name, root: added.root, already: false })
        })
        .await
    }

    /// Fetches a marketplace again, and takes what `allow` permits. Installed plugins stay as they
    /// are.
    ///
    /// # Errors
    /// As [`Home::add_marketplace`]; it was removed or replaced meanwhile. The marketplace is then as it was.
    pub async fn upgrade_marketplace(
        &self,
        name: &str,
        allow: impl FnOnce(&Configured) -> Result<(), Error> + Send + 'static,
    ) -> Result<Upgrade, Error> {
        let old = self.configured(name)?;
        let before = Marketplace::read(&old.root).map(names).unwrap_or_default();
        let brought = self.bring_marketplace(old.source.clone()).await?;
        let new_name = &brought.marketplace.name;
        if *new_name != old.name {
            let message = format!("the marketplace `{}` is now called `{new_name}`", old.name);
            return Err(Error::Invalid(message));
        }
        allow(&brought.marketplace)?;
        let lock = self.begin().await?;
        let home = self.clone();
        blocking(move || {
            let now = home.configured(&old.name)?;
            let is_same = now.revision == brought.marketplace.revision;
            if now.source != old.source || (now.revision != old.revision && !is_same) {
                return Err(Error::Invalid(format!(
                    "the marketplace `{}` was changed meanwhile; try again",
                    old.name
                )));
            }
            let after = brought.plugins.clone();
            let is_damaged = brought
                .files
                .as_ref()
                .is_some_and(|files| tree::examine(&now.root).ok().as_ref() != Some(files));
            let new = home.put(brought, &lock)?;
            if new.root != old.root {
                home.clean()?;
            }
            let missing_in = |list: &[String], other: &[String]| -> Vec<String> {
                list.iter().filter(|name| !other.contains(name)).cloned().collect()
            };
            Ok(Upgrade {
                changed: new.revision != old.revision || is_damaged,
                name: new.name,
                root: new.root,
                added: missing_in(&after, &before),
                removed: missing_in(&before, &after),
            })
        })
        .await
    }

    /// Removes a marketplace, also one whose record is damaged. Installed plugins stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], or it cannot be removed.
    pub async fn remove_marketplace(&self, name: &str) -> Result<Removed, Error> {
        let path = self.marketplace_record(name)?;
        let _lock = self.begin().await?;
        let root = match install::read_record::<Configured>(&path) {
            Ok(Some(known)) => Some(known.root),
            Ok(None) => return Err(no_marketplace(name)),
            Err(_damaged) => None,
        };
        install::remove_record(&path)?;
        self.clean()?;
        let installed = self.installed()?.all.into_iter();
        let installed = installed.filter(|plugin| plugin.marketplace == name);
        let installed = installed.map(|plugin| plugin.id).collect();
        Ok(Removed { name: name.to_owned(), root, installed })
    }

    fn same(&self, source: &MarketplaceSource) -> Result<Option<Configured>, Error> {
        Ok(self.marketplaces()?.all.into_iter().find(|known| known.source == *source))
    }

    async fn bring_marketplace(&self, source: MarketplaceSource) -> Result<Brought, Error> {
        let folder = self.staging().await?;
        let fetched = match &source {
            MarketplaceSource::Local { .. } => None,
            MarketplaceSource::Git { url, ref_name, sparse_paths } => {
                let mut sparse = sparse_paths.clone();
                if !sparse.is_empty() {
                    // Without its list it would be no marketplace.
                    sparse.extend(FILES.map(PathBuf::from));
                }
                let wanted = Wanted {
                    url,
                    ref_name: ref_name.as_deref(),
                    sha: None,
                    folder: Path::new(""),
                    sparse: &sparse,
                    leaves_out: true,
                };
                let work = self.git.work_folder()?;
                Some(fetch(&self.git, &wanted, work.path()).await?)
            }
        };
        blocking(move || read(source, fetched, folder)).await
    }

    /// Puts a marketplace and its record in their places.
    fn put(&self, brought: Brought, _lock: &Lock) -> Result<Configured, Error> {
        let Brought { mut marketplace, folder, .. } = brought;
        if let Some(revision) = &marketplace.revision {
            let target = self.root.join("marketplaces").join(&marketplace.name).join(revision);
            install::place(&marketplace.root, &target)?;
            marketplace.root = target;
        }
        let record = self.marketplace_record(&marketplace.name)?;
        install::write_record(&record, &marketplace, folder.path())?;
        Ok(marketplace)
    }
}

/// Writes what was fetched into the staging folder, and reads it there; a folder is read in place.
fn read(
    source: MarketplaceSource,
    fetched: Option<Fetched>,
    folder: Claimed,
) -> Result<Brought, Error> {
    let root = match &source {
        MarketplaceSource::Local { path } => path.canonicalize().map_err(io_at(path))?,
        MarketplaceSource::Git { .. } => folder.path().join("marketplace"),
    };
    let files = match &fetched {
        Some(fetched) => {
            std::fs::create_dir(&root).map_err(io_at(&root))?;
            Some(tree::write(&fetched.listing, &fetched.bytes, &root)?)
        }
        None => None,
    };
    let origin: PathBuf = match &source {
        MarketplaceSource::Local { .. } => root.clone(),
        MarketplaceSource::Git { url, .. } => url.into(),
    };
    let read = Marketplace::read(&root).map_err(|error| match error {
        Error::NotFound(_) => no_marketplace_in(&origin),
        error => error.moved(&root, &origin),
    })?;
    let mut marketplace = Configured {
        name: read.name.clone(),
        source,
        root,
        revision: None,
        submodules: Vec::new(),
        left_out: Vec::new(),
    };
    if let Some(Fetched { revision, submodules, left_out, .. }) = fetched {
        marketplace = Configured { revision: Some(revision), submodules, left_out, ..marketplace };
    }
    Ok(Brought { marketplace, plugins: names(read), files, folder })
}
