//! The user's checkout of a repository, read from its files: git is not run. Waits for the file system.

use std::path::{Path, PathBuf};

use protocol::WorktreeErrorReason;

use super::failure::refused;
use crate::git_command::special_file;
use services::error::Error;
use services::git;

/// A `.git` file, its neighbours and the configuration of a submodule are short.
const MAX_BYTES: u64 = 64 * 1024;
const GIT: &str = ".git";

/// A checkout of a repository. All paths are real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The working folder.
    pub(crate) root: PathBuf,
    /// The git folder of this working folder.
    pub(crate) own: PathBuf,
    /// The git folder that all working folders of the repository share.
    pub(crate) common: PathBuf,
    /// The folder that was asked about, relative to `root`.
    pub(crate) inside: PathBuf,
}

impl Repository {
    /// That of the folder `cwd`.
    ///
    /// # Errors
    /// There is none, or nothing shows that the folder belongs to it.
    pub(crate) fn find(cwd: &Path) -> Result<Self, Error> {
        let none = |why: String| refused(WorktreeErrorReason::NoRepository, why, Vec::new());
        let cwd =
            cwd.canonicalize().map_err(|error| none(format!("{}: {error}", cwd.display())))?;
        let Some(found) = git::folders(&cwd) else {
            let why = format!("{} is in no git repository with a working folder", cwd.display());
            return Err(none(why).next_step("choose a folder of a repository, or run `git init`"));
        };
        let inside = cwd.strip_prefix(&found.root).unwrap_or(Path::new("")).to_owned();
        if inside.starts_with(GIT) {
            return Err(none(format!("{} is a folder of git's own", cwd.display())));
        }
        if let Some(special) = special_file(&cwd) {
            return Err(none(format!("{special}, so git was not run: it could block on it")));
        }
        let real = |path: &Path| {
            path.canonicalize().map_err(|error| none(format!("{}: {error}", path.display())))
        };
        let (own, common) = (real(&found.own)?, real(&found.common)?);
        if !belongs(&found.root, &own) {
            let why = format!(
                "{} leads to {}, which does not lead back to it",
                found.root.join(GIT).display(),
                own.display()
            );
            let own_folder = own.join("HEAD").exists()
                && !own.join("commondir").exists()
                && own.file_name().is_some_and(|name| name != GIT);
            return Err(none(why).next_step(match own_folder {
                // As `git clone --separate-git-dir` makes it.
                true => format!(
                    "if that is its repository, run `git -C {} config core.worktree {}`",
                    found.root.display(),
                    found.root.display()
                ),
                false => "run `git worktree repair` in the repository if it has moved".to_owned(),
            }));
        }
        Ok(Self { root: found.root, own, common, inside })
    }

    /// The repository's name.
    pub(super) fn name(&self) -> String {
        let named = match self.common.file_name() {
            Some(name) if name == GIT => self.common.parent().unwrap_or(&self.common),
            _ => &self.common,
        };
        let name = named.file_name().map(|name| name.to_string_lossy().into_owned());
        name.map(|name| name.trim_end_matches(GIT).to_owned()).unwrap_or_default()
    }
}

/// Returns whether the git folder `own` is that of `root`: everyone can write a `.git` file or link that leads
/// to the repository of another.
fn belongs(root: &Path, own: &Path) -> bool {
    let link = root.join(GIT);
    let Ok(meta) = link.symlink_metadata() else { return false };
    if meta.is_dir() {
        return true;
    }
    if !meta.is_file() {
        return false;
    }
    let leads_to = |named: &str, wanted: &Path| {
        own.join(named).canonicalize().is_ok_and(|found| found == wanted)
    };
    // A linked worktree.
    if let Ok(back) = files::read_utf8(&own.join("gitdir"), MAX_BYTES) {
        return leads_to(back.trim(), &link);
    }
    // A submodule.
    let config = files::read_utf8(&own.join("config"), MAX_BYTES).unwrap_or_default();
    let named = config.lines().filter_map(|line| line.trim().split_once('='));
    named.filter(|(key, _)| key.trim() == "worktree").any(|(_, path)| leads_to(path.trim(), root))
}
