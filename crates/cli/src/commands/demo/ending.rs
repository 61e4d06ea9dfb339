//! The last words of the demo: how to connect a client, how to use a real model, and what was
//! missing on this machine.

use std::path::Path;

use jsonrpc::{Method, Notification};
use serde_json::{Value, json};

/// The beginning of a command's refusal where no sandbox can be set up.
const NO_SANDBOX: &str = "the sandbox is not available";

/// The lines, ready to print. `not_started` is why the demo's command did not run, if it did not.
pub(super) fn lines(thread: &str, folder: &Path, not_started: Option<&str>) -> Vec<String> {
    let mut lines = vec![String::new()];
    if let Some(why) = not_started {
        lines.push(format!("The command was not run: {}", why.trim()));
        if why.contains(NO_SANDBOX) {
            lines.push("`agentd doctor` says what the sandbox lacks here.".to_owned());
        }
        lines.push(String::new());
    }
    lines.push("For your own client, start `agentd app-server` and paste these lines.".to_owned());
    lines.push(String::new());
    lines.extend(messages(thread, folder).iter().map(Value::to_string));
    lines.push(String::new());
    lines.push(
        "They continue the thread above; `thread/start` instead of `thread/resume` starts a new \
         one,\nwhose id is in the answer. Everything else: docs/client.md."
            .to_owned(),
    );
    lines.push(String::new());
    lines.push("A real model:".to_owned());
    lines.push(String::new());
    lines.push("  export OPENAI_API_KEY=…".to_owned());
    lines.push("  agentd exec \"explain this folder to me\"".to_owned());
    lines.push(String::new());
    lines.push("Other providers: docs/getting-started.md.".to_owned());
    lines
}

/// A handshake and a turn that needs neither key nor approval.
fn messages(thread: &str, folder: &Path) -> [Value; 4] {
    [
        json!({"id": 0, "method": protocol::Initialize::NAME,
            "params": {"clientInfo": {"name": "by_hand", "version": "1"}}}),
        json!({"method": protocol::Initialized::NAME}),
        json!({"id": 1, "method": protocol::ThreadResume::NAME,
            "params": {"threadId": thread, "cwd": folder.display().to_string(), "model": "echo"}}),
        json!({"id": 2, "method": protocol::TurnStart::NAME,
            "params": {"threadId": thread, "input": [{"type": "text", "text": "Hello!"}]}}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_elements_are_listed_first_on_whole_lines() {
        let check = |not_started: Option<&str>, expect: &[&str]| {
            let lines = lines("t1", Path::new("/w \"x\""), not_started);
            assert!(expect.iter().all(|part| lines[1].contains(part)), "{lines:?}");
            assert_eq!(lines.iter().any(|line| line.contains("agentd doctor")), expect.len() > 1);
            let messages: Vec<Value> = lines
                .iter()
                .filter(|line| line.starts_with('{'))
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(messages.len(), 4);
            assert_eq!(messages[2]["params"]["cwd"], "/w \"x\"");
        };
        check(None, &["For your own client"]);
        check(Some("program `ls` was not found\n"), &["was not run: program `ls`"]);
        check(Some("the sandbox is not available: no Landlock"), &["was not run", "no Landlock"]);
    }
}
