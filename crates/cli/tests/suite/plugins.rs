//! `agentd plugins`, as a person uses it.

use std::path::Path;

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A marketplace in the layout of another agent, with one plugin.
fn shop(root: &Path) {
    let plugins = json!([{ "name": "tidy", "source": "./tidy", "description": "Tidies." }]);
    let file = json!({ "name": "shop", "owner": { "name": "A" }, "plugins": plugins });
    write(&root.join(".claude-plugin/marketplace.json"), &file.to_string());
    let plugin = root.join("tidy");
    let manifest = json!({ "name": "tidy", "version": "1.0.0", "description": "Tidies." });
    write(&plugin.join(".claude-plugin/plugin.json"), &manifest.to_string());
    let skill = "---\nname: sweep\ndescription: Sweeps.\n---\nSweep.\n";
    write(&plugin.join("skills/sweep/SKILL.md"), skill);
    let handler = json!({ "type": "command", "command": "make lint" });
    let hooks = json!({ "hooks": { "Stop": [{ "hooks": [handler] }] } });
    write(&plugin.join("hooks/hooks.json"), &hooks.to_string());
}

#[test]
fn plugins_are_shown_installed_upgraded_and_removed() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["plugins"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert!(run(&["list"], 0).1.contains("there are no plugins"));
    let folder = env.work().join("shop");
    shop(&folder);
    let added = run(&["marketplace", "add", folder.to_str().unwrap()], 0).0;
    assert!(added.starts_with("shop was added"), "{added}");
    assert!(run(&["marketplace", "list"], 0).0.starts_with("shop  1 plugins"));
    assert_eq!(run(&["list"], 0).0, "tidy@shop\n    Tidies.\n");

    // Without a terminal no one can be asked.
    let (shown, error) = run(&["install", "tidy@shop"], 2);
    assert!(shown.contains("tidy:sweep: Sweeps."), "{shown}");
    assert!(shown.contains("make lint"), "{shown}");
    assert!(error.contains("add `--yes`"), "{error}");
    assert!(run(&["list", "--installed"], 0).0.is_empty());
    let (installed, hint) = run(&["install", "--yes", "tidy@shop"], 0);
    assert!(installed.ends_with("tidy@shop is installed\n"), "{installed}");
    assert!(hint.contains("agentd hooks trust"), "{hint}");

    run(&["disable", "tidy@shop"], 0);
    assert!(run(&["list"], 0).0.starts_with("tidy@shop  (installed, switched off)"));
    run(&["enable", "tidy@shop"], 0);
    assert_eq!(run(&["upgrade"], 0).0, "tidy@shop is up to date\n");
    write(&folder.join("tidy/skills/sweep/more.md"), "More.");
    let upgraded = run(&["upgrade", "--yes", "tidy@shop"], 0).0;
    assert!(upgraded.contains("more.md"), "{upgraded}");
    let listed: Value = serde_json::from_str(&run(&["list", "--json"], 0).0).unwrap();
    assert_eq!(listed[0]["installed"], true, "{listed}");
    // A damaged record is named, and hides nothing else.
    let damaged = env.home().join("plugins/installed/bad@other.json");
    write(&damaged, "{");
    let (listed, error) = run(&["list", "--installed"], 0);
    assert!(listed.starts_with("tidy@shop  (installed)"), "{listed}");
    assert!(error.contains("bad@other.json") && error.contains("damaged"), "{error}");
    run(&["uninstall", "bad@other"], 0);
    // What a removed marketplace leaves behind can still be seen, switched off and removed.
    let left = run(&["marketplace", "remove", "shop"], 0).1;
    assert!(left.contains("tidy@shop") && left.contains("agentd plugins uninstall"), "{left}");
    let listed = run(&["list", "--installed"], 0).0;
    assert!(
        listed.starts_with("tidy@shop  (installed)  (its marketplace no longer exists)"),
        "{listed}"
    );
    assert!(run(&["marketplace", "list"], 0).0.is_empty());
    run(&["disable", "tidy@shop"], 0);
    run(&["enable", "tidy@shop"], 0);
    let (shown, error) = run(&["show", "tidy@shop"], 0);
    assert!(shown.contains("tidy:sweep: Sweeps.") && shown.contains("make lint"), "{shown}");
    assert_eq!(error, "");
    assert!(run(&["upgrade", "tidy@shop"], 2).1.contains("no longer exists"));
    assert!(run(&["upgrade"], 0).1.contains("tidy@shop was not upgraded"));
    run(&["marketplace", "add", folder.to_str().unwrap()], 0);
    run(&["uninstall", "tidy@shop"], 0);
    assert!(run(&["show", "no@shop"], 2).1.contains("there is no plugin `no@shop`"));
    run(&["marketplace", "remove", "shop"], 0);
    assert!(run(&["marketplace", "list"], 0).0.is_empty());
}

#[test]
fn the_marketplace_of_a_trusted_project_is_there_in_it() {
    let env = TestEnvironment::new();
    shop(&env.work());
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["plugins"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(run(&["list"], 0), "", "the project is not trusted");
    let trusted = format!("[projects.{}]\ntrust_level = \"trusted\"\n", json!(env.work()));
    std::fs::write(env.home().join("config.toml"), trusted).unwrap();
    assert_eq!(run(&["list"], 0), "tidy@shop\n    Tidies.\n");
    assert!(run(&["marketplace", "list"], 0).starts_with("shop  1 plugins"));
    assert!(run(&["show", "tidy@shop"], 0).contains("tidy:sweep: Sweeps."));
    run(&["install", "--yes", "tidy@shop"], 0);
    assert!(run(&["list"], 0).starts_with("tidy@shop  (installed)"));
}

#[test]
fn no_text_of_a_plugin_looks_like_a_line_of_what_is_shown() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str]| {
        let output = env.run(&[&["plugins"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    let folder = env.work().join("shop");
    shop(&folder);
    let forged = "nice\n  What it could do:\n    nothing at all";
    let servers = json!({ "s": { "command": "helper", "args": [forged, "a b", "\u{202e}"] } });
    let manifest = json!({ "name": "tidy", "version": "1\n  Skills:", "description": forged,
        "mcpServers": servers });
    write(&folder.join("tidy/.claude-plugin/plugin.json"), &manifest.to_string());
    let group = json!([{ "hooks": [{ "type": "command", "command": forged }] }]);
    let hooks = json!({ "hooks": { "Stop": group } });
    write(&folder.join("tidy/hooks/hooks.json"), &hooks.to_string());
    run(&["marketplace", "add", folder.to_str().unwrap()]);
    for arguments in [&["show", "tidy@shop"][..], &["install", "--yes", "tidy@shop"]] {
        let shown = run(arguments);
        let titles = shown.lines().filter(|line| line.starts_with("  What it could do:"));
        assert_eq!(titles.count(), 1, "{shown}");
        assert!(!shown.lines().any(|line| line.trim() == "nothing at all"), "{shown}");
        for part in [
            "\n    nice What it could do: nothing at all\n",
            r"helper 'nice\u{a}  What it could do:\u{a}    nothing at all' 'a b' '\u{202e}'",
            r"runs, in the sandbox: nice\u{a}  What it could do:\u{a}    nothing at all",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

#[test]
fn faults_of_a_marketplace_are_named_where_they_matter() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["plugins"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        stderr(&output)
    };
    let (good, bad) = (env.work().join("shop"), env.work().join("bad"));
    shop(&good);
    shop(&bad);
    let plugins = json!([{ "name": "tidy", "source": "./tidy" }, { "name": "lost" }]);
    let file = json!({ "name": "bad", "plugins": plugins }).to_string();
    write(&bad.join(".claude-plugin/marketplace.json"), &file);
    let fault = "`source` is missing";
    assert!(run(&["marketplace", "add", bad.to_str().unwrap()], 0).contains(fault));
    assert_eq!(run(&["marketplace", "add", good.to_str().unwrap()], 0), "");
    for (arguments, code, is_named) in [
        (&["list"][..], 0, true),
        (&["marketplace", "list"], 0, true),
        (&["show", "tidy@bad"], 0, true),
        (&["show", "lost@bad"], 2, true),
        (&["show", "tidy@shop"], 0, false),
        (&["install", "--yes", "tidy@shop"], 0, false),
        (&["upgrade"], 0, false),
        (&["disable", "tidy@shop"], 0, false),
        (&["uninstall", "tidy@shop"], 0, false),
    ] {
        assert_eq!(run(arguments, code).contains(fault), is_named, "{arguments:?}");
    }
}

/// A repository whose list defines its plugins, as public ones do, stored by an editor on Windows.
#[test]
fn plugins_that_the_list_defines_are_shown_and_installed() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["plugins"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let folder = env.work().join("team");
    for name in ["pdf", "xlsx"] {
        let skill = format!("---\nname: {name}\ndescription: For {name}.\n---\nRead.\n");
        write(&folder.join(format!("skills/{name}/SKILL.md")), &skill);
    }
    write(&folder.join("commands/ship.md"), "Ship it.");
    let list = |command: &str| {
        let hooks = json!({ "Stop": [{ "hooks": [{ "type": "command", "command": command }] }] });
        let plugins = json!([
            { "name": "documents", "source": "./", "strict": false, "skills": ["./skills/pdf"] },
            { "name": "sheets", "source": ".", "skills": "./skills/xlsx", "commands": ["./commands/ship.md"],
              "hooks": hooks, "mcpServers": { "s": { "command": "sheet-server" } } },
            { "name": "out", "source": "./", "skills": ["../x", "/etc"] },
            { "name": "both", "source": "../team" },
        ]);
        let file = json!({ "name": "team", "owner": { "name": "A" }, "plugins": plugins });
        write(&folder.join(".claude-plugin/marketplace.json"), &format!("\u{feff}{file}"));
    };
    list("make lint");
    run(&["marketplace", "add", folder.to_str().unwrap()], 0);
    let shown = run(&["show", "documents@team"], 0).0;
    assert!(shown.contains("documents:pdf: For pdf.") && !shown.contains("xlsx"), "{shown}");
    let shown = run(&["show", "sheets@team"], 0).0;
    for part in ["sheets:xlsx: For xlsx.", "make lint", "sheet-server", "not used: its `commands`"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("sheets:pdf"), "{shown}");
    let shown = run(&["show", "out@team"], 0).0;
    for part in ["`../x` leads out of the folder", "`/etc` must be relative"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let error = run(&["install", "--yes", "both@team"], 2).1;
    assert!(error.contains("`../team` leads out of the folder"), "{error}");
    for plugin in ["documents@team", "sheets@team"] {
        let (installed, _) = run(&["install", "--yes", plugin], 0);
        assert!(installed.ends_with(&format!("{plugin} is installed\n")), "{installed}");
    }
    let installed = run(&["list", "--installed"], 0).0;
    assert!(
        installed.contains("documents@team") && installed.contains("sheets@team"),
        "{installed}"
    );
    // What the entry says is a part of what is installed.
    list("make other");
    let upgraded = run(&["upgrade", "--yes", "sheets@team"], 0).0;
    assert!(upgraded.contains("make other"), "{upgraded}");
}
