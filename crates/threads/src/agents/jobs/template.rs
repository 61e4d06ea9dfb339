//! The instruction of a job: text with `{column}` for the values of a row, and `{{` and `}}` for
//! braces.

use std::collections::HashMap;

use session::ToolError;

use super::NAME;

/// Columns that an error lists.
const MAX_LISTED: usize = 30;

/// An instruction that was parsed for the columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The column at this position.
    Column(usize),
}

impl Template {
    /// # Errors
    /// A brace has no counterpart, or there is no such column.
    pub(super) fn parse(text: &str, columns: &[String]) -> Result<Self, ToolError> {
        let at: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(brace) = rest.find(['{', '}']) {
            plain.push_str(&rest[..brace]);
            let from = &rest[brace..];
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some(after) = from.strip_prefix('{') {
                let Some(end) = after.find('}') else { return Err(unmatched('{', text, from)) };
                let name = &after[..end];
                let column = at.get(name).or_else(|| at.get(name.trim()));
                let column = *column.ok_or_else(|| unknown(name, columns))?;
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Column(column));
                rest = &after[end + 1..];
            } else {
                return Err(unmatched('}', text, from));
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self(parts))
    }

    /// The text for a row; `None` when it has more than `max` bytes.
    pub(super) fn render(&self, row: &[String], max: usize) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            let part = match part {
                Part::Text(text) => text.as_str(),
                // The rows are as wide as the header.
                Part::Column(at) => row.get(*at).map_or("", String::as_str),
            };
            if text.len() + part.len() > max {
                return None;
            }
            text.push_str(part);
        }
        Some(text)
    }
}

fn unmatched(brace: char, text: &str, from: &str) -> ToolError {
    let line = text[..text.len() - from.len()].matches('\n').count() + 1;
    ToolError::new(format!(
        "{NAME}: line {line} of `instruction` has a `{brace}` without its counterpart; write \
         `{brace}{brace}` for the character itself"
    ))
}

fn unknown(name: &str, columns: &[String]) -> ToolError {
    let shown: String = name.chars().take(80).collect();
    let mut known = columns.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>();
    if columns.len() > MAX_LISTED {
        known.push("…");
    }
    ToolError::new(format!(
        "{NAME}: `instruction` names the column `{{{shown}}}`, which the file does not have; its \
         columns are {}. Write `{{{{` and `}}}}` for braces that are no column",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn columns_are_replaced_and_braces_are_escaped() {
        let columns = columns(&["name", "a b", "ünï"]);
        let row: Vec<String> = ["{name}", "2", "}"].map(str::to_owned).to_vec();
        for (text, expected) in [
            ("", Ok("")),
            ("plain", Ok("plain")),
            ("Look at {name}.", Ok("Look at {name}.")),
            ("{name}{a b}{ünï}", Ok("{name}2}")),
            ("{ a b }", Ok("2")),
            ("{{name}}", Ok("{name}")),
            ("{{{a b}}}", Ok("{2}")),
            ("{\"x\": 1}", Err("`{\"x\": 1}`, which the file does not have")),
            ("{}", Err("which the file does not have; its columns are name, a b, ünï")),
            ("{Name}", Err("which the file does not have")),
            ("one\n{name", Err("line 2 of `instruction` has a `{` without")),
            ("one }", Err("line 1 of `instruction` has a `}` without")),
            ("{{name}", Err("has a `}` without")),
        ] {
            match (Template::parse(text, &columns), expected) {
                (Ok(template), Ok(expected)) => {
                    assert_eq!(template.render(&row, 100).as_deref(), Some(expected), "{text}");
                }
                (Err(error), Err(part)) => {
                    assert!(error.message().contains(part), "{text}: {}", error.message());
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        let template = Template::parse("{name}{name}", &columns).unwrap();
        assert_eq!(template.render(&row, 11), None);
    }

    proptest! {
        #[test]
        fn escaped_text_is_itself(text in any::<String>(), value in any::<String>()) {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            let template = Template::parse(&format!("{escaped}{{c}}{escaped}"), &columns(&["c"]));
            let row = [value.clone()];
            let rendered = template.unwrap().render(&row, usize::MAX);
            prop_assert_eq!(rendered, Some(format!("{text}{value}{text}")));
        }

        #[test]
        fn any_instruction_is_parsed_or_refused(text in "[{}a-c ]{0,30}") {
            let columns = columns(&["a", "b c"]);
            if let Ok(template) = Template::parse(&text, &columns) {
                let row = ["A".to_owned(), "B".to_owned()];
                prop_assert!(template.render(&row, usize::MAX).is_some());
            }
        }
    }
}
