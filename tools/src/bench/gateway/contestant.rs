//! The contestants of the measurement, each started on its core with its own configuration: the
//! gateway with and without limits, nginx and LiteLLM as plain proxies, and the direct connection
//! to the upstream.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::admin::{Admin, PLENTY, exchange};
use super::running::{Cores, Running, Starter};

/// The columns of the report, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum ContestantName {
    #[value(name = "agentd")]
    Gateway,
    LimitsOff,
    Nginx,
    #[value(name = "litellm")]
    LiteLlm,
    Direct,
}

impl ContestantName {
    pub(crate) const ALL: [ContestantName; 5] = [
        ContestantName::Gateway,
        ContestantName::LimitsOff,
        ContestantName::Nginx,
        ContestantName::LiteLlm,
        ContestantName::Direct,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ContestantName::Gateway => "agentd",
            ContestantName::LimitsOff => "limits off",
            ContestantName::Nginx => "nginx",
            ContestantName::LiteLlm => "LiteLLM",
            ContestantName::Direct => "direct",
        }
    }
}

/// The programs of the other contestants.
pub(crate) struct Programs {
    pub(crate) agentd: PathBuf,
    pub(crate) nginx: Option<PathBuf>,
    pub(crate) litellm: Option<PathBuf>,
}

/// A running contestant, or the upstream itself.
pub(crate) struct Contestant {
    pub(crate) who: ContestantName,
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
    pub(crate) process: Option<Running>,
    /// From the start to the line with its address; only for the gateway.
    pub(crate) started_in: Duration,
    /// Contains its configuration and the files that it writes.
    folder: TempDir,
}

impl Contestant {
    /// Asks the process to exit, waits for the exit, and returns its folder.
    pub(crate) fn end(mut self) -> Result<TempDir> {
        if let Some(process) = &mut self.process {
            process.end(END_PATIENCE)?;
        }
        Ok(self.folder)
    }
}

/// The model in requests; the gateway resolves it to a dated snapshot.
pub(crate) const MODEL: &str = "bench";
/// The same of the gateway, for requests that it translates to chats.
pub(crate) const TRANSLATED_MODEL: &str = "bench-chat";
const SNAPSHOT: &str = "bench-2026-08-01";
const TOKEN: &str = "admin-token-of-the-benchmark-0123456789";
const UPSTREAM_KEY: &str = "key-of-the-upstream";
/// LiteLLM requires a key at startup and in its requests.
const LITELLM_KEY: &str = "sk-4be7a1c09d35f2681e7c50b9da83f461296e0d74bc18a5f3";
/// A gateway with a million keys may start slowly when something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the gateway waits for requests in progress.
const END_PATIENCE: Duration = Duration::from_secs(40);
/// LiteLLM takes more than ten seconds to start.
const LITELLM_PATIENCE: Duration = Duration::from_secs(180);

/// Returns `None` when the program is not installed.
pub(crate) fn start(
    who: ContestantName,
    starter: &Starter,
    programs: &Programs,
    cores: Cores,
    upstream: SocketAddr,
) -> Result<Option<Contestant>> {
    let folder = tempfile::tempdir().context("a folder for its configuration")?;
    let started = match who {
        ContestantName::Direct => {
            let started_in = Duration::ZERO;
            let (key, process) = (None, None);
            Ok(Contestant { who, address: upstream, key, process, started_in, folder })
        }
        ContestantName::Gateway | ContestantName::LimitsOff => {
            let mut gateway =
                start_gateway(who, starter, &programs.agentd, cores, upstream, folder)?;
            let admin = Admin { address: gateway.address, token: TOKEN };
            gateway.key = Some(admin.make_key(SNAPSHOT).context("the admin API")?);
            Ok(gateway)
        }
        ContestantName::Nginx => match &programs.nginx {
            None => return Ok(None),
            Some(program) => start_nginx(starter, program, cores, upstream, folder),
        },
        ContestantName::LiteLlm => match &programs.litellm {
            None => return Ok(None),
            Some(program) => start_litellm(starter, program, cores, upstream, folder),
        },
    };
    started.map(Some).with_context(|| format!("{} does not start", who.name()))
}

/// Starts the gateway in a folder, which may contain a database; creates no key.
pub(crate) fn start_gateway(
    who: ContestantName,
    starter: &Starter,
    agentd: &Path,
    cores: Cores,
    upstream: SocketAddr,
    folder: TempDir,
) -> Result<Contestant> {
    let limits = if who == ContestantName::LimitsOff { "off:" } else { "memory:" };
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN)?;
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))?;
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, gateway_config(folder.path(), limits, upstream))?;
    let mut command = Command::new(agentd);
    command.args(["gateway", "--config"]).arg(&file);
    command.env("UPSTREAM_KEY", UPSTREAM_KEY).current_dir(folder.path());
    let mut process = starter.start(cores, &command)?;
    let (address, started_in) = process
        .line(PATIENCE, |line| line.strip_prefix("listening on http://")?.trim().parse().ok())
        .with_context(|| format!("`{} gateway --config {}`", agentd.display(), file.display()))?;
    Ok(Contestant { who, address, key: None, process: Some(process), started_in, folder })
}

/// Returns a configuration with every kind of limit, none of which is reached.
fn gateway_config(folder: &Path, limits: &str, upstream: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        r#"listen = "127.0.0.1:0"
default_upstream = "main"

[admin]
token_file = "{folder}/token"

[store]
url = "sqlite://{folder}/gateway.db"

[limits]
url = "{limits}"

[upstreams.main]
base_url = "http://{upstream}/v1"
env_key = "UPSTREAM_KEY"

[upstreams.chat]
base_url = "http://{upstream}/v1"
env_key = "UPSTREAM_KEY"
wire = "chat"

[models."{TRANSLATED_MODEL}"]
upstream = "chat"
shared_limit = "bench-family"
long_context_tokens = 128000
price = {{ input = 1.25, cached_input = 0.125, output = 10.0 }}

[models."{SNAPSHOT}"]
upstream = "main"
aliases = ["{MODEL}"]
shared_limit = "bench-family"
long_context_tokens = 128000
price = {{ input = 1.25, cached_input = 0.125, output = 10.0 }}

[tiers.free]
monthly_limit_usd = {PLENTY}

[tiers.free.limits."{SNAPSHOT}"]
rpm = {PLENTY}
rpd = {PLENTY}
tpm = {PLENTY}
tpd = {PLENTY}
ipm = {PLENTY}
audio_minutes_per_minute = 1000000
batch_queue_tokens = {PLENTY}
long_context_tpm = {PLENTY}

[tiers.free.limits."{TRANSLATED_MODEL}"]
rpm = {PLENTY}
rpd = {PLENTY}
tpm = {PLENTY}
tpd = {PLENTY}
long_context_tpm = {PLENTY}

[tiers.free.limits."bench-family"]
rpm = {PLENTY}
tpm = {PLENTY}
"#
    )
}

fn start_nginx(
    starter: &Starter,
    program: &Path,
    cores: Cores,
    upstream: SocketAddr,
    folder: TempDir,
) -> Result<Contestant> {
    let address = free_address()?;
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, nginx_config(folder.path(), address, upstream))?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-e").arg("stderr").arg("-c").arg(&file);
    let mut process = starter.start(cores, &command)?;
    wait_until_it_answers(&mut process, address, PATIENCE)?;
    let (who, started_in) = (ContestantName::Nginx, Duration::ZERO);
    Ok(Contestant { who, address, key: None, process: Some(process), started_in, folder })
}

/// One process, persistent connections on both sides, no writes to disk.
fn nginx_config(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        r#"daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid {folder}/nginx.pid;
events {{ worker_connections 32768; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream main {{
    server {upstream};
    keepalive 1024;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {address} backlog=4096;
    location / {{
      proxy_pass http://main;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"#
    )
}

fn start_litellm(
    starter: &Starter,
    program: &Path,
    cores: Cores,
    upstream: SocketAddr,
    folder: TempDir,
) -> Result<Contestant> {
    let address = free_address()?;
    let file = folder.path().join("litellm.yaml");
    let config = format!(
        "model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n      \
         api_base: http://{upstream}/v1\n      api_key: {UPSTREAM_KEY}\n"
    );
    std::fs::write(&file, config)?;
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).args(["--host", "127.0.0.1", "--num_workers", "1"]);
    command.args(["--port", &address.port().to_string(), "--telemetry", "False"]);
    // Uses the bundled price list; otherwise LiteLLM downloads a newer one.
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_LOG", "ERROR");
    command.env("LITELLM_MASTER_KEY", LITELLM_KEY);
    command.current_dir(folder.path());
    let mut process = starter.start(cores, &command)?;
    wait_until_it_answers(&mut process, address, LITELLM_PATIENCE)?;
    let (who, started_in) = (ContestantName::LiteLlm, Duration::ZERO);
    let key = Some(LITELLM_KEY.to_owned());
    Ok(Contestant { who, address, key, process: Some(process), started_in, folder })
}

/// Returns a port that was free a moment ago, for programs that do not report which one they use.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn wait_until_it_answers(
    process: &mut Running,
    address: SocketAddr,
    patience: Duration,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    let request = format!("GET /health/liveliness HTTP/1.1\r\nhost: {address}\r\n\r\n");
    loop {
        process.still_runs()?;
        if exchange(address, &request).is_ok() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no response within {patience:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_configuration_is_toml() {
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let config = gateway_config(Path::new("/a"), "off:", upstream);
        let table: toml::Table = config.parse().unwrap();
        assert_eq!(table["limits"]["url"].as_str(), Some("off:"));
        assert_eq!(table["store"]["url"].as_str(), Some("sqlite:///a/gateway.db"));
        assert_eq!(table["models"][SNAPSHOT]["aliases"][0].as_str(), Some(MODEL));
        assert_eq!(
            table["tiers"]["free"]["limits"][SNAPSHOT]["rpm"].as_integer(),
            Some(1_000_000_000)
        );
    }
}
