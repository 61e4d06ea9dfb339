//! The two kinds of model servers on the user's machine: their lists of models, and the commands for them.

use serde_json::{Value, json};

/// A kind of model server on the user's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalServer {
    Ollama,
    LmStudio,
}

impl LocalServer {
    /// The path of its own list of models, from the root of the server.
    pub(crate) fn list_path(self) -> &'static str {
        match self {
            Self::Ollama => "/api/tags",
            Self::LmStudio => "/api/v0/models",
        }
    }

    /// Its own list as one that [`crate::catalog::parse_listing`] reads; anything else unchanged.
    pub(crate) fn listing(self, mut answer: Value) -> Value {
        match (self, &mut answer) {
            (Self::Ollama, Value::Object(members)) => {
                let models = members.get("models").and_then(Value::as_array);
                let Some(models) = models else { return answer };
                let named = models.iter().filter_map(|model| {
                    let name = model.get("model").or_else(|| model.get("name"))?.as_str()?;
                    Some(json!({ "id": name }))
                });
                json!({ "data": named.collect::<Vec<_>>() })
            }
            (Self::LmStudio, Value::Object(members)) => {
                if let Some(Value::Array(models)) = members.get_mut("data") {
                    models.retain(|model| {
                        !matches!(model["type"].as_str(), Some("embedding" | "embeddings"))
                    });
                }
                answer
            }
            _ => answer,
        }
    }

    /// The remedy when it does not answer.
    #[must_use]
    pub fn start(self) -> &'static str {
        match self {
            Self::Ollama => "start it with `ollama serve`",
            Self::LmStudio => "start it with `lms server start`, or in its window under Developer",
        }
    }

    /// The way to get a first model, to be appended to a sentence.
    #[must_use]
    pub fn get_any(self) -> String {
        let example = match self {
            Self::Ollama => "gpt-oss:20b",
            Self::LmStudio => "openai/gpt-oss-20b",
        };
        format!("; get one, for example with {}", self.get(example))
    }

    pub(crate) fn get(self, model: &str) -> String {
        match self {
            Self::Ollama => format!("`ollama pull {model}`"),
            Self::LmStudio => format!("`lms get {model}`"),
        }
    }

    pub(crate) fn is_same(self, listed: &str, asked: &str) -> bool {
        let tagged = self == Self::Ollama && listed.strip_suffix(":latest") == Some(asked);
        listed == asked || tagged
    }
}
