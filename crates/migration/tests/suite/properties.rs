//! Whatever other agents' files hold: nothing panics, plans stay below their root, and a plan that was
//! carried out leaves nothing to do.

use std::path::Path;

use migration::{Agent, Roots, sessions};
use proptest::prelude::*;
use serde_json::{Value, json};

fn roots(base: &Path) -> Roots {
    let roots = Roots {
        user_home: base.join("user"),
        agent_home: base.join("user/.agent"),
        machine_settings: base.join("etc"),
        project_folder: ".agent",
    };
    std::fs::create_dir_all(&roots.agent_home).unwrap();
    roots
}

fn put(path: &Path, contents: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, contents).unwrap();
}

/// Carries out the plans of everything that is detected; returns how many files and settings they have.
fn carry_out(roots: &Roots, configuration: &mut Value) -> usize {
    let mut count = 0;
    for item in migration::detect(roots, None).items {
        let plan = migration::plan(&item, roots, configuration, &|_| true).unwrap();
        count += plan.files.len() + plan.settings.len();
        for file in plan.files {
            assert!(file.path.starts_with(&roots.agent_home), "{}", file.path.display());
            assert!(migration::unlinked(&roots.agent_home, &file.path).is_ok());
            put(&file.path, file.contents);
        }
        for setting in plan.settings {
            let mut at = &mut *configuration;
            for key in &setting.key_path {
                at = &mut at[key.as_str()];
            }
            *at = setting.value;
        }
    }
    count
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\u{202e}]{0,12}".prop_map(Value::from),
        Just(json!("Bash(git push:*)")),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = prop_oneof![
            Just("command".to_owned()),
            Just("url".to_owned()),
            Just("hooks".to_owned()),
            Just("PreToolUse".to_owned()),
            Just("allow".to_owned()),
            "[a-z./]{0,6}".prop_map(|key| key),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_is_carried_out_once(
        servers in any_json(),
        hooks in any_json(),
        permissions in any_json(),
        text in "[ -~\n]{0,80}",
    ) {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let claude = roots.user_home.join(".claude");
        let settings = json!({ "hooks": hooks, "permissions": permissions });
        put(&claude.join("settings.json"), settings.to_string());
        put(&roots.user_home.join(".claude.json"), json!({ "mcpServers": servers }).to_string());
        put(&claude.join("CLAUDE.md"), &text);
        put(&claude.join("commands/a/b.md"), &text);
        put(&claude.join("agents/c.md"), format!("---\nname: {text}\n---\n{text}"));
        let mut configuration = json!({});
        carry_out(&roots, &mut configuration);
        prop_assert_eq!(carry_out(&roots, &mut configuration), 0);
    }

    #[test]
    fn any_lines_are_read_as_sessions(lines in prop::collection::vec(any_json(), 0..8), cut in 0_usize..200) {
        let mut text: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        text.truncate(text.len().saturating_sub(cut % 7));
        for agent in Agent::ALL {
            let session = sessions::parse(agent, &text);
            prop_assert!(session.turns.iter().all(|turn| !turn.entries.is_empty()));
        }
    }

    #[test]
    fn any_bytes_are_read_as_settings_and_sessions(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        for name in [".gemini/commands/a.toml", ".claude.json", ".claude/settings.json", ".codex/config.toml", ".codex/hooks.json",
            ".claude/CLAUDE.md", ".claude/agents/a.md", ".codex/prompts/a.md"]
        {
            put(&roots.user_home.join(name), &bytes);
        }
        let _ = migration::detect(&roots, None);
        for agent in Agent::ALL {
            let _ = sessions::parse(agent, &bytes);
        }
    }
}

#[test]
fn what_exists_under_the_same_name_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let roots = roots(folder.path());
    let servers = json!({ "mcpServers": { "a": { "command": "x" }, "b": { "command": "y" } } });
    put(&roots.user_home.join(".claude.json"), servers.to_string());
    put(&roots.user_home.join(".claude/commands/go.md"), "Go.");
    put(&roots.agent_home.join("skills/go/SKILL.md"), "mine");
    let configuration = json!({ "mcp_servers": { "a": { "command": "mine" } } });
    let mut conflicts = Vec::new();
    for item in migration::detect(&roots, None).items {
        let plan = migration::plan(&item, &roots, &configuration, &|_| true).unwrap();
        assert!(plan.files.is_empty());
        conflicts.extend(plan.conflicts);
    }
    assert_eq!(conflicts.len(), 2, "{conflicts:?}");
    assert!(conflicts[0].contains("`mcp_servers.a` is set to something else"));
    assert!(conflicts[1].contains("has other contents"));
}

#[test]
fn commands_of_gemini_cli_become_skills() {
    let folder = tempfile::tempdir().unwrap();
    let roots = roots(folder.path());
    let commands = roots.user_home.join(".gemini/commands");
    put(&commands.join("git/ship.toml"), "description = 'Ships'\nprompt = 'Ship {{args}}.'\n");
    put(&commands.join("shell.toml"), "prompt = 'State: !{git status}'\n");
    let items = migration::detect(&roots, None).items;
    let [item] = &items[..] else { panic!("{items:?}") };
    assert!(item.left_out[0].starts_with("`shell`: it runs commands"), "{:?}", item.left_out);
    let plan = migration::plan(item, &roots, &json!({}), &|_| true).unwrap();
    let [file] = &plan.files[..] else { panic!("{plan:?}") };
    assert_eq!(file.path, roots.agent_home.join("skills/git-ship/SKILL.md"));
    let text = String::from_utf8(file.contents.clone()).unwrap();
    assert!(
        text.contains("Command `/git-ship`: Ships") && text.contains("Ship {{args}}."),
        "{text}"
    );
    put(&file.path, &file.contents);
    assert!(skills::check(&file.path).unwrap().is_empty());
}

#[test]
fn broken_skills_and_links_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let roots = roots(folder.path());
    let skills = roots.user_home.join(".claude/skills");
    put(&skills.join("fine/SKILL.md"), "---\nname: fine\ndescription: Fine.\n---\nText.\n");
    put(&skills.join("odd/SKILL.md"), "---\nname: Odd\ndescription: Odd.\n---\nText.\n");
    put(&skills.join("broken/SKILL.md"), "---\nname: broken\n---\nText.\n");
    std::os::unix::fs::symlink("/etc", skills.join("etc")).unwrap();
    let items = migration::detect(&roots, None).items;
    let shown: Vec<(&str, &str)> =
        items[0].parts.iter().map(|part| (&*part.name, &*part.summary)).collect();
    assert_eq!(shown[0], ("fine", "1 files"));
    assert!(shown[1].0 == "odd" && shown[1].1.starts_with("1 files; to be mended: "), "{shown:?}");
    let said = items[0].left_out.join("\n");
    assert!(said.contains("`etc`: it is a symbolic link"), "{said}");
    assert!(
        said.contains("`broken`: it cannot be used: ") && said.contains("`description`"),
        "{said}"
    );
}

#[test]
fn the_newest_sessions_come_first_and_links_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let roots = roots(folder.path());
    let projects = roots.user_home.join(".claude/projects/-w");
    let start = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for at in 0..2_100_u64 {
        let path = projects.join(format!("{at}.jsonl"));
        put(&path, "{}");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(start + std::time::Duration::from_secs(at)).unwrap();
    }
    put(&folder.path().join("elsewhere/x.jsonl"), "{}");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), projects.join("../link")).unwrap();
    let (found, problems) = sessions::files(&roots.user_home);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(found.len(), 2_000);
    assert!(found[0].path.ends_with("2099.jsonl"));
    assert!(found[1_999].path.ends_with("100.jsonl"));
    assert_ne!(found[0].thread_id(), found[1].thread_id());
}
