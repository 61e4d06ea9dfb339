//! `config/read` of a configuration with every key, from five layers: the user's file, its profile,
//! a trusted project's file, one of a folder in it, and features enabled in the process.

use anyhow::Result;
use serde_json::{Value, json};

use super::model_server::Script;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "config-read", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    let work = server.work();
    let inner = work.join("inner");
    let mut user = config::docs::all_keys();
    // It replaces other keys, and needs a feature of the build.
    if let Some(provider) = user["model_providers"]["x"].as_object_mut() {
        provider.remove("auth");
    }
    user["projects"] = json!({ work.display().to_string(): { "trust_level": "trusted" } });
    for (folder, document) in [
        (server.home(), user),
        (
            work.join(".agent"),
            json!({ "model_verbosity": "low", "tools": { "view_image": false } }),
        ),
        (inner.join(".agent"), json!({ "model_verbosity": "high", "personality": "friendly" })),
    ] {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("config.toml"), toml(&document))?;
    }
    std::fs::create_dir_all(work.join(".git"))?;
    let switched = json!({ "enablement": { "undo": true } });
    server.client.request("experimentalFeature/enablement/set", switched)?;
    let read = json!({ "cwd": inner, "includeLayers": true });
    let mut times = Vec::new();
    for _ in 0..=run.repeats {
        let begun = std::time::Instant::now();
        let (_, answered) = server.client.request("config/read", read.clone())?;
        times.push(milliseconds(answered.duration_since(begun)));
    }
    // The first request reads the files.
    times.remove(0);
    server.finish()?;
    let what = "`config/read`, every key, five layers, warm";
    Ok(vec![Figure { what, value: median(times), unit: "ms", goal: Some(2.0) }])
}

fn toml(document: &Value) -> String {
    let all = document.as_object().into_iter().flatten();
    all.map(|(key, value)| format!("{key} = {}\n", config::edit::value_text(value))).collect()
}
