//! Colours of code.

use crate::context::Context;
use crate::palette::Palette;
use crate::text::Span;

/// A code block that is written line by line.
#[derive(Clone, Debug, Default)]
pub struct Code {}

impl Code {
    /// A block in a language.
    #[must_use]
    pub fn new(_language: &str, _context: &Context) -> Self {
        Self {}
    }

    /// The next line.
    pub fn line(&mut self, line: &str) -> Vec<Span> {
        vec![Span::new(line.to_owned(), Palette::CODE)]
    }
}
