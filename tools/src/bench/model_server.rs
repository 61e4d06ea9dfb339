//! The scripted model as a server: our own binary with a scenario's script. Every measured server
//! uses the same one.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// The model's responses to the requests of a thread, in order and repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    /// One message in this many deltas, with this many milliseconds after each.
    Deltas { count: usize, delay_ms: u64 },
    /// This many messages of this many deltas of this many bytes, with a delay in milliseconds
    /// after each.
    Messages { messages: usize, deltas: usize, bytes: usize, delay_ms: u64 },
    /// For each of these numbers, a thread that starts so many agents of the role `worker` in one
    /// response and then waits for each; every other thread answers with one message.
    Agents { roots: &'static [usize] },
    /// A turn that runs `true` and then answers, then a turn that only answers.
    ToolThenNone,
}

pub(crate) struct ModelServer {
    pub(crate) base_url: String,
    child: Child,
    _script: NamedTempFile,
}

const READY: &str = "listening on ";

impl ModelServer {
    pub(crate) fn start(agentd: &Path, script: &Script) -> Result<ModelServer> {
        Self::serve(agentd, &script.json())
    }

    /// Serves a script in the format of `docs/model-server.md`.
    pub(crate) fn serve(agentd: &Path, script: &Value) -> Result<ModelServer> {
        let file = tempfile::Builder::new().suffix(".json").tempfile().context("a script file")?;
        std::fs::write(file.path(), script.to_string())?;
        let mut child = Command::new(agentd)
            .args(["model-server", "--listen", "127.0.0.1:0", "--script"])
            .arg(file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| agentd.display().to_string())?;
        let output = child.stdout.take().context("its output")?;
        // From here on `Drop` stops the child, even after an error.
        let mut server = ModelServer { base_url: String::new(), child, _script: file };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("its first line")?;
        let address = line.trim().strip_prefix(READY);
        address
            .with_context(|| format!("it printed {line:?} in place of `{READY}http://…`"))?
            .clone_into(&mut server.base_url);
        Ok(server)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // It has no state to save, and may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Script {
    /// Nickname of the n-th agent of a root of [`Script::Agents`].
    pub(crate) fn agent_name(number: usize) -> String {
        format!("agent-{number}")
    }

    /// Returns the script in the format of `docs/model-server.md`.
    fn json(&self) -> Value {
        let responses = match *self {
            Script::Deltas { count, delay_ms } => {
                let message =
                    json!({"chunks": ["word "], "repeat": count, "chunk_delay_ms": delay_ms});
                vec![json!({"steps": [{"message": message}]})]
            }
            Script::Messages { messages, deltas, bytes, delay_ms } => {
                let chunks = ["x".repeat(bytes)];
                let message =
                    json!({"chunks": chunks, "repeat": deltas, "chunk_delay_ms": delay_ms});
                vec![json!({"steps": vec![json!({"message": message}); messages]})]
            }
            Script::Agents { roots } => agents(roots),
            Script::ToolThenNone => {
                let call = json!({"name": "exec_command", "arguments": {"cmd": "true"}});
                let done = json!({"steps": [{"message": "done"}]});
                vec![json!({"steps": [{"function_call": call}]}), done.clone(), done]
            }
        };
        json!({"responses": responses, "on_exhausted": "restart"})
    }
}

/// The responses of [`Script::Agents`]. The model counts conversations: each root is followed by its
/// agents.
fn agents(roots: &[usize]) -> Vec<Value> {
    let call = |name: &str, arguments: Value| json!({"function_call": {"name": name, "arguments": arguments}});
    let spawn = call("spawn_agent", json!({"agent_type": "worker", "message": "work"}));
    let wait = |number: usize| {
        let targets = [Script::agent_name(number)];
        call("wait_agent", json!({"targets": targets, "timeout_ms": 60_000}))
    };
    let mut responses = Vec::new();
    let mut conversation = 0;
    for &count in roots {
        for steps in [
            vec![spawn.clone(); count],
            (0..count).map(wait).collect(),
            vec![json!({"message": "done"})],
        ] {
            responses.push(json!({"conversation": conversation, "steps": steps}));
        }
        conversation += 1 + count;
    }
    responses.push(json!({"steps": [{"message": {"chunks": ["word "]}}]}));
    responses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_the_documented_shape() {
        assert_eq!(
            Script::Deltas { count: 2, delay_ms: 0 }.json(),
            json!({
                "on_exhausted": "restart",
                "responses": [{"steps": [{"message": {"chunks": ["word "], "repeat": 2, "chunk_delay_ms": 0}}]}],
            })
        );
        let messages = Script::Messages { messages: 3, deltas: 2, bytes: 5, delay_ms: 1 }.json();
        let steps = &messages["responses"][0]["steps"];
        assert_eq!(steps.as_array().map(Vec::len), Some(3));
        assert_eq!(steps[2]["message"]["chunks"], json!(["xxxxx"]));
        let tool = Script::ToolThenNone.json();
        assert_eq!(tool["responses"].as_array().map(Vec::len), Some(3));
        assert_eq!(tool["responses"][0]["steps"][0]["function_call"]["name"], "exec_command");
    }
}
