//! Findings in Markdown: list entries that begin with a priority, `- [P1] Title (path:12-15)`, each with the
//! lines below it.

use crate::port::review::{ReviewFinding, ReviewFindings, ReviewLocation};

/// Says that there are none.
const NONE: &str = "no findings";

/// The findings of a text; none where it has no entry with a priority and does not say that there are none.
pub(super) fn findings(text: &str) -> Option<ReviewFindings> {
    let mut findings: Vec<ReviewFinding> = Vec::new();
    // The lines below the last finding, until something else begins.
    let mut body: Option<Vec<&str>> = None;
    let mut is_code = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_text = !is_code && !is_fence;
        if let Some(next) = entry(line).filter(|_| is_text) {
            finish(findings.last_mut(), body.replace(Vec::new()));
            findings.push(next);
        } else if is_text && line.starts_with('#') {
            finish(findings.last_mut(), body.take());
        } else if let Some(body) = &mut body {
            body.push(line);
        }
    }
    finish(findings.last_mut(), body);
    let says_none = || text.to_lowercase().contains(NONE);
    let explanation = None;
    (!findings.is_empty() || says_none()).then_some(ReviewFindings { explanation, findings })
}

/// Gives a finding the lines below it.
fn finish(finding: Option<&mut ReviewFinding>, body: Option<Vec<&str>>) {
    let (Some(finding), Some(lines)) = (finding, body) else { return };
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or("")).collect();
    let text = lines.join("\n").trim().to_owned();
    if finding.location.is_none() {
        finding.location = text.lines().next().and_then(location);
    }
    finding.body = Some(text).filter(|text| !text.is_empty());
}

/// The finding that an entry of a list begins.
fn entry(line: &str) -> Option<ReviewFinding> {
    let (priority, title) = priority(item(line.trim_start())?);
    priority?;
    let (title, place) = split_location(title);
    let title = title.replace("**", "").replace("__", "");
    let title = title.trim_matches(|letter: char| " \t—–-:.(,`".contains(letter)).to_owned();
    let title = if title.is_empty() { "Untitled".to_owned() } else { title };
    Some(ReviewFinding { title, priority, location: place, ..ReviewFinding::default() })
}

/// The text of an entry of a list.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let rest = match digits.len() < line.len() {
        true => digits.strip_prefix(['.', ')'])?,
        false => line.strip_prefix(['-', '*', '+'])?,
    };
    rest.starts_with([' ', '\t']).then(|| rest.trim_start())
}

/// The level of the `[P1]` that a title begins with, and the rest of the title.
pub(super) fn priority(title: &str) -> (Option<u8>, &str) {
    let bare = title.trim_start_matches(['*', '_', '`', ' ']);
    let read = || {
        let rest = bare.strip_prefix("[P").or_else(|| bare.strip_prefix("[p"))?;
        let (level, rest) = rest.split_once(']')?;
        let level: u8 = level.parse().ok().filter(|level| *level <= 3)?;
        Some((level, rest.trim_start_matches(['`', ' ', ':'])))
    };
    read().map_or((None, title), |(level, rest)| (Some(level), rest))
}

/// A title without the place in it, and the place.
fn split_location(title: &str) -> (String, Option<ReviewLocation>) {
    let found = words(title).rev().find_map(|(at, word)| Some((at, word, read_location(word)?)));
    let Some((at, word, place)) = found else { return (title.to_owned(), None) };
    let before = title[..at].trim_end_matches(['`', '(', ' ', '—', '–', '-', '[']);
    let after = title[at + word.len()..].trim_start_matches(['`', ')', ']', ' ', ':', '—']);
    let gap = if before.is_empty() || after.is_empty() { "" } else { " " };
    (format!("{before}{gap}{after}"), Some(place))
}

/// The first place in a text.
pub(super) fn location(text: &str) -> Option<ReviewLocation> {
    words(text).find_map(|(_, word)| read_location(word))
}

/// The words that could be a place, with their positions.
fn words(text: &str) -> impl DoubleEndedIterator<Item = (usize, &str)> {
    let separates = |letter: char| letter.is_whitespace() || "`()[],;*—".contains(letter);
    let at = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    text.split(separates).filter(|word| !word.is_empty()).map(move |word| (at(word), word))
}

/// `path:12-15`, `path:12`, `path:L12-L15` or `path:12:3`.
fn read_location(word: &str) -> Option<ReviewLocation> {
    let word = word.trim_end_matches(['.', ':']);
    let (path, lines) = word.rsplit_once(':')?;
    let number = |text: &str| text.trim_start_matches('L').parse::<u64>().ok();
    let (path, lines) = match lines.split_once('-') {
        Some((first, last)) => (path, (number(first)?, number(last)?)),
        None => {
            let line = number(lines)?;
            let before = path.rsplit_once(':').and_then(|(path, line)| Some((path, number(line)?)));
            before.map_or((path, (line, line)), |(path, line)| (path, (line, line)))
        }
    };
    // Neither a time such as 12:30 nor an address is a file.
    let is_path = path.chars().any(char::is_alphabetic) && !path.contains("://");
    let lines = Some(lines).filter(|(first, last)| *first > 0 && last >= first);
    is_path.then(|| ReviewLocation { path: path.to_owned(), lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Title, priority, place and body of a finding.
    type Shown<'a> = (&'a str, u8, Option<(&'a str, u64, u64)>, Option<&'a str>);

    #[track_caller]
    fn check(text: &str, expected: &[Shown<'_>]) {
        let found = findings(text).unwrap().findings;
        let shown: Vec<Shown<'_>> = found
            .iter()
            .map(|it| {
                let place = it.location.as_ref();
                let place = place.and_then(|place| Some((place.path.as_str(), place.lines?)));
                let place = place.map(|(path, (first, last))| (path, first, last));
                (it.title.as_str(), it.priority.unwrap(), place, it.body.as_deref())
            })
            .collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn entries_with_a_priority_are_findings() {
        check(
            "Not yet.\n\n- [P1] Lost update — src/a.rs:12-15\n  Two writers.\n\n  One loses.\n\
             - [P2] No test\n\nAdd one.",
            &[
                ("Lost update", 1, Some(("src/a.rs", 12, 15)), Some("Two writers.\n\nOne loses.")),
                ("No test", 2, None, Some("Add one.")),
            ],
        );
        for line in [
            "- [P0] Crash (`a/b.py:7`)",
            "* **[P0] Crash** (a/b.py:7)",
            "1. [P0] **Crash** — `a/b.py:7`:",
            "2) `[P0]` Crash - a/b.py:7",
            "+ [p0] Crash a/b.py:L7-L7.",
            "  - **[P0]** Crash `a/b.py:7:3`",
        ] {
            check(line, &[("Crash", 0, Some(("a/b.py", 7, 7)), None)]);
        }
        check(
            "- [P1] Hangs\n  `x.rs:3`: it waits.\n## Notes\n- nothing",
            &[("Hangs", 1, Some(("x.rs", 3, 3)), Some("`x.rs:3`: it waits."))],
        );
        check(
            "- [P3] Example\n```\n- [P0] not one\n# no heading\n```\n",
            &[("Example", 3, None, Some("```\n- [P0] not one\n# no heading\n```"))],
        );
        check("- [P2] At 12:30 of http://h:80/x", &[("At 12:30 of http://h:80/x", 2, None, None)]);
    }

    #[test]
    fn a_text_without_entries_has_none_only_where_it_says_so() {
        assert_eq!(findings("It can go in. No findings."), Some(ReviewFindings::default()));
        for text in ["", "Looks odd to me.", "- a list\n- [x] done\n- [P9] y", "[P1] no entry"] {
            assert_eq!(findings(text), None, "{text}");
        }
    }

    #[test]
    fn odd_text_is_read_without_a_crash() {
        for text in ["- [P1] \u{2014}", "- [P1] :3", "1.", "-", "- [P1] ä\n ö\n\t\tß\n   x"] {
            findings(text);
        }
        check("- [P1]", &[("Untitled", 1, None, None)]);
    }
}
