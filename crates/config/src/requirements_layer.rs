//! One `requirements.toml`: read, checked, and where each of its values stands. What several of them
//! mean together is for `requirements`.

use std::path::Path;

use crate::error::{Error, Origin, WarningKind};
use crate::key_path::join;
use crate::kind::Reading;
use crate::layer::read_section;
use crate::layer_name::LayerName;
use crate::table::{PrefixRule, RequirementsFile, unknown_feature};
use crate::value::{Node, Table, Value};

/// One file of requirements.
#[derive(Debug, Clone)]
pub(crate) struct RequirementsLayer {
    pub(crate) file: RequirementsFile,
    root: Table,
}

impl RequirementsLayer {
    /// Reads the file of `name`; unknown keys are errors, because a mistyped requirement would
    /// constrain nothing.
    pub(crate) fn read(name: LayerName) -> Result<Option<Self>, Error> {
        let Some((root, warnings)) = read_section(name, RequirementsFile::SECTION)? else {
            return Ok(None);
        };
        if let Some(unknown) = warnings.into_iter().find(|w| w.kind == WarningKind::Unknown) {
            return Err(Error::Strict(unknown));
        }
        let cx = Reading { cwd: Path::new("/"), user_home: None };
        let file = RequirementsFile::from_table(&root, &cx)?;
        let layer = Self { file, root };
        layer.validate()?;
        Ok(Some(layer))
    }

    fn validate(&self) -> Result<(), Error> {
        for name in self.file.features.keys() {
            if let Some(message) = unknown_feature(name) {
                return Err(self.refused(&["features", name], message));
            }
        }
        for (id, server) in self.file.mcp_servers.iter().flatten() {
            if server.identity.command.is_some() == server.identity.url.is_some() {
                let message = "an identity is either `command` or `url`: write exactly one";
                return Err(self.refused(&["mcp_servers", id, "identity"], message.to_owned()));
            }
        }
        for (index, rule) in self.file.rules.prefix_rules.iter().enumerate() {
            if let Some(message) = fault(rule) {
                let message = format!("rule {index}: {message}");
                return Err(self.refused(&["rules", "prefix_rules"], message));
            }
        }
        for key in ["allowed_approval_policies", "allowed_sandbox_modes"] {
            if let Some(Node { value: Value::Array(all), origin }) = self.root.get(key)
                && all.is_empty()
            {
                let message = format!("`{key}` allows no value at all; list at least one");
                return Err(Error::Requirements { origin: origin.clone(), message });
            }
        }
        Ok(())
    }

    pub(crate) fn origin(&self, path: &[&str]) -> Origin {
        let mut node = None;
        let mut table = Some(&self.root);
        for part in path {
            let next = table.and_then(|table| table.get(*part));
            table = match next.map(|next| &next.value) {
                Some(Value::Table(inner)) => Some(inner),
                _ => None,
            };
            node = next.or(node);
        }
        node.map_or(Origin::Process, |node| node.origin.clone())
    }

    /// Where the command rule of that number stands.
    pub(crate) fn rule_origin(&self, index: usize) -> Origin {
        let rules = match self.root.get("rules").map(|node| &node.value) {
            Some(Value::Table(rules)) => rules.get("prefix_rules"),
            _ => None,
        };
        match rules.map(|node| &node.value) {
            Some(Value::Array(all)) => all.get(index).map(|node| node.origin.clone()),
            _ => None,
        }
        .unwrap_or_else(|| self.origin(&["rules", "prefix_rules"]))
    }

    fn refused(&self, path: &[&str], message: String) -> Error {
        Error::Refused { origin: self.origin(path), key: join(path), message }
    }
}

fn fault(rule: &PrefixRule) -> Option<&'static str> {
    if rule.pattern.is_empty() {
        return Some("`pattern` needs at least one entry");
    }
    if rule.decision.is_none() {
        return Some("`decision` is missing; write `prompt` or `forbidden`");
    }
    if rule.justification.as_deref().is_some_and(|text| text.trim().is_empty()) {
        return Some("`justification` is empty; say why or leave it out");
    }
    let both_or_none =
        |token: &crate::table::Token| token.token.is_some() != token.any_of.is_empty();
    if rule.pattern.iter().any(both_or_none) {
        return Some("each entry of `pattern` is either `token` or `any_of`: write exactly one");
    }
    let words =
        |token: &crate::table::Token| token.token.iter().chain(&token.any_of).cloned().collect();
    if rule
        .pattern
        .iter()
        .flat_map(|token| -> Vec<String> { words(token) })
        .any(|word| word.is_empty())
    {
        return Some("a word of `pattern` is empty");
    }
    None
}
