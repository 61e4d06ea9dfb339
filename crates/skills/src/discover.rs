//! Finds the skills below some folders, within bounds. A file or folder that cannot be used is reported
//! and hides no other.

use std::collections::{HashMap, HashSet};
use std::fs::{DirEntry, Metadata};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use crate::copies;
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
/// Threads that read.
const MAX_THREADS: usize = 4;
/// Folders that are worth a thread.
const FOLDERS_PER_THREAD: usize = 32;

/// A folder that is searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    pub path: PathBuf,
    pub scope: Scope,
    /// Links are followed as long as they lead into this folder or into the root.
    pub boundary: PathBuf,
    /// Stands before the names of its skills: `prefix:name`. A root that has one can itself be the folder of a
    /// skill.
    pub prefix: Option<String>,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of the roots, then of their paths. Of two with one name, only the first.
    pub skills: Vec<Skill>,
    pub problems: Vec<Problem>,
}

/// Finds the skills below the roots; the first root takes precedence. A root that does not exist is
/// empty. `visit` gets each folder before it is read: a caller that watches it from then on misses no change.
pub fn discover(roots: &[Root], visit: Visit<'_>) -> Found {
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
        // A copy, such as an imported skill next to its source, would change nothing.
        Some(first) if copies::are_equal(first.parent().unwrap_or(first), skill.folder()) => false,
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

/// Called with each folder, from several threads.
type Visit<'v> = &'v (dyn Fn(&Path) + Sync);

struct Search<'v> {
    found: Found,
    visit: Visit<'v>,
    /// Folders that were searched, however their paths are spelled.
    seen: HashSet<Identity>,
}

/// The places that a link may lead to.
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
                _ => return self.report(leads_out(&root.boundary).within(&root.path)),
            }
        }
        allowed.folders.extend(real(&root.path));
        let mut next = vec![(root.path.clone(), Identity::new(&root.path, &metadata))];
        let mut count = 0;
        for depth in 0..=MAX_DEPTH {
            let mut folders = std::mem::take(&mut next);
            folders.retain(|(_, identity)| self.seen.insert(identity.clone()));
            let left = MAX_FOLDERS - count;
            let is_cut = folders.len() > left;
            folders.truncate(left);
            count += folders.len();
            let place = Place { root, allowed: &allowed, visit: self.visit, depth };
            for part in place.read(&folders) {
                self.found.skills.extend(part.skills);
                part.problems.into_iter().for_each(|problem| self.report(problem));
                next.extend(part.subfolders);
            }
            if is_cut {
                let message =
                    format!("only the first {MAX_FOLDERS} folders are searched for skills");
                return self.report(Fault::new(None, message).within(&root.path));
            }
        }
    }

    fn report(&mut self, problem: Problem) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(problem);
        }
    }
}

/// Where a search is.
struct Place<'s> {
    root: &'s Root,
    allowed: &'s Allowed,
    visit: Visit<'s>,
    /// Folders between the root and those that are read next.
    depth: usize,
}

/// The skills of some folders.
#[derive(Default)]
struct Part {
    skills: Vec<Skill>,
    problems: Vec<Problem>,
    subfolders: Vec<(PathBuf, Identity)>,
}

impl Place<'_> {
    /// Reads folders, on several threads if there are many; the parts are in the folders' order.
    fn read(&self, folders: &[(PathBuf, Identity)]) -> Vec<Part> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (folders.len() / FOLDERS_PER_THREAD).min(processors).clamp(1, MAX_THREADS);
        let mut shares = folders.chunks(folders.len().div_ceil(threads).max(1));
        let own = shares.next().unwrap_or_default();
        std::thread::scope(|scope| {
            let others: Vec<_> = shares.map(|share| scope.spawn(|| self.part(share))).collect();
            let own = self.part(own);
            let others = others.into_iter().map(|other| match other.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            std::iter::once(own).chain(others).collect()
        })
    }

    fn part(&self, folders: &[(PathBuf, Identity)]) -> Part {
        let mut part = Part::default();
        for (folder, _) in folders {
            (self.visit)(folder);
            // The root itself is no skill, but a plugin can name the folder of one.
            let can_be_skill = self.depth > 0 || self.root.prefix.is_some();
            if can_be_skill && self.skill(folder, &mut part) {
                continue;
            }
            if self.depth < MAX_DEPTH {
                self.subfolders(folder, &mut part);
            }
        }
        part
    }

    /// Takes the folder's skill. Returns whether it has one, if only a broken one.
    fn skill(&self, folder: &Path, part: &mut Part) -> bool {
        let path = folder.join(SKILL_FILE);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => match path.canonicalize() {
                Ok(target) if self.allowed.contains(&target) => {
                    (self.visit)(target.parent().unwrap_or(&target));
                }
                Ok(_) => {
                    part.report(&path, leads_out(&self.root.boundary));
                    return true;
                }
                Err(error) => {
                    part.report(&path, Fault::new(None, format!("the link is broken: {error}")));
                    return true;
                }
            },
            Ok(_) => {}
            Err(_) => return false,
        }
        match skill::read(&path, (self.root.scope, &self.root.path), &mut part.problems) {
            Ok(mut skill) => {
                if let Some(prefix) = &self.root.prefix {
                    skill.name = format!("{prefix}:{}", skill.name);
                }
                part.skills.push(skill);
            }
            Err(problem) => part.problems.push(problem),
        }
        true
    }

    /// Takes the folders in a folder, sorted, links included.
    fn subfolders(&self, folder: &Path, part: &mut Part) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let fault = Fault::new(None, format!("the folder cannot be read: {error}"));
                return part.report(folder, fault);
            }
        };
        let mut entries: Vec<DirEntry> = entries.flatten().take(MAX_ENTRIES + 1).collect();
        if entries.len() > MAX_ENTRIES {
            let message =
                format!("the folder has more than {MAX_ENTRIES} entries: the rest is not read");
            part.report(folder, Fault::new(None, message));
        }
        entries.sort_by_cached_key(DirEntry::file_name);
        for entry in &entries {
            let subfolder = self.subfolder(entry, part);
            part.subfolders.extend(subfolder);
        }
    }

    fn subfolder(&self, entry: &DirEntry, part: &mut Part) -> Option<(PathBuf, Identity)> {
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
            part.report(&path, Fault::new(None, "the link is broken"));
            return None;
        };
        if !metadata.is_dir() {
            return None;
        }
        let leads_inside =
            || path.canonicalize().is_ok_and(|target| self.allowed.contains(&target));
        if kind.is_symlink() && !leads_inside() {
            part.report(&path, leads_out(&self.root.boundary));
            return None;
        }
        let identity = Identity::new(&path, &metadata);
        Some((path, identity))
    }
}

impl Part {
    fn report(&mut self, path: &Path, fault: Fault) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(fault.within(path));
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
