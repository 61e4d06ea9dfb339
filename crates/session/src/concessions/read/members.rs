//! Members of a request, of its items and of its tools that a refusal names.

use std::collections::BTreeSet;

use super::{NEEDED, Refused, member_paths};
use crate::port::concession::Concession;

/// Words for a member that a provider does not know.
const UNKNOWN: [&str; 26] = [
    "unsupported",
    "unknown parameter",
    "unknown_parameter",
    "unknown param",
    "unknown property",
    "unknown member",
    "unknown key",
    "unknown field",
    "unknown argument",
    "unknown name",
    "unrecognized",
    "not recognized",
    "unexpected",
    "extra input",
    "extra_forbidden",
    "extra field",
    "additional propert",
    "not permitted",
    "not allowed",
    "not supported",
    "n't supported",
    "does not support",
    "doesn't support",
    "cannot find field",
    "not a valid param",
    "invalid param",
];

/// Words for a value that a provider does not take, of a member that it knows.
const VALUE: [&str; 5] =
    ["unsupported value", "unsupported_value", "invalid value", "invalid_value", "invalid_enum"];

/// Members of a request that it can do without, by the names that refusals have for them: those of the API,
/// and those of other APIs into which routers translate them. Longer names are before those that they contain.
const PARAMETERS: [(&str, &str); 24] = [
    ("reasoning.summary", "reasoning.summary"),
    ("reasoning.generate_summary", "reasoning.summary"),
    ("reasoning_summary", "reasoning.summary"),
    ("reasoning.effort", "reasoning.effort"),
    ("reasoning_effort", "reasoning.effort"),
    ("reasoningeffort", "reasoning.effort"),
    ("reasoning", "reasoning"),
    ("thinking", "reasoning"),
    ("parallel_tool_calls", "parallel_tool_calls"),
    ("parallel tool calls", "parallel_tool_calls"),
    ("disable_parallel_tool_use", "parallel_tool_calls"),
    ("tool_choice", "tool_choice"),
    ("prompt_cache_key", "prompt_cache_key"),
    ("service_tier", "service_tier"),
    ("text.verbosity", "text.verbosity"),
    ("verbosity", "text.verbosity"),
    ("text.format.strict", "text.format.strict"),
    ("text.format", "text.format"),
    ("response_format", "text.format"),
    ("include[0]", "include"),
    ("include", "include"),
    ("store", "store"),
    ("instructions", "instructions"),
    ("text", "text"),
];

/// The only value of `include`.
const INCLUDED: &str = "reasoning.encrypted_content";

impl Refused {
    /// Members of the request that the provider does not know.
    pub(super) fn named_parameters(&self) -> Vec<Concession> {
        let parameter = |name: &str| Concession::Parameter(name.to_owned());
        let mut found = Vec::new();
        // A value that a request can do without like its member.
        let includes = self.wrong.contains("encrypted content is not supported");
        if self.names(INCLUDED) || includes {
            found.push(parameter("include"));
        }
        if !self.says(&UNKNOWN) || self.says(&VALUE) {
            return found;
        }
        let is_item = self.says(&["item"]);
        let named = PARAMETERS.iter().filter(|(name, parameter)| {
            // The type of an item has the same name.
            self.names(name) && !(is_item && *parameter == "reasoning")
        });
        found.extend(named.map(|(_, name)| parameter(name)));
        found
    }

    /// A member of items that the provider does not know, and names without its place.
    pub(super) fn named_member(&self) -> Option<Concession> {
        if !self.says(&UNKNOWN) || self.says(&VALUE) {
            return None;
        }
        let mut paths = BTreeSet::new();
        self.items.iter().for_each(|item| member_paths(item, "", &mut paths));
        let is_named = |path: &&String| {
            let name = path.rsplit('.').next().unwrap_or(path);
            !NEEDED.contains(&name) && name != "id" && self.names(&name.to_lowercase())
        };
        paths.iter().find(is_named).map(|path| Concession::Member(path.clone()))
    }

    /// A member of tools, or a keyword of their schemas, that the provider does not know.
    pub(super) fn named_tool_member(&self) -> Option<Concession> {
        if !self.says(&UNKNOWN) || self.says(&VALUE) {
            return None;
        }
        let is_named = |path: &&String| {
            let name = path.rsplit('.').next().unwrap_or(path);
            self.names(&name.to_lowercase())
        };
        let path = self.tool_members.iter().find(is_named)?;
        Some(Concession::ToolMember(path.clone()))
    }

    pub(super) fn names_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.names(name))
    }

    /// Returns whether the text names `name` as a word; a plain word of English only where it is between marks, or
    /// stands alone after a colon or before a verb.
    fn names(&self, name: &str) -> bool {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_part = |c: char| c.is_alphanumeric() || "_.[$".contains(c);
        self.wrong.match_indices(name).any(|(at, _)| {
            let (before, after) = (&self.wrong[..at], &self.wrong[at + name.len()..]);
            // The root of a path is no part of it.
            let before = ["body.", "request.", "$."]
                .iter()
                .find_map(|root| before.strip_suffix(root))
                .unwrap_or(before);
            // The end of a sentence is no part of a path.
            let ends = after.strip_prefix('.').unwrap_or(after).chars().next();
            let is_word =
                !before.ends_with(is_part) && ends.is_none_or(|c| !is_part(c) || c == '.');
            let is_marked = before.ends_with(['\'', '`', '"', '(', '[', '{', '/'])
                && after.starts_with(['\'', '`', '"', ')', ']', '}', ',', ':', ';', ' '])
                || (before.ends_with('/') && after.is_empty());
            let is_alone = (before.trim().is_empty() || before.ends_with([':', ' ']))
                && (after.trim().is_empty() || after.starts_with(':') || after.trim() == ".");
            let is_subject =
                ["parameter ", "parameter: ", "field ", "field: ", "argument ", "property "]
                    .iter()
                    .any(|noun| before.ends_with(noun))
                    || ((before.trim().is_empty() || before.ends_with(": "))
                        && [" is not ", " is un", " not "]
                            .iter()
                            .any(|verb| after.starts_with(verb)));
            is_word && (!is_plain || is_marked || is_alone || is_subject)
        })
    }
}
