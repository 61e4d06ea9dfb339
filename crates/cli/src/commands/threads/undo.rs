//! `agentd threads undo`: shows what going back changes in files, and does it when the user agrees.

use anyhow::{Context, bail};
use protocol::thread_edit::{NotedPath, RestoredFiles, ThreadRollbackParams};
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet, thread_resume};
use crate::commands::{eprint, is_confirmed, print};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Id of the thread
    thread: String,
    /// The number of turns to undo, from the last one on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Undo without asking
    #[arg(long)]
    yes: bool,
    /// Also restore files with other changes since; these changes are lost
    #[arg(long)]
    overwrite: bool,
    /// Print the changes as JSON; undoes them only with `--yes`
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. It fails when there are conflicts, and when no one can be asked.
pub(super) async fn undo(server: &mut LocalServer, arguments: &Arguments) -> anyhow::Result<()> {
    let resume = thread_resume(&arguments.thread);
    server.call::<protocol::ThreadResume>(&resume, &mut Quiet).await?;
    let preview = ThreadRollbackParams {
        thread_id: arguments.thread.clone(),
        num_turns: arguments.turns,
        restore_files: true,
        dry_run: true,
        overwrite_changes: false,
    };
    let answer = server.call::<protocol::ThreadRollback>(&preview, &mut Quiet).await?;
    let files = answer.files.context("the server did not report the effect on files")?;
    match arguments.json {
        true => print(format_args!("{:#}", json!(files)))?,
        false => show(&files)?,
    }
    if !files.conflicts.is_empty() && !arguments.overwrite {
        bail!("files have other changes, too; add `--overwrite` to discard those changes");
    }
    let is_wanted = match (arguments.yes, arguments.dry_run || arguments.json) {
        (true, _) => true,
        (false, true) => false,
        (false, false) => is_confirmed(
            "Undo this, and drop the turns?",
            "add `--yes` to undo, or `--dry-run` to change nothing",
        )?,
    };
    if !is_wanted {
        return Ok(());
    }
    let wanted =
        ThreadRollbackParams { dry_run: false, overwrite_changes: arguments.overwrite, ..preview };
    let done = server.call::<protocol::ThreadRollback>(&wanted, &mut Quiet).await?;
    let restored = done.files.map_or(0, |files| files.restored.len());
    eprint(format_args!("agentd: {restored} files and folders were restored"));
    Ok(())
}

fn show(files: &RestoredFiles) -> anyhow::Result<()> {
    // Names and lines of files may hold what a terminal would carry out.
    print(format_args!("{}", visible::text(files.diff.trim_end())))?;
    if files.diff_truncated {
        eprint(format_args!(
            "agentd: the diff is too long to show in full; {} files and folders change",
            files.restored.len()
        ));
    }
    let note = |kind: &str, noted: &[NotedPath]| {
        for NotedPath { path, reason } in noted {
            eprint(format_args!("agentd: {kind}: {} {reason}", visible::exact(path)));
        }
    };
    note("conflict", &files.conflicts);
    note("not restored", &files.not_restored);
    Ok(())
}
