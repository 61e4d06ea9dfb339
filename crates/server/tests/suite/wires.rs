//! The agent on every wire of model servers: the same turns, the same history, and a thread that goes on after whatever
//! a server sends. Requests are checked by the scripted model, which is as strict as the providers.

mod broken;
mod long_threads;
mod quirks;
mod streams;
mod turns;

use serde_json::Value;
use testkit::{Peer, TestEnvironment};

/// Names of the wires, as `wire_api` has them.
pub(crate) const WIRES: [&str; 4] = ["responses", "messages", "chat", "gemini"];

/// A model of the wire.
pub(crate) fn model(wire: &str) -> &'static str {
    match wire {
        "messages" => "claude-sonnet-5",
        "gemini" => "gemini-3-pro",
        "chat" => "some-model",
        _ => "gpt-5",
    }
}

/// The address of the scripted model without a path.
pub(crate) fn origin(env: &TestEnvironment) -> String {
    env.model().base_url().trim_end_matches("/v1").to_owned()
}

/// Configures the provider `w` at `origin`. `top` and `more`: lines before the tables, and of the provider.
pub(crate) fn configure(env: &TestEnvironment, wire: &str, origin: &str, top: &str, more: &str) {
    let version = if matches!(wire, "responses" | "chat") { "/v1" } else { "" };
    env.write_config(&format!(
        "model = \"{}\"\nmodel_provider = \"w\"\n{top}\n[model_providers.w]\nname = \"W\"\n\
         base_url = \"{origin}{version}\"\nwire_api = \"{wire}\"\n{more}\n",
        model(wire)
    ));
}

/// The last count of the tokens of a thread.
pub(crate) fn total_usage(peer: &Peer) -> Value {
    let lines = peer.raw_lines().iter().rev();
    let mut counts = lines.filter(|line| line.contains("\"thread/tokenUsage/updated\""));
    let line: Value = serde_json::from_str(counts.next().unwrap()).unwrap();
    line["params"]["tokenUsage"]["total"].clone()
}

/// The text of the last message of the agent in a turn's items.
pub(crate) fn last_message(turn: &Value) -> String {
    let items = turn["items"].as_array().unwrap().iter().rev();
    let mut messages = items.filter(|item| item["type"] == "agentMessage");
    messages.next().map(|item| item["text"].as_str().unwrap().to_owned()).unwrap_or_default()
}
