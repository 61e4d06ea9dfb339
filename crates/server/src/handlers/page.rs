//! The number of rows on a page of a list: one rule for every method with a `limit`.

/// Rows of a page of one list.
#[derive(Clone, Copy)]
pub(crate) struct PageSize {
    /// When the client names no number, or 0.
    pub(crate) default: u32,
    /// However many the client asks for.
    pub(crate) max: u32,
}

/// Of lists whose rows are objects.
pub(crate) const PAGE: PageSize = PageSize { default: 25, max: 100 };

impl PageSize {
    /// Rows of the page that a client asks for: the default for no number and for 0, the maximum
    /// for anything above it.
    pub(crate) fn rows(self, limit: Option<u32>) -> u32 {
        match limit {
            None | Some(0) => self.default,
            Some(limit) => limit.min(self.max),
        }
    }
}
