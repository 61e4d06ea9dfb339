//! Search of files in a tree of 500,000: while it is walked, warm, once, and against `fzf --filter` and
//! `fd` on the same tree, where they are installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::search_tree::search_tree;
use super::target::{Run, Server};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "search", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// As someone types: short ones, long ones, several words, none that matches.
const QUERIES: &[&str] = &[
    "s",
    "se",
    "ses",
    "session",
    "src",
    "e",
    "t",
    "thrdmsg",
    "sandbox policy",
    "kernel/drivers/net",
    "zzzqqq",
    "main.rs",
    "srvconf",
    "Http",
    "test parser .rs",
];

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let root = search_tree()?;
    let mut server = run.start_experimental()?;
    let (first, complete) = walk(&mut server, &root)?;
    let (mut letters, mut all) = (Vec::new(), Vec::new());
    for _ in 0..run.repeats.clamp(1, 20) {
        for query in QUERIES {
            let took = update(&mut server, query)?;
            all.push(took);
            if query.len() == 1 {
                letters.push(took);
            }
        }
    }
    let mut once = Vec::new();
    for query in QUERIES.iter().cycle().take(run.repeats.max(QUERIES.len())) {
        once.push(search_once(&mut server, &root, query)?);
    }
    let resident = process::resident(server.pid())?;
    server.finish()?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let mut figures = vec![
        row(
            "search in 500,000 files: first hits after the start of the walk",
            first,
            "ms",
            Some(50.0),
        ),
        row("search in 500,000 files: the complete walk", complete, "ms", None),
        row("search in 500,000 files: a further query", median(all.clone()), "ms", Some(30.0)),
        row("search in 500,000 files: a further query, slowest", largest(all), "ms", Some(30.0)),
        row("search in 500,000 files: one letter, slowest", largest(letters), "ms", Some(30.0)),
        row(
            "search in 500,000 files: one-shot after the first",
            median(once.clone()),
            "ms",
            Some(50.0),
        ),
        row(
            "search in 500,000 files: one-shot after the first, slowest",
            largest(once),
            "ms",
            Some(50.0),
        ),
        row("memory with an index of 500,000 files", megabytes(resident), "MB", Some(100.0)),
    ];
    if run.target.is_own() {
        figures.extend(programs(&root)?);
    }
    Ok(figures)
}

/// Starts a session with a first query; returns the times of its first and its complete results.
fn walk(server: &mut Server, root: &Path) -> Result<(f64, f64)> {
    let began = Instant::now();
    let start = json!({ "sessionId": "bench", "roots": [root] });
    server.client.request("fuzzyFileSearch/sessionStart", start)?;
    let query = json!({ "sessionId": "bench", "query": "src" });
    server.client.request("fuzzyFileSearch/sessionUpdate", query)?;
    let first = loop {
        let (found, at) = server.client.notification("fuzzyFileSearch/sessionUpdated")?;
        if found["files"].as_array().is_some_and(|files| !files.is_empty()) {
            break at;
        }
    };
    let (_, complete) = server.client.notification("fuzzyFileSearch/sessionCompleted")?;
    let since = |at: Instant| milliseconds(at.duration_since(began));
    Ok((since(first), since(complete)))
}

/// Changes the query; returns the time until its results are complete.
fn update(server: &mut Server, query: &str) -> Result<f64> {
    let began = Instant::now();
    let params = json!({ "sessionId": "bench", "query": query });
    server.client.request("fuzzyFileSearch/sessionUpdate", params)?;
    loop {
        let (found, _) = server.client.notification("fuzzyFileSearch/sessionUpdated")?;
        if found["query"] == query {
            break;
        }
    }
    let (_, at) = server.client.notification("fuzzyFileSearch/sessionCompleted")?;
    Ok(milliseconds(at.duration_since(began)))
}

fn search_once(server: &mut Server, root: &Path, query: &str) -> Result<f64> {
    let began = Instant::now();
    let params = json!({ "query": query, "roots": [root] });
    let (found, at) = server.client.request("fuzzyFileSearch", params)?;
    ensure!(found["files"].is_array(), "no files: {found}");
    Ok(milliseconds(at.duration_since(began)))
}

/// The same with other programs, as far as they are installed.
fn programs(root: &Path) -> Result<Vec<Figure>> {
    let Some(fd) = ["fdfind", "fd"].into_iter().find(|name| is_installed(name)) else {
        eprintln!("search: `fd` is not installed (Debian: fd-find), so that it is not measured");
        return Ok(vec![]);
    };
    let began = Instant::now();
    let listed = Command::new(fd)
        .args(["--hidden", "--exclude", ".git", "."])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .context(fd)?;
    let what = "`fd --hidden --exclude .git` on the same tree";
    let mut figures =
        vec![Figure { what, value: milliseconds(began.elapsed()), unit: "ms", goal: None }];
    if !is_installed("fzf") {
        eprintln!("search: `fzf` is not installed, so that it is not measured");
        return Ok(figures);
    }
    let list = tempfile::NamedTempFile::new()?;
    std::fs::write(list.path(), &listed.stdout)?;
    let mut times = Vec::new();
    for query in QUERIES {
        times.push(milliseconds(filter(query, list.path())?));
    }
    let row = |what, value| Figure { what, value, unit: "ms", goal: None };
    figures.push(row("`fzf --filter` on that list, a query", median(times.clone())));
    figures.push(row("`fzf --filter` on that list, slowest", largest(times)));
    Ok(figures)
}

fn filter(query: &str, list: &Path) -> Result<Duration> {
    let began = Instant::now();
    let status = Command::new("fzf")
        .args(["--filter", query])
        .stdin(std::fs::File::open(list)?)
        .stdout(Stdio::null())
        .status()
        .context("fzf")?;
    // 1: nothing matches.
    ensure!(matches!(status.code(), Some(0 | 1)), "fzf ended with {status}");
    Ok(began.elapsed())
}

fn is_installed(program: &str) -> bool {
    let output = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    output.is_ok_and(|status| status.success())
}

fn largest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}
