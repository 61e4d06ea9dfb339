//! Skills of a folder: where they are looked for, what was found, which are switched off. What was read
//! is kept until one of its folders changes.

mod input;
mod needs;
mod scripts;
mod thread;
mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use config::Config;
use files::Pool;
use protocol::common::Empty;
use protocol::skills::SkillsListEntry;
use protocol::{Encoded, SkillsChanged};
use skills::{Found, Root, SKILL_FILE, Scope, Skill};

use crate::config_source::Loaded;
use crate::connections::Connections;
use crate::error::Error;
use crate::options::Options;
pub use input::{SkillInputs, may_use_skills};
pub use needs::{INSTALL, NeedKind, Needs};
pub use thread::ThreadSkills;
use watch::SkillWatch;

/// Folders with skills, below the home of the agent or a project folder's `.agent`, the user's home or a
/// project folder.
const SHARED_FOLDERS: [&str; 2] = [".agents/skills", ".claude/skills"];
const OWN_FOLDER: &str = "skills";
/// Sets of roots whose skills are kept, and working folders whose extra roots are.
const MAX_KEPT: usize = 256;

/// The skills of each folder.
pub struct Skills {
    options: Arc<Options>,
    files: Pool,
    connections: Arc<Connections>,
    /// Begins with the first look.
    watch: OnceLock<Arc<SkillWatch>>,
    kept: Mutex<HashMap<Vec<Root>, Arc<SkillSet>>>,
    /// The sources of working folders' lists.
    listed: Mutex<HashMap<PathBuf, Arc<Listed>>>,
    /// The roots that clients added, by working folder.
    extra: Mutex<HashMap<PathBuf, Vec<PathBuf>>>,
}

/// The skills below some roots, as they were when they were read.
#[derive(Debug)]
pub struct SkillSet {
    pub found: Found,
    /// Of the watch before they were read; `None` when a folder of theirs is not watched.
    generation: Option<u64>,
}

/// An entry of a list, with what it was made from.
pub struct Listed {
    pub loaded: Loaded,
    pub set: Arc<SkillSet>,
    pub entry: Encoded<SkillsListEntry>,
}

impl Skills {
    pub fn shared(options: Arc<Options>, files: Pool, connections: Arc<Connections>) -> Arc<Self> {
        let (watch, kept) = (OnceLock::new(), Mutex::default());
        let (listed, extra) = (Mutex::default(), Mutex::default());
        Arc::new(Self { options, files, connections, watch, kept, listed, extra })
    }

    /// The skills for work in `cwd`, with this configuration of the folder. Switched-off ones are among
    /// them. `reload`: reads the files in any case.
    ///
    /// # Errors
    /// The file system does not answer.
    pub async fn in_folder(
        &self,
        cwd: &Path,
        config: &Config,
        reload: bool,
    ) -> Result<Arc<SkillSet>, Error> {
        let roots = self.roots(cwd, config);
        let watch = self.watch().clone();
        if !reload
            && let Some(set) = self.kept().get(&roots)
            && set.generation == Some(watch.generation())
        {
            return Ok(set.clone());
        }
        let searched = roots.clone();
        let read = self.files.run(cwd, move || {
            let generation = watch.generation();
            let is_watched = AtomicBool::new(watch.add_roots(&searched));
            let found = skills::discover(&searched, &|folder| {
                if !watch.add(folder) {
                    is_watched.store(false, Ordering::Relaxed);
                }
            });
            SkillSet { found, generation: is_watched.into_inner().then_some(generation) }
        });
        let set = Arc::new(read.await?);
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(roots, set.clone());
        Ok(set)
    }

    /// Does work that reads files near `cwd`.
    ///
    /// # Errors
    /// The file system does not answer.
    async fn on_files<T: Send + 'static>(
        &self,
        cwd: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.files.run(cwd, work).await;
        done.map_err(|error| Error::failed(error.to_string()))
    }

    /// Adds folders to those that are searched for work in `cwd`, in place of the ones added before.
    pub fn set_extra_roots(&self, cwd: &Path, roots: Vec<PathBuf>) {
        let mut extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        if roots.is_empty() {
            extra.remove(cwd);
            return;
        }
        if extra.len() >= MAX_KEPT {
            extra.clear();
        }
        extra.insert(cwd.to_owned(), roots);
    }

    /// The last list of a working folder; it may be out of date.
    pub fn listed(&self, cwd: &Path) -> Option<Arc<Listed>> {
        self.lists().get(cwd).cloned()
    }

    pub fn keep_list(&self, cwd: PathBuf, listed: Listed) {
        let mut lists = self.lists();
        if lists.len() >= MAX_KEPT {
            lists.clear();
        }
        lists.insert(cwd, Arc::new(listed));
    }

    fn lists(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Listed>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Informs every client that lists of skills have changed.
    pub fn announce_change(&self) {
        self.connections.notify_all::<SkillsChanged>(&Empty {});
    }

    fn watch(&self) -> &Arc<SkillWatch> {
        self.watch.get_or_init(|| {
            let connections = self.connections.clone();
            let changed = move || connections.notify_all::<SkillsChanged>(&Empty {});
            Arc::new(SkillWatch::begin(changed))
        })
    }

    /// Where skills are looked for; the first takes precedence.
    fn roots(&self, cwd: &Path, config: &Config) -> Vec<Root> {
        let mut roots = Vec::new();
        let mut add = |path: PathBuf, scope: Scope, boundary: &Path| {
            roots.push(Root { path, scope, boundary: boundary.to_owned(), prefix: None });
        };
        let project = &config.project_root;
        for folder in config.project_folders.iter().rev() {
            let own = folder.join(config::PROJECT_FOLDER);
            if own != self.options.home {
                add(own.join(OWN_FOLDER), Scope::Project, project);
            }
            for shared in SHARED_FOLDERS {
                add(folder.join(shared), Scope::Project, project);
            }
        }
        let home = self.options.variable("HOME").map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute());
        let own = &self.options.home;
        add(own.join(OWN_FOLDER), Scope::User, home.as_deref().unwrap_or(own));
        for shared in home.iter().flat_map(|_| SHARED_FOLDERS) {
            if let Some(home) = &home {
                add(home.join(shared), Scope::User, home);
            }
        }
        let extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        for path in extra.get(cwd).into_iter().flatten() {
            add(path.clone(), Scope::User, path);
        }
        let system = self.options.system_dir.join(OWN_FOLDER);
        add(system.clone(), Scope::Admin, &system);
        for plugin in config.plugin_parts.iter() {
            roots.extend(plugin.skill_folders.iter().map(|path| Root {
                path: path.clone(),
                scope: Scope::User,
                // Links of a plugin lead nowhere else.
                boundary: plugin.root.clone(),
                prefix: Some(plugin.name.clone()),
            }));
        }
        roots
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<Root>, Arc<SkillSet>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SkillSet {
    /// The skills that are not switched off.
    pub fn enabled<'s>(
        &'s self,
        switches: &'s Switches,
    ) -> impl Iterator<Item = &'s Skill> + Clone {
        self.found.skills.iter().filter(|skill| switches.is_on(skill.folder()))
    }
}

/// Which skills the configuration switches off and on, by folder.
pub struct Switches(HashMap<PathBuf, bool>);

impl Switches {
    /// Of two entries about a skill, the last one counts.
    pub fn new(config: &Config) -> Self {
        let entries = config.skills.config.iter().filter_map(|entry| {
            let (path, enabled) = (entry.path.as_deref()?, entry.enabled?);
            Some((skill_folder(path).to_owned(), enabled))
        });
        Self(entries.collect())
    }

    /// Returns whether the skill of this folder is not switched off.
    pub fn is_on(&self, folder: &Path) -> bool {
        self.0.is_empty() || self.0.get(folder).copied().unwrap_or(true)
    }
}

/// The folder of a skill that is named by its folder or its `SKILL.md`.
pub fn skill_folder(path: &Path) -> &Path {
    match path.file_name() {
        Some(name) if name == SKILL_FILE => path.parent().unwrap_or(path),
        _ => path,
    }
}
