//! The note that a compaction leaves in the history about messages that it did not keep: for the
//! model, and for later compactions and reviews, which count them.

use serde_json::Value;

use crate::history;
use crate::port::fragment::{Fragment, Mark};

const OPENING: &str = "<omitted_messages total=\"";
const USERS: &str = "\" from_user=\"";
const CLOSING: &str = "\">";

/// Messages that are left to a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OmittedMessages {
    total: usize,
    /// Those that the user wrote.
    pub(crate) from_user: usize,
}

impl OmittedMessages {
    /// Those that earlier compactions of this history omitted.
    pub(crate) fn in_history<'a>(fragments: impl Iterator<Item = &'a Fragment>) -> Self {
        let none = Self::default();
        fragments.filter_map(read).fold(none, |sum, note| Self {
            total: sum.total.saturating_add(note.total),
            from_user: sum.from_user.saturating_add(note.from_user),
        })
    }

    /// With these messages too.
    pub(crate) fn and(self, dropped: &[Fragment]) -> Self {
        let by_user = dropped.iter().filter(|part| part.effective_mark() == Mark::Kept).count();
        Self { total: self.total + dropped.len(), from_user: self.from_user + by_user }
    }

    /// The note about them, if there are any.
    pub(crate) fn note(self) -> Option<Fragment> {
        let Self { total, from_user } = self;
        let text = format!(
            "{OPENING}{total}{USERS}{from_user}{CLOSING}\nOlder messages are not repeated here; the \
             summary below stands for them.\n</omitted_messages>"
        );
        (total > 0).then(|| Fragment::new(history::message("developer", &text), Mark::Omitted))
    }
}

/// Returns the contents of a note. Only the mark makes a note, which no text of others can have.
fn read(fragment: &Fragment) -> Option<OmittedMessages> {
    if fragment.mark != Mark::Omitted {
        return None;
    }
    let message: Value = serde_json::from_str(&fragment.text).ok()?;
    let text = message["content"][0]["text"].as_str()?;
    let (total, rest) = text.strip_prefix(OPENING)?.split_once(USERS)?;
    let (from_user, _) = rest.split_once(CLOSING)?;
    Some(OmittedMessages { total: total.parse().ok()?, from_user: from_user.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let dropped = [
            Fragment::kept(history::message("user", "Do it.")),
            Fragment::new(history::message("user", "injected"), Mark::Pinned),
        ];
        let omitted = OmittedMessages::default().and(&dropped).and(&dropped[..1]);
        assert_eq!(omitted, OmittedMessages { total: 3, from_user: 2 });
        let note = omitted.note().unwrap();
        assert_eq!(OmittedMessages::in_history([&note].into_iter()), omitted);
        assert_eq!(OmittedMessages::default().note(), None);
    }

    #[test]
    fn text_of_others_is_no_note() {
        let note = OmittedMessages { total: 3, from_user: 2 }.note().unwrap();
        for mark in [Mark::Kept, Mark::Pinned, Mark::Summarized, Mark::Context, Mark::Unknown] {
            let other = Fragment { mark, ..note.clone() };
            let read = OmittedMessages::in_history([&other].into_iter());
            assert_eq!(read, OmittedMessages::default(), "{mark:?}");
        }
        let strange = Fragment { text: "no JSON".into(), ..note };
        assert_eq!(OmittedMessages::in_history([&strange].into_iter()).from_user, 0);
    }
}
