//! Project documents of folders below the working folder: the model gets each of them once, when a
//! call of it works in such a folder, and again when its contents change. It learns of one that is gone, and
//! of one that has no room.
//!
//! The history shows which documents the model has, so that they are known after a restart, in a fork
//! and after a rollback.

use serde_json::Value;

use crate::history;
use crate::port::fragment::{Fragment, Mark};
use crate::port::thread::ProjectDocument;

/// The beginning of a document's text for the model; its path follows as JSON.
const BEGIN: &str = "<project_document path=";
/// The same in the JSON of a fragment.
const BEGIN_IN_JSON: &str = "\"<project_document path=";
/// The text before the document's own text, and the text after it.
const TEXT: &str = "\n\n";
const END: &str = "\n</project_document>";
/// The substitute for the rest of a text.
const CUT: &str = "\n[The rest is left out, because project documents have reached \
     `project_doc_max_bytes`: read the file for it.]";

/// The substitute for a whole document.
const GONE: &str = "This file is gone or empty: what you got of it before no longer holds.";
const NO_ROOM: &str = "This file also holds for its folder and those below it, and is left out, because project \
     documents have reached `project_doc_max_bytes`: read the file.";

/// A part of the history about a document.
pub(crate) struct DocumentPart {
    pub(crate) fragment: Fragment,
    /// True if the model does not get all of it, because there is no room.
    pub(crate) is_cut: bool,
}

/// The documents among parts of a history, in the order of their first part: each with its last one.
pub(crate) fn given<'h>(parts: impl Iterator<Item = &'h Fragment>) -> Vec<(String, &'h Fragment)> {
    let mut found: Vec<(String, &Fragment)> = Vec::new();
    for part in parts {
        let Some(path) = path_of(part) else { continue };
        match found.iter_mut().find(|(known, _)| *known == path) {
            Some((_, last)) => *last = part,
            None => found.push((path, part)),
        }
    }
    found
}

/// The part of the history that gives a document to the model within `room` bytes, or says that there is none.
pub(crate) fn part(document: &ProjectDocument, room: usize) -> DocumentPart {
    let ProjectDocument { path, text } = document;
    let text = text.trim_end();
    let kept = &text[..text.floor_char_boundary(room)];
    let is_cut = kept.len() < text.len();
    if kept.is_empty() {
        let instead = if is_cut { NO_ROOM } else { GONE };
        let text = format!("{BEGIN}{}>\n{instead}{END}", Value::from(path.as_str()));
        let fragment = Fragment::new(history::message("user", &text), Mark::Context);
        return DocumentPart { fragment, is_cut };
    }
    let folder = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("/"));
    let cut = if is_cut { CUT } else { "" };
    let text = format!(
        "{BEGIN}{}>\nThese instructions hold for {} and the folders below it, and replace what you \
         got of this file before.{TEXT}{kept}{cut}{END}",
        Value::from(path.as_str()),
        Value::from(folder.to_string_lossy()),
    );
    DocumentPart { fragment: Fragment::new(history::message("user", &text), Mark::Context), is_cut }
}

/// Returns the number of bytes of a document's own text that the model has; 0 for one that is gone
/// or has no room.
pub(crate) fn size(fragment: &Fragment) -> usize {
    let Some(text) = text_of(fragment) else { return 0 };
    // The path and the folder are JSON, without line breaks.
    let own = text.split_once(TEXT).map_or("", |(_, own)| own);
    let own = own.strip_suffix(END).unwrap_or(own);
    own.strip_suffix(CUT).unwrap_or(own).len()
}

fn path_of(fragment: &Fragment) -> Option<String> {
    let text = text_of(fragment)?;
    let path = serde_json::Deserializer::from_str(text.strip_prefix(BEGIN)?);
    path.into_iter().next()?.ok()
}

fn text_of(fragment: &Fragment) -> Option<String> {
    // Most parts are something else, and some are large.
    if fragment.mark != Mark::Context || !fragment.text.contains(BEGIN_IN_JSON) {
        return None;
    }
    let message: Value = serde_json::from_str(&fragment.text).ok()?;
    message["content"][0]["text"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> ProjectDocument {
        ProjectDocument { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn paths_are_read_back_from_the_history() {
        for path in
            ["/w/a/AGENTS.md", "/w/a \"b\"/AGENTS.md", "/w/<x>\n\\/AGENTS.md", "/ü/NOTES.md"]
        {
            let part = part(&document(path, "Rules."), 100).fragment;
            assert_eq!(path_of(&part).as_deref(), Some(path));
        }
        let users = Fragment::kept(history::message("user", "<project_document path=\"/x\">"));
        assert_eq!(path_of(&users), None, "what the user writes is no document");
    }

    #[test]
    fn the_last_version_of_a_document_counts() {
        let parts = [("/a", "1"), ("/b", "2"), ("/a", "3")]
            .map(|(path, text)| part(&document(path, text), 10).fragment);
        let given = given(parts.iter());
        let shown: Vec<_> = given.iter().map(|(path, part)| (path.as_str(), *part)).collect();
        assert_eq!(shown, [("/a", &parts[2]), ("/b", &parts[1])]);
    }

    #[test]
    fn a_document_is_cut_at_a_character_and_says_so() {
        let text = text_of(&part(&document("/a", "aüb"), 2).fragment).unwrap();
        assert!(text.contains("\n\na\n[The rest is left out"), "{text}");
        for (room, kept) in [(2, 1), (3, 3), (4, 4), (9, 4)] {
            let part = part(&document("/a\n\nb", "aüb"), room);
            assert_eq!((size(&part.fragment), part.is_cut), (kept, kept < 4));
        }
    }

    #[test]
    fn a_document_without_room_or_text_is_named_and_takes_no_room() {
        for (text, room, is_cut, said) in [
            ("üb", 1, true, "is left out"),
            ("a", 0, true, "is left out"),
            (" \n", 10, false, "is gone"),
        ] {
            let part = part(&document("/a\n\nb", text), room);
            assert_eq!((size(&part.fragment), part.is_cut), (0, is_cut));
            assert_eq!(path_of(&part.fragment).as_deref(), Some("/a\n\nb"));
            assert!(text_of(&part.fragment).unwrap().contains(said));
        }
    }
}
