//! `.rules` files: whatever the text, it is read or refused at a place within it.

use sandbox::rules::{parse_rules, rule_text};

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let file = parse_rules(text);
    for (line, rule) in file.rules {
        assert!(line <= text.matches('\n').count() + 1);
        let words: Vec<String> = rule.tokens().map(|words| words[0].clone()).collect();
        let again = parse_rules(&rule_text(&words)).rules;
        let again = &again.first().expect("what is written can be read").1;
        assert!(again.tokens().map(|words| &words[0]).eq(&words));
    }
    for error in file.problems.iter().chain(&file.broken) {
        let sandbox::ErrorKind::RuleSyntax { line, column } = error.kind() else {
            panic!("{error}");
        };
        let line = text.split('\n').nth(line - 1).expect("the line is in the text");
        assert!(column <= line.chars().count() + 1, "{error}");
    }
}
