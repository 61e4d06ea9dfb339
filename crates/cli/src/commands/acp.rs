//! `agentd acp`: the agent for editors, over the Agent Client Protocol on standard input and output.

use std::process::ExitCode;

use acp::{Ended, Options};
use anyhow::anyhow;
use jsonrpc::{Connection, Limits};

use crate::commands::connect::{self, ConnectArguments, Serving};
use crate::commands::local::Signals;
use crate::commands::{Invalid, checked, eprint, login, watchdog};
use crate::environment::Environment;

/// The source under which threads of this program are listed.
const SOURCE: &str = "editor";
/// Longest message of an editor, in bytes: a prompt with images. A longer one is skipped and refused.
const MAX_LINE: usize = 32 << 20;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model of new sessions
    #[arg(short = 'm', long, value_name = "MODEL")]
    model: Option<String>,
    /// The provider of new sessions: `default`, `offline`, or one of config.toml
    #[arg(long, value_name = "ID")]
    model_provider: Option<String>,
    /// Also speak version 2 of the protocol, a draft, with editors that ask for it
    #[arg(long)]
    protocol_v2: bool,
    /// Log in on this terminal and exit; editors start this for a login
    #[arg(long, conflicts_with_all = ["model", "model_provider", "protocol_v2", "connect", "token_file"])]
    login: bool,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// Runs the subcommand. Exit codes: 0 the editor left, 1 the server was lost, 2 unusable arguments or
/// configuration.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    if arguments.login {
        return login::login(login::Arguments::default(), environment).await;
    }
    let remote = arguments.connect.remote()?;
    if remote.is_none() {
        checked(&environment, false)?;
    }
    let mut signals = Signals::catch()?;
    watchdog::start(std::time::Duration::ZERO)?;
    let browser = environment.clone();
    let (connection, serving) = match remote {
        Some(remote) => tokio::select! {
            connected = remote.connect() => (connected.map_err(Invalid::from)?, None),
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
        },
        None => {
            let Serving { connection, task, .. } = connect::serve(environment, SOURCE)?;
            (connection, Some(task))
        }
    };
    let limits = Limits { line_bytes: MAX_LINE, ..server::connection_limits() };
    let editor = Connection::stdio(limits)?;
    let options = Options {
        limits: server::connection_limits(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: arguments.model,
        model_provider: arguments.model_provider,
        speaks_v2: arguments.protocol_v2,
        browse: Box::new(move |url| login::open_browser(&browser, url)),
    };
    let stop = async {
        signals.next().await;
    };
    let ended = acp::serve(editor, connection, options, stop).await;
    if let Some(task) = serving {
        // The connection is closed: turns are interrupted and everything is stored. The panic hook has
        // reported a panic of the task.
        let _ = task.await;
    }
    match ended.map_err(|why| anyhow!(why))? {
        Ended::Editor => Ok(ExitCode::SUCCESS),
        Ended::ServerLost => {
            eprint(format_args!("agentd: the connection to the server was lost"));
            Ok(ExitCode::FAILURE)
        }
    }
}
