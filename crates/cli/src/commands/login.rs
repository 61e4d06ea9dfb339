//! `agentd login` and `agentd logout`: the account of this home, without a server.

pub(super) mod browser;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use account::{Accounts, Error, Settings, Status};
use anyhow::{Context, bail};
use clap::Subcommand;

use crate::commands::local::Signals;
use crate::commands::{checked, eprint, print};
use crate::environment::Environment;

#[derive(Default, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Log in with a code, in a browser on any device
    #[arg(long)]
    device: bool,
    /// Store the API key that standard input contains
    #[arg(long, conflicts_with_all = ["device", "no_browser"])]
    with_api_key: bool,
    /// Print the address without opening a browser
    #[arg(long)]
    no_browser: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Show who is logged in
    Status {
        /// Refresh the tokens if they have expired
        #[arg(long)]
        refresh: bool,
    },
}

#[derive(clap::Args)]
pub(crate) struct LogoutArguments {}

/// Bytes of standard input that are read for a key.
const MAX_INPUT: u64 = 128 << 10;

/// Runs `agentd login`. Exit codes: 0 logged in, 1 not logged in, 2 unusable arguments or
/// configuration, 130 and 143 ended by an interrupt or a termination.
pub(crate) async fn login(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, false)?;
    let settings = server::account_settings(&config);
    let has_environment_key = server::uses_environment_key(&config);
    let accounts = server::accounts(&environment.clone().options("cli"));
    if let Some(Action::Status { refresh }) = arguments.action {
        return status(&accounts, &settings, has_environment_key, refresh).await;
    }
    make_home(&environment)?;
    if arguments.with_api_key {
        if io::stdin().is_terminal() {
            eprint(format_args!(
                "agentd: --with-api-key reads the key from standard input, so no process list \
                 shows it; write `printenv MY_KEY | agentd login --with-api-key`"
            ));
            return Ok(ExitCode::from(2));
        }
        accounts.login_with_api_key(&settings, &key()?).await?;
    } else {
        let mut signals = Signals::catch()?;
        let opens = !arguments.no_browser && browser::may_open(&environment);
        tokio::select! {
            done = log_in(&accounts, &settings, arguments.device, opens) => done?,
            code = signals.next() => return Ok(ExitCode::from(code)),
        }
    }
    if has_environment_key {
        eprint(format_args!(
            "agentd: requests use the API key in the environment (AGENT_API_KEY or OPENAI_API_KEY), not \
             this login; unset it to use the login"
        ));
    }
    let now = accounts.status(&settings).await?;
    print(format_args!("{}", described(&now)))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `agentd logout`. Exit codes: 0 logged out, 2 unusable configuration.
pub(crate) async fn logout(
    _arguments: LogoutArguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, false)?;
    make_home(&environment)?;
    let accounts = server::accounts(&environment.options("cli"));
    let was_logged_in = accounts.logout(&server::account_settings(&config)).await?;
    print(format_args!("{}", if was_logged_in { "Logged out" } else { "Not logged in" }))?;
    if server::uses_environment_key(&config) {
        eprint(format_args!(
            "agentd: the API key in the environment (AGENT_API_KEY or OPENAI_API_KEY) is still in \
             use"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the user's browser, where a user at a graphical session runs this program. Returns whether a
/// browser was started.
pub(crate) fn open_browser(environment: &Environment, url: &str) -> bool {
    browser::has_display(environment) && browser::open(url)
}

async fn log_in(
    accounts: &Accounts,
    settings: &Settings,
    with_device_code: bool,
    opens_browser: bool,
) -> anyhow::Result<()> {
    if with_device_code {
        let login = accounts.begin_device_login(settings).await?;
        eprint(format_args!("agentd: open this address in a browser and enter this code:"));
        print(format_args!("{}\n{}", login.verification_url(), login.user_code()))?;
        return Ok(login.finish().await?);
    }
    let login = accounts.begin_browser_login(settings, false).await?;
    let opened = opens_browser && browser::open(login.url());
    let advice = if opened { "a browser shows" } else { "open in a browser on this machine" };
    eprint(format_args!(
        "agentd: {advice} this address (on another device: agentd login --device):"
    ));
    print(format_args!("{}", login.url()))?;
    Ok(login.finish().await?)
}

async fn status(
    accounts: &Accounts,
    settings: &Settings,
    has_environment_key: bool,
    refresh: bool,
) -> anyhow::Result<ExitCode> {
    if has_environment_key {
        print(format_args!(
            "Using the API key in the environment (AGENT_API_KEY or OPENAI_API_KEY)"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    if refresh && let Err(error) = accounts.bearer(settings, None).await {
        match error {
            // The status says so.
            Error::NotLoggedIn | Error::Ended { .. } => {}
            error => return Err(error.into()),
        }
    }
    let status = accounts.status(settings).await?;
    print(format_args!("{}", described(&status)))?;
    let is_logged_in = !matches!(status, Status::LoggedOut { .. });
    Ok(if is_logged_in { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn described(status: &Status) -> String {
    match status {
        Status::ApiKey => "Logged in with an API key".to_owned(),
        Status::Hosted(profile) | Status::External(profile) => {
            let mut text = "Logged in".to_owned();
            for (word, value) in [
                (" as ", profile.email.as_ref().or(profile.subject.as_ref())),
                (", plan ", profile.plan.as_ref()),
                (", workspace ", profile.account_id.as_ref()),
            ] {
                if let Some(value) = value {
                    text.push_str(word);
                    text.push_str(value);
                }
            }
            text
        }
        Status::LoggedOut { reason: None } => "Not logged in".to_owned(),
        Status::LoggedOut { reason: Some(reason) } => format!("Not logged in: {reason}"),
    }
}

fn make_home(environment: &Environment) -> anyhow::Result<()> {
    let home = &environment.home;
    server::make_home(home).with_context(|| {
        format!("cannot create {}; set AGENT_HOME to a folder that you can write", home.display())
    })
}

/// The key in standard input.
fn key() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes);
    read.context("cannot read the API key from standard input")?;
    // Some shells put a byte order mark before what they pipe.
    match files::decoded(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("the API key on standard input is not text in UTF-8 or UTF-16"),
    }
}
