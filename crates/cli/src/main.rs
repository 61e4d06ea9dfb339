//! The `agentd` program: argv, environment and wiring. One file a subcommand.
//!
//! Nothing below this crate reads the command line, the environment, the home folder or the
//! current folder: [`environment`] reads them and passes them on.

mod commands;
mod environment;
mod log;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::config as config_command;
use crate::commands::listen::InheritedSockets;
use crate::commands::{
    Invalid, acp as acp_command, app_server, completions, demo, doctor, exec,
    gateway as gateway_command, hooks as hooks_command, import as import_command, login,
    mcp as mcp_command, mcp_server, model_server, output, plugins as plugins_command, review,
    rules, sandbox as sandbox_command, skills as skills_command, store as store_command, terminal,
    threads, web as web_command, worktree,
};
use crate::environment::Environment;

/// Embed a coding agent in any product.
#[derive(Parser)]
#[command(name = "agentd", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    terminal: terminal::Arguments,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Options of every subcommand that runs a server.
#[derive(clap::Args)]
struct ConfigArguments {
    /// Override a configuration value, as in `-c model="gpt-5"`; may be repeated
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true)]
    overrides: Vec<String>,
    /// Use a profile of the configuration
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,
    /// Enable a feature; may be repeated
    #[arg(long, value_name = "FEATURE", global = true)]
    enable: Vec<String>,
    /// Disable a feature; may be repeated
    #[arg(long, value_name = "FEATURE", global = true)]
    disable: Vec<String>,
    /// Refuse configuration files with unknown keys
    #[arg(long, global = true)]
    strict_config: bool,
}

/// The command line up to the subcommand, whose own arguments are not parsed.
#[derive(Parser)]
#[command(disable_help_flag = true, disable_help_subcommand = true)]
struct LeadingArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(subcommand)]
    _rest: Rest,
}

#[derive(Subcommand)]
enum Rest {
    #[command(external_subcommand)]
    Any(#[expect(dead_code, reason = "only what stands before it is read")] Vec<OsString>),
}

impl ConfigArguments {
    /// Adds the options before the subcommand. Where the same option stands after it too, the parser
    /// returns only those.
    fn add_leading(&mut self, line: impl IntoIterator<Item = OsString>) {
        let Ok(LeadingArguments { config: leading, .. }) = LeadingArguments::try_parse_from(line)
        else {
            return;
        };
        let lists = [
            (&mut self.overrides, leading.overrides),
            (&mut self.enable, leading.enable),
            (&mut self.disable, leading.disable),
        ];
        for (list, leading) in lists {
            if *list != leading {
                list.splice(..0, leading);
            }
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Serve the agent to an editor, over the Agent Client Protocol
    Acp(acp_command::Arguments),
    /// Serve the protocol to a client, or write its schemas
    AppServer(app_server::Arguments),
    /// Print shell completions
    Completions(completions::Arguments),
    /// Check, show and change the configuration
    Config(config_command::Arguments),
    /// Run one turn with a scripted model, without a key or a network
    Demo(demo::Arguments),
    /// Check home, configuration, sandbox, threads, provider, model, MCP servers and git
    Doctor(doctor::Arguments),
    /// Run one turn without a client
    Exec(exec::Arguments),
    /// Continue a copy of a thread in the terminal
    Fork(terminal::ThreadArguments),
    /// Serve the hosted API: keys, limits and spend in front of model servers
    Gateway(gateway_command::Arguments),
    /// Log in at the hosted service or with an API key, or show who is logged in
    Login(login::Arguments),
    /// Log out and delete the credentials
    Logout(login::LogoutArguments),
    /// Print the manual page, in roff
    Manual,
    /// List, change and test MCP servers, and log in at them
    Mcp(mcp_command::Arguments),
    /// Serve the agent to MCP clients, as tools
    McpServer(mcp_server::Arguments),
    /// Import from other agents: instructions, servers, skills, sessions and more
    Import(import_command::Arguments),
    /// List hooks, and choose which hooks of a project run
    Hooks(hooks_command::Arguments),
    /// Serve a scripted model over HTTP, or record one
    ModelServer(model_server::Arguments),
    /// Continue a thread in the terminal
    Resume(terminal::ThreadArguments),
    /// Review changes, and print the findings
    Review(review::Arguments),
    /// Explain how command rules decide
    Rules(rules::Arguments),
    /// Run a command under a sandbox policy
    Sandbox(sandbox_command::Arguments),
    /// Add marketplaces; show, install and remove plugins
    Plugins(plugins_command::Arguments),
    /// List, check and create skills
    Skills(skills_command::Arguments),
    /// Migrate a PostgreSQL database of threads, or copy threads to another database
    Store(store_command::Arguments),
    /// List, show, change, undo, export and import threads
    Threads(threads::Arguments),
    /// Serve the agent as a page for the browsers of this machine
    Web(web_command::Arguments),
    /// List, merge and remove git worktrees of threads
    Worktree(worktree::Arguments),
}

fn main() -> ExitCode {
    // First of all: this process may be the supervisor of a command.
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|first| first == sandbox::SUPERVISE_ARGUMENT) {
        sandbox::supervisor_main(std::env::args_os().skip(2));
    }
    // Before any thread starts: this removes variables from the environment.
    #[cfg(unix)]
    let given = environment::inherited_sockets();
    #[cfg(not(unix))]
    let given = ();
    let mut arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            exec::print_parse_error_event(std::env::args_os(), &error);
            error.exit()
        }
    };
    arguments.config.add_leading(std::env::args_os());
    let prints_thread_events =
        matches!(&arguments.command, Some(Command::Exec(exec)) if exec.prints_thread_events());
    match run(arguments, given) {
        Ok(code) => code,
        Err(error) => {
            if let Some(code) = output::quiet_end(&error) {
                return code;
            }
            if prints_thread_events {
                exec::print_error_event(&error);
            }
            commands::eprint(format_args!("agentd: {error:#}"));
            commands::exit_code(&error)
        }
    }
}

/// The number of threads that run tasks. A second one would be woken for most events of a single client,
/// and find nothing to do. The terminal program has a thread of its own, and its server one client.
fn workers(command: Option<&Command>) -> usize {
    let has_one_client = match command {
        None | Some(Command::Resume(_) | Command::Fork(_)) => true,
        Some(Command::AppServer(arguments)) => arguments.serves_one_client(),
        Some(_) => false,
    };
    if has_one_client { 1 } else { 2 }
}

fn run(arguments: Arguments, given: InheritedSockets) -> anyhow::Result<ExitCode> {
    let mut overrides = arguments.config.overrides;
    if let Some(profile) = arguments.config.profile {
        overrides.push(format!("profile={}", toml_string(&profile)));
    }
    let runtime = match &arguments.command {
        Some(Command::Gateway(_)) => gateway_command::runtime()?,
        command => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers(command.as_ref()))
            .enable_all()
            .build()?,
    };
    for (names, on) in [(&arguments.config.enable, true), (&arguments.config.disable, false)] {
        for name in names {
            if let Some(message) = config::table::unknown_feature(name) {
                return Err(Invalid::new(message).into());
            }
            overrides.push(format!("features.{name}={on}"));
        }
    }
    let strict = arguments.config.strict_config;
    let dialect = environment::dialect(match &arguments.command {
        Some(Command::AppServer(arguments)) => arguments.dialect(),
        Some(Command::Exec(arguments)) => arguments.dialect(),
        _ => None,
    })?;
    let environment = || Environment::gather(overrides, strict, dialect);
    let Some(command) = arguments.command else {
        if let Some(name) = arguments.terminal.only_word().and_then(mistaken_subcommand) {
            let message = format!(
                "there is no such subcommand; did you mean `agentd {name}`? To send a single word \
                 as a message, type it in `agentd`"
            );
            return Err(Invalid::new(message).into());
        }
        let code = runtime.block_on(terminal::run(arguments.terminal, environment()?));
        runtime.shutdown_background();
        return code;
    };
    if arguments.terminal.are_given() {
        let message = "use these options without a subcommand, or after the subcommand";
        return Err(Invalid::new(message).into());
    }
    let code = match command {
        Command::Acp(arguments) => runtime.block_on(acp_command::run(arguments, environment()?)),
        Command::AppServer(arguments) => {
            runtime.block_on(app_server::run(arguments, dialect, environment, given))
        }
        Command::Completions(arguments) => {
            completions::completions(&arguments, Arguments::command())
        }
        Command::Manual => completions::manual(Arguments::command()),
        Command::Config(arguments) => config_command::run(arguments, environment()?),
        Command::Demo(arguments) => runtime.block_on(demo::run(arguments, environment()?)),
        Command::Doctor(arguments) => runtime.block_on(doctor::run(&arguments, &environment()?)),
        Command::Exec(arguments) => runtime.block_on(exec::run(arguments, environment()?)),
        Command::Fork(arguments) => runtime.block_on(terminal::fork(arguments, environment()?)),
        Command::Resume(arguments) => runtime.block_on(terminal::resume(arguments, environment()?)),
        Command::Gateway(arguments) => {
            runtime.block_on(gateway_command::run(arguments, environment, given))
        }
        Command::Login(arguments) => runtime.block_on(login::login(arguments, environment()?)),
        Command::Logout(arguments) => runtime.block_on(login::logout(arguments, environment()?)),
        Command::Mcp(arguments) => runtime.block_on(mcp_command::run(arguments, environment()?)),
        Command::McpServer(arguments) => {
            runtime.block_on(mcp_server::run(arguments, environment()?, given))
        }
        Command::ModelServer(arguments) => {
            runtime.block_on(model_server::run(arguments, environment))
        }
        Command::Review(arguments) => runtime.block_on(review::run(arguments, environment()?)),
        Command::Rules(arguments) => rules::run(arguments, environment()?),
        Command::Sandbox(arguments) => {
            runtime.block_on(sandbox_command::run(arguments, environment()?))
        }
        Command::Import(arguments) => {
            runtime.block_on(import_command::run(arguments, environment()?))
        }
        Command::Hooks(arguments) => {
            runtime.block_on(hooks_command::run(arguments, environment()?))
        }
        Command::Plugins(arguments) => {
            runtime.block_on(plugins_command::run(arguments, environment()?))
        }
        Command::Skills(arguments) => {
            runtime.block_on(skills_command::run(arguments, environment()?))
        }
        Command::Store(arguments) => {
            runtime.block_on(store_command::run(arguments, environment()?))
        }
        Command::Threads(arguments) => runtime.block_on(threads::run(arguments, environment()?)),
        Command::Web(arguments) => runtime.block_on(web_command::run(arguments, environment()?)),
        Command::Worktree(arguments) => runtime.block_on(worktree::run(arguments, environment()?)),
    };
    // Remaining background tasks have no one to report to.
    runtime.shutdown_background();
    code
}

/// The subcommand that `word` is a misspelling of.
fn mistaken_subcommand(word: &str) -> Option<String> {
    let command = Arguments::command();
    let names = command.get_subcommands().map(|it| it.get_name().to_owned());
    names
        .map(|name| (strsim::damerau_levenshtein(word, &name), name))
        .filter(|(distance, name)| (1..=2).contains(distance) && name.len() > 3)
        .min()
        .map(|(_, name)| name)
}

fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_and_behind_the_subcommand_add_up() {
        let check = |line: &[&str], overrides: &[&str], enable: &[&str]| {
            let line = || std::iter::once("agentd").chain(line.iter().copied());
            let mut parsed = Arguments::try_parse_from(line()).unwrap();
            parsed.config.add_leading(line().map(OsString::from));
            assert_eq!(parsed.config.overrides, overrides);
            assert_eq!(parsed.config.enable, enable);
            assert!(!parsed.terminal.are_given());
        };
        check(&["exec", "p"], &[], &[]);
        check(&["-c", "a=1", "exec", "p"], &["a=1"], &[]);
        check(&["exec", "-c", "a=1", "p", "--config=b=2"], &["a=1", "b=2"], &[]);
        check(&["-ca=1", "--config", "b=2", "exec", "-c", "c=3", "p"], &["a=1", "b=2", "c=3"], &[]);
        check(
            &["--enable", "x", "--config", "a=1", "app-server", "--enable", "y"],
            &["a=1"],
            &["x", "y"],
        );
        check(&["-c", "a=1", "exec", "--", "-c"], &["a=1"], &[]);
        check(
            &["exec", "-m", "x", "-C", "d", "-s", "read-only", "--model-provider", "y"],
            &[],
            &[],
        );
    }

    #[test]
    fn programs_with_one_client_have_one_worker() {
        for (given, expected) in [
            ("agentd", 1),
            ("agentd resume", 1),
            ("agentd app-server", 1),
            ("agentd app-server --listen stdio://", 1),
            ("agentd app-server --listen ws://127.0.0.1:0", 2),
            ("agentd app-server --listen stdio:// --listen unix://", 2),
            ("agentd app-server --listen off", 2),
            ("agentd mcp-server", 2),
        ] {
            let arguments = Arguments::try_parse_from(given.split(' ')).unwrap();
            assert_eq!(workers(arguments.command.as_ref()), expected, "{given}");
        }
    }
}
