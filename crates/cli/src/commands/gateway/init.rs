//! `agentd gateway init`: a configuration and a token for the administration, to begin with.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRngCore;

use crate::commands::{Invalid, print};
use crate::environment::Environment;

const CONFIG: &str = "gateway.toml";
const TOKEN: &str = "admin.token";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The folder for both files [default: the current one]
    folder: Option<PathBuf>,
    /// The address at which the gateway listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: String,
    /// The address of a model server, such as `https://models.example/v1` [default: the offline model]
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// The environment variable with that server's key
    #[arg(long, value_name = "NAME", requires = "upstream")]
    env_key: Option<String>,
}

/// Writes both files; replaces none.
pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let folder = arguments.folder.as_deref().unwrap_or(Path::new(""));
    let at = environment.cwd.join(folder);
    let text = config(arguments).map_err(Invalid::from)?;
    for name in [CONFIG, TOKEN] {
        if at.join(name).symlink_metadata().is_ok() {
            let message = format!(
                "{} already exists: name another folder, or remove it",
                folder.join(name).display()
            );
            return Err(Invalid::new(message).into());
        }
    }
    std::fs::create_dir_all(&at).with_context(|| at.display().to_string())?;
    let mut random = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut random).context("the system provides random bytes")?;
    write(&at.join(TOKEN), &format!("{}\n", URL_SAFE_NO_PAD.encode(random)))?;
    write(&at.join(CONFIG), &text)?;
    let (config, token) = (folder.join(CONFIG), folder.join(TOKEN));
    let (config, token, listen) = (config.display(), token.display(), &arguments.listen);
    print(format_args!(
        "Wrote {config} and {token}, the token of the administrator. Next:\n\n  \
         agentd gateway --config {config} --check\n  \
         agentd gateway --config {config}\n\n\
         While it runs, create a key for a project, and send a request:\n\n  \
         KEY=$(agentd gateway create-key --config {config} --project bots)\n  \
         curl http://{listen}/v1/models -H \"Authorization: Bearer $KEY\"\n\n\
         The dashboard is at http://{listen}/dashboard: sign in with the token."
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The text of the configuration.
fn config(arguments: &Arguments) -> anyhow::Result<String> {
    // A string of JSON is one of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let port = arguments.listen.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        bail!("--listen {}: give an address and a port, such as 127.0.0.1:8080", arguments.listen);
    }
    let upstream = match (&arguments.upstream, &arguments.env_key) {
        (None, _) => {
            "# Without an upstream, the built-in offline model answers.\n# [upstreams.main]\n\
             # base_url = \"https://models.example/v1\"\n# env_key = \"MODELS_KEY\"\n"
                .to_owned()
        }
        (Some(url), key) => {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                bail!("--upstream {url}: give an address such as https://models.example/v1");
            }
            let key = key.as_ref().map(|name| format!("env_key = {}\n", quoted(name)));
            format!("[upstreams.main]\nbase_url = {}\n{}", quoted(url), key.unwrap_or_default())
        }
    };
    Ok(format!(
        "# The gateway. Every key: the chapter \"The gateway\" of the book.\n\
         listen = {}\n\n\
         [admin]\ntoken_file = \"{TOKEN}\"\n\n\
         # Relative paths begin at the folder of this file. Several nodes need PostgreSQL and Redis: the chapter \"The\n\
         # gateway in production\".\n\
         [store]\nurl = \"sqlite://gateway.db\"\n\n\
         [limits]\nurl = \"memory:\"\n\n\
         {upstream}\n\
         # A model with its price (USD per million tokens), and its limits in the tier of new organizations:\n\
         # [models.\"big-2026-08-01\"]\n# aliases = [\"big\"]\n\
         # price = {{ input = 1.25, cached_input = 0.125, output = 10.0 }}\n#\n\
         # [tiers.free.limits.big]\n# rpm = 60\n# tpm = 40000\n",
        quoted(&arguments.listen)
    ))
}

/// Writes a file that only its owner can read.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    // tidy: open creates a new file.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} already exists", path.display())
        }
        written => written.with_context(|| path.display().to_string()),
    }
}
