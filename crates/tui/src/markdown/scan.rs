//! The beginnings of lines: the markers of containers and blocks of CommonMark. Each function takes
//! a line without its containers' markers.

use std::borrow::Cow;

/// The marker of a list's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The character of a bullet, or the one after a number. Another one starts another list.
    pub(super) kind: char,
    /// The number, in ordered lists.
    pub(super) number: Option<u64>,
    /// Bytes up to the content.
    pub(super) width: usize,
}

/// Spaces at the start. Tabs have been [expanded](expand).
pub(super) fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

pub(super) fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| byte.is_ascii_whitespace())
}

/// The line with the tabs at its start as spaces.
pub(super) fn expand(line: &str) -> Cow<'_, str> {
    let content = line.trim_start_matches([' ', '\t']);
    let space = &line[..line.len() - content.len()];
    if !space.contains('\t') {
        return Cow::Borrowed(line);
    }
    let columns = space.bytes().fold(0, |column, byte| match byte {
        b'\t' => column / 4 * 4 + 4,
        _ => column + 1,
    });
    Cow::Owned(" ".repeat(columns) + content)
}

/// Returns the text after the marker of a quotation.
pub(super) fn quote(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    let rest = (indentation(line) < 4).then_some(rest)?.strip_prefix('>')?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// The marker of a list's item. Where it would interrupt a paragraph, only items with content and lists that
/// start at 1 are allowed.
pub(super) fn marker(line: &str, interrupts: bool) -> Option<Marker> {
    let indent = indentation(line);
    let rest = (indent < 4).then(|| &line[indent..])?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let kind = rest[digits..].chars().next()?;
    let number = match (kind, digits) {
        ('-' | '*' | '+', 0) => None,
        ('.' | ')', 1..=9) => Some(rest[..digits].parse().ok()?),
        _ => return None,
    };
    let rest = &rest[digits + 1..];
    let is_empty = is_blank(rest);
    if interrupts && (is_empty || number.is_some_and(|number| number != 1)) {
        return None;
    }
    if !is_empty && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let spaces = match indentation(rest) {
        spaces @ 1..=4 if !is_empty => spaces,
        _ => usize::from(!rest.is_empty()),
    };
    Some(Marker { kind, number, width: indent + digits + 1 + spaces })
}

/// The opening of a fenced code block: its character, its length, its indentation, and the language.
pub(super) fn fence(line: &str) -> Option<(char, usize, usize, &str)> {
    let indent = indentation(line);
    let rest = (indent < 4).then(|| &line[indent..])?;
    let mark = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = rest.trim_start_matches(mark);
    let length = rest.len() - info.len();
    if length < 3 || mark == '`' && info.contains('`') {
        return None;
    }
    let language = info.split_whitespace().next().unwrap_or_default();
    Some((mark, length, indent, language))
}

/// Returns whether a line ends a fenced code block.
pub(super) fn closes(line: &str, mark: char, length: usize) -> bool {
    let rest = line.trim_matches(' ');
    indentation(line) < 4 && rest.len() >= length && rest.chars().all(|c| c == mark)
}

/// Returns whether a line is a heading with number signs.
pub(super) fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches(' ');
    let text = rest.trim_start_matches('#');
    let level = rest.len() - text.len();
    indentation(line) < 4
        && (1..=6).contains(&level)
        && (text.is_empty() || text.starts_with([' ', '\t']))
}

/// Returns whether a line underlines the heading above it.
pub(super) fn is_underline(line: &str) -> bool {
    let rest = line.trim();
    let is_of = |mark: char| rest.chars().all(|c| c == mark);
    indentation(line) < 4 && !rest.is_empty() && (is_of('=') || is_of('-'))
}

/// Returns whether a line is a rule across the page.
pub(super) fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_ascii_whitespace());
    let Some(first) = marks.next().filter(|c| matches!(c, '*' | '-' | '_')) else {
        return false;
    };
    let mut others = 0;
    indentation(line) < 4 && marks.all(|c| (c == first, others += 1).0) && others >= 2
}

/// Returns whether a line separates the head of a table of at most `most` columns from its rows.
pub(super) fn is_delimiter_row(line: &str, most: usize) -> bool {
    let columns = line.bytes().filter(|byte| *byte == b'|').count();
    let allowed = |c: char| matches!(c, '|' | '-' | ':' | ' ' | '\t');
    line.contains('-') && (1..=most).contains(&columns) && line.trim().chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_items() {
        let check = |line: &str, interrupts: bool, expect: Option<(Option<u64>, usize)>| {
            let found = marker(line, interrupts).map(|marker| (marker.number, marker.width));
            assert_eq!(found, expect, "{line:?}");
        };
        check("- a", false, Some((None, 2)));
        check("  *   a", false, Some((None, 6)));
        check("12) a", false, Some((Some(12), 4)));
        check("-      code", false, Some((None, 2)));
        check("-", false, Some((None, 1)));
        check("-", true, None);
        check("2. a", true, None);
        check("1. a", true, Some((Some(1), 3)));
        check("1.a", false, None);
        check("1234567890. a", false, None);
        check("    - a", false, None);
        check("-é", false, None);
    }

    #[test]
    fn lines_that_are_blocks() {
        assert_eq!(fence("  ~~~~ rust x"), Some(('~', 4, 2, "rust")));
        assert_eq!(fence("``` a`b"), None);
        assert!(closes(" `````  ", '`', 3) && !closes("`` `", '`', 3));
        assert!(
            is_heading("## a") && is_heading("#") && !is_heading("#a") && !is_heading("####### a")
        );
        assert!(is_rule("- - -") && is_rule("***") && !is_rule("**") && !is_rule("--a"));
        assert!(is_delimiter_row("|:-:|--|", 9) && !is_delimiter_row("|:-:|--|", 2));
        assert!(is_underline("==") && !is_underline("=-"));
        assert_eq!(expand(" \ta\tb"), "    a\tb");
    }
}
