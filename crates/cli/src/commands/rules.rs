//! `agentd rules`: what the command rules say, and why.

use std::process::ExitCode;

use clap::Subcommand;
use sandbox::rules::{Decision, Invocation, PrefixRule, quote};
use serde_json::{Value, json};
use server::Explained;

use crate::commands::{eprint, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain how a command in this folder would be treated
    Check {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        /// The command: one argument is a script, several are a program and its arguments
        #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
        command: Vec<String>,
    },
}

/// Runs the subcommand. Exit codes: 0 for an answer, 1 when a file of rules cannot be used, 2 for a
/// configuration that cannot be used.
pub(crate) fn run(arguments: Arguments, environment: Environment) -> anyhow::Result<ExitCode> {
    let Command::Check { json, command } = arguments.command;
    let invocation = match command.as_slice() {
        [script] => Invocation::Script(script),
        argv => Invocation::Argv(argv),
    };
    let explained = match server::explain_command(&environment.options("cli"), invocation) {
        Ok(explained) => explained,
        Err(error) => {
            eprint(format_args!("agentd: {}", error.diagnostic()));
            return Ok(ExitCode::from(2));
        }
    };
    if json {
        print(format_args!("{}", object(&explained)))?;
    } else {
        print(format_args!("{}", page(&explained).trim_end()))?;
    }
    let broken = explained.files.iter().any(|(_, read)| read.is_err());
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Prompt => "prompt",
        Decision::Forbidden => "forbidden",
    }
}

fn origin(rule: &PrefixRule) -> String {
    rule.origin().map(ToString::to_string).unwrap_or_default()
}

/// A pattern as `.rules` files have it.
fn pattern(rule: &PrefixRule) -> Value {
    let positions = rule.tokens().map(|words| match words {
        [only] => json!(only),
        several => json!(several),
    });
    positions.collect()
}

fn page(explained: &Explained) -> String {
    let mut text = match &explained.verdict {
        Some(verdict) => {
            let what = match verdict.decision {
                Decision::Allow => "it runs without approval",
                Decision::Prompt => "it needs approval",
                Decision::Forbidden => "it is refused",
            };
            let why = verdict.justification.as_deref();
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{}: {what}{why}\n", word(verdict.decision))
        }
        None => "no rule decides\n".to_owned(),
    };
    for (rule, command) in &explained.matching {
        let (decision, pattern) = (word(rule.decision()), pattern(rule));
        let place = origin(rule);
        text.push_str(&format!("  {decision} {pattern} matches `{command}`, {place}\n"));
    }
    if explained.verdict.is_none() {
        text.push_str(if explained.known_safe {
            "it only reads: it runs without approval, in the sandbox\n"
        } else {
            "it is not known to be read-only: `approval_policy = \"untrusted\"` asks for approval, the \
             other policies run it in the sandbox\n"
        });
    }
    if explained.dangerous {
        text.push_str("it can destroy data irrecoverably, or runs as another user\n");
    }
    if let Some(proposed) = &explained.proposed {
        text.push_str(&format!("a client can offer to always allow `{}`\n", quote(proposed)));
    }
    for (path, read) in &explained.files {
        match read {
            Ok(count) => text.push_str(&format!("{count} rules in {}\n", path.display())),
            Err(why) => text.push_str(&format!("PROBLEM {why}\n")),
        }
    }
    for problem in &explained.problems {
        text.push_str(&format!("warning: {problem}\n"));
    }
    text
}

fn object(explained: &Explained) -> Value {
    let matching = explained.matching.iter().map(|(rule, command)| {
        json!({
            "decision": word(rule.decision()),
            "pattern": pattern(rule),
            "justification": rule.justification(),
            "origin": origin(rule),
            "command": command,
        })
    });
    let files = explained.files.iter().map(|(path, read)| match read {
        Ok(count) => json!({ "path": path, "rules": count }),
        Err(why) => json!({ "path": path, "error": why.to_string() }),
    });
    let verdict = explained.verdict.as_ref();
    json!({
        "decision": verdict.map(|verdict| word(verdict.decision)),
        "justification": verdict.and_then(|verdict| verdict.justification.as_deref()),
        "matching": matching.collect::<Vec<_>>(),
        "knownSafe": explained.known_safe,
        "dangerous": explained.dangerous,
        "proposed": explained.proposed,
        "files": files.collect::<Vec<_>>(),
        "problems": explained.problems,
    })
}
