//! `agentd config`: checks, shows and changes the configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use config::docs;
use config::edit::{Edit, Strategy};
use config::{Error, Origin, Resolved};
use serde_json::Value;

use crate::commands::{eprint, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the files, the command line and the requirements
    Check,
    /// Show the values in force, as TOML
    Show {
        /// Show where each value was set
        #[arg(long)]
        origins: bool,
        /// Include unset keys, with their defaults
        #[arg(long)]
        defaults: bool,
        /// Print JSON
        #[arg(long, conflicts_with_all = ["origins", "defaults"])]
        json: bool,
        /// Show credentials and headers, which are `***` otherwise
        #[arg(long)]
        secrets: bool,
    },
    /// Show the value of one key
    Get {
        /// Dotted key, as `tools.web_search.context_size`
        key: String,
    },
    /// Set one key in your own file; comments and order stay
    Set {
        /// Dotted key
        key: String,
        /// A TOML value; `null` removes the key, anything else is taken as a string
        value: String,
    },
    /// Remove one key from your own file
    Unset {
        /// Dotted key
        key: String,
    },
    /// Print the JSON Schema of the files
    Schema {
        /// Print the schema of `requirements.toml` instead
        #[arg(long)]
        requirements: bool,
    },
    /// Print the paths of the files that apply in this folder, in order
    Path,
}

/// Runs the subcommand. Exit codes: 0, 1 where something failed, 2 for a configuration, a key or a
/// value that cannot be used.
pub(crate) fn run(arguments: Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    if let Command::Schema { requirements } = arguments.command {
        let schema =
            if requirements { config::schema::requirements() } else { config::schema::config() };
        print(format_args!("{schema:#}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let home = environment.home.clone();
    let options = environment.options("cli");
    let file = home.join(config::CONFIG_FILE);
    match &arguments.command {
        Command::Set { key, value } => return set(&file, key, value, &options),
        Command::Unset { key } => return write(&file, key, Value::Null, &options),
        _ => {}
    }
    if let Command::Check = arguments.command {
        return check(&options);
    }
    let (resolved, files) = match server::configuration_here(&options) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprint(format_args!("{}", error.diagnostic()));
            return Ok(ExitCode::from(2));
        }
    };
    match arguments.command {
        Command::Show { json: true, secrets, .. } => {
            let shown = masked(resolved.to_json(), secrets);
            print(format_args!("{shown:#}"))?;
        }
        Command::Show { origins, defaults, secrets, .. } => {
            for line in lines(&resolved, origins, defaults, secrets) {
                print(format_args!("{line}"))?;
            }
        }
        Command::Get { key } => return get(&resolved, &key),
        Command::Path => {
            for file in files {
                let state = if file.exists() { "" } else { "  (missing)" };
                print(format_args!("{}{state}", file.display()))?;
            }
        }
        Command::Check | Command::Set { .. } | Command::Unset { .. } | Command::Schema { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Names every mistake and every warning.
fn check(options: &server::Options) -> anyhow::Result<ExitCode> {
    let findings = findings(options);
    for (index, finding) in findings.iter().enumerate() {
        let kind = if finding.is_error { "error" } else { "warning" };
        let gap = if index + 1 < findings.len() { "\n" } else { "" };
        eprint(format_args!("{kind}: {}{gap}", finding.text));
    }
    let errors = findings.iter().filter(|finding| finding.is_error).count();
    if errors > 0 {
        return Ok(ExitCode::from(2));
    }
    match findings.len() {
        0 => print(format_args!("the configuration is valid"))?,
        1 => print(format_args!("the configuration is valid, with 1 warning"))?,
        count => print(format_args!("the configuration is valid, with {count} warnings"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The mistakes in the configuration of this folder, with those that only this program knows.
pub(super) fn findings(options: &server::Options) -> Vec<server::Finding> {
    let theme =
        |name: &str| tui::highlight::theme(name).map(drop).map_err(|error| error.to_string());
    let status_item = |item: &str| tui::app::check_status_item(item);
    let client = server::ClientChecks { theme: &theme, status_item: &status_item };
    server::check_configuration(options, client)
}

/// Returns the set values, one line each: `key = value`, its key whole.
pub(super) fn lines(
    resolved: &Resolved,
    origins: bool,
    defaults: bool,
    secrets: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |key: &str, value: &Value, origin: &str| {
        let value = toml_text(&masked_value(key, value.clone(), secrets));
        lines.push(match origins {
            true => format!("{key} = {value}  # {origin}"),
            false => format!("{key} = {value}"),
        });
    };
    for (key, origin) in resolved.origins() {
        if let Some((value, _)) = resolved.value(&key) {
            let pending = resolved.pending_reason(&key).map(|why| format!("; {why}"));
            line(&key, &value, &format!("{}{}", described(origin), pending.unwrap_or_default()));
        }
    }
    for row in docs::rows().into_iter().filter(|_| defaults) {
        let unset = resolved.value(&row.path).is_none();
        if let Some(default) = default(resolved, &row).filter(|_| unset && !row.path.contains('<'))
        {
            line(&row.path, &default, "default");
        }
    }
    lines
}

/// The default of a key; a feature whose part of the program is missing is off.
fn default(resolved: &Resolved, row: &docs::Row) -> Option<Value> {
    match row.path.strip_prefix("features.") {
        Some(name) => (row.entry.default)().map(|_| resolved.feature(name).into()),
        None => (row.entry.default)(),
    }
}

fn described(origin: &Origin) -> String {
    match origin.range() {
        Some(place) => {
            let (line, _) = place.line_column();
            format!("{}:{line}", origin.path().unwrap_or(&PathBuf::new()).display())
        }
        None => origin.to_string(),
    }
}

fn get(resolved: &Resolved, key: &str) -> anyhow::Result<ExitCode> {
    if let Some((value, _)) = resolved.value(key) {
        match value {
            Value::String(text) => print(format_args!("{text}"))?,
            other => print(format_args!("{}", toml_text(&other)))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let row = docs::rows().into_iter().find(|row| row.path == key);
    match row.map(|row| default(resolved, &row)) {
        Some(Some(Value::String(text))) => print(format_args!("{text}"))?,
        Some(Some(default)) => print(format_args!("{}", toml_text(&default)))?,
        Some(None) => eprint(format_args!("agentd: `{key}` is not set and has no default")),
        None => {
            eprint(format_args!("agentd: `{key}` is not set"));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets one key of the file at `path` to a value as it was typed.
fn set(path: &Path, key: &str, typed: &str, options: &server::Options) -> anyhow::Result<ExitCode> {
    let value = config::value_of_argument(typed);
    if value.is_null() {
        eprint(format_args!("`null` removes a key; for the text write '\"null\"'"));
    }
    let is_text = value.is_string();
    let code = write(path, key, value, options)?;
    if code != ExitCode::SUCCESS && !is_text && takes_text(path, key, typed, options) {
        eprint(format_args!("to set text, quote it: agentd config set {key} '\"{typed}\"'"));
    }
    Ok(code)
}

/// Returns whether a key could be set to `text` as a string.
fn takes_text(path: &Path, key: &str, text: &str, options: &server::Options) -> bool {
    let edits = [edit(key, text.into())];
    let old = files::read(path, config::MAX_FILE_BYTES).unwrap_or_default();
    let new = config::edit::apply(&String::from_utf8_lossy(&old), &edits);
    new.is_ok_and(|new| server::check_configuration_text(options, &new, &edits).is_ok())
}

fn edit(key: &str, value: Value) -> Edit {
    Edit { key_path: key.to_owned(), value, strategy: Strategy::Replace }
}

/// Changes one key of the file at `path`. Exit codes: 0, 2 for a key or a value that cannot be used.
pub(super) fn write(
    path: &Path,
    key: &str,
    value: Value,
    options: &server::Options,
) -> anyhow::Result<ExitCode> {
    let removes = value.is_null();
    let edits = [edit(key, value)];
    let mut remaining = Vec::new();
    let mut usable = |text: &str| {
        remaining = server::check_configuration_text(options, text, &edits)?;
        Ok(())
    };
    match config::edit::write(path, None, &edits, &mut usable) {
        Ok(written) if removes && !written.changed => {
            eprint(format_args!("{}", nothing_removed(&written.path, key, options)));
            Ok(ExitCode::SUCCESS)
        }
        Ok(written) => {
            eprint(format_args!("{}", written.path.display()));
            warn_about_remaining(&remaining);
            Ok(ExitCode::SUCCESS)
        }
        Err(
            error @ (Error::Conflict { .. }
            | Error::Busy { .. }
            | Error::Write { .. }
            | Error::NotAFile { .. }
            | Error::TooLarge { .. }),
        ) => Err(error.into()),
        Err(error @ Error::Edit { .. }) => {
            eprint(format_args!("agentd: {error}; the file was not changed"));
            Ok(ExitCode::from(2))
        }
        Err(error) => {
            eprint(format_args!("{}\nthe file was not changed", error.diagnostic()));
            Ok(ExitCode::from(2))
        }
    }
}

/// Names the mistakes that an edit left as they were.
fn warn_about_remaining(mistakes: &[Error]) {
    const NAMED: usize = 10;
    for mistake in mistakes.iter().take(NAMED) {
        eprint(format_args!("warning: {mistake}"));
    }
    let more = mistakes.len().saturating_sub(NAMED);
    if more > 0 {
        eprint(format_args!("warning: and {more} more; `agentd config check` lists them all"));
    }
}

/// Says that a key is not in the file, and where it is set instead, or which key may be meant.
fn nothing_removed(path: &Path, key: &str, options: &server::Options) -> String {
    let mut said = format!("`{key}` is not set in {}, so nothing was removed", path.display());
    let here = server::configuration_here(options).ok();
    if let Some((_, origin)) = here.as_ref().and_then(|(resolved, _)| resolved.value(key)) {
        said.push_str(&format!("; it is set by {}", described(origin)));
    } else if let Some(near) = docs::near_key(key) {
        said.push_str(&format!("; did you mean `{near}`?"));
    }
    said
}

fn toml_text(value: &Value) -> String {
    config::edit::value_text(value)
}

fn masked(mut json: Value, secrets: bool) -> Value {
    if let Value::Object(all) = &mut json {
        for (key, value) in all.iter_mut() {
            let inner = std::mem::take(value);
            *value = masked_value(key, inner, secrets);
        }
    }
    json
}

/// Credentials and headers, wherever they stand below `key`.
pub(super) fn masked_value(key: &str, value: Value, secrets: bool) -> Value {
    let secret = ["experimental_bearer_token", "http_headers", "headers", "env", "set"];
    let hides = !secrets && key.split('.').any(|part| secret.contains(&part));
    match value {
        Value::Object(all) => Value::Object(
            all.into_iter()
                .map(|(name, inner)| {
                    let below = format!("{key}.{name}");
                    (name, masked_value(&below, inner, secrets))
                })
                .collect(),
        ),
        Value::String(_) if hides => "***".into(),
        other => other,
    }
}
