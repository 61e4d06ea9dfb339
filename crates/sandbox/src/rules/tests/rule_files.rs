//! `.rules` files: what is read, and what is refused where.

use proptest::prelude::*;

use super::{at, words};
use crate::error::ErrorKind;
use crate::rules::{Decision, Invocation, Rules, assess, parse_rules, rule_text};

fn decision(file: &str, script: &str) -> Option<Decision> {
    let mut rules = Rules::default();
    for (_, rule) in parse_rules(file).unwrap() {
        rules.add(rule);
    }
    assess(Invocation::Script(script), &at("/w"), &rules).decision.map(|verdict| verdict.decision)
}

#[test]
fn a_file_is_read() {
    let file = "# Ours.\r\n\
        prefix_rule(pattern=[\"git\", [\"push\", 'fetch']], decision=\"prompt\",\n\
          justification = \"caf\\u00e9 \\\"#1\\\"\", # why\n\
          match = [\"git push 'a b'\", [\"git\", \"fetch\"], \"/usr/bin/git push\"],\n\
          not_match = [\"git status\", \"ls\"],\n\
        )\n\n\
        prefix_rule ( pattern = [ \"cargo\" ] ) ; prefix_rule(pattern=['rm'], decision='forbidden')";
    let rules = parse_rules(file).unwrap();
    let lines: Vec<(usize, Decision)> =
        rules.iter().map(|(line, rule)| (*line, rule.decision())).collect();
    assert_eq!(lines, [(2, Decision::Prompt), (8, Decision::Allow), (8, Decision::Forbidden)]);
    assert_eq!(rules[0].1.justification(), Some("café \"#1\""));
    assert_eq!(decision(file, "git fetch"), Some(Decision::Prompt));
    assert_eq!(decision(file, "cargo test"), Some(Decision::Allow));
    assert_eq!(decision(file, "rm x; cargo test"), Some(Decision::Forbidden));
    assert_eq!(parse_rules(" \n# nothing\n;").unwrap(), []);
}

#[test]
fn rule_errors_state_their_position() {
    for (file, expect) in [
        ("host_rule()", "1:1: `host_rule` is not known"),
        ("\n x = 1", "2:2: `x` is not known"),
        ("[1]", "1:1: a call of `prefix_rule` is expected"),
        ("prefix_rule", "1:12: `(` is expected after `prefix_rule`, not the end of the file"),
        ("prefix_rule(pattern=[\"a\"]) x", "1:28: a new line is expected"),
        ("prefix_rule()", "1:1: `pattern` is missing"),
        ("prefix_rule(pattern=[])", "1:21: a command rule has an empty `pattern`"),
        (
            "prefix_rule(pattern=[\"a\", []])",
            "1:21: token 2 of a command rule's `pattern` is empty",
        ),
        ("prefix_rule(pattern=[\"a\", [[\"b\"]]])", "1:28: a text is expected, not a list"),
        ("prefix_rule(pattern=[[[[\"b\"]]]])", "1:24: lists are nested too deeply"),
        ("prefix_rule(pattern=\"a\")", "1:21: a list is expected, not a text"),
        ("prefix_rule(pattern=a)", "1:21: a text in quotes or a list"),
        ("prefix_rule([\"a\"])", "1:13: a name is expected: `pattern`"),
        ("prefix_rule(patern=[\"a\"])", "1:13: `prefix_rule` has no argument `patern`"),
        ("prefix_rule(pattern=[\"a\"] decision=\"allow\")", "1:27: `)` is expected after the last"),
        ("prefix_rule(pattern=[\"a\" \"b\"])", "1:26: `]` is expected after the last part"),
        ("prefix_rule(pattern=[\"a\"], pattern=[\"b\"])", "1:28: `pattern` is given twice"),
        ("prefix_rule(pattern=[\"a\"], decision=\"deny\")", "1:37: it must be \"allow\""),
        ("prefix_rule(pattern=[\"a\"], decision=[])", "1:37: it must be \"allow\""),
        ("prefix_rule(pattern=[\"a\"], justification=\" \")", "1:21: a command rule has an empty"),
        ("prefix_rule(pattern=[\"a\n\"])", "1:22: the text is not closed"),
        ("prefix_rule(pattern=[\"é\\x\"])", "1:24: `\\x` is no escape here"),
        ("prefix_rule(pattern=[\"\\ud800\"])", "1:23: `\\u` is no escape here"),
        ("prefix_rule(pattern=[\"\\u12\"])", "1:23: `\\u` is no escape here"),
        ("prefix_rule(pattern=[\"a\"],\n match=[\"a\",\n \"b\"])", "3:2: the rule does not match"),
        ("prefix_rule(pattern=[\"a\"], not_match=[\"a b\"])", "1:39: the rule matches this"),
        ("prefix_rule(pattern=[\"a\"], match=[\"a; a\"])", "1:35: this example is not one plain"),
        ("prefix_rule(pattern=[\"a\"], match=[\"\"])", "1:35: this example is not one plain"),
        ("prefix_rule(pattern=[\"a\"], match=[[]])", "1:35: this example is empty"),
        ("prefix_rule(pattern=[\"a\"], match=\"a\")", "1:34: a list is expected"),
        ("prefix_rule(pattern=[\"a\"", "1:25: `]` is expected"),
    ] {
        let error = parse_rules(file).expect_err(file).to_string();
        assert!(error.starts_with(expect), "{file}: {error}");
    }
    let long = "#".repeat(crate::rules::MAX_RULES_FILE + 1);
    assert!(parse_rules(&long).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in "(prefix_rule|pattern|match|[\\[\\](),=;#\"'\\\\ au\n]){0,40}"
    ) {
        if let Err(error) = parse_rules(&text) {
            let is_inside = matches!(
                error.kind(),
                ErrorKind::RuleSyntax { line, .. } if line <= text.matches('\n').count() + 1
            );
            prop_assert!(is_inside, "{error}");
        }
    }

    #[test]
    fn written_rules_round_trip(prefix in prop::collection::vec("[^\0]{1,8}", 1..4)) {
        let rules = parse_rules(&rule_text(&prefix)).unwrap();
        prop_assert_eq!(rules.len(), 1);
        let tokens: Vec<_> = rules[0].1.tokens().map(<[String]>::to_vec).collect();
        let expected: Vec<_> = prefix.iter().map(|word| vec![word.clone()]).collect();
        prop_assert_eq!(tokens, expected);
    }
}

#[test]
fn a_written_rule_allows_its_prefix() {
    let line = rule_text(&words("cargo test"));
    assert_eq!(line, "prefix_rule(pattern=[\"cargo\", \"test\"], decision=\"allow\")");
    assert_eq!(decision(&line, "cargo test --lib"), Some(Decision::Allow));
    assert_eq!(decision(&line, "cargo run"), None);
}
