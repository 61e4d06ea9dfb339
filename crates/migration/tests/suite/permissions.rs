//! Imported permissions never permit what their source does not: tables of cases, and random permissions and
//! commands against a model of both sides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use migration::{Item, Kind, Roots};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What is decided about a command, from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Allow,
    /// No rule has the command: the approval policy decides.
    Open,
    Prompt,
    Forbidden,
}

const LISTS: [(&str, Decision); 3] =
    [("deny", Decision::Forbidden), ("ask", Decision::Prompt), ("allow", Decision::Allow)];

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["user/.agent", "project"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self(folder)
    }

    fn put(&self, path: &str, contents: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    fn roots(&self) -> Roots {
        Roots {
            user_home: self.0.path().join("user"),
            agent_home: self.0.path().join("user/.agent"),
            machine_settings: self.0.path().join("etc"),
            project_folder: ".agent",
        }
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    /// The permissions that are offered; `None` when none of them has a counterpart.
    fn offered(&self, project: Option<&Path>) -> Option<Item> {
        let found = migration::detect(&self.roots(), project);
        found.items.into_iter().find(|item| item.kind == Kind::Permissions)
    }

    /// The lines that an import writes.
    fn rules(&self, project: Option<&Path>) -> Vec<String> {
        let Some(item) = self.offered(project) else { return Vec::new() };
        let plan = migration::plan(&item, &self.roots(), &json!({}), &|_| true).unwrap();
        let text = plan.files.iter().map(|file| String::from_utf8(file.contents.clone()).unwrap());
        text.collect::<String>().lines().map(str::to_owned).collect()
    }
}

fn settings(permissions: &Value) -> String {
    json!({ "permissions": permissions }).to_string()
}

/// What rules decide about a command of plain words: the strictest one that it begins with.
fn decided_here(rules: &[String], command: &str) -> Decision {
    let words: Vec<String> = command.split(' ').map(|word| format!("\"{word}\"")).collect();
    let matching = rules.iter().filter_map(|line| {
        let line = line.strip_prefix("prefix_rule(pattern = [")?;
        let (pattern, rest) = line.split_once("], decision = ").unwrap();
        let decision = match rest {
            "\"allow\")" => Decision::Allow,
            "\"prompt\")" => Decision::Prompt,
            "\"forbidden\")" => Decision::Forbidden,
            other => panic!("{other}"),
        };
        let pattern: Vec<&str> = pattern.split(", ").collect();
        words.iter().take(pattern.len()).eq(pattern.iter()).then_some(decision)
    });
    matching.max().unwrap_or(Decision::Open)
}

/// Whether a permission of the source is about a command of plain words.
fn is_about(permission: &str, command: &str) -> bool {
    let Some(inner) = permission.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'))
    else {
        return permission == "Bash";
    };
    let prefix = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    match prefix.filter(|prefix| !prefix.contains('*')) {
        Some(prefix) => command == prefix || command.starts_with(&format!("{prefix} ")),
        None => glob(inner.as_bytes(), command.as_bytes()),
    }
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        Some((byte, rest)) => text.first() == Some(byte) && glob(rest, &text[1..]),
    }
}

fn decided_there(permissions: &[&Value], command: &str) -> Decision {
    let decides = |list: &str| {
        let mut entries =
            permissions.iter().flat_map(|lists| lists[list].as_array().into_iter().flatten());
        entries.any(|entry| is_about(entry.as_str().unwrap(), command))
    };
    let found = LISTS.iter().find(|(list, _)| decides(list));
    found.map_or(Decision::Open, |(_, decision)| *decision)
}

#[test]
fn a_restriction_that_has_no_exact_rule_is_widened() {
    let files = Files::new();
    let permissions = json!({
        "allow": ["Bash(docker:*)", "Bash(git push:*)", "Bash(npm test:*)", "Bash(rm:*)"],
        "ask": ["Bash(git push origin main)"],
        "deny": [
            "Bash(docker run *--privileged*)",
            "Bash(docker rm)",
            "Bash(git push * --force)",
            "Bash(rm *-rf*)",
        ],
    });
    files.put("user/.claude/settings.json", &settings(&permissions));
    let rules = files.rules(None);
    let check = |command: &str, decision: Decision| {
        assert_eq!(decided_here(&rules, command), decision, "{command}: {rules:#?}");
    };
    check("docker run --privileged x", Decision::Forbidden);
    check("docker rm", Decision::Forbidden);
    check("docker rm x", Decision::Forbidden);
    check("docker ps", Decision::Allow);
    check("git push origin main", Decision::Forbidden);
    check("npm test x", Decision::Allow);
    check("rm -rf x", Decision::Prompt);
    let item = files.offered(None).unwrap();
    let shown: BTreeMap<&str, &str> =
        item.parts.iter().map(|part| (&*part.name, &*part.summary)).collect();
    for (name, note) in [
        ("deny: Bash(docker run *--privileged*)", "(more than there"),
        ("deny: Bash(docker rm)", "(with further arguments, too)"),
        ("deny: Bash(rm *-rf*)", "it asks, and does not forbid)"),
    ] {
        assert!(shown[name].contains(note), "{name}: {}", shown[name]);
    }
    let said = item.left_out.join("\n");
    assert!(
        said.contains("`allow: Bash(git push:*)`: the rule of `deny: Bash(git push * --force)`")
    );
}

#[test]
fn a_permission_is_left_out_when_a_restriction_of_it_has_no_rule() {
    let check = |path: &str, contents: &str, project: bool, reason: &str| {
        let files = Files::new();
        let allow = json!({ "allow": ["Bash(docker:*)"], "ask": ["Bash(x y:*)"] });
        let own = if project { "project" } else { "user" };
        files.put(&format!("{own}/.claude/settings.json"), &settings(&allow));
        files.put(path, contents);
        let folder = files.project();
        let item = files.offered(project.then_some(&folder)).unwrap();
        let said = item.left_out.join("\n");
        assert!(said.contains("`allow: Bash(docker:*)`: "), "{path} {contents}: {said}");
        assert!(said.contains(reason), "{path} {contents}: {said}");
        assert!(item.parts.iter().all(|part| !part.summary.contains("\"allow\"")));
    };
    let local = "user/.claude/settings.local.json";
    let open = "and no rule here does";
    check(local, &settings(&json!({ "deny": ["Bash(*--privileged*)"] })), false, open);
    check(local, &settings(&json!({ "deny": ["Bash"] })), false, open);
    check(local, &settings(&json!({ "ask": ["Bash(dock*)"] })), false, open);
    check(local, &settings(&json!({ "ask": ["Bash(docker r*)"] })), false, open);
    let unknown = "it is not known whether anything restricts it";
    check(local, "{ not JSON", false, unknown);
    check(local, "[]", false, unknown);
    check(local, r#"{"permissions": []}"#, false, unknown);
    check(local, &settings(&json!({ "deny": "Bash(docker rm:*)" })), false, unknown);
    check(local, &settings(&json!({ "deny": [["Bash(docker rm:*)"]] })), false, unknown);
    check(local, &settings(&json!({ "defaultMode": "plan" })), false, "`defaultMode` is \"plan\"");
    check(local, &settings(&json!({ "defaultMode": 1 })), false, "`defaultMode` is 1");
    let above = "in settings that hold everywhere";
    let rule = settings(&json!({ "deny": ["Bash(docker rm:*)"] }));
    check("etc/claude-code/managed-settings.json", &rule, false, above);
    check("etc/claude-code/managed-settings.d/a.json", &rule, true, above);
    check("etc/claude-code/managed-settings.json", "{", false, unknown);
    check("user/.claude/settings.json", &rule, true, above);
    check("user/.claude/settings.local.json", "{", true, unknown);
    let many: Vec<String> = (0..600).map(|at| format!("Bash(p{at}:*)")).collect();
    check(local, &settings(&json!({ "deny": many })), false, "not all that restricts it");
}

#[test]
fn a_project_asks_about_what_the_user_allows_and_it_restricts() {
    let files = Files::new();
    let own = json!({ "allow": ["Bash(docker:*)", "Bash(git:*)"] });
    files.put("user/.claude/settings.json", &settings(&own));
    let restricts = json!({ "deny": ["Bash(dock*)"] });
    files.put("project/.claude/settings.json", &settings(&restricts));
    let rules = [files.rules(None), files.rules(Some(&files.project()))].concat();
    assert_eq!(decided_here(&rules, "docker x"), Decision::Prompt);
    assert_eq!(decided_here(&rules, "dock x"), Decision::Forbidden);
    assert_eq!(decided_here(&rules, "git x"), Decision::Allow);
}

#[test]
fn hooks_that_may_refuse_commands_are_mentioned() {
    let files = Files::new();
    let given = json!({
        "permissions": { "allow": ["Bash(git:*)"] },
        "hooks": { "PreToolUse": [{ "hooks": [{ "type": "command", "command": "check" }] }] },
    });
    files.put("user/.claude/settings.json", &given.to_string());
    let said = files.offered(None).unwrap().left_out.join("\n");
    assert!(said.contains("`hooks`: commands that hooks of `PreToolUse` refuse"), "{said}");
}

const WORDS: [&str; 6] = ["a", "ab", "b", "-f", "a/b", "c.d"];

fn any_permissions() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        6 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        1 => Just("*".to_owned()),
        1 => Just("a*".to_owned()),
        1 => Just("*b*".to_owned()),
    ];
    let entry = (prop::collection::vec(part, 1..4), 0_usize..4).prop_map(|(parts, end)| {
        let end = [":*", " *", "*", ""][end];
        format!("Bash({}{end})", parts.join(" "))
    });
    let entry = prop_oneof![30 => entry, 1 => Just("Bash".to_owned())];
    let list = prop::collection::vec(entry, 0..4);
    (list.clone(), list.clone(), list)
        .prop_map(|(allow, ask, deny)| json!({ "allow": allow, "ask": ask, "deny": deny }))
}

fn any_command() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&WORDS[..]), 1..5).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_import_never_permits_more(
        of_user in any_permissions(),
        local in any_permissions(),
        of_project in any_permissions(),
        commands in prop::collection::vec(any_command(), 1..12),
    ) {
        let files = Files::new();
        files.put("user/.claude/settings.json", &settings(&of_user));
        files.put("user/.claude/settings.local.json", &settings(&local));
        files.put("project/.claude/settings.json", &settings(&of_project));
        let home = files.rules(None);
        let project = files.rules(Some(&files.project()));
        let both = [home.clone(), project].concat();
        for (rules, sources) in [
            (&home, &[&of_user, &local][..]),
            (&both, &[&of_user, &local, &of_project][..]),
        ] {
            for command in &commands {
                let (here, there) = (decided_here(rules, command), decided_there(sources, command));
                let shown = format!("{command}: {there:?} there, {here:?} here\n{rules:#?}");
                prop_assert!(here != Decision::Allow || there == Decision::Allow, "{}", shown);
            }
        }
    }

    /// What an exact counterpart, a whole command, or two words before a `*` restrict is restricted as strictly.
    #[test]
    fn what_a_rule_can_restrict_is_restricted_as_strictly(
        permissions in any_permissions(),
        commands in prop::collection::vec(any_command(), 1..12),
    ) {
        let files = Files::new();
        files.put("user/.claude/settings.json", &settings(&permissions));
        let rules = files.rules(None);
        for (list, decision) in &LISTS[..2] {
            for entry in permissions[list].as_array().unwrap().iter().map(|it| it.as_str().unwrap()) {
                let inner = entry.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
                let Some(inner) = inner else { continue };
                let prefix = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
                let literal = prefix.unwrap_or(inner);
                let words = literal.split('*').next().unwrap().matches(' ').count();
                if literal.contains('*') && (words < 2 || literal.find('*') == Some(literal.len() - 1)) {
                    continue;
                }
                for command in commands.iter().filter(|command| is_about(entry, command)) {
                    let here = decided_here(&rules, command);
                    prop_assert!(here >= *decision, "{} {:?}: {:?}\n{:#?}", entry, command, here, rules);
                }
            }
        }
    }
}
