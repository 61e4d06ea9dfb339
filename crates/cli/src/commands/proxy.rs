//! `agentd app-server proxy`: a client that speaks lines over its standard streams, at a server that
//! listens at a Unix socket. It understands no method and forwards the text of each message unchanged.
//! It keeps the ids of unanswered requests, so that the end of the input waits for the last answer.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use jsonrpc::{CloseReason, Connection, Incoming, Limits, Message, ReceivedLine, RequestId};

use crate::commands::listen::control_socket;
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The server's socket [default: the control socket in the agent's home]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs the subcommand.
#[cfg(unix)]
pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let path = arguments.socket.clone().unwrap_or_else(|| control_socket(environment));
    // Bounds are the server's business and the client's: here nothing is to be lost.
    let limits = Limits { line_bytes: LONGEST_BYTES, keep_text: true, ..Limits::default() };
    let server = transport::connect(&path, limits).await.with_context(|| {
        format!(
            "no server listens on {}; start one with `agentd app-server --listen unix://`",
            path.display()
        )
    })?;
    let client = Connection::stdio(limits).context("cannot serve standard input and output")?;
    carry(client, server).await
}

/// Runs the subcommand.
#[cfg(not(unix))]
pub(crate) async fn run(_: &Arguments, _: &Environment) -> anyhow::Result<ExitCode> {
    bail!("this system has no Unix sockets")
}

async fn carry(client: Connection, server: Connection) -> anyhow::Result<ExitCode> {
    let Connection { incoming: mut from_client, outbox: to_client } = client;
    let Connection { incoming: mut from_server, outbox: to_server } = server;
    let mut asked: HashSet<RequestId> = HashSet::new();
    let mut input_ended = false;
    while !(input_ended && asked.is_empty()) {
        tokio::select! {
            line = from_client.recv_line(), if !input_ended => match line {
                None => input_ended = true,
                Some(ReceivedLine { incoming: Incoming::Message(message), text }) => {
                    if let Message::Request { id, .. } = &message {
                        asked.insert(id.clone());
                    }
                    // The reason why the server is gone is reported below.
                    if to_server.push(text).is_err() {
                        break;
                    }
                    // The server's pace is the client's.
                    let is_behind = to_server.queued_bytes() > PACE_BYTES;
                    if is_behind && to_server.flushed().await.is_err() {
                        break;
                    }
                }
                Some(ReceivedLine { incoming: Incoming::Malformed(wrong), .. }) => {
                    to_client.push(jsonrpc::encode_error(wrong.id.as_ref(), &wrong.error))?;
                }
            },
            line = from_server.recv_line() => match line {
                None => break,
                Some(ReceivedLine { incoming: Incoming::Message(message), text }) => {
                    if let Message::Response { id: Some(id), .. } = &message {
                        asked.remove(id);
                    }
                    to_client.push(text)?;
                    if to_client.queued_bytes() > PACE_BYTES {
                        to_client.flushed().await?;
                    }
                }
                Some(ReceivedLine { incoming: Incoming::Malformed(wrong), .. }) => {
                    bail!("the server sent an invalid message: {}", wrong.error)
                }
            },
        }
    }
    let ended = to_server.close_reason();
    to_server.close(CloseReason::Finished);
    // Either side may be gone.
    let _ = to_client.flushed().await;
    to_client.close(CloseReason::Finished);
    let _ = to_server.flushed().await;
    if input_ended && asked.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let reason = ended.map_or_else(String::new, |reason| format!(": {reason}"));
    bail!("the server ended the connection{reason}")
}

/// Longest message, in either direction. The server's bound holds for what clients send; its own
/// answers may be as long as a thread.
const LONGEST_BYTES: usize = 1 << 30;
/// With more than this unwritten, reading waits.
const PACE_BYTES: usize = 1 << 20;
