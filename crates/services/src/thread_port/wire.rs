//! Threads on the wire: from their stored records and snapshots.

use std::path::Path;

use protocol::thread_record::{SubAgentSource, ThreadSpawnSource};
use protocol::{GitInfo, SessionSource, Thread, ThreadStatus, Turn};
use store::{StoredThread, ThreadRecord};

use super::{AgentIdentity, Snapshot};
use crate::convert::{agent, event};
use crate::stored::{Listed, listed};

/// A loaded thread.
pub fn loaded(snapshot: &Snapshot, turns: Vec<Turn>) -> Thread {
    let status = event::status(snapshot.status);
    Thread { ephemeral: snapshot.ephemeral, ..thread(&snapshot.record, status, turns) }
}

/// A stored thread.
pub fn stored(stored: &StoredThread, status: ThreadStatus, turns: Vec<Turn>) -> Thread {
    thread(&stored.record, status, turns)
}

/// A thread that has just been made.
pub fn new(record: &ThreadRecord, ephemeral: bool) -> Thread {
    Thread { ephemeral, ..thread(record, ThreadStatus::Idle, Vec::new()) }
}

fn thread(record: &ThreadRecord, status: ThreadStatus, turns: Vec<Turn>) -> Thread {
    let source = source(&record.source);
    let (agent_nickname, agent_role) = agent::names(&source);
    let Listed { thread_source, worktree } = listed(record);
    // A thread may have moved to another folder.
    let cwd = Path::new(&record.cwd);
    let worktree = worktree.filter(|worktree| cwd.starts_with(&worktree.path));
    Thread {
        id: record.id.clone(),
        session_id: record.session_id.clone(),
        preview: record.preview.clone(),
        ephemeral: false,
        model_provider: record.model_provider.clone(),
        created_at: record.created_at,
        updated_at: record.updated_at,
        status,
        path: None,
        cwd: record.cwd.clone(),
        cli_version: record.cli_version.clone(),
        source,
        thread_source,
        agent_nickname,
        agent_role,
        forked_from_id: record.forked_from_id.clone(),
        name: record.name.clone(),
        git_info: record.git_info.as_deref().and_then(git_info),
        worktree,
        turns,
    }
}

/// Kind and source of an agent's thread, as they are stored.
pub fn agent_source(identity: &AgentIdentity) -> (String, String) {
    let spawned = ThreadSpawnSource {
        parent_thread_id: identity.parent.clone(),
        depth: i32::try_from(identity.depth).unwrap_or(i32::MAX),
        agent_nickname: Some(identity.nickname.clone()),
        agent_path: None,
        agent_role: identity.role.clone(),
    };
    let source = SessionSource::SubAgent(SubAgentSource::ThreadSpawn(spawned));
    (agent::SPAWNED_SOURCE.to_owned(), serde_json::to_string(&source).expect("plain data"))
}

fn source(json: &str) -> SessionSource {
    serde_json::from_str(json).unwrap_or(SessionSource::Unknown)
}

fn git_info(json: &str) -> Option<GitInfo> {
    serde_json::from_str(json).ok()
}
