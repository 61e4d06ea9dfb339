//! The parts of the screen that change by time alone, while a turn runs (`tui.animations`): a mark
//! and the seconds. Without it, nothing does: a screen reader reads each change aloud.

use crate::app::program::App;
use crate::cells;
use crate::palette::Palette;
use crate::session::Retry;
use crate::text::Style;

/// Milliseconds between two changes.
const BEAT: u64 = 500;
/// The hint in the empty composer.
const HINT: &str = "Describe a task, or / for commands";
const HINT_IN_TURN: &str = "Enter adds to the turn, Tab sends at its end";

/// When something on the screen changes by time, in milliseconds.
pub(super) fn beat(app: &App) -> Option<u64> {
    let turn = app.session.turn.as_ref().filter(|_| app.settings.animations)?;
    Some(app.now + BEAT - app.now.saturating_sub(turn.started_ms) % BEAT)
}

/// The wait before the next attempt, in words: it counts down where that is shown.
pub(super) fn until_retry(app: &App, retry: &Retry) -> String {
    let attempt = match retry.attempt {
        Some((attempt, all)) => format!(" (attempt {attempt} of {all})"),
        None => String::new(),
    };
    let left = match (retry.begins_ms, app.settings.animations) {
        (Some(begins), true) => begins.saturating_sub(app.now),
        _ => retry.wait_ms,
    };
    match left.div_ceil(1_000) {
        0 => format!("Trying again{attempt}"),
        _ if left > 99_000 => {
            format!("Trying again in {}{attempt}", cells::duration(left.div_ceil(1_000) * 1_000))
        }
        seconds => format!("Trying again in {seconds} s{attempt}"),
    }
}

/// The mark of the running turn: bright and dim in turns.
pub(super) fn mark_style(app: &App, started_ms: u64) -> Style {
    match app.elapsed(started_ms, 0) {
        Some(elapsed) if elapsed / BEAT % 2 == 1 => Palette::QUIET,
        _ => Palette::ACCENT,
    }
}

/// Says in the empty composer what can be written (`tui.show_tooltips`).
pub(super) fn hint(app: &mut App) {
    let hint = match (app.settings.tooltips, &app.session.turn) {
        (false, _) => "",
        (true, None) => HINT,
        (true, Some(_)) => HINT_IN_TURN,
    };
    app.writing.composer_mut().set_placeholder(hint);
}
