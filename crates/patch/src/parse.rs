//! Reads the text of a patch into operations. Tolerant where a line can mean one thing only.

use crate::marker::{ADD, DELETE, END, MOVE, Marker, UPDATE, anchor, marker};
use crate::source::{Source, clip, is_after};

/// A patch: what happens to which files, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one.
    pub operations: Vec<Operation>,
    /// The patch with indented markers inside of hunks read as markers. `operations` holds them as
    /// context lines, which is what they are when the file has such lines.
    pub(crate) alternative: Option<Vec<Operation>>,
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
    pub anchors: Vec<Anchor>,
    /// The lines, at least one.
    pub lines: Vec<Line>,
    /// How many blank lines without a sign end it: context, or nothing but a distance to what
    /// follows.
    pub blank_end: usize,
    /// The hunk stands at the end of the file.
    pub at_end: bool,
}

impl Hunk {
    /// The lines that are in the file before the patch.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.is_old()).map(|line| line.text.as_str()).collect()
    }
}

/// A line of the file that is named to find a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Where in the patch, from 1.
    pub number: usize,
    /// Without white space around it.
    pub text: String,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where in the patch, from 1.
    pub number: usize,
    /// Whether it is in the file before and after.
    pub sign: Sign,
    /// Without the sign.
    pub text: String,
}

/// What a line of a hunk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// ` `: there before and after.
    Context,
    /// `-`: there before only.
    Remove,
    /// `+`: there after only.
    Add,
}

impl Line {
    /// Whether the line is in the file before the patch.
    pub(crate) fn is_old(&self) -> bool {
        self.sign != Sign::Add
    }
}

/// Why the text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ParseError {
    /// From 1, counted in the text as given; none when it is about the whole text.
    pub line: Option<usize>,
    /// What was found and what was expected.
    pub message: String,
}

/// Reads a patch.
///
/// # Errors
/// The first line that does not fit, and what was expected there.
pub fn parse(text: &str) -> Result<Patch, ParseError> {
    let source = Source::new(text)?;
    let mut strict = Reader::new(&source, Indented::Context);
    let strict_operations = operations(&mut strict);
    let alternative = match strict.has_indented {
        true => operations(&mut Reader::new(&source, Indented::Marker)).ok(),
        false => None,
    };
    match (strict_operations, alternative) {
        (Ok(operations), alternative) => Ok(Patch { operations, alternative }),
        (Err(_), Some(operations)) => Ok(Patch { operations, alternative: None }),
        (Err(error), None) => Err(error),
    }
}

fn operations(reader: &mut Reader<'_>) -> Result<Vec<Operation>, ParseError> {
    let mut operations = Vec::new();
    loop {
        let Some(line) = reader.peek() else {
            return Err(reader.error(format!("the patch ends here; expected `{END}`")));
        };
        match marker(line) {
            Some(Marker::End) => {
                if !begins_again(reader)? {
                    break;
                }
            }
            // It says nothing about a new or a deleted file.
            Some(Marker::EndOfFile) => reader.skip(),
            None if line.trim().is_empty() => reader.skip(),
            found => operations.push(operation(reader, found, line)?),
        }
    }
    if operations.is_empty() {
        let message =
            format!("the patch changes nothing; expected `{ADD} …`, `{DELETE} …` or `{UPDATE} …`");
        return Err(ParseError { line: None, message });
    }
    Ok(operations)
}

/// Whether another patch follows the one that ends here.
fn begins_again(reader: &mut Reader<'_>) -> Result<bool, ParseError> {
    let end = reader.at;
    reader.skip();
    while let Some(line) = reader.peek() {
        if marker(line) == Some(Marker::Begin) {
            reader.skip();
            return Ok(true);
        }
        if !is_after(line) {
            return Err(reader.error(format!(
                "nothing may follow `{END}`, found `{}`; put all changes before it",
                clip(line)
            )));
        }
        reader.skip();
    }
    reader.at = end;
    Ok(false)
}

fn operation(
    reader: &mut Reader<'_>,
    found: Option<Marker<'_>>,
    line: &str,
) -> Result<Operation, ParseError> {
    match found {
        Some(Marker::Add(path)) => {
            let path = path_of(reader, path)?;
            reader.skip();
            Ok(Operation::Add { path, contents: added(reader)? })
        }
        Some(Marker::Delete(path)) => {
            let path = path_of(reader, path)?;
            reader.skip();
            Ok(Operation::Delete { path })
        }
        Some(Marker::Update(path)) => {
            let path = path_of(reader, path)?;
            reader.skip();
            update(reader, path)
        }
        Some(Marker::Move(_)) => Err(reader.error(format!(
            "found `{}`; `{MOVE} …` belongs on the line after `{UPDATE} …`",
            clip(line)
        ))),
        _ => Err(reader.error(format!(
            "expected `{ADD} …`, `{DELETE} …`, `{UPDATE} …` or `{END}`, found `{}`",
            clip(line)
        ))),
    }
}

fn path_of(reader: &Reader<'_>, path: &str) -> Result<String, ParseError> {
    if path.is_empty() || path.contains('\0') {
        return Err(reader.error("expected a path behind the colon".into()));
    }
    Ok(path.to_owned())
}

fn added(reader: &mut Reader<'_>) -> Result<String, ParseError> {
    let mut contents = String::new();
    // Every line is new: a marker of a hunk adds nothing to that.
    if let Some(Marker::Hunk(text)) = reader.peek().and_then(marker)
        && anchor(text).is_none()
    {
        reader.skip();
    }
    let mut blank = 0;
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            blank += 1;
        } else if let Some(text) = line.strip_prefix('+') {
            // Blank lines that lost their sign; at the end they are only a distance.
            contents.extend(std::iter::repeat_n('\n', std::mem::take(&mut blank)));
            contents.push_str(text);
            contents.push('\n');
        } else if line.trim_start().starts_with("***") {
            break;
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
    if let Some(Marker::Move(target)) = reader.peek().and_then(marker) {
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
    let mut is_marked = false;
    while let Some(line) = reader.peek() {
        match reader.marker_in_hunk(line) {
            Some(Marker::Hunk(text)) => {
                // Nothing but blank lines before the marker: a distance to what came before.
                if hunk.lines.len() > hunk.blank_end {
                    return Ok(Some(hunk));
                }
                hunk.lines.clear();
                hunk.blank_end = 0;
                is_marked = true;
                hunk.anchors.extend(
                    anchor(text)
                        .map(|text| Anchor { number: reader.number(), text: text.to_owned() }),
                );
            }
            // Said once more.
            Some(Marker::EndOfFile) if hunk.lines.is_empty() && !is_marked => {}
            Some(Marker::EndOfFile) => {
                hunk.at_end = true;
                reader.skip();
                break;
            }
            Some(_) => break,
            None if line.starts_with("***") => break,
            None if line.starts_with("\\ No newline") => {}
            None if line.is_empty() => {
                hunk.lines.push(reader.line(Sign::Context, ""));
                hunk.blank_end += 1;
            }
            None => {
                hunk.lines.push(hunk_line(reader, line)?);
                hunk.blank_end = 0;
            }
        }
        reader.skip();
    }
    if hunk.lines.len() > hunk.blank_end {
        return Ok(Some(hunk));
    }
    if is_marked {
        return Err(reader.error("a hunk without lines; expected ` `, `-` or `+`".into()));
    }
    Ok(None)
}

fn hunk_line(reader: &Reader<'_>, line: &str) -> Result<Line, ParseError> {
    for (sign, mark) in [(Sign::Context, ' '), (Sign::Remove, '-'), (Sign::Add, '+')] {
        if let Some(text) = line.strip_prefix(mark) {
            return Ok(reader.line(sign, text));
        }
    }
    Err(reader.error(format!(
        "a line of a hunk begins with ` ` (kept), `-` (removed) or `+` (added), found `{}`",
        clip(line)
    )))
}

/// What a line of a hunk is that begins with white space and a marker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indented {
    Context,
    Marker,
}

/// Reads the lines after `*** Begin Patch`.
struct Reader<'a> {
    source: &'a Source<'a>,
    at: usize,
    indented: Indented,
    /// Whether a hunk held an indented marker.
    has_indented: bool,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source<'a>, indented: Indented) -> Self {
        Self { source, at: 0, indented, has_indented: false }
    }

    fn peek(&self) -> Option<&'a str> {
        self.source.lines.get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    /// The number of the line here, from 1.
    fn number(&self) -> usize {
        self.source.skipped + self.at + 1
    }

    fn line(&self, sign: Sign, text: &str) -> Line {
        Line { number: self.number(), sign, text: text.to_owned() }
    }

    fn marker_in_hunk(&mut self, line: &'a str) -> Option<Marker<'a>> {
        let found = marker(line)?;
        if !line.starts_with(char::is_whitespace) {
            return Some(found);
        }
        self.has_indented = true;
        (self.indented == Indented::Marker).then_some(found)
    }

    fn error(&self, message: String) -> ParseError {
        ParseError { line: Some(self.number()), message }
    }
}
