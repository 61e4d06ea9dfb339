//! `agentd model-server`: the scripted model over HTTP, or a recorder in front of a real one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use model::{KeySource, Provider, Secret, Wire};
use model_server::script::Script;
use tokio::net::TcpListener;

use crate::commands::{asked_to_end, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Answer from this script: a file, or the name of a built-in one (`demo`, `echo`)
    #[arg(long, value_name = "FILE", required_unless_present = "record")]
    script: Option<String>,
    /// Record a real session into this script
    #[arg(long, value_name = "FILE", requires = "upstream", conflicts_with = "script")]
    record: Option<PathBuf>,
    /// The provider to record, as in `https://host/v1`; its key is read from AGENT_API_KEY, or from the
    /// variable of the provider: OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The address to listen on; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Append each request to this file, as one JSON object per line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Runs the subcommand until a signal. Prints the address in one line.
pub(crate) async fn run(
    arguments: Arguments,
    environment: impl FnOnce() -> anyhow::Result<Environment>,
) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let shutdown = async {
        // Without signal handling the program ends when it is killed.
        if asked_to_end().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    if let (Some(out), Some(upstream)) = (&arguments.record, &arguments.upstream) {
        let environment = environment()?;
        let own = match model::wire_of_address(upstream) {
            Wire::Messages => "ANTHROPIC_API_KEY",
            Wire::Gemini => "GEMINI_API_KEY",
            Wire::Responses | Wire::Chat => "OPENAI_API_KEY",
        };
        let key = ["AGENT_API_KEY", own].iter().find_map(|name| environment.variable(name));
        let mut provider = Provider::http("upstream", upstream.clone());
        provider.api_key =
            key.map_or(KeySource::NotNeeded, |key| KeySource::Value(Secret::new(key)));
        print(format_args!("listening on http://{address}/v1"))?;
        let network = model::Network::from_variables(|name| environment.variable(name));
        let options = model::Options { network, ..model::Options::default() };
        model_server::record(provider, options, listener, out.clone(), shutdown).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let script = script(arguments.script.as_deref().unwrap_or_default())?;
    let log = arguments.log.as_ref().map(open_log).transpose()?;
    print(format_args!("listening on http://{address}/v1"))?;
    model_server::serve(listener, script, log, shutdown).await?;
    Ok(ExitCode::SUCCESS)
}

fn script(name: &str) -> anyhow::Result<Script> {
    let path = std::path::Path::new(name);
    if path.exists() {
        return Ok(Script::load(path)?);
    }
    Script::built_in(name).with_context(|| {
        format!("--script {name}: neither a file nor a built-in script has this name")
    })
}

fn open_log(path: &PathBuf) -> anyhow::Result<model_server::RequestLog> {
    // tidy: open the log that the user names, for writing.
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(file))
}
