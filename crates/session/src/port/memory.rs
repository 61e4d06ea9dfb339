//! Notes of earlier threads that the model gets, and what a message cites of them.

use std::ops::RangeInclusive;

/// Longest note in a citation, in characters; the rest is left out.
const MAX_NOTE: usize = 200;
/// Most passages that one message cites; further citations stay in its text.
const MAX_ENTRIES: usize = 50;

/// Notes of earlier threads as the model of a thread gets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNotes {
    /// The files that it may cite.
    pub files: Vec<MemoryFile>,
}

/// A file of notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFile {
    /// Its path below the folder of all notes, with `/`.
    pub path: String,
    /// The lines that the model gets, in the order of the file.
    pub lines: Vec<MemoryLine>,
}

/// A line of a file of notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLine {
    /// Its number, from 1.
    pub number: u32,
    /// Its text, without line breaks.
    pub text: String,
    /// The thread that it came from, where that is known.
    pub thread: Option<String>,
}

/// The citations of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCitation {
    /// The passages, in the order of the message.
    pub entries: Vec<MemoryPassage>,
    /// The threads that they came from, each once.
    pub threads: Vec<String>,
}

/// A cited passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPassage {
    /// See [`MemoryFile::path`].
    pub path: String,
    /// The first and the last line, from 1.
    pub lines: RangeInclusive<u32>,
    /// The model's remark about it; else the first cited line.
    pub note: String,
}

impl MemoryNotes {
    /// Adds the citation `PATH:FIRST-LAST|NOTE` to `citation`; the last line and the note may be left
    /// out. Returns whether it names lines that the model got.
    pub(crate) fn cite(&self, cited: &str, citation: &mut MemoryCitation) -> bool {
        let found = self.passage(cited).filter(|_| citation.entries.len() < MAX_ENTRIES);
        let Some((passage, threads)) = found else { return false };
        for thread in threads {
            if !citation.threads.contains(thread) {
                citation.threads.push(thread.clone());
            }
        }
        if !citation.entries.contains(&passage) {
            citation.entries.push(passage);
        }
        true
    }

    fn passage(&self, cited: &str) -> Option<(MemoryPassage, Vec<&String>)> {
        let (place, note) = match cited.split_once('|') {
            Some((place, note)) => (place, note.trim()),
            None => (cited, ""),
        };
        let (path, lines) = place.trim().rsplit_once(':')?;
        let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
        let lines: RangeInclusive<u32> = first.trim().parse().ok()?..=last.trim().parse().ok()?;
        let file = self.files.iter().find(|file| file.path == path.trim())?;
        let has = |number: u32| file.lines.iter().any(|line| line.number == number);
        if lines.is_empty() || !has(*lines.start()) || !has(*lines.end()) {
            return None;
        }
        let passage = || file.lines.iter().filter(|line| lines.contains(&line.number));
        let text = passage().next().map_or("", |line| line.text.as_str());
        let note = if note.is_empty() { text } else { note };
        let note = note.chars().take(MAX_NOTE).collect();
        let threads = passage().filter_map(|line| line.thread.as_ref()).collect();
        Some((MemoryPassage { path: file.path.clone(), lines, note }, threads))
    }
}
