//! `agentd doctor`: looks over what the program works with, says what is wrong and what to do, and what a
//! first turn would do. It changes nothing, but writes a bundle for support where `--bundle` asks for one.
//! It starts the MCP servers and asks the provider for its models; no model is asked anything.

mod bundle;
mod contents;
mod ends_of_logs;
mod first_turn;
mod stores;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sandbox::LayerStatus;
use sandbox::rules::Invocation;
use store::check::{Report, check};
use store::{FoundDatabase, Kept};

use crate::commands::print;
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also write a bundle for support, without secrets, as a `.tar.gz`; the files in it are listed
    /// first [default: `agentd-bundle-TIME.tar.gz` in this folder]
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    bundle: Option<Option<PathBuf>>,
    /// Write the bundle without asking
    #[arg(long, requires = "bundle")]
    yes: bool,
}

/// Runs the subcommand. Exit codes: 0 when all is well or the bundle was written, 1 when something is wrong.
pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let (page, layers) = examine(environment).await;
    print(format_args!("{}", page.text.trim_end()))?;
    if let Some(path) = &arguments.bundle {
        let entries = contents::gather(environment, &page.text, &layers).await;
        bundle::offer(&entries, path.as_deref(), arguments.yes, environment)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if page.wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn examine(environment: &Environment) -> (Page, Vec<LayerStatus>) {
    let mut page = Page::default();
    page.good("home", format_args!("{}", environment.home.display()));
    let options = environment.clone().options("cli");
    configuration(&mut page, &options);
    let config = server::configuration(&options, true).map(|resolved| resolved.config);
    let dir = match &config {
        Ok(config) => {
            rules(&mut page, environment);
            config.sqlite_home.clone()
        }
        Err(_) => environment.home.clone(),
    };
    let found = environment.sandbox().report().await;
    layers(&mut page, &found);
    match config.as_ref().ok().and_then(|config| config.thread_database.clone()) {
        Some(found) => database(&mut page, found, &options).await,
        None => threads(&mut page, &dir),
    }
    kept(&mut page, &dir);
    match &config {
        Ok(config) => first_turn::examine(&mut page, environment, config).await,
        Err(_) => {
            page.bad("first turn", format_args!("it fails: the configuration cannot be used"));
            page.next("`agentd config check` shows the lines. Correct them.");
        }
    }
    (page, found)
}

#[derive(Default)]
struct Page {
    text: String,
    wrong: bool,
}

impl Page {
    fn good(&mut self, about: &str, what: fmt::Arguments<'_>) {
        self.text.push_str(&format!("ok      {about}: {what}\n"));
    }

    fn bad(&mut self, about: &str, what: fmt::Arguments<'_>) {
        self.wrong = true;
        self.text.push_str(&format!("PROBLEM {about}: {what}\n"));
    }

    /// More about the row above: for a problem, what to do next.
    fn next(&mut self, text: &str) {
        self.text.push_str(&format!("        {text}\n"));
    }
}

/// The mistakes that `agentd config check` names, without the lines of the files: these can hold
/// credentials, and the page can go into a bundle.
fn configuration(page: &mut Page, options: &server::Options) {
    let findings = super::config::findings(options);
    let mistake =
        |finding: &server::Finding| finding.text.lines().next().unwrap_or_default().to_owned();
    for finding in findings.iter().filter(|finding| finding.is_error) {
        page.bad(finding.about, format_args!("{}", mistake(finding)));
    }
    let is_usable = |finding: &server::Finding| finding.about == "rules" || !finding.is_error;
    if findings.iter().all(is_usable) {
        let warnings = findings.iter().filter(|finding| !finding.is_error).count();
        page.good("configuration", format_args!("can be used, {warnings} warnings"));
    }
    for finding in findings.iter().filter(|finding| !finding.is_error) {
        page.good(finding.about, format_args!("warning: {}", mistake(finding)));
    }
}

/// The files of command rules that can be read.
fn rules(page: &mut Page, environment: &Environment) {
    let options = environment.clone().options("cli");
    let Ok(explained) = server::explain_command(&options, Invocation::Script("true")) else {
        return;
    };
    for (path, read) in explained.files {
        if let Ok(count) = read {
            page.good("rules", format_args!("{count} in {}", path.display()));
        }
    }
}

/// The layers of the sandbox. One that does not work is a problem only when what is left cannot
/// confine commands: then they are refused.
fn layers(page: &mut Page, found: &[LayerStatus]) {
    let usable = |name: &str| found.iter().any(|status| status.layer == name && status.usable);
    let confines = usable("seccomp") && (usable("namespaces") || usable("landlock"));
    for status in found {
        let (layer, detail) = (status.layer, &status.detail);
        match (status.usable, confines) {
            (true, _) => page.good("sandbox", format_args!("{layer}: {detail}")),
            (false, true) => page.good("sandbox", format_args!("without {layer}: {detail}")),
            (false, false) => page.bad("sandbox", format_args!("{layer}: {detail}")),
        }
    }
    if !confines {
        page.next("Commands under a sandbox policy are refused until this is resolved.");
    }
}

/// The PostgreSQL database of threads.
async fn database(page: &mut Page, database: config::ThreadDatabase, options: &server::Options) {
    let schema = database.schema.clone();
    let found = match server::postgres_config(database, options.ids.next()).await {
        Ok(postgres) => store::find_database(&postgres).await.map_err(server::Error::from),
        Err(error) => Err(error),
    };
    match found {
        Ok(FoundDatabase { place, version, nodes }) => {
            page.good("threads", format_args!("version {version}, in schema {schema} of {place}"));
            for holder in nodes {
                page.good("threads", format_args!("open in {holder}"));
            }
        }
        Err(error) => page.bad("threads", format_args!("{error}")),
    }
}

fn threads(page: &mut Page, dir: &Path) {
    let report = match check(dir) {
        Ok(Some(report)) => report,
        Ok(None) => return page.good("threads", format_args!("none yet in {}", dir.display())),
        Err(error) => return page.bad("threads", format_args!("{error}")),
    };
    let Report { version, threads, turns, bytes, open_elsewhere, problems } = report;
    let megabytes = bytes as f64 / 1e6;
    let what = format!(
        "{threads} threads, {turns} turns, {megabytes:.1} MB, version {version}, in {}",
        dir.display()
    );
    if problems.is_empty() {
        page.good("threads", format_args!("{what}"));
    } else {
        page.bad("threads", format_args!("{what}"));
    }
    for problem in &problems {
        page.text.push_str(&format!("        - {problem}\n"));
    }
    if !problems.is_empty() {
        page.text.push_str(
            "        The next server that opens this home alone salvages readable rows into a new \
             database\n        and keeps the damaged one.\n",
        );
    }
    for holder in open_elsewhere {
        page.good("threads", format_args!("open in {holder}"));
    }
}

/// Most lines of a list that are shown; the rest is in the file.
const LIST_LINES: usize = 40;

/// Databases that were damaged, and what was lost of each.
fn kept(page: &mut Page, dir: &Path) {
    let all = match store::salvage::kept(dir) {
        Ok(all) => all,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let dir = dir.display();
            return page.bad("threads", format_args!("cannot read {dir}: {error}"));
        }
    };
    for Kept { files, list, lost } in all {
        match files.as_slice() {
            [] => page.bad("threads", format_args!("a database was lost: {}", list.display())),
            files => {
                let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                let files = files.join(", ");
                page.bad("threads", format_args!("a damaged database was set aside as {files}"));
            }
        }
        let lines = lost.lines().count();
        for line in lost.lines().take(LIST_LINES) {
            page.text.push_str(&format!("        - {line}\n"));
        }
        if lines > LIST_LINES {
            let (more, list) = (lines - LIST_LINES, list.display());
            page.text.push_str(&format!("        - {more} more lines in {list}\n"));
        }
        page.text.push_str(&format!(
            "        When you no longer need their data, remove these files and {}.\n",
            list.display()
        ));
    }
}
