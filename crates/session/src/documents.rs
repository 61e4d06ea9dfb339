//! Project documents of folders below the working folder: the model gets each of them once, when a
//! call of it works in such a folder, and again when its contents change.
//!
//! The history shows which documents the model has, so that they are known after a restart, in a fork
//! and after a rollback.

use serde_json::Value;

use crate::history;
use crate::port::fragment::{Fragment, Mark};
use crate::port::thread::ProjectDocument;

/// How the text of a document for the model begins; its path follows as JSON.
const BEGIN: &str = "<project_document path=";
/// The same in the JSON of a fragment.
const BEGIN_IN_JSON: &str = "\"<project_document path=";
/// What precedes the document's own text, and what follows it.
const TEXT: &str = "\n\n";
const END: &str = "\n</project_document>";
/// What stands for the rest of a text.
const CUT: &str = "\n[The rest is left out, because project documents have reached \
     `project_doc_max_bytes`: read the file for it.]";

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

/// The part of the history that gives a document to the model within `room` bytes; `None` when there
/// is no room for any of it.
pub(crate) fn fragment(document: &ProjectDocument, room: usize) -> Option<Fragment> {
    let ProjectDocument { path, text } = document;
    let text = text.trim_end();
    let kept = &text[..text.floor_char_boundary(room)];
    if kept.is_empty() {
        return None;
    }
    let folder = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("/"));
    let cut = if kept.len() < text.len() { CUT } else { "" };
    let text = format!(
        "{BEGIN}{}>\nThese instructions hold for {} and the folders below it, and replace what you \
         got of this file before.{TEXT}{kept}{cut}{END}",
        Value::from(path.as_str()),
        Value::from(folder.to_string_lossy()),
    );
    Some(Fragment::new(history::message("user", &text), Mark::Context))
}

/// How much the model has of a document's own text, in bytes.
pub(crate) fn size(fragment: &Fragment) -> usize {
    let Some(text) = text_of(fragment) else { return 0 };
    // The path and the folder are JSON, without line breaks.
    let own = text.split_once(TEXT).map_or(&*text, |(_, own)| own);
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
            let part = fragment(&document(path, "Rules."), 100).unwrap();
            assert_eq!(path_of(&part).as_deref(), Some(path));
        }
        let users = Fragment::kept(history::message("user", "<project_document path=\"/x\">"));
        assert_eq!(path_of(&users), None, "what the user writes is no document");
    }

    #[test]
    fn the_last_version_of_a_document_counts() {
        let parts = [("/a", "1"), ("/b", "2"), ("/a", "3")]
            .map(|(path, text)| fragment(&document(path, text), 10).unwrap());
        let given = given(parts.iter());
        let shown: Vec<_> = given.iter().map(|(path, part)| (path.as_str(), *part)).collect();
        assert_eq!(shown, [("/a", &parts[2]), ("/b", &parts[1])]);
    }

    #[test]
    fn a_document_is_cut_at_a_character_and_says_so() {
        let text = text_of(&fragment(&document("/a", "aüb"), 2).unwrap()).unwrap();
        assert!(text.contains("\n\na\n[The rest is left out"), "{text}");
        for (room, kept) in [(2, 1), (3, 3), (4, 4), (9, 4)] {
            assert_eq!(size(&fragment(&document("/a\n\nb", "aüb"), room).unwrap()), kept);
        }
        assert!(fragment(&document("/a", "üb"), 1).is_none());
        assert!(fragment(&document("/a", " \n"), 10).is_none());
    }
}
