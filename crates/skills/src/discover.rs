//! Finds the skills below some folders, within bounds. A file or folder that cannot be used is reported
//! and hides no other.

use std::collections::{HashMap, HashSet};
use std::fs::{DirEntry, Metadata};
use std::path::{Path, PathBuf};

use crate::problem::{Fault, Problem};
use crate::skill::{self, SKILL_FILE, Scope, Skill};

/// Folders within folders that are searched below a root.
const MAX_DEPTH: usize = 6;
/// Folders that are searched below a root.
const MAX_FOLDERS: usize = 2_000;
/// Entries of a folder that are read.
const MAX_ENTRIES: usize = 10_000;
/// Problems that are reported.
const MAX_PROBLEMS: usize = 1_000;

/// A folder that is searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    pub path: PathBuf,
    pub scope: Scope,
    /// Links are followed as long as they lead into this folder or into the root.
    pub boundary: PathBuf,
    /// Stands before the names of its skills: `prefix:name`.
    pub prefix: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of the roots, then of their paths. Of two with one name, only the first.
    pub skills: Vec<Skill>,
    pub problems: Vec<Problem>,
}

/// Finds the skills below the roots; the first root takes precedence. A root that does not exist is
/// empty. `visit` gets each folder before it is read: whoever watches it from then on misses no change.
pub fn discover(roots: &[Root], visit: &mut dyn FnMut(&Path)) -> Found {
    let mut search = Search { found: Found::default(), seen: HashSet::new(), visit };
    for root in roots {
        search.root(root);
    }
    let Search { mut found, .. } = search;
    let mut by_name: HashMap<String, PathBuf> = HashMap::new();
    let Found { skills, problems, .. } = &mut found;
    skills.retain(|skill| match by_name.get(&skill.name) {
        None => {
            by_name.insert(skill.name.clone(), skill.path.clone());
            true
        }
        Some(first) => {
            let message = format!(
                "the skill is not used, because {} has the same name, `{}`",
                first.display(),
                skill.name
            );
            problems.push(Fault::new(None, message).within(&skill.path));
            false
        }
    });
    problems.truncate(MAX_PROBLEMS);
    found
}

struct Search<'v> {
    found: Found,
    visit: &'v mut dyn FnMut(&Path),
    /// Folders that were searched, however their paths are spelled.
    seen: HashSet<Identity>,
}

/// What a link may lead to.
struct Allowed {
    folders: Vec<PathBuf>,
}

impl Search<'_> {
    fn root(&mut self, root: &Root) {
        let metadata = match root.path.metadata() {
            Ok(metadata) if metadata.is_dir() => metadata,
            // Not there, or no folder.
            _ => return,
        };
        let real = |path: &Path| path.canonicalize().ok();
        let mut allowed = Allowed { folders: real(&root.boundary).into_iter().collect() };
        if root.path.is_symlink() {
            match real(&root.path) {
                Some(target) if allowed.contains(&target) => {}
                _ => return self.report(&root.path, leads_out(&root.boundary)),
            }
        }
        allowed.folders.extend(real(&root.path));
        let mut next = vec![(root.path.clone(), Identity::new(&root.path, &metadata))];
        let mut count = 0;
        for depth in 0..=MAX_DEPTH {
            for (folder, identity) in std::mem::take(&mut next) {
                if !self.seen.insert(identity) {
                    continue;
                }
                count += 1;
                if count > MAX_FOLDERS {
                    let message =
                        format!("only the first {MAX_FOLDERS} folders are searched for skills");
                    return self.report(&root.path, Fault::new(None, message));
                }
                (self.visit)(&folder);
                // The root itself is no skill.
                if depth > 0 && self.skill(&folder, root, &allowed) {
                    continue;
                }
                if depth < MAX_DEPTH {
                    next.extend(self.subfolders(&folder, root, &allowed));
                }
            }
        }
    }

    /// Takes the folder's skill. Returns whether it has one, if only a broken one.
    fn skill(&mut self, folder: &Path, root: &Root, allowed: &Allowed) -> bool {
        let path = folder.join(SKILL_FILE);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => match path.canonicalize() {
                Ok(target) if allowed.contains(&target) => {
                    (self.visit)(target.parent().unwrap_or(&target));
                }
                Ok(_) => {
                    self.report(&path, leads_out(&root.boundary));
                    return true;
                }
                Err(error) => {
                    self.report(&path, Fault::new(None, format!("the link is broken: {error}")));
                    return true;
                }
            },
            Ok(_) => {}
            Err(_) => return false,
        }
        match skill::read(&path, (root.scope, &root.path), &mut self.found.problems) {
            Ok(mut skill) => {
                if let Some(prefix) = &root.prefix {
                    skill.name = format!("{prefix}:{}", skill.name);
                }
                self.found.skills.push(skill);
            }
            Err(problem) => self.found.problems.push(problem),
        }
        true
    }

    /// The folders in a folder, sorted, links included.
    fn subfolders(
        &mut self,
        folder: &Path,
        root: &Root,
        allowed: &Allowed,
    ) -> Vec<(PathBuf, Identity)> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let fault = Fault::new(None, format!("the folder cannot be read: {error}"));
                self.report(folder, fault);
                return Vec::new();
            }
        };
        let mut entries: Vec<DirEntry> = entries.flatten().take(MAX_ENTRIES + 1).collect();
        if entries.len() > MAX_ENTRIES {
            let message =
                format!("the folder has more than {MAX_ENTRIES} entries: the rest is not read");
            self.report(folder, Fault::new(None, message));
        }
        entries.sort_by_key(DirEntry::file_name);
        entries.iter().filter_map(|entry| self.subfolder(entry, root, allowed)).collect()
    }

    fn subfolder(
        &mut self,
        entry: &DirEntry,
        root: &Root,
        allowed: &Allowed,
    ) -> Option<(PathBuf, Identity)> {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") || name == "node_modules" {
            return None;
        }
        let kind = entry.file_type().ok()?;
        if !kind.is_dir() && !kind.is_symlink() {
            return None;
        }
        let path = entry.path();
        let Ok(metadata) = path.metadata() else {
            self.report(&path, Fault::new(None, "the link is broken"));
            return None;
        };
        if !metadata.is_dir() {
            return None;
        }
        if kind.is_symlink() && !path.canonicalize().is_ok_and(|target| allowed.contains(&target)) {
            self.report(&path, leads_out(&root.boundary));
            return None;
        }
        let identity = Identity::new(&path, &metadata);
        Some((path, identity))
    }

    fn report(&mut self, path: &Path, fault: Fault) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(fault.within(path));
        }
    }
}

fn leads_out(boundary: &Path) -> Fault {
    let message = format!("the link leads out of {} and is not followed", boundary.display());
    Fault::new(None, message)
}

impl Allowed {
    fn contains(&self, target: &Path) -> bool {
        self.folders.iter().any(|folder| target.starts_with(folder))
    }
}

/// A folder, however it is spelled.
#[cfg(unix)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity(u64, u64);

#[cfg(unix)]
impl Identity {
    fn new(_: &Path, metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }
}

#[cfg(not(unix))]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity(PathBuf);

#[cfg(not(unix))]
impl Identity {
    fn new(path: &Path, _: &Metadata) -> Self {
        Self(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }
}
