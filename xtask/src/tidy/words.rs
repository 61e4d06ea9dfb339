//! Words that make a reader stop, each with a plain replacement: in comments of product code, in the sentences of
//! its string literals, and in the documents. The doc of an item says what the item is, so it does not refer to the
//! module, and its first word is no question word. Does not read tests, code spans and code blocks.

use std::path::Path;

use super::finding::Finding;
use super::scan::{Scan, scan};
use super::source::is_test_file;

const RULE: &str = "words";

/// A word or a sequence of words.
struct Phrase {
    /// In lower case.
    text: &'static str,
    instead: &'static str,
    /// Longer phrases with it that are right.
    right: &'static [&'static str],
}

const fn phrase(text: &'static str, instead: &'static str) -> Phrase {
    Phrase { text, instead, right: &[] }
}

const PHRASES: [Phrase; 19] = [
    Phrase {
        text: "behind",
        instead: "`after`; of programs that lag, `lag`",
        right: &[
            "behind a proxy",
            "behind a reverse proxy",
            "behind a load balancer",
            "behind a forwarded port",
            "behind a router",
            "behind routers",
            "behind a link",
            "behind an `arc`",
            "behind a mutex",
            "behind a lock",
            "behind a trait",
            "behind one of its ports",
            "behind the gateway",
            "agent behind it",
            "model behind it",
        ],
    },
    phrase("beside", "`next to`, `besides`, `in addition to`, `in parallel with`"),
    phrase("anew", "`again`, or a verb such as `rebuild`, `reopen`, `start over`"),
    phrase("whoever", "the role: `the client that`, `the caller`, `anyone who`"),
    phrase("whomever", "the role: `the client that`, `the caller`"),
    phrase("in vain", "`failed`, `without effect`"),
    phrase("of itself", "`by itself`"),
    phrase("any more", "`no longer` before the verb"),
    Phrase {
        text: "told",
        instead: "`reported`, `sent`, `returned`, `gets a note`",
        right: &["told apart"],
    },
    phrase("nobody", "the role: `no client`, `no one`"),
    phrase("wherefrom", "`the source`, `from where`"),
    phrase("as far as it came", "`the part received`"),
    phrase("for ever", "`forever`"),
    phrase("also when", "`even when`"),
    phrase("also where", "`even where`"),
    phrase("also while", "`even while`"),
    phrase("also after", "`even after`"),
    phrase("also if", "`even if`"),
    phrase("see the module.", "what the item is"),
];

/// Forms of "to leave behind" and "to stay behind", whose object may stand in between.
const LEFT: [&str; 7] = ["leave", "leaves", "leaving", "left", "stay", "stays", "remain"];
/// Number of words before `behind` in which they are searched.
const LEFT_REACH: usize = 6;

/// First words of a doc that asks instead of saying what the item is.
const QUESTIONS: [&str; 3] = ["What", "Whether", "How"];

/// A literal with one of these is SQL.
const SQL: [&str; 4] = ["SELECT ", "INSERT ", "UPDATE ", "CREATE TABLE "];

/// Every finding in one file.
pub(crate) fn check(file: &Path, text: &str) -> Vec<Finding> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") if is_product(file) => check_source(file, text),
        Some("md") if is_document(file) => check_document(file, text),
        _ => Vec::new(),
    }
}

/// Returns whether the rule reads a Rust file. This one quotes the words.
fn is_product(file: &Path) -> bool {
    let is_read = ["crates", "xtask", "tools"].iter().any(|folder| file.starts_with(folder));
    let has_tests = file.to_string_lossy().ends_with("tests.rs");
    is_read && !is_test_file(file) && !has_tests && !file.ends_with("tidy/words.rs")
}

fn is_document(file: &Path) -> bool {
    file.starts_with("docs") || file.components().count() == 1
}

fn check_source(file: &Path, text: &str) -> Vec<Finding> {
    let scan = scan(text);
    let end = scan.tests_start();
    let mut findings = Vec::new();
    let comments: Vec<&str> = scan.comments[..end].iter().map(|line| words_of(line)).collect();
    for line in 0..end {
        let mut add = |message: String| {
            findings.push(Finding::error(file, line + 1, RULE, message));
        };
        if let Some(word) = question(&scan, line) {
            add(format!(
                "a doc says what the item is or does: not `{word} …`, but a noun, a verb, or `True if …`"
            ));
        }
        problems(&comments, line).into_iter().for_each(&mut add);
        let of_line = scan.literals.iter().filter(|(at, _)| *at == line);
        for (_, literal) in of_line.filter(|(_, literal)| is_sentence(literal)) {
            let plain: Vec<&str> =
                literal.split_whitespace().filter(|word| *word != "\\").collect();
            problems(&[&plain.join(" ")], 0).into_iter().for_each(&mut add);
        }
    }
    findings
}

fn check_document(file: &Path, text: &str) -> Vec<Finding> {
    let mut is_fenced = false;
    let plain = |line| {
        let is_fence = str::trim_start(line).starts_with("```");
        is_fenced ^= is_fence;
        if is_fenced || is_fence { "" } else { str::trim(line) }
    };
    let lines: Vec<&str> = text.lines().map(plain).collect();
    let of_line = |line| {
        let messages = problems(&lines, line).into_iter();
        messages.map(move |message| Finding::error(file, line + 1, RULE, message))
    };
    (0..lines.len()).flat_map(of_line).collect()
}

/// The text of a comment without its marks.
fn words_of(comment: &str) -> &str {
    comment.trim_start_matches(['/', '!', '*']).trim()
}

/// The question word that a doc begins with, if this line begins one.
fn question(scan: &Scan, line: usize) -> Option<&'static str> {
    let mark = |line: usize| {
        let comment = scan.comments[line].trim_start();
        let marks = ["///", "//!"].into_iter().find(|mark| comment.starts_with(mark));
        marks.filter(|_| scan.code[line].trim().is_empty())
    };
    let own = mark(line)?;
    if line > 0 && mark(line - 1) == Some(own) {
        return None;
    }
    let first = words_of(&scan.comments[line]).split(|c: char| !c.is_alphanumeric()).next()?;
    QUESTIONS.into_iter().find(|word| *word == first)
}

/// Returns whether a literal is text for people.
fn is_sentence(literal: &str) -> bool {
    literal.split_whitespace().nth(2).is_some() && !SQL.iter().any(|part| literal.contains(part))
}

/// The message about each phrase that begins in `lines[at]`. It may end in the next line.
fn problems(lines: &[&str], at: usize) -> Vec<String> {
    let around = |at: Option<usize>| at.and_then(|at| lines.get(at)).copied().unwrap_or_default();
    let before = around(at.checked_sub(1));
    let text = format!("{before} {} {}", lines[at], around(at.checked_add(1))).to_ascii_lowercase();
    let own = before.len() + 1..before.len() + 1 + lines[at].len();
    let mut messages = Vec::new();
    for phrase in &PHRASES {
        let places = text.match_indices(phrase.text).map(|(place, _)| place);
        for place in places.filter(|place| own.contains(place)) {
            let is_word = is_whole(&text, place, phrase.text);
            let is_code = text[own.start..place].matches('`').count() % 2 == 1;
            if is_word && !is_code && !is_right(phrase, &text, place) {
                messages.push(format!("not `{}`, but {}", phrase.text, phrase.instead));
            }
        }
    }
    messages
}

/// Returns whether the phrase at `place` is not a part of a longer word.
fn is_whole(text: &str, place: usize, phrase: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !text[..place].chars().next_back().is_some_and(is_part)
        && !text[place + phrase.len()..].chars().next().is_some_and(is_part)
}

fn is_right(phrase: &Phrase, text: &str, place: usize) -> bool {
    let is_longer = |right: &&str| {
        let offset = right.find(phrase.text).unwrap_or_default();
        place.checked_sub(offset).is_some_and(|start| text[start..].starts_with(*right))
    };
    let is_left = || {
        let words = text[..place].split(|c: char| !c.is_alphanumeric());
        let near = words.filter(|word| !word.is_empty()).rev().take(LEFT_REACH);
        near.into_iter().any(|word| LEFT.contains(&word))
    };
    phrase.right.iter().any(is_longer) || phrase.text == "behind" && is_left()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        check(Path::new(file), text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn phrases_are_found_in_comments_sentences_and_documents() {
        for (text, expected) in [
            ("// The row behind it.", vec![1]),
            ("let a = 1; // Built anew.", vec![1]),
            ("/// The files that a killed process left behind.", vec![]),
            ("/// What else\n/// was left\n/// behind by it.", vec![1]),
            ("// A client behind a proxy. Cheap to share behind an `Arc`.", vec![]),
            ("// It waits in\n// vain.", vec![1]),
            ("// In\n// vain: in\n// vain.", vec![1, 2]),
            ("// Cannot be told apart, and nobody is told.", vec![1, 1]),
            ("// `beside` and `anew` are names; besides, so is renewed.", vec![]),
            ("// Holds also when it is full.", vec![1]),
            ("let a = \"beside\";", vec![]),
            ("let a = \"the file beside it\";", vec![1]),
            ("let a = \"it is \\\n    built anew\";", vec![1]),
            ("let a = \"SELECT pk, anew FROM history\";", vec![]),
            ("let behind = beside;", vec![]),
            ("#[cfg(test)]\nmod tests {\n    // Whoever\n}", vec![]),
        ] {
            assert_eq!(lines("crates/a/src/b.rs", text), expected, "{text}");
        }
        assert!(lines("crates/a/tests/b.rs", "// Whoever").is_empty());
        assert!(lines("xtask/src/tidy/words.rs", "// Whoever").is_empty());
        let page = "Whoever reads\n\n```sh\n# whoever\n```\n\n`whoever`, a team behind the gateway";
        assert_eq!(lines("docs/a.md", page), [1]);
        assert_eq!(lines("README.md", page), [1]);
        assert!(lines("sdk/a.md", page).is_empty());
    }

    #[test]
    fn docs_say_what_an_item_is() {
        for (text, expected) in [
            ("/// What it is.", vec![1]),
            ("//! How it works.", vec![1]),
            ("/// A port.\n/// What else.", vec![]),
            ("    /// Whether it is.\n    is: bool,", vec![1]),
            ("/// True if it is.\n///\n/// Whether.", vec![]),
            ("//! A module.\n\n/// How long.", vec![3]),
            ("/// Whatever is there, however.", vec![]),
            ("// What a comment may ask.", vec![]),
            ("/// See the module.", vec![1]),
        ] {
            assert_eq!(lines("crates/a/src/b.rs", text), expected, "{text}");
        }
    }
}
