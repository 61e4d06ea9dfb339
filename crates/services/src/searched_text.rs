//! The texts of stored items that are searched: messages, commands, and names of changed files.

use serde::Deserialize;
use store::ItemTexts;

/// For the index of the store.
pub const TEXTS: ItemTexts = ItemTexts {
    kinds: &["userMessage", "agentMessage", "plan", "commandExecution", "fileChange"],
    text,
};

/// The text of a stored item, by its kind; other members are skipped.
fn text(kind: &str, payload: &str) -> Option<String> {
    let item: Searched = serde_json::from_str(payload).ok()?;
    match kind {
        "userMessage" => Some(item.written()),
        "agentMessage" | "plan" => item.text,
        "commandExecution" => item.command,
        "fileChange" => {
            let paths: Vec<String> = item.changes.into_iter().map(|change| change.path).collect();
            Some(paths.join("\n"))
        }
        _ => None,
    }
}

/// The text of a stored message of the user or of the agent.
pub fn message(kind: &str, payload: &str) -> Option<String> {
    matches!(kind, "userMessage" | "agentMessage").then(|| text(kind, payload)).flatten()
}

/// The searched members of all kinds of items.
#[derive(Deserialize)]
struct Searched {
    text: Option<String>,
    command: Option<String>,
    #[serde(default)]
    content: Vec<Part>,
    #[serde(default)]
    changes: Vec<ChangedFile>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    /// Of a mention or a skill.
    name: Option<String>,
    /// Of an image file, a mention or a skill.
    path: Option<String>,
}

#[derive(Deserialize)]
struct ChangedFile {
    path: String,
}

impl Searched {
    /// The texts that the user wrote or named. Images by URL have none.
    fn written(&self) -> String {
        let parts = self.content.iter();
        let texts: Vec<&str> = parts
            .flat_map(|part| [&part.text, &part.name, &part.path])
            .filter_map(Option::as_deref)
            .collect();
        texts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use protocol::*;
    use serde_json::{from_value, json, to_string};

    use super::*;

    #[test]
    fn items_as_they_are_stored_have_their_texts() {
        let check = |item: serde_json::Value, expected: &str| {
            let item: ThreadItem = from_value(item).unwrap();
            let kind = item.kind().name();
            assert!(TEXTS.kinds.contains(&kind), "{kind}");
            assert_eq!(text(kind, &to_string(&item).unwrap()).as_deref(), Some(expected));
        };
        check(
            json!({ "type": "userMessage", "id": "1", "content": [
                { "type": "text", "text": "look at" },
                { "type": "image", "url": "data:image/png;base64,AAAA" },
                { "type": "localImage", "path": "/a/b.png" },
                { "type": "mention", "name": "the app", "path": "app://x" },
            ] }),
            "look at\n/a/b.png\nthe app\napp://x",
        );
        check(json!({ "type": "agentMessage", "id": "1", "text": "done" }), "done");
        check(json!({ "type": "plan", "id": "1", "text": "first" }), "first");
        check(
            json!({ "type": "commandExecution", "id": "1", "command": "cargo test", "cwd": "/",
                "status": "completed", "commandActions": [], "aggregatedOutput": "not searched" }),
            "cargo test",
        );
        check(
            json!({ "type": "fileChange", "id": "1", "status": "completed", "changes": [
                { "path": "/src/main.rs", "kind": { "type": "add" }, "diff": "not searched" },
                { "path": "/src/lib.rs", "kind": { "type": "add" }, "diff": "" },
            ] }),
            "/src/main.rs\n/src/lib.rs",
        );
        assert_eq!(text("userMessage", "damaged"), None);
        assert_eq!(message("commandExecution", "{\"command\":\"x\"}"), None);
    }
}
