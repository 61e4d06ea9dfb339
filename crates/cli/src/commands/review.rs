//! `agentd review`: a review of changes from a shell. It is a turn as `agentd exec` runs it; its result is the
//! text of the review, or with `--json` one object with its findings.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::commands::exec::{self, ReviewOutput, ReviewRequest};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The subject of the review, in words; with `-`, read from standard input [default: the uncommitted changes]
    instructions: Option<String>,
    /// Review the staged, unstaged and untracked changes
    #[arg(long, conflicts_with_all = ["base", "commit", "instructions"])]
    uncommitted: bool,
    /// Review the changes since the branch diverged from this one
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["commit", "instructions"])]
    base: Option<String>,
    /// Review this commit
    #[arg(long, value_name = "SHA", conflicts_with = "instructions")]
    commit: Option<String>,
    /// Title of that commit
    #[arg(long, requires = "commit", conflicts_with = "instructions")]
    title: Option<String>,
    /// Work in this folder
    #[arg(short = 'C', long, value_name = "DIR")]
    cd: Option<PathBuf>,
    /// The model to use; by default `review_model`, or else the model of threads
    #[arg(short, long)]
    model: Option<String>,
    /// The provider to use: `default`, `offline`, or one of config.toml
    #[arg(long, value_name = "ID")]
    model_provider: Option<String>,
    /// Do not store the thread
    #[arg(long)]
    ephemeral: bool,
    /// Also write the review to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object, with the review and its findings
    #[arg(long)]
    json: bool,
    /// Exit with 3 if there is a finding of this priority or a more urgent one: from 0, the most urgent, to 3
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(0..=3))]
    fail_on: Option<u8>,
}

/// Runs the subcommand. Exit codes: 0 the review completed, 1 it failed, 2 the arguments or the configuration
/// are invalid, 3 it has a finding that `--fail-on` names, 130 and 143 ended by an interrupt or a termination.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let Arguments { instructions, base, commit, title, json, fail_on, .. } = arguments;
    let has_target = base.is_some() || commit.is_some() || instructions.is_some();
    let request = ReviewRequest {
        uncommitted: arguments.uncommitted || !has_target,
        instructions,
        base,
        commit,
        title,
        cd: arguments.cd,
        model: arguments.model,
        model_provider: arguments.model_provider,
        ephemeral: arguments.ephemeral,
        output: arguments.output,
        printed: ReviewOutput { is_json: json, fail_on },
    };
    exec::run(exec::Arguments::of_review(request), environment).await
}
