//! One word of a command: its text after quote removal, and whether the shell would still
//! expand it. Knows the shell's quoting, not its expansions.

use tree_sitter::Node;

/// Words that begin or end a control structure, or run another command, when they stand
/// where a program is expected.
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

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text without its quotes.
    pub text: String,
    /// Whether the shell expands it to other text (a glob or a tilde), perhaps to several words.
    pub expands: bool,
}

impl Word {
    /// A word that stands for itself.
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), expands: false }
    }

    /// Whether the program may read the word as an option. A glob in first position may turn
    /// into any name, `-delete` among them; a tilde always turns into a path.
    pub fn may_be_option(&self) -> bool {
        self.text.starts_with('-') || (self.expands && self.text.starts_with(['*', '?', '[']))
    }

    pub(super) fn is_reserved(&self) -> bool {
        // `%1` is a job of the shell.
        let no_name = self.text.is_empty() || self.text.starts_with('%');
        self.expands || no_name || RESERVED.contains(&self.text.as_str())
    }
}

/// `argv` as a line that every shell reads back as the same words.
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

/// The word that an argument node of the syntax tree stands for; `None` when it holds
/// anything but plain text, quotes, escapes, globs and tildes.
pub(super) fn argument_word(node: Node<'_>, script: &str) -> Option<Word> {
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

/// Some shells take the bytes 0x85 and 0xA0 for blanks, also inside a longer character.
fn has_blank_byte(text: &str) -> bool {
    text.bytes().any(|byte| byte == 0x85 || byte == 0xa0)
}

#[derive(Default)]
struct Building {
    text: String,
    expands: bool,
    brace: bool,
    any: bool,
}

impl Building {
    fn part(&mut self, node: Node<'_>, script: &str) -> Option<()> {
        let source = script.get(node.byte_range())?;
        match node.kind() {
            "word" | "number" if node.child_count() == 0 => self.bare(source)?,
            "raw_string" => self.single_quoted(source)?,
            "string" => {
                let mut cursor = node.walk();
                let plain = node
                    .children(&mut cursor)
                    .all(|part| matches!(part.kind(), "\"" | "string_content"));
                if !plain {
                    return None;
                }
                self.double_quoted(source)?;
            }
            _ => return None,
        }
        self.any = true;
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
                    escaped => self.text.push(escaped),
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
        self.text.push_str(inner);
        Some(())
    }

    fn double_quoted(&mut self, source: &str) -> Option<()> {
        let inner = source.strip_prefix('"')?.strip_suffix('"')?;
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

    fn finish(self) -> Option<Word> {
        // `{a,b}` and `{1..3}` make several words; `HEAD@{1}` and `{}` stand for themselves.
        if self.brace && (self.text.contains(',') || self.text.contains("..")) {
            return None;
        }
        Some(Word { text: self.text, expands: self.expands })
    }
}
