//! `agentd mcp-server`: the agent as an MCP server, over standard input and output or HTTP.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_server::Agent;
use rand::Rng;
use server::{Options, Server};
use tokio::net::TcpListener;
use transport::{Address, Admission, Listener};

use crate::commands::listen::{
    AccessArguments, AccessFlags, InheritedSockets, ListenSettings, raise_descriptor_limit,
};
use crate::commands::local::Signals;
use crate::commands::{Invalid, checked, eprint, print, watchdog};
use crate::environment::Environment;
use crate::log;

/// The source under which threads of this server are listed.
const SOURCE: &str = "mcpServer";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Serve HTTP at `http://IP:PORT` instead of standard input and output, as in `http://127.0.0.1:8765`;
    /// may be repeated. Clients connect to the path /mcp
    #[arg(long, value_name = "URL", value_parser = http_address)]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    access: HttpAccess,
}

/// The flags of [`AccessArguments`] by names of this transport. Those of the WebSocket listener are accepted
/// too.
struct HttpAccess(AccessArguments);

const FLAGS: AccessFlags = AccessFlags { prefix: "http", scheme: "http" };
/// The flags of the WebSocket listener, and their names here.
const NAMES: [(&str, &str); 9] = [
    ("ws-auth", "http-auth"),
    ("ws-token-file", "http-token-file"),
    ("ws-token-sha256", "http-token-sha256"),
    ("ws-shared-secret-file", "http-shared-secret-file"),
    ("ws-issuer", "http-issuer"),
    ("ws-audience", "http-audience"),
    ("ws-max-clock-skew-seconds", "http-max-clock-skew-seconds"),
    ("ws-allow-origin", "http-allow-origin"),
    ("ws-allow-host", "http-allow-host"),
];

impl clap::Args for HttpAccess {
    fn augment_args(command: clap::Command) -> clap::Command {
        AccessArguments::augment_args(command).mut_args(|argument| {
            match NAMES.into_iter().find(|(other, _)| argument.get_long() == Some(*other)) {
                Some((other, name)) => argument.long(name).alias(other),
                None => argument,
            }
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for HttpAccess {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        AccessArguments::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn http_address(url: &str) -> Result<SocketAddr, String> {
    let address = url.strip_prefix("http://").and_then(|rest| {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        rest.parse().ok()
    });
    address.ok_or_else(|| "give `http://IP:PORT`, as in `http://127.0.0.1:8765`".to_owned())
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
    mut given: InheritedSockets,
) -> anyhow::Result<ExitCode> {
    checked(&environment, false)?;
    let addresses = arguments.listen.iter().map(|address| Address::WebSocket(*address)).collect();
    let addresses: Vec<Address> = addresses;
    let access = (&arguments.access.0, FLAGS);
    let settings = ListenSettings::settle(&addresses, access, &environment);
    let settings = settings.map_err(Invalid::from)?;
    let mut signals = Signals::catch()?;
    watchdog::start(Duration::ZERO)?;
    let descriptors = if addresses.is_empty() { None } else { raise_descriptor_limit() };
    let listeners = settings.bind(&environment, &mut given).await?;
    let log_file = log::to_file(&environment)?;
    let options = Options { log_file, ..environment.clone().options(SOURCE) };
    let server = Server::start(options, environment.sandbox_with(descriptors))?;
    let random = Arc::new(|bytes: &mut [u8]| rand::rng().fill(bytes));
    let agent = Agent::new(server, env!("CARGO_PKG_VERSION"), random);
    let stop = async {
        signals.next().await;
    };
    if !listeners.is_empty() {
        serve_http(agent, listeners, settings.admission, stop).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    if let Err(error) = mcp_server::serve_stdio(agent, input, output, stop).await {
        eprint(format_args!("agentd: {error}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve_http(
    agent: Agent,
    listeners: Vec<Listener>,
    admission: Admission,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut sockets: Vec<TcpListener> = Vec::new();
    for listener in listeners {
        match listener {
            Listener::Tcp(socket) => sockets.push(socket),
            // `http_address` accepts TCP only.
            #[cfg(unix)]
            Listener::Unix(_) => {}
        }
    }
    for socket in &sockets {
        // For scripts: standard output is no transport here.
        print(format_args!("listening on http://{}/mcp", socket.local_addr()?))?;
    }
    mcp_server::serve_http(agent, sockets, admission, stop).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[test]
    fn every_flag_about_access_has_a_name_of_its_own() {
        let command = HttpAccess::augment_args(clap::Command::new("test"));
        let longs: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert_eq!(longs, NAMES.map(|(_, name)| name));
        let parsed = |flag: &str| {
            let matches = command.clone().try_get_matches_from(["test", flag, "none"]).unwrap();
            HttpAccess::from_arg_matches(&matches).is_ok()
        };
        assert!(parsed("--http-auth") && parsed("--ws-auth"));
    }

    #[test]
    fn addresses_are_parsed() {
        let check = |url: &str, expect: Option<&str>| {
            let parsed = http_address(url).ok().map(|address| address.to_string());
            assert_eq!(parsed.as_deref(), expect, "{url}");
        };
        check("http://127.0.0.1:8765", Some("127.0.0.1:8765"));
        check("http://[::1]:0/", Some("[::1]:0"));
        check("ws://127.0.0.1:8765", None);
        check("http://localhost:8765", None);
        check("http://127.0.0.1", None);
        check("http://127.0.0.1:1/mcp", None);
    }
}
