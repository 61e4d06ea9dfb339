//! `agentd app-server`: serves the protocol, or writes its schemas.

mod metrics;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use jsonrpc::{CloseReason, Connection, Ingress, Limits};
use protocol::Dialect;
use protocol::artifacts::{json_schema, typescript};
use server::{Options, Server};
use tokio::task::JoinSet;
use transport::{Acceptor, Address, Listener, Serve};

use crate::commands::listen::{
    AccessArguments, AccessFlags, InheritedSockets, ListenSettings, raise_descriptor_limit,
};
use crate::commands::local::Signals;
use crate::commands::{checked, eprint, local_provider, print, proxy, watchdog};
use crate::environment::Environment;
use crate::log;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where clients connect: `stdio://` (this program's standard input and output),
    /// `ws://IP:PORT`, `unix://` (the control socket in the home), `unix:///PATH`, `systemd://` (the
    /// sockets that a socket unit passes on) or `off`; may be repeated
    #[arg(long, value_name = "URL", default_value = "stdio://")]
    listen: Vec<Address>,
    #[command(flatten)]
    access: AccessArguments,
    /// The file with a token for `/metrics` alone (absolute path; readable only by
    /// its owner alone)
    #[arg(long, value_name = "PATH")]
    metrics_token_file: Option<PathBuf>,
    /// On a signal, wait this many seconds for running turns to reach a safe point; a second signal
    /// interrupts them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    shutdown_grace: u64,
    /// Source of the threads started over this server: `editor`, `cli`, `exec`, `appServer`, or a
    /// custom name
    #[arg(long, value_name = "NAME", default_value = "editor")]
    session_source: String,
    /// Maximum size of a client's line or WebSocket message, in bytes; the default fits any allowed input
    #[arg(long, value_name = "BYTES", default_value_t = server::LINE_BYTES)]
    max_line_bytes: usize,
    /// Accept clients of another server, with its names (see the book); also: AGENTD_DIALECT
    #[arg(long, value_name = "NAME", value_parser = dialect_names(), global = true)]
    dialect: Option<String>,
    /// Use the local model server in `oss_provider`, or else the one that is running, for threads
    /// whose client names no provider
    #[arg(long)]
    oss: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

fn dialect_names() -> PossibleValuesParser {
    Dialect::names().into()
}

impl Arguments {
    /// `--dialect`.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        Dialect::named(self.dialect.as_deref()?)
    }

    /// Returns whether standard input and output are the only way to connect.
    pub(crate) fn serves_one_client(&self) -> bool {
        self.listen == [Address::Stdio]
    }
}

#[derive(Subcommand)]
enum Action {
    /// Write the protocol's TypeScript declarations
    GenerateTs(GenerateArguments),
    /// Write the protocol's JSON Schema
    GenerateJsonSchema(GenerateArguments),
    /// Connect standard input and output to a server that listens on a Unix socket
    Proxy(proxy::Arguments),
}

#[derive(clap::Args)]
struct GenerateArguments {
    /// The output folder; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Include experimental parts, which need the capability `experimentalApi`
    #[arg(long)]
    experimental: bool,
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    dialect: Option<Dialect>,
    environment: impl FnOnce() -> anyhow::Result<Environment>,
    given: InheritedSockets,
) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Some(Action::GenerateTs(to)) => write(&to.out, typescript(to.experimental))?,
        Some(Action::GenerateJsonSchema(to)) => {
            write(&to.out, json_schema(to.experimental))?;
            if let Some(dialect) = dialect {
                write(&to.out, dialect.schema_folder(to.experimental))?;
            }
        }
        Some(Action::Proxy(to)) => return proxy::run(to, &environment()?).await,
        None => {
            let mut environment = environment()?;
            let config = checked(&environment, false)?;
            if arguments.oss {
                let names_model = config.model.is_some();
                let selected = local_provider::overrides(&environment, &config, names_model);
                environment.overrides.extend(selected.await?);
            }
            serve(arguments, environment, given).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    arguments: Arguments,
    environment: Environment,
    mut given: InheritedSockets,
) -> anyhow::Result<()> {
    let limits = Limits { line_bytes: arguments.max_line_bytes.max(1024), ..Limits::default() };
    // Checked first, so that a mistake in the flags leaves nothing behind.
    let access = (&arguments.access, AccessFlags::WEB_SOCKET);
    let settings = ListenSettings::settle(&arguments.listen, access, &environment)?;
    let metrics_auth = settings.metrics_auth(arguments.metrics_token_file.as_deref())?;
    // A script may send a signal as soon as it has read the address.
    let mut signals = Signals::catch()?;
    let grace = Duration::from_secs(arguments.shutdown_grace);
    watchdog::start(grace)?;
    let descriptors = raise_descriptor_limit();
    let listeners = settings.bind(&environment, &mut given).await?;
    let log_file = log::to_file(&environment)?;
    let options = environment.clone().options(&arguments.session_source);
    let dialect = environment.dialect.map(|dialect| Arc::new(dialect.translator(&options.cwd)));
    let options = Options { log_file, dialect, ..options };
    let server = Server::start(options, environment.sandbox_with(descriptors))?;
    let serves_stdio = settings.stdio;
    let acceptor = if listeners.is_empty() && serves_stdio {
        None
    } else {
        let acceptor = Acceptor::new(settings.admission, limits, Ingress::default());
        acceptor.serve_metrics(metrics::page(server.clone(), metrics_auth));
        Some(acceptor)
    };
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let Some(acceptor) = &acceptor else { break };
        listening(&listener, serves_stdio)?;
        let server = server.clone();
        let serve: Serve = Arc::new(move |connection, pending| {
            let server = server.clone();
            Box::pin(async move { server.serve(connection, pending).await })
        });
        accepting.spawn(acceptor.clone().accept(listener, serve));
    }
    if serves_stdio {
        let connection =
            Connection::stdio(limits).context("cannot serve standard input and output")?;
        if accepting.is_empty() {
            return serve_only(server, connection, signals, grace).await;
        }
        // The server outlives this client: it has others.
        let server = server.clone();
        tokio::spawn(async move { server.serve(connection, ()).await });
    }
    signals.next().await;
    // New clients are left to the next server.
    accepting.shutdown().await;
    end(&server, &mut signals, grace).await;
    server.close().await;
    Ok(())
}

/// Serves standard input and output; the server stops when they close.
async fn serve_only(
    server: Server,
    connection: Connection,
    mut signals: Signals,
    grace: Duration,
) -> anyhow::Result<()> {
    let (ending, outbox) = (server.clone(), connection.outbox.clone());
    let ended = outbox.clone();
    tokio::spawn(async move {
        signals.next().await;
        // The ends of turns are sent before the connection is closed.
        end(&ending, &mut signals, grace).await;
        outbox.close(CloseReason::Shutdown);
        // Bounds the wait for a client that does not read.
        outbox.drained(server::CLOSE_GRACE).await;
    });
    // Not on the thread that blocks on this function: it would be woken for every request, which a
    // worker of the runtime has read.
    let serving = tokio::spawn(async move { server.serve_only(connection).await });
    if let Err(error) = serving.await {
        std::panic::resume_unwind(error.into_panic());
    }
    match ended.close_reason() {
        Some(reason) if !reason.is_orderly() => bail!("the client was disconnected: {reason}"),
        _ => Ok(()),
    }
}

/// Waits until turns reach a safe point, at most for `grace` or until the next signal, then stops them.
async fn end(server: &Server, signals: &mut Signals, grace: Duration) {
    tokio::select! {
        () = server.drain(grace) => {}
        _ = signals.next() => {}
    }
    server.shutdown().await;
}

/// Prints the address for scripts: on standard output, unless that is a transport.
fn listening(listener: &Listener, serves_stdio: bool) -> anyhow::Result<()> {
    let address = listener.address()?;
    let line = format_args!("listening on {address}");
    if serves_stdio {
        eprint(line);
    } else {
        print(line)?;
    }
    Ok(())
}

/// Writes files to a folder; their names are relative paths.
fn write(
    out: &Path,
    files: impl IntoIterator<Item = (impl AsRef<Path>, String)>,
) -> anyhow::Result<()> {
    for (name, contents) in files {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(&path, contents)
            .with_context(|| format!("cannot write {}", path.display()))?;
        print(format_args!("{}", path.display()))?;
    }
    Ok(())
}
