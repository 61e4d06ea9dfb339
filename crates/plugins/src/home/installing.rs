//! Staging, installing and removing plugins.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::{Configured, Home, Staged, blocking};
use crate::beneath;
use crate::contents::{Contents, Plugin};
use crate::declared;
use crate::error::{Error, io_at};
use crate::fetch::{Wanted, fetch};
use crate::install;
use crate::installed_file::InstalledFile;
use crate::lock::Lock;
use crate::manifest;
use crate::marketplace::{Entry, InstallPolicy, Marketplace};
use crate::name::check_name;
use crate::record::{Difference, Installed, difference, digest};
use crate::source::{MarketplaceSource, Source};
use crate::tree::{self, Bytes, Listing};

/// The files of a plugin, listed and checked.
struct Files {
    listing: Listing,
    bytes: Bytes,
    /// The commit that they are from.
    revision: Option<String>,
}

impl Home {
    /// Fetches or copies a plugin to a staging folder and checks it. Nothing is installed.
    ///
    /// # Errors
    /// The plugin is unknown, cannot be installed, breaks a rule or a bound, or cannot be fetched; the
    /// marketplace was upgraded or removed meanwhile.
    pub async fn stage(&self, marketplace: &Marketplace, name: &str) -> Result<Staged, Error> {
        let entry = installable(marketplace, name)?.clone();
        let of = self.configured_at(&marketplace.root)?;
        let folder = self.staging().await?;
        let files = self.plugin_files(marketplace, &entry, of.as_ref()).await?;
        let target = folder.path().join("plugin");
        let market = (marketplace.name.clone(), marketplace.root.clone());
        let base = of.clone();
        let (plugin, contents) = blocking(move || write(entry, market, of, &files, target)).await?;
        // Files of a marketplace that is replaced are deleted, perhaps while they were copied.
        if self.configured_at(&marketplace.root)? != base {
            return Err(changed_meanwhile(&marketplace.name));
        }
        Ok(Staged { plugin, contents, folder })
    }

    /// Installs a plugin, or replaces the installed one. With `expected_digest`, the digest of a
    /// [`Staged`] plugin that the user saw, other contents are refused.
    ///
    /// # Errors
    /// As [`Home::stage`]; the name of the plugin or of its marketplace belongs to another one. The
    /// installed plugin is then as it was.
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
        let root = marketplace.root.clone();
        let lock = self.begin().await?;
        let home = self.clone();
        blocking(move || {
            home.check_names(&staged.plugin, &root)?;
            home.commit(staged, &lock)
        })
        .await
    }

    /// Checks that the plugin, of the marketplace in `root`, may have its id: no other marketplace
    /// takes the name of one that was added, nor the place of an installation from one.
    fn check_names(&self, plugin: &Installed, root: &Path) -> Result<(), Error> {
        let name = &plugin.marketplace;
        let known = self.marketplaces()?.all;
        let of = known.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        let from = plugin.marketplace_source.as_ref();
        match of {
            Some(of) if of.root == root => {}
            Some(of) if from.is_some_and(|from| from.is_same_place(&of.source)) => {
                return Err(changed_meanwhile(name));
            }
            Some(of) => {
                return Err(Error::Invalid(format!(
                    "{} calls itself `{name}`, which is the name of the marketplace from {}; rename one of \
                     them, or remove that one first",
                    visible::path(root),
                    of.source
                )));
            }
            None if from.is_some_and(|from| matches!(from, MarketplaceSource::Git { .. })) => {
                return Err(changed_meanwhile(name));
            }
            None => {}
        }
        let before = install::read_record::<Installed>(&self.plugin_record(&plugin.id)?);
        // A damaged record is repaired by this installation.
        let before = before.ok().flatten().and_then(|before| before.marketplace_source);
        match (before, from) {
            (Some(before), Some(from)) if !before.is_same_place(from) => {
                Err(Error::Invalid(format!(
                    "the plugin `{}` is installed from another marketplace of this name, {before}; uninstall it \
                     first",
                    plugin.id
                )))
            }
            _ => Ok(()),
        }
    }

    fn commit(&self, staged: Staged, _lock: &Lock) -> Result<Installed, Error> {
        let Staged { mut plugin, folder, .. } = staged;
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

    /// Removes an installed plugin, also one whose record is damaged.
    ///
    /// # Errors
    /// [`Error::NotFound`], or it cannot be removed.
    pub async fn uninstall(&self, id: &str) -> Result<(), Error> {
        let path = self.plugin_record(id)?;
        let _lock = self.begin().await?;
        if let Ok(None) = install::read_record::<Installed>(&path) {
            return Err(Error::NotFound(format!("the plugin `{id}` is not installed")));
        }
        install::remove_record(&path)?;
        self.clean()
    }

    /// Returns the difference between the files of an installed plugin and its record: empty if
    /// they are as installed.
    ///
    /// # Errors
    /// The files cannot be read, or there are some that could not have been installed.
    pub fn verify(&self, plugin: &Installed) -> Result<Difference, Error> {
        Ok(difference(&plugin.files, &tree::examine(&plugin.root)?))
    }

    /// `of` is the marketplace as it was added.
    async fn plugin_files(
        &self,
        marketplace: &Marketplace,
        entry: &Entry,
        of: Option<&Configured>,
    ) -> Result<Files, Error> {
        match &entry.source {
            Source::Git { url, path, ref_name, sha } => {
                let wanted = Wanted {
                    url,
                    ref_name: ref_name.as_deref(),
                    sha: sha.as_deref(),
                    folder: path.as_deref().unwrap_or(Path::new("")),
                    sparse: &[],
                    leaves_out: false,
                };
                let work = self.git.work_folder()?;
                let fetched = fetch(&self.git, &wanted, work.path()).await?;
                if let Some(path) = fetched.submodules.first() {
                    return Err(submodule(&fetched.listing.origin().join(path)));
                }
                let (listing, bytes) = (fetched.listing, fetched.bytes);
                Ok(Files { listing, bytes, revision: Some(fetched.revision) })
            }
            Source::Local { path } => {
                if let Some((at, why)) = of.and_then(|of| of.obstacle(path)) {
                    return Err(Error::refused(marketplace.root.join(at), why));
                }
                let revision = of.and_then(|of| of.revision.clone());
                let (root, path) = (marketplace.root.clone(), path.clone());
                let is_sparse = of.is_some_and(|of| of.source.is_sparse());
                blocking(move || {
                    let place = root.join(&path);
                    let opened = beneath::open_folder(&root)?;
                    let opened = match beneath::subfolder(opened.as_fd(), &path) {
                        Err(error) if is_sparse && error.kind() == ErrorKind::NotFound => {
                            return Err(not_fetched(&path));
                        }
                        opened => opened.map_err(io_at(&place))?,
                    };
                    let listing = tree::list(opened.as_fd(), &place)?;
                    Ok(Files { listing, bytes: Bytes::Folder(opened), revision })
                })
                .await
            }
            Source::Remote => Err(Error::Invalid(format!(
                "the plugin `{}` is held by a remote service and cannot be installed from here",
                entry.name
            ))),
        }
    }
}

/// Writes the files of a plugin to `target`, and reads them there. `root` is the folder of the marketplace.
fn write(
    entry: Entry,
    (marketplace, root): (String, PathBuf),
    of: Option<Configured>,
    files: &Files,
    target: PathBuf,
) -> Result<(Installed, Contents), Error> {
    let Files { listing, bytes, revision } = files;
    std::fs::create_dir(&target).map_err(io_at(&target))?;
    let mut files = tree::write(listing, bytes, &target)?;
    let origin = listing.origin();
    files.extend(record_entry(&entry, &target).map_err(|error| error.moved(&target, origin))?);
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let contents = Plugin::read(&target).map_err(|error| error.moved(&target, origin))?;
    if contents.manifest.name != entry.name {
        let why = format!(
            "{}: the manifest names the plugin `{}`, the marketplace `{}`",
            visible::path(origin),
            contents.manifest.name,
            entry.name
        );
        return Err(Error::Invalid(why));
    }
    let source = match &of {
        Some(Configured { source: source @ MarketplaceSource::Git { .. }, .. }) => source.clone(),
        Some(Configured { source: MarketplaceSource::Local { .. }, .. }) | None => {
            MarketplaceSource::Local { path: root }
        }
    };
    let plugin = Installed {
        id: format!("{}@{marketplace}", entry.name),
        name: entry.name,
        marketplace,
        version: contents.manifest.version.clone(),
        revision: revision.clone(),
        root: target,
        source: entry.source,
        marketplace_source: Some(source),
        marketplace_revision: of.and_then(|of| of.revision),
        digest: digest(&files),
        files,
    };
    Ok((plugin, contents))
}

/// Writes what the marketplace declares of a plugin next to its files, where that says more than they do.
fn record_entry(entry: &Entry, target: &Path) -> Result<Option<InstalledFile>, Error> {
    let place = target.join(declared::FILE);
    if place.symlink_metadata().is_ok() {
        let why = "this place is for what the marketplace says of the plugin; remove it";
        return Err(Error::refused(place, why));
    }
    if !entry.declared.has_parts() && manifest::exists(target)? {
        return Ok(None);
    }
    let text = serde_json::to_vec_pretty(&entry.declared);
    let text = text.map_err(|error| io_at(&place)(std::io::Error::from(error)))?;
    tree::add_file(target, Path::new(declared::FILE), &text).map(Some)
}

fn installable<'m>(marketplace: &'m Marketplace, name: &str) -> Result<&'m Entry, Error> {
    let Some(entry) = marketplace.entry(name) else {
        let shown = visible::text(name.get(..200).unwrap_or(name)).into_owned();
        let of = &marketplace.name;
        return Err(match marketplace.left_out.get(name) {
            Some(why) => Error::Invalid(format!(
                "the plugin `{shown}` of the marketplace `{of}` cannot be used: {why}"
            )),
            None => Error::NotFound(format!("the marketplace `{of}` has no plugin `{shown}`")),
        });
    };
    if entry.install_policy == InstallPolicy::NotAvailable {
        let message = format!("the marketplace does not allow to install the plugin `{name}`");
        return Err(Error::Invalid(message));
    }
    Ok(entry)
}

fn not_fetched(folder: &Path) -> Error {
    let folder = visible::path(folder);
    Error::Invalid(format!(
        "`{folder}` was not fetched: the marketplace was added with only some of its folders; remove it, and \
         add it again with `--sparse {folder}` (`sparsePaths`) as well"
    ))
}

fn submodule(path: &Path) -> Error {
    Error::refused(path, "it is a submodule, which plugins cannot contain")
}

fn changed_meanwhile(marketplace: &str) -> Error {
    Error::Invalid(format!(
        "the marketplace `{marketplace}` was upgraded or removed meanwhile; list the plugins again"
    ))
}
