//! `agentd threads archive`, `unarchive`, `rename` and `delete`.

use anyhow::bail;
use jsonrpc::Method;
use protocol::thread::ThreadIdParams;
use protocol::thread_edit::ThreadNameSetParams;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::{eprint, is_confirmed};

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
    for_each::<protocol::ThreadArchive>(server, &arguments.threads).await
}

pub(super) async fn unarchive(
    server: &mut LocalServer,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    for_each::<protocol::ThreadUnarchive>(server, &arguments.threads).await
}

/// Deletes for good, so it asks.
pub(super) async fn delete(
    server: &mut LocalServer,
    arguments: &DeleteArguments,
) -> anyhow::Result<()> {
    let threads = &arguments.which.threads;
    let question = match threads.len() {
        1 => "Delete the thread permanently?".to_owned(),
        count => format!("Delete {count} threads permanently?"),
    };
    if !arguments.yes && !is_confirmed(&question, "add `--yes` to delete")? {
        return Ok(());
    }
    for_each::<protocol::ThreadDelete>(server, threads).await
}

/// Does the same to each thread. One that fails is reported and does not stop the others.
///
/// # Errors
/// How many failed; the error itself, where there is one thread.
async fn for_each<M: Method<Params = ThreadIdParams>>(
    server: &mut LocalServer,
    threads: &[String],
) -> anyhow::Result<()> {
    if let [thread] = threads {
        server.call::<M>(&named(thread), &mut Quiet).await?;
        return Ok(());
    }
    let mut failed = 0;
    for thread in threads {
        if let Err(error) = server.call::<M>(&named(thread), &mut Quiet).await {
            eprint(format_args!("agentd: {thread}: {error:#}"));
            failed += 1;
        }
    }
    match failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} threads failed; the others are done", threads.len()),
    }
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
