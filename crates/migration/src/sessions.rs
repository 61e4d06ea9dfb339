//! Conversations with other agents: where their files are, and what is in them.

mod claude;
mod codex;
mod lines;
mod session;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::agent::Agent;
use crate::error::Error;
use crate::source::unlinked;
pub use session::{Call, Entry, Session, Turn};

/// Sessions that are offered at a time: the newest.
pub const MAX_OFFERED: usize = 100;
/// Entries of folders that are looked at for an agent. Further ones are reported.
const MAX_ENTRIES: usize = 200_000;
/// Files that are kept, newest first.
const MAX_KEPT: usize = 2_000;
/// Bytes of a session's file.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes from which folder and title are read.
const HEAD_BYTES: u64 = 256 << 10;
/// Characters of a title.
const TITLE_CHARS: usize = 120;

/// A file with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    pub agent: Agent,
    pub path: PathBuf,
    pub modified: SystemTime,
    pub bytes: u64,
}

impl SessionFile {
    /// The id of its thread here. It stays the same until the session goes on: its file only grows.
    #[must_use]
    pub fn thread_id(&self) -> String {
        let mut digest = Sha256::new();
        let stem = self.path.file_stem().unwrap_or_default();
        for part in [self.agent.id().as_bytes(), stem.as_encoded_bytes(), &self.bytes.to_be_bytes()]
        {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&digest.finalize()[..16]);
        // The form of a UUID of version 8, whose bits are the program's own.
        id[6] = id[6] & 0x0f | 0x80;
        id[8] = id[8] & 0x3f | 0x80;
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

/// The files of all agents' sessions, newest first.
#[must_use]
pub fn files(user_home: &Path) -> (Vec<SessionFile>, Vec<Error>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for agent in Agent::ALL {
        let (folder, depth) = match agent {
            Agent::ClaudeCode => (user_home.join(".claude/projects"), 2),
            Agent::Codex => (user_home.join(".codex/sessions"), 4),
            // Their formats are not read.
            Agent::GeminiCli | Agent::Cursor => continue,
        };
        let mut left = MAX_ENTRIES;
        let searched = unlinked(user_home, &folder)
            .and_then(|()| search(agent, &folder, depth, &mut left, &mut found));
        problems.extend(searched.err());
    }
    keep_newest(&mut found);
    (found, problems)
}

fn search(
    agent: Agent,
    folder: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut Vec<SessionFile>,
) -> Result<(), Error> {
    let failed = |cause| Error::from(files::Error::Io { path: folder.to_owned(), cause });
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        *left = left.checked_sub(1).ok_or_else(|| {
            let why = format!(
                "it has more than {MAX_ENTRIES} entries; sessions among the others are not offered"
            );
            Error::contents(folder, why)
        })?;
        // Of the entry itself, not of what a link leads to.
        let Ok(metadata) = entry.metadata() else { continue };
        let path = entry.path();
        if metadata.is_dir() && depth > 1 {
            search(agent, &path, depth - 1, left, found)?;
        } else if metadata.is_file() && is_session(agent, &path) {
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(SessionFile { agent, path, modified, bytes: metadata.len() });
            if found.len() >= 2 * MAX_KEPT {
                keep_newest(found);
            }
        }
    }
    Ok(())
}

fn keep_newest(found: &mut Vec<SessionFile>) {
    found.sort_by(|a, b| (b.modified, &b.path).cmp(&(a.modified, &a.path)));
    found.truncate(MAX_KEPT);
}

fn is_session(agent: Agent, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    match agent {
        // Files of sub-agents begin with `agent-`.
        Agent::ClaudeCode => name.ends_with(".jsonl") && !name.starts_with("agent-"),
        Agent::Codex => name.ends_with(".jsonl") && name.starts_with("rollout-"),
        Agent::GeminiCli | Agent::Cursor => false,
    }
}

/// The beginning of a session: its folder and title.
///
/// # Errors
/// The file cannot be read.
pub fn read_head(file: &SessionFile) -> Result<Session, Error> {
    let opened = files::open_without_links(&file.path)?;
    let start = opened.start(&file.path, HEAD_BYTES)?;
    Ok(parse(file.agent, &start))
}

/// A session.
///
/// # Errors
/// The file cannot be read, is too large, or is not the one that was found.
pub fn read(file: &SessionFile) -> Result<Session, Error> {
    let opened = files::open_without_links(&file.path)?;
    let bytes = opened.read(&file.path, MAX_BYTES)?;
    if bytes.len() as u64 != file.bytes {
        return Err(Error::contents(
            &file.path,
            "the session goes on; import it when it has ended",
        ));
    }
    let session = parse(file.agent, &bytes);
    if session.turns.is_empty() {
        return Err(Error::contents(&file.path, "there is no message of a user in it"));
    }
    Ok(session)
}

/// Reads the lines of a session. What cannot be read is counted and left out.
#[must_use]
pub fn parse(agent: Agent, bytes: &[u8]) -> Session {
    let mut session = match agent {
        Agent::ClaudeCode => claude::parse(bytes),
        Agent::Codex => codex::parse(bytes),
        Agent::GeminiCli | Agent::Cursor => Session::default(),
    };
    let first = session.turns.iter().flat_map(|turn| &turn.entries).find_map(|entry| match entry {
        Entry::User(text) => Some(text.clone()),
        _ => None,
    });
    let title = session.title.take().or(first);
    session.title = title.map(|title| {
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        visible::text(&title).chars().take(TITLE_CHARS).collect()
    });
    session
}
