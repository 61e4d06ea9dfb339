//! The lines that structure a patch: `*** Begin Patch`, `*** Update File: …` and the like, as
//! models write them. Recognised in any letter case, with any white space before, between and
//! after the words, and with stars at the end as well: `*** Begin Patch ***`.

pub(crate) const BEGIN: &str = "*** Begin Patch";
pub(crate) const END: &str = "*** End Patch";
pub(crate) const ADD: &str = "*** Add File:";
pub(crate) const DELETE: &str = "*** Delete File:";
pub(crate) const UPDATE: &str = "*** Update File:";
pub(crate) const MOVE: &str = "*** Move to:";
pub(crate) const END_OF_FILE: &str = "*** End of File";

/// A line that structures a patch. Paths are trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker<'a> {
    Begin,
    End,
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    Move(&'a str),
    EndOfFile,
    /// `@@` and the text after it.
    Hunk(&'a str),
}

impl Marker<'_> {
    /// Returns whether a patch may begin with it. Some models leave out the first line.
    pub(crate) fn begins_patch(self) -> bool {
        matches!(self, Self::Begin | Self::Add(_) | Self::Delete(_) | Self::Update(_))
    }
}

/// The marker on `line`, ignoring surrounding white space.
pub(crate) fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim();
    if let Some(text) = line.strip_prefix("@@") {
        return Some(Marker::Hunk(text));
    }
    let words = line.strip_prefix("***")?.trim_start_matches('*').trim_start();
    let path_after = |marker: &str| after(words, marker).map(path);
    // Quotes at the end belong to the shell argument that contained the patch.
    let plain = words.trim_end_matches(['\'', '"', '`', '*', ':', ' ', '\t']);
    let is = |marker: &str| after(plain, marker).is_some_and(str::is_empty);
    if is(BEGIN) {
        return Some(Marker::Begin);
    }
    if is(END) {
        return Some(Marker::End);
    }
    if is(END_OF_FILE) {
        return Some(Marker::EndOfFile);
    }
    path_after(ADD)
        .map(Marker::Add)
        .or_else(|| path_after(DELETE).map(Marker::Delete))
        .or_else(|| path_after(UPDATE).map(Marker::Update))
        .or_else(|| path_after(MOVE).map(Marker::Move))
}

/// The path of a marker, without the stars that close the marker: ` ***`, after a blank.
fn path(text: &str) -> &str {
    let text = text.trim();
    let open = text.trim_end_matches('*');
    let closes = text.len() - open.len() >= 3 && (open.is_empty() || open.ends_with([' ', '\t']));
    if closes { open.trim_end() } else { text }
}

/// The rest of `text` after the words of `marker`.
fn after<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let mut rest = text;
    for word in marker.split(' ').skip(1) {
        let start = rest.trim_start();
        let head = start.get(..word.len())?;
        if !head.eq_ignore_ascii_case(word) {
            return None;
        }
        rest = &start[word.len()..];
    }
    Some(rest)
}

/// The anchor in the text after `@@`, a line that must precede the hunk. The line numbers of a
/// unified diff are ignored.
pub(crate) fn anchor(text: &str) -> Option<&str> {
    let mut text = text.trim();
    if text.starts_with('-') && text.contains(" @@") {
        text = text.split_once(" @@").map_or("", |(_, rest)| rest).trim();
    } else if text.starts_with('-') && text.ends_with("@@") {
        text = "";
    }
    (!text.is_empty() && text != "@@").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_recognised() {
        for (line, expected) in [
            ("*** Begin Patch", Some(Marker::Begin)),
            ("\t*** begin  patch \r", Some(Marker::Begin)),
            ("*** End Patch'", Some(Marker::End)),
            ("***End Patch", Some(Marker::End)),
            ("*** End of File ", Some(Marker::EndOfFile)),
            ("*** End of Files", None),
            ("*** Begin Patch ***", Some(Marker::Begin)),
            ("*** Begin Patch:", Some(Marker::Begin)),
            ("*** End Patch:", Some(Marker::End)),
            ("***BEGIN PATCH***", Some(Marker::Begin)),
            ("***** Begin Patch *****", Some(Marker::Begin)),
            ("*** End Patch ***'", Some(Marker::End)),
            ("*** end of file ***", Some(Marker::EndOfFile)),
            ("*** Update File: a b ***", Some(Marker::Update("a b"))),
            ("*** Delete File: ***", Some(Marker::Delete(""))),
            ("*** Move to: src/*** ", Some(Marker::Move("src/***"))),
            ("*** Add File: a **", Some(Marker::Add("a **"))),
            ("*** Begin Patch now ***", None),
            ("  *** Update File:  a b ", Some(Marker::Update("a b"))),
            ("*** update file: a", Some(Marker::Update("a"))),
            ("*** Add File:é", Some(Marker::Add("é"))),
            ("*** Delete File:", Some(Marker::Delete(""))),
            ("*** Move to: c", Some(Marker::Move("c"))),
            ("*** Move é", None),
            ("*** Update", None),
            ("** Update File: a", None),
            ("@@", Some(Marker::Hunk(""))),
            ("@@ x", Some(Marker::Hunk(" x"))),
            ("", None),
        ] {
            assert_eq!(marker(line), expected, "{line:?}");
        }
    }

    #[test]
    fn anchors_follow_line_numbers() {
        for (text, expected) in [
            ("", None),
            (" @@", None),
            (" fn x", Some("fn x")),
            (" -1,2 +1,2 @@", None),
            (" -1,2 +1,2 @@ fn x", Some("fn x")),
            (" - item", Some("- item")),
        ] {
            assert_eq!(anchor(text), expected, "{text:?}");
        }
    }
}
