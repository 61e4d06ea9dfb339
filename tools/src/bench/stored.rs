//! A home with 100,000 stored threads: starting, listing and searching. `cargo xtask fill` creates
//! it, so only the program of this checkout is measured.

use anyhow::Result;
use serde_json::{Value, json};

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::Run;
use super::target::Server;
use crate::fill::{self, Fill};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "stored", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const THREADS: u64 = 100_000;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let kept = tempfile::tempdir()?;
    let home = kept.path().join("home");
    std::fs::create_dir(&home)?;
    fill::write(&home, kept.path(), Fill::Threads(THREADS))?;
    let mut starts = Vec::new();
    for _ in 0..run.repeats.max(10) {
        let (mut server, took) = run.start_on(&home)?;
        starts.push(milliseconds(took));
        server.finish()?;
    }
    let mut server = run.start_experimental_on(&home)?;
    let pages = |server: &mut Server, method: &str, params: Value| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..=run.repeats.max(10) {
            let begun = std::time::Instant::now();
            let (_, answered) = server.client.request(method, params.clone())?;
            times.push(milliseconds(answered.duration_since(begun)));
        }
        times.remove(0);
        Ok(median(times))
    };
    let page = pages(&mut server, "thread/list", json!({ "limit": 50 }))?;
    let before = process::resident(server.pid())?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let mut figures = vec![
        row("start with 100,000 stored threads", median(starts), "ms", Some(5.0)),
        row("`thread/list`, 50 of 100,000", page, "ms", Some(3.0)),
    ];
    for (what, term) in [
        ("search among 100,000, one match", "request 77777:"),
        ("search among 100,000, 12,500 matches", "flaky"),
        ("search among 100,000, no match", "no such words"),
        ("search among 100,000, two letters, no match", "qx"),
    ] {
        let params = json!({ "limit": 50, "searchTerm": term });
        let value = pages(&mut server, "thread/list", params)?;
        figures.push(row(what, value, "ms", Some(20.0)));
    }
    let indexed = index(&mut server)?;
    figures.push(row("what was said in 100,000 threads is indexed after", indexed, "s", None));
    for (what, term) in [
        ("search in what was said, one match", "77777"),
        ("search in what was said, 12,500 matches", "flaky test"),
        ("search in what was said, every thread", "please"),
        ("search in what was said, a beginning in every thread", "pleas"),
        ("search in what was said, no match", "nosuchword"),
    ] {
        let params = json!({ "limit": 50, "searchTerm": term });
        let value = pages(&mut server, "thread/search", params)?;
        figures.push(row(what, value, "ms", Some(30.0)));
    }
    let grown = process::resident(server.pid())?.saturating_sub(before);
    figures.push(row("memory retained after the searches", megabytes(grown), "MB", None));
    server.finish()?;
    Ok(figures)
}

/// Waits until all turns are indexed; returns the seconds since.
fn index(server: &mut Server) -> Result<f64> {
    let begun = std::time::Instant::now();
    loop {
        let params = json!({ "searchTerm": "nosuchword" });
        let (found, answered) = server.client.request("thread/search", params)?;
        if found["indexing"] == false {
            return Ok(milliseconds(answered.duration_since(begun)) / 1000.0);
        }
    }
}
