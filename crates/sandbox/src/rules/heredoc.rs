//! Removes the bodies of heredocs with a quoted tag (`<<'EOF'`) from a script: they are data, often
//! whole files, that the shell does not expand.

use std::borrow::Cow;

/// `script` without these bodies. Keeps the rest of a script from where quotes and heredocs cannot
/// be distinguished with certainty.
pub(super) fn without_quoted_bodies(script: &str) -> Cow<'_, str> {
    if !script.contains("<<") {
        return Cow::Borrowed(script);
    }
    let mut kept = String::with_capacity(script.len().min(4096));
    let mut rest = script;
    while let Some(line) = logical_line(rest) {
        kept.push_str(line.text);
        rest = &rest[line.text.len()..];
        for tag in line.tags {
            let Some(closing) = closing_line(rest, &tag) else {
                kept.push_str(rest);
                return Cow::Owned(kept);
            };
            if !tag.quoted {
                kept.push_str(&rest[..closing.end]);
            } else {
                kept.push_str(&rest[closing.start..closing.end]);
            }
            rest = &rest[closing.end..];
        }
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// A logical line, which quotes can extend over several.
struct LogicalLine<'s> {
    text: &'s str,
    tags: Vec<Tag>,
}

struct Tag {
    text: String,
    quoted: bool,
    /// `<<-`: ignores tabs before the closing tag.
    tabs: bool,
}

/// The next line with its line end; `None` at the end, or if parsing is not certain.
fn logical_line(script: &str) -> Option<LogicalLine<'_>> {
    let bytes = script.as_bytes();
    let mut tags = Vec::new();
    let mut at = 0;
    let mut word_start = true;
    while let Some(&byte) = bytes.get(at) {
        let next = match byte {
            b'\n' => return Some(LogicalLine { text: &script[..=at], tags }),
            b'\\' => at + 2,
            b'\'' => at + 2 + script[at + 1..].find('\'')?,
            b'"' => at + 1 + double_quoted(&script[at + 1..])?,
            b'#' if word_start => at + script[at..].find('\n')?,
            b'$' if names_variable(&bytes[at + 1..]) => at + 2,
            b'$' | b'`' | b'(' | b')' => return None,
            b'<' if script[at..].starts_with("<<") => {
                let (tag, length) = tag(&script[at + 2..])?;
                tags.push(tag);
                at + 2 + length
            }
            _ => at + 1,
        };
        word_start = matches!(byte, b' ' | b'\t' | b';' | b'|' | b'&');
        at = next;
    }
    None
}

/// Returns whether the text after a `$` makes it a plain variable.
fn names_variable(after: &[u8]) -> bool {
    after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_?@".contains(byte))
}

/// Length of a double-quoted text with its closing quote; `None` if it has a substitution.
fn double_quoted(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'$' if names_variable(&text.as_bytes()[at + 1..]) => {}
            b'$' | b'`' => return None,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// The tag after `<<`, and the length of the parsed text. Accepts only letters, digits and `_`,
/// completely quoted or unquoted.
fn tag(text: &str) -> Option<(Tag, usize)> {
    let dash = text.strip_prefix('-').unwrap_or(text);
    let start = dash.trim_start_matches([' ', '\t']);
    let quote = start.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let name = quote.map_or(start, |_| &start[1..]);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
    let after = &name[end..];
    let after = match quote {
        Some(quote) => after.strip_prefix(quote)?,
        None => after,
    };
    let whole = after.is_empty() || after.starts_with([' ', '\t', '\n', ';', '|', '&', '>', '<']);
    let tag =
        Tag { text: name[..end].to_owned(), quoted: quote.is_some(), tabs: text.starts_with('-') };
    (end > 0 && whole).then(|| (tag, text.len() - after.len()))
}

/// The range of the closing line of a body.
fn closing_line(text: &str, tag: &Tag) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let content = if tag.tabs { content.trim_start_matches('\t') } else { content };
        if content == tag.text {
            return Some(start..start + line.len());
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bodies() {
        let check = |script: &str, expect: &str| {
            assert_eq!(without_quoted_bodies(script), expect, "{script:?}");
        };
        check("ls", "ls");
        check("cat <<'E'\nx $(rm)\nE\nls", "cat <<'E'\nE\nls");
        check("cat <<\"E\" > x\na\nb\nE\n", "cat <<\"E\" > x\nE\n");
        check("cat <<-'E'\n\ta\n\tE\nls", "cat <<-'E'\n\tE\nls");
        check("cat <<'E'\na\nE", "cat <<'E'\nE");
        check("cat <<'A' <<'B'\na\nA\nb\nB\nls", "cat <<'A' <<'B'\nA\nB\nls");
        check("cat <<E\na\nE\ncat <<'E'\na\nE\n", "cat <<E\na\nE\ncat <<'E'\nE\n");
        check("x $a \"$b\"; cat <<'E'\na\nE", "x $a \"$b\"; cat <<'E'\nE");
        // Not a heredoc, or not certain: kept.
        check("echo \"<<'E'\"\nrm\nE\n", "echo \"<<'E'\"\nrm\nE\n");
        check("echo \"\n<<'E'\n\"\nrm\nE\n", "echo \"\n<<'E'\n\"\nrm\nE\n");
        check("# <<'E'\nrm\nE\n", "# <<'E'\nrm\nE\n");
        check("echo \\<<'E'\nrm\nE\n", "echo \\<<'E'\nrm\nE\n");
        check("cat <<<'E'\nrm\nE\n", "cat <<<'E'\nrm\nE\n");
        check("echo $((1<<'E'))\nrm\nE\n", "echo $((1<<'E'))\nrm\nE\n");
        check("cat <<'E'\nrm\n", "cat <<'E'\nrm\n");
        check("cat <<'E'x\nrm\nE\n", "cat <<'E'x\nrm\nE\n");
    }

    proptest! {
        #[test]
        fn never_panics_and_only_shortens(script in "([a<'\"\\\\$ \\n#-]|<<'a'\\n|é|a\\n){0,30}") {
            prop_assert!(without_quoted_bodies(&script).len() <= script.len());
        }
    }
}
