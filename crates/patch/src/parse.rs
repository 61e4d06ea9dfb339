//! Parses the text of a patch. Tolerates deviations that have only one meaning.

use crate::error::Error;
use crate::marker::{ADD, DELETE, END, MOVE, Marker, UPDATE, anchor, marker};
use crate::source::{Source, clip, is_after};
use crate::unified;

/// A patch: operations on files, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one.
    pub operations: Vec<Operation>,
    /// The operations if indented markers inside of hunks are markers. In `operations` they are
    /// context lines, which applies if the file has such lines.
    pub(crate) alternative: Option<Vec<Operation>>,
}

/// An operation on one file. Paths are as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a file, or replaces its contents.
    Add {
        /// Its path.
        path: String,
        /// Its contents.
        contents: String,
    },
    /// Deletes a file.
    Delete {
        /// Its path.
        path: String,
    },
    /// Changes lines of a file, and can move it.
    Update {
        /// Its path.
        path: String,
        /// The new path.
        move_to: Option<String>,
        /// The changes, in the order of the file.
        hunks: Vec<Hunk>,
    },
}

impl Operation {
    /// The path of the file.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }
}

/// A group of changed lines with their context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The lines named after `@@`, which must precede the hunk in this order.
    pub anchors: Vec<Anchor>,
    /// The lines, at least one.
    pub lines: Vec<Line>,
    /// Number of blank lines without a sign at its end: context, or separators.
    pub blank_end: usize,
    /// True if the hunk is at the end of the file.
    pub at_end: bool,
}

impl Hunk {
    /// The lines that the file has before the patch.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        self.lines.iter().filter(|line| line.is_old()).map(|line| line.text.as_str()).collect()
    }
}

/// A line of the file that must precede a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Line number in the patch, from 1.
    pub number: usize,
    /// Without surrounding white space.
    pub text: String,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number in the patch, from 1.
    pub number: usize,
    /// The presence of the line before and after the patch.
    pub sign: Sign,
    /// Without the sign.
    pub text: String,
}

/// The sign of a line in a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// ` `: kept.
    Context,
    /// `-`: removed.
    Remove,
    /// `+`: added.
    Add,
}

impl Line {
    /// Returns whether the file has the line before the patch.
    pub(crate) fn is_old(&self) -> bool {
        self.sign != Sign::Add
    }
}

/// Parses a patch, or a unified diff.
///
/// # Errors
/// The first unexpected line, and what was expected there.
pub fn parse(text: &str) -> Result<Patch, Error> {
    let rewritten = unified::as_patch(text.trim_start_matches('\u{feff}'));
    let source = Source::new(rewritten.as_deref().unwrap_or(text))?;
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

/// The operations of a patch of which `text` is the beginning. Of the last one they hold the lines that
/// are complete. Those before the first fault when `text` does not begin a patch.
pub(crate) fn parse_beginning(text: &str) -> Vec<Operation> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let Ok(source) = Source::beginning(complete) else { return Vec::new() };
    let read = |indented| {
        let mut reader = Reader { is_beginning: true, ..Reader::new(&source, indented) };
        let mut found = Vec::new();
        let outcome = read_operations(&mut reader, &mut found);
        (found, outcome.is_ok(), reader.has_indented)
    };
    let (found, is_sound, has_indented) = read(Indented::Context);
    if is_sound || !has_indented {
        return found;
    }
    let (otherwise, is_sound, _) = read(Indented::Marker);
    if is_sound { otherwise } else { found }
}

fn operations(reader: &mut Reader<'_>) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::new();
    read_operations(reader, &mut operations)?;
    if operations.is_empty() {
        let message =
            format!("the patch changes nothing; expected `{ADD} …`, `{DELETE} …` or `{UPDATE} …`");
        return Err(Error::syntax(None, message));
    }
    Ok(operations)
}

/// Appends the operations to `operations`, up to the end of the patch or the first fault.
fn read_operations(reader: &mut Reader<'_>, operations: &mut Vec<Operation>) -> Result<(), Error> {
    loop {
        let Some(line) = reader.peek() else {
            if reader.is_beginning {
                return Ok(());
            }
            return Err(reader.error(format!("the patch ends here; expected `{END}`")));
        };
        match marker(line) {
            Some(Marker::End) => {
                if !begins_again(reader)? {
                    return Ok(());
                }
            }
            // Has no meaning for an added or a deleted file.
            Some(Marker::EndOfFile) => reader.skip(),
            None if line.trim().is_empty() => reader.skip(),
            found => operations.push(operation(reader, found, line)?),
        }
    }
}

/// Returns whether another patch follows the end of this one.
fn begins_again(reader: &mut Reader<'_>) -> Result<bool, Error> {
    let end = reader.at;
    reader.skip();
    while let Some(line) = reader.peek() {
        if marker(line) == Some(Marker::Begin) {
            reader.skip();
            return Ok(true);
        }
        // Words about the patch have no meaning for it, but a file has.
        if !is_after(line) && marker(line).is_some() {
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
) -> Result<Operation, Error> {
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

fn path_of(reader: &Reader<'_>, path: &str) -> Result<String, Error> {
    if path.is_empty() || path.contains('\0') {
        return Err(reader.error("expected a path after the colon".into()));
    }
    Ok(path.to_owned())
}

fn added(reader: &mut Reader<'_>) -> Result<String, Error> {
    let mut contents = String::new();
    // All lines are new, so the marker of a hunk has no meaning.
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
            // Blank lines without a sign belong to the contents, except at its end.
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

fn update(reader: &mut Reader<'_>, path: String) -> Result<Operation, Error> {
    let mut move_to = None;
    if let Some(Marker::Move(target)) = reader.peek().and_then(marker) {
        move_to = Some(path_of(reader, target)?);
        reader.skip();
    }
    let mut hunks = Vec::new();
    while let Some(hunk) = hunk(reader, hunks.last_mut())? {
        hunks.push(hunk);
    }
    if hunks.is_empty() && move_to.is_none() && !reader.is_cut_off() {
        let message = format!("`{path}` has no changes; expected `@@` and lines");
        return Err(Error::empty_hunk(reader.number(), message));
    }
    Ok(Operation::Update { path, move_to, hunks })
}

/// Reads the hunk after `previous`, if there is one.
fn hunk(reader: &mut Reader<'_>, previous: Option<&mut Hunk>) -> Result<Option<Hunk>, Error> {
    let mut hunk = Hunk::default();
    let mut is_marked = false;
    while let Some(line) = reader.peek() {
        match reader.marker_in_hunk(line) {
            Some(Marker::Hunk(text)) => {
                // Only blank lines before the marker: they are separators.
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
            // A repeated marker.
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
    if is_marked && !reader.is_cut_off() {
        // Some models close a hunk with the marker that begins one.
        if let Some(closed) = previous.filter(|_| hunk.anchors.is_empty()) {
            closed.at_end |= hunk.at_end;
            return Ok(None);
        }
        let message = "a hunk without lines; expected ` `, `-` or `+`";
        return Err(Error::empty_hunk(reader.number(), message));
    }
    Ok(None)
}

fn hunk_line(reader: &Reader<'_>, line: &str) -> Result<Line, Error> {
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

/// The reading of a line of a hunk that is an indented marker.
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
    /// True if a hunk has an indented marker.
    has_indented: bool,
    /// True if the source is the beginning of a patch, so that a missing end is no fault.
    is_beginning: bool,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source<'a>, indented: Indented) -> Self {
        Self { source, at: 0, indented, has_indented: false, is_beginning: false }
    }

    /// Returns whether the continuation is not known yet.
    fn is_cut_off(&self) -> bool {
        self.is_beginning && self.peek().is_none()
    }

    fn peek(&self) -> Option<&'a str> {
        self.source.lines.get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    /// The current line number, from 1.
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

    fn error(&self, message: String) -> Error {
        Error::syntax(Some(self.number()), message)
    }
}
