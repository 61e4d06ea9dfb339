//! Restored files for clients.

use protocol::thread_edit::{NotedPath, RestoredFiles};

use crate::undo;

pub fn restored(files: undo::RestoredFiles) -> RestoredFiles {
    let noted = |paths: Vec<undo::NotedPath>| {
        paths.into_iter().map(|noted| NotedPath { path: noted.path, reason: noted.why }).collect()
    };
    RestoredFiles {
        diff: files.diff,
        diff_truncated: files.is_diff_cut,
        restored: files.restored,
        conflicts: noted(files.conflicts),
        not_restored: noted(files.unkept),
    }
}
