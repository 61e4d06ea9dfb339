//! `/statusline`: which items the status line has, and in which order. The line itself is the preview.

use protocol::{ConfigValueWriteParams, MergeStrategy};
use serde_json::{Value, json};

use crate::app::filling::What;
use crate::app::program::App;
use crate::app::{lists, status};
use crate::ask::{Ask, CheckItem};
use crate::highlight;
use crate::picker::{Picker, Row};
use crate::text::Line;

/// Opens the list of themes.
fn choose_theme(app: &mut App) {
    let row = |name: &str| Row { id: name.to_owned(), title: name.to_owned(), ..Row::default() };
    let mut picker = Picker::fixed("Choose a theme", highlight::theme_names().map(row).collect());
    if let Some(theme) = &app.settings.theme {
        picker.select(theme);
    }
    lists::choose(app, picker, What::Themes);
}

pub(super) fn set_theme(app: &mut App, name: &str) {
    if name.is_empty() {
        return choose_theme(app);
    }
    if let Err(error) = highlight::theme(name) {
        return app.error(&error.to_string());
    }
    app.settings.theme = Some(name.to_owned());
    let params = ConfigValueWriteParams {
        key_path: "tui.theme".to_owned(),
        value: json!(name),
        merge_strategy: MergeStrategy::Replace,
        file_path: None,
        expected_version: None,
    };
    app.call_or_report::<protocol::ConfigValueWrite>(&params, "The theme was not stored");
}

pub(super) fn toggle_raw(app: &mut App, _: &str) {
    app.settings.raw ^= true;
    app.notice(match app.settings.raw {
        true => "Messages are shown without formatting.",
        false => "Messages are shown with formatting.",
    });
}

pub(super) fn choose_status_line(app: &mut App, _: &str) {
    let before = app.settings.status_line.clone();
    let item = |id: &str, is_checked| CheckItem {
        id: id.to_owned(),
        detail: status::detail(id).unwrap_or("unknown to this version").to_owned(),
        is_checked,
    };
    let mut items: Vec<CheckItem> = before.iter().map(|id| item(id, true)).collect();
    let others = status::ITEMS
        .iter()
        .filter(|(id, _)| !before.iter().any(|shown| status::is_same(shown, id)));
    items.extend(others.map(|(id, _)| item(id, false)));
    let facts = vec![Line::plain("The line below is a preview.")];
    let ask = Ask::checklist("The status line", facts, items);
    let preview = |app: &mut App, checked| app.settings.status_line = checked;
    app.open_checklist(ask, preview, move |app, reply| match reply {
        Value::Array(_) => store_status_line(app, reply, before),
        _ => app.settings.status_line = before,
    });
}

fn store_status_line(app: &mut App, items: Value, before: Vec<String>) {
    let values = vec![("tui.status_line".to_owned(), json!(items))];
    app.store_settings(values, |app, stored| match stored {
        Ok(file) => app.info(&format!("Stored: `tui.status_line` in {file}.")),
        Err(why) => {
            app.settings.status_line = before;
            app.error(&format!("The status line was not stored: {why}"));
        }
    });
}
