//! The ids of objects in the text fields of a form. Servers read a form as the JSON object that its names stand for:
//! `video[id]` is the member `id` of `video`, and a text may be JSON itself. So each field is read by the rules of a
//! JSON body.

use super::scan::scan;
use super::scanned::{Kind, Text};

/// Ids that a form refers to, by the same rules as those of [`crate::Scanned`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormIds {
    /// See [`crate::Scanned::file_ids`].
    pub files: Vec<String>,
    /// See [`crate::Scanned::other_ids`].
    pub others: Vec<String>,
}

impl FormIds {
    /// The ids in a body of the type `application/x-www-form-urlencoded`.
    #[must_use]
    pub fn of_urlencoded(body: &[u8]) -> Self {
        let mut ids = Self::default();
        for field in body.split(|byte| *byte == b'&') {
            let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
            let (name, value) = (&field[..at], field.get(at + 1..).unwrap_or_default());
            ids.add(&String::from_utf8_lossy(&decoded(name)), &decoded(value));
        }
        ids
    }

    /// Adds the ids of the field `name`.
    pub(super) fn add(&mut self, name: &str, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let quoted = serde_json::Value::from(&*text).to_string();
        let is_json = matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['));
        let parsed = if is_json {
            serde_json::from_str::<&serde_json::value::RawValue>(&text).ok()
        } else {
            None
        };
        let value = parsed.map_or(&*quoted, serde_json::value::RawValue::get);
        let body = member(name, value);
        let Ok(scanned) = scan(body.as_bytes(), Kind::Other) else { return };
        let read = |ids: &[Text]| -> Vec<String> {
            ids.iter().map(|id| id.read(body.as_bytes()).into_owned()).collect()
        };
        self.files.extend(read(&scanned.file_ids));
        self.others.extend(read(&scanned.other_ids));
    }
}

/// The bytes of a name or value: a plus is a space, and malformed escapes stay as they are.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let escaped =
            (text[at] == b'%').then(|| Some(digit(at + 1)? << 4 | digit(at + 2)?)).flatten();
        match (escaped.and_then(|byte| u8::try_from(byte).ok()), text[at]) {
            (Some(byte), _) => {
                bytes.push(byte);
                at += 2;
            }
            (None, b'+') => bytes.push(b' '),
            (None, byte) => bytes.push(byte),
        }
        at += 1;
    }
    bytes
}

/// The JSON object of one field: `a[b][]` is the member `b`, a list, of the member `a`.
fn member(name: &str, value: &str) -> String {
    let (mut open, mut close) = (String::new(), String::new());
    for (at, word) in name.split(['[', '.']).enumerate() {
        let word = word.trim_end_matches(']');
        let is_place = at > 0 && word.bytes().all(|byte| byte.is_ascii_digit());
        let (begin, end) = match is_place {
            true => ("[".to_owned(), ']'),
            false => (format!("{{{}:", serde_json::Value::from(word)), '}'),
        };
        open.push_str(&begin);
        close.insert(0, end);
    }
    format!("{open}{value}{close}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_refer_to_objects_as_members_of_json_do() {
        for (name, value, files, others) in [
            ("file_id", "file-1", &["file-1"][..], &[][..]),
            ("image[file_id]", "file-1", &["file-1"], &[]),
            ("images[0][file_id]", "file-1", &["file-1"], &[]),
            ("image.file_id", "file-1", &["file-1"], &[]),
            ("file_ids[]", "file-1", &["file-1"], &[]),
            ("file_ids", "[\"file-1\", \"file-2\"]", &["file-1", "file-2"], &[]),
            ("images", "[{\"file_id\": \"file-1\"}]", &["file-1"], &[]),
            ("video", "video_1", &[], &["video_1"]),
            ("video[id]", "video_1", &[], &["video_1"]),
            ("video", " {\"id\": \"video_1\"}", &[], &["video_1"]),
            ("video_id", "video_1", &[], &["video_1"]),
            ("container", "{\"file_ids\": [\"file-1\"], \"id\": \"c\"}", &["file-1"], &["c"]),
            ("source", "{\"type\": \"file_id\", \"id\": \"file-1\"}", &["file-1"], &[]),
            ("prompt", "file_id", &[], &[]),
            ("file_id", "{not json", &["{not json"], &[]),
            ("metadata[file_id]", "file-1", &[], &[]),
            ("a\"[b", "x", &[], &[]),
        ] {
            let mut found = FormIds::default();
            found.add(name, value.as_bytes());
            assert_eq!(
                (&*found.files, &*found.others),
                (&*owned(files), &*owned(others)),
                "{name} {value}"
            );
        }
    }

    #[test]
    fn fields_of_a_query_are_decoded() {
        let found =
            FormIds::of_urlencoded(b"a=b&file%5Fid=file%2D1&video%5bid%5d=video+1&%zz=%&file_id");
        assert_eq!((found.files, found.others), (owned(&["file-1", ""]), owned(&["video 1"])));
    }

    fn owned(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }
}
