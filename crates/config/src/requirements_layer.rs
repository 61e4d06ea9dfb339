//! Reads and checks one `requirements.toml`. `requirements` combines several of them.

use std::path::Path;

use crate::error::{Error, Strictness, WarningKind};
use crate::key_path::join;
use crate::kind::ReadContext;
use crate::layer::read_section;
use crate::layer_name::LayerName;
use crate::origin::Origin;
use crate::table::{AllowedMarketplace, PrefixRule, RequirementsFile, unknown_feature};
use crate::value::{Node, Table, Value};

/// One requirements file.
#[derive(Debug, Clone)]
pub(crate) struct RequirementsLayer {
    pub(crate) file: RequirementsFile,
    root: Table,
}

impl RequirementsLayer {
    /// Reads the file of `name`. Unknown keys are errors: a misspelled requirement would constrain
    /// nothing.
    pub(crate) fn read(name: LayerName) -> Result<Option<Self>, Error> {
        let Some((root, warnings)) = read_section(name, RequirementsFile::SECTION)? else {
            return Ok(None);
        };
        if let Some(unknown) = warnings.into_iter().find(|w| w.kind == WarningKind::Unknown) {
            return Err(Error::UnknownKey {
                warning: Box::new(unknown),
                strictness: Strictness::Requirement,
            });
        }
        let cx = ReadContext { cwd: Path::new("/"), user_home: None };
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
                let message = "an identity is either `command` or `url`; write exactly one of them";
                return Err(self.refused(&["mcp_servers", id, "identity"], message.to_owned()));
            }
        }
        for marketplace in self.file.plugins.allowed_marketplaces.iter().flatten() {
            if let Some(message) = mistake_in_source(marketplace) {
                let key = ["plugins", "allowed_marketplaces"];
                return Err(self.refused(&key, message.to_owned()));
            }
        }
        for (index, rule) in self.file.rules.prefix_rules.iter().enumerate() {
            if let Some(message) = mistake_in(rule) {
                let message = format!("rule {index}: {message}");
                return Err(self.refused(&["rules", "prefix_rules"], message));
            }
        }
        for key in
            ["allowed_approval_policies", "allowed_approvals_reviewers", "allowed_sandbox_modes"]
        {
            if let Some(Node { value: Value::Array(all), origin }) = self.root.get(key)
                && all.is_empty()
            {
                let message =
                    format!("`{key}` is empty and would forbid every value; list at least one");
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

    /// The origin of the command rule with this index.
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
        Error::refused(&self.origin(path), join(path), message)
    }
}

fn mistake_in_source(marketplace: &AllowedMarketplace) -> Option<&'static str> {
    let AllowedMarketplace { url, path, reference, sha } = marketplace;
    if url.is_some() == path.is_some() {
        return Some("a marketplace is either `url` or `path`; write exactly one of them");
    }
    if path.is_some() && (reference.is_some() || sha.is_some()) {
        return Some("a folder has no `ref` and no `sha`; write its repository as `url`");
    }
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_commit = |sha: &String| sha.len() == 40 && sha.bytes().all(is_digit);
    if sha.as_ref().is_some_and(|sha| !is_commit(sha)) {
        return Some("`sha` is a commit: 40 hexadecimal digits, in lower case");
    }
    None
}

fn mistake_in(rule: &PrefixRule) -> Option<&'static str> {
    if rule.pattern.is_empty() {
        return Some("`pattern` needs at least one entry");
    }
    if rule.decision.is_none() {
        return Some("`decision` is missing; write `prompt` or `forbidden`");
    }
    if rule.justification.as_deref().is_some_and(|text| text.trim().is_empty()) {
        return Some("`justification` is empty; give a reason or remove it");
    }
    let both_or_none =
        |token: &crate::table::Token| token.token.is_some() != token.any_of.is_empty();
    if rule.pattern.iter().any(both_or_none) {
        return Some(
            "each entry of `pattern` is either `token` or `any_of`; write exactly one of them",
        );
    }
    let words =
        |token: &crate::table::Token| token.token.iter().chain(&token.any_of).cloned().collect();
    if rule
        .pattern
        .iter()
        .flat_map(|token| -> Vec<String> { words(token) })
        .any(|word| word.is_empty())
    {
        return Some("`pattern` has an empty word; remove it");
    }
    None
}
