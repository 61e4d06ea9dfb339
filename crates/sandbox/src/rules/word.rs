//! A word of a command: its text after quote removal, and whether the shell expands it. Knows the
//! shell's quoting, not its expansions.

use tree_sitter::Node;

/// Words that begin or end a control structure, or run another command, in the position of a
/// program.
const RESERVED: &[&str] = &[
    "!",
    "{",
    "}",
    "[[",
    "]]",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "esac",
    "fi",
    "for",
    "foreach",
    "function",
    "if",
    "in",
    "nocorrect",
    "noglob",
    "repeat",
    "select",
    "then",
    "time",
    "until",
    "while",
    "-",
];

/// Variables without secrets, whose values may be printed but have no influence on the assessment.
pub(super) const VARIABLES: &[&str] = &[
    "HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "TMPDIR",
    "USER",
];

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text without its quotes.
    pub text: String,
    /// True if the shell expands it (a glob or a tilde), possibly to several words.
    pub expands: bool,
}

impl Word {
    /// A literal word.
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), expands: false }
    }

    /// Returns whether the program can interpret the word as an option. A glob at the start can
    /// expand to any name, such as `-delete`; a tilde always expands to a path.
    pub fn may_be_option(&self) -> bool {
        self.text.starts_with('-') || (self.expands && self.text.starts_with(['*', '?', '[', '$']))
    }

    pub(super) fn is_reserved(&self) -> bool {
        // `%1` is a job of the shell.
        let no_name = self.text.is_empty() || self.text.starts_with('%');
        self.expands || no_name || RESERVED.contains(&self.text.as_str())
    }
}

/// `argv` as a line that every shell splits into the same words.
pub fn quote(argv: &[String]) -> String {
    let words: Vec<String> = argv.iter().map(|word| quote_word(word)).collect();
    words.join(" ")
}

fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of an argument.
pub(super) enum Argument {
    /// One word.
    Word(Word),
    /// Several words from braces.
    Words(Vec<Word>),
    /// One or several words with the value of a variable or of a sum, which may be printed.
    Value(Word),
}

/// The word of an argument node, if it is exactly one.
pub(super) fn argument_word(node: Node<'_>, script: &str) -> Option<Word> {
    match argument(node, script)? {
        Argument::Word(word) => Some(word),
        Argument::Words(_) | Argument::Value(_) => None,
    }
}

/// The words of an argument node; `None` if it has anything other than plain text, quotes, escapes,
/// globs, tildes, simple braces, and [`VARIABLES`].
pub(super) fn argument(node: Node<'_>, script: &str) -> Option<Argument> {
    let source = script.get(node.byte_range())?;
    let mut built = Building::default();
    if !source.is_ascii() && has_blank_byte(source) && !source.starts_with(['\'', '"']) {
        return None;
    }
    match node.kind() {
        "concatenation" => {
            let mut cursor = node.walk();
            let mut end = node.start_byte();
            for part in node.children(&mut cursor) {
                if part.start_byte() != end {
                    return None;
                }
                built.part(part, script)?;
                end = part.end_byte();
            }
            if end != node.end_byte() {
                return None;
            }
        }
        _ => built.part(node, script)?,
    }
    built.finish()
}

/// Some shells interpret the bytes 0x85 and 0xA0 as blanks, even inside of a longer character.
fn has_blank_byte(text: &str) -> bool {
    text.bytes().any(|byte| byte == 0x85 || byte == 0xa0)
}

#[derive(Default)]
struct Building {
    text: String,
    expands: bool,
    brace: bool,
    quoted: bool,
    value: bool,
    any: bool,
}

impl Building {
    fn part(&mut self, node: Node<'_>, script: &str) -> Option<()> {
        let source = script.get(node.byte_range())?;
        match node.kind() {
            "word" | "number" if node.child_count() == 0 => self.bare(source)?,
            "raw_string" => self.single_quoted(source)?,
            "string" => self.string(node, script)?,
            "simple_expansion" | "arithmetic_expansion" => self.value_of(source)?,
            _ => return None,
        }
        self.any = true;
        Some(())
    }

    /// Text in double quotes, possibly with values.
    fn string(&mut self, node: Node<'_>, script: &str) -> Option<()> {
        let mut cursor = node.walk();
        let mut values = Vec::new();
        for part in node.children(&mut cursor) {
            match part.kind() {
                "\"" | "string_content" => {}
                "simple_expansion" | "arithmetic_expansion" => values.push(part.byte_range()),
                _ => return None,
            }
        }
        self.quoted = true;
        let mut at = node.start_byte() + 1;
        for value in values {
            self.double_quoted(script.get(at..value.start)?)?;
            at = value.end;
            self.value_of(script.get(value)?)?;
        }
        self.double_quoted(script.get(at..node.end_byte())?.strip_suffix('"')?)
    }

    /// `$NAME` of a variable that may be printed, `$?`, or a sum of numbers.
    fn value_of(&mut self, source: &str) -> Option<()> {
        let named = source
            .strip_prefix('$')
            .is_some_and(|name| VARIABLES.contains(&name) || matches!(name, "?" | "#" | "$"));
        let sum = source.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
        let numbers =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b"+-*/% ()".contains(&b));
        if !(named || sum.is_some_and(numbers)) {
            return None;
        }
        self.value = true;
        self.expands = true;
        self.text.push_str(source);
        Some(())
    }

    fn bare(&mut self, source: &str) -> Option<()> {
        // `=name` is a lookup in zsh, `#` starts a comment.
        if !self.any && source.starts_with(['=', '#']) {
            return None;
        }
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    '\n' => return None,
                    escaped => {
                        self.quoted = true;
                        self.text.push(escaped);
                    }
                },
                '$' | '`' | '"' | '\'' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => return None,
                c if c.is_whitespace() => return None,
                '*' | '?' | '[' | '~' => {
                    self.expands = true;
                    self.text.push(c);
                }
                '{' => {
                    self.brace = true;
                    self.text.push(c);
                }
                c => self.text.push(c),
            }
        }
        Some(())
    }

    fn single_quoted(&mut self, source: &str) -> Option<()> {
        let inner = source.strip_prefix('\'')?.strip_suffix('\'')?;
        if inner.contains('\'') {
            return None;
        }
        self.quoted = true;
        self.text.push_str(inner);
        Some(())
    }

    /// The contents of double quotes.
    fn double_quoted(&mut self, inner: &str) -> Option<()> {
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next()? {
                    '\n' => {}
                    escaped @ ('$' | '`' | '"' | '\\') => self.text.push(escaped),
                    other => self.text.extend(['\\', other]),
                },
                '$' | '`' | '"' => return None,
                c => self.text.push(c),
            }
        }
        Some(())
    }

    fn finish(self) -> Option<Argument> {
        let word = Word { text: self.text, expands: self.expands };
        // `{a,b}` and `{1..3}` make several words; `HEAD@{1}` and `{}` stand for themselves.
        if self.brace && (word.text.contains(',') || word.text.contains("..")) {
            let simple = !self.quoted && !self.value;
            return simple.then(|| braces(&word)).flatten().map(Argument::Words);
        }
        Some(if self.value { Argument::Value(word) } else { Argument::Word(word) })
    }
}

/// The words that one pair of braces makes of plain alternatives.
fn braces(word: &Word) -> Option<Vec<Word>> {
    let (before, rest) = word.text.split_once('{')?;
    let (inner, after) = rest.split_once('}')?;
    let plain = |text: &str| !text.contains(['{', '}']) && !text.contains("..");
    if !(plain(before) && plain(inner) && plain(after) && inner.contains(',')) {
        return None;
    }
    let expands = word.expands;
    let words =
        inner.split(',').map(|inner| Word { text: format!("{before}{inner}{after}"), expands });
    Some(words.filter(|word| !word.text.is_empty()).collect())
}
