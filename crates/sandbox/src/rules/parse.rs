//! Parses a shell script into plain commands, or refuses it. Accepts only nodes of the syntax tree
//! that have the same meaning in `sh`, `bash` and `zsh`. Expands and runs nothing.

use tree_sitter::{Node, Parser};

use super::word::{Argument, Word, argument};

/// Longest script in bytes, without the bodies of heredocs with a quoted tag. The time of an
/// error-recovering parser is quadratic in the length; at this bound, the worst known case takes
/// about a second on a busy machine.
pub const MAX_SCRIPT: usize = 4 * 1024;
/// Commands in a script.
pub const MAX_COMMANDS: usize = 256;
/// Nesting depth of syntax nodes.
const MAX_DEPTH: usize = 300;

/// Variables that can be set for a command without changing its meaning.
const ASSIGNMENTS: &[&str] = &[
    "GIT_PAGER=cat",
    "LANG=C",
    "LC_ALL=C",
    "LC_ALL=C.UTF-8",
    "NO_COLOR=1",
    "PAGER=cat",
    "TERM=dumb",
];

/// The operator between a command and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// The first command of the script.
    Start,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|` or `|&`
    Pipe,
    /// `;` or a new line.
    Then,
}

/// A plain command: a program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Never empty; the first word is the program.
    pub words: Vec<Word>,
    /// The operator before the command.
    pub joint: Joint,
    /// True if a shell runs it, which prefers its builtins to programs of the same name.
    pub shell: bool,
}

impl Command {
    /// The words as text.
    pub fn argv(&self) -> Vec<String> {
        self.words.iter().map(|word| word.text.clone()).collect()
    }

    /// The command of a direct `exec`, without expansions; `None` if `argv` is empty.
    pub fn exec(argv: &[String]) -> Option<Self> {
        if argv.is_empty() {
            return None;
        }
        Some(Self {
            words: argv.iter().map(|text| Word::literal(text)).collect(),
            joint: Joint::Start,
            shell: false,
        })
    }
}

/// The plain commands of `script`, joined by `&&`, `||`, `;`, `|` or new lines.
///
/// `None` means "not understood": an expansion (but what `echo` prints), assignment (but
/// harmless ones), redirection (but from files, to `/dev/null` or between the standard streams),
/// subshell, background job, control structure, syntax
/// error, control or invisible character, or a bound that was passed.
pub fn parse(script: &str) -> Option<Vec<Command>> {
    read(script).map(|reader| reader.commands)
}

/// The normal form of a script: its commands with operators, words, redirections and assignments.
/// Scripts with the same form do the same. `None` for a script that [`parse`] does not accept.
pub fn normal_form(script: &str) -> Option<Vec<String>> {
    let reader = read(script)?;
    let mut form = Vec::new();
    for (at, command) in reader.commands.iter().enumerate() {
        form.push(format!("{:?}", command.joint));
        form.extend(command.words.iter().map(|word| {
            let kind = if word.expands { '*' } else { '=' };
            format!("{kind}{}", word.text)
        }));
        let beside = reader.beside.iter().filter(|(place, _)| *place == at);
        form.extend(beside.map(|(_, text)| format!("<{text}")));
    }
    Some(form)
}

fn read(script: &str) -> Option<Reader<'_>> {
    if script.chars().any(is_unreadable) {
        return None;
    }
    let tree = syntax_tree(script)?;
    if tree.root_node().has_error() {
        return None;
    }
    let mut reader = Reader {
        script,
        position: 0,
        commands: Vec::new(),
        beside: Vec::new(),
        joint: Joint::Start,
    };
    reader.program(tree.root_node())?;
    reader.blank_until(script.len(), true)?;
    Some(reader)
}

/// The syntax tree of `script`, errors included, its nodes at the script's own byte positions.
/// `None` if the script is too long.
pub(super) fn syntax_tree(script: &str) -> Option<tree_sitter::Tree> {
    if script.len() > MAX_SCRIPT {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(plain_bytes(script), None)
}

/// The script with every byte of a control or of a character beyond ASCII turned into a
/// letter: to a shell these are parts of words like letters, while the grammar's scanner,
/// which is C, reads outside of its tables when it meets them in the wrong place (`{é`).
fn plain_bytes(script: &str) -> Vec<u8> {
    let plain = |byte: u8| match byte {
        b'\t' | b'\n' | b'\r' | b' '..=b'~' => byte,
        _ => b'x',
    };
    script.bytes().map(plain).collect()
}

/// Characters that a shell, this parser and a human reader can interpret differently: control
/// characters, blanks other than space, tab and new line, and characters that are invisible or
/// change the text direction.
fn is_unreadable(c: char) -> bool {
    !matches!(c, '\t' | '\n') && visible::is_hidden(c)
}

/// Walks the tree together with the text: every byte of the script must be white space or belong to
/// an accepted node, so that a difference between this grammar and a shell leads to a refusal.
struct Reader<'s> {
    script: &'s str,
    position: usize,
    commands: Vec<Command>,
    /// Redirections and assignments, each with its command's place in `commands`.
    beside: Vec<(usize, String)>,
    joint: Joint,
}

impl<'s> Reader<'s> {
    fn program(&mut self, node: Node<'_>) -> Option<()> {
        if node.kind() != "program" {
            return None;
        }
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "comment" => self.comment(child)?,
                ";" | "\n" => self.separator(child)?,
                _ => {
                    self.separated(child)?;
                    self.statement(child, 0)?;
                    self.joint = Joint::Then;
                }
            }
        }
        Some(())
    }

    /// Two statements in a row need a `;` or a new line between them.
    fn separated(&self, node: Node<'_>) -> Option<()> {
        if self.commands.is_empty() {
            return Some(());
        }
        let gap = self.script.get(self.position..node.start_byte())?;
        let before = self.script.get(..self.position)?;
        (gap.contains('\n') || before.ends_with([';', '\n'])).then_some(())
    }

    fn statement(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match node.kind() {
            "command" => self.command(node),
            "test_command" => self.test_command(node),
            "list" | "pipeline" => self.chain(node, depth),
            "redirected_statement" => self.redirected(node, depth),
            _ => None,
        }
    }

    fn chain(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            let joint = match child.kind() {
                "&&" => Joint::And,
                "||" => Joint::Or,
                "|" | "|&" => Joint::Pipe,
                "comment" => {
                    self.comment(child)?;
                    continue;
                }
                _ => {
                    self.statement(child, depth + 1)?;
                    continue;
                }
            };
            self.separator(child)?;
            self.joint = joint;
        }
        Some(())
    }

    fn redirected(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        let mut cursor = node.walk();
        let before = self.commands.len();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "file_redirect" => {
                    self.redirect(child)?;
                    // It stands after its command, or before it.
                    let behind = usize::from(self.commands.len() > before);
                    let text = self.text(child)?.to_owned();
                    self.beside.push((self.commands.len() - behind, text));
                }
                _ => self.statement(child, depth + 1)?,
            }
        }
        // Some shells start a pager for a redirection without a command.
        (self.commands.len() > before).then_some(())
    }

    /// `2>&1`, `1>&2`, output to `/dev/null`, and input from a file: they change no file.
    fn redirect(&mut self, node: Node<'_>) -> Option<()> {
        self.blank_until(node.start_byte(), false)?;
        if self.text(node)?.starts_with('<') && self.text(node.child(0)?)? == "<" {
            return self.input(node);
        }
        let text = self.text(node)?;
        let (from, rest) = match text.strip_prefix(['1', '2']) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let harmless = match rest.split_at(rest.find(|c: char| c == '/' || c.is_alphanumeric())?) {
            (operator, "/dev/null") => match operator.trim_end_matches(' ') {
                ">" | ">>" => true,
                "&>" => !from,
                _ => false,
            },
            (">&", "1" | "2") => true,
            _ => false,
        };
        self.position = node.end_byte();
        harmless.then_some(())
    }

    /// Some shells open connections for files below `/dev`.
    fn input(&mut self, node: Node<'_>) -> Option<()> {
        // A number before it is a descriptor.
        let before = self.script.get(..node.start_byte())?;
        before.ends_with([' ', '\t']).then_some(())?;
        self.position = node.child(0)?.end_byte();
        let file = node.child(1).filter(|_| node.child_count() == 2)?;
        let Argument::Word(word) = argument(file, self.script)? else { return None };
        self.blank_until(file.start_byte(), false)?;
        self.position = file.end_byte();
        let plain = word.text == "/dev/null" || !word.text.contains("/dev");
        (plain && !word.expands && !word.text.is_empty()).then_some(())
    }

    fn command(&mut self, node: Node<'_>) -> Option<()> {
        self.blank_until(node.start_byte(), true)?;
        let mut words = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            let value = match child.kind() {
                "command_name" => child.child(0).filter(|_| child.child_count() == 1)?,
                "variable_assignment" if words.is_empty() => {
                    self.blank_until(child.start_byte(), true)?;
                    ASSIGNMENTS.contains(&self.text(child)?).then_some(())?;
                    self.beside.push((self.commands.len(), self.text(child)?.to_owned()));
                    self.position = child.end_byte();
                    continue;
                }
                _ => child,
            };
            match self.argument(value, words.is_empty())? {
                Argument::Word(word) => words.push(word),
                Argument::Words(more) if !words.is_empty() => words.extend(more),
                // Split and expanded as it may be, it is only printed.
                Argument::Value(word) if words.first().is_some_and(|w| w.text == "echo") => {
                    words.push(word);
                }
                Argument::Words(_) | Argument::Value(_) => return None,
            }
        }
        if words.first().is_none_or(|name| name.is_reserved()) {
            return None;
        }
        self.push(words)
    }

    /// `[ … ]`, which the grammar takes apart; `[[ … ]]` evaluates operands, and only what it says
    /// of a file or a text is taken.
    fn test_command(&mut self, node: Node<'_>) -> Option<()> {
        self.blank_until(node.start_byte(), true)?;
        let mut words = Vec::new();
        self.test_words(node, &mut words, 0)?;
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let plain = match texts.as_slice() {
            ["[", .., "]"] => true,
            ["[[", test, _, "]]"] => {
                let known = ["-d", "-e", "-f", "-h", "-L", "-n", "-r", "-s", "-w", "-x", "-z"];
                known.contains(test) && !words[2].expands
            }
            _ => false,
        };
        if !plain {
            return None;
        }
        if texts[0] == "[[" {
            // Not a program; equivalent to `test`.
            words.pop();
            words[0] = Word::literal("test");
        }
        self.push(words)
    }

    fn test_words(&mut self, node: Node<'_>, words: &mut Vec<Word>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "unary_expression" | "binary_expression" => {
                    self.test_words(child, words, depth + 1)?;
                }
                "[" | "]" | "[[" | "]]" | "=" | "==" | "!=" | "!" | "test_operator" => {
                    if self.position == child.start_byte() && !words.is_empty() {
                        return None;
                    }
                    self.blank_until(child.start_byte(), false)?;
                    words.push(Word::literal(self.text(child)?));
                    self.position = child.end_byte();
                }
                _ => words.push(self.word(child, words.is_empty())?),
            }
        }
        Some(())
    }

    fn word(&mut self, node: Node<'_>, first: bool) -> Option<Word> {
        match self.argument(node, first)? {
            Argument::Word(word) => Some(word),
            Argument::Words(_) | Argument::Value(_) => None,
        }
    }

    fn argument(&mut self, node: Node<'_>, first: bool) -> Option<Argument> {
        let gap = self.script.get(self.position..node.start_byte())?;
        if gap.is_empty() && !first {
            return None;
        }
        self.blank_until(node.start_byte(), first)?;
        let found = argument(node, self.script)?;
        self.position = node.end_byte();
        Some(found)
    }

    fn push(&mut self, words: Vec<Word>) -> Option<()> {
        if self.commands.len() == MAX_COMMANDS {
            return None;
        }
        self.commands.push(Command { words, joint: self.joint, shell: true });
        Some(())
    }

    fn comment(&mut self, node: Node<'_>) -> Option<()> {
        self.blank_until(node.start_byte(), true)?;
        let before = self.script.get(..self.position)?;
        if !(before.is_empty() || before.ends_with([' ', '\t', '\n', ';', '|', '&'])) {
            return None;
        }
        self.position = node.end_byte();
        Some(())
    }

    fn separator(&mut self, node: Node<'_>) -> Option<()> {
        self.blank_until(node.start_byte(), true)?;
        self.position = node.end_byte();
        Some(())
    }

    /// Skips white space up to `end`; anything else is text that the tree does not show.
    /// Inside a command a new line would end it, unless a backslash that follows a blank
    /// hides it.
    fn blank_until(&mut self, end: usize, newlines: bool) -> Option<()> {
        let gap = self.script.get(self.position..end)?;
        let mut previous = None;
        let mut rest = gap.chars();
        while let Some(c) = rest.next() {
            match c {
                ' ' | '\t' => {}
                '\n' if newlines => {}
                '\\' if matches!(previous, Some(' ' | '\t')) && rest.next() == Some('\n') => {
                    previous = Some(' ');
                    continue;
                }
                _ => return None,
            }
            previous = Some(c);
        }
        self.position = end;
        Some(())
    }

    fn text(&self, node: Node<'_>) -> Option<&'s str> {
        self.script.get(node.byte_range())
    }
}
