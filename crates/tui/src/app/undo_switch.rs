//! The offer to switch on the record that `/undo` needs for files (`features.undo`), with its measured cost.

use protocol::ExperimentalFeatureEnablementSetParams;
use serde_json::json;

use crate::app::opening;
use crate::app::program::App;
use crate::ask::Offer;
use crate::palette::Palette;
use crate::text::Line;

/// The feature, as the server and the configuration name it.
const FEATURE: &str = "undo";
/// The cost, as docs/undo.md has it measured.
const COST: &str = "Recording takes time: with 10,000 files, half a second in the first turn, then \
    0.04 s per command.";

const FROM_NOW_ON: &str = "record";
const UNTIL_THE_END: &str = "record-now";

/// The lines about files that no turn has recorded.
pub(super) fn facts() -> Vec<Line> {
    vec![
        Line::plain("Files cannot be restored: features.undo is off, so turns record no changes."),
        Line::new(COST, Palette::QUIET),
    ]
}

/// The ways to switch the record on, for the turns that follow.
pub(super) fn offers(app: &App) -> Vec<Offer> {
    let until = match app.environment.server_is_here {
        true => "Record them until this program ends",
        false => "Record them until the server ends",
    };
    vec![
        Offer::new(FROM_NOW_ON, 'f', "Record file changes from now on")
            .with_effect("stored in your configuration; takes effect with the next turn"),
        Offer::new(UNTIL_THE_END, 'u', until).with_effect("takes effect with the next turn"),
    ]
}

/// Switches the record on, if that is what was chosen. Returns whether it is.
pub(super) fn chosen(app: &mut App, way: &str) -> bool {
    match way {
        FROM_NOW_ON => store(app),
        UNTIL_THE_END => switch(app),
        _ => return false,
    }
    true
}

fn store(app: &mut App) {
    let values = vec![(format!("features.{FEATURE}"), json!(true))];
    app.store_settings(values, |app, stored| match stored {
        Ok(file) => {
            app.info(&format!(
                "File changes are recorded from the next turn on (features.undo in {file}). /undo restores \
                 them."
            ));
            opening::read_configuration(app);
        }
        Err(why) => app.error(&format!("It was not stored: {why}")),
    });
}

fn switch(app: &mut App) {
    let enablement = [(FEATURE.to_owned(), true)].into();
    let params = ExperimentalFeatureEnablementSetParams { enablement };
    app.call::<protocol::ExperimentalFeatureEnablementSet>(&params, |app, result| match result {
        Ok(set) if set.enablement.get(FEATURE) == Some(&true) => {
            app.settings.undoes = true;
            app.info("File changes are recorded from the next turn on. /undo restores them.");
        }
        Ok(_) => app.error(
            "It stays off: an administrator's requirements or a configuration source with \
             precedence say so (`agentd config show features.undo`).",
        ),
        Err(error) => app.error(&format!("It was not switched on: {}", error.message)),
    });
}
