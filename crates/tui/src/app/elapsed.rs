//! The parts of the screen that change by time alone, while a turn runs (`tui.animations`): a mark
//! and the seconds. Without it, nothing does: a screen reader reads each change aloud.

use crate::app::App;
use crate::palette::Palette;
use crate::text::Style;

/// Milliseconds between two changes.
const BEAT: u64 = 500;
/// The text of the empty composer.
const HINT: &str = "Write what is to be done, or / for commands";
const HINT_IN_TURN: &str = "Enter adds to the turn, Tab sends at its end";

impl App {
    /// When something on the screen changes by time, in milliseconds.
    pub(super) fn beat(&self) -> Option<u64> {
        let turn = self.session.turn.as_ref().filter(|_| self.settings.animations)?;
        Some(self.now + BEAT - self.now.saturating_sub(turn.started_ms) % BEAT)
    }

    /// Returns the elapsed time of something, in milliseconds, where that is shown. `before_ms` is
    /// how long it had lasted when it was first seen.
    pub(super) fn elapsed(&self, started_ms: u64, before_ms: u64) -> Option<u64> {
        let elapsed = || self.now.saturating_sub(started_ms).saturating_add(before_ms);
        self.settings.animations.then(elapsed)
    }

    /// The mark of the running turn: bright and dim in turns.
    pub(super) fn mark_style(&self, started_ms: u64) -> Style {
        match self.elapsed(started_ms, 0) {
            Some(elapsed) if elapsed / BEAT % 2 == 1 => Style { dim: true, ..Palette::ACCENT },
            _ => Palette::ACCENT,
        }
    }

    /// Says in the empty composer what can be written (`tui.show_tooltips`).
    pub(super) fn hint(&mut self) {
        let hint = match (self.settings.tooltips, &self.session.turn) {
            (false, _) => "",
            (true, None) => HINT,
            (true, Some(_)) => HINT_IN_TURN,
        };
        self.composer.set_placeholder(hint);
    }
}
