//! Permissions of Claude Code as command rules, where the two mean exactly the same.
//!
//! `Bash(npm run test:*)` permits commands that begin with these words; so does a `prefix_rule`. A rule
//! that only resembles its source could permit more than the user consented to, so all others are left
//! out with the reason.

use std::path::Path;

use serde_json::Value;

use crate::item::{Change, Item};

/// Adds the rules of a member `permissions`.
pub(crate) fn add(permissions: &Value, target: &Path, item: &mut Item) {
    for (list, decision) in [("allow", "allow"), ("ask", "prompt"), ("deny", "forbidden")] {
        let rules = match &permissions[list] {
            Value::Null => continue,
            Value::Array(rules) => rules,
            _ => {
                item.leave_out(list, "it must be a list");
                continue;
            }
        };
        for rule in rules {
            let Some(rule) = rule.as_str() else {
                item.leave_out(list, "its entries must be texts");
                continue;
            };
            let name = format!("{list}: {rule}");
            match words(rule) {
                Ok(words) => {
                    let quoted: Vec<String> =
                        words.iter().map(|word| format!("\"{word}\"")).collect();
                    let pattern = quoted.join(", ");
                    let line =
                        format!("prefix_rule(pattern = [{pattern}], decision = \"{decision}\")");
                    let change = Change::Rule { path: target.to_owned(), line: line.clone() };
                    item.add(&name, line, change);
                }
                Err(why) => item.leave_out(&name, why),
            }
        }
    }
    for key in ["defaultMode", "additionalDirectories"] {
        if !permissions[key].is_null() {
            item.leave_out(
                key,
                "it has no exact counterpart; see `sandbox_mode` and `approval_policy`",
            );
        }
    }
}

/// The words that a command begins with.
fn words(rule: &str) -> Result<Vec<&str>, &'static str> {
    let inner = rule.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.ok_or("only rules about commands have a counterpart")?;
    let prefix = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    let prefix = prefix.ok_or(match inner.contains('*') {
        true => "its `*` matches more than whole words at the end, which rules here cannot do",
        false => "it is about one exact command, and rules here are about beginnings",
    })?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@=+,".contains(c);
    let words: Vec<&str> = prefix.split(' ').collect();
    if words.iter().any(|word| word.is_empty() || !word.chars().all(is_plain)) {
        return Err("its words have characters that a shell could read in another way");
    }
    if words[0].contains('=') {
        return Err("it begins with a variable, not with a program");
    }
    Ok(words)
}

/// The file with the line; `None` when it has it already.
pub(crate) fn with_rule(old: &str, line: &str) -> Option<String> {
    if old.lines().any(|known| known.trim() == line) {
        return None;
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    Some(format!("{old}{gap}{line}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_counterparts_become_rules() {
        let check = |rule: &str, expected: Option<&[&str]>| {
            assert_eq!(words(rule).ok().as_deref(), expected, "{rule}");
        };
        check("Bash(npm run test:*)", Some(&["npm", "run", "test"]));
        check("Bash(git *)", Some(&["git"]));
        for rule in [
            "Bash",
            "Bash(*)",
            "Bash(:*)",
            "Bash(ls)",
            "Read(./.env)",
            "WebFetch",
            "mcp__a__b",
            "Bash(a  b:*)",
            "Bash(a; b:*)",
            "Bash(\"a b\":*)",
            "Bash(A=1 b:*)",
            "Bash(* x:*)",
            "",
        ] {
            check(rule, None);
        }
        for (rule, part) in [
            ("Bash(*)", "its `*`"),
            ("Bash(git*)", "its `*`"),
            ("Bash(a * b)", "its `*`"),
            ("Bash(ls)", "one exact command"),
        ] {
            let why = words(rule).unwrap_err();
            assert!(why.contains(part), "{rule}: {why}");
        }
    }
}
