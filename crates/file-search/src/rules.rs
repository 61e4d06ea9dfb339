//! Ignore rules: which entries of a folder a search leaves out. They are those of git and of `fd`:
//! `.gitignore` inside repositories, `.git/info/exclude`, `.ignore`, and the user's own file.
//!
//! The files are opened as files that others control: a FIFO named `.gitignore` is no rule and stops
//! no walk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Largest file of rules. A larger one is left out, and the log says so.
const MAX_RULE_BYTES: u64 = 1 << 20;
/// Folder of a repository's own files. It is left out of every search.
pub(crate) const GIT: &str = ".git";
pub(crate) const GIT_IGNORE: &str = ".gitignore";
pub(crate) const IGNORE: &str = ".ignore";
/// Rules of a repository that are not part of it.
pub(crate) const GIT_EXCLUDE: &str = ".git/info/exclude";

/// The rules of a folder, linked to those of the folders above it. Folders without rules of their own
/// share those of their parent.
#[derive(Debug)]
pub(crate) struct Rules {
    folder: PathBuf,
    parent: Option<Arc<Self>>,
    ignore: Option<Gitignore>,
    git_ignore: Option<Gitignore>,
    git_exclude: Option<Gitignore>,
    is_repository: bool,
    /// The folder or one above it is in a repository.
    in_repository: bool,
    /// The user's own rules, which apply in repositories; at the topmost folder only.
    global: Option<Arc<Gitignore>>,
    /// Files that these rules came from, to find out whether they changed.
    sources: Vec<(PathBuf, Stamp)>,
}

/// State of a file of rules; `None` when there is none.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

/// Which files of rules a folder has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleFiles {
    pub(crate) ignore: bool,
    pub(crate) git_ignore: bool,
    pub(crate) git: bool,
}

impl RuleFiles {
    /// Notes the entry `name` of the folder.
    pub(crate) fn note(&mut self, name: &OsStr) {
        match name.to_str() {
            Some(IGNORE) => self.ignore = true,
            Some(GIT_IGNORE) => self.git_ignore = true,
            Some(GIT) => self.git = true,
            _ => {}
        }
    }

    fn any(self) -> bool {
        self.ignore || self.git_ignore || self.git
    }
}

impl Rules {
    /// The rules that apply to the entries of the folders above `root`, and the user's own from `global`,
    /// a file that need not exist.
    pub(crate) fn above(root: &Path, global: Option<&Path>) -> Arc<Self> {
        let mut rules = Arc::new(Self {
            folder: PathBuf::new(),
            parent: None,
            ignore: None,
            git_ignore: None,
            git_exclude: None,
            is_repository: false,
            in_repository: false,
            global: None,
            sources: Vec::new(),
        });
        if let Some(file) = global
            && let Some(top) = Arc::get_mut(&mut rules)
        {
            top.sources.push((file.to_owned(), stamp(file)));
            top.global = read(Path::new("/"), file).map(Arc::new);
        }
        let mut above: Vec<&Path> = root.ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
            let found =
                RuleFiles { ignore: has(IGNORE), git_ignore: has(GIT_IGNORE), git: has(GIT) };
            rules = Self::of_folder(folder, found, &rules);
        }
        rules
    }

    /// The rules for the entries of `folder`, which has the files `found`.
    pub(crate) fn of_folder(folder: &Path, found: RuleFiles, parent: &Arc<Self>) -> Arc<Self> {
        if !found.any() {
            return parent.clone();
        }
        let mut sources = Vec::new();
        let mut file = |is_there: bool, path: PathBuf| {
            if !is_there {
                return None;
            }
            // Stamped before it is read: a change in between is found later.
            sources.push((path.clone(), stamp(&path)));
            read(folder, &path)
        };
        let ignore = file(found.ignore, folder.join(IGNORE));
        let git_ignore = file(found.git_ignore, folder.join(GIT_IGNORE));
        // A link that leads nowhere makes no repository.
        let is_repository = found.git && folder.join(GIT).metadata().is_ok();
        let exclude = is_repository.then(|| common_git_folder(folder)).flatten();
        let git_exclude = exclude.and_then(|git| file(true, git.join("info/exclude")));
        Arc::new(Self {
            folder: folder.to_owned(),
            in_repository: is_repository || parent.in_repository,
            parent: Some(parent.clone()),
            ignore,
            git_ignore,
            git_exclude,
            is_repository,
            global: parent.global.clone(),
            sources,
        })
    }

    /// Returns whether a search leaves out `path`, an entry of the folder that these rules are for.
    pub(crate) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let (mut ignore, mut git_ignore, mut exclude) = (Match::None, Match::None, Match::None);
        let mut left_repository = false;
        let asked = |rules: &Option<Gitignore>| match rules {
            Some(rules) => rules.matched(path, is_folder).map(drop),
            None => Match::None,
        };
        let mut next = Some(self);
        while let Some(rules) = next {
            if ignore.is_none() {
                ignore = asked(&rules.ignore);
            }
            if self.in_repository && !left_repository {
                if git_ignore.is_none() {
                    git_ignore = asked(&rules.git_ignore);
                }
                if exclude.is_none() {
                    exclude = asked(&rules.git_exclude);
                }
            }
            left_repository |= rules.is_repository;
            next = rules.parent.as_deref();
        }
        let global = match &self.global {
            Some(rules) if self.in_repository => rules.matched(path, is_folder).map(drop),
            _ => Match::None,
        };
        ignore.or(git_ignore).or(exclude).or(global).is_ignore()
    }

    /// Returns whether they are those of `folder` itself.
    pub(crate) fn are_of(&self, folder: &Path) -> bool {
        self.folder == folder
    }

    /// The rules of the folder above `folder`, when these are those of `folder`.
    pub(crate) fn without<'a>(self: &'a Arc<Self>, folder: &Path) -> &'a Arc<Self> {
        match &self.parent {
            Some(parent) if self.folder == folder => parent,
            _ => self,
        }
    }

    /// Returns whether `other` came from the same files in the same state.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.folder == other.folder
            && self.is_repository == other.is_repository
            && self.sources == other.sources
    }

    /// Returns whether the files have changed since they were read, or those of a folder above.
    pub(crate) fn have_changed(&self) -> bool {
        let mut next = Some(self);
        while let Some(rules) = next {
            if rules.own_have_changed() {
                return true;
            }
            next = rules.parent.as_deref();
        }
        false
    }

    /// As [`Rules::have_changed`], without the folders above.
    pub(crate) fn own_have_changed(&self) -> bool {
        self.sources.iter().any(|(path, known)| stamp(path) != *known)
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = path.metadata().ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// The rules in `file`, which apply below `folder`. `None` when there are none.
fn read(folder: &Path, file: &Path) -> Option<Gitignore> {
    let bytes = match files::read(file, MAX_RULE_BYTES) {
        Ok(bytes) => bytes,
        Err(files::Error::Io { .. }) => return None,
        Err(error) => {
            tracing::warn!("its ignore rules do not apply: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        if let Err(error) = builder.add_line(None, line) {
            tracing::warn!("{}: a rule is left out: {error}", file.display());
        }
    }
    match builder.build() {
        Ok(rules) => (!rules.is_empty()).then_some(rules),
        Err(error) => {
            tracing::warn!("{}: its rules do not apply: {error}", file.display());
            None
        }
    }
}

/// Folder of the git files that all worktrees of the repository at `folder` share.
fn common_git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(GIT);
    if git.is_dir() {
        return Some(git);
    }
    let pointer = files::read_utf8(&git, MAX_RULE_BYTES).ok()?;
    let own = folder.join(pointer.strip_prefix("gitdir: ")?.trim_end());
    match files::read_utf8(&own.join("commondir"), MAX_RULE_BYTES) {
        Ok(common) => Some(own.join(common.trim_end())),
        Err(_) => Some(own),
    }
}
