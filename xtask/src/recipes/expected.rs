//! Comparison of output with what a page shows of it.

/// Stands for any text in a line, and alone on its line for any number of lines.
const ANY: &str = "…";

/// Returns whether `output` is what `wanted` shows, apart from space at the ends of lines and of
/// the whole.
pub(super) fn fits(wanted: &str, output: &str) -> bool {
    let lines =
        |text: &str| text.trim().lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>();
    fit_lines(&lines(wanted), &lines(output))
}

fn fit_lines(wanted: &[String], lines: &[String]) -> bool {
    match wanted.split_first() {
        None => lines.is_empty(),
        Some((any, rest)) if any == ANY => {
            (0..=lines.len()).any(|skipped| fit_lines(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| fits_line(first, line) && fit_lines(rest, lines)),
    }
}

fn fits_line(wanted: &str, line: &str) -> bool {
    let Some((start, rest)) = wanted.split_once(ANY) else { return wanted == line };
    let Some(mut line) = line.strip_prefix(start) else { return false };
    let mut parts = rest.split(ANY).peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return line.ends_with(part);
        }
        let Some(at) = line.find(part) else { return false };
        line = &line[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipsis_stands_for_what_differs_between_runs() {
        for (wanted, output, expected) in [
            ("a\nb\n", "a  \nb\n\n", true),
            ("a", "a\nb", false),
            ("a\nb", "a", false),
            ("", "", true),
            ("", "a", false),
            ("id …", "id 7", true),
            ("id … of …!", "id 7 of 9!", true),
            ("id … of …!", "id 7 of 9", false),
            ("x…x", "x", false),
            ("a\n…\nd", "a\nb\nc\nd", true),
            ("a\n…\nd", "a\nd", true),
            ("a\n…\nd", "a\nb", false),
            ("…", "", true),
        ] {
            assert_eq!(fits(wanted, output), expected, "{wanted:?} {output:?}");
        }
    }
}
