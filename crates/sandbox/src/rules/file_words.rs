//! The words of a command line that may name files, for those who have to notice when such a file changes or
//! is run. Unlike the assessment it never gives up: it follows the shell's quoting, variables whose values are
//! known and braces, looks into quoted text and substitutions for further commands, and returns rather a word
//! too many than one too few.

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

/// Command lines within command lines that are looked into.
const MAX_DEPTH: usize = 6;
/// Characters that are read, those of quoted text each time that it is looked into.
const MAX_READ: usize = 512 << 10;
/// Words that one word's braces can stand for.
const MAX_ALTERNATIVES: usize = 64;
/// Characters of a path.
const MAX_PATH: usize = 4_096;
/// Words of a command line.
const MAX_WORDS: usize = 4_096;

/// A word that may name a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileWord {
    /// Without quotes, and with the values of known variables.
    pub text: String,
    /// True if it has a part that only the shell knows: a pattern such as `*.sh`, another variable,
    /// a substitution, a tilde. The text is then as it was written.
    pub expands: bool,
}

/// The words of `line` that may name files, in their order, each once; `None` when it has too many to be
/// followed. `variable` knows the values of variables.
pub fn file_words(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<FileWord>> {
    let mut reader = Reader { variable, found: Vec::new(), depth: 0, left: MAX_READ };
    reader.line(line)?;
    let mut seen = HashSet::new();
    reader.found.retain(|word| seen.insert(word.clone()));
    Some(reader.found)
}

struct Reader<'v> {
    variable: &'v dyn Fn(&str) -> Option<String>,
    found: Vec<FileWord>,
    depth: usize,
    /// Characters that may still be read.
    left: usize,
}

type Input<'t> = Peekable<Chars<'t>>;

/// A word as far as it was read.
#[derive(Default)]
struct Open {
    /// Each character, and whether it was quoted.
    text: Vec<(char, bool)>,
    has_unknown: bool,
}

impl Open {
    fn push(&mut self, text: &str) {
        self.text.extend(text.chars().map(|char| (char, true)));
    }

    /// Adds what only the shell knows, as it is written.
    fn push_unknown(&mut self, text: &str) {
        self.has_unknown = true;
        self.text.extend(text.chars().map(|char| (char, false)));
    }
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Option<()> {
        self.left = self.left.checked_sub(line.len())?;
        self.nested(&mut line.chars().peekable(), None)
    }

    /// Reads a command line within another one, up to `end`, which closes a substitution.
    fn nested(&mut self, input: &mut Input<'_>, end: Option<char>) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.until(input, end)?;
        self.depth -= 1;
        Some(())
    }

    fn until(&mut self, input: &mut Input<'_>, end: Option<char>) -> Option<()> {
        let mut word = Open::default();
        let mut parentheses = 0;
        while let Some(char) = input.next() {
            match char {
                _ if Some(char) == end && parentheses == 0 => break,
                '\\' => match input.next() {
                    Some('\n') | None => {}
                    Some(escaped) => word.text.push((escaped, true)),
                },
                '\'' => {
                    let quoted: String = input.by_ref().take_while(|char| *char != '\'').collect();
                    word.push(&quoted);
                }
                '"' => self.double_quoted(input, &mut word)?,
                '$' if input.peek() == Some(&'(') => word.has_unknown = true,
                '$' => self.dollar(input, &mut word)?,
                '(' | ')' => {
                    parentheses += if char == '(' { 1 } else { -1 };
                    self.end_word(&mut word)?;
                }
                '`' | ';' | '|' | '&' | '<' | '>' => self.end_word(&mut word)?,
                char if char.is_whitespace() => self.end_word(&mut word)?,
                char => word.text.push((char, false)),
            }
        }
        self.end_word(&mut word)
    }

    fn double_quoted(&mut self, input: &mut Input<'_>, word: &mut Open) -> Option<()> {
        while let Some(char) = input.next() {
            match char {
                '"' => return Some(()),
                '\\' => match input.next() {
                    Some('\n') | None => {}
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => word.text.push((escaped, true)),
                    Some(other) => word.text.extend([('\\', true), (other, true)]),
                },
                '$' => self.dollar(input, word)?,
                '`' => {
                    word.has_unknown = true;
                    self.nested(input, Some('`'))?;
                }
                char => word.text.push((char, true)),
            }
        }
        Some(())
    }

    /// Reads what follows a `$`.
    fn dollar(&mut self, input: &mut Input<'_>, word: &mut Open) -> Option<()> {
        let is_name = |char: &char| char.is_ascii_alphanumeric() || *char == '_';
        match input.peek() {
            Some('(') => {
                input.next();
                word.has_unknown = true;
                self.nested(input, Some(')'))?;
            }
            Some('{') => {
                input.next();
                let inner: String = input.by_ref().take_while(|char| *char != '}').collect();
                match (self.variable)(&inner) {
                    Some(value) => word.push(&value),
                    None => {
                        word.push_unknown(&format!("${{{inner}}}"));
                        // `${NAME:-./default}`.
                        let rest = inner.trim_start_matches(|char| is_name(&char));
                        self.line(rest.trim_start_matches([':', '-', '=', '+', '?']))?;
                    }
                }
            }
            Some(char) if is_name(char) => {
                let mut name = String::new();
                while let Some(char) = input.next_if(is_name) {
                    name.push(char);
                }
                match (self.variable)(&name) {
                    Some(value) => word.push(&value),
                    None => word.push_unknown(&format!("${name}")),
                }
            }
            // `$'…'` has escapes of its own.
            Some('\'') => word.has_unknown = true,
            _ => word.text.push(('$', false)),
        }
        Some(())
    }

    fn end_word(&mut self, word: &mut Open) -> Option<()> {
        let Open { text, has_unknown } = std::mem::take(word);
        let quoted: String =
            text.iter().filter(|(_, quoted)| *quoted).map(|(char, _)| char).collect();
        if quoted.contains(|char: char| char.is_whitespace() || ";|&<>()`$\"'\\".contains(char)) {
            let whole: String = text.iter().map(|(char, _)| char).collect();
            // `sh -c '…'`.
            self.line(&whole)?;
        }
        for text in alternatives(text) {
            self.add(&text, has_unknown)?;
        }
        Some(())
    }

    fn add(&mut self, text: &[(char, bool)], has_unknown: bool) -> Option<()> {
        let written: String = text.iter().map(|(char, _)| char).collect();
        let is_test = matches!(&*written, "[" | "[[");
        let is_pattern = text.iter().any(|(char, quoted)| !quoted && "*?[".contains(*char));
        let expands = has_unknown || is_pattern && !is_test || text.first() == Some(&('~', false));
        // `--file=./x` and `NAME=./x`, and a file whose name has the character.
        let parts = written.match_indices('=').map(|(at, _)| written.get(at + 1..));
        let parts = std::iter::once(Some(&*written)).chain(parts).flatten();
        let parts = parts.filter(|part| !part.is_empty());
        let words = parts.map(|part| FileWord { text: part.to_owned(), expands });
        self.found.extend(words);
        (self.found.len() <= MAX_WORDS).then_some(())
    }
}

/// Returns the alternatives of a word with braces: `{a,b}.sh` for `a.sh` and `b.sh`.
fn alternatives(word: Vec<(char, bool)>) -> Vec<Vec<(char, bool)>> {
    // Longer than any path.
    if word.len() > MAX_PATH {
        return vec![word];
    }
    let mut done = Vec::new();
    let mut open = vec![word];
    while let Some(word) = open.pop() {
        match braces(&word) {
            Some(each) if open.len() + done.len() + each.len() <= MAX_ALTERNATIVES => {
                open.extend(each.into_iter().rev());
            }
            _ => done.push(word),
        }
    }
    done
}

/// Replaces the first braces by each of their parts.
fn braces(word: &[(char, bool)]) -> Option<Vec<Vec<(char, bool)>>> {
    let starts = (0..word.len()).filter(|at| word[*at] == ('{', false));
    for start in starts.take(MAX_ALTERNATIVES) {
        let (mut level, mut cuts) = (0, vec![start]);
        for (at, (char, _)) in
            word.iter().enumerate().skip(start).filter(|(_, (_, quoted))| !quoted)
        {
            match char {
                '{' => level += 1,
                '}' => level -= 1,
                ',' if level == 1 => cuts.push(at),
                _ => {}
            }
            if level == 0 {
                if cuts.len() == 1 {
                    break;
                }
                cuts.push(at);
                let part = |cut: &[usize]| {
                    [&word[..start], &word[cut[0] + 1..cut[1]], &word[at + 1..]].concat()
                };
                return Some(cuts.windows(2).map(part).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        let variable = |name: &str| (name == "ROOT").then(|| "/p q".to_owned());
        let shown =
            |word: FileWord| if word.expands { format!("?{}", word.text) } else { word.text };
        file_words(line, &variable).unwrap().into_iter().map(shown).collect()
    }

    #[test]
    fn words_are_what_the_shell_makes_of_them() {
        for (line, expected) in [
            ("./check.sh a", &["./check.sh", "a"][..]),
            (r#""$ROOT"/check.sh"#, &["q/check.sh", "/p", "/p q/check.sh"]),
            (r#""${ROOT}/check.sh""#, &["/p", "q/check.sh", "/p q/check.sh"]),
            (r#""."/check.sh"#, &["./check.sh"]),
            (r#"sh "a b.sh""#, &["sh", "a", "b.sh", "a b.sh"]),
            (r"sh ./a\ b.sh", &["sh", "./a", "b.sh", "./a b.sh"]),
            ("sh {check,x{1,2}}.sh", &["sh", "check.sh", "x1.sh", "x2.sh"]),
            ("sh '{a,b}'.sh", &["sh", "{a,b}.sh"]),
            ("sh -c 'cd x && ./y'", &["sh", "-c", "cd", "x", "./y", "cd x && ./y"]),
            (r#"echo "$(cat ./a)" `./b` $(./c)"#, &["echo", "cat", "./a", "./b", "./c"]),
            ("(./a)|./b&&./c;./d>./e", &["./a", "./b", "./c", "./d", "./e"]),
            ("X=./a --file=b", &["X=./a", "./a", "--file=b", "b"]),
            ("sh *.sh ~/x $OTHER/y", &["sh", "?*.sh", "?~/x", "?$OTHER/y"]),
            ("[ -f a ] && [[ -f b ]]", &["[", "-f", "a", "]", "[[", "b", "]]"]),
            (r"${X:-./d} $", &["./d", "?${X:-./d}", "$"]),
            ("sh ./a\\\nb", &["sh", "./ab"]),
        ] {
            let found = words(line);
            for word in expected {
                assert!(found.iter().any(|found| found == word), "{line}: {word} in {found:?}");
            }
            let unexpected = found.iter().filter(|word| !expected.contains(&word.as_str()));
            let unexpected: Vec<_> = unexpected.filter(|word| !word.starts_with('?')).collect();
            let is_quoted = line.contains(['"', '\'', '\\']);
            assert!(is_quoted || unexpected.is_empty(), "{line}: {unexpected:?}");
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_not_followed() {
        for part in ["(", "${", "$(", "\"$(", "`", "\\'\"", "{a,b}", "'", "a ", "a=", "\"`", "{,"] {
            file_words(&part.repeat(20_000), &|_| None);
        }
        assert_eq!(file_words(&"a ".repeat(20_000), &|_| None), None);
        assert_eq!(file_words(&"\"$(".repeat(20_000), &|_| None), None);
    }

    proptest! {
        #[test]
        fn a_quoted_path_is_found_however_it_is_cut(path in "[a-z ./{},$'*]{1,12}", cut in 0usize..12) {
            let at = cut.min(path.len());
            let (left, right) = path.split_at(at);
            let quote = |part: &str| format!("'{}'", part.replace('\'', r"'\''"));
            let line = format!("sh {}{} -x", quote(left), quote(right));
            let expected = FileWord { text: path, expands: false };
            prop_assert!(file_words(&line, &|_| None).unwrap().contains(&expected));
        }

        #[test]
        fn any_line_ends(line in any::<String>()) {
            file_words(&line, &|_| None);
        }

        #[test]
        fn punctuation_ends(line in "[{},$()`'\"\\\\ a*=]{0,200}") {
            file_words(&line, &|_| None);
        }
    }
}
