//! sed scripts that only edit what they print. Sed's other commands write files (`w`, even after
//! `s`), read them (`r`) and run programs (`e`, even after `s`); a script is accepted only when
//! every character of it is understood.

use super::options::{ANY, Options};
use super::word::Word;

const LONG: &str = "quiet silent regexp-extended null-data unbuffered expression=";

/// Returns whether sed with these arguments only prints: no `-i`, no `-f`, every script understood.
pub(super) fn is_safe(args: &[Word]) -> bool {
    let Some(operands) = Options::new("nErzue:", &[LONG], ANY).operands_of(args) else {
        return false;
    };
    let given = expressions(args);
    let mut scripts: Vec<&str> = given.iter().map(String::as_str).collect();
    let mut files = operands.as_slice();
    if scripts.is_empty() {
        let Some((script, rest)) = files.split_first().filter(|(script, _)| !script.expands) else {
            return false;
        };
        scripts.push(&script.text);
        files = rest;
    }
    // GNU sed accepts options after operands too.
    !files.iter().any(|file| file.may_be_option()) && scripts.into_iter().all(only_prints)
}

/// The scripts of `-e`; a word that could be read in two ways was refused by the options.
fn expressions(args: &[Word]) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut rest = args.iter().take_while(|word| word.text != "--");
    while let Some(word) = rest.next() {
        if let Some(script) = word.text.strip_prefix("--expression=") {
            scripts.push(script.to_owned());
        } else if word.text == "--expression" {
            scripts.extend(rest.next().map(|script| script.text.clone()));
        } else if let Some(cluster) = word.text.strip_prefix('-').filter(|c| !c.starts_with('-'))
            && let Some(at) = cluster.find('e')
        {
            match &cluster[at + 1..] {
                "" => scripts.extend(rest.next().map(|script| script.text.clone())),
                attached => scripts.push(attached.to_owned()),
            }
        }
    }
    scripts
}

/// Commands separated by `;` or new lines: `p`, `d`, `q`, `=`, `l`, `n`, `N`, `g`, `G`, `h`, `H`,
/// `x`, `D`, `P`, and `s` with the flags `g`, `p`, `i`, `I` and numbers.
pub(super) fn only_prints(script: &str) -> bool {
    let mut rest = script.trim_start_matches([' ', '\t', ';', '\n']);
    while !rest.is_empty() {
        let Some(after) = command(rest) else { return false };
        let trimmed = after.trim_start_matches([' ', '\t']);
        match trimmed.chars().next() {
            None => return true,
            Some(';' | '\n') => rest = trimmed.trim_start_matches([' ', '\t', ';', '\n']),
            Some(_) => return false,
        }
    }
    !script.is_empty()
}

/// Returns the text after one command.
fn command(text: &str) -> Option<&str> {
    let mut rest = text;
    if let Some(after) = address(rest) {
        rest = after.trim_start_matches(' ');
        if let Some(second) = rest.strip_prefix(',') {
            let second = second.trim_start_matches(' ');
            rest = address(second.strip_prefix(['+', '~']).unwrap_or(second))?;
        } else if let Some(step) = rest.strip_prefix('~') {
            rest = number(step)?;
        }
    }
    rest = rest.trim_start_matches(' ');
    rest = rest.strip_prefix('!').unwrap_or(rest).trim_start_matches(' ');
    let (letter, after) = (rest.chars().next()?, rest.get(1..)?);
    match letter {
        'p' | 'd' | 'q' | '=' | 'l' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | 'D' | 'P' => {
            Some(after)
        }
        's' => {
            let delimiter = delimiter(after)?;
            let after = delimited(after.get(1..)?, delimiter, true)?;
            let after = delimited(after, delimiter, false)?;
            let flag = |c: char| matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit();
            Some(after.trim_start_matches(flag))
        }
        _ => None,
    }
}

/// A line number, `$`, or a pattern between slashes with `I` after it.
fn address(text: &str) -> Option<&str> {
    if let Some(after) = text.strip_prefix('$') {
        return Some(after);
    }
    if let Some(pattern) = text.strip_prefix('/') {
        let after = delimited(pattern, '/', true)?;
        return Some(after.strip_prefix('I').unwrap_or(after));
    }
    number(text)
}

fn number(text: &str) -> Option<&str> {
    let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (1..12).contains(&(text.len() - after.len())).then_some(after)
}

fn delimiter(text: &str) -> Option<char> {
    text.chars().next().filter(|c| "/|#,:@!%_~+".contains(*c))
}

/// Returns the text after the delimiter that ends a text. One sed takes a delimiter within `[…]`
/// for a part of the pattern, another one for its end: then neither is assumed.
fn delimited(text: &str, delimiter: char, pattern: bool) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return None,
            '\\' => {
                chars.next().filter(|(_, c)| *c != '\n')?;
            }
            '[' if pattern => {
                let length = plain_bracket(&text[at + 1..], delimiter)?;
                chars = text.char_indices();
                chars.by_ref().find(|(next, _)| *next == at + length)?;
            }
            c if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

/// The bytes up to the `]` that everybody takes for the end of a bracket expression: `None` when
/// what is in it could be read otherwise.
pub(super) fn plain_bracket(text: &str, delimiter: char) -> Option<usize> {
    let text_in = text.strip_prefix('^').unwrap_or(text);
    let end = text_in.find(']').filter(|end| *end > 0)?;
    let doubtful = |c: char| matches!(c, '[' | '\\' | '\n') || c == delimiter;
    (!text_in[..end].contains(doubtful)).then(|| end + 1 + (text.len() - text_in.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        for script in [
            "5p",
            "1,20p",
            "$p",
            "$!d",
            "1~2p",
            "5q",
            "/a b/p",
            "/a/,/b/p",
            "/a/I,+3p",
            "1,/x/d",
            "s/a/b/",
            "s/a/b/g;s|c|d|2p",
            "s,\\,,x,g",
            "s/[a-z]/-/",
            "s/\\/x/\\n&/",
            "/^#/d; /^$/d",
            "5p\n7p",
            "/a/!p",
            "s/a//gI",
            "s/\\(a\\)/\\1e/",
            "n;d",
            "1!G;h;$!d",
        ] {
            assert!(only_prints(script), "{script}");
        }
        for script in [
            "",
            "w x",
            "1w x",
            "s/a/b/w x",
            "s/a/b/e",
            "s/a/b/ge",
            "e",
            "1e ls",
            "r x",
            "R x",
            "W x",
            "5p w",
            "s/a/b",
            "s/a",
            "s",
            "sxaxbx",
            "s/[/]/x/w y/",
            "s/[]/]/x/",
            "s/[^]a]/x/",
            "s/[\\]/]/x/",
            "s/[[:alpha:]]/x/",
            "s/a/b/;w x",
            "p;e",
            "/a",
            "/a/",
            "\\,a,p",
            "{p}",
            "p}",
            "a text",
            "i\\",
            "c\\",
            "y/a/b/",
            "s/a\nb/c/",
            "s/a/b\\\nc/",
            ":a",
            "b",
            "t",
            "F",
            "z",
            "v",
            "Q1",
            "s/a/b/m",
            "s\\a\\b\\",
            "5,p",
            "!",
            "1;;2",
        ] {
            assert!(!only_prints(script), "{script}");
        }
    }
}
