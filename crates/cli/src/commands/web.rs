//! `agentd web`: the web client, and an application server for it in the same process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use jsonrpc::{Ingress, Limits};
use rand::Rng;
use server::{Options, Server};
use tokio::task::JoinSet;
use transport::{Acceptor, Admission, Auth, Listener, Serve};

use crate::commands::listen::raise_descriptor_limit;
use crate::commands::local::Signals;
use crate::commands::login::browser;
use crate::commands::{Invalid, checked, eprint, print, watchdog};
use crate::environment::Environment;
use crate::log;

/// Source of the threads that are started in the page.
const SOURCE: &str = "appServer";
const TOKEN_BYTES: usize = 32;
/// Time for running turns to reach a safe point after Ctrl+C; a second one interrupts them at once.
const GRACE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The address of the page, on this machine; port 0 lets the system choose
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4510")]
    listen: SocketAddr,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
    /// Use the token in this file (absolute path; readable only by its owner) instead of a new one for each start,
    /// so that open pages reconnect after a restart
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    checked(&environment, false)?;
    let asked = arguments.listen;
    if !asked.ip().is_loopback() {
        let message = format!(
            "--listen {asked}: `agentd web` serves the browsers of this machine only; give a loopback address, \
             as in 127.0.0.1:4510. For others, serve a page of your own with `agentd app-server` (docs/web.md)"
        );
        return Err(Invalid::new(message).into());
    }
    let token = token(arguments.token_file.as_deref())?;
    let mut signals = Signals::catch()?;
    watchdog::start(GRACE)?;
    let descriptors = raise_descriptor_limit();
    let listener = bind(asked).await?;
    let address = address(&listener)?;
    let log_file = log::to_file(&environment)?;
    let options = Options { log_file, ..environment.clone().options(SOURCE) };
    let server = Server::start(options, environment.sandbox_with(descriptors))?;
    let mut accepting = accept(&server, listener, address, &token)?;
    // The fragment of an address stays in the browser: it is in no request, and so in no log.
    let url = format!("http://{address}/#token={token}");
    print(format_args!("{url}"))?;
    present(&url, arguments.no_open, &environment);
    signals.next().await;
    accepting.shutdown().await;
    tokio::select! {
        () = server.drain(GRACE) => {}
        _ = signals.next() => {}
    }
    server.shutdown().await;
    server.close().await;
    Ok(ExitCode::SUCCESS)
}

fn token(file: Option<&std::path::Path>) -> anyhow::Result<String> {
    let Some(path) = file else {
        let bytes: [u8; TOKEN_BYTES] = rand::rng().random();
        return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
    };
    if !path.is_absolute() {
        return Err(Invalid::new(format!(
            "--token-file {}: the path is relative; give an absolute one",
            path.display()
        ))
        .into());
    }
    let secret =
        files::read_secret(path).map_err(|error| anyhow::anyhow!("--token-file {error}"))?;
    if let Some(warning) = secret.warning {
        eprint(format_args!("agentd: WARNING: {warning}"));
    }
    // Others would have to be escaped in the address.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if secret.text.len() < 16 || !secret.text.bytes().all(is_plain) {
        bail!(
            "--token-file {}: the token must have at least 16 characters, letters, digits and `-._~` only; make \
             one with `openssl rand -hex 32`",
            path.display()
        );
    }
    Ok(secret.text)
}

async fn bind(address: SocketAddr) -> anyhow::Result<Listener> {
    let hint = "another `agentd web` may be running there, whose page serves all folders; --listen \
                127.0.0.1:0 takes a free port";
    Listener::tcp(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow::anyhow!("--listen {address}: {error}; {hint}"),
        _ => anyhow::anyhow!("--listen {address}: {error}"),
    })
}

/// The address with the port that the system chose.
fn address(listener: &Listener) -> anyhow::Result<SocketAddr> {
    let Listener::Tcp(listener) = listener else {
        bail!("the page needs a TCP listener");
    };
    Ok(listener.local_addr()?)
}

/// Serves the page and its connections.
fn accept(
    server: &Server,
    listener: Listener,
    address: SocketAddr,
    token: &str,
) -> anyhow::Result<JoinSet<()>> {
    let admission = Admission {
        auth: Auth::capability(token),
        origins: vec![format!("http://{address}")],
        hosts: Vec::new(),
    };
    let limits = Limits { line_bytes: server::LINE_BYTES, ..Limits::default() };
    let acceptor = Acceptor::new(admission, limits, Ingress::default());
    acceptor.serve_site(web::site(address.to_string()).context("the address of the page")?);
    let server = server.clone();
    let serve: Serve = Arc::new(move |connection, pending| {
        let server = server.clone();
        Box::pin(async move { server.serve(connection, pending).await })
    });
    let mut accepting = JoinSet::new();
    accepting.spawn(acceptor.accept(listener, serve));
    Ok(accepting)
}

/// Opens the browser, or says what to do.
fn present(url: &str, no_open: bool, environment: &Environment) {
    let opened = !no_open && browser::has_display(environment) && browser::open(url);
    let first =
        if opened { "The browser opens this address." } else { "Open this address in a browser." };
    eprint(format_args!(
        "{first} Anyone who has it can run commands as you. Ctrl+C ends the server."
    ));
}
