//! What the strict parser accepts and what it makes of it.

use proptest::prelude::*;

use crate::rules::{Joint, normal_form, parse, quote};

fn argvs(script: &str) -> Option<Vec<Vec<String>>> {
    let commands = parse(script)?;
    Some(commands.iter().map(|command| command.argv()).collect())
}

#[test]
fn words_of_scripts() {
    let check = |script: &str, expect: Option<&[&[&str]]>| {
        let expect: Option<Vec<Vec<String>>> = expect.map(|commands| {
            commands
                .iter()
                .map(|words| words.iter().map(|&word| word.to_owned()).collect())
                .collect()
        });
        assert_eq!(argvs(script), expect, "{script:?}");
    };
    check("ls", Some(&[&["ls"]]));
    check("ls -l 'a b' \"c d\"", Some(&[&["ls", "-l", "a b", "c d"]]));
    check("a'b'\"c\"d", Some(&[&["abcd"]]));
    check("a ''", Some(&[&["a", ""]]));
    check("a \"\"", Some(&[&["a", ""]]));
    check(r"a \$x \\ \' c\ b", Some(&[&["a", "$x", "\\", "'", "c b"]]));
    check(r"a \ b", None);
    check(r#"a "\$x \\ \" \a""#, Some(&[&["a", "$x \\ \" \\a"]]));
    check("a \"x\\\ny\"", Some(&[&["a", "xy"]]));
    check("a \" x \n y \"", Some(&[&["a", " x \n y "]]));
    check("a 5 -5 0x1f", Some(&[&["a", "5", "-5", "0x1f"]]));
    check("a b#c d", Some(&[&["a", "b#c", "d"]]));
    check("a # b", Some(&[&["a"]]));
    check("a | b && c || d; e\nf", Some(&[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"]]));
    check("a HEAD@{1} {}", Some(&[&["a", "HEAD@{1}", "{}"]]));
    check("[ -n \"x\" ]", Some(&[&["[", "-n", "x", "]"]]));
    check("[ a = b ]", Some(&[&["[", "a", "=", "b", "]"]]));
    check("a --x=1 y=2", Some(&[&["a", "--x=1", "y=2"]]));
    check("a é 日本", Some(&[&["a", "é", "日本"]]));
    check("a {é é}", Some(&[&["a", "{é", "é}"]]));
    check("é=1", None);
    check("\n\n a \n\n", Some(&[&["a"]]));
    check("a;", Some(&[&["a"]]));
    check("a 2>&1 | b", Some(&[&["a"], &["b"]]));
    check("[]", None);
    check("[ a ]b", None);
    check("[ a=b ]", None);
    check("%1", None);
    check("a\\ \\\nb", None);
    check("a 1>&2", Some(&[&["a"]]));
    check("a 2>&3", None);
    check("a >&-", None);
    check("a;;b", None);
    check("a && ", None);
    check("| a", None);
    check("=a", None);
    check("a $", None);
    check("a \"b", None);
    check("a \\", None);
}

#[test]
fn joints() {
    let joints: Vec<Joint> =
        parse("a | b && c || d; e\nf").unwrap().iter().map(|command| command.joint).collect();
    use Joint::{And, Or, Pipe, Start, Then};
    assert_eq!(joints, [Start, Pipe, And, Or, Then, Then]);
}

#[test]
fn expanding_words_are_marked() {
    let check = |word: &str, expands: bool| {
        let commands = parse(&format!("a {word}")).unwrap();
        assert_eq!(commands[0].words[1].expands, expands, "{word}");
    };
    check("*", true);
    check("a*.rs", true);
    check("a?", true);
    check("[ab]", true);
    check("~/x", true);
    check("a=~/x", true);
    check("'*'", false);
    check("\"a*\"", false);
    check("\\*", false);
    check("'~'", false);
    check("a'*'b*", true);
}

#[test]
fn adversarial_input_is_bounded() {
    for unit in
        ["(", "{ ", "$(", "`", "\"", "'", "<<E\n", "if ", "a|", "[ ", "${", "((", "\\\n", "eval "]
    {
        let script = unit.repeat(2_000 / unit.len());
        let _ = parse(&script);
        let _ = crate::rules::scan::scan(&script);
    }
    let long = "a|".repeat(5_000);
    assert_eq!(parse(&long), None);
    assert_eq!(crate::rules::scan::scan(&long), None);
}

/// The scanner of the grammar crashed on these.
#[test]
fn braces_before_characters_beyond_ascii() {
    for script in ["{é", "{\u{10ffff}", "a{\u{1f600}..\u{1f600}}", "{1..\u{10ffff}", "\u{0}{\u{1}"]
    {
        let _ = parse(script);
        let _ = crate::rules::scan::scan(script);
    }
}

#[test]
fn equivalent_commands_have_one_form() {
    let same = |one: &str, other: &str| normal_form(one) == normal_form(other);
    for (one, other) in [
        ("ls -la x", "ls  -la\t'x'"),
        ("ls && cat \"x\"", "ls &&\n  cat x"),
        ("make test # all", "make test"),
    ] {
        assert!(same(one, other) && normal_form(one).is_some(), "{one} {other}");
    }
    for (one, other) in [
        ("ls x", "ls y"),
        ("ls *", "ls '*'"),
        ("a && b", "a || b"),
        ("a; b", "a b"),
        ("sh < a", "sh < b"),
        ("sh < a", "sh"),
        ("a < x | b", "a | b < x"),
        ("a <x | b", "a | <x b"),
        ("LC_ALL=C a", "a"),
        ("LC_ALL=C a | b", "a | LC_ALL=C b"),
        ("a 2>&1 | b", "a | b 2>&1"),
        ("a >/dev/null", "a"),
    ] {
        assert!(!same(one, other), "{one} {other}");
    }
    assert_eq!(normal_form("ls $(x)"), None);
}

/// Scripts that are likely to be near the edge of what is accepted.
fn script() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "ls",
        "cat",
        "-n",
        "a",
        "b",
        " ",
        " ",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "$",
        "`",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        "|",
        "||",
        "&",
        "&&",
        ";",
        "#",
        "*",
        "?",
        "~",
        "=",
        "!",
        "2>&1",
        ">/dev/null",
        "\t",
        "é",
        "\r",
        "\0",
        "<<E",
        ",",
        "..",
        "1",
        "%",
        "^",
        "@",
        ":",
        "'x y'",
        "\"x y\"",
        "\\ ",
        "if",
        "time",
        "test",
        "-v",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = parse(&text);
        let _ = crate::rules::scan::scan(&text);
    }

    #[test]
    fn accepted_scripts_survive_quoting(text in script()) {
        let Some(commands) = parse(&text) else { return Ok(()) };
        for command in commands {
            prop_assert!(!command.words.is_empty());
            let argv = command.argv();
            prop_assert_eq!(argvs(&quote(&argv)), Some(vec![argv]));
        }
    }

    #[test]
    fn quoted_words_parse_to_themselves(words in prop::collection::vec("[ -~]{0,8}", 1..5)) {
        let mut argv = vec!["a".to_owned()];
        argv.extend(words);
        prop_assert_eq!(argvs(&quote(&argv)), Some(vec![argv]));
    }

    #[test]
    fn nothing_accepted_holds_a_metacharacter(text in script()) {
        if parse(&text).is_some() {
            prop_assert_eq!(unquoted_metacharacter(&text), None, "{}", text);
        }
    }

    #[test]
    fn scanning_never_panics(text in script()) {
        let _ = crate::rules::scan::scan(&text);
    }
}

fn is_file(c: char) -> bool {
    !"<>&()|;$`#\n".contains(c)
}

/// What follows a value that may be printed.
fn behind_value(text: &str) -> Option<&str> {
    if let Some(sum) = text.strip_prefix("$((") {
        let (numbers, after) = sum.split_once("))")?;
        return numbers.chars().all(|c| c.is_ascii_digit() || "%( )".contains(c)).then_some(after);
    }
    ["$?", "$#", "$$"].iter().find_map(|value| text.strip_prefix(value))
}

/// A second, independent reading of quotes: the first character that a shell would act upon.
fn unquoted_metacharacter(script: &str) -> Option<char> {
    let plain = [
        "2>&1",
        "1>&2",
        ">&1",
        ">&2",
        "&>/dev/null",
        ">>/dev/null",
        ">/dev/null",
        "</dev/null",
        "&&",
        "|&",
    ];
    let mut rest = script;
    let mut word_start = true;
    while let Some(c) = rest.chars().next() {
        if let Some(next) = plain.iter().find_map(|known| rest.strip_prefix(known)) {
            rest = next;
            word_start = true;
            continue;
        }
        let after = &rest[c.len_utf8()..];
        if let Some(next) = behind_value(rest) {
            rest = next;
            word_start = false;
            continue;
        }
        rest = match c {
            '<' if after.trim_start_matches([' ', '\t']).starts_with(is_file) => after,
            '\'' => after.split_once('\'')?.1,
            '"' => {
                let mut chars = after.char_indices();
                let mut end = None;
                while let Some((at, inner)) = chars.next() {
                    match inner {
                        '\\' => {
                            chars.next();
                        }
                        '$' if behind_value(&after[at..]).is_some() => {
                            let length = after[at..].len() - behind_value(&after[at..])?.len();
                            chars.by_ref().take(length - 1).for_each(drop);
                        }
                        '$' | '`' => return Some(inner),
                        '"' => {
                            end = Some(at + 1);
                            break;
                        }
                        _ => {}
                    }
                }
                &after[end?..]
            }
            '\\' => after.get(after.chars().next()?.len_utf8()..)?,
            '#' if word_start => after.find('\n').map_or("", |at| &after[at..]),
            '$' | '`' | '(' | ')' | '<' | '>' | '&' | '\r' | '\0' => return Some(c),
            _ => after,
        };
        word_start = matches!(c, ' ' | '\t' | '\n' | ';' | '|');
    }
    None
}
