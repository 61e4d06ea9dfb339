//! The keys of Vi: switched on and off by `/vim`, for this session, and their mode on the screen.

use crate::app::program::App;
use crate::composer::Mode;
use crate::palette::Palette;
use crate::text::{Line, Style};

pub(super) fn toggle_vi(app: &mut App, _: &str) {
    let on = app.writing.composer().mode().is_none();
    app.writing.composer_mut().set_vi(on);
    app.notice(match on {
        true => "Vi keys, until the program ends: Esc for commands, i to insert text.",
        false => "Emacs keys.",
    });
}

/// The status line with the mode of the Vi keys before its items.
pub(super) fn with_mode(app: &App, status: Option<Line>) -> Option<Line> {
    let mode = match app.writing.composer().mode() {
        None => return status,
        Some(Mode::Insert) => "INSERT",
        Some(Mode::Normal) => "NORMAL",
    };
    let mut line = Line::new("  ", Style::PLAIN).with(mode, Palette::ACCENT);
    if let Some(status) = status {
        line.push(" ·", Palette::QUIET);
        let mut spans = status.spans;
        if let Some(first) = spans.first_mut() {
            *first = crate::text::Span::new(
                first.text().strip_prefix(' ').unwrap_or(first.text()).to_owned(),
                first.style(),
            );
        }
        line.spans.append(&mut spans);
    }
    Some(line)
}
