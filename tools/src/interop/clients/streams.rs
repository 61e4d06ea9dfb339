//! The stream parsers of the official clients, against the streams of `agentd model-server` and those that the
//! crate `model` recorded: each client must read what our own decoder reads.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Map, Value, json};

use super::outcome::Outcome;
use super::page;
use super::recorded::{self, Recorded};
use super::script::follow;
use super::tools::{Client, STREAMS};
use crate::bench::gateway::{Cores, Starter};
use crate::bench::model_server::ModelServer;
use xtask::checkout::{agentd, target};
use xtask::steps::{Program, SCOPE};

/// Steps of scripted responses, by what they show.
const SCENARIOS: &str = "scenarios.json";
/// Reads streams with our own client.
const READER: &str = "read_stream";

/// A stream that is read.
struct Case {
    group: &'static str,
    name: String,
    base_url: String,
    /// True if the client accumulates the response itself, rather than returning its events.
    helper: bool,
}

pub(super) fn run(root: &Path, clients: &[Client]) -> Result<Vec<Outcome>> {
    let agentd = agentd(root)?;
    let reader = reader(root)?;
    let model = ModelServer::serve(&agentd, &script(root)?)?;
    let recorded = recorded::serve(root)?;
    let starter = Starter { parts: std::env::current_exe().context("this program's own path")? };
    let mut outcomes = Vec::new();
    for client in clients {
        println!("── {}", client.language);
        let cases = cases(root, &model.base_url, &recorded)?;
        let given = tempfile::NamedTempFile::new().context("a file for the cases")?;
        let text = with_expected(&reader, client.language, &cases)?.to_string();
        std::fs::write(given.path(), text).context("the cases")?;
        let mut command = client.command();
        command.env("CASES", given.path());
        let outcome =
            starter.start(Cores::All, &command).and_then(|script| follow(script, client.language));
        outcomes.push(outcome.with_context(|| format!("the {} client", client.language))?);
    }
    println!("\n{}", page::summary(&outcomes));
    for (name, reason) in recorded::MALFORMED {
        println!("not compared: {name}: {reason}");
    }
    Ok(outcomes)
}

fn scenarios(root: &Path) -> Result<Map<String, Value>> {
    let path = root.join(STREAMS.scripts).join(SCENARIOS);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The scenarios as a script. The estimate of a request's tokens depends on its length, so each scenario
/// without a count gets one.
fn script(root: &Path) -> Result<Value> {
    let usage = json!({ "usage": { "input_tokens": 100, "output_tokens": 20 } });
    let responses = scenarios(root)?.into_iter().map(|(name, steps)| {
        let mut steps = steps.as_array().with_context(|| format!("{SCENARIOS}: {name}"))?.clone();
        let is_refused = steps.iter().any(|step| step.pointer("/error/status").is_some());
        if !is_refused && !steps.iter().any(|step| step.get("usage").is_some()) {
            steps.insert(0, usage.clone());
        }
        Ok(json!({ "steps": steps }))
    });
    let responses: Vec<Value> = responses.collect::<Result<_>>()?;
    Ok(json!({ "responses": responses }))
}

/// Each scenario twice, because the clients read a stream in two ways, and each recorded stream. A recorded one
/// lacks events that only the clients' accumulation needs.
fn cases(root: &Path, model: &str, recorded: &Recorded) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (group, helper) in [("scripted", false), ("scripted, accumulated", true)] {
        for name in scenarios(root)?.into_iter().map(|(name, _)| name) {
            cases.push(Case { group, name, base_url: model.to_owned(), helper });
        }
    }
    for name in &recorded.names {
        let base_url = format!("{}/{name}", recorded.base_url);
        cases.push(Case { group: "recorded", name: name.clone(), base_url, helper: false });
    }
    Ok(cases)
}

/// The cases for a client's script, with what our own client reads.
fn with_expected(reader: &Path, language: &str, cases: &[Case]) -> Result<Value> {
    // The scripted model counts the requests of each key on its own.
    let key = |who: &str, case: &Case| format!("{language} {who} {}", case.group);
    let mut child = Command::new(reader)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| reader.display().to_string())?;
    let mut input = child.stdin.take().context("the reader's input")?;
    let lines: String =
        cases.iter().map(|case| format!("{} {}\n", case.base_url, key("ours", case))).collect();
    // It answers while it still reads.
    let feeder = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{READER}: {}", output.status);
    feeder.join().map_err(|_| anyhow!("writing the cases failed"))??;
    let read = String::from_utf8(output.stdout).context("the reader's output")?;
    let expected: Vec<Value> =
        read.lines().map(serde_json::from_str).collect::<Result<_, _>>().context(READER)?;
    ensure!(expected.len() == cases.len(), "{} results of {} cases", expected.len(), cases.len());
    let cases = cases.iter().zip(expected).map(|(case, expected)| {
        json!({
            "group": case.group, "name": case.name, "base_url": case.base_url,
            "cache_key": key("client", case), "helper": case.helper, "expected": expected,
        })
    });
    Ok(cases.collect())
}

/// Builds our own client for this comparison.
fn reader(root: &Path) -> Result<PathBuf> {
    let build = [&["build", "--locked", "--example", READER][..], &SCOPE].concat();
    let built = Program::cargo(root, &build).succeed("fix the compiler errors above");
    built.map_err(|failed| anyhow!(failed.message))?;
    Ok(target(root).join("debug/examples").join(READER))
}
