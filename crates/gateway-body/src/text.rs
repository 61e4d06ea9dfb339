//! The recursive parts of a scan: counting the text of a prompt, collecting file ids, and skipping
//! other values.

use super::json::{Cursor, Malformed};
use super::scan::{MAX_FILES, Scan, text_of};
use super::scanned::Text;

/// Characters counted per token id.
const TOKEN_CHARS: u64 = 4;

/// The parts of a value that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Its strings, recursively, and those of its members that hold text.
    Text,
    /// The members of its entries that hold text, calls or reasoning.
    Messages,
    /// All members of an object: the variables of a stored prompt.
    Variables,
    /// All strings of blocks of Messages and of contents of Gemini, except those that are no text.
    Blocks,
    /// All strings and keys: the arguments and schemas of tools.
    All,
    /// Nothing; only collects file ids.
    Files,
    /// Nothing at all.
    Nothing,
}

impl Counted {
    /// Returns the parts of the member `key` of an object that are counted.
    fn member(self, key: &[u8]) -> Counted {
        match (self, key) {
            (Counted::All, _) => Counted::All,
            (Counted::Nothing, _) | (_, b"metadata" | b"parameters" | b"schema") => {
                Counted::Nothing
            }
            (Counted::Files, _) => Counted::Files,
            (Counted::Text | Counted::Messages, key) if is_opaque(key) => Counted::All,
            (Counted::Variables, _)
            | (Counted::Messages, b"content" | b"refusal" | b"tool_calls" | b"function_call") => {
                Counted::Text
            }
            (Counted::Text, b"variables") => Counted::Variables,
            (Counted::Text, key) if holds_text(key) => Counted::Text,
            _ => Counted::Files,
        }
    }
}

/// Returns whether a member of an item, message or content part holds text. Members with image,
/// audio and file data, URLs and ids do not.
fn holds_text(key: &[u8]) -> bool {
    matches!(
        key,
        b"text"
            | b"content"
            | b"output"
            | b"arguments"
            | b"function"
            | b"custom"
            | b"input"
            | b"refusal"
            | b"summary"
            | b"stdout"
            | b"stderr"
    )
}

/// Returns whether a member holds reasoning that comes back to the model, often as text that the model's maker alone can
/// read. It is input of any size, like a message.
fn is_opaque(key: &[u8]) -> bool {
    matches!(
        key,
        b"encrypted_content"
            | b"extra_content"
            | b"provider_specific_fields"
            | b"reasoning"
            | b"reasoning_content"
            | b"reasoning_details"
            | b"reasoning_opaque"
            | b"reasoning_text"
            | b"signature"
            | b"thinking"
            | b"thinking_blocks"
            | b"thought_signature"
    )
}

impl<'a> Scan<'a> {
    /// Skips the top-level member `key`, which may contain file ids.
    pub(super) fn other(&mut self, key: &[u8], cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        match key {
            b"metadata" | b"parameters" | b"schema" => self.count(cursor, Counted::Nothing),
            key if self.is_file(key, cursor)? => Ok(()),
            _ => self.count(cursor, Counted::Files),
        }
    }

    /// Skips a value and collects its file ids.
    pub(super) fn skip(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        self.count(cursor, Counted::Files)
    }

    /// Reads a value and counts its text as `counted` says.
    pub(super) fn count(
        &mut self,
        cursor: &mut Cursor<'a>,
        counted: Counted,
    ) -> Result<(), Malformed> {
        match cursor.peek() {
            Some(b'"') => {
                let string = cursor.string()?;
                if matches!(counted, Counted::Text | Counted::Blocks | Counted::All) {
                    self.found.chars += cursor.scalars(string);
                }
                Ok(())
            }
            Some(b'{') if counted == Counted::Blocks => self.block(cursor),
            Some(b'{') => self.object(cursor, counted),
            Some(b'[') => {
                cursor.open()?;
                let mut first = true;
                while cursor.next_element(&mut first)? {
                    self.count(cursor, counted)?;
                }
                Ok(())
            }
            first => {
                let is_number = first.is_some_and(|byte| byte.is_ascii_digit());
                if is_number && counted == Counted::Text && self.kind.has_token_ids() {
                    self.found.chars += TOKEN_CHARS;
                }
                cursor.scalar()
            }
        }
    }

    fn object(&mut self, cursor: &mut Cursor<'a>, counted: Counted) -> Result<(), Malformed> {
        cursor.open()?;
        let mut first = true;
        // The source of an evaluation: `{"type": "file_id", "id": …}`.
        let (mut is_file, mut id) = (false, None);
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            self.found.has_audio |= counted == Counted::Text && *name == *b"input_audio";
            if counted == Counted::All {
                self.found.chars += cursor.scalars(key);
            }
            let refers = !matches!(counted, Counted::Nothing | Counted::All);
            let part = counted.member(&name);
            match (&*name, cursor.peek()) {
                (b"type", Some(b'"')) if part == Counted::Files => {
                    let kind = cursor.string()?;
                    is_file = &*cursor.decoded(kind) == b"file_id";
                }
                (b"id", Some(b'"')) if part == Counted::Files => id = Some(cursor.string()?),
                _ if refers && self.is_file(&name, cursor)? => {}
                _ => self.count(cursor, part)?,
            }
        }
        if let (true, Some(id)) = (is_file, id) {
            self.file(text_of(id));
        }
        Ok(())
    }

    /// Collects the value of `key` if it is a file id or a list of file ids.
    pub(super) fn is_file(
        &mut self,
        key: &[u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<bool, Malformed> {
        match key {
            b"file_id" | b"input_file_id" | b"training_file" | b"validation_file" => {
                if cursor.peek() != Some(b'"') {
                    return Ok(false);
                }
                self.next_file(cursor)?;
                Ok(true)
            }
            b"file_ids" | b"vector_store_ids" if cursor.peek() == Some(b'[') => {
                cursor.open()?;
                let mut first = true;
                while cursor.next_element(&mut first)? {
                    match cursor.peek() {
                        Some(b'"') => self.next_file(cursor)?,
                        _ => self.skip(cursor)?,
                    }
                }
                Ok(true)
            }
            b"container_id" | b"video_id" if cursor.peek() == Some(b'"') => {
                self.other_id(cursor)?;
                Ok(true)
            }
            b"container" | b"video" => {
                self.holder(cursor)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Collects the id of a container or a video: a string, or the member `id` of an object, which may also name files.
    fn holder(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        match cursor.peek() {
            Some(b'"') => return self.other_id(cursor),
            Some(b'{') => cursor.open()?,
            _ => return self.skip(cursor),
        }
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            match (&*name, cursor.peek()) {
                (b"id", Some(b'"')) => self.other_id(cursor)?,
                _ if self.is_file(&name, cursor)? => {}
                _ => self.skip(cursor)?,
            }
        }
        Ok(())
    }

    fn other_id(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        let text = text_of(cursor.string()?);
        // As for files.
        if self.found.other_ids.len() <= MAX_FILES {
            self.found.other_ids.push(text);
        }
        Ok(())
    }

    /// Collects the id of a conversation: a string, or the member `id` of an object.
    pub(super) fn conversation(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        match cursor.peek() {
            Some(b'"') => return self.conversation_id(cursor),
            Some(b'{') => cursor.open()?,
            _ => return self.skip(cursor),
        }
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match (&*cursor.decoded(key), cursor.peek()) {
                (b"id", Some(b'"')) => self.conversation_id(cursor)?,
                _ => self.skip(cursor)?,
            }
        }
        Ok(())
    }

    fn conversation_id(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        let id = text_of(cursor.string()?);
        self.found.conversation = Some(id);
        self.file(id);
        Ok(())
    }

    pub(super) fn next_file(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        let text = text_of(cursor.string()?);
        self.file(text);
        Ok(())
    }

    pub(super) fn file(&mut self, text: Text) {
        // One more than the maximum shows that there are too many.
        if self.found.file_ids.len() <= MAX_FILES {
            self.found.file_ids.push(text);
        }
    }
}
