//! The `key: value` lines between `---` at the start of a Markdown file. Other agents read them
//! leniently (a description may contain `: `), so this is no YAML parser; unknown keys are kept as text.

/// A file in two parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Document {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The names of the first fields that are not in `known`, those without a value on their line included.
    pub(crate) fn others(&self, known: &[&str]) -> Vec<&str> {
        const MAX: usize = 20;
        let mut others: Vec<&str> = Vec::new();
        for (name, _) in &self.fields {
            if others.len() < MAX && !known.contains(&&**name) && !others.contains(&&**name) {
                others.push(name);
            }
        }
        others
    }
}

/// Reads a file. Without front matter everything is the body.
pub(crate) fn parse(text: &str) -> Document {
    let text = text.replace("\r\n", "\n");
    let Some(rest) = text.strip_prefix("---\n") else {
        return Document { fields: Vec::new(), body: text };
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end();
        if line == "---" {
            return Document { fields, body: rest[at..].trim_start_matches('\n').to_owned() };
        }
        let is_continued = line.starts_with([' ', '\t']);
        match (line.split_once(':'), fields.last_mut()) {
            (_, Some((_, value))) if is_continued => {
                if !value.is_empty() {
                    value.push(' ');
                }
                value.push_str(line.trim());
            }
            (Some((key, value)), _) => {
                fields.push((key.trim().to_owned(), unquoted(value.trim())));
            }
            (None, _) => {}
        }
    }
    // It never ends: a file that begins with a rule.
    Document { fields: Vec::new(), body: text }
}

fn unquoted(value: &str) -> String {
    if matches!(value, "|" | ">" | "|-" | ">-" | "|+" | ">+") {
        return String::new();
    }
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return match quote {
                '"' => inner.replace("\\\"", "\"").replace("\\n", " ").replace("\\\\", "\\"),
                _ => inner.replace("''", "'"),
            };
        }
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_bodies_are_told_apart() {
        let check = |text: &str, description: Option<&str>, body: &str| {
            let read = parse(text);
            assert_eq!((read.field("description"), &*read.body), (description, body), "{text:?}");
        };
        check("Do it.", None, "Do it.");
        check("---\ndescription: a: b\n---\n\nDo it.\n", Some("a: b"), "Do it.\n");
        check("---\r\ndescription: \"a \\\"b\\\"\"\r\n---\r\nX", Some("a \"b\""), "X");
        check("---\ndescription: >-\n  one\n  two\n---\nX", Some("one two"), "X");
        check("---\ndescription: x\nno end", None, "---\ndescription: x\nno end");
        check("---\ndescription:\n---\n", None, "");
        check("---", None, "---");
    }
}
