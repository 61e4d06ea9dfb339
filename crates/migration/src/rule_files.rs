//! Files of command rules, whose format this program shares with Codex. Each `prefix_rule` is taken over on
//! one line, without comments. Of a file that is not understood in whole, nothing is: a rule that allows could
//! be without the one that restricts it.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::item::{Change, Item};
use crate::source;

/// The statement that has a counterpart.
const PREFIX_RULE: &str = "prefix_rule";
/// Statements of the other program without which no rule permits more.
const OTHERS: [&str; 1] = ["host_executable"];

/// Adds the rules of the files in `folder`, which are written to the file `target`.
pub(crate) fn add(root: &Path, folder: &Path, target: &Path, item: &mut Item) -> Result<(), Error> {
    let is_rules = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "rules");
    for path in source::entries(root, folder)?.into_iter().filter(is_rules) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = match source::text(root, &path) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                item.leave_out(&name, &error.to_string());
                continue;
            }
        };
        let Some(statements) = statements(&text) else {
            let why =
                "it has more than calls with literal arguments, so none of its rules is imported";
            item.leave_out(&name, why);
            continue;
        };
        for (function, line) in statements {
            if function != PREFIX_RULE {
                item.leave_out(&format!("{function} in {name}"), "it has no counterpart here");
                continue;
            }
            let change = Change::Rule { path: target.to_owned(), line: line.clone() };
            if !item.parts.iter().any(|part| part.name == line) {
                item.add(&line, format!("from {}", visible::exact(&name)), change);
            }
        }
    }
    Ok(())
}

/// The calls in a text, each with its function and on one line; `None` for a text with anything else.
fn statements(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let (mut call, mut depth) = (String::new(), 0_usize);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' => while chars.next_if(|next| *next != '\n').is_some() {},
            '"' | '\'' => {
                call.push(c);
                loop {
                    let inner = chars.next().filter(|inner| *inner != '\n')?;
                    call.push(inner);
                    match inner {
                        '\\' => call.push(chars.next()?),
                        end if end == c => break,
                        _ => {}
                    }
                }
            }
            c if c.is_whitespace() => {
                if !call.is_empty() && !call.ends_with([' ', '(', '[']) {
                    call.push(' ');
                }
            }
            '(' | '[' => {
                depth += 1;
                call.push(c);
            }
            ')' | ']' => {
                depth = depth.checked_sub(1)?;
                call.truncate(call.trim_end().len());
                if call.ends_with(',') {
                    call.pop();
                }
                call.push(c);
                if depth == 0 {
                    let (function, _) = call.split_once('(')?;
                    let function = function.trim().to_owned();
                    let is_known = function == PREFIX_RULE || OTHERS.contains(&function.as_str());
                    found.push(is_known.then(|| (function, std::mem::take(&mut call)))?);
                }
            }
            // Between calls, only their names and separators are expected.
            ';' if depth == 0 && call.is_empty() => {}
            c => call.push(c),
        }
    }
    (depth == 0 && call.trim().is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_their_texts_and_anything_else_is_refused() {
        let rule = r#"prefix_rule(pattern=["git", "push"], decision="allow")"#;
        let long = "# Mine\nprefix_rule(\n  pattern = [\n    \"a b\", # why\n    ['x', \"#)\"],\n  ],\n  \
                    decision = \"forbidden\",\n)\n";
        let short = r##"prefix_rule(pattern = ["a b", ['x', "#)"]], decision = "forbidden")"##;
        for (text, expected) in [
            ("", Some(vec![])),
            ("# only this\n", Some(vec![])),
            (rule, Some(vec![rule])),
            (&format!("{rule}\n\n{rule}\r\n"), Some(vec![rule, rule])),
            (long, Some(vec![short])),
            (r#"prefix_rule(pattern=["a\"b"])"#, Some(vec![r#"prefix_rule(pattern=["a\"b"])"#])),
            ("host_executable(name = \"git\")", Some(vec!["host_executable(name = \"git\")"])),
            ("prefix_rule(pattern=[\"a\"]", None),
            ("prefix_rule(pattern=[\"a])", None),
            ("x = 1\n", None),
            ("for p in [1]:\n  prefix_rule(pattern=[p])\n", None),
            ("load(\"//x\", \"y\")", None),
            ("[1]", None),
            (")", None),
        ] {
            let found = statements(text);
            let lines = found.as_ref().map(|all| all.iter().map(|(_, line)| &**line).collect());
            assert_eq!(lines, expected, "{text:?}");
        }
    }
}
