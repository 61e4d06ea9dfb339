//! Reads the text of a patch. Tolerant of what models add around it: white space, a code fence,
//! a heredoc.

/// A patch: what happens to which files, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one.
    pub operations: Vec<Operation>,
}

/// What happens to one file. Paths are as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new file, or new contents of one that is there.
    Add {
        /// Where.
        path: String,
        /// Its contents.
        contents: String,
    },
    /// A file less.
    Delete {
        /// Which.
        path: String,
    },
    /// Changed lines, perhaps under a new name.
    Update {
        /// Which.
        path: String,
        /// The new name.
        move_to: Option<String>,
        /// The changes, from the file's beginning to its end.
        hunks: Vec<Hunk>,
    },
}

impl Operation {
    /// The path it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }
}

/// Lines that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines after `@@`, each of which must come before the hunk, in order.
    pub contexts: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// The hunk stands at the end of the file.
    pub at_end: bool,
}

/// A line of a hunk, without its sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// There before and after.
    Context(String),
    /// There before only.
    Remove(String),
    /// There after only.
    Add(String),
}

/// Why the text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// From 1, counted in the text as given.
    pub line: usize,
    /// What was found and what was expected.
    pub message: String,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch.
///
/// # Errors
/// The first line that does not fit, and what was expected there.
pub fn parse(text: &str) -> Result<Patch, ParseError> {
    let mut reader = Reader::new(text)?;
    let mut operations = Vec::new();
    loop {
        let Some(line) = reader.peek() else {
            return Err(reader.error(format!("the patch ends here; expected `{END}`")));
        };
        if line.trim() == END {
            break;
        }
        if line.trim().is_empty() {
            reader.skip();
            continue;
        }
        operations.push(operation(&mut reader, line)?);
    }
    if operations.is_empty() {
        return Err(reader.error(format!(
            "the patch changes nothing; expected `{ADD} …`, `{DELETE} …` or `{UPDATE} …`"
        )));
    }
    Ok(Patch { operations })
}

fn operation(reader: &mut Reader<'_>, line: &str) -> Result<Operation, ParseError> {
    let header = line.trim_end();
    if let Some(path) = header.strip_prefix(ADD) {
        let path = path_of(reader, path)?;
        reader.skip();
        return Ok(Operation::Add { path, contents: added(reader)? });
    }
    if let Some(path) = header.strip_prefix(DELETE) {
        let path = path_of(reader, path)?;
        reader.skip();
        return Ok(Operation::Delete { path });
    }
    if let Some(path) = header.strip_prefix(UPDATE) {
        let path = path_of(reader, path)?;
        reader.skip();
        return update(reader, path);
    }
    Err(reader.error(format!(
        "expected `{ADD} …`, `{DELETE} …`, `{UPDATE} …` or `{END}`, found `{}`",
        clip(line)
    )))
}

fn path_of(reader: &Reader<'_>, path: &str) -> Result<String, ParseError> {
    let path = path.trim();
    if path.is_empty() || path.contains('\0') {
        return Err(reader.error("expected a path".into()));
    }
    Ok(path.to_owned())
}

fn added(reader: &mut Reader<'_>) -> Result<String, ParseError> {
    let mut contents = String::new();
    while let Some(line) = reader.peek() {
        if let Some(text) = line.strip_prefix('+') {
            contents.push_str(text);
            contents.push('\n');
        } else if line.starts_with("*** ") {
            break;
        } else if line.trim().is_empty() {
            if !reader.blank_before_header() {
                contents.push('\n');
            }
        } else {
            return Err(reader.error(format!(
                "every line of an added file begins with `+`, found `{}`",
                clip(line)
            )));
        }
        reader.skip();
    }
    Ok(contents)
}

fn update(reader: &mut Reader<'_>, path: String) -> Result<Operation, ParseError> {
    let mut move_to = None;
    if let Some(target) = reader.peek().and_then(|line| line.trim_end().strip_prefix(MOVE)) {
        move_to = Some(path_of(reader, target)?);
        reader.skip();
    }
    let mut hunks = Vec::new();
    while let Some(hunk) = hunk(reader)? {
        hunks.push(hunk);
    }
    if hunks.is_empty() && move_to.is_none() {
        return Err(reader.error(format!("no change of `{path}`; expected `@@` and lines")));
    }
    Ok(Operation::Update { path, move_to, hunks })
}

fn hunk(reader: &mut Reader<'_>) -> Result<Option<Hunk>, ParseError> {
    let mut hunk = Hunk::default();
    let mut marked = false;
    while let Some(line) = reader.peek() {
        // With its sign, a blank, it would be an empty line of the file.
        if line.is_empty() && reader.blank_before_header() {
            reader.skip();
            continue;
        }
        if line.starts_with("@@") {
            if !hunk.lines.is_empty() {
                return Ok(Some(hunk));
            }
            marked = true;
            let context = marker_context(line);
            hunk.contexts.extend(context.map(str::to_owned));
            reader.skip();
        } else if line.trim_end() == END_OF_FILE {
            reader.skip();
            hunk.at_end = true;
            break;
        } else if line.starts_with("*** ") {
            break;
        } else {
            hunk.lines.push(hunk_line(reader, line)?);
            reader.skip();
        }
    }
    if hunk.lines.is_empty() {
        if marked || hunk.at_end {
            return Err(reader.error("a hunk without lines; expected ` `, `-` or `+`".into()));
        }
        return Ok(None);
    }
    Ok(Some(hunk))
}

/// The text after `@@`; line numbers of a unified diff say nothing here.
fn marker_context(line: &str) -> Option<&str> {
    let mut text = line[2..].trim();
    if text.starts_with('-') && text.contains(" @@") {
        text = text.split_once(" @@").map_or("", |(_, rest)| rest).trim();
    } else if text.starts_with('-') && text.ends_with("@@") {
        text = "";
    }
    (!text.is_empty()).then_some(text)
}

fn hunk_line(reader: &Reader<'_>, line: &str) -> Result<Line, ParseError> {
    let mut chars = line.chars();
    let sign = chars.next();
    let text = chars.as_str().to_owned();
    match sign {
        None => Ok(Line::Context(String::new())),
        Some(' ') => Ok(Line::Context(text)),
        Some('-') => Ok(Line::Remove(text)),
        Some('+') => Ok(Line::Add(text)),
        Some(_) => Err(reader.error(format!(
            "a line of a hunk begins with ` `, `-` or `+`, found `{}`",
            clip(line)
        ))),
    }
}

/// The lines between the patch's first and last.
struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
    /// Lines of the text before the first one here.
    skipped: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, ParseError> {
        let lines: Vec<&str> =
            text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        let wrapping = |line: &&str| {
            let line = line.trim();
            line.is_empty() || line.starts_with("```") || line.starts_with("<<")
        };
        let first = lines.iter().take_while(|line| wrapping(line)).count();
        let found = lines.get(first).copied().unwrap_or("");
        if found.trim() != BEGIN {
            let message = format!("expected `{BEGIN}`, found `{}`", clip(found));
            return Err(ParseError { line: first + 1, message });
        }
        Ok(Self { lines: lines[first + 1..].to_vec(), at: 0, skipped: first + 1 })
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    /// Whether the blank line here only separates what is before from the next header.
    fn blank_before_header(&self) -> bool {
        let next = self.lines[self.at..].iter().find(|line| !line.trim().is_empty());
        next.is_none_or(|line| line.starts_with("*** ") && line.trim_end() != END_OF_FILE)
    }

    fn error(&self, message: String) -> ParseError {
        ParseError { line: self.skipped + self.at + 1, message }
    }
}

fn clip(line: &str) -> String {
    const MAX: usize = 80;
    if line.chars().count() <= MAX {
        return line.to_owned();
    }
    line.chars().take(MAX).chain(['…']).collect()
}
