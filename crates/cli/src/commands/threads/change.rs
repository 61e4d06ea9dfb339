//! `agentd threads archive`, `unarchive`, `rename` and `delete`.

use protocol::thread::ThreadIdParams;
use protocol::thread_edit::ThreadNameSetParams;

use crate::commands::is_confirmed;
use crate::commands::local::{LocalServer, Quiet};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Ids of the threads
    #[arg(required = true, value_name = "THREAD")]
    threads: Vec<String>,
}

#[derive(clap::Args)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    which: Arguments,
    /// Delete without asking
    #[arg(long)]
    yes: bool,
}

#[derive(clap::Args)]
pub(super) struct RenameArguments {
    /// Id of the thread
    thread: String,
    /// The new title
    title: String,
}

pub(super) async fn archive(server: &mut LocalServer, arguments: &Arguments) -> anyhow::Result<()> {
    for thread in &arguments.threads {
        server.call::<protocol::ThreadArchive>(&named(thread), &mut Quiet).await?;
    }
    Ok(())
}

pub(super) async fn unarchive(
    server: &mut LocalServer,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    for thread in &arguments.threads {
        server.call::<protocol::ThreadUnarchive>(&named(thread), &mut Quiet).await?;
    }
    Ok(())
}

/// Deletes for good, so it asks.
pub(super) async fn delete(
    server: &mut LocalServer,
    arguments: &DeleteArguments,
) -> anyhow::Result<()> {
    let threads = &arguments.which.threads;
    let question = match threads.len() {
        1 => "Delete the thread for good?".to_owned(),
        count => format!("Delete {count} threads for good?"),
    };
    if !arguments.yes && !is_confirmed(&question, "add `--yes` to delete")? {
        return Ok(());
    }
    for thread in threads {
        server.call::<protocol::ThreadDelete>(&named(thread), &mut Quiet).await?;
    }
    Ok(())
}

pub(super) async fn rename(
    server: &mut LocalServer,
    arguments: &RenameArguments,
) -> anyhow::Result<()> {
    let params =
        ThreadNameSetParams { thread_id: arguments.thread.clone(), name: arguments.title.clone() };
    server.call::<protocol::ThreadNameSet>(&params, &mut Quiet).await?;
    Ok(())
}

fn named(thread: &str) -> ThreadIdParams {
    ThreadIdParams { thread_id: thread.to_owned() }
}
