//! One pass over a JSON request: validates it as a strict parser does, and extracts the fields that
//! the gateway needs. It builds no tree, and applies no rules of the API but types and ranges.

use std::collections::HashSet;

use super::json::{Cursor, Malformed, Span, Str};
use super::scanned::{
    Background, Calls, GEMINI_MAX_TOKENS, Invalid, Kind, MAX_TOKENS, MOST_SECONDS, Member,
    NamedMember, ObjectEnd, SERVER_TOOLS, Scanned, Text,
};
use super::text::Counted;

const MAX_KEYS: usize = 1024;
/// Up to this number, keys are compared one by one.
const FEW_KEYS: usize = 32;
pub(super) const MAX_FILES: usize = 2000;
const MAX_N: u32 = 1000;
/// Characters of a key that an error message contains.
const SHOWN_KEY: usize = 64;

/// Extracts the fields that the gateway needs from `body`. Valid is what `serde_json` reads as a
/// value: UTF-8, strict JSON, at most [`MAX_DEPTH`](super::MAX_DEPTH) levels deep.
///
/// # Errors
/// The body is not JSON or not an object, repeats a top-level key (or `include_usage`), or a known
/// field has the wrong type or range.
pub fn scan(body: &[u8], kind: Kind) -> Result<Scanned, Invalid> {
    let mut cursor = Cursor::new(body)?;
    let mut scan = Scan { body, kind, found: Scanned::default(), has_messages: false };
    if cursor.peek() == Some(b'{') {
        scan.root(&mut cursor)?;
    } else {
        scan.skip(&mut cursor)?;
    }
    cursor.end()?;
    if scan.found.end.is_none() && kind != Kind::Other {
        return Err(Invalid::NotAnObject);
    }
    if kind == Kind::Messages && scan.found.limits[2].is_none() {
        return Err(Invalid::Missing { param: MAX_TOKENS[2] });
    }
    if kind.is_messages() && !scan.has_messages {
        return Err(Invalid::Missing { param: "messages" });
    }
    if kind.is_gemini() && !scan.has_messages {
        return Err(Invalid::Missing { param: "contents" });
    }
    if let Some(most) = scan.found.max_tool_calls {
        for calls in scan.found.calls.iter_mut().filter(|calls| **calls == Calls::Unbounded) {
            *calls = Calls::AtMost(most);
        }
    }
    if scan.found.file_ids.len().max(scan.found.other_ids.len()) > MAX_FILES {
        return Err(Invalid::TooManyFiles);
    }
    Ok(scan.found)
}

pub(super) struct Scan<'a> {
    pub(super) body: &'a [u8],
    pub(super) kind: Kind,
    pub(super) found: Scanned,
    /// True if a request of Messages has `messages`, or one of Gemini `contents`.
    pub(super) has_messages: bool,
}

impl<'a> Scan<'a> {
    fn root(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        cursor.open()?;
        let (mut first, mut keys) = (true, Keys::default());
        while let Some(key) = cursor.next_key(&mut first)? {
            keys.add(key, cursor)?;
            self.member(key, cursor)?;
            let span = Span { start: key.span.start, end: cursor.at() };
            self.found.members.push(NamedMember { name: text_of(key), span });
        }
        self.found.end = Some(ObjectEnd { at: cursor.at() - 1, empty: keys.count == 0 });
        Ok(())
    }

    fn member(&mut self, key: Str, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        let name = cursor.decoded(key);
        match &*name {
            // Its model and the choice of a stream are in the path.
            name if self.kind.is_gemini() => self.member_of_gemini(name, cursor)?,
            b"model" => self.found.model = self.text(cursor, "model")?,
            b"stream" => self.found.stream = self.flag(cursor, "stream")?.unwrap_or(false),
            name if self.kind == Kind::Other => self.other(name, cursor)?,
            name if let Some(known) = names_other_models(name) => {
                self.other_models(known, cursor)?;
            }
            name if self.kind.is_messages() => self.member_of_messages(name, cursor)?,
            b"prompt" if self.kind == Kind::Completions => self.prompts(cursor)?,
            b"input" | b"instructions" | b"prompt" => self.count(cursor, Counted::Text)?,
            b"messages" => self.count(cursor, Counted::Messages)?,
            b"max_output_tokens" => self.limit(cursor, 0)?,
            b"max_completion_tokens" => self.limit(cursor, 1)?,
            b"max_tokens" => self.limit(cursor, 2)?,
            b"n" => self.found.n = self.count_of(cursor, "n")?,
            b"best_of" if self.kind == Kind::Completions => {
                self.found.best_of = self.count_of(cursor, "best_of")?;
            }
            b"tools" if self.kind == Kind::Responses => self.server_tools(cursor)?,
            b"max_tool_calls" if self.kind == Kind::Responses => {
                self.found.max_tool_calls = self.integer(cursor)?;
            }
            b"web_search_options" if self.kind == Kind::Chat => {
                self.found.searches = cursor.peek() != Some(b'n');
                self.skip(cursor)?;
            }
            b"audio" if self.kind == Kind::Chat => {
                self.found.has_audio |= cursor.peek() != Some(b'n');
                self.skip(cursor)?;
            }
            b"size" if self.kind.has_size() => self.found.size = self.text(cursor, "size")?,
            b"quality" if self.kind.is_images() => {
                self.found.quality = self.text(cursor, "quality")?;
            }
            b"seconds" if self.kind == Kind::VideoEdits => self.seconds(cursor)?,
            b"background" => self.background(cursor)?,
            b"output_format" => self.found.output_format = self.text(cursor, "output_format")?,
            b"service_tier" => self.found.service_tier = self.text(cursor, "service_tier")?,
            b"prompt_cache_retention" => {
                let text = self.text_member(cursor, "prompt_cache_retention")?;
                (self.found.prompt_cache_retention, self.found.prompt_cache_retention_member) =
                    text;
            }
            b"prompt_cache_key" => match cursor.peek() {
                Some(b'"') => self.found.prompt_cache_key = Some(text_of(cursor.string()?)),
                // The model server says what is wrong with another type.
                _ => self.skip(cursor)?,
            },
            b"previous_response_id" => {
                self.found.previous_response_id = self.text(cursor, "previous_response_id")?;
            }
            b"stream_options" => self.stream_options(cursor)?,
            b"conversation" => self.conversation(cursor)?,
            name => self.other(name, cursor)?,
        }
        Ok(())
    }

    pub(super) fn text(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> Result<Option<Text>, Invalid> {
        self.text_member(cursor, param).map(|(text, _)| text)
    }

    fn text_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> Result<(Option<Text>, Member), Invalid> {
        match cursor.peek() {
            Some(b'"') => {
                let text = text_of(cursor.string()?);
                Ok((Some(text), Member::Value(text.span)))
            }
            _ => match self.null_or_wrong(cursor, param, "a string")? {
                Some(span) => Ok((None, Member::Null(span))),
                None => Ok((None, Member::Absent)),
            },
        }
    }

    /// The range of a `null`. Another value is refused, or skipped where any type is accepted.
    fn null_or_wrong(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
        expected: &'static str,
    ) -> Result<Option<Span>, Invalid> {
        let first = cursor.peek();
        let start = cursor.at();
        self.skip(cursor)?;
        match first {
            Some(b'n') => Ok(Some(Span { start, end: cursor.at() })),
            _ if self.kind == Kind::Other => Ok(None),
            _ => Err(Invalid::Type { param, expected }),
        }
    }

    fn flag(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> Result<Option<bool>, Invalid> {
        match cursor.peek() {
            Some(first @ (b't' | b'f')) => {
                cursor.scalar()?;
                Ok(Some(first == b't'))
            }
            _ => self.null_or_wrong(cursor, param, "a boolean").map(|_| None),
        }
    }

    pub(super) fn limit(&mut self, cursor: &mut Cursor<'a>, which: usize) -> Result<(), Invalid> {
        let first = cursor.peek();
        let start = cursor.at();
        let number = self.integer(cursor)?;
        let span = Span { start, end: cursor.at() };
        if first == Some(b'n') {
            self.found.limit_members[which] = Member::Null(span);
            return Ok(());
        }
        // A request of Messages without output only fills the prompt cache.
        let least = u32::from(!self.kind.is_messages());
        let is_valid = |tokens: &u32| (least..=1_000_000_000).contains(tokens);
        let Some(tokens) = number.filter(is_valid) else {
            let param = match self.kind.is_gemini() {
                true => GEMINI_MAX_TOKENS,
                false => MAX_TOKENS[which],
            };
            return Err(Invalid::MaxTokens { param });
        };
        self.found.limits[which] = Some(tokens);
        self.found.limit_members[which] = Member::Value(span);
        Ok(())
    }

    pub(super) fn count_of(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> Result<Option<u32>, Invalid> {
        let null = cursor.peek() == Some(b'n');
        match self.integer(cursor)? {
            Some(n @ 1..=MAX_N) => Ok(Some(n)),
            _ if null => Ok(None),
            _ => Err(Invalid::Count { param }),
        }
    }

    /// The next value, if it is an unsigned 32-bit integer.
    pub(super) fn integer(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<u32>, Malformed> {
        if !matches!(cursor.peek(), Some(b'-' | b'0'..=b'9')) {
            self.skip(cursor)?;
            return Ok(None);
        }
        let number = cursor.number()?;
        let digits = std::str::from_utf8(number.span.bytes_in(self.body)).unwrap_or_default();
        Ok(if number.integer { digits.parse().ok() } else { None })
    }

    /// Notes a member that names other models, unless it is empty.
    fn other_models(
        &mut self,
        name: &'static str,
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Malformed> {
        cursor.peek();
        let start = cursor.at();
        self.skip(cursor)?;
        let value = Span { start, end: cursor.at() }.bytes_in(self.body);
        let is_empty = match value {
            [b'[' | b'{', inner @ .., _] => inner.trim_ascii().is_empty(),
            value => value == b"null",
        };
        if !is_empty {
            self.found.other_models = Some(name);
        }
        Ok(())
    }

    /// The prompt of completions: a text or a list of token ids, or a list of either.
    fn prompts(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if cursor.peek() != Some(b'[') {
            return self.count(cursor, Counted::Text);
        }
        cursor.open()?;
        let mut first = true;
        while cursor.next_element(&mut first)? {
            if matches!(cursor.peek(), Some(b'"' | b'[')) {
                self.found.prompts = self.found.prompts.saturating_add(1);
            }
            self.count(cursor, Counted::Text)?;
        }
        Ok(())
    }

    /// The tools of responses: those that the server runs itself.
    fn server_tools(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
        if cursor.peek() != Some(b'[') {
            return self.skip(cursor);
        }
        cursor.open()?;
        let mut first = true;
        while cursor.next_element(&mut first)? {
            if cursor.peek() != Some(b'{') {
                self.skip(cursor)?;
                continue;
            }
            cursor.open()?;
            let mut first_member = true;
            while let Some(key) = cursor.next_key(&mut first_member)? {
                let name = cursor.decoded(key);
                match (&*name, cursor.peek()) {
                    (b"type", Some(b'"')) => {
                        let kind = cursor.string()?;
                        if let Some(tool) = server_tool(&cursor.decoded(kind)) {
                            self.found.calls[tool].add(None);
                        }
                    }
                    _ => self.other(&name, cursor)?,
                }
            }
        }
        Ok(())
    }

    /// The length of a video: a number, or a text that is one.
    fn seconds(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        let number = match cursor.peek() {
            Some(b'n') => return Ok(self.skip(cursor)?),
            Some(b'"') => {
                let text = cursor.string()?;
                seconds(&cursor.decoded(text))
            }
            _ => self.integer(cursor)?.filter(|seconds| (1..=MOST_SECONDS).contains(seconds)),
        };
        self.found.seconds = Some(number.ok_or(Invalid::Seconds)?);
        Ok(())
    }

    fn background(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        self.found.background = match self.kind {
            Kind::Responses => match self.flag(cursor, "background")? {
                Some(on) => Background::Mode(on),
                None => Background::Absent,
            },
            kind if kind.is_images() => match self.text(cursor, "background")? {
                Some(text) => Background::Fill(text),
                None => Background::Absent,
            },
            _ => return Ok(self.skip(cursor)?),
        };
        Ok(())
    }

    fn stream_options(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        if cursor.peek() != Some(b'{') {
            if let Some(span) = self.null_or_wrong(cursor, "stream_options", "an object")? {
                self.found.stream_options.member = Member::Null(span);
            }
            return Ok(());
        }
        let start = cursor.at();
        cursor.open()?;
        let (mut first, mut empty) = (true, true);
        while let Some(key) = cursor.next_key(&mut first)? {
            empty = false;
            if &*cursor.decoded(key) != b"include_usage" {
                self.skip(cursor)?;
                continue;
            }
            if self.found.stream_options.include_usage != Member::Absent {
                let key = "stream_options.include_usage".to_owned();
                return Err(Invalid::DuplicateKey { key });
            }
            cursor.peek();
            let start = cursor.at();
            let flag = self.flag(cursor, "stream_options.include_usage")?;
            let span = Span { start, end: cursor.at() };
            let options = &mut self.found.stream_options;
            options.wants_usage = flag.unwrap_or(false);
            options.include_usage =
                if flag.is_some() { Member::Value(span) } else { Member::Null(span) };
        }
        let end = cursor.at();
        self.found.stream_options.end = Some(ObjectEnd { at: end - 1, empty });
        self.found.stream_options.member = Member::Value(Span { start, end });
        Ok(())
    }
}

/// The index in [`SERVER_TOOLS`] of the tool of that type, whose name may have a version.
pub(super) fn server_tool(kind: &[u8]) -> Option<usize> {
    SERVER_TOOLS.iter().position(|tool| {
        let rest = kind.strip_prefix(tool.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"_"))
    })
}

/// A whole number of seconds that a video may have.
pub(super) fn seconds(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok().filter(|seconds| (1..=MOST_SECONDS).contains(seconds))
}

/// The members by which servers are given other models to try.
fn names_other_models(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"fallbacks" => "fallbacks",
        b"models" => "models",
        b"model_list" => "model_list",
        b"context_window_fallbacks" => "context_window_fallbacks",
        b"content_policy_fallbacks" => "content_policy_fallbacks",
        _ => return None,
    })
}

pub(super) fn text_of(string: Str) -> Text {
    Text { span: string.span, escaped: string.escaped }
}

/// The top-level keys so far, to find a repeated one.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<std::borrow::Cow<'a, [u8]>>,
    /// All keys, once there are more than `few` holds.
    many: HashSet<std::borrow::Cow<'a, [u8]>>,
    count: usize,
}

impl<'a> Keys<'a> {
    fn add(&mut self, key: Str, cursor: &Cursor<'a>) -> Result<(), Invalid> {
        let name = cursor.decoded(key);
        if self.count == FEW_KEYS {
            self.many.extend(self.few.drain(..));
        }
        self.count += 1;
        if self.count > MAX_KEYS {
            return Err(Invalid::TooManyKeys);
        }
        let repeated = match self.count <= FEW_KEYS {
            true => self.few.contains(&name),
            false => self.many.contains(&name),
        };
        if repeated {
            let shown = String::from_utf8_lossy(&name).chars().take(SHOWN_KEY).collect();
            return Err(Invalid::DuplicateKey { key: shown });
        }
        match self.count <= FEW_KEYS {
            true => self.few.push(name),
            false => drop(self.many.insert(name)),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
pub(super) mod tests;
