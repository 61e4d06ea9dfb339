//! The parts of a scan that only requests of Messages have: blocks, whose text may be in any member,
//! marks for the prompt cache, and tools that the server runs.

use super::json::{Cursor, Malformed};
use super::scan::{Scan, server_tool};
use super::scanned::{CacheMark, Invalid, SERVER_TOOLS};
use super::text::Counted;

impl<'a> Scan<'a> {
    /// Reads the top-level member `name`.
    pub(super) fn member_of_messages(
        &mut self,
        name: &[u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Invalid> {
        match name {
            b"messages" => self.messages(cursor)?,
            b"system" => self.count(cursor, Counted::Blocks)?,
            b"tools" => self.tools(cursor)?,
            b"service_tier" => self.found.service_tier = self.text(cursor, "service_tier")?,
            b"output_config" => self.count(cursor, Counted::All)?,
            b"max_tokens" => self.limit(cursor, 2)?,
            b"cache_control" => self.cache_control(cursor)?,
            b"thread" => self.thread(cursor)?,
            name => self.other(name, cursor)?,
        }
        Ok(())
    }

    /// The messages; `null` counts as absent.
    fn messages(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        self.has_messages = cursor.peek() != Some(b'n');
        self.count(cursor, Counted::Blocks)
    }

    /// A message, a block, or an object within one.
    pub(super) fn block(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        cursor.open()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            self.member_of_block(&name, cursor)?;
        }
        Ok(())
    }

    fn member_of_block(&mut self, name: &[u8], cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if self.kind.is_gemini() {
            return self.member_of_part(name, cursor);
        }
        match name {
            b"input" | b"input_schema" | b"input_examples" => self.count(cursor, Counted::All),
            b"cache_control" => self.cache_control(cursor),
            b"source" => self.source(cursor),
            b"type" | b"role" | b"id" | b"tool_use_id" | b"media_type" | b"url" => {
                self.skip(cursor)
            }
            name if self.is_file(name, cursor)? => Ok(()),
            _ => self.count(cursor, Counted::Blocks),
        }
    }

    /// The source of an image or a document: its `data` is text, unless its type is `base64`.
    fn source(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if cursor.peek() != Some(b'{') {
            return self.count(cursor, Counted::Blocks);
        }
        cursor.open()?;
        let (mut first, mut is_encoded, mut data) = (true, false, 0);
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            match (&*name, cursor.peek()) {
                (b"type", Some(b'"')) => {
                    let kind = cursor.string()?;
                    is_encoded = &*cursor.decoded(kind) == b"base64";
                }
                (b"data", Some(b'"')) => {
                    let text = cursor.string()?;
                    data += cursor.scalars(text);
                }
                _ => self.member_of_block(&name, cursor)?,
            }
        }
        if !is_encoded {
            self.found.chars += data;
        }
        Ok(())
    }

    /// A conversation that the server keeps: its messages may refer to each other.
    fn thread(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        self.found.is_kept = cursor.peek() != Some(b'n');
        if cursor.peek() != Some(b'{') {
            return self.skip(cursor);
        }
        cursor.open()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match (&*cursor.decoded(key), cursor.peek()) {
                (b"previous_message_id", Some(b'"')) => self.next_file(cursor)?,
                _ => self.skip(cursor)?,
            }
        }
        Ok(())
    }

    /// A mark for the prompt cache.
    fn cache_control(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        let mut mark = match cursor.peek() {
            Some(b'n') => CacheMark::Absent,
            _ => CacheMark::FiveMinutes,
        };
        if cursor.peek() == Some(b'{') {
            cursor.open()?;
            let mut first = true;
            while let Some(key) = cursor.next_key(&mut first)? {
                match (&*cursor.decoded(key), cursor.peek()) {
                    (b"ttl", Some(b'"')) => {
                        let time = cursor.string()?;
                        if &*cursor.decoded(time) == b"1h" {
                            mark = CacheMark::Hour;
                        }
                    }
                    _ => self.skip(cursor)?,
                }
            }
        } else {
            self.skip(cursor)?;
        }
        self.found.cache_mark = self.found.cache_mark.max(mark);
        Ok(())
    }

    fn tools(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if cursor.peek() != Some(b'[') {
            return self.skip(cursor);
        }
        cursor.open()?;
        let mut first = true;
        while cursor.next_element(&mut first)? {
            match cursor.peek() {
                Some(b'{') => self.tool(cursor)?,
                _ => self.skip(cursor)?,
            }
        }
        Ok(())
    }

    fn tool(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        cursor.open()?;
        let (mut first, mut offered, mut most) = (true, None, None);
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            match (&*name, cursor.peek()) {
                (b"type", Some(b'"')) => {
                    let kind = cursor.string()?;
                    let kind = cursor.decoded(kind);
                    offered = server_tool(&kind).filter(|tool| SERVER_TOOLS[*tool] == "web_search");
                }
                (b"max_uses", _) => most = self.integer(cursor)?,
                _ => self.member_of_block(&name, cursor)?,
            }
        }
        if let Some(tool) = offered {
            self.found.calls[tool].add(most);
        }
        Ok(())
    }
}
