//! Edits of a request: the body stays shared and unchanged, and short pieces are inserted. The
//! edits keep the JSON valid, and do not decide when to edit.

use std::fmt::Write as _;

use bytes::Bytes;

use super::json::Span;
use super::scanned::{MAX_TOKENS, Member, ObjectEnd, Scanned, Text};

/// Changes to one body. Each member may be set at most once. A body that is not an object has no
/// members to set; only the kind `Other` accepts such a body.
#[derive(Debug, Default)]
pub struct Edits {
    replaced: Vec<(Span, String)>,
    /// Members to insert before the end of the top-level object.
    added: String,
    end: Option<ObjectEnd>,
    /// True if all members of the top-level object are removed.
    is_emptied: bool,
}

/// An edited body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The pieces in order; none is empty. Those of the original body share its memory.
    pub pieces: Vec<Bytes>,
    /// Its length in bytes.
    pub length: usize,
}

impl Edits {
    /// Creates an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.replaced.is_empty() && self.added.is_empty()
    }

    /// Replaces a JSON string, such as `model` or `service_tier`.
    pub fn set_text(&mut self, text: Text, to: &str) {
        self.replaced.push((text.span, quoted(to)));
    }

    /// Adds a `model` to a body without one.
    pub fn add_model(&mut self, scanned: &Scanned, to: &str) {
        self.set(scanned, Member::Absent, "model", quoted(to));
    }

    /// Replaces raw bytes, such as a field of a form.
    pub fn set_raw(&mut self, span: Span, to: &str) {
        self.replaced.push((span, to.to_owned()));
    }

    /// Sets `prompt_cache_retention`.
    pub fn set_prompt_cache_retention(&mut self, scanned: &Scanned, to: &str) {
        let member = scanned.prompt_cache_retention_member;
        self.set(scanned, member, "prompt_cache_retention", quoted(to));
    }

    /// Adds a member that is absent, or is removed, with ready JSON as its value.
    pub fn add_member(&mut self, scanned: &Scanned, name: &str, json: String) {
        self.set(scanned, Member::Absent, name, json);
    }

    /// Sets `max_output_tokens`.
    pub fn set_max_output_tokens(&mut self, scanned: &Scanned, tokens: u32) {
        self.set(scanned, scanned.limit_members[0], MAX_TOKENS[0], tokens.to_string());
    }

    /// Sets `max_completion_tokens`.
    pub fn set_max_completion_tokens(&mut self, scanned: &Scanned, tokens: u32) {
        self.set(scanned, scanned.limit_members[1], MAX_TOKENS[1], tokens.to_string());
    }

    /// Sets `max_tokens`.
    pub fn set_max_tokens(&mut self, scanned: &Scanned, tokens: u32) {
        self.set(scanned, scanned.limit_members[2], MAX_TOKENS[2], tokens.to_string());
    }

    /// Sets `generationConfig.maxOutputTokens` of Gemini.
    pub fn set_max_output_tokens_of_gemini(&mut self, scanned: &Scanned, tokens: u32) {
        match (scanned.limit_members[0], scanned.generation_config_end) {
            (Member::Null(span) | Member::Value(span), _) => {
                self.replaced.push((span, tokens.to_string()));
            }
            (Member::Absent, Some(ObjectEnd { at, empty })) => {
                let comma = if empty { "" } else { "," };
                let member = format!("{comma}\"maxOutputTokens\":{tokens}");
                self.replaced.push((Span { start: at, end: at }, member));
            }
            (Member::Absent, None) => {
                let whole = format!("{{\"maxOutputTokens\":{tokens}}}");
                self.set(scanned, scanned.generation_config, "generationConfig", whole);
            }
        }
    }

    /// Makes `stream_options.include_usage` true.
    pub fn include_usage(&mut self, scanned: &Scanned) {
        let options = &scanned.stream_options;
        if options.wants_usage {
            return;
        }
        match (options.include_usage, options.end) {
            (Member::Null(span) | Member::Value(span), _) => {
                self.replaced.push((span, "true".to_owned()));
            }
            (Member::Absent, Some(ObjectEnd { at, empty })) => {
                let comma = if empty { "" } else { "," };
                let member = format!("{comma}\"include_usage\":true");
                self.replaced.push((Span { start: at, end: at }, member));
            }
            (Member::Absent, None) => {
                let whole = "{\"include_usage\":true}".to_owned();
                self.set(scanned, options.member, "stream_options", whole);
            }
        }
    }

    /// Removes the members of the top-level object whose names match. They must not be set.
    pub fn remove_members(
        &mut self,
        scanned: &Scanned,
        body: &[u8],
        is_removed: impl Fn(&str) -> bool,
    ) {
        let all = &scanned.members;
        let removed: Vec<bool> = all.iter().map(|one| is_removed(&one.name.read(body))).collect();
        let last_kept = removed.iter().rposition(|is_removed| !is_removed);
        let before_kept = last_kept.unwrap_or(0);
        for at in (0..before_kept).filter(|at| removed[*at]) {
            let span = Span { start: all[at].span.start, end: all[at + 1].span.start };
            self.replaced.push((span, String::new()));
        }
        let start = match last_kept {
            Some(last) => all[last].span.end,
            None => all.first().map_or(0, |first| first.span.start),
        };
        if let Some(last) = all.last().filter(|_| removed.last() == Some(&true)) {
            self.replaced.push((Span { start, end: last.span.end }, String::new()));
            self.is_emptied = last_kept.is_none();
        }
    }

    /// Removes a range, such as a part of a form.
    pub fn remove(&mut self, span: Span) {
        self.replaced.push((span, String::new()));
    }

    fn set(&mut self, scanned: &Scanned, member: Member, key: &str, value: String) {
        self.end = scanned.end;
        match member {
            Member::Null(span) | Member::Value(span) => self.replaced.push((span, value)),
            Member::Absent => {
                let comma = if self.added.is_empty() { "" } else { "," };
                // Writing to a string cannot fail.
                let _ = write!(self.added, "{comma}\"{key}\":{value}");
            }
        }
    }

    /// Applies the changes to `body`, which must be the scanned one.
    pub fn apply(self, body: &Bytes) -> Edited {
        let Self { mut replaced, mut added, end, is_emptied } = self;
        if let (Some(ObjectEnd { at, empty }), false) = (end, added.is_empty()) {
            if !empty && !is_emptied {
                added.insert(0, ',');
            }
            replaced.push((Span { start: at, end: at }, added));
        }
        replaced.sort_by_key(|(span, _)| span.start);
        let mut pieces = Vec::with_capacity(2 * replaced.len() + 1);
        let mut at = 0;
        for (span, to) in replaced {
            // What is removed is not changed besides.
            if span.start < at {
                continue;
            }
            // Guards against spans of another body.
            let start = span.start.clamp(at, body.len());
            push(&mut pieces, body.slice(at..start));
            push(&mut pieces, Bytes::from(to));
            at = span.end.clamp(start, body.len());
        }
        push(&mut pieces, body.slice(at..));
        let length = pieces.iter().map(Bytes::len).sum();
        Edited { pieces, length }
    }
}

fn push(pieces: &mut Vec<Bytes>, piece: Bytes) {
    if !piece.is_empty() {
        pieces.push(piece);
    }
}

/// `text` as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
