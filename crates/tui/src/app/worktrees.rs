//! `/worktree`: threads that work in git worktrees of their own, and what becomes of these.

use std::path::Path;

use protocol::{
    OpeningOverrides, ThreadStartParams, ThreadWorktreeParams, Worktree, WorktreeListParams,
    WorktreeListResponse, WorktreeMergeParams, WorktreeMergeStrategy, WorktreeRemoveParams,
    WorktreeState,
};
use serde_json::Value;

use crate::app::filling::What;
use crate::app::program::App;
use crate::app::{lists, opening};
use crate::ask::{Ask, Offer};
use crate::picker::{Picker, Row};
use crate::text::Line;

/// Files that a dialog names.
const SHOWN_FILES: usize = 5;

const MERGE: &str = "merge";
const SQUASH: &str = "squash";
const FORWARD: &str = "forward";
const REMOVE: &str = "remove";
const OPEN: &str = "open";

/// When a dialog opens.
#[derive(Clone, Copy, Debug)]
enum Opening {
    /// With the key that asks for it.
    AtOnce,
    /// After an answer of the server. The user may be writing by then, so that no key of a message answers it.
    Later,
}

impl Opening {
    fn open(self, app: &mut App, ask: Ask, then: impl FnOnce(&mut App, Value) + 'static) {
        match self {
            Self::AtOnce => {
                app.open_dialog(ask, then);
            }
            Self::Later => app.open_dialog_later(ask, then),
        }
    }
}

/// `/worktree`.
pub(super) fn worktree(app: &mut App, rest: &str) {
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match word {
        "" | "list" => read(app, |app, list| show_list(app, list.data)),
        "new" => start(app, argument.trim()),
        "merge" => named(app, argument.trim(), ask_how_to_merge),
        "remove" => named(app, argument.trim(), ask_to_remove),
        _ => app.notice("/worktree takes `new [NAME]`, `list`, `merge [NAME]` or `remove [NAME]`."),
    }
}

fn start(app: &mut App, name: &str) {
    let folder = app.session.worktree.as_ref().map(|worktree| worktree.repository.clone());
    let cwd = Some(folder.unwrap_or_else(|| app.working_folder()));
    let worktree = Some(ThreadWorktreeParams::named(Some(name), None));
    app.notice("A worktree is made…");
    opening::start_thread(
        app,
        &ThreadStartParams { cwd, worktree, ..ThreadStartParams::default() },
    );
}

/// Asks for the worktrees of the repository.
fn read(app: &mut App, then: impl FnOnce(&mut App, WorktreeListResponse) + 'static) {
    let params = WorktreeListParams { cwd: Some(app.working_folder()) };
    app.call::<protocol::WorktreeList>(&params, |app, result| match result {
        Ok(list) => then(app, list),
        Err(error) => app.error(&format!("Worktrees cannot be listed: {}", error.message)),
    });
}

/// Goes on with the worktree of this name, branch or folder; without a name, with that of the thread.
fn named(app: &mut App, name: &str, then: fn(&mut App, Worktree, Opening)) {
    let own = app.session.worktree.as_ref().map(|own| own.path.clone());
    let wanted = match (name, own) {
        ("", Some(own)) => own,
        ("", None) => {
            return app.notice(
                "This thread has no worktree of its own: give the name of one. /worktree lists them, and \
                 /worktree new starts a thread in one.",
            );
        }
        (name, _) => name.to_owned(),
    };
    let is_named = !name.is_empty();
    read(app, move |app, list| {
        let found = list.data.into_iter().find(|worktree| is_called(worktree, &wanted));
        match found {
            Some(found) => then(app, found, Opening::Later),
            None if is_named => app.error(&format!(
                "There is no worktree `{}` of this repository. /worktree lists them.",
                visible::line(&wanted)
            )),
            None => app.error(&format!("The worktree was removed: {wanted}")),
        }
    });
}

/// Returns whether this is the folder, the branch or the name of the worktree.
fn is_called(worktree: &Worktree, wanted: &str) -> bool {
    let name = Path::new(&worktree.path).file_name();
    worktree.path == wanted || worktree.branch == wanted || name.is_some_and(|name| name == wanted)
}

fn show_list(app: &mut App, worktrees: Vec<Worktree>) {
    if worktrees.is_empty() {
        return app.info("There are no worktrees of threads here. /worktree new makes one.");
    }
    let rows = worktrees.iter().map(|worktree| Row {
        id: worktree.path.clone(),
        title: worktree.branch.clone(),
        detail: summary(worktree),
        columns: vec![app.folder(&worktree.path)],
        has_hit: false,
    });
    let picker = Picker::fixed("Worktrees", rows.collect());
    lists::choose(app, picker, What::Worktrees(worktrees));
}

/// The state of a worktree in a few words.
fn summary(worktree: &Worktree) -> String {
    let mut parts = Vec::new();
    match worktree.state {
        WorktreeState::Ready => {}
        WorktreeState::Missing => parts.push("folder is missing".to_owned()),
        WorktreeState::Broken => parts.push("broken".to_owned()),
    }
    if let Some(ahead) = worktree.ahead.filter(|ahead| *ahead > 0) {
        parts.push(format!("{ahead} ahead"));
    }
    if let Some(behind) = worktree.behind.filter(|behind| *behind > 0) {
        parts.push(format!("{behind} behind"));
    }
    if !worktree.uncommitted.is_empty() {
        parts.push(files(worktree));
    }
    if worktree.thread_ids.is_empty() {
        parts.push("no thread".to_owned());
    }
    if worktree.locked {
        parts.push("locked".to_owned());
    }
    parts.join(", ")
}

/// The number of uncommitted files, in words.
fn files(worktree: &Worktree) -> String {
    let more = if worktree.has_more_uncommitted { "more than " } else { "" };
    match worktree.uncommitted.len() {
        1 if more.is_empty() => "1 uncommitted file".to_owned(),
        count => format!("{more}{count} uncommitted files"),
    }
}

/// The text of a dialog about a worktree.
fn facts(app: &App, worktree: &Worktree) -> Vec<Line> {
    let folder = app.folder(&worktree.path);
    let mut facts = vec![Line::plain(format!("{}  {folder}", worktree.branch))];
    let summary = summary(worktree);
    if !summary.is_empty() {
        facts.push(Line::plain(summary));
    }
    for file in worktree.uncommitted.iter().take(SHOWN_FILES) {
        facts.push(Line::plain(format!("  {}", visible::line(file))));
    }
    if worktree.uncommitted.len() > SHOWN_FILES {
        facts.push(Line::plain("  …"));
    }
    if let Some(problem) = &worktree.problem {
        facts.push(Line::plain(problem.clone()));
    }
    facts
}

/// A worktree was chosen from the list.
pub(super) fn chosen(app: &mut App, worktree: Worktree) {
    let mut offers = Vec::new();
    if !worktree.thread_ids.is_empty() {
        offers.push(Offer::new(OPEN, 'o', "Open its thread"));
    }
    if worktree.state == WorktreeState::Ready {
        offers.push(Offer::new(MERGE, 'm', "Merge it"));
    }
    offers.push(Offer::new(REMOVE, 'r', "Remove it"));
    offers.push(Offer::new("no", 'n', "Leave it as it is").on_escape());
    let facts = facts(app, &worktree);
    app.open_dialog(Ask::offer("Worktree", facts, offers), move |app, reply| {
        match reply.as_str() {
            Some(OPEN) => {
                if let Some(thread) = worktree.thread_ids.first() {
                    opening::resume_thread(app, thread.clone(), OpeningOverrides::default());
                }
            }
            Some(MERGE) => ask_how_to_merge(app, worktree, Opening::AtOnce),
            Some(REMOVE) => ask_to_remove(app, worktree, Opening::AtOnce),
            _ => {}
        }
    });
}

fn ask_how_to_merge(app: &mut App, worktree: Worktree, opening: Opening) {
    let mut facts = facts(app, &worktree);
    let repository = app.folder(&worktree.repository);
    facts.push(Line::plain(format!(
        "It is merged into the branch that {repository} has checked out."
    )));
    if !worktree.uncommitted.is_empty() {
        facts.push(Line::plain("Its uncommitted files are committed first."));
    }
    let offers = vec![
        Offer::new("no", 'n', "Do not merge").on_escape(),
        Offer::new(MERGE, 'm', "Merge with a merge commit"),
        Offer::new(SQUASH, 's', "Squash into one commit"),
        Offer::new(FORWARD, 'f', "Fast-forward only"),
    ];
    let ask = Ask::offer("Merge this worktree?", facts, offers);
    opening.open(app, ask, move |app, reply| {
        let strategy = match reply.as_str() {
            Some(MERGE) => WorktreeMergeStrategy::MergeCommit,
            Some(SQUASH) => WorktreeMergeStrategy::Squash,
            Some(FORWARD) => WorktreeMergeStrategy::FastForward,
            _ => return,
        };
        merge(app, worktree, strategy);
    });
}

fn merge(app: &mut App, worktree: Worktree, strategy: WorktreeMergeStrategy) {
    let title = app
        .session
        .name
        .clone()
        .filter(|_| app.session.worktree.as_ref().is_some_and(|own| own.path == worktree.path));
    let message = title.unwrap_or_else(|| format!("Changes of {}", worktree.branch));
    let params = WorktreeMergeParams {
        path: worktree.path,
        strategy: Some(strategy),
        commit_message: Some(message).filter(|_| !worktree.uncommitted.is_empty()),
        ..WorktreeMergeParams::default()
    };
    app.call::<protocol::WorktreeMerge>(&params, |app, result| match result {
        Ok(merged) if merged.merged == 0 => {
            app.info(&format!("{} has all of it: nothing to merge.", merged.into));
        }
        Ok(merged) => {
            let commits = if merged.merged == 1 { "commit" } else { "commits" };
            app.info(&format!(
                "Merged {} {commits} into {}. /worktree remove takes the worktree away.",
                merged.merged, merged.into
            ));
        }
        Err(error) => app.error(&format!("It was not merged: {}", error.message)),
    });
}

fn ask_to_remove(app: &mut App, worktree: Worktree, opening: Opening) {
    let has_loss = !worktree.uncommitted.is_empty() || worktree.ahead.is_none_or(|ahead| ahead > 0);
    let mut facts = facts(app, &worktree);
    facts.push(Line::plain(
        "Its folder and its branch are removed. Threads that worked there stay.",
    ));
    let mut offers = vec![
        Offer::new("no", 'n', "Keep it").on_escape(),
        Offer::new("yes", 'y', "Remove it").with_effect(
            "refused while it has uncommitted files, or commits that no other branch has",
        ),
    ];
    if has_loss || worktree.locked {
        offers.push(
            Offer::new("force", 'f', "Remove it, and keep what it has")
                .with_effect("as a commit under refs/agentd/removed; ignored files are deleted"),
        );
    }
    let ask = Ask::offer("Remove this worktree?", facts, offers);
    opening.open(app, ask, move |app, reply| {
        let force = match reply.as_str() {
            Some("yes") => false,
            Some("force") => true,
            _ => return,
        };
        remove(app, worktree.path, force);
    });
}

fn remove(app: &mut App, path: String, force: bool) {
    let params = WorktreeRemoveParams { path: path.clone(), force };
    app.call::<protocol::WorktreeRemove>(&params, move |app, result| match result {
        Ok(removed) => {
            let kept = removed.saved.map(|saved| {
                format!(" What it had is kept: git branch NAME {} brings it back.", saved.reference)
            });
            app.info(&format!("The worktree is removed.{}", kept.unwrap_or_default()));
            leave(app, &path);
        }
        Err(error) => app.error(&format!("It was not removed: {}", error.message)),
    });
}

/// A thread whose folder is gone gives way to a new one in the user's checkout.
fn leave(app: &mut App, path: &str) {
    let Some(own) = app.session.worktree.clone().filter(|own| own.path == path) else { return };
    let cwd = Some(own.repository);
    opening::start_thread(app, &ThreadStartParams { cwd, ..ThreadStartParams::default() });
}
