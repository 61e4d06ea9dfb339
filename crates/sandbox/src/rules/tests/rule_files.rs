//! `.rules` files: what is read, and what is refused where.

use proptest::prelude::*;

use super::{at, words};
use crate::error::ErrorKind;
use crate::rules::{Decision, Invocation, PrefixRule, Rules, assess, parse_rules, rule_text};

fn decision(file: &str, script: &str) -> Option<Decision> {
    let mut rules = Rules::default();
    let read = parse_rules(file);
    read.rules.into_iter().for_each(|(_, rule)| rules.add(rule));
    if let Some(error) = read.broken {
        rules.add_broken(error.to_string());
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
    let read = parse_rules(file);
    assert!(read.problems.is_empty() && read.broken.is_none(), "{read:?}");
    let rules = read.rules;
    let lines: Vec<(usize, Decision)> =
        rules.iter().map(|(line, rule)| (*line, rule.decision())).collect();
    assert_eq!(lines, [(2, Decision::Prompt), (8, Decision::Allow), (8, Decision::Forbidden)]);
    assert_eq!(rules[0].1.justification(), Some("café \"#1\""));
    assert_eq!(decision(file, "git fetch"), Some(Decision::Prompt));
    assert_eq!(decision(file, "cargo test"), Some(Decision::Allow));
    assert_eq!(decision(file, "rm x; cargo test"), Some(Decision::Forbidden));
    for word in ["forbidden", "deny", "block"] {
        let file = format!("prefix_rule(pattern=['rm'], decision='{word}')");
        assert_eq!(decision(&file, "rm x"), Some(Decision::Forbidden), "{word}");
    }
    let empty = parse_rules(" \n# nothing\n;");
    assert!(empty.rules.is_empty() && empty.problems.is_empty(), "{empty:?}");
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
        ("prefix_rule(pattern=[\"a\"], decision=\"no\")", "1:37: it must be \"allow\""),
        ("prefix_rule(pattern=[\"a\"], decision=[])", "1:37: it must be \"allow\""),
        ("prefix_rule(pattern=[\"a\"], justification=\" \")", "1:21: a command rule has an empty"),
        ("prefix_rule(pattern=[\"a\n\"])", "1:22: the text is not closed"),
        ("prefix_rule(pattern=[\"é\\x\"])", "1:24: `\\x` is not an escape here"),
        ("prefix_rule(pattern=[\"\\ud800\"])", "1:23: `\\u` is not an escape here"),
        ("prefix_rule(pattern=[\"\\u12\"])", "1:23: `\\u` is not an escape here"),
        ("prefix_rule(pattern=[\"a\"],\n match=[\"a\",\n \"b\"])", "3:2: the rule does not match"),
        ("prefix_rule(pattern=[\"a\"], not_match=[\"a b\"])", "1:39: the rule matches this"),
        ("prefix_rule(pattern=[\"a\"], match=[\"a; a\"])", "1:35: this example is not one plain"),
        ("prefix_rule(pattern=[\"a\"], match=[\"\"])", "1:35: this example is not one plain"),
        ("prefix_rule(pattern=[\"a\"], match=[[]])", "1:35: this example is empty"),
        ("prefix_rule(pattern=[\"a\"], match=\"a\")", "1:34: a list is expected"),
        ("prefix_rule(pattern=[\"a\"", "1:25: `]` is expected"),
    ] {
        let read = parse_rules(file);
        let error = read.problems.first().or(read.broken.as_ref()).expect(file).to_string();
        assert!(error.starts_with(expect), "{file}: {error}");
        assert!(read.rules.iter().all(|(_, rule)| rule.decision() != Decision::Allow), "{file}");
    }
}

/// What becomes of a statement that cannot be read.
enum Remains {
    /// A warning.
    Nothing,
    /// A warning, and this decision about commands that begin with these words.
    Rule(Decision, &'static str),
    /// All commands are asked about.
    Unknown,
}

#[test]
fn a_statement_that_cannot_be_read_allows_nothing_and_restricts_as_far_as_it_can_be_read() {
    use Decision::{Forbidden, Prompt};
    use Remains::{Nothing, Rule, Unknown};
    let rest = "prefix_rule(pattern = ['late'], decision = 'forbidden')";
    for (statement, expect) in [
        // Functions of other programs.
        ("host_executable(name = 'git', paths = ['/usr/bin/git'])", Nothing),
        ("host_executable(name = 'git',\n  paths = ['/usr/bin/git'", Nothing),
        ("network_rule(host = 'a.example', protocol = 'https', decision = 'allow')", Nothing),
        ("network_rule(host = 'a.example', decision = 'deny')", Unknown),
        ("network_rule('a.example', 'https', 'deny')", Unknown),
        ("load('other.star', 'rules')", Nothing),
        ("torn(", Unknown),
        // Statements that are no calls.
        ("x = 1", Nothing),
        ("[1,\n2]", Nothing),
        ("\"\"\"About\nprefix_rule(pattern=['ls'])\n\"\"\"", Nothing),
        ("'''never\nprefix_rule(pattern=['rm'], decision='forbidden')", Unknown),
        ("x = prefix_rule(pattern=['rm'], decision='forbidden')", Unknown),
        ("[prefix_rule(pattern=[p], decision='deny') for p in ['rm']]", Unknown),
        ("if False:\n  prefix_rule(pattern=['ls'])\n  prefix_rule(pattern=['ls'])", Nothing),
        ("for p in x:\n  prefix_rule(pattern=['rm'], decision='deny')", Rule(Forbidden, "rm")),
        ("x = False and \\\n prefix_rule(pattern=['ls'])", Nothing),
        // Rules that allow.
        ("prefix_rule(pattern=['ls'], match=['cat'])", Nothing),
        ("prefix_rule(pattern=['tmux capture-pane'], match=['tmux capture-pane -p'])", Nothing),
        ("prefix_rule(pattern=[LS], decision='allow')", Nothing),
        ("prefix_rule(pattern=['ls'], decision='allow') if X else None", Nothing),
        ("prefix_rule(pattern=['ls'], why='x', note=\"a ) '# ]\")", Nothing),
        ("prefix_rule(pattern=['ls'] # a ) and 'b\n, other=1)", Nothing),
        // Rules that restrict.
        ("prefix_rule(pattern=['rm'], decision='forbidden', match=['ls'])", Rule(Forbidden, "rm")),
        ("prefix_rule(pattern=['rm'], why='x', decision='deny')", Rule(Forbidden, "rm")),
        ("prefix_rule(why=f('('), decision='deny', pattern=['rm', 'x'])", Rule(Forbidden, "rm x")),
        ("prefix_rule(pattern=['rm'], decision='never')", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm'], decision=D)", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm'], decision='allow' if X else 'deny')", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm'], decision='allow', decision='deny')", Rule(Forbidden, "rm")),
        ("prefix_rule(pattern=['rm'], 'forbidden')", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm'], **forbid)", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm', '-r'] + X, decision='deny')", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=[['rm', 'dd'], X], decision='deny')", Rule(Prompt, "rm")),
        ("prefix_rule(pattern='rm -r', decision='deny')", Rule(Prompt, "rm")),
        // Brackets that are not closed.
        ("prefix_rule(pattern=['rm'", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm',", Rule(Prompt, "rm")),
        ("prefix_rule(pattern=['rm'], decision='deny'", Rule(Forbidden, "rm")),
        ("prefix_rule(pattern=['rm'], decision='deny')]", Rule(Forbidden, "rm")),
        ("prefix_rule(pattern=['rm], decision='deny')", Unknown),
        // The program is not known.
        ("prefix_rule(pattern=['rm'] if X else ['dd'], decision='deny')", Unknown),
        ("prefix_rule(pattern=['r' + 'm'], decision='deny')", Unknown),
        ("prefix_rule(pattern=[X], decision='deny')", Unknown),
        ("prefix_rule(pattern=[], decision='deny')", Unknown),
        ("prefix_rule(pattern=['a'], pattern=['b'], decision='deny')", Unknown),
        ("prefix_rule(decision='deny')", Unknown),
        ("prefix_rule(['rm'], 'forbidden')", Unknown),
    ] {
        let file = format!("prefix_rule(pattern=['early'])\n{statement}\n{rest}\n");
        let read = parse_rules(&file);
        let lines = read.rules.iter().map(|(line, _)| *line);
        assert_eq!(lines.filter(|line| *line == 1).count(), 1, "{statement}");
        let late = decision(&file, "late");
        let hides_rest = statement.starts_with("'''");
        assert_eq!(late, Some(if hides_rest { Prompt } else { Forbidden }), "{statement}");
        assert_ne!(decision(&file, "ls"), Some(Decision::Allow), "{statement}");
        assert!(!read.problems.is_empty() || read.broken.is_some(), "{statement}");
        let words = |rule: &PrefixRule| {
            rule.tokens().map(|words| words[0].as_str()).collect::<Vec<_>>().join(" ")
        };
        let own: Vec<(Decision, String)> = read
            .rules
            .iter()
            .map(|(_, rule)| (rule.decision(), words(rule)))
            .filter(|(_, words)| !matches!(words.as_str(), "early" | "late"))
            .collect();
        match expect {
            Nothing => assert!(own.is_empty() && read.broken.is_none(), "{statement}: {read:?}"),
            Rule(decision, words) => {
                assert_eq!(own, [(decision, words.to_owned())], "{statement}: {read:?}");
                assert!(read.broken.is_none(), "{statement}: {read:?}");
            }
            Unknown => assert!(own.is_empty() && read.broken.is_some(), "{statement}: {read:?}"),
        }
    }
}

#[test]
fn problems_state_their_effect() {
    let file = "host_executable(name='git')\n\
                prefix_rule(pattern=['git', 'push'], decision='deny', match=['ls'])\n\
                prefix_rule(pattern=['git', X], decision='deny')";
    let problems: Vec<String> =
        parse_rules(file).problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "1:1: `host_executable` is not known; only `prefix_rule(…)` is; it is left out",
            "2:62: the rule does not match this example of `match`; commands that begin with \
             `git push` are still forbidden",
            "3:29: a text in quotes or a list in `[…]` is expected; commands that begin with `git` \
             are asked about",
        ]
    );
}

#[test]
fn a_file_of_any_size_is_read_in_bounded_time() {
    let big = crate::rules::MAX_RULES_FILE;
    for (what, unit, is_read) in [
        ("too long", "#", false),
        ("rules on one line", "prefix_rule(pattern=['a']);", true),
        ("mistakes on one line", "x;", false),
        ("brackets", "(", false),
        ("brackets on lines", "f(\n", false),
        ("quotes", "'", false),
        ("broken rules", "prefix_rule(pattern=[X], decision='deny')\n", false),
        ("calls", "prefix_rule(", false),
    ] {
        let size = if what == "too long" { 10 * big } else { big };
        let read = parse_rules(&unit.repeat(size / unit.len()));
        assert_eq!(read.broken.is_none(), is_read, "{what}: {:?}", read.broken);
        assert!(read.problems.len() <= 100, "{what}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in "(prefix_rule\\(|pattern=|decision=|match|deny|[\\[\\](){},=;:#\"'\\\\ au\u{e9}\n]){0,40}"
    ) {
        let read = parse_rules(&text);
        for error in read.problems.iter().chain(&read.broken) {
            let is_inside = matches!(
                error.kind(),
                ErrorKind::RuleSyntax { line, .. } if line <= text.matches('\n').count() + 1
            );
            prop_assert!(is_inside, "{error}");
        }
    }

    #[test]
    fn written_rules_round_trip(prefix in prop::collection::vec("[^\0]{1,8}", 1..4)) {
        let rules = parse_rules(&rule_text(&prefix)).rules;
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
