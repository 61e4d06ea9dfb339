//! Determines whether git can read a repository without running a program that the repository names
//! (fsmonitor, filters, diff drivers, hooks, pagers, signature programs). Reads only the
//! repository's own files; the user's global configuration is trusted.

use std::fs;
use std::path::{Path, PathBuf};

use super::resolver::GitUse;

/// Longest configuration file, in bytes.
const MAX_CONFIG: u64 = 256 * 1024;
/// Longest index, in bytes.
const MAX_INDEX: u64 = 64 * 1024 * 1024;

/// Sections whose keys are all harmless for commands that only read.
const HARMLESS_SECTIONS: &[&str] = &[
    "advice",
    "author",
    "branch",
    "color",
    "column",
    "committer",
    "gc",
    "init",
    "pull",
    "push",
    "user",
];

/// The other allowed keys of a repository's configuration: section and key in lower case, without
/// subsection.
const HARMLESS_KEYS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "commentchar",
            "compression",
            "eol",
            "excludesfile",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "preloadindex",
            "protecthfs",
            "protectntfs",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "symlinks",
            "untrackedcache",
            "whitespace",
        ],
    ),
    ("commit", &["gpgsign", "verbose", "cleanup"]),
    ("diff", &["algorithm", "colormoved", "context", "mnemonicprefix", "noprefix", "renames"]),
    ("extensions", &["objectformat", "refstorage", "worktreeconfig"]),
    ("fetch", &["prune", "prunetags", "parallel"]),
    ("lfs", &["repositoryformatversion", "locksverify", "access"]),
    ("merge", &["conflictstyle", "ff", "renames"]),
    ("remote", &["fetch", "mirror", "prune", "push", "pushurl", "tagopt", "url"]),
    ("rerere", &["enabled", "autoupdate"]),
    ("status", &["showuntrackedfiles", "short", "branch", "renames"]),
    ("submodule", &["active", "branch", "ignore", "url"]),
    ("tag", &["gpgsign", "sort"]),
];

/// Returns whether the repository that git finds from `dir` names no program. True without a
/// repository; false if a file cannot be read or understood.
pub(super) fn is_inert(dir: &Path, usage: GitUse) -> bool {
    for folder in dir.ancestors() {
        if let Some(repository) = Repository::at(folder) {
            return repository.is_some_and(|found| found.is_inert(usage));
        }
    }
    true
}

struct Repository {
    /// The folder of `HEAD` and the index.
    git_dir: PathBuf,
    /// The folder of the configuration and the hooks; another one in a linked work tree.
    common_dir: PathBuf,
}

impl Repository {
    /// `None`: no repository. `Some(None)`: one that cannot be resolved.
    fn at(folder: &Path) -> Option<Option<Self>> {
        let entry = folder.join(".git");
        if entry.is_dir() {
            return Some(Self::open(entry));
        }
        if entry.symlink_metadata().is_ok() {
            return Some(Self::linked(&entry, folder));
        }
        // git also accepts a folder that looks like the inside of a repository.
        let bare =
            folder.join("HEAD").symlink_metadata().is_ok() && folder.join("objects").is_dir();
        bare.then(|| Self::open(folder.to_owned()))
    }

    fn linked(file: &Path, folder: &Path) -> Option<Self> {
        let content = read_bounded(file, MAX_CONFIG)?;
        let text = String::from_utf8(content).ok()?;
        let target = text.strip_prefix("gitdir:")?.trim();
        Self::open(folder.join(target))
    }

    fn open(git_dir: PathBuf) -> Option<Self> {
        let pointer = git_dir.join("commondir");
        let common_dir = match pointer.symlink_metadata() {
            Ok(_) => {
                let text = String::from_utf8(read_bounded(&pointer, MAX_CONFIG)?).ok()?;
                git_dir.join(text.trim())
            }
            Err(_) => git_dir.clone(),
        };
        Some(Self { git_dir, common_dir })
    }

    fn is_inert(&self, usage: GitUse) -> bool {
        let configs = [
            self.common_dir.join("config"),
            self.common_dir.join("config.worktree"),
            self.git_dir.join("config.worktree"),
        ];
        let harmless = configs.iter().all(|config| file_is_harmless(config));
        harmless && (usage == GitUse::Objects || self.work_tree_is_inert())
    }

    /// Comparing the work tree rewrites the index, which calls `post-index-change`, and enters
    /// submodules, whose configuration is not checked here.
    fn work_tree_is_inert(&self) -> bool {
        let hook = self.common_dir.join("hooks/post-index-change");
        hook.symlink_metadata().is_err() && !self.may_have_submodules()
    }

    fn may_have_submodules(&self) -> bool {
        let index = self.git_dir.join("index");
        if index.symlink_metadata().is_err() {
            return false;
        }
        if self.has_shared_index() {
            return true;
        }
        match read_bounded(&index, MAX_INDEX) {
            Some(bytes) => holds_submodule_mode(&bytes),
            None => true,
        }
    }

    /// A split index keeps entries in a second file, which is not searched.
    fn has_shared_index(&self) -> bool {
        match fs::read_dir(&self.git_dir) {
            Ok(entries) => entries
                .flatten()
                .any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"sharedindex.")),
            Err(_) => true,
        }
    }
}

/// Searches the positions of modes in the index for that of a submodule. Other fields can have the
/// same bytes; then the user is asked, which is safe.
fn holds_submodule_mode(index: &[u8]) -> bool {
    const SUBMODULE_MODE: [u8; 4] = [0, 0, 0xe0, 0];
    // Up to version 3 entries are aligned to 8 bytes after a head of 12, the mode at 24.
    let aligned = matches!(index.get(4..8), Some([0, 0, 0, 2 | 3]));
    index
        .windows(4)
        .enumerate()
        .any(|(at, window)| window == SUBMODULE_MODE && (!aligned || at % 8 == 4))
}

fn file_is_harmless(config: &Path) -> bool {
    if config.symlink_metadata().is_err() {
        return true;
    }
    match read_bounded(config, MAX_CONFIG).map(String::from_utf8) {
        Some(Ok(text)) => is_harmless(&text),
        _ => false,
    }
}

/// Returns whether every line of a configuration is understood and sets a harmless key.
fn is_harmless(config: &str) -> bool {
    let mut section = String::new();
    for line in config.trim_start_matches('\u{feff}').lines() {
        let mut rest = line.trim();
        if let Some(header) = rest.strip_prefix('[') {
            let Some((name, after)) = split_header(header) else {
                return false;
            };
            section = name;
            rest = after.trim();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        // The next line of a continued value would look like a key.
        if rest.ends_with('\\') || !key_is_harmless(&section, rest) {
            return false;
        }
    }
    true
}

/// `core]`, `remote "origin"] url = x`, `branch.main]`: the section's name, and what follows.
fn split_header(header: &str) -> Option<(String, &str)> {
    let mut quoted = false;
    let mut chars = header.char_indices();
    let mut end = None;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quoted => {
                chars.next();
            }
            '"' => quoted = !quoted,
            ']' if !quoted => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let (inside, after) = header.split_at(end?);
    let name_end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let name = &inside[..name_end.unwrap_or(inside.len())];
    Some((name.to_ascii_lowercase(), after.strip_prefix(']')?))
}

fn key_is_harmless(section: &str, line: &str) -> bool {
    let key = line.split('=').next().unwrap_or_default();
    let key = key.trim().to_ascii_lowercase();
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return false;
    }
    HARMLESS_SECTIONS.contains(&section)
        || HARMLESS_KEYS.iter().any(|(name, keys)| *name == section && keys.contains(&key.as_str()))
}

/// The contents of a regular file of at most `limit` bytes.
fn read_bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    ::files::read(path, limit).ok()
}
