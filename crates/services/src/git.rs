//! Facts about a repository read from its files: nothing of it is run, not even git.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use protocol::thread_record::GitInfo;

/// Larger files of a repository are not read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The folder of a repository, or the file that leads to it.
const GIT: &str = ".git";

/// Commit, branch and origin of the repository that `cwd` lies in, as far as they can be read. Waits
/// for the file system.
pub fn info(cwd: &Path) -> Option<GitInfo> {
    info_of(folders(cwd)?)
}

/// As [`info`], for a project whose root was found with these markers: the folders above `cwd` need not
/// be searched a second time.
pub fn info_of_project(cwd: &Path, (root, markers): (&Path, &[String])) -> Option<GitInfo> {
    match markers {
        // The root is the nearest folder with a `.git`, or `cwd` itself when there is none.
        [only] if only == GIT => info_of(folders_of(root)?),
        _ => info(cwd),
    }
}

fn info_of(folders: Folders) -> Option<GitInfo> {
    let Folders { own: folder, common, .. } = folders;
    let head = read(&folder.join("HEAD"))?;
    let head = head.trim();
    let reference = head.strip_prefix("ref: ").map(str::trim);
    let sha = match reference {
        Some(name) => resolve(&folder, &common, name),
        None => is_sha(head).then(|| head.to_owned()),
    };
    Some(GitInfo {
        sha,
        branch: reference.and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned),
        origin_url: read(&common.join("config")).and_then(|text| origin_url(&text)),
    })
}

/// Returns whether git may find a repository from `cwd`: even a bare one, and one that it would
/// refuse. Waits for the file system.
pub fn may_be_repository(cwd: &Path) -> bool {
    let is_bare = |folder: &Path| folder.join("HEAD").exists() && folder.join("objects").exists();
    cwd.ancestors().any(|folder| folder.join(GIT).exists() || is_bare(folder))
}

/// The folders of a repository.
pub struct Folders {
    /// The working folder.
    pub root: PathBuf,
    /// The git folder of this working folder.
    pub own: PathBuf,
    /// The git folder that all working folders of the repository share.
    pub common: PathBuf,
}

/// The folders of the repository that `cwd` lies in. Waits for the file system.
pub fn folders(cwd: &Path) -> Option<Folders> {
    cwd.ancestors().find_map(|folder| {
        let entry = folder.join(GIT).metadata().ok()?;
        Some(folders_with(folder, &entry))
    })?
}

/// The folders of a repository whose working folder is `root`.
fn folders_of(root: &Path) -> Option<Folders> {
    let entry = root.join(GIT).metadata().ok()?;
    folders_with(root, &entry)
}

fn folders_with(root: &Path, entry: &Metadata) -> Option<Folders> {
    let root = root.to_owned();
    let own = if entry.is_dir() {
        root.join(GIT)
    } else {
        let text = read(&root.join(GIT))?;
        root.join(text.trim().strip_prefix("gitdir:")?.trim())
    };
    let common =
        read(&own.join("commondir")).map_or_else(|| own.clone(), |common| own.join(common.trim()));
    Some(Folders { root, own, common })
}

fn resolve(folder: &Path, common: &Path, name: &str) -> Option<String> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if !name.starts_with("refs/") || !name.split('/').all(is_plain) {
        return None;
    }
    for base in [folder, common] {
        if let Some(sha) = read(&base.join(name)).filter(|text| is_sha(text.trim())) {
            return Some(sha.trim().to_owned());
        }
    }
    let packed = read(&common.join("packed-refs"))?;
    packed.lines().find_map(|line| {
        let (sha, packed_name) = line.split_once(' ')?;
        (packed_name == name && is_sha(sha)).then(|| sha.to_owned())
    })
}

/// The `url` of `[remote "origin"]`, without the user and password that it may hold.
fn origin_url(config: &str) -> Option<String> {
    let mut inside = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == r#"[remote "origin"]"#;
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(without_credentials(value.trim()));
        }
    }
    None
}

fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) if scheme != "ssh" => format!("{scheme}://{}", &rest[at + 1..]),
        _ => url.to_owned(),
    }
}

fn is_sha(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn read(path: &Path) -> Option<String> {
    files::read_utf8(path, MAX_BYTES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_read_without_running_anything() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(info(&folder.path().join("nowhere")), None);
        let git = folder.path().join(".git");
        std::fs::create_dir_all(git.join("refs/heads")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let config =
            "[core]\n\tfsmonitor = evil\n[remote \"origin\"]\n\turl = https://me:pw@host/x\n";
        std::fs::write(git.join("config"), config).unwrap();
        let sha = "a".repeat(40);
        std::fs::write(git.join("packed-refs"), format!("# pack\n{sha} refs/heads/main\n"))
            .unwrap();
        let found = info(&folder.path().join("src")).unwrap();
        assert_eq!(found.branch.as_deref(), Some("main"));
        assert_eq!(found.sha.as_deref(), Some(&*sha));
        assert_eq!(found.origin_url.as_deref(), Some("https://host/x"));
        let of_project = |root: &Path, marker: &str| {
            info_of_project(&folder.path().join("src"), (root, &[marker.to_owned()]))
        };
        assert_eq!(of_project(folder.path(), ".git").as_ref(), Some(&found));
        let elsewhere = folder.path().join("src");
        assert_eq!(of_project(&elsewhere, ".git"), None, "the root has no `.git`");
        assert_eq!(of_project(&elsewhere, "pom.xml").as_ref(), Some(&found));
        std::fs::write(git.join("HEAD"), "ref: refs/../../../etc/passwd\n").unwrap();
        assert_eq!(info(folder.path()).unwrap().sha, None);
    }
}
