//! `agentd skills`: lists, checks and makes skills.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use protocol::{SkillsListParams, SkillsListResponse};
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::{Invalid, eprint, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the skills of the working folder, and their problems
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check skills against the public format
    Validate {
        /// Folders of skills
        #[arg(required = true, value_name = "FOLDER")]
        folders: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create the folder of a new skill
    New {
        /// The name of the skill and its folder
        name: String,
        /// The skill's purpose and when to use it
        #[arg(long, default_value = "Say what the skill does, and when to use it.")]
        description: String,
        /// The folder to create it in
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        path: PathBuf,
    },
}

/// Runs the subcommand. Exit codes: 0, 1 for a skill that is not valid or cannot be made, 2 for a name or a
/// configuration that cannot be used.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::List { json } => list(environment, json).await,
        Command::Validate { folders, json } => {
            let cwd = environment.options("cli").cwd;
            let folders = folders.iter().map(|folder| cwd.join(folder));
            validate(&folders.collect::<Vec<_>>(), json)
        }
        Command::New { name, description, path } => {
            let parent = environment.options("cli").cwd.join(path);
            create(&parent, &name, &description)
        }
    }
}

async fn list(environment: Environment, as_json: bool) -> anyhow::Result<ExitCode> {
    let own = environment.home.join("skills");
    let mut server = LocalServer::start(environment, "cli").await?;
    let params = SkillsListParams::default();
    let listed = server.call::<protocol::SkillsList>(&params, &mut Quiet).await?;
    server.close().await;
    let SkillsListResponse { data } = listed;
    for entry in &data {
        for error in &entry.errors {
            eprint(format_args!("agentd: {}: {}", error.path, error.message));
        }
    }
    if as_json {
        let skills: Vec<_> = data.iter().flat_map(|entry| &entry.skills).collect();
        print(format_args!("{:#}", json!(skills)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut is_empty = true;
    for skill in data.iter().flat_map(|entry| &entry.skills) {
        is_empty = false;
        let state = if skill.enabled { "" } else { "  (switched off)" };
        let name = visible::text(&skill.name);
        let description = visible::text(&skill.description).replace('\n', " ");
        print(format_args!("{name}{state}\n    {description}\n    {}", skill.path))?;
    }
    if is_empty {
        eprint(format_args!(
            "agentd: no skills were found; `agentd skills new NAME --path {}` makes one for \
             all folders",
            visible::path(&own)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn validate(folders: &[PathBuf], as_json: bool) -> anyhow::Result<ExitCode> {
    let mut all_valid = true;
    let mut rows = Vec::new();
    for folder in folders {
        let report = skills::validate(folder);
        all_valid &= report.is_valid();
        let lines = |problems: &[skills::Problem]| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (errors, warnings) = (lines(&report.errors), lines(&report.warnings));
        if as_json {
            rows.push(json!({ "path": folder, "valid": report.is_valid(), "errors": errors,
                "warnings": warnings }));
            continue;
        }
        for error in &errors {
            print(format_args!("error: {error}"))?;
        }
        for warning in &warnings {
            print(format_args!("warning: {warning}"))?;
        }
        if report.is_valid() {
            print(format_args!("{}: valid", folder.display()))?;
        }
    }
    if as_json {
        print(format_args!("{:#}", json!(rows)))?;
    }
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn create(parent: &Path, name: &str, description: &str) -> anyhow::Result<ExitCode> {
    let problems = skills::check_name(name, None);
    if !problems.is_empty() || name.is_empty() {
        let message = match problems.is_empty() {
            true => "`name` is empty".to_owned(),
            false => problems.join("; "),
        };
        return Err(Invalid::new(message).into());
    }
    let count = description.chars().count();
    if description.trim().is_empty() || count > 1_024 {
        let message = format!("the description has {count} characters; 1 to 1024 are allowed");
        return Err(Invalid::new(message).into());
    }
    let folder = parent.join(name);
    // Fails where it exists: nothing is replaced.
    std::fs::create_dir(&folder)
        .map_err(|error| anyhow::anyhow!("{}: {error}", folder.display()))?;
    let file = folder.join(skills::SKILL_FILE);
    std::fs::write(&file, skills::template(name, description))
        .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    print(format_args!("{}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}
