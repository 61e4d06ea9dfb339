//! Files of other agents' sessions and settings: whatever the bytes, entries or reasons.

use migration::{Agent, Roots, sessions};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    for agent in Agent::ALL {
        let session = sessions::parse(agent, bytes);
        assert!(session.turns.iter().all(|turn| !turn.entries.is_empty()));
        assert!(session.title.is_none_or(|title| title.chars().count() <= 120));
    }
    let folder = std::env::temp_dir().join(format!("agentd-fuzz-{}", std::process::id()));
    let roots = Roots {
        user_home: folder.clone(),
        agent_home: folder.join(".agent"),
        machine_settings: folder.join("etc"),
        project_folder: ".agent",
    };
    for name in [".claude", ".codex", ".agent"] {
        std::fs::create_dir_all(folder.join(name)).expect("a temporary folder");
    }
    for name in [".claude.json", ".claude/settings.json", ".codex/config.toml"] {
        std::fs::write(folder.join(name), bytes).expect("a temporary file");
    }
    for item in migration::detect(&roots, None).items {
        let empty = serde_json::json!({});
        for file in migration::plan(&item, &roots, &empty, &|_| true).expect("a plan").files {
            assert!(file.path.starts_with(&roots.agent_home));
        }
    }
}
