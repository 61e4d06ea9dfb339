//! Text of running items that clients have received and that is not stored: how much there is of each item,
//! and when it is to be stored. To store an item writes all of it, so it is stored in portions.

/// The first portion of an item, in bytes. Each further one is as long as what is stored of the item, so that
/// a long text is not written again for every few of its bytes.
const FIRST_PORTION: usize = 16 * 1024;

/// The text of one running item.
#[derive(Debug, Default)]
pub(crate) struct UnstoredText {
    stored: usize,
    new: usize,
}

/// The text of all running items.
#[derive(Debug, Default)]
pub(crate) struct UnstoredTexts {
    /// True if an item may have text that is not stored.
    is_any: bool,
    /// True if an item has a whole portion of it.
    is_due: bool,
}

/// The items to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portions {
    /// Those with a whole portion of text that is not stored.
    Whole,
    /// Those with any.
    Begun,
}

impl UnstoredText {
    /// Clients receive so many bytes more.
    pub(crate) fn add(&mut self, bytes: usize, texts: &mut UnstoredTexts) {
        self.new += bytes;
        texts.is_any |= bytes > 0;
        texts.is_due |= self.is_due(Portions::Whole);
    }

    /// Returns whether the item is stored now. Then it has no text that is not stored.
    pub(crate) fn take(&mut self, portions: Portions) -> bool {
        let is_due = self.is_due(portions);
        if is_due {
            self.stored += std::mem::take(&mut self.new);
        }
        is_due
    }

    fn is_due(&self, portions: Portions) -> bool {
        match portions {
            Portions::Whole => self.new >= FIRST_PORTION.max(self.stored),
            Portions::Begun => self.new > 0,
        }
    }
}

impl UnstoredTexts {
    /// Returns whether there may be any.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Returns whether an item has a whole portion, which the caller stores.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Returns whether an item may have any, which the caller stores.
    pub(crate) fn take_any(&mut self) -> bool {
        std::mem::take(&mut self.is_any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_double() {
        let (mut text, mut texts) = (UnstoredText::default(), UnstoredTexts::default());
        let mut stored_after = Vec::new();
        for kib in 1..=128 {
            text.add(1024, &mut texts);
            if texts.take_due() && text.take(Portions::Whole) {
                stored_after.push(kib);
            }
        }
        assert_eq!(stored_after, [16, 32, 64, 128]);
        assert!(texts.take_any() && !texts.is_any());
        assert!(!text.take(Portions::Begun), "all of it is stored");
        text.add(1, &mut texts);
        assert!(texts.is_any() && !texts.take_due());
        assert!(text.take(Portions::Begun));
    }
}
