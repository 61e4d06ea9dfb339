//! `agentd doctor`: looks over what the program works with and says what is wrong, and what to do.
//! Changes nothing.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use store::StoreError;
use store::check::{Report, check};

use crate::commands::print;
use crate::world::World;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Runs the subcommand. Exit codes: 0 when all is well, 1 when something is wrong.
pub(crate) fn run(_arguments: &Arguments, world: &World) -> anyhow::Result<ExitCode> {
    let mut page = Page::default();
    page.good("home", format_args!("{}", world.home.display()));
    let dir = match server::configuration(&world.clone().options("cli"), true) {
        Ok(resolved) => {
            let warnings = resolved.warnings.len();
            page.good("configuration", format_args!("can be used, {warnings} warnings"));
            resolved.config.sqlite_home
        }
        Err(error) => {
            page.bad("configuration", format_args!("{}", error.diagnostic()));
            world.home.clone()
        }
    };
    threads(&mut page, &dir);
    set_aside(&mut page, &dir);
    print(format_args!("{}", page.text.trim_end()))?;
    Ok(if page.wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
}

fn threads(page: &mut Page, dir: &Path) {
    let report = match check(dir) {
        Ok(Some(report)) => report,
        Ok(None) => return page.good("threads", format_args!("none yet in {}", dir.display())),
        Err(error @ StoreError::Busy { .. }) => {
            return page.bad("threads", format_args!("{error}"));
        }
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
    for problem in problems {
        page.text.push_str(&format!("        - {problem}\n"));
    }
    if page.wrong {
        page.text.push_str(
            "        Make a copy of threads.db, threads.db-wal and threads.db-shm before anything \
             else;\n        `agentd threads export` may still read single threads.\n",
        );
    }
    for holder in open_elsewhere {
        page.good("threads", format_args!("open in {holder}"));
    }
}

/// Databases that were damaged and put out of the way.
fn set_aside(page: &mut Page, dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one = name.starts_with("threads.db.damaged-");
        if is_one && !name.ends_with("-wal") && !name.ends_with("-shm") {
            page.bad(
                "threads",
                format_args!("a damaged database was set aside as {}", entry.path().display()),
            );
        }
    }
}
