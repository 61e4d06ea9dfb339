//! Compiles the TypeScript that the program generates, strictly. The compiler comes from npm and stays below the
//! target folder.

use std::path::Path;

use anyhow::Context;
use serde_json::json;
use xtask::checkout::{target, tools_folder};

use xtask::steps::{Done, Outcome, Program};

/// The version that the generated types are checked with.
const VERSION: &str = "5.9.3";

pub(crate) fn check(root: &Path) -> Outcome {
    let missing: Vec<&str> =
        ["node", "npm"].into_iter().filter(|program| !Program::exists(program)).collect();
    if !missing.is_empty() {
        let names = missing.join(" and ");
        return Ok(Done::Skipped(format!(
            "{names} not installed, so tsc cannot check the generated TypeScript"
        )));
    }
    let tools = tools_folder(root);
    std::fs::create_dir_all(&tools).with_context(|| tools.display().to_string())?;
    let package = tools.join("node_modules/typescript/package.json");
    let installed = std::fs::read_to_string(&package).unwrap_or_default();
    if !installed.contains(&format!("\"version\": \"{VERSION}\"")) {
        let wanted = format!("typescript@{VERSION}");
        let install = ["install", "--no-save", "--no-audit", "--no-fund", "--prefix", ".", &wanted];
        let installed = Program::new("npm", &install)
            .folder(&tools)
            .succeed("check the network; npm downloads the TypeScript compiler");
        // A machine without a network still tests everything else; what was left out is said.
        if let Err(error) = installed {
            return Ok(Done::Skipped(format!(
                "{}, so tsc cannot check the generated TypeScript",
                error.message
            )));
        }
    }
    let generated = target(root).join("generated-typescript");
    let program = target(root).join("debug/agentd");
    for (surface, more) in [("stable", &[][..]), ("experimental", &["--experimental"])] {
        let folder = generated.join(surface);
        let folder = folder.to_string_lossy();
        let generate = [&["app-server", "generate-ts", "--out", &folder][..], more].concat();
        Program::new(&program, &generate).folder(root).succeed("read the message above")?;
    }
    let project = json!({
        "compilerOptions": {
            "strict": true, "noEmit": true, "types": [],
            "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
        },
        "include": [generated.join("*/protocol.ts")],
    });
    std::fs::write(tools.join("tsconfig.json"), project.to_string())?;
    let compiler = ["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"];
    Program::new("node", &compiler)
        .folder(&tools)
        .succeed("fix the generator, crates/protocol/src/generate/typescript.rs")
}
