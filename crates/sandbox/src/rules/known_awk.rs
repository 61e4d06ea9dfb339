//! awk programs that only compute and print. Others write files (`>`), run programs (`|`,
//! `system`, `getline`), or load them (`@`): a program is accepted only when each of its tokens is
//! on a short list, and where a token could be read in two ways it is refused.

use super::known_sed::plain_bracket;
use super::options::{ANY, Options};
use super::word::Word;

/// Returns whether awk with these arguments only prints: no `-f`, a program that is understood.
pub(super) fn is_safe(args: &[Word]) -> bool {
    let Some(operands) = Options::new("F:", &[], ANY).operands_of(args) else { return false };
    let Some((program, files)) = operands.split_first() else { return false };
    // One awk opens connections for files below `/inet`.
    let plain = |file: &&Word| !file.may_be_option() && !file.text.contains("/inet");
    !program.expands && files.iter().all(plain) && only_prints(&program.text)
}

/// Variables and words without effect beyond the program.
const WORDS: &[&str] =
    &["BEGIN", "END", "else", "exit", "if", "next", "print", "printf", "FILENAME", "FNR", "FS"];
const MORE_WORDS: &[&str] = &["NF", "NR", "OFS", "ORS", "RLENGTH", "RS", "RSTART", "SUBSEP"];
/// Functions that only compute.
const FUNCTIONS: &[&str] = &[
    "gsub", "index", "int", "length", "match", "split", "sprintf", "sub", "substr", "tolower",
    "toupper",
];
/// Longest first.
const OPERATORS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "%=", "++", "--", "{", "}", "(", ")",
    "[", "]", ";", ",", "+", "-", "*", "%", "!", ">", "<", "~", "?", ":", "=", "$",
];

/// Returns whether an awk program only computes and prints.
fn only_prints(program: &str) -> bool {
    let mut reader = Reader { rest: program, braces: 0, operand: false };
    while !reader.rest.is_empty() {
        if reader.token().is_none() {
            return false;
        }
    }
    reader.braces == 0 && !program.trim().is_empty()
}

struct Reader<'p> {
    rest: &'p str,
    braces: usize,
    /// True if the last token was a value: a `/` would divide then.
    operand: bool,
}

impl Reader<'_> {
    fn token(&mut self) -> Option<()> {
        let c = self.rest.chars().next()?;
        match c {
            ' ' | '\t' => self.skip(1),
            '\n' => {
                self.operand = false;
                self.skip(1);
            }
            '"' => {
                let end = closing(&self.rest[1..], '"')?;
                self.skip(1 + end);
                self.operand = true;
            }
            // After a value it divides, and some readers differ about what a value is.
            '/' if !self.operand => {
                let end = closing(&self.rest[1..], '/')?;
                brackets_are_plain(&self.rest[1..end])?;
                self.skip(1 + end);
                self.operand = true;
            }
            c if c.is_ascii_digit() => {
                let digit = |c: char| c.is_ascii_digit() || c == '.';
                self.skip(self.rest.find(|c| !digit(c)).unwrap_or(self.rest.len()));
                self.operand = true;
            }
            c if c.is_ascii_alphabetic() || c == '_' => self.word()?,
            _ => self.operator()?,
        }
        Some(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn word(&mut self) -> Option<()> {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (word, after) =
            self.rest.split_at(self.rest.find(|c| !name(c)).unwrap_or(self.rest.len()));
        let called = after.trim_start().starts_with('(');
        let known = if WORDS.contains(&word) || MORE_WORDS.contains(&word) {
            true
        } else if FUNCTIONS.contains(&word) {
            called || word == "length"
        } else {
            // A variable of the program's own: in lower case, as no variable of awk is, and as
            // all its statements and functions are.
            !called && word.len() <= 8 && !STATEMENTS.contains(&word) && is_lower(word)
        };
        // `print /x/` prints a match, `a /x/` divides: `/` is left to where it can only be one.
        self.operand = !matches!(word, "BEGIN" | "END" | "else");
        self.rest = after;
        known.then_some(())
    }

    fn operator(&mut self) -> Option<()> {
        let found = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator))?;
        match *found {
            "{" => self.braces += 1,
            "}" => self.braces = self.braces.checked_sub(1)?,
            // In an action it could be where the output goes.
            ">" if self.braces > 0 => return None,
            _ => {}
        }
        self.operand = matches!(*found, ")" | "]" | "$" | "++" | "--" | "}");
        self.skip(found.len());
        Some(())
    }
}

/// All that is no variable: statements, and functions of some awk.
const STATEMENTS: &[&str] = &[
    "and", "asort", "asorti", "atan2", "break", "case", "close", "compl", "continue", "cos",
    "default", "delete", "do", "exp", "fflush", "for", "func", "function", "gensub", "getline",
    "in", "isarray", "log", "lshift", "nextfile", "or", "rand", "return", "rshift", "sin", "sqrt",
    "srand", "strftime", "strtonum", "switch", "system", "systime", "typeof", "while", "xor",
];

/// Some awk take a `/` within `[…]` for a part of the pattern: none may be near.
fn brackets_are_plain(pattern: &str) -> Option<()> {
    let mut rest = pattern;
    while let Some(at) = rest.find(['[', '\\']) {
        let after = &rest[at + 1..];
        let skipped = match rest.as_bytes()[at] {
            b'[' => plain_bracket(after, '/')?,
            _ => after.chars().next()?.len_utf8(),
        };
        rest = &after[skipped..];
    }
    Some(())
}

fn is_lower(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The byte after the end of a text, in one line.
fn closing(text: &str, end: char) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return None,
            '\\' => {
                chars.next().filter(|(_, c)| *c != '\n')?;
            }
            c if c == end => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs() {
        for program in [
            "{print $1}",
            "{s+=$1} END {print s}",
            "NR>=100 && NR<=160",
            "1",
            "NR==1,NR==40 {print NR\": \"$0}",
            "/fn main/,/^}/",
            "{print $5, $9}",
            "END{print NR}",
            "{ print $NF }",
            "$3 > 100 { n++ } END { print n }",
            "!seen[$0]++",
            "BEGIN { FS = \",\" } { printf \"%s\\n\", $2 }",
            "{ print toupper(substr($1, 2)) }",
            "length > 80",
            "length($0) > 80 {print FILENAME\":\"FNR}",
            "$2 ~ /^a/ {print}",
            "{ if ($1 == \"a\") print $2; else print $3 }",
            "/[a-z]/",
            "{gsub(/a/, \"b\"); print}",
        ] {
            assert!(only_prints(program), "{program}");
        }
        for program in [
            "",
            " ",
            "BEGIN{system(\"rm x\")}",
            "{print > \"x\"}",
            "{print >> \"x\"}",
            "{print | \"sh\"}",
            "{ \"ls\" | getline }",
            "{ getline x < \"f\" }",
            "{ getline }",
            "@load \"x\"",
            "@include \"x\"",
            "BEGIN { f = \"system\"; @f(\"ls\") }",
            "{print",
            "print}",
            "{ x / \"a\" > \"b\" / 1 }",
            "{ print $1 / 2 }",
            "{ while (1) x++ }",
            "{ for (;;) x++ }",
            "function f() { }",
            "{ f(1) }",
            "{ close(\"x\") }",
            "BEGIN{fflush()}",
            "{ print ENVIRON[\"A\"] }",
            "{ PROCINFO[1] = 2 }",
            "/[/]/ {print > \"x\"} /]/",
            "{ /[]/ x ] {/; print > \"f\" /}",
            "/[\\]/]/",
            "/[[]/",
            "/[^]a]/",
            "{ print \"a }",
            "{ print \"a\nb\" }",
            "# x",
            "{ print `ls` }",
            "{ print $(ls | 1) }",
            "{ ARGV[1] = 2 }",
            "{ print a&b }",
            "BEGIN { printf \"x\" |& \"y\" }",
            "\\",
            "é",
            "{ print $1 > 2 }",
            "{ strftime(1) }",
            "{ delete x }",
        ] {
            assert!(!only_prints(program), "{program}");
        }
    }
}
