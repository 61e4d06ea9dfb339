//! The tools of a server, as its pages list them: bounded in number and size, without duplicates, and
//! with a digest of each, by which a call is bound to the tool that was offered.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::definition::Definition;
use crate::depth;
use crate::digest::Digest;
use crate::error::quoted;
use crate::skills::Skill;

/// Tools of a server; further ones are left out with a warning.
const MAX_TOOLS: usize = 1000;
/// Bytes of all tools of a server, as JSON.
const MAX_BYTES: usize = 8 << 20;
/// Bytes of one tool, as JSON: each request to the model has it.
const MAX_TOOL_BYTES: usize = 64 << 10;
/// Longest name, in characters.
const MAX_NAME: usize = 256;
/// Tools that a warning names.
const MAX_NAMED: usize = 5;

/// The tools that a server offers and the configuration lets through, and its skills, in the server's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// Grows with each start of a server and each change of a list; no two lists have the same.
    pub generation: u64,
    pub tools: Vec<Arc<Tool>>,
    pub skills: Vec<Arc<Skill>>,
    /// The definitions that were left out.
    pub warnings: Vec<String>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    /// Of the whole definition.
    pub digest: Digest,
    pub hints: Hints,
    /// As the server defines it; hidden characters of titles and descriptions are visible.
    pub json: Value,
    /// The schema of its arguments for models ([`crate::schema::for_model`]).
    pub parameters: Value,
}

/// A server's own description of a tool's effects. Believed only where the server is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

impl Catalog {
    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Collects the pages of a list.
pub(crate) struct Builder<'d> {
    definition: &'d Definition,
    names: HashSet<String>,
    bytes: usize,
    tools: Vec<Arc<Tool>>,
    duplicates: Vec<String>,
    /// Names of tools, each with the reason why it is left out.
    unusable: Vec<(String, String)>,
    omitted: usize,
}

impl<'d> Builder<'d> {
    pub(crate) fn new(definition: &'d Definition) -> Self {
        let (names, tools) = (HashSet::new(), Vec::new());
        let (duplicates, unusable) = (Vec::new(), Vec::new());
        Self { definition, names, bytes: 0, tools, duplicates, unusable, omitted: 0 }
    }

    /// Adds a page. Returns whether further ones can add anything.
    pub(crate) fn add(&mut self, page: Vec<Value>) -> bool {
        for tool in page {
            self.add_tool(tool);
        }
        self.omitted == 0
    }

    fn add_tool(&mut self, mut json: Value) {
        let name = json.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_shown = !name.chars().any(visible::is_hidden);
        if name.is_empty() || name.chars().count() > MAX_NAME || !is_shown {
            return self.leave_out(&name, "has no name that can be used".to_owned());
        }
        if self.names.contains(&name) {
            return self.duplicates.push(name);
        }
        if !self.definition.offers(&name) {
            self.names.insert(name);
            return;
        }
        if let Some(reason) = depth::problem_of_tool(&json) {
            return self.leave_out(&name, reason);
        }
        show(&mut json);
        let text = json.to_string();
        if text.len() > MAX_TOOL_BYTES {
            let kib = MAX_TOOL_BYTES >> 10;
            return self.leave_out(&name, format!("is defined in more than {kib} KiB"));
        }
        if self.tools.len() >= MAX_TOOLS || self.bytes + text.len() > MAX_BYTES {
            self.omitted += 1;
            return;
        }
        let schema = json.get("inputSchema").unwrap_or(&Value::Null);
        let parameters = match crate::schema::for_model(schema) {
            Ok(parameters) => parameters,
            Err(reason) => return self.leave_out(&name, reason),
        };
        self.bytes += text.len();
        self.names.insert(name.clone());
        let (digest, hints) = (Digest::of_bytes(text.as_bytes()), hints(&json));
        self.tools.push(Arc::new(Tool { name, digest, hints, json, parameters }));
    }

    fn leave_out(&mut self, name: &str, reason: String) {
        self.unusable.push((quoted(name), reason));
    }

    /// `is_whole`: no page is missing.
    pub(crate) fn finish(self, generation: u64, is_whole: bool) -> Catalog {
        let server = &self.definition.name;
        let mut warnings = Vec::new();
        if !self.unusable.is_empty() {
            let reasons = self.unusable.iter().map(|(name, reason)| format!("`{name}` {reason}"));
            warnings.push(format!(
                "the server `{server}` lists tools that cannot be offered and are left out: {}",
                first(reasons.collect(), "; ")
            ));
        }
        if !self.duplicates.is_empty() {
            warnings.push(format!(
                "the server `{server}` lists tools twice; the first one counts: {}",
                named(&self.duplicates)
            ));
        }
        if self.omitted > 0 || !is_whole {
            let omitted = match (self.omitted, is_whole) {
                (omitted, true) => format!(", and {omitted} are left out"),
                // The pages that follow are not read.
                (0, false) => String::new(),
                (omitted, false) => format!(", and at least {omitted} are left out"),
            };
            warnings.push(format!(
                "the server `{server}` lists too many tools: only the first {} are offered{omitted}; \
                 choose those that you need with `enabled_tools`",
                self.tools.len()
            ));
        }
        Catalog { generation, tools: self.tools, skills: Vec::new(), warnings }
    }
}

fn named(names: &[String]) -> String {
    first(names.iter().map(|name| format!("`{name}`")).collect(), ", ")
}

/// The first of several things, and how many more there are.
fn first(mut all: Vec<String>, separator: &str) -> String {
    let rest = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    match rest {
        0 => all.join(separator),
        rest => format!("{} and {rest} more", all.join(separator)),
    }
}

fn hints(json: &Value) -> Hints {
    let hint = |name: &str| json.get("annotations")?.get(name)?.as_bool();
    Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// Makes hidden characters of titles and descriptions visible. The depth is that of parsed JSON.
pub(crate) fn show(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if matches!(key.as_str(), "title" | "description") => {
                        *text = visible::text(text).into_owned();
                    }
                    value => show(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(show),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::definition::Transport;

    fn definition(enabled: Option<&[&str]>, disabled: &[&str]) -> Definition {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Definition {
            name: "s".to_owned(),
            transport: Transport::Unusable(String::new()),
            enabled_tools: enabled.map(owned),
            disabled_tools: owned(disabled),
            startup_timeout: Duration::ZERO,
            tool_timeout: Duration::ZERO,
        }
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn unusable_tools_duplicates_and_filters() {
        let definition = definition(Some(&["a", "b", "d"]), &["d"]);
        let mut builder = Builder::new(&definition);
        let mut second = tool("a");
        second["description"] = "other".into();
        let odd = vec![json!(1), json!({"name": "b"}), tool("x\u{202e}"), tool(&"n".repeat(257))];
        assert!(builder.add(vec![tool("a"), tool("c"), tool("d"), second]));
        assert!(builder.add(odd));
        let catalog = builder.finish(3, true);
        let names: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((catalog.generation, names), (3, vec!["a"]));
        assert!(catalog.tool("a").unwrap().json.get("description").is_none());
        let warnings = catalog.warnings.join("\n");
        assert!(
            warnings.contains("`` has no name that can be used; `b` has no object"),
            "{warnings}"
        );
        assert!(warnings.contains("`x\\u{202e}` has no name"), "{warnings}");
        assert!(warnings.contains("twice; the first one counts: `a`"), "{warnings}");
    }

    #[test]
    fn a_tool_that_is_too_long_for_requests_is_left_out() {
        let definition = definition(None, &[]);
        let mut builder = Builder::new(&definition);
        let mut long = tool("long");
        long["inputSchema"]["description"] = "x".repeat(MAX_TOOL_BYTES).into();
        assert!(builder.add(vec![long, tool("short")]));
        let catalog = builder.finish(1, true);
        assert!(catalog.tool("long").is_none() && catalog.tool("short").is_some());
        let warning = "lists tools that cannot be offered and are left out: `long` is defined in more than 64 KiB";
        assert!(catalog.warnings[0].ends_with(warning), "{:?}", catalog.warnings);
    }

    #[test]
    fn five_thousand_tools_are_cut_with_a_warning() {
        let definition = definition(None, &[]);
        let mut builder = Builder::new(&definition);
        let page = (0..5000).map(|number| tool(&format!("t{number}"))).collect();
        assert!(!builder.add(page));
        let catalog = builder.finish(1, true);
        assert_eq!(catalog.tools.len(), MAX_TOOLS);
        let warning = "only the first 1000 are offered, and 4000 are left out";
        assert!(catalog.warnings[0].contains(warning), "{:?}", catalog.warnings);
    }

    #[test]
    fn a_digest_is_that_of_the_definition() {
        let definition = definition(None, &[]);
        let digest = |json: Value| {
            let mut builder = Builder::new(&definition);
            builder.add(vec![json]);
            builder.finish(1, true).tools[0].digest
        };
        let mut other = tool("a");
        other["inputSchema"]["properties"] = json!({"x": {}});
        assert_eq!(digest(tool("a")), digest(tool("a")));
        assert_ne!(digest(tool("a")), digest(other));
    }
}
