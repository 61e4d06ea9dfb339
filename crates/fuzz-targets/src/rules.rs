//! `.rules` files: whatever the text, it is read or refused at a place within it.

use sandbox::rules::{parse_rules, rule_text};

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    match parse_rules(text) {
        Ok(rules) => {
            for (line, rule) in rules {
                assert!(line <= text.matches('\n').count() + 1);
                let words: Vec<String> = rule.tokens().map(|words| words[0].clone()).collect();
                let again = parse_rules(&rule_text(&words)).expect("what is written can be read");
                assert!(again[0].1.tokens().map(|words| &words[0]).eq(&words));
            }
        }
        Err(error) => {
            let sandbox::ErrorKind::RuleSyntax { line, column } = error.kind() else {
                panic!("{error}");
            };
            let line = text.split('\n').nth(line - 1).expect("the line is in the text");
            assert!(column <= line.chars().count() + 1, "{error}");
        }
    }
}
