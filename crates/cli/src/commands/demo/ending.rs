//! What the demo says last: how to connect a client, how to use a real model, and what was missing
//! on this machine.

use std::path::Path;

use serde_json::{Value, json};

/// The address in the example: any service with the Responses API has one.
const BASE_URL: &str = "https://api.openai.com/v1";

/// The lines, ready to print. `not_started` is why the demo's command did not run, if it did not.
pub(super) fn lines(thread: &str, folder: &Path, not_started: Option<&str>) -> Vec<String> {
    let mut lines = vec![String::new()];
    if let Some(why) = not_started {
        lines.push("The command was not run, because no sandbox could be set up here:".to_owned());
        lines.push(format!("  {}", why.trim()));
        lines.push(
            "Install the package `bubblewrap` (`apt install bubblewrap`), then try again."
                .to_owned(),
        );
        lines.push(String::new());
    }
    lines.push("A client of your own: start `agentd app-server` and paste these lines.".to_owned());
    lines.push(String::new());
    lines.extend(messages(thread, folder).iter().map(Value::to_string));
    lines.push(String::new());
    lines.push(
        "They go on with the thread above; `thread/start` in place of `thread/resume` begins a new \
         one,\nwhose id is in the answer. Everything else: docs/client.md."
            .to_owned(),
    );
    lines.push(String::new());
    lines.push("A real model:".to_owned());
    lines.push(String::new());
    lines.push("  export AGENT_API_KEY=…".to_owned());
    lines.push(format!("  agentd exec -c default_provider_base_url={BASE_URL} \\"));
    lines.push("    \"explain this folder to me\"".to_owned());
    lines.push(String::new());
    lines.push("or once and for all, in config.toml: docs/getting-started.md.".to_owned());
    lines
}

/// A handshake and a turn that needs neither key nor approval.
fn messages(thread: &str, folder: &Path) -> [Value; 4] {
    [
        json!({"id": 0, "method": "initialize",
            "params": {"clientInfo": {"name": "by_hand", "version": "1"}}}),
        json!({"method": "initialized"}),
        json!({"id": 1, "method": "thread/resume",
            "params": {"threadId": thread, "cwd": folder.display().to_string(), "model": "echo"}}),
        json!({"id": 2, "method": "turn/start",
            "params": {"threadId": thread, "input": [{"type": "text", "text": "Hello!"}]}}),
    ]
}
