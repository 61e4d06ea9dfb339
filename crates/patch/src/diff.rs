//! Unified diffs as git writes them.

use std::time::Duration;

use similar::{Algorithm, TextDiff};

use crate::plan::{Change, ChangeKind};

/// A diff that takes longer is less small, not less right.
const DEADLINE: Duration = Duration::from_millis(200);

/// The diff of one file as git shows it; empty when nothing changed. `None` stands for no file.
pub fn unified_diff(
    old_name: &str,
    new_name: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> String {
    let renamed = old_name != new_name;
    if before == after && !renamed {
        return String::new();
    }
    let mut diff = format!("diff --git a/{old_name} b/{new_name}\n");
    match (before, after) {
        (None, _) => diff.push_str("new file mode 100644\n"),
        (_, None) => diff.push_str("deleted file mode 100644\n"),
        _ if renamed => {
            diff.push_str(&format!("rename from {old_name}\nrename to {new_name}\n"));
        }
        _ => {}
    }
    let hunks = hunks(before.unwrap_or(""), after.unwrap_or(""));
    if !hunks.is_empty() {
        let old = before.map_or("/dev/null".to_owned(), |_| format!("a/{old_name}"));
        let new = after.map_or("/dev/null".to_owned(), |_| format!("b/{new_name}"));
        diff.push_str(&format!("--- {old}\n+++ {new}\n{hunks}"));
    }
    diff
}

/// What a `fileChange` item shows: the contents of an added file, the hunks otherwise.
pub fn item_diff(change: &Change) -> String {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    match change.kind {
        ChangeKind::Add => after.unwrap_or("").to_owned(),
        ChangeKind::Delete | ChangeKind::Update { .. } => {
            hunks(before.unwrap_or(""), after.unwrap_or(""))
        }
    }
}

fn hunks(before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(DEADLINE)
        .diff_lines(before, after);
    diff.unified_diff().context_radius(3).to_string()
}
