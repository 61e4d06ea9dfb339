//! The matcher of a group: which tools, sources or triggers its handlers are for.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Bytes of a compiled pattern.
const MAX_PATTERN_SIZE: usize = 64 << 10;

/// A parsed matcher. An absent or empty matcher and `*` match everything; names separated by `|`
/// match exactly; anything else is a regular expression, which matches where it is found.
#[derive(Clone, Debug)]
pub enum Matcher {
    Any,
    Names(Vec<String>),
    Pattern(Regex),
}

/// A matcher that is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMatcher(String);

impl Matcher {
    /// # Errors
    /// The text is not a regular expression, or one that is too large.
    pub fn parse(text: Option<&str>) -> Result<Self, InvalidMatcher> {
        let text = text.unwrap_or_default();
        if text.is_empty() || text == "*" {
            return Ok(Self::Any);
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|' | ' ');
        if text.chars().all(is_name) {
            let names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        let built = RegexBuilder::new(text).size_limit(MAX_PATTERN_SIZE).build();
        built.map(Self::Pattern).map_err(|error| {
            InvalidMatcher(error.to_string().lines().last().unwrap_or_default().to_owned())
        })
    }

    /// Returns whether this tool, source or trigger matches.
    #[must_use]
    pub fn is_for(&self, subject: &str) -> bool {
        self.matches(true, &[subject])
    }

    /// Returns whether any of the subjects matches. An event without subjects takes every handler.
    pub(crate) fn matches(&self, has_subject: bool, subjects: &[&str]) -> bool {
        if !has_subject {
            return true;
        }
        match self {
            Self::Any => true,
            Self::Names(names) => subjects.iter().any(|it| names.iter().any(|name| name == it)),
            Self::Pattern(pattern) => subjects.iter().any(|it| pattern.is_match(it)),
        }
    }
}

impl fmt::Display for InvalidMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the matcher is not a regular expression: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_names_or_patterns() {
        let cases = [
            (None, "Bash", true),
            (Some(""), "Bash", true),
            (Some("*"), "Bash", true),
            (Some("Bash"), "Bash", true),
            (Some("Bash"), "BashOutput", false),
            (Some("Edit|Write"), "Write", true),
            (Some("Edit | Write"), "Write", true),
            (Some("Edit|Write"), "edit", false),
            (Some("mcp__memory__.*"), "mcp__memory__create", true),
            (Some("mcp__.*__delete"), "mcp__files__delete_all", true),
            (Some("^Bash$"), "BashOutput", false),
        ];
        for (matcher, subject, expected) in cases {
            let parsed = Matcher::parse(matcher).unwrap();
            assert_eq!(parsed.matches(true, &[subject]), expected, "{matcher:?} of {subject}");
        }
    }

    #[test]
    fn an_event_without_a_subject_takes_every_handler() {
        let matcher = Matcher::parse(Some("Bash")).unwrap();
        assert!(matcher.matches(false, &[]));
        assert!(!matcher.matches(true, &[]));
    }

    #[test]
    fn patterns_that_are_none_or_too_large_are_errors() {
        for text in ["(", "a{1000}{1000}", "[z-a]"] {
            let error = Matcher::parse(Some(text)).unwrap_err().to_string();
            assert!(error.starts_with("the matcher is not a regular expression: "), "{error}");
        }
    }
}
