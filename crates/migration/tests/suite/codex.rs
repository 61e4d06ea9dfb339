//! What is imported from Codex and Cursor besides servers, and what of it has the place of something else.

use migration::{Agent, Change, Item, Kind, Roots};
use serde_json::json;

const RULE: &str = "prefix_rule(pattern = [\"git\", \"push\"], decision = \"allow\")";

fn found(files: &[(&str, &str)]) -> (Vec<Item>, String) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots {
        user_home: folder.path().join("user"),
        agent_home: folder.path().join("user/.agent"),
        machine_settings: folder.path().join("etc"),
        project_folder: ".agent",
    };
    for (path, contents) in files {
        let path = roots.user_home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }
    let found = migration::detect(&roots, None);
    let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let left_out = found.items.iter().flat_map(|item| item.left_out.clone());
    let said = problems.into_iter().chain(left_out).collect::<Vec<_>>().join("\n");
    (found.items, said)
}

/// The values of the settings that are imported, and the lines of rules.
fn changes(items: &[Item], kind: Kind) -> Vec<String> {
    let parts = items.iter().filter(|item| item.kind == kind).flat_map(|item| &item.parts);
    parts
        .map(|part| match &part.change {
            Change::Setting { key_path, value } => format!("{} = {value}", key_path.join(".")),
            Change::Rule { path, line } => {
                format!("{}: {line}", path.file_name().unwrap().to_string_lossy())
            }
            _ => part.name.clone(),
        })
        .collect()
}

#[test]
fn what_codex_has_is_imported() {
    let multi = RULE.replace(", ", ",\n  ");
    for (files, kind, expected, said) in [
        (
            vec![(".codex/AGENTS.md", "A")],
            Kind::Instructions,
            vec!["developer_instructions = \"A\""],
            "",
        ),
        (
            vec![(".codex/AGENTS.md", "A"), (".codex/AGENTS.override.md", "\u{feff}B")],
            Kind::Instructions,
            vec!["developer_instructions = \"B\""],
            "",
        ),
        (
            vec![(".codex/AGENTS.md", "A"), (".codex/AGENTS.override.md", " \n")],
            Kind::Instructions,
            vec!["developer_instructions = \"A\""],
            "",
        ),
        (
            vec![(".codex/config.toml", "model_provider = 'openai'\nmodel = 'm'")],
            Kind::Settings,
            vec!["model = \"m\"", "model_provider = \"default\""],
            "",
        ),
        (
            vec![(".codex/rules/default.rules", RULE), (".codex/rules/other.txt", "x")],
            Kind::Permissions,
            vec![&*format!("codex.rules: {RULE}")],
            "",
        ),
        (
            vec![(".codex/rules/default.rules", &multi), (".codex/rules/b.rules", RULE)],
            Kind::Permissions,
            vec![&*format!("codex.rules: {RULE}")],
            "",
        ),
        (
            vec![(".codex/rules/a.rules", "x = 1"), (".codex/rules/b.rules", RULE)],
            Kind::Permissions,
            vec![&*format!("codex.rules: {RULE}")],
            "`a.rules`: it has more than calls",
        ),
        (
            vec![(".codex/rules/a.rules", &*format!("host_executable(name = 'git')\n{RULE}"))],
            Kind::Permissions,
            vec![&*format!("codex.rules: {RULE}")],
            "`host_executable in a.rules`: it has no counterpart",
        ),
    ] {
        let (items, all) = found(&files);
        assert_eq!(changes(&items, kind), expected, "{files:?} {all}");
        assert!(items.iter().all(|item| item.agent == Agent::Codex), "{items:?}");
        assert!(all.contains(said), "{files:?}: {all}");
    }
}

#[test]
fn what_cursor_has_is_imported_or_named() {
    let settings = json!({ "permissions": { "allow": ["Shell(ls)"] } }).to_string();
    let (items, said) = found(&[
        (".cursor/commands/ship.md", "Ship it."),
        (".cursor/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: For PDFs.\n---\nRead.\n"),
        (".cursor/cli-config.json", &settings),
    ]);
    assert_eq!(changes(&items, Kind::Commands), ["ship"]);
    assert_eq!(changes(&items, Kind::Skills), ["pdf"]);
    assert!(said.contains("`permissions of cli-config.json`: it has no counterpart"), "{said}");
}
