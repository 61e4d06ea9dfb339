//! 500 skills: what lists and turns cost.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::model_server::Script;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, Server};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "skills", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const SKILLS: usize = 500;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let (mut server, _) = run.start_initialized()?;
    // Opens the store, reads the configuration.
    list(&mut server, false)?;
    let before = turns(&mut server, run.repeats)?;
    write(&server.home().join("skills"))?;
    let mut cold = Vec::new();
    for _ in 0..run.repeats {
        cold.push(list(&mut server, true)?);
    }
    let mut warm = Vec::new();
    for _ in 0..=run.repeats {
        warm.push(list(&mut server, false)?);
    }
    warm.remove(0);
    let after = turns(&mut server, run.repeats)?;
    server.finish()?;
    let row = |what, value, goal| Figure { what, value, unit: "ms", goal: Some(goal) };
    Ok(vec![
        row("`skills/list` of 500 skills, read again", median(cold), 15.0),
        row("`skills/list` of 500 skills, warm", median(warm), 0.5),
        row("a turn with 500 skills, above one without", median(after) - median(before), 0.5),
    ])
}

fn write(root: &Path) -> Result<()> {
    for number in 0..SKILLS {
        let name = format!("skill-{number:03}");
        let folder = root.join(&name);
        std::fs::create_dir_all(&folder)?;
        let description = "Does what a skill of this number does, for texts and tables of all kinds. Use \
                           it when the user asks for such a thing, or names files that need it.";
        let body = "1. Read the files.\n2. Write the result.\n".repeat(40);
        let text =
            format!("---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\n{body}");
        std::fs::write(folder.join("SKILL.md"), text)?;
    }
    Ok(())
}

fn list(server: &mut Server, reload: bool) -> Result<f64> {
    let params = json!({ "cwds": [server.work()], "forceReload": reload });
    let began = Instant::now();
    let (listed, at) = server.client.request("skills/list", params)?;
    ensure!(listed["data"][0]["errors"] == json!([]), "errors: {}", listed["data"][0]["errors"]);
    Ok(milliseconds(at.duration_since(began)))
}

/// Times of the turns of a thread, but for the first one.
fn turns(server: &mut Server, count: usize) -> Result<Vec<f64>> {
    let work = server.work();
    let (thread, _) = server.client.start_thread(&work)?;
    server.client.turn(&thread)?;
    (0..count).map(|_| Ok(milliseconds(server.client.turn(&thread)?))).collect()
}
