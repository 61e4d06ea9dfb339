//! `agentd worktree`: lists, merges and removes the git worktrees of threads. `agentd --worktree` and
//! `agentd exec --worktree` make them.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use protocol::{
    Worktree, WorktreeListParams, WorktreeMergeParams, WorktreeMergeStrategy, WorktreeRemoveParams,
    WorktreeState,
};
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::print;
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List worktrees, the newest first
    List {
        /// Those of all repositories, not only of the working folder's
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge the branch of a worktree into the branch that is checked out in the working folder
    Merge(MergeArguments),
    /// Remove worktrees with their branches, unless something would be lost
    Remove {
        /// Name, branch or folder of a worktree
        #[arg(required = true)]
        worktrees: Vec<String>,
        /// Remove them in any case: uncommitted files and unmerged commits are kept under a ref
        #[arg(long)]
        force: bool,
    },
}

#[derive(clap::Args)]
struct MergeArguments {
    /// Name, branch or folder of the worktree
    worktree: String,
    /// The branch to merge into, in place of the one that is checked out
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Make one commit of all changes
    #[arg(long, conflicts_with = "ff_only")]
    squash: bool,
    /// Make no merge commit, and refuse where one is needed
    #[arg(long)]
    ff_only: bool,
    /// Commit the uncommitted files of the worktree with this message first
    #[arg(long, value_name = "MESSAGE")]
    commit: Option<String>,
    /// Message of the merge, or of the squashed commit
    #[arg(short, long, value_name = "MESSAGE", conflicts_with = "ff_only")]
    message: Option<String>,
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let cwd = environment.clone().options("cli").cwd;
    let mut server = LocalServer::start_experimental(environment, "cli").await?;
    let done = match arguments.command {
        Command::List { all, json } => list(&mut server, (!all).then_some(&*cwd), json).await,
        Command::Merge(arguments) => merge(&mut server, arguments, &cwd).await,
        Command::Remove { worktrees, force } => remove(&mut server, &worktrees, force, &cwd).await,
    };
    server.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn worktrees(server: &mut LocalServer, cwd: Option<&Path>) -> anyhow::Result<Vec<Worktree>> {
    let params = WorktreeListParams { cwd: cwd.map(|cwd| cwd.display().to_string()) };
    Ok(server.call::<protocol::WorktreeList>(&params, &mut Quiet).await?.data)
}

async fn list(server: &mut LocalServer, cwd: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let found = worktrees(server, cwd).await?;
    if json {
        print(format_args!("{:#}", json!(found)))?;
        return Ok(());
    }
    for worktree in &found {
        let repository = if cwd.is_none() { &*worktree.repository } else { "" };
        print(format_args!("{}", row(worktree, repository)))?;
    }
    Ok(())
}

/// A worktree on one line. `repository`: its repository, unless all are of the same.
fn row(worktree: &Worktree, repository: &str) -> String {
    let mut parts = vec![worktree.branch.clone()];
    match worktree.state {
        WorktreeState::Ready => {}
        WorktreeState::Missing => parts.push("folder is missing".to_owned()),
        WorktreeState::Broken => parts.push("broken".to_owned()),
    }
    if let (Some(ahead), Some(lacking)) = (worktree.ahead, worktree.behind) {
        parts.push(format!("{ahead} to merge, {lacking} to catch up"));
    }
    let more = if worktree.has_more_uncommitted { "+" } else { "" };
    parts.push(format!("{}{more} uncommitted", worktree.uncommitted.len()));
    if worktree.locked {
        parts.push("locked".to_owned());
    }
    match worktree.thread_ids.as_slice() {
        [] => parts.push("no thread".to_owned()),
        [thread] => parts.push(format!("thread {thread}")),
        threads => parts.push(format!("{} threads", threads.len())),
    }
    parts.push(visible::line(&worktree.path).into_owned());
    if !repository.is_empty() {
        parts.push(format!("of {}", visible::line(repository)));
    }
    if let Some(problem) = &worktree.problem {
        parts.push(visible::line(problem).into_owned());
    }
    parts.join("  ")
}

/// The worktree that the user names. Names are those of the working folder's repository: in others, another
/// worktree may have the same.
async fn find(server: &mut LocalServer, wanted: &str, cwd: &Path) -> anyhow::Result<Worktree> {
    let folder = cwd.join(wanted);
    let all = worktrees(server, None).await?;
    if let Some(found) = all.iter().find(|worktree| Path::new(&worktree.path) == folder) {
        return Ok(found.clone());
    }
    // Outside of a repository, none.
    let here = worktrees(server, Some(cwd)).await.unwrap_or_default();
    let is_named = |worktree: &&Worktree| {
        let name = Path::new(&worktree.path).file_name();
        worktree.branch == wanted || name.is_some_and(|name| name == wanted)
    };
    match here.iter().find(is_named) {
        Some(found) => Ok(found.clone()),
        None => bail!(
            "there is no worktree `{wanted}` in the repository of {}; give its name, its branch or its folder: \
             `agentd worktree list --all` has them",
            cwd.display()
        ),
    }
}

async fn merge(
    server: &mut LocalServer,
    arguments: MergeArguments,
    cwd: &Path,
) -> anyhow::Result<()> {
    let worktree = find(server, &arguments.worktree, cwd).await?;
    let strategy = match (arguments.squash, arguments.ff_only) {
        (true, _) => WorktreeMergeStrategy::Squash,
        (false, true) => WorktreeMergeStrategy::FastForward,
        (false, false) => WorktreeMergeStrategy::MergeCommit,
    };
    // Another checkout of the repository than the one that the worktree was made from.
    let is_inside = cwd.starts_with(&worktree.path);
    let siblings = worktrees(server, Some(cwd)).await.unwrap_or_default();
    let is_checkout = !is_inside && siblings.iter().any(|it| it.path == worktree.path);
    let params = WorktreeMergeParams {
        path: worktree.path,
        checkout: is_checkout.then(|| cwd.display().to_string()),
        into: arguments.into,
        strategy: Some(strategy),
        commit_message: arguments.commit,
        message: arguments.message,
    };
    let merged = server.call::<protocol::WorktreeMerge>(&params, &mut Quiet).await?;
    match merged.merged {
        0 => print(format_args!("{} has all of it: nothing to merge", merged.into))?,
        1 => print(format_args!("merged 1 commit into {}: {}", merged.into, merged.commit))?,
        more => {
            print(format_args!("merged {more} commits into {}: {}", merged.into, merged.commit))?;
        }
    }
    Ok(())
}

async fn remove(
    server: &mut LocalServer,
    wanted: &[String],
    force: bool,
    cwd: &Path,
) -> anyhow::Result<()> {
    for wanted in wanted {
        let worktree = find(server, wanted, cwd).await?;
        let params = WorktreeRemoveParams { path: worktree.path.clone(), force };
        let removed = server.call::<protocol::WorktreeRemove>(&params, &mut Quiet).await?;
        match removed.saved {
            None => print(format_args!("removed {}", worktree.path))?,
            Some(saved) => print(format_args!(
                "removed {}; what it had is kept: git branch NAME {}",
                worktree.path, saved.reference
            ))?,
        }
    }
    Ok(())
}
