//! `agentd import`, as a person uses it, and one that is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{TestEnvironment, listing, stderr, stdout};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// How often an import is killed.
const KILLS: usize = 25;
/// Files of a skill, so that an import takes a while.
const FILES: usize = 40;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What another agent has for the user, whose home is the folder above that of `agentd`.
fn fill(env: &TestEnvironment) {
    let user = env.home().parent().unwrap().to_owned();
    let server = json!({ "command": "mcp-files", "env": { "KEY": "s3cret" } });
    let servers = json!({ "mcpServers": { "files": server } });
    write(&user.join(".claude.json"), &servers.to_string());
    let handler = json!({ "type": "command", "command": "check" });
    let settings = json!({
        "permissions": {
            "allow": ["Bash(npm run test:*)", "Bash(git:*)"],
            "deny": ["Bash(git push *--force*)"],
        },
        "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [handler] }] },
    });
    let claude = user.join(".claude");
    write(&claude.join("settings.json"), &settings.to_string());
    write(&claude.join("CLAUDE.md"), "Be kind.\n");
    let agent = "---\nname: reviewer\ndescription: Reviews\n---\nReview it.\n";
    write(&claude.join("agents/reviewer.md"), agent);
    write(&claude.join("commands/ship.md"), "Ship it.\n");
    let skill = "---\nname: pdf\ndescription: For PDFs.\n---\nRead.\n";
    write(&claude.join("skills/pdf/SKILL.md"), skill);
    for file in 0..FILES {
        write(&claude.join(format!("skills/pdf/data/{file}")), &format!("{file}\n").repeat(500));
    }
}

/// The files that an import writes, with their contents.
fn written(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_imported = |path: &Path| {
        let first = path.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        matches!(first, "config.toml" | "skills" | "roles" | "rules" | "hooks.json")
    };
    let all = listing(home).into_iter().filter(|(path, _)| path.is_file());
    all.map(|(path, contents)| (path.strip_prefix(home).unwrap().to_owned(), contents))
        .filter(|(path, _)| is_imported(path))
        .collect()
}

#[test]
fn everything_is_shown_and_imported_on_consent_only() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["import"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert!(run(&[], 0).1.contains("nothing left to import"));
    fill(&env);
    let (shown, _) = run(&["--dry-run"], 0);
    for part in ["- files: runs \"mcp-files\", with KEY", "- pdf:", "check", "sha256:"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    // Without a terminal no one can be asked.
    assert!(run(&[], 2).1.contains("add `--yes`"));
    assert!(run(&["--dry-run", "--yes"], 2).1.contains("--dry-run"));
    let listed: Value = serde_json::from_str(&run(&["--json"], 0).0).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 7, "{listed}");
    assert!(written(&env.home()).is_empty(), "nothing was agreed to");
    run(&["--yes"], 0);
    let config = String::from_utf8(written(&env.home())[Path::new("config.toml")].clone()).unwrap();
    for part in ["[mcp_servers.files", "s3cret", "developer_instructions", "reviewer"] {
        assert!(config.contains(part), "{part} in {config}");
    }
    assert!(run(&[], 0).1.contains("nothing left to import"));
    for (command, decision) in [("git push x --force", "forbidden"), ("git fetch x", "allow")] {
        let checked = env.run(&["rules", "check", "--json", command]);
        let checked: Value = serde_json::from_str(&stdout(&checked)).unwrap();
        assert_eq!(checked["decision"], decision, "{command}: {checked}");
    }

    // What a project has comes with `--project` only.
    write(&env.work().join("CLAUDE.md"), "Build with make.\n");
    assert!(run(&["--yes"], 0).1.contains("nothing"));
    run(&["--yes", "--project"], 0);
    let agents = std::fs::read_to_string(env.work().join("AGENTS.md")).unwrap();
    assert!(agents.contains("Build with make."), "{agents}");
    // What cannot be read is reported, and hides nothing else.
    let user = env.home().parent().unwrap().to_owned();
    write(&user.join(".claude.json"), "{ broken");
    write(&user.join(".claude/commands/next.md"), "Next.\n");
    let (shown, errors) = run(&["--dry-run"], 0);
    assert!(errors.contains(".claude.json: it is not valid JSON"), "{errors}");
    assert!(shown.contains("next"), "{shown}");
}

#[test]
fn a_killed_import_leaves_whole_files_and_is_completed_by_the_next() {
    let control = TestEnvironment::new();
    fill(&control);
    let started = Instant::now();
    assert!(control.run(&["import", "--yes"]).status.success());
    let whole = started.elapsed();
    let expected = written(&control.home());
    assert!(expected.len() > FILES, "{:?}", expected.keys());
    let config = Path::new("config.toml");
    let mut random = StdRng::seed_from_u64(19);
    let mut cut_short = 0;
    for round in 0..KILLS {
        let env = TestEnvironment::new();
        fill(&env);
        let mut command = env.agentd(&["import", "--yes"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let after = random.random_range(0.2..1.1);
        // tidy: sleep because the point of the kill is a random time.
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * after));
        let _ = child.kill();
        child.wait().unwrap();
        let left = written(&env.home());
        cut_short += usize::from(left != expected);
        for (path, contents) in left.iter().filter(|(path, _)| *path != config) {
            // A file of another name is one that was not put in its place yet.
            let whole = expected.get(path);
            assert!(
                whole.is_none_or(|whole| whole == contents),
                "round {round}: {}",
                path.display()
            );
        }
        let again = env.run(&["import", "--yes"]);
        assert!(again.status.success(), "round {round}: {}", stderr(&again));
        let completed = written(&env.home());
        assert_eq!(
            completed.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "round {round}: {}{}",
            stdout(&again),
            stderr(&again)
        );
        assert_eq!(completed, expected, "round {round}");
    }
    println!("{cut_short} of {KILLS} were cut short");
}
