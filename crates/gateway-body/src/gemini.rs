//! The parts of a scan that only requests of Gemini have. Its servers take each member in two spellings:
//! `maxOutputTokens` and `max_output_tokens`.

use std::borrow::Cow;

use super::json::{Cursor, Malformed, Span};
use super::scan::{Scan, text_of};
use super::scanned::{Calls, GEMINI_MAX_TOKENS, Invalid, Kind, Member, ObjectEnd};
use super::text::Counted;

const CANDIDATES: &str = "generationConfig.candidateCount";

impl<'a> Scan<'a> {
    /// Reads the top-level member `name`.
    pub(super) fn member_of_gemini(
        &mut self,
        name: &[u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Invalid> {
        match &*camel(name) {
            b"contents" => {
                self.has_messages |= cursor.peek() != Some(b'n');
                self.count(cursor, Counted::Blocks)?;
            }
            b"systemInstruction" => self.count(cursor, Counted::Blocks)?,
            b"tools" => self.tools_of_gemini(cursor)?,
            b"generationConfig" => self.generation_config(cursor)?,
            // Input that the server keeps: no object of a project is one.
            b"cachedContent" if cursor.peek() == Some(b'"') => self.next_file(cursor)?,
            b"generateContentRequest" if self.kind == Kind::GeminiTokens => {
                self.counted_request(cursor)?;
            }
            _ => self.other(name, cursor)?,
        }
        Ok(())
    }

    /// The request whose tokens are counted.
    fn counted_request(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        if cursor.peek() != Some(b'{') {
            return Ok(self.skip(cursor)?);
        }
        cursor.open()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let name = cursor.decoded(key);
            match &*name {
                b"generateContentRequest" => self.skip(cursor)?,
                name => self.member_of_gemini(name, cursor)?,
            }
        }
        Ok(())
    }

    /// Reads a member of a content, a part, or an object within one.
    pub(super) fn member_of_part(
        &mut self,
        name: &[u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Malformed> {
        match &*camel(name) {
            b"args" | b"response" => self.count(cursor, Counted::All),
            b"role" | b"id" | b"mimeType" | b"data" | b"videoMetadata" => self.skip(cursor),
            b"fileUri" if cursor.peek() == Some(b'"') => {
                let uri = cursor.string()?;
                if is_stored(&cursor.decoded(uri)) {
                    self.file(text_of(uri));
                }
                Ok(())
            }
            _ => self.count(cursor, Counted::Blocks),
        }
    }

    fn tools_of_gemini(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Malformed> {
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
                match &*camel(&name) {
                    b"functionDeclarations" => self.count(cursor, Counted::All)?,
                    b"googleSearch" | b"googleSearchRetrieval" => {
                        if cursor.peek() != Some(b'n') {
                            self.found.calls[0] = Calls::Unbounded;
                        }
                        self.skip(cursor)?;
                    }
                    _ => self.skip(cursor)?,
                }
            }
        }
        Ok(())
    }

    fn generation_config(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Invalid> {
        let repeated = |key: &str| Invalid::DuplicateKey { key: key.to_owned() };
        if self.found.generation_config != Member::Absent {
            return Err(repeated("generationConfig"));
        }
        let first = cursor.peek();
        let start = cursor.at();
        if first != Some(b'{') {
            self.skip(cursor)?;
            if first != Some(b'n') {
                return Err(Invalid::Type { param: "generationConfig", expected: "an object" });
            }
            self.found.generation_config = Member::Null(Span { start, end: cursor.at() });
            return Ok(());
        }
        cursor.open()?;
        let (mut first, mut empty, mut has_candidates) = (true, true, false);
        while let Some(key) = cursor.next_key(&mut first)? {
            empty = false;
            let name = cursor.decoded(key);
            match &*camel(&name) {
                b"maxOutputTokens" => {
                    if self.found.limit_members[0] != Member::Absent {
                        return Err(repeated(GEMINI_MAX_TOKENS));
                    }
                    cursor.peek();
                    self.limit(cursor, 0)?;
                }
                b"candidateCount" => {
                    if std::mem::replace(&mut has_candidates, true) {
                        return Err(repeated(CANDIDATES));
                    }
                    self.found.n = self.count_of(cursor, CANDIDATES)?;
                }
                b"responseSchema" | b"responseJsonSchema" => self.count(cursor, Counted::All)?,
                _ => self.skip(cursor)?,
            }
        }
        let end = cursor.at();
        self.found.generation_config = Member::Value(Span { start, end });
        self.found.generation_config_end = Some(ObjectEnd { at: end - 1, empty });
        Ok(())
    }
}

/// Returns whether a file is one that the server keeps, and not one of the web.
fn is_stored(uri: &[u8]) -> bool {
    let has = |part: &[u8]| memchr::memmem::find(uri, part).is_some();
    uri.starts_with(b"files/") || (has(b"googleapis.com") && has(b"/files/"))
}

/// A name without underscores, in the spelling of JSON.
fn camel(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'_') {
        return Cow::Borrowed(name);
    }
    let mut out = Vec::with_capacity(name.len());
    let mut is_next_upper = false;
    for byte in name {
        match byte {
            b'_' => is_next_upper = !out.is_empty(),
            byte if is_next_upper => {
                out.push(byte.to_ascii_uppercase());
                is_next_upper = false;
            }
            byte => out.push(*byte),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::super::Scanned;
    use super::super::edit::Edits;
    use super::super::scan::scan;
    use super::*;
    use bytes::Bytes;

    fn scanned(body: &str) -> Result<Scanned, Invalid> {
        scan(body.as_bytes(), Kind::Gemini)
    }

    #[test]
    fn text_counts_and_data_does_not() {
        for (body, chars) in [
            (r#"{"contents":[{"role":"user","parts":[{"text":"abcd"}]}]}"#, 4),
            (r#"{"contents":"abc"}"#, 3),
            (r#"{"contents":[],"systemInstruction":{"parts":[{"text":"ab"}]}}"#, 2),
            (r#"{"contents":[],"system_instruction":{"parts":[{"text":"ab"}]}}"#, 2),
            (
                r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]}"#,
                0,
            ),
            (
                r#"{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}]}"#,
                0,
            ),
            (
                r#"{"contents":[{"parts":[{"functionCall":{"id":"x","name":"fn","args":{"k":"v"}},"thoughtSignature":"zzz"}]}]}"#,
                7,
            ),
            (
                r#"{"contents":[{"parts":[{"functionResponse":{"name":"fn","response":{"out":"ok"}}}]}]}"#,
                7,
            ),
            (r#"{"contents":[],"tools":[{"functionDeclarations":[{"name":"fn"}]}]}"#, 6),
            (r#"{"contents":[],"model":"other","stream":true,"labels":{"a":"b"}}"#, 0),
        ] {
            let found = scanned(body).unwrap();
            assert_eq!(found.chars, chars, "{body}");
            assert_eq!((found.model, found.stream), (None, false), "{body}");
        }
    }

    #[test]
    fn limits_are_read_in_both_spellings() {
        for body in [
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":9,"candidateCount":2}}"#,
            r#"{"contents":[],"generation_config":{"max_output_tokens":9,"candidate_count":2}}"#,
        ] {
            let found = scanned(body).unwrap();
            assert_eq!((found.output_bound(Kind::Gemini), found.n), (Some(9), Some(2)), "{body}");
        }
        for body in [
            r#"{}"#,
            r#"{"contents":null}"#,
            r#"{"contents":[],"generationConfig":1}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":0}}"#,
            r#"{"contents":[],"generationConfig":{"maxOutputTokens":1,"max_output_tokens":9}}"#,
            r#"{"contents":[],"generationConfig":{},"generation_config":{"maxOutputTokens":9}}"#,
            r#"{"contents":[],"generationConfig":{"candidateCount":1,"candidate_count":9}}"#,
        ] {
            assert!(scanned(body).is_err(), "{body}");
        }
    }

    #[test]
    fn the_limit_is_set_where_the_server_reads_it() {
        for (body, expected) in [
            (r#"{"contents":[]}"#, r#"{"contents":[],"generationConfig":{"maxOutputTokens":7}}"#),
            (
                r#"{"contents":[],"generationConfig":null}"#,
                r#"{"contents":[],"generationConfig":{"maxOutputTokens":7}}"#,
            ),
            (
                r#"{"contents":[],"generationConfig":{}}"#,
                r#"{"contents":[],"generationConfig":{"maxOutputTokens":7}}"#,
            ),
            (
                r#"{"generation_config":{"topP":1},"contents":[]}"#,
                r#"{"generation_config":{"topP":1,"maxOutputTokens":7},"contents":[]}"#,
            ),
            (
                r#"{"contents":[],"generationConfig":{"maxOutputTokens":null}}"#,
                r#"{"contents":[],"generationConfig":{"maxOutputTokens":7}}"#,
            ),
        ] {
            let mut edits = Edits::new();
            edits.set_max_output_tokens_of_gemini(&scanned(body).unwrap(), 7);
            let edited = edits.apply(&Bytes::from(body)).pieces.concat();
            assert_eq!(String::from_utf8(edited).unwrap(), expected);
        }
    }

    #[test]
    fn searches_and_stored_input_are_seen() {
        let body = r#"{"contents":[{"parts":[
            {"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}},
            {"file_data":{"file_uri":"files/b"}},
            {"fileData":{"fileUri":"https://example.com/files/c.pdf"}}
        ]}],"cached_content":"cachedContents/d","tools":[{"google_search":{}}]}"#;
        let found = scanned(body).unwrap();
        assert_eq!(found.calls[0], Calls::Unbounded);
        let ids: Vec<_> = found.file_ids.iter().map(|id| id.read(body.as_bytes())).collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
        assert!(ids.contains(&"cachedContents/d".into()) && ids.contains(&"files/b".into()));
    }

    #[test]
    fn a_count_of_tokens_may_wrap_its_request() {
        let body = br#"{"generateContentRequest":{"model":"models/x","contents":[{"parts":[{"text":"ab"}]}]}}"#;
        assert_eq!(scan(body, Kind::GeminiTokens).unwrap().chars, 2);
    }
}
