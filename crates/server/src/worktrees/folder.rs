//! The folder of all worktrees. Waits for the file system.

use std::io;
use std::path::{Path, PathBuf};

use protocol::WorktreeErrorReason;

use super::branch_name;
use super::failure::refused;
use super::repository::Repository;
use services::error::Error;

/// Worktrees that a list looks at; more are not listed.
const MAX_WORKTREES: usize = 2_000;
/// Extension of the files with records.
const RECORD: &str = "json";

/// The folder of all worktrees, and the agent's home.
#[derive(Clone, Debug)]
pub(crate) struct WorktreesFolder(PathBuf, PathBuf);

impl WorktreesFolder {
    /// The configured one. Need not exist.
    ///
    /// # Errors
    /// There is none, or no command can write there.
    pub(crate) fn configured(config: &config::Config, home: &Path) -> Result<Self, Error> {
        let Some(folder) = &config.worktrees_dir else {
            let message = "there is no folder for worktrees: the user has no home folder";
            return Err(Error::wrong_state(message).next_step("set `worktrees_dir` in config.toml"));
        };
        if folder.starts_with(home) {
            return Err(Error::wrong_state(format!(
                "`worktrees_dir`: {} lies in the agent's home, where no command of a thread can write",
                folder.display()
            ))
            .next_step("choose another folder"));
        }
        Ok(Self(folder.clone(), home.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of a repository's worktrees.
    pub(crate) fn of_repository(&self, repository: &Repository) -> PathBuf {
        let name = branch_name::slug(&repository.name()).unwrap_or_else(|| "repository".to_owned());
        let common = repository.common.as_os_str().as_encoded_bytes();
        self.0.join(format!("{name}-{:08x}", short_hash(common)))
    }

    /// Makes the folder of a repository's worktrees, which only the user can read.
    pub(super) fn make(&self, repository: &Repository) -> Result<PathBuf, Error> {
        let folder = self.of_repository(repository);
        if let Some(above) = self.0.parent() {
            std::fs::create_dir_all(above).map_err(|error| unusable(above, &error))?;
        }
        self.check_outside(repository)?;
        for folder in [&self.0, &folder] {
            make_private(folder).map_err(|error| unusable(folder, &error))?;
            check_folder(folder)?;
        }
        // The sandbox compares real paths.
        let real = folder.canonicalize().map_err(|error| unusable(&folder, &error))?;
        Ok(real)
    }

    /// Refuses a folder inside of a checkout: threads that work there could write in it. A checkout that has
    /// the home folder, as some keep their settings, counts only for its own worktrees.
    fn check_outside(&self, repository: &Repository) -> Result<(), Error> {
        let there = self.0.ancestors().find_map(|folder| folder.canonicalize().ok());
        let Some(there) = there else { return Ok(()) };
        let around = services::git::folders(&there).map(|found| found.root);
        let around = around.filter(|root| !self.1.starts_with(root));
        let own = [&repository.root, &repository.common];
        let inside = around.iter().chain(own).find(|folder| there.starts_with(folder));
        let Some(inside) = inside else { return Ok(()) };
        let message = format!(
            "worktrees: {} lies in the repository {}, whose threads could write in it",
            self.0.display(),
            inside.display()
        );
        Err(Error::wrong_state(message)
            .next_step("set `worktrees_dir` in config.toml to a folder outside of repositories"))
    }

    /// The paths of the worktrees that have a record, of one repository or of all.
    pub(super) fn worktrees(&self, of: Option<&Repository>) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        match self.0.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            // Worktrees that are there must not look as if there were none.
            _ => check_folder(&self.0)?,
        }
        let folders = match of {
            Some(repository) => vec![self.of_repository(repository)],
            None => match entries(&self.0) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(unusable(&self.0, &error)),
            },
        };
        for folder in folders {
            // A folder that cannot be read, a file or a link has no worktrees of this program.
            if check_folder(&folder).is_err() {
                continue;
            }
            let Ok(folder) = folder.canonicalize() else { continue };
            for entry in entries(&folder).unwrap_or_default() {
                if found.len() == MAX_WORKTREES {
                    return Ok(found);
                }
                if entry.extension().is_some_and(|extension| extension == RECORD) {
                    found.push(entry.with_extension(""));
                }
            }
        }
        Ok(found)
    }

    /// The worktree that a client names: right below the folder of a repository, which is no link.
    pub(super) fn named(&self, path: &str) -> Result<PathBuf, Error> {
        let unknown = || {
            let message = format!("no worktree of a thread: {}", services::error::start_of(path));
            refused(WorktreeErrorReason::UnknownWorktree, message, Vec::new())
                .next_step("worktree/list has their paths")
        };
        let given = Path::new(path);
        let (Some(name), Some(folder)) = (given.file_name(), given.parent()) else {
            return Err(unknown());
        };
        let folder = folder.canonicalize().map_err(|_| unknown())?;
        let base = self.0.canonicalize().map_err(|_| unknown())?;
        if folder.parent() != Some(&base) || !is_plain(name) {
            return Err(unknown());
        }
        let path = folder.join(name);
        match record_of(&path).symlink_metadata() {
            Ok(_) => Ok(path),
            Err(_) => Err(unknown()),
        }
    }
}

/// The file with the record of the worktree `path`.
pub(super) fn record_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(RECORD);
    name.into()
}

/// The name of the worktree `path`.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The folder that a worktree lies in.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Claims the name of a worktree: false if it is in use.
pub(super) fn claim(path: &Path) -> Result<bool, Error> {
    if record_of(path).symlink_metadata().is_ok() {
        return Ok(false);
    }
    match builder().create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unusable(path, &error)),
    }
}

/// The error about a folder or file of worktrees that cannot be used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("worktrees: {}: {error}", path.display()))
}

/// A record's name is that of its worktree and this program's own extension.
fn is_plain(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| !name.is_empty() && !name.starts_with('.'))
}

fn builder() -> std::fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "folders have no mode there"))]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn make_private(folder: &Path) -> io::Result<()> {
    match builder().create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Another user, or a command, could lead a link somewhere else.
fn check_folder(folder: &Path) -> Result<(), Error> {
    let meta = folder.symlink_metadata().map_err(|error| unusable(folder, &error))?;
    if meta.is_dir() {
        return Ok(());
    }
    let key = "`worktrees_dir` in config.toml";
    let (kind, next) = match folder.canonicalize().ok().filter(|_| meta.is_symlink()) {
        Some(real) => {
            ("a link", format!("set {key} to the folder that it leads to: {}", real.display()))
        }
        None if meta.is_symlink() => ("a link", format!("set {key} to a folder")),
        None => ("no folder", format!("remove it, or set {key} to another folder")),
    };
    Err(Error::wrong_state(format!("worktrees: {} is {kind}", folder.display())).next_step(next))
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// FNV-1a: stable, so that a repository keeps its folder.
fn short_hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
