//! A patch while its call streams in: takes its text out of the arguments piece by piece, and reads
//! the operations of what has come so far.
//!
//! Taking a piece costs its length. Reading costs the length of all that has come, so a caller reads
//! only after the text has grown by a share of its length: then a whole patch costs time in
//! proportion to its length.

use crate::parse::{Operation, parse_beginning};

/// The members of the arguments' object that hold the patch.
const MEMBERS: [&str; 3] = ["input", "patch", "command"];
/// Longest prefix of a member's name that is kept.
const MAX_NAME: usize = 8;

/// The text of a patch, taken out of arguments that stream in: the patch itself, a JSON string, or
/// a JSON object with the member `input`, `patch` or `command`.
#[derive(Debug, Default)]
pub struct StreamedPatch {
    text: String,
    form: Form,
}

#[derive(Debug, Default)]
enum Form {
    /// Only white space has come.
    #[default]
    Unknown,
    /// The patch itself.
    Plain,
    Json(Json),
    /// The JSON that held the patch has ended, or is none.
    Over,
}

/// The position in JSON.
#[derive(Debug, Default)]
struct Json {
    /// Open objects and lists.
    depth: usize,
    /// True if the next string of the outermost object is a member's name.
    names_member: bool,
    /// The name of the current member, as far as it is needed.
    name: String,
    string: Option<JsonString>,
}

/// An open string.
#[derive(Debug)]
struct JsonString {
    is: StringRole,
    escape: Escape,
    /// The first half of a character that is written as two escapes.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringRole {
    Name,
    Patch,
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Escape {
    None,
    Begun,
    Code { digits: u8, value: u16 },
}

impl StreamedPatch {
    /// Takes the next piece of the arguments.
    pub fn push(&mut self, piece: &str) {
        let mut rest = piece.chars();
        while !matches!(self.form, Form::Plain) {
            let Some(c) = rest.next() else { return };
            self.take(c);
        }
        self.text.push_str(rest.as_str());
    }

    /// The text of the patch that has come.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The operations that have come, as [`parse`](crate::parse) will return them; of the last one the
    /// lines that are complete. Empty before the first path is complete, and a text that is no patch
    /// has those before its first fault.
    pub fn operations(&self) -> Vec<Operation> {
        parse_beginning(&self.text)
    }

    fn take(&mut self, c: char) {
        match &mut self.form {
            Form::Unknown => match c {
                '{' => {
                    self.text.clear();
                    self.form =
                        Form::Json(Json { depth: 1, names_member: true, ..Json::default() });
                }
                '"' => {
                    self.text.clear();
                    let string = Some(JsonString::open(StringRole::Patch));
                    self.form = Form::Json(Json { string, ..Json::default() });
                }
                c => {
                    self.text.push(c);
                    if !c.is_whitespace() {
                        self.form = Form::Plain;
                    }
                }
            },
            Form::Json(json) => {
                if json.take(c, &mut self.text) {
                    self.form = Form::Over;
                }
            }
            Form::Plain => self.text.push(c),
            Form::Over => {}
        }
    }
}

impl Json {
    /// Takes a character; appends what it adds to the patch to `text`. Returns whether the patch has
    /// ended.
    fn take(&mut self, c: char, text: &mut String) -> bool {
        let Some(string) = &mut self.string else { return self.take_structure(c) };
        let is = string.is;
        let (decoded, ends) = string.take(c);
        if let Some(c) = decoded {
            match is {
                StringRole::Patch => text.push(c),
                StringRole::Name if self.name.len() < MAX_NAME => self.name.push(c),
                StringRole::Name | StringRole::Other => {}
            }
        }
        if ends {
            self.string = None;
        }
        ends && is == StringRole::Patch
    }

    fn take_structure(&mut self, c: char) -> bool {
        let is_outermost = self.depth == 1;
        match c {
            '"' => {
                let is = match (is_outermost, self.names_member) {
                    (true, true) => {
                        self.name.clear();
                        StringRole::Name
                    }
                    (true, false) if MEMBERS.contains(&self.name.as_str()) => StringRole::Patch,
                    _ => StringRole::Other,
                };
                self.string = Some(JsonString::open(is));
            }
            ':' if is_outermost => self.names_member = false,
            ',' if is_outermost => self.names_member = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }
}

impl JsonString {
    fn open(is: StringRole) -> Self {
        Self { is, escape: Escape::None, high: None }
    }

    /// The character that `c` completes, and whether it ends the string.
    fn take(&mut self, c: char) -> (Option<char>, bool) {
        match self.escape {
            Escape::None if c == '"' => (None, true),
            Escape::None if c == '\\' => {
                self.escape = Escape::Begun;
                (None, false)
            }
            Escape::None => (Some(c), false),
            Escape::Begun => {
                self.escape = Escape::None;
                let plain = match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        self.escape = Escape::Code { digits: 0, value: 0 };
                        return (None, false);
                    }
                    other => other,
                };
                (Some(plain), false)
            }
            Escape::Code { digits, value } => {
                // A digit that is none makes the JSON invalid, which is reported with the whole call.
                let digit = c.to_digit(16).unwrap_or(0);
                let value = (value << 4) | u16::try_from(digit).unwrap_or(0);
                if digits < 3 {
                    self.escape = Escape::Code { digits: digits + 1, value };
                    return (None, false);
                }
                self.escape = Escape::None;
                (self.decoded(value), false)
            }
        }
    }

    /// The character of an escape; a second half completes the one before it.
    fn decoded(&mut self, unit: u16) -> Option<char> {
        match self.high.take() {
            Some(high) => char::decode_utf16([high, unit]).next()?.ok(),
            None if (0xD800..0xDC00).contains(&unit) => {
                self.high = Some(unit);
                None
            }
            None => char::from_u32(u32::from(unit)),
        }
    }
}
