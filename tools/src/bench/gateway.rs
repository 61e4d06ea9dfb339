//! `cargo xtask bench gateway`: measures the gateway from outside, side by side with nginx and
//! LiteLLM's proxy, on cores assigned to each. It prints the goals next to the figures, without a
//! verdict.

mod admin;
mod answers;
mod contestant;
mod cost;
mod fill;
mod load;
mod message;
mod options;
mod report;
mod rounds;
mod running;
mod scenarios;
mod stage;
mod streams;
mod upstream;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::dist::dist_build;
use super::process;
use contestant::Programs;
use report::Report;
use scenarios::SCENARIOS;
use stage::Bench;

pub(crate) use options::Options;
pub(crate) use running::{Cores, Part, Running, Starter};

/// A machine with a larger percentage of its cores in use before the start is not idle.
const MOST_BUSY: f64 = 5.0;

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    options.check_scenarios(&names)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores >= 2, "two cores are needed: one for the proxy, one for load and upstream");
    let bench = Bench {
        root,
        options,
        starter: Starter { parts: dist_build(root, "tools", "tools")? },
        programs: programs(root, options)?,
    };
    let mut report = Report::default();
    let busy = process::busy(Duration::from_secs(1))? * 100.0;
    if busy > MOST_BUSY {
        let note = format!(
            "Before the first measurement, other programs used {busy:.0} % of the cores: these figures \
             are worse than they should be."
        );
        eprintln!("{note}");
        report.notes.push(note);
    }
    for (name, measure) in SCENARIOS.iter().filter(|(name, _)| options.includes(name)) {
        eprintln!("{name}");
        measure(&bench, &mut report).with_context(|| (*name).to_owned())?;
    }
    publish(root, options, report)
}

/// Runs as a process of a measurement, started by [`run`].
pub(crate) fn run_part(part: Part) -> Result<()> {
    match part {
        Part::Upstream { pace } => upstream::serve(serde_json::from_str(&pace)?),
        Part::Load { load } => {
            let measured = load::run(&serde_json::from_str(&load)?)?;
            println!("{}", serde_json::to_string(&measured)?);
            Ok(())
        }
        Part::Pinned { cores, program, arguments } => {
            running::become_pinned(cores, &program, &arguments)
        }
    }
}

fn publish(root: &Path, options: &Options, mut report: Report) -> Result<()> {
    println!("{}", report::table(&report.rows));
    for note in &report.notes {
        println!("{note}\n");
    }
    let Some(file) = &options.write else { return Ok(()) };
    report.notes.push(
        "These figures depend on the number of cores (this run uses two, with assigned \
         processes), on the kernel, which every byte passes four times, and on an otherwise \
         idle machine."
            .to_owned(),
    );
    let command = super::options::command_line(&super::given_arguments());
    let page = report::page(&report, &process::machine(), &command);
    let file = root.join(file);
    std::fs::write(&file, page).with_context(|| file.display().to_string())?;
    println!("written to {}", file.display());
    Ok(())
}

fn programs(root: &Path, options: &Options) -> Result<Programs> {
    let wanted = options.has(contestant::ContestantName::Gateway)
        || options.has(contestant::ContestantName::LimitsOff);
    let agentd = match &options.agentd {
        Some(program) => program.clone(),
        None if wanted => dist_build(root, "cli", "agentd")?,
        None => PathBuf::new(),
    };
    let other = |given: &Option<PathBuf>, name: &str| -> Result<Option<PathBuf>> {
        if let Some(given) = given {
            ensure!(given.is_file(), "{}: no such program", given.display());
            return Ok(Some(given.canonicalize()?));
        }
        let found = on_path(name);
        if found.is_none() {
            eprintln!("{name} is not on the path: it is left out");
        }
        Ok(found)
    };
    Ok(Programs {
        agentd,
        nginx: other(&options.nginx, "nginx")?,
        litellm: other(&options.litellm, "litellm")?,
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian installs nginx in a folder that is only on root's path.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}
