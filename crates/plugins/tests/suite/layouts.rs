//! Marketplaces as public repositories have them: with manifests in several places, without any, and with
//! parts of plugins in the marketplace's own list.

use std::path::Path;

use crate::common::{add, commit, folder, home, read, url, write};
use plugins::{Contents, Declared, Plugin};
use serde_json::{Value, json};

/// The files of a repository besides its marketplace: many, for all cases.
const FILES: &[(&str, &str)] = &[
    ("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n"),
    ("skills/xlsx/SKILL.md", "---\nname: xlsx\ndescription: d\n---\n"),
    (
        "hooks/hooks.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "root"}]}]}}"#,
    ),
    (".mcp.json", r#"{"mcpServers": {"root": {"command": "root"}}}"#),
    // Three places of a manifest.
    ("own/.agent-plugin/plugin.json", r#"{"name": "own", "version": "1"}"#),
    ("own/.codex-plugin/plugin.json", r#"{"name": "own", "version": "2"}"#),
    ("own/.claude-plugin/plugin.json", r#"{"name": "own", "version": "3"}"#),
    ("codex/.codex-plugin/plugin.json", r#"{"name": "codex", "version": "2"}"#),
    ("claude/.claude-plugin/plugin.json", r#"{"name": "claude", "version": "3"}"#),
    // No manifest.
    ("plain/skills/a/SKILL.md", "---\nname: a\ndescription: d\n---\n"),
    ("plain/commands/c.md", "Do it."),
    ("plain/hooks/hooks.json", r#"{"hooks": {}}"#),
    ("plain/more/b/SKILL.md", "---\nname: b\ndescription: d\n---\n"),
    ("plain/servers.json", r#"{"mcpServers": {"file": {"command": "f"}}}"#),
    (
        "plain/lint.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "lint"}]}]}}"#,
    ),
    ("agents/agents/a.md", "---\nname: a\n---\nAct."),
    ("empty/README.md", "Nothing."),
    // A manifest with parts.
    (
        "full/.claude-plugin/plugin.json",
        r#"{"name": "full", "description": "manifest", "skills": "./extra",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "own"}]}]},
        "mcpServers": {"one": {"command": "manifest"}}}"#,
    ),
    ("full/.mcp.json", r#"{"mcpServers": {"usual": {"command": "usual"}}}"#),
    ("full/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\n"),
    ("full/extra/t/SKILL.md", "---\nname: t\ndescription: d\n---\n"),
    ("full/other/u/SKILL.md", "---\nname: u\ndescription: d\n---\n"),
];

struct Case {
    name: &'static str,
    entry: Value,
    /// Folders of skills, files of hooks, commands in inline hooks, and MCP servers with their commands.
    expect: Result<Expected, &'static str>,
}

#[derive(Debug, Default, PartialEq)]
struct Expected {
    version: Option<&'static str>,
    skills: &'static [&'static str],
    hooks: &'static [&'static str],
    inline: &'static [&'static str],
    servers: &'static [(&'static str, &'static str)],
    unused: &'static [&'static str],
    problems: &'static [&'static str],
}

fn check(name: &str, root: &Path, found: &Contents, expect: &Expected) {
    let relative = |paths: &[std::path::PathBuf]| -> Vec<String> {
        let relative = paths.iter().map(|path| path.strip_prefix(root).unwrap());
        relative.map(|path| path.display().to_string()).collect()
    };
    assert_eq!(found.manifest.version.as_deref(), expect.version, "{name}");
    assert_eq!(relative(&found.skills), expect.skills, "{name}");
    assert_eq!(relative(&found.hooks), expect.hooks, "{name}");
    let inline = found.inline_hooks.as_ref().map(|inline| inline.text.clone()).unwrap_or_default();
    assert_eq!(inline.matches("\"command\":").count(), expect.inline.len(), "{name}: {inline}");
    for command in expect.inline {
        assert!(inline.contains(&format!("\"{command}\"")), "{name}: {inline}");
    }
    let servers = found.mcp_servers.iter();
    let servers: Vec<(&str, &str)> =
        servers.map(|(name, value)| (&**name, value["command"].as_str().unwrap())).collect();
    assert_eq!(servers, expect.servers, "{name}");
    assert_eq!(found.unused, expect.unused, "{name}");
    assert_eq!(found.problems.len(), expect.problems.len(), "{name}: {:?}", found.problems);
    for (problem, part) in found.problems.iter().zip(expect.problems) {
        assert!(problem.to_string().contains(part), "{name}: {problem}");
    }
}

fn hook(command: &str) -> Value {
    json!([{ "hooks": [{ "type": "command", "command": command }] }])
}

fn cases() -> Vec<Case> {
    let case = |name, entry, expect| Case { name, entry, expect };
    let plain = |expect: Expected| Expected { hooks: &["hooks/hooks.json"], ..expect };
    vec![
        case(
            "own manifest first",
            json!({"name": "own", "source": "./own"}),
            Ok(Expected { version: Some("1"), ..Expected::default() }),
        ),
        case(
            "manifest of one agent",
            json!({"name": "codex", "source": {"source": "local", "path": "./codex/"}}),
            Ok(Expected { version: Some("2"), ..Expected::default() }),
        ),
        case(
            "manifest of another agent",
            json!({"name": "claude", "source": "./claude", "strict": true, "author": {"name": "A"}}),
            Ok(Expected { version: Some("3"), ..Expected::default() }),
        ),
        case(
            "skills of a shared folder, as texts in a list",
            json!({"name": "documents", "source": "./", "strict": false, "version": "9",
                   "skills": ["./skills/pdf", "./skills/xlsx"]}),
            Ok(Expected {
                version: Some("9"),
                skills: &["skills/pdf", "skills/xlsx"],
                ..Expected::default()
            }),
        ),
        case(
            "one skill of a shared folder, as a text",
            json!({"name": "pdf-only", "source": ".", "skills": "./skills/pdf"}),
            Ok(Expected { skills: &["skills/pdf"], ..Expected::default() }),
        ),
        case(
            "a shared folder with servers alone",
            json!({"name": "servers", "source": {"source": "local", "path": "."},
                   "mcpServers": {"a": {"command": "a"}}}),
            Ok(Expected { servers: &[("a", "a")], ..Expected::default() }),
        ),
        case(
            "the whole folder of the marketplace",
            json!({"name": "whole", "source": "./"}),
            Ok(Expected {
                skills: &["skills"],
                hooks: &["hooks/hooks.json"],
                servers: &[("root", "root")],
                // The folder `agents` of this repository is a plugin, which looks like agents.
                unused: &["agents"],
                ..Expected::default()
            }),
        ),
        case(
            "parts where plugins have them",
            json!({"name": "plain", "source": "./plain"}),
            Ok(plain(Expected {
                skills: &["skills"],
                unused: &["commands"],
                ..Expected::default()
            })),
        ),
        case(
            "parts in the list, of every shape",
            json!({"name": "inline", "source": "./plain/", "strict": false,
                   "commands": ["./commands/c.md"], "agents": "./agents", "skills": ["./more"],
                   "hooks": ["./lint.json", {"Stop": hook("inline")}],
                   "mcpServers": ["./servers.json", {"object": {"command": "o"}}],
                   "lspServers": {"rust": {"command": "r"}}, "outputStyles": "./styles"}),
            Ok(Expected {
                skills: &["skills", "more"],
                hooks: &["hooks/hooks.json", "lint.json"],
                inline: &["inline"],
                servers: &[("file", "f"), ("object", "o")],
                unused: &["agents", "commands", "lspServers", "outputStyles"],
                ..Expected::default()
            }),
        ),
        case(
            "agents alone",
            json!({"name": "agents-only", "source": "./agents", "agents": ["./agents/a.md"]}),
            Ok(Expected { unused: &["agents"], ..Expected::default() }),
        ),
        case(
            "a manifest and an entry, both with parts",
            json!({"name": "full", "source": "./full", "description": "entry", "skills": ["./other"],
                   "hooks": {"Stop": hook("entry")}, "version": "7",
                   "mcpServers": {"one": {"command": "entry"}, "two": {"command": "two"}}}),
            Ok(Expected {
                version: Some("7"),
                skills: &["skills", "extra", "other"],
                inline: &["own", "entry"],
                servers: &[("one", "manifest"), ("two", "two")],
                problems: &["`one` is there twice; the first counts"],
                ..Expected::default()
            }),
        ),
        case(
            "a manifest with parts alone",
            json!({"name": "full", "source": "./full"}),
            Ok(Expected {
                skills: &["skills", "extra"],
                inline: &["own"],
                servers: &[("one", "manifest")],
                ..Expected::default()
            }),
        ),
        case(
            "an entry that says it is the whole, with a manifest that has facts only",
            json!({"name": "renamed", "source": "./claude", "strict": false,
                   "hooks": {"hooks": {"Stop": hook("h")}}}),
            Ok(Expected { version: Some("3"), inline: &["h"], ..Expected::default() }),
        ),
        case(
            "null members",
            json!({"name": "nulls", "source": "./plain/.", "strict": null, "skills": null, "hooks": null,
                   "mcpServers": null, "agents": null, "version": null}),
            Ok(plain(Expected {
                skills: &["skills"],
                unused: &["commands"],
                ..Expected::default()
            })),
        ),
        case(
            "paths that lead out, and unknown shapes, are left out",
            json!({"name": "odd", "source": "././plain", "skills": ["../own", "/etc", 3, {}, "./none", null],
                   "hooks": ["./../x.json", true], "mcpServers": ["C:\\x", {"a/b": {}, "s": "text"}]}),
            Ok(Expected {
                skills: &["skills"],
                hooks: &["hooks/hooks.json"],
                unused: &["commands"],
                problems: &[
                    "`../own` leads out",
                    "`/etc` must be relative",
                    "must be a path",
                    "must be a path",
                    "names a folder that does not exist",
                    "must be a path",
                    "leads out",
                    "must be a path",
                    "must be relative",
                    "an MCP server is left out",
                    "`s` must be an object",
                ],
                ..Expected::default()
            }),
        ),
        case(
            "two definitions that each are the whole",
            json!({"name": "full", "source": "./full", "strict": false, "skills": ["./other"]}),
            Err(
                "the manifest names `skills`, and the entry of the marketplace says with `\"strict\": false`",
            ),
        ),
        case(
            "nothing",
            json!({"name": "empty", "source": "./empty", "description": "Nothing."}),
            Err("it is not a plugin: it has no manifest (`.agent-plugin/plugin.json`"),
        ),
        case(
            "another name than its manifest",
            json!({"name": "other", "source": "./own"}),
            Err("the manifest names the plugin `own`, the marketplace `other`"),
        ),
        case(
            "`strict` of another shape",
            json!({"name": "shape", "source": "./own", "strict": "no"}),
            Err("`strict` must be true or false"),
        ),
        case("no source", json!({"name": "none"}), Err("`source` is missing")),
        case("an empty source", json!({"name": "none", "source": ""}), Err("must begin with `./`")),
        case("out", json!({"name": "out", "source": "./../x"}), Err("leads out")),
        case("missing", json!({"name": "missing", "source": "./missing"}), Err("No such file")),
    ]
}

fn repository(root: &Path, list: &str, entry: &Value) {
    for (name, text) in FILES {
        write(&root.join(name), text);
    }
    let list_of = json!({"name": "market", "owner": {"name": "o"}, "plugins": [entry]});
    write(&root.join(list), list_of.to_string());
}

#[tokio::test]
async fn public_layouts_are_installed_as_they_are_meant() {
    for (number, Case { name, entry, expect }) in cases().into_iter().enumerate() {
        let top = folder();
        let root = top.path().join("market");
        let lists = plugins::marketplace::FILES;
        repository(&root, lists[number % lists.len()], &entry);
        let home = home(&top.path().join("home"), &[]);
        let plugin = entry["name"].as_str().unwrap();
        // From a folder, and from a repository.
        commit(&root);
        for source in [root.to_str().unwrap().to_owned(), url(&root)] {
            let added = add(&home, &source, None, &[]).await.unwrap();
            let market = read(&added.root);
            match (home.install(&market, plugin, None).await, &expect) {
                (Ok(installed), Ok(expect)) => {
                    let found = Plugin::read(&installed.root).unwrap();
                    assert_eq!(found.manifest.name, plugin, "{name}");
                    check(name, &installed.root, &found, expect);
                    assert!(home.verify(&installed).unwrap().is_empty(), "{name}");
                    // What is listed before the installation says the same.
                    let entry = market.entry(plugin).unwrap();
                    let plugins::Source::Local { path } = &entry.source else { panic!("{name}") };
                    let place = added.root.join(path);
                    let listed = Plugin::read_declared(&place, &entry.declared).unwrap();
                    check(name, &place, &listed, expect);
                    home.uninstall(&installed.id).await.unwrap();
                }
                (Err(error), Err(expect)) => {
                    assert!(error.to_string().contains(expect), "{name}: {error}");
                }
                (found, _) => panic!("{name}: {found:?}"),
            }
            home.remove_marketplace("market").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_change_of_the_entry_changes_the_digest() {
    let top = folder();
    let root = top.path().join("market");
    let home = home(&top.path().join("home"), &[]);
    let mut digests = Vec::new();
    for command in ["one", "two"] {
        let entry = json!({"name": "p", "source": "./plain", "hooks": {"Stop": hook(command)}});
        repository(&root, plugins::marketplace::FILES[0], &entry);
        digests.push(home.stage(&read(&root), "p").await.unwrap().plugin.digest);
    }
    assert_ne!(digests[0], digests[1]);
}

#[tokio::test]
async fn several_plugins_of_one_folder_share_nothing() {
    let top = folder();
    let root = top.path().join("market");
    repository(&root, plugins::marketplace::FILES[1], &json!(null));
    let entries = json!([
        {"name": "one", "source": "./plain", "skills": ["./skills/a"]},
        {"name": "two", "source": "./plain/", "skills": ["./more/b"]},
    ]);
    let list = json!({"name": "market", "plugins": entries});
    write(&root.join(plugins::marketplace::FILES[1]), list.to_string());
    let home = home(&top.path().join("home"), &[]);
    for (name, skills) in [("one", "skills/a"), ("two", "more/b")] {
        let installed = home.install(&read(&root), name, None).await.unwrap();
        let found = Plugin::read(&installed.root).unwrap();
        assert_eq!(found.skills, [installed.root.join(skills)]);
        assert_eq!((found.hooks.len(), found.unused.len()), (0, 0));
    }
}

/// Files as Windows editors store them: with a byte order mark, and in UTF-16.
#[tokio::test]
async fn texts_of_every_encoding_are_read() {
    let encodings: [fn(&str) -> Vec<u8>; 3] = [
        |text| format!("\u{feff}{text}").into_bytes(),
        |text| format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        |text| format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect(),
    ];
    for encode in encodings {
        let top = folder();
        let root = top.path().join("market");
        let list = r#"{"name": "market", "plugins": [{"name": "one", "source": "./one"}]}"#;
        write(&root.join(".claude-plugin/marketplace.json"), encode(list));
        let manifest = r#"{"name": "one", "version": "é", "hooks": "./h.json"}"#;
        write(&root.join("one/.agent-plugin/plugin.json"), encode(manifest));
        write(&root.join("one/.mcp.json"), encode(r#"{"mcpServers": {"m": {"command": "x"}}}"#));
        write(&root.join("one/h.json"), encode(r#"{"hooks": {}}"#));
        let home = home(&top.path().join("home"), &[]);
        let installed = home.install(&read(&root), "one", None).await.unwrap();
        let found = Plugin::read(&installed.root).unwrap();
        assert_eq!(found.manifest.version.as_deref(), Some("é"));
        assert_eq!((found.hooks.len(), found.mcp_servers.len()), (1, 1), "{:?}", found.problems);
        assert_eq!(found.problems, []);
    }
}

#[test]
fn a_record_of_an_entry_that_somebody_changed_is_an_error() {
    let top = folder();
    write(&top.path().join(plugins::declared::FILE), r#"{"members": 3}"#);
    let error = Plugin::read(top.path()).unwrap_err().to_string();
    assert!(error.contains("install the plugin again"), "{error}");
    assert!(Plugin::read_declared(&top.path().join("none"), &Declared::default()).is_err());
}
