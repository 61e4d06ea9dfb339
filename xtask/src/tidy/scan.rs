//! Splits Rust source into code, comments and string literals, line by line. Just enough of a lexer
//! for the rules of tidy: it knows no grammar.

/// One source text, taken apart. `code` has as many lines as the text.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Each line with comments removed and literals emptied (`""`).
    pub(crate) code: Vec<String>,
    /// Each line's comment text.
    pub(crate) comments: Vec<String>,
    /// The line (from 0) that a string literal starts on, and its raw content.
    pub(crate) literals: Vec<(usize, String)>,
}

impl Scan {
    /// The line (from 0) of a trailing `#[cfg(test)] mod …`, else the number of lines.
    pub(crate) fn tests_start(&self) -> usize {
        let lines = self.code.len();
        (0..lines)
            .find(|line| {
                let next = self.code.get(line + 1).map_or("", |code| code.trim());
                self.code[*line].trim() == "#[cfg(test)]"
                    && next.starts_with("mod ")
                    && next.ends_with('{')
            })
            .unwrap_or(lines)
    }

    /// Returns whether `mark` occurs in a comment on this line or in the comment block right above
    /// it.
    pub(crate) fn explained(&self, line: usize, mark: &str) -> bool {
        if self.comments[line].contains(mark) {
            return true;
        }
        let above = (0..line).rev().take_while(|at| {
            let code = self.code[*at].trim();
            let comment = !self.comments[*at].is_empty();
            code.is_empty() && comment || code.starts_with("#[") || is_continued(code)
        });
        above.into_iter().any(|at| self.comments[at].contains(mark))
    }
}

/// Returns whether a statement continues on the next line, as `let x =` does.
fn is_continued(code: &str) -> bool {
    ["=", "(", ","].iter().any(|end| code.ends_with(end))
}

/// Takes `text` apart; never fails, unterminated literals and comments end with the text.
pub(crate) fn scan(text: &str) -> Scan {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, out: Scan::default() };
    scanner.out.code.push(String::new());
    scanner.out.comments.push(String::new());
    while scanner.at < scanner.chars.len() {
        scanner.step();
    }
    scanner.out
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: Scan,
}

impl Scanner {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('r'), _) if !self.inside_word() && self.raw_hashes(1).is_some() => self.raw(1),
            (Some('b' | 'c'), Some('r')) if !self.inside_word() && self.raw_hashes(2).is_some() => {
                self.raw(2);
            }
            (Some('\''), _) => self.character(),
            _ => self.code(),
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&self) -> usize {
        self.out.code.len() - 1
    }

    /// Takes one character, into the comment of this line, or nowhere but counting lines.
    fn take(&mut self, comment: bool) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.out.code.push(String::new());
            self.out.comments.push(String::new());
        } else if comment && let Some(line) = self.out.comments.last_mut() {
            line.push(c);
        }
        Some(c)
    }

    fn emit(&mut self, text: &str) {
        if let Some(line) = self.out.code.last_mut() {
            line.push_str(text);
        }
    }

    fn code(&mut self) {
        if let Some(c) = self.take(false)
            && c != '\n'
        {
            self.emit(c.encode_utf8(&mut [0; 4]));
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take(true);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (Some(_), _) => {
                    self.take(true);
                    continue;
                }
                (None, _) => return,
            }
            self.take(true);
            self.take(true);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let (start, mut content) = (self.line(), String::new());
        self.emit("\"\"");
        self.take(false);
        while let Some(c) = self.take(false) {
            match c {
                '"' => break,
                '\\' => {
                    content.push(c);
                    content.extend(self.take(false));
                }
                _ => content.push(c),
            }
        }
        self.out.literals.push((start, content));
    }

    /// The number of `#` between here plus `ahead` and an opening quote, when that is what follows.
    fn raw_hashes(&self, ahead: usize) -> Option<usize> {
        let hashes = self.chars[self.at..].iter().skip(ahead).take_while(|c| **c == '#').count();
        (self.peek(ahead + hashes) == Some('"')).then_some(hashes)
    }

    fn raw(&mut self, prefix: usize) {
        let hashes = self.raw_hashes(prefix).unwrap_or(0);
        let (start, mut content) = (self.line(), String::new());
        self.emit("\"\"");
        for _ in 0..prefix + hashes + 1 {
            self.take(false);
        }
        while let Some(c) = self.take(false) {
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                break;
            }
            content.push(c);
        }
        self.out.literals.push((start, content));
    }

    /// A character literal, or the quote of a lifetime or label.
    fn character(&mut self) {
        let closes_at = match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                let tail = self.chars[self.at..].iter().skip(3);
                tail.take(10).position(|c| *c == '\'').map(|n| n + 3)
            }
            (Some(_), Some('\'')) => Some(2),
            _ => None,
        };
        match closes_at {
            Some(end) => {
                self.emit("' '");
                for _ in 0..=end {
                    self.take(false);
                }
            }
            None => self.code(),
        }
    }

    fn inside_word(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.chars[at]);
        before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    }
}

/// Returns whether `code` holds `word` as a whole word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(part)
            && !code[at + word.len()..].chars().next().is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_source_apart() {
        for (text, code, comment, literals) in [
            ("a // b", "a ", "// b", vec![]),
            ("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */", vec![]),
            ("f(\"x // y\")", "f(\"\")", "", vec!["x // y"]),
            (r#"f("a\"b")"#, "f(\"\")", "", vec![r#"a\"b"#]),
            ("r#\"a\"b\"# c", "\"\" c", "", vec!["a\"b"]),
            ("br\"a\\\" c", "\"\" c", "", vec!["a\\"]),
            ("var\"a\"", "var\"\"", "", vec!["a"]),
            ("'\"' x '\\'' y", "' ' x ' ' y", "", vec![]),
            ("'\\u{1F600}' x", "' ' x", "", vec![]),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)", "", vec![]),
            ("'{' '\\\\' \"s\"", "' ' ' ' \"\"", "", vec!["s"]),
        ] {
            let scan = scan(text);
            assert_eq!(scan.code, [code], "{text}");
            assert_eq!(scan.comments, [comment], "{text}");
            let found: Vec<&str> = scan.literals.iter().map(|(_, l)| l.as_str()).collect();
            assert_eq!(found, literals, "{text}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("is_unsafe", "unsafe"));
    }

    proptest! {
        #[test]
        fn lines_are_kept(text in "[a-z/*\"'\\\\#r\n {}]{0,80}") {
            let scan = scan(&text);
            prop_assert_eq!(scan.code.len(), text.matches('\n').count() + 1);
            prop_assert_eq!(scan.code.len(), scan.comments.len());
        }
    }
}
