//! MCP servers that the user refused in the other agent are not imported.

use std::path::{Path, PathBuf};

use migration::{Agent, Item, Kind, Roots};
use serde_json::{Value, json};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        for name in ["user/.agent", "project"] {
            std::fs::create_dir_all(files.0.path().join(name)).unwrap();
        }
        files
    }

    fn put(&self, path: &str, contents: impl ToString) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents.to_string()).unwrap();
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    /// The servers of an agent that are offered, and the reasons for the others.
    fn servers(&self, agent: Agent, project: Option<&Path>) -> (Vec<String>, String) {
        let roots = Roots {
            user_home: self.0.path().join("user"),
            agent_home: self.0.path().join("user/.agent"),
            machine_settings: self.0.path().join("etc"),
            project_folder: ".agent",
        };
        let found = migration::detect(&roots, project);
        let is_it = |item: &Item| item.kind == Kind::McpServers && item.agent == agent;
        match found.items.into_iter().find(is_it) {
            Some(item) => {
                (item.parts.into_iter().map(|part| part.name).collect(), item.left_out.join("\n"))
            }
            None => (Vec::new(), found.problems.iter().map(|one| format!("{one}\n")).collect()),
        }
    }
}

fn servers(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!({ "command": name }))).collect()
}

#[test]
fn of_claude_code() {
    let files = Files::new();
    let project = files.project();
    files.put("project/.mcp.json", json!({ "mcpServers": servers(&["a", "b", "c", "d", "e"]) }));
    files.put("project/.claude/settings.json", json!({ "disabledMcpjsonServers": ["a"] }));
    files.put("project/.claude/settings.local.json", json!({ "disabledMcpjsonServers": ["b"] }));
    files.put("user/.claude/settings.json", json!({ "disabledMcpjsonServers": ["c"] }));
    let entry = json!({ "mcpServers": servers(&["a", "f"]), "disabledMcpjsonServers": ["d"],
        "disabledMcpServers": ["f"] });
    files.put("user/.claude.json", json!({ "projects": { project.to_str().unwrap(): entry } }));
    let (offered, left_out) = files.servers(Agent::ClaudeCode, Some(&project));
    // The user's own server `a` is another one than that of `.mcp.json`.
    assert_eq!(offered, ["a", "e"]);
    for (name, file) in [
        ("a", "project/.claude/settings.json"),
        ("b", "settings.local.json"),
        ("c", "user/.claude/settings.json"),
        ("d", "`disabledMcpjsonServers` of "),
        ("f", "`disabledMcpServers` of "),
    ] {
        let line = left_out.lines().find(|line| line.starts_with(&format!("`{name}`: "))).unwrap();
        assert!(line.contains("refused") && line.contains(file), "{line}");
    }
}

#[test]
fn of_claude_code_when_that_is_unknown() {
    let files = Files::new();
    let project = files.project();
    files.put("project/.mcp.json", json!({ "mcpServers": servers(&["a"]) }));
    for (file, contents) in [
        ("user/.claude.json", "{ broken"),
        ("project/.claude/settings.local.json", "[]"),
        ("project/.claude/settings.json", r#"{"disabledMcpjsonServers": "a"}"#),
    ] {
        assert_eq!(files.servers(Agent::ClaudeCode, Some(&project)).0, ["a"], "{file}");
        files.put(file, contents);
        let (offered, why) = files.servers(Agent::ClaudeCode, Some(&project));
        assert_eq!(offered, [] as [&str; 0], "{file}");
        assert!(why.contains("whether it is refused is unknown"), "{file}: {why}");
        std::fs::remove_file(files.0.path().join(file)).unwrap();
    }
}

#[test]
fn of_gemini_cli() {
    let files = Files::new();
    let project = files.project();
    let settings = json!({ "mcpServers": servers(&["a", "b", "c"]),
        "mcp": { "excluded": ["a"], "allowed": ["a", "b"] } });
    files.put("user/.gemini/settings.json", &settings);
    let (offered, left_out) = files.servers(Agent::GeminiCli, None);
    assert_eq!(offered, ["b"]);
    assert!(left_out.contains("`a`: it is refused by `mcp.excluded`"), "{left_out}");
    assert!(left_out.contains("`c`: it is not among those of `mcp.allowed`"), "{left_out}");
    let settings = json!({ "mcpServers": servers(&["a", "b", "c"]), "excludeMCPServers": ["b"] });
    files.put("project/.gemini/settings.json", &settings);
    let (offered, why) = files.servers(Agent::GeminiCli, Some(&project));
    assert_eq!(offered, [] as [&str; 0]);
    assert!(why.contains("user/.gemini/settings.json"), "{why}");
}

#[test]
fn the_approval_mode_of_codex_is_kept_and_shown() {
    let files = Files::new();
    let config = "[mcp_servers.a]\ncommand = 'x'\ndefault_tools_approval_mode = 'approve'\n";
    files.put("user/.codex/config.toml", config);
    assert_eq!(files.servers(Agent::Codex, None), (vec!["a".to_owned()], String::new()));
}
