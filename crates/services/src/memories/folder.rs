//! The files of notes: `memories/general.md`, one file a project below `memories/projects/`, and
//! `memories/state.json`, which says up to which turn each thread has left its notes.
//!
//! Every change happens under the lock of `memories.lock`, next to the folder, so that several servers
//! share a home; its contents count the removals of all notes. Files are replaced as a whole: a crash
//! leaves the old or the new one. Links, devices, large files and files that are no text are refused,
//! never followed, cut or overwritten.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use session::{MemoryFile, MemoryLine, MemoryNotes};
use sha2::{Digest, Sha256};

use super::text::{Note, line_of, thread_of};

const FOLDER: &str = "memories";
const PROJECTS: &str = "projects";
const GENERAL: &str = "general.md";
const STATE: &str = "state.json";
const LOCK: &str = "memories.lock";
/// Prefix of the names of folders that are being removed.
const REMOVED: &str = "memories.removed-";
/// Maximum wait of a change for another server.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Largest file that is read: those of the program are smaller.
const MAX_FILE: u64 = 1 << 20;
/// Most threads whose progress is known; of those beyond, the oldest are forgotten.
const MAX_THREADS: usize = 2_000;
/// Most files of projects. At the bound, further projects leave their notes nowhere.
const MAX_PROJECTS: usize = 500;

/// The folder of notes.
#[derive(Clone, Debug)]
pub struct MemoryFolder {
    home: PathBuf,
}

/// The progress of a thread with its notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of times that all notes were removed.
    pub removals: u64,
    /// The last turn whose notes are kept.
    pub turn: Option<String>,
}

/// The additions of a thread.
#[derive(Clone, Debug)]
pub struct Addition {
    pub thread: String,
    /// The last turn that the notes are from.
    pub turn: String,
    /// [`Progress::removals`] when the notes were begun.
    pub removals: u64,
    pub project: PathBuf,
    pub notes: Vec<Note>,
    /// Largest size of a file; its oldest notes are dropped.
    pub max_bytes: usize,
}

#[derive(Default, Serialize, Deserialize)]
struct State {
    /// The last turn of each thread.
    threads: BTreeMap<String, String>,
}

impl MemoryFolder {
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// The notes for a thread in `project`, of at most `max_bytes`: the newest of each file, those of
    /// the project before general ones, which get at least a quarter of the room.
    pub fn notes(&self, project: &Path, max_bytes: usize) -> Result<MemoryNotes, String> {
        let mut notes = MemoryNotes::default();
        if !self.is_there()? {
            return Ok(notes);
        }
        let mut room = max_bytes;
        let own = format!("{PROJECTS}/{}", project_file(project));
        for (path, share) in [(own, max_bytes / 4 * 3), (GENERAL.to_owned(), usize::MAX)] {
            let Some(text) = self.read(&path)? else { continue };
            let file = newest_lines(&path, &text, share.min(room));
            room -= file.lines.iter().map(|line| cost(&path, &line.text)).sum::<usize>();
            if !file.lines.is_empty() {
                notes.files.push(file);
            }
        }
        Ok(notes)
    }

    /// Returns the progress of a thread.
    pub fn progress(&self, thread: &str) -> Result<Progress, String> {
        let mut lock = self.lock()?;
        let removals = removals(&mut lock)?;
        let turn = match self.is_there()? {
            true => self.state()?.threads.remove(thread),
            false => None,
        };
        Ok(Progress { removals, turn })
    }

    /// Adds notes. Returns whether they are kept: not when all notes were removed since they were begun.
    pub fn add(&self, addition: &Addition) -> Result<bool, String> {
        let mut lock = self.lock()?;
        if removals(&mut lock)? != addition.removals {
            return Ok(false);
        }
        self.is_there()?;
        let mut state = self.state_if_there()?;
        create_folder(&self.home.join(FOLDER))?;
        self.remove_drafts()?;
        for is_general in [false, true] {
            let notes = addition.notes.iter().filter(|note| note.is_general == is_general);
            let lines: Vec<String> = notes.map(|note| line_of(note, &addition.thread)).collect();
            if lines.is_empty() {
                continue;
            }
            let path = match is_general {
                true => GENERAL.to_owned(),
                false => self.path_of_project(&addition.project)?,
            };
            let before = self.read(&path)?;
            let title = if is_general { None } else { Some(&*addition.project) };
            let after = added(before.as_deref(), title, lines, addition.max_bytes);
            self.write(&path, after.as_bytes())?;
        }
        // Last: after a crash the thread leaves its notes again, and known ones are not repeated.
        state.threads.insert(addition.thread.clone(), addition.turn.clone());
        while state.threads.len() > MAX_THREADS {
            // Ids begin with their time.
            state.threads.pop_first();
        }
        let json = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        self.write(STATE, &json)?;
        Ok(true)
    }

    /// Removes everything. Readers see all of it or nothing.
    pub fn reset(&self) -> Result<(), String> {
        let mut lock = self.lock()?;
        let count = removals(&mut lock)?.wrapping_add(1);
        write_count(&mut lock, count).map_err(|error| self.failed(LOCK, &error))?;
        let folder = self.home.join(FOLDER);
        match folder.symlink_metadata() {
            Ok(_) => {
                let aside = self.home.join(format!("{REMOVED}{count}"));
                std::fs::rename(&folder, &aside).map_err(|error| self.failed(FOLDER, &error))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.failed(FOLDER, &error)),
        }
        filesystem::sync_folder(&self.home).map_err(|error| error.to_string())?;
        self.remove_aside()
    }

    /// Removes what was put aside, also by a server that was killed.
    fn remove_aside(&self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.home).map_err(|error| self.failed(".", &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with(REMOVED) {
                continue;
            }
            let path = entry.path();
            // A link is removed itself, and not what it leads to.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = match is_folder {
                true => std::fs::remove_dir_all(&path),
                false => std::fs::remove_file(&path),
            };
            removed.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn lock(&self) -> Result<File, String> {
        let path = self.home.join(LOCK);
        let opened = files::append_without_links(&path).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            match opened.file.try_lock() {
                Ok(()) => return Ok(opened.file),
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    let path = path.display();
                    return Err(format!("another server keeps {path} locked; try again later"));
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(self.failed(LOCK, &error)),
            }
        }
    }

    /// Returns whether there are notes.
    fn is_there(&self) -> Result<bool, String> {
        Ok(is_folder(&self.home.join(FOLDER))? && {
            is_folder(&self.home.join(FOLDER).join(PROJECTS))?;
            true
        })
    }

    fn state_if_there(&self) -> Result<State, String> {
        if self.is_there()? { self.state() } else { Ok(State::default()) }
    }

    fn state(&self) -> Result<State, String> {
        let Some(json) = self.read(STATE)? else { return Ok(State::default()) };
        serde_json::from_str(&json).map_err(|error| {
            let path = self.home.join(FOLDER).join(STATE);
            format!("{} cannot be read: {error}; remove it or call memory/reset", path.display())
        })
    }

    /// The file of a project, which may not exist yet.
    fn path_of_project(&self, project: &Path) -> Result<String, String> {
        let folder = self.home.join(FOLDER).join(PROJECTS);
        create_folder(&folder)?;
        let name = project_file(project);
        if folder.join(&name).symlink_metadata().is_err() {
            let listed = std::fs::read_dir(&folder);
            let count = listed.map_err(|error| self.failed(PROJECTS, &error))?.count();
            if count >= MAX_PROJECTS {
                let folder = folder.display();
                return Err(format!(
                    "{folder} has {count} files; remove those that are not needed"
                ));
            }
        }
        Ok(format!("{PROJECTS}/{name}"))
    }

    fn read(&self, path: &str) -> Result<Option<String>, String> {
        let path = self.home.join(FOLDER).join(path);
        let opened = match files::open_without_links(&path) {
            Ok(opened) => opened,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let bytes = opened.read(&path, MAX_FILE).map_err(|error| error.to_string())?;
        let text = files::decoded(bytes);
        text.map(Some).map_err(|_| format!("{} is no UTF-8 text", path.display()))
    }

    /// Removes what a server left that was killed while it wrote: under the lock, no other one writes.
    fn remove_drafts(&self) -> Result<(), String> {
        for folder in [FOLDER.to_owned(), format!("{FOLDER}/{PROJECTS}")] {
            let entries = match std::fs::read_dir(self.home.join(&folder)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(self.failed(&folder, &error)),
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let is_draft = name.starts_with(".agentd-") && name.ends_with(".tmp");
                if is_draft && entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    let removed = std::fs::remove_file(entry.path());
                    removed.map_err(|error| format!("{}: {error}", entry.path().display()))?;
                }
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, contents: &[u8]) -> Result<(), String> {
        let path = self.home.join(FOLDER).join(path);
        // Such a file would be written in place, and what has its other name would change.
        #[cfg(unix)]
        if path
            .symlink_metadata()
            .is_ok_and(|found| found.is_file() && std::os::unix::fs::MetadataExt::nlink(&found) > 1)
        {
            return Err(format!(
                "{} has another name (a hard link), whose contents would change too; remove one",
                path.display()
            ));
        }
        filesystem::write(&path, contents).map_err(|error| error.to_string())?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            let set = std::fs::set_permissions(&path, mode);
            set.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn failed(&self, name: &str, error: &std::io::Error) -> String {
        format!("{}: {error}", self.home.join(name).display())
    }
}

/// Returns whether there is a folder; an error for a link or anything else.
fn is_folder(path: &Path) -> Result<bool, String> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(true),
        Ok(_) => Err(format!("{} is not a folder; remove it", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn create_folder(path: &Path) -> Result<(), String> {
    if is_folder(path)? {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the number of times that all notes were removed, from the lock file.
fn removals(lock: &mut File) -> Result<u64, String> {
    let mut text = String::new();
    let read = lock.rewind().and_then(|()| lock.take(64).read_to_string(&mut text));
    read.map_err(|error| format!("{LOCK}: {error}"))?;
    match text.trim() {
        "" => Ok(0),
        count => count.parse().map_err(|_| format!("{LOCK} has no number: remove the file")),
    }
}

fn write_count(lock: &mut File, count: u64) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.write_all(count.to_string().as_bytes())?;
    lock.sync_all()
}

/// The name of a project's file: readable, and different for each path.
fn project_file(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let readable: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect();
    let digest = Sha256::digest(project.as_os_str().as_encoded_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    if readable.is_empty() { format!("{short}.md") } else { format!("{readable}-{short}.md") }
}

/// Returns the cost of a line, out of the room for notes.
fn cost(path: &str, text: &str) -> usize {
    path.len() + text.len() + 10
}

/// The last lines of a file that fit into `room` bytes, without titles.
fn newest_lines(path: &str, text: &str, room: usize) -> MemoryFile {
    let mut lines = Vec::new();
    let mut left = room;
    let numbered: Vec<(u32, &str)> = (1..).zip(text.lines()).collect();
    for (number, line) in numbered.into_iter().rev() {
        let (line, thread) = thread_of(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = MemoryLine { number, text: line, thread };
        let Some(rest) = left.checked_sub(cost(path, &line.text)) else { break };
        left = rest;
        lines.push(line);
    }
    lines.reverse();
    MemoryFile { path: path.to_owned(), lines }
}

/// A file with new lines at its end, without its oldest notes where it would be longer than `max_bytes`.
fn added(
    before: Option<&str>,
    project: Option<&Path>,
    new: Vec<String>,
    max_bytes: usize,
) -> String {
    let title = match project {
        Some(project) => format!("# Notes about {}", visible::path(project)),
        None => "# General notes".to_owned(),
    };
    let mut lines: Vec<String> = match before {
        Some(text) => text.lines().map(str::to_owned).collect(),
        None => vec![title, String::new()],
    };
    let words = |line: &str| thread_of(line).0;
    for line in new {
        if !lines.iter().any(|known| words(known) == words(&line)) {
            lines.push(line);
        }
    }
    let size = |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let mut total = size(&lines);
    lines.retain(|line| {
        let goes = total > max_bytes && line.starts_with("- ");
        if goes {
            total -= line.len() + 1;
        }
        !goes
    });
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests;
