//! Names of tools and ids of calls as a wire allows them, and the way back. A name that a wire refuses is replaced by
//! one that depends on it alone, so that the bytes of a history do not change from request to request.

use std::borrow::Cow;

use crate::request::{Function, Request, Tool};

/// Longest name of a tool that every provider takes, in bytes.
pub const MAX_TOOL_NAME: usize = 64;

/// Longest id of a call, in bytes.
const MAX_CALL_ID: usize = 64;

/// A tool as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolName {
    pub name: String,
    pub namespace: Option<String>,
    pub form: ToolForm,
}

/// The form in which calls of a tool are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolForm {
    Function,
    /// Free text, sent as a function with the one string `input`.
    Custom,
    /// The client's search of tools, sent as a function.
    Search,
}

/// The tools of a request by the names on another wire. A response is decoded with the table of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolTable(Vec<(String, ToolName)>);

impl ToolTable {
    pub(crate) fn of_request(request: &Request<'_>) -> Self {
        let mut table = Self::default();
        for tool in &request.tools {
            match tool {
                Tool::Function(Function { name, .. }) => table.add(None, name, ToolForm::Function),
                Tool::Custom { name, .. } => table.add(None, name, ToolForm::Custom),
                Tool::Namespace { name, tools, .. } => {
                    tools
                        .iter()
                        .for_each(|tool| table.add(Some(name), &tool.name, ToolForm::Function));
                }
                Tool::ToolSearch { .. } => table.add(None, "tool_search", ToolForm::Search),
                Tool::WebSearch(_) | Tool::Hosted { .. } => {}
            }
        }
        table
    }

    fn add(&mut self, namespace: Option<&str>, name: &str, form: ToolForm) {
        let wire = wire_name(namespace, name).into_owned();
        let namespace = namespace.map(str::to_owned);
        self.0.push((wire, ToolName { name: name.to_owned(), namespace, form }));
    }

    /// The tool that the other wire calls `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ToolName> {
        self.0.iter().find(|(wire, _)| wire == name).map(|(_, tool)| tool)
    }

    /// True if two tools have one name on the other wire.
    pub(crate) fn duplicate(&self) -> Option<&str> {
        let is_twice = |at: &usize| self.0[..*at].iter().any(|(name, _)| *name == self.0[*at].0);
        (0..self.0.len()).find(is_twice).map(|at| self.0[at].0.as_str())
    }
}

/// The name of a tool on wires that allow `[a-zA-Z0-9_-]{1,64}`.
#[must_use]
pub fn wire_name<'a>(namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
    match namespace {
        None => allowed(Cow::Borrowed(name), MAX_TOOL_NAME),
        Some(namespace) => {
            allowed(Cow::Borrowed(format!("{namespace}__{name}").as_str()), MAX_TOOL_NAME)
                .into_owned()
                .into()
        }
    }
}

/// The id of a call on wires that allow `[a-zA-Z0-9_-]+`; `repeated` is the number of earlier calls with this id.
#[must_use]
pub fn wire_call_id(id: &str, repeated: usize) -> Cow<'_, str> {
    match repeated {
        0 => allowed(Cow::Borrowed(id), MAX_CALL_ID),
        _ => allowed(Cow::Borrowed(format!("{id}_r{repeated}").as_str()), MAX_CALL_ID)
            .into_owned()
            .into(),
    }
}

/// An id of exactly nine letters and digits, as Mistral demands.
#[must_use]
pub fn short_call_id(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let mut rest = hash(id);
    let digits = (0..9).map(|_| {
        let digit = u32::try_from(rest % 36).unwrap_or_default();
        rest /= 36;
        char::from_digit(digit, 36).unwrap_or('0')
    });
    Cow::Owned(digits.collect())
}

fn allowed(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !text.is_empty() && text.len() <= max && text.bytes().all(is_allowed) {
        return text;
    }
    // The hash keeps texts apart that differ in the replaced characters alone.
    let mark = format!("_{:08x}", hash(&text) & 0xffff_ffff);
    let kept = text.chars().take(max - mark.len()).map(|c| {
        let byte = u8::try_from(c).unwrap_or(b'.');
        if is_allowed(byte) { c } else { '_' }
    });
    Cow::Owned(kept.collect::<String>() + &mark)
}

/// FNV-1a: stable from version to version, unlike the standard library's.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn allowed_names_stay_and_others_are_replaced() {
        assert_eq!(wire_name(None, "apply_patch"), "apply_patch");
        assert_eq!(wire_name(Some("mcp"), "read"), "mcp__read");
        let dotted = wire_name(None, "a.b");
        assert!(dotted.starts_with("a_b_") && dotted != wire_name(None, "a/b"));
        assert_eq!(short_call_id("abcDEF123"), "abcDEF123");
        assert_ne!(wire_call_id("call_1", 0), wire_call_id("call_1", 1));
    }

    proptest! {
        #[test]
        fn names_and_ids_are_always_allowed(text in any::<String>(), repeated in 0..3_usize) {
            let is_allowed =
                |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let name = wire_name(None, &text);
            prop_assert!(!name.is_empty() && name.len() <= MAX_TOOL_NAME && is_allowed(&name));
            let id = wire_call_id(&text, repeated);
            prop_assert!(!id.is_empty() && id.len() <= MAX_CALL_ID && is_allowed(&id));
            let short = short_call_id(&text);
            prop_assert!(short.len() == 9 && short.bytes().all(|b| b.is_ascii_alphanumeric()));
        }
    }
}
